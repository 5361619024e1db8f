//! The part of `skds fit` that chooses the settings of a neural drift before it is trained.

use super::args::Args;
use super::display;
use crate::cli::print_report;
use crate::cli::progress::ProgressDisplay;
use crate::engine::gpu::GpuEngine;
use crate::fit::{ChoiceRuns, KeptFiles, PreparedFit, Tuning};
use crate::{Error, Progress, Result};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Time between two looks whether somebody pressed Ctrl-C.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// What is printed of a choice that was stopped.
#[derive(Serialize)]
struct Stopped<'a> {
    model: &'a Path,
    complete: bool,
    trainings: usize,
    kept_in: &'a Path,
}

/// What became of the settings.
pub(super) enum Chosen {
    /// All were given.
    Given,
    /// These were chosen.
    Settings(Box<(PreparedFit, Tuning)>),
    /// Somebody pressed Ctrl-C, which the report says.
    Stopped,
}

pub(super) fn run(
    args: &Args,
    fit: &PreparedFit,
    files: &KeptFiles,
    gpu: Option<&GpuEngine>,
) -> Result<Chosen> {
    let Some(work) = fit.choice_work()? else { return Ok(Chosen::Given) };
    let path = &files.choice;
    let kept = files.runs(fit, args.unfinished())?;
    let progress = Arc::new(Progress::default());
    let display = if args.output.json { ProgressDisplay::json } else { ProgressDisplay::new };
    let shown = display("steps to choose settings", progress.clone(), work);
    let done = Mutex::new(kept.count());
    let keep = |runs: &ChoiceRuns| {
        *done.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = runs.count();
        runs.write(path)
    };
    let outcome = until_stopped(&progress, || fit.choose(gpu, kept, &progress, &keep));
    drop(shown);
    match outcome {
        Ok(chosen) => Ok(chosen.map_or(Chosen::Given, |chosen| Chosen::Settings(Box::new(chosen)))),
        Err(Error::Stopped) => {
            let trainings = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
            let report = Stopped { model: &args.output.file, complete: false, trainings, kept_in: path };
            print_report(args.output.json, &report, || {
                format!(
                    "Stopped while choosing settings, after {trainings} trainings. Run the command again with --resume to continue from {}.",
                    path.display()
                )
            })?;
            Ok(Chosen::Stopped)
        }
        Err(other) => Err(other),
    }
}

/// Does work that Ctrl-C stops.
fn until_stopped<T>(progress: &Progress, work: impl FnOnce() -> Result<T>) -> Result<T> {
    display::hear_ctrl_c();
    let (finished, waiting) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while waiting.recv_timeout(BETWEEN_LOOKS) == Err(RecvTimeoutError::Timeout) {
                if display::is_stopped() {
                    progress.stop();
                }
            }
        });
        let result = work();
        drop(finished);
        result
    })
}
