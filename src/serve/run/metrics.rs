//! What the service counts while it runs.

use crate::serve::domain::job::JobState;
use crate::serve::domain::kinds::Request;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The upper ends of the buckets of times, in seconds.
pub(crate) const BUCKETS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0, 600.0];

/// Counters since the start of the service.
#[derive(Default)]
pub(crate) struct Metrics {
    pub requests: AtomicU64,
    pub refused: AtomicU64,
    pub upload_bytes: AtomicU64,
    pub evaluations: AtomicU64,
    pub evaluated_losses: AtomicU64,
    pub failed: AtomicU64,
    times: Mutex<BTreeMap<&'static str, Times>>,
}

/// How long jobs of a kind took.
#[derive(Clone, Copy, Default)]
pub(crate) struct Times {
    /// How many took at most as long as each bucket's end.
    pub buckets: [u64; BUCKETS.len()],
    pub count: u64,
    /// Seconds of all together.
    pub sum: f64,
}

impl Metrics {
    /// Counts an evaluation that answers so many loss jobs; none of them if it repeats another.
    pub(crate) fn evaluated(&self, losses: usize) {
        self.evaluations.fetch_add(1, Ordering::Relaxed);
        self.evaluated_losses.fetch_add(losses as u64, Ordering::Relaxed);
    }

    /// Counts a job that has ended.
    pub(crate) fn ended(&self, state: JobState) {
        if state == JobState::Failed {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a job that has a result, so many seconds after its submission.
    pub(crate) fn finished(&self, request: &Request, seconds: f64) {
        let mut times = self.times.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Times { buckets, count, sum } = times.entry(request.kind()).or_default();
        for (bucket, end) in buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= end);
        }
        (*count, *sum) = (*count + 1, *sum + seconds);
    }

    /// The times of every kind.
    pub(crate) fn times(&self) -> Vec<(&'static str, Times)> {
        let times = self.times.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Request::kinds().map(|kind| (kind, times.get(kind).copied().unwrap_or_default())).collect()
    }
}
