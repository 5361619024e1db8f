//! A method that is a separate program.
//!
//! The experiment calls it as `COMMAND… TRAIN.npz TOLD.npz OUT.npz`. TRAIN is a dataset. TOLD has `targets` and `means` (E × d;
//! means are 0 except at targets) and `rows` (E). The program must write OUT, a dataset with E environments of that many rows.
//!
//! A program has a time limit, and every process in its process group ends with it. A program that hangs therefore fails in one
//! cell and does not stop the experiment.

use super::method::{FittedMethod, Method, PredictionTask};
use crate::data::{Array, Dataset, write_arrays};
use crate::{Error, Matrix, Result};
use std::collections::VecDeque;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

/// The default time limit in seconds.
pub(super) const SECONDS: f64 = 3600.0;
/// How many bytes to keep of what a program writes to standard error: the last ones, which tell the reason.
const KEPT: usize = 4096;
/// How long to wait for the last output of a program that has ended: a process that it left behind may hold the pipe.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The longest pause between two looks at a program.
const PAUSE: Duration = Duration::from_millis(50);

/// The running programs, by their process id, which is also that of their process group.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// A program and its arguments.
pub(super) struct Program {
    pub name: String,
    pub command: Vec<String>,
    /// The time limit.
    pub time: Duration,
}

struct FittedProgram {
    command: Vec<String>,
    time: Duration,
    train: Dataset,
    seed: u64,
}

impl Method for Program {
    fn name(&self) -> &str {
        &self.name
    }

    fn fit(&self, train: &Dataset, seed: u64) -> Result<Box<dyn FittedMethod>> {
        Ok(Box::new(FittedProgram {
            command: self.command.clone(),
            time: self.time,
            train: train.clone(),
            seed,
        }))
    }
}

impl FittedMethod for FittedProgram {
    fn predict(&self, tasks: &[PredictionTask], _: u64) -> Result<Vec<Result<Matrix<f64>>>> {
        let folder = tempfile::tempdir().map_err(|source| Error::Io {
            action: "create",
            path: "a temporary folder".into(),
            source,
        })?;
        let at = |name: &str| folder.path().join(name);
        self.train.write(at("train.npz"))?;
        write_tasks(&at("told.npz"), tasks, self.train.dim())?;
        let name = self.command.join(" ");
        let mut command = Command::new(&self.command[0]);
        command
            .args(&self.command[1..])
            .args([at("train.npz"), at("told.npz"), at("out.npz")])
            .env("SKDS_SEED", self.seed.to_string());
        let ended = run(&mut command, self.time)
            .map_err(|source| Error::invalid(format!("cannot run '{name}': {source}")))?;
        let said = ended.said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        match ended.status {
            Some(status) if status.success() => {}
            Some(status) => return Err(Error::Failed(format!("'{name}' ended with {status}: {said}"))),
            None => {
                return Err(Error::Failed(format!(
                    "'{name}' was ended after {} s, expected it to take less (its last words: {said})",
                    self.time.as_secs_f64()
                )));
            }
        }
        let found = Dataset::read(at("out.npz"))
            .map_err(|error| Error::Failed(format!("'{name}' left no samples: {error}")))?;
        let rows: Vec<usize> = (0..found.environments()).map(|e| found.rows(e).len()).collect();
        let expected: Vec<usize> = tasks.iter().map(|task| task.rows).collect();
        if found.dim() != self.train.dim() || rows != expected {
            return Err(Error::Failed(format!(
                "'{name}' left {} variables and environments of {rows:?} rows, expected {} and {expected:?}",
                found.dim(),
                self.train.dim()
            )));
        }
        Ok((0..tasks.len()).map(|e| Ok(found.environment(e))).collect())
    }
}

/// How a program ended.
struct Ended {
    /// None if it ran out of time.
    status: Option<ExitStatus>,
    /// The last part of what it wrote to standard error.
    said: String,
}

/// Runs a program, which has a time limit.
fn run(command: &mut Command, time: Duration) -> std::io::Result<Ended> {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    running().push(child.id());
    let words = Words::of(&mut child);
    let status = wait(&mut child, time);
    // Processes that the program leaves behind end with it.
    end_group(&mut child);
    running().retain(|id| *id != child.id());
    Ok(Ended { status: status?, said: words.last() })
}

/// Waits for a program to end, or for its time limit.
fn wait(child: &mut Child, time: Duration) -> std::io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let Some(left) = time.checked_sub(start.elapsed()) else { return Ok(None) };
        sleep(pause.min(left));
        pause = (2 * pause).min(PAUSE);
    }
}

/// Ends a program and every process in its group.
fn end_group(child: &mut Child) {
    kill_group(child.id());
    // Where there are no process groups, this ends at least the program. It fails only if the program has already ended.
    let _ = child.kill();
    let _ = child.wait();
}

/// Ends all running programs. Each has a process group of its own, which a terminal's Ctrl-C does not reach.
pub(crate) fn end_programs() {
    running().drain(..).for_each(kill_group);
}

fn kill_group(id: u32) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    #[cfg(not(unix))]
    let _ = id;
}

fn running() -> MutexGuard<'static, Vec<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program's standard error. All of it is read, so that the program never blocks, and the last part is kept.
struct Words {
    last: Arc<Mutex<VecDeque<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Words {
    fn of(child: &mut Child) -> Words {
        let last = Arc::new(Mutex::new(VecDeque::new()));
        let kept = last.clone();
        let reader = child.stderr.take().map(|mut stderr| {
            spawn(move || {
                let mut part = [0; KEPT];
                while let Ok(count @ 1..) = stderr.read(&mut part) {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.extend(&part[..count]);
                    let over = kept.len().saturating_sub(KEPT);
                    kept.drain(..over);
                }
            })
        });
        Words { last, reader }
    }

    fn last(self) -> String {
        let start = Instant::now();
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) && start.elapsed() < LAST_WORDS
        {
            sleep(Duration::from_millis(1));
        }
        let last: Vec<u8> =
            self.last.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        String::from_utf8_lossy(&last).into_owned()
    }
}

fn write_tasks(path: &Path, tasks: &[PredictionTask], d: usize) -> Result<()> {
    let mut targets = Matrix::full(tasks.len(), d, 0.0);
    let mut means = Matrix::full(tasks.len(), d, 0.0);
    for (e, PredictionTask { wanted, .. }) in tasks.iter().enumerate() {
        for (&j, mean) in wanted.targets.iter().zip(&wanted.means) {
            targets[(e, j)] = 1.0;
            means[(e, j)] = *mean;
        }
    }
    let rows: Vec<f64> = tasks.iter().map(|task| task.rows as f64).collect();
    let table = |name, matrix| {
        let matrix: &Matrix<f64> = matrix;
        Array { name, shape: vec![tasks.len(), d], values: matrix.as_slice() }
    };
    let rows = Array { name: "rows", shape: vec![tasks.len()], values: &rows };
    write_arrays(path, &[table("targets", &targets), table("means", &means), rows])
}
