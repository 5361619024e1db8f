//! Compares this engine with JAX: both losses by automatic differentiation, and SKDS by a closed form.
//!
//! `benches/peers/peer.py` is embedded in the program and runs in a Python that has JAX. Both sides read the same numbers from a
//! file. Their values and gradients must agree before anything is timed. Then they run in turns.

use super::timing::{Contender, Effort, Ratio, race};
use super::{Case, Measurement, random_problem};
use crate::data::{Array, write_arrays};
use crate::engine::{Engine, Loss, Place, cpu::CpuEngine};
use crate::kernel::KernelKind;
use crate::model::Parameters;
use crate::objective::{Estimator, Objective};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const SCRIPT: &str = include_str!("../../benches/peers/peer.py");
const REQUIREMENTS: &str = "benches/peers/requirements.txt";

/// The largest difference of values and gradients, relative to the largest entry: both sides compute in f32, where the sum over all pairs cancels.
const TOLERANCE: f64 = 2e-3;

/// How a peer computes the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// By automatic differentiation of the definitions.
    Autodiff,
    /// By a closed form (SKDS with RBF only).
    Closed,
}

impl Peer {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Peer::Autodiff => "autodiff",
            Peer::Closed => "closed",
        }
    }
}

/// This engine and a peer on one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeerTimes {
    /// "autodiff" or "closed".
    pub peer: &'static str,
    /// The time of this engine.
    pub ours: Measurement,
    /// The time of the peer.
    pub theirs: Measurement,
    /// The peer's time divided by ours: how many times as fast this engine is.
    pub ratio: Ratio,
    /// The largest relative difference of value and gradients.
    pub error: f64,
    /// The time of the peer's compiler in seconds.
    pub compile_seconds: f64,
}

/// The cases to compare.
pub fn cases(quick: bool) -> Vec<(Peer, Case)> {
    let kds = |d| Case {
        objective: Objective::Kds,
        kernel: KernelKind::Rbf,
        estimator: Estimator::Linear,
        n: 512,
        d,
    };
    let linear = |d| Case::skds(Estimator::Linear, 512, d);
    let all = |n, d| Case::skds(Estimator::U, n, d);
    if quick {
        return vec![(Peer::Closed, linear(20)), (Peer::Closed, all(1000, 20)), (Peer::Autodiff, linear(20))];
    }
    let closed = [20, 100, 200, 500, 1000, 2000].map(linear).into_iter();
    let closed = closed.chain([(1000, 20), (1000, 200), (4000, 20), (4000, 200)].map(|(n, d)| all(n, d)));
    let autodiff = [linear(20), linear(50), linear(100), linear(200), all(256, 20), kds(20), kds(50)];
    closed.map(|case| (Peer::Closed, case)).chain(autodiff.map(|case| (Peer::Autodiff, case))).collect()
}

/// A running Python with JAX.
pub struct Python {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// The versions of JAX and Python and the device, for reports.
    pub description: String,
    _folder: tempfile::TempDir,
}

#[derive(Deserialize)]
struct Hello {
    jax: String,
    python: String,
    device: String,
}

#[derive(Deserialize)]
struct Loaded {
    error: f64,
    compile_seconds: f64,
}

#[derive(Deserialize)]
struct Ran {
    seconds: Vec<f64>,
}

#[derive(Deserialize)]
struct PeerFailure {
    problem: String,
}

impl Python {
    /// Starts `program`, a Python that has JAX.
    pub fn start(program: &Path) -> Result<Self> {
        let wrong = |problem: String| {
            Error::invalid(format!(
                "cannot measure with {}: {problem}; expected a Python with JAX, for example after 'pip install -r {REQUIREMENTS}'",
                program.display()
            ))
        };
        let folder = tempfile::tempdir().map_err(|error| wrong(error.to_string()))?;
        let script = folder.path().join("peer.py");
        std::fs::write(&script, SCRIPT).map_err(|error| wrong(error.to_string()))?;
        let mut child = Command::new(program)
            .arg(&script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| wrong(error.to_string()))?;
        let orders = child.stdin.take().expect("it was piped");
        let mut answers = BufReader::new(child.stdout.take().expect("it was piped"));
        let mut line = String::new();
        let hello = match answers.read_line(&mut line) {
            Ok(read) if read > 0 => serde_json::from_str::<Hello>(&line).map_err(|error| error.to_string()),
            _ => {
                let output = child.wait_with_output().map_err(|error| wrong(error.to_string()))?;
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(wrong(said.lines().last().unwrap_or("it said nothing").to_owned()));
            }
        };
        let Hello { jax, python, device } = hello.map_err(wrong)?;
        let description = format!("JAX {jax}, Python {python}, {device}");
        Ok(Python { child, orders, answers, description, _folder: folder })
    }

    fn ask<A: for<'a> Deserialize<'a>>(&mut self, order: &serde_json::Value) -> Result<A> {
        let mut line = String::new();
        let answered = writeln!(self.orders, "{order}")
            .and_then(|()| self.orders.flush())
            .and_then(|()| self.answers.read_line(&mut line));
        if let Err(error) = answered {
            return Err(Error::invalid(format!("the peer has stopped: {error}")));
        }
        if let Ok(PeerFailure { problem }) = serde_json::from_str(&line) {
            return Err(Error::invalid(format!("the peer failed: {problem}")));
        }
        serde_json::from_str(&line)
            .map_err(|error| Error::invalid(format!("the peer answered '{}': {error}", line.trim())))
    }

    /// Compares one case: values first, then times.
    pub fn compare(&mut self, peer: Peer, case: Case, effort: Effort) -> Result<PeerTimes> {
        let (data, parameters) = random_problem(case.n, case.d);
        let mut loss: Box<dyn Loss<f32>> = CpuEngine.load(&data, &case.spec()?)?;
        let mut gradient = parameters.zeros_like();
        let value = loss.evaluate(&parameters, Some(&mut gradient))?;
        let file = self._folder.path().join("problem.npz");
        write_problem(&file, data.samples(), &parameters, value, &gradient)?;
        let order = json!({
            "load": file, "id": "case", "peer": peer.name(), "objective": case.objective.name(),
            "kernel": case.kernel.name(), "estimator": case.estimator.name(), "bandwidth": case.bandwidth(),
        });
        let Loaded { error, compile_seconds } = self.ask(&order)?;
        if error.is_nan() || error > TOLERANCE {
            return Err(Error::Mismatch(format!(
                "{} by {} differs by {error:.1e} of the largest entry, expected at most {TOLERANCE:.0e}: their times would not be comparable",
                case.name(),
                peer.name()
            )));
        }
        let python = RefCell::new(&mut *self);
        let mut contenders = [
            Contender::new(case.name(), || loss.evaluate(&parameters, Some(&mut gradient))),
            Contender::timed(format!("{}, {}", peer.name(), case.name()), |times| {
                let Ran { seconds } = python.borrow_mut().ask(&json!({ "run": "case", "times": times }))?;
                Ok(seconds)
            }),
        ];
        let timings = race(&mut contenders, effort)?;
        drop(contenders);
        self.ask::<serde_json::Value>(&json!({ "forget": true }))?;
        let record = |k: usize| Measurement::of("peers", &Place::Cpu, &case, &timings[k]);
        Ok(PeerTimes {
            peer: peer.name(),
            ours: record(0),
            theirs: Measurement { device: format!("jax {}", peer.name()), ..record(1) },
            ratio: timings[1].over(&timings[0]),
            error,
            compile_seconds,
        })
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        // Nothing is left to ask it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write_problem(
    path: &Path,
    samples: &crate::Matrix<f64>,
    parameters: &Parameters<f32>,
    value: f64,
    gradient: &Parameters<f32>,
) -> Result<()> {
    let (parameters, gradient): (Parameters<f64>, Parameters<f64>) = (parameters.cast(), gradient.cast());
    let parts = |of: &Parameters<f64>| -> Result<_> {
        let weights = of.drift.linear_weights()?.as_slice().to_vec();
        Ok((weights, of.biases.clone(), of.noise.log_noise()?.to_vec()))
    };
    let ((w, b, s), (grad_w, grad_b, grad_s)) = (parts(&parameters)?, parts(&gradient)?);
    let d = samples.cols();
    let array = |name, shape: Vec<usize>, values| Array { name, shape, values };
    write_arrays(
        path,
        &[
            array("x", vec![samples.rows(), d], samples.as_slice()),
            array("w", vec![d, d], &w),
            array("b", vec![d], &b),
            array("s", vec![d], &s),
            array("loss", vec![1], &[value]),
            array("grad_w", vec![d, d], &grad_w),
            array("grad_b", vec![d], &grad_b),
            array("grad_s", vec![d], &grad_s),
        ],
    )
}

/// The table as text.
pub fn text(description: &str, rows: &[PeerTimes]) -> String {
    let mut lines = vec![
        format!("value and gradient in ms, f32, linear model, CPU; peers: {description}"),
        format!(
            "{:<34}{:>12}{:>12}{:>12}{:>22}{:>10}",
            "", "peer", "skds", "peer's", "times as fast", "agree to"
        ),
    ];
    for PeerTimes { peer, ours, theirs, ratio: Ratio { median, low, high }, error, .. } in rows {
        let decimals = if *median < 10.0 { 2 } else { 0 };
        let ratio = format!("{median:.decimals$} ({low:.decimals$} … {high:.decimals$})");
        lines.push(format!(
            "{:<34}{peer:>12}{:>12.4}{:>12.4}{ratio:>22}{error:>10.0e}",
            ours.what, ours.median_ms, theirs.median_ms
        ));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_no_python_with_jax_is_refused_in_a_sentence() {
        for (program, piece) in [("/no/such/python", "No such file"), ("false", "it said nothing")] {
            let error = Python::start(Path::new(program)).err().expect("no peer").to_string();
            assert!(error.contains(piece) && error.contains("pip install -r"), "{error}");
        }
    }

    #[test]
    fn every_case_is_one_that_its_peer_has() {
        for quick in [true, false] {
            for (peer, case) in cases(quick) {
                let plain = (case.objective, case.kernel) == (Objective::Skds, KernelKind::Rbf);
                assert!(peer == Peer::Autodiff || plain, "{}", case.name());
            }
        }
    }
}
