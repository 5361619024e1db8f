//! The peak memory of a computation, measured in a process of its own.

use super::{Case, random_problem, training};
use crate::engine::cpu::CpuEngine;
use crate::engine::{Engine, Loss, Place};
use crate::model::PenaltyKind;
use crate::objective::Estimator;
use crate::{Error, Result, program};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// A computation whose memory is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MemoryWorkload {
    /// Training steps of a linear model on batches of 512 rows.
    Training {
        /// The number of variables.
        d: usize,
    },
    /// One evaluation of SKDS over all pairs, with its gradient.
    AllPairs {
        /// The number of samples.
        n: usize,
        /// The number of variables.
        d: usize,
    },
}

/// The computations of a full report.
pub const FULL_WORKLOADS: [MemoryWorkload; 2] =
    [MemoryWorkload::Training { d: 2000 }, MemoryWorkload::AllPairs { n: 50_000, d: 20 }];
/// The computations of a quick report.
pub const QUICK_WORKLOADS: [MemoryWorkload; 2] =
    [MemoryWorkload::Training { d: 2000 }, MemoryWorkload::AllPairs { n: 4000, d: 20 }];

/// The memory of a computation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// The computation.
    pub what: String,
    /// The peak of resident memory.
    pub peak_bytes: u64,
    /// Resident memory before the computation began: the program itself.
    pub program_bytes: u64,
    /// The memory that the computation needs at least: parameters and Adam's moments, or samples, drift and its derivative.
    pub state_bytes: u64,
    /// The time it took.
    pub seconds: f64,
}

impl std::fmt::Display for MemoryWorkload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MemoryWorkload::Training { d } => write!(f, "training:{d}"),
            MemoryWorkload::AllPairs { n, d } => write!(f, "all-pairs:{n}:{d}"),
        }
    }
}

impl std::str::FromStr for MemoryWorkload {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let size = |text: &str| text.parse::<usize>().ok().filter(|size| *size > 1);
        let found = match parts[..] {
            ["training", d] => size(d).map(|d| MemoryWorkload::Training { d }),
            ["all-pairs", n, d] => size(n).zip(size(d)).map(|(n, d)| MemoryWorkload::AllPairs { n, d }),
            _ => None,
        };
        found.ok_or_else(|| {
            Error::invalid(format!(
                "found '{text}', expected training:D or all-pairs:N:D, like training:2000"
            ))
        })
    }
}

/// Measures in a new process of this program, which must run [`measure`] for `bench --memory-of WORKLOAD`.
pub fn in_new_process(workload: MemoryWorkload) -> Result<Memory> {
    let run = || -> std::io::Result<std::process::Output> {
        program::command(&program::words()?).args(["bench", "--memory-of", &workload.to_string()]).output()
    };
    let output = run().map_err(|error| Error::invalid(format!("cannot measure memory: {error}")))?;
    match serde_json::from_slice(&output.stdout) {
        Ok(memory) if output.status.success() => Ok(memory),
        _ => Err(Error::invalid(format!(
            "cannot measure memory: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
}

/// Measures in this process, which should have done nothing else before.
pub fn measure(workload: MemoryWorkload) -> Result<Memory> {
    let unknown = || {
        Error::invalid("cannot read the resident memory of this process: expected Linux's /proc/self/status")
    };
    let before = resident("VmRSS:").ok_or_else(unknown)?;
    let start = Instant::now();
    let (what, state_bytes) = match workload {
        MemoryWorkload::Training { d } => {
            let mut training = training::random_training(&Place::Cpu, d, 0, Some(PenaltyKind::Both))?;
            for _ in 0..5 {
                training.step()?;
            }
            training.standing()?;
            (format!("training, d = {d}, batch 512"), 3 * 4 * (d * d + 2 * d))
        }
        MemoryWorkload::AllPairs { n, d } => {
            let (data, parameters) = random_problem(n, d);
            let mut loss: Box<dyn Loss<f32>> =
                CpuEngine.load(&data, &Case::skds(Estimator::U, n, d).spec()?)?;
            loss.evaluate(&parameters, Some(&mut parameters.zeros_like()))?;
            (format!("all pairs, n = {n}, d = {d}"), 3 * 4 * n * d)
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    let peak_bytes = resident("VmHWM:").ok_or_else(unknown)?;
    Ok(Memory { what, peak_bytes, program_bytes: before, state_bytes: state_bytes as u64, seconds })
}

/// A value of `/proc/self/status`, in bytes.
fn resident(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(1024 * line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?)
}

/// The table as text.
pub fn text(found: &[Memory]) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let mut lines = vec![format!(
        "{:<32}{:>10}{:>10}{:>10}{:>12}",
        "memory in MiB", "peak", "program", "state", "peak/state"
    )];
    for Memory { what, peak_bytes, program_bytes, state_bytes, seconds } in found {
        lines.push(format!(
            "{what:<32}{:>10.1}{:>10.1}{:>10.1}{:>12.1}   in {seconds:.2} s",
            mib(*peak_bytes),
            mib(*program_bytes),
            mib(*state_bytes),
            *peak_bytes as f64 / *state_bytes as f64
        ));
    }
    lines.push(
        "state: parameters and Adam's moments; for all pairs, the samples, the drift and its derivative"
            .into(),
    );
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_read_as_they_are_written() {
        for workload in FULL_WORKLOADS {
            assert_eq!(workload.to_string().parse::<MemoryWorkload>().unwrap(), workload);
        }
        assert!(
            ["", "training", "training:0", "all-pairs:5"]
                .iter()
                .all(|text| text.parse::<MemoryWorkload>().is_err())
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn peaks_are_at_least_what_has_to_be_there() {
        let found = measure(MemoryWorkload::Training { d: 300 }).unwrap();
        assert!(found.peak_bytes > found.state_bytes && found.peak_bytes >= found.program_bytes, "{found:?}");
    }
}
