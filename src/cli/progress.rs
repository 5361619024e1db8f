//! Shows the progress of long work: a bar on a terminal, plain lines elsewhere.

use super::print_json;
use crate::Progress;
use crate::stderr::say;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use serde::Serialize;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Nothing is shown for work that ends sooner than this.
const PATIENCE: Duration = Duration::from_millis(800);
/// Time between plain lines.
pub(super) const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows a counter from its creation until it is dropped.
pub(super) struct ProgressDisplay {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressDisplay {
    /// Shows on standard error how much of `all` `what` ("pairs") is done.
    pub(super) fn new(what: &'static str, progress: Arc<Progress>, all: u64) -> Self {
        ProgressDisplay::start(move |waits| {
            if std::io::stderr().is_terminal() {
                bar(&progress, all, waits);
            } else {
                let start = Instant::now();
                say!("{} of {all} {what}", progress.done());
                lines(waits, || {
                    let (so_far, rate, left) = estimate(&progress, all, start);
                    match left {
                        Some(left) => {
                            let left = HumanDuration(Duration::from_secs_f64(left));
                            say!("{so_far} of {all} {what}, {rate:.3e} per second, {left} left");
                        }
                        None => {
                            let so_long = HumanDuration(start.elapsed() + PATIENCE);
                            say!("{so_far} of {all} {what} after {so_long}");
                        }
                    }
                });
            }
        })
    }

    /// The same for programs: JSON lines on standard output.
    pub(super) fn json(what: &'static str, progress: Arc<Progress>, all: u64) -> Self {
        ProgressDisplay::start(move |waits| {
            let start = Instant::now();
            let line = || {
                let (done, rate, left) = estimate(&progress, all, start);
                let _ = print_json(&ProgressLine {
                    progress: what,
                    done,
                    all,
                    per_second: rate,
                    seconds_left: left,
                });
            };
            line();
            lines(waits, line);
        })
    }

    /// Shows a message once, if the work takes a while: for work that does not count.
    pub(super) fn message(what: String) -> Self {
        ProgressDisplay::start(move |_| say!("{what}"))
    }

    fn start(show: impl FnOnce(&dyn Fn(Duration) -> bool) + Send + 'static) -> Self {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let waits = |time| matches!(stopped.recv_timeout(time), Err(RecvTimeoutError::Timeout));
            if waits(PATIENCE) {
                show(&waits);
            }
        });
        ProgressDisplay { stop: Some(stop), thread: Some(thread) }
    }
}

fn bar(progress: &Progress, all: u64, waits: &dyn Fn(Duration) -> bool) {
    let style = "{bar:40} {percent:>3} %  {per_sec}  {eta} left";
    let bar = ProgressBar::new(all);
    bar.set_style(ProgressStyle::with_template(style).expect("the template is valid"));
    while waits(Duration::from_millis(100)) {
        bar.set_position(progress.done());
    }
    bar.finish_and_clear();
}

fn lines(waits: &dyn Fn(Duration) -> bool, line: impl Fn()) {
    while waits(LINE_EVERY) {
        line();
    }
}

/// How much is done, how much per second, and an estimate of the seconds left once something is done.
fn estimate(progress: &Progress, all: u64, start: Instant) -> (u64, f64, Option<f64>) {
    let done = progress.done();
    let rate = done as f64 / (start.elapsed() + PATIENCE).as_secs_f64();
    (done, rate, (done > 0).then(|| ((all - done.min(all)) as f64 / rate).min(1e9)))
}

/// How far work is, for programs.
#[derive(Serialize)]
struct ProgressLine {
    progress: &'static str,
    done: u64,
    all: u64,
    per_second: f64,
    seconds_left: Option<f64>,
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A display that failed is not worth failing the computation for.
            let _ = thread.join();
        }
    }
}
