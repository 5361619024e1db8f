//! Shows how far a long evaluation is: a bar on a terminal, plain lines elsewhere.

use crate::Progress;
use crate::stderr::say;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Nothing is shown for work that ends sooner than this.
const PATIENCE: Duration = Duration::from_millis(800);
/// Time between plain lines.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Watches a counter from its creation until it is dropped. Writes to standard error only.
pub(super) struct Watch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Shows how much of `all` `what` ("pairs") is done.
    pub fn new(what: &'static str, progress: std::sync::Arc<Progress>, all: u64) -> Self {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let start = Instant::now();
            let waits = |time| matches!(stopped.recv_timeout(time), Err(RecvTimeoutError::Timeout));
            if !waits(PATIENCE) {
                return;
            }
            if std::io::stderr().is_terminal() {
                let style = "{bar:40} {percent:>3} %  {per_sec}  {eta} left";
                let bar = ProgressBar::new(all);
                bar.set_style(ProgressStyle::with_template(style).expect("the template is valid"));
                while waits(Duration::from_millis(100)) {
                    bar.set_position(progress.done());
                }
                bar.finish_and_clear();
            } else {
                while waits(LINE_EVERY) {
                    let so_far = progress.done();
                    let rate = so_far as f64 / start.elapsed().as_secs_f64();
                    if so_far == 0 {
                        continue;
                    }
                    let left = ((all - so_far.min(all)) as f64 / rate).min(1e9);
                    let left = HumanDuration(Duration::from_secs_f64(left));
                    say!("{so_far} of {all} {what}, {rate:.3e} per second, {left} left");
                }
            }
        });
        Watch { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A display that failed is not worth failing the computation for.
            let _ = thread.join();
        }
    }
}
