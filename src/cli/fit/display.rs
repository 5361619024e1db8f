//! Shows how training goes, keeps checkpoints, and stops it on Ctrl-C.

use crate::Result;
use crate::cli::print_json;
use crate::cli::progress::LINE_EVERY;
use crate::engine::State;
use crate::fit::{Checkpoint, PreparedFit, RaisedPenalty, Record, TrainingObserver};
use crate::stderr::say;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

/// Set by Ctrl-C.
static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Lets Ctrl-C ask for a stop. A second one ends at once.
pub(super) fn hear_ctrl_c() {
    let stop = STOP.clone();
    // A handler that is there already serves as well.
    let _ = ctrlc::set_handler(move || {
        if stop.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
}

/// Whether somebody has pressed Ctrl-C.
pub(super) fn is_stopped() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// JSON lines, a bar on a terminal, or plain lines elsewhere.
pub(super) struct TrainingDisplay<'a> {
    json: bool,
    fit: &'a PreparedFit,
    checkpoint: PathBuf,
    bar: Option<ProgressBar>,
    start: Instant,
    /// The steps that were taken before, and the last one.
    first: u32,
    last: u32,
    last_line: Instant,
}

impl<'a> TrainingDisplay<'a> {
    pub(super) fn new(json: bool, fit: &'a PreparedFit, checkpoint: PathBuf, first: u32) -> Self {
        hear_ctrl_c();
        let last = fit.recipe.solver.adam().map_or(0, |adam| adam.steps).max(first);
        let bar = (!json && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(u64::from(last)).with_position(u64::from(first));
            let style = "{bar:30} {pos}/{len} steps  {per_sec}  {eta} left  {msg}";
            bar.set_style(ProgressStyle::with_template(style).expect("the template is valid"));
            bar.reset_eta();
            bar
        });
        let now = Instant::now();
        TrainingDisplay { json, fit, checkpoint, bar, start: now, first, last, last_line: now }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
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
            let steps = self.last;
            let left = f64::from(steps.saturating_sub(record.step)) / rate.max(1e-9);
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
        is_stopped()
    }

    fn raises(&mut self, raised: &RaisedPenalty) {
        let RaisedPenalty { widest, lambda, until } = raised;
        self.last = *until;
        let why = match widest {
            Some(widest) => {
                format!("the law of '{}' is {:.1} times as wide as the data", widest.variable, widest.ratio)
            }
            None => "the model has no stationary law".into(),
        };
        let line = format!("{why}: training on to step {until} with lambda {lambda:.3}");
        match &self.bar {
            Some(bar) => {
                bar.set_length(u64::from(*until));
                bar.suspend(|| say!("{line}"));
            }
            None if self.json => {
                let _ =
                    print_json(&serde_json::json!({ "raised": lambda, "until": until, "widest": widest }));
            }
            None => say!("{line}"),
        }
    }
}
