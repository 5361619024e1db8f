//! Work that is watched while it goes on.

use crate::{Progress, Result};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Time between looks at work that goes on.
pub const BEAT: Duration = Duration::from_millis(10);
/// Beats between reports.
const REPORT_BEATS: u32 = 10;

/// Does long work, and beside it, on a thread of its own, passes on a wish to stop and tells which share of `all` is done.
pub fn watched<T>(
    progress: &Progress,
    all: u64,
    shall_stop: impl Fn() -> bool + Sync,
    report: impl Fn(f64) + Sync,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    std::thread::scope(|scope| {
        let (ended, end) = channel::<()>();
        let (shall_stop, report) = (&shall_stop, &report);
        scope.spawn(move || {
            let mut beats = 0;
            while end.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                if shall_stop() {
                    progress.stop();
                }
                beats += 1;
                if beats % REPORT_BEATS == 0 {
                    report(progress.done() as f64 / all.max(1) as f64);
                }
            }
        });
        let outcome = work();
        drop(ended);
        outcome
    })
}
