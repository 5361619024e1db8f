//! Shows how training goes, keeps checkpoints, and stops it on Ctrl-C.

use crate::Result;
use crate::cli::print_json;
use crate::cli::progress::LINE_EVERY;
use crate::engine::State;
use crate::fit::{Checkpoint, PreparedFit, Record, TrainingObserver};
use crate::stderr::say;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

/// Set by Ctrl-C.
static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// JSON lines, a bar on a terminal, or plain lines elsewhere.
pub(super) struct TrainingDisplay<'a> {
    json: bool,
    fit: &'a PreparedFit,
    checkpoint: PathBuf,
    bar: Option<ProgressBar>,
    start: Instant,
    /// The steps that were taken before.
    first: u32,
    last_line: Instant,
}

impl<'a> TrainingDisplay<'a> {
    pub(super) fn new(json: bool, fit: &'a PreparedFit, checkpoint: PathBuf, first: u32) -> Self {
        let stop = STOP.clone();
        // A second Ctrl-C ends at once; a handler that is there already serves as well.
        let _ = ctrlc::set_handler(move || {
            if stop.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        });
        let bar = (!json && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(u64::from(steps_of(fit))).with_position(u64::from(first));
            let style = "{bar:30} {pos}/{len} steps  {per_sec}  {eta} left  {msg}";
            bar.set_style(ProgressStyle::with_template(style).expect("the template is valid"));
            bar.reset_eta();
            bar
        });
        let now = Instant::now();
        TrainingDisplay { json, fit, checkpoint, bar, start: now, first, last_line: now }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn steps_of(fit: &PreparedFit) -> u32 {
    fit.recipe.solver.adam().map_or(0, |adam| adam.steps)
}

impl TrainingObserver for TrainingDisplay<'_> {
    fn report(&mut self, record: &Record) {
        if self.json {
            let _ = print_json(record);
        } else if let Some(bar) = &self.bar {
            bar.set_position(u64::from(record.step));
            bar.set_message(format!("loss {:.3e}", record.loss));
        } else if self.last_line.elapsed() >= LINE_EVERY {
            self.last_line = Instant::now();
            let rate = f64::from(record.step - self.first) / self.start.elapsed().as_secs_f64();
            let steps = steps_of(self.fit);
            let left = f64::from(steps - record.step) / rate.max(1e-9);
            say!(
                "{} of {steps} steps, loss {:.4e}, {rate:.0} per second, {left:.0} s left",
                record.step,
                record.loss
            );
        }
    }

    fn save(&mut self, state: &State, log: &[Record]) -> Result<()> {
        Checkpoint::new(self.fit, state, log).write(&self.checkpoint)
    }

    fn should_stop(&self) -> bool {
        STOP.load(Ordering::Relaxed)
    }
}
