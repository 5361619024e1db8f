//! Progress of long work, and a request to stop it.

use crate::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A counter that long work raises, and a request to stop that it checks each time. The worker and its observers share it.
///
/// ```
/// use skds::{Error, Progress};
///
/// let progress = Progress::default();
/// progress.add(3)?;
/// assert_eq!(progress.done(), 3);
/// progress.stop();
/// assert!(matches!(progress.add(1), Err(Error::Stopped)));
/// # Ok::<(), skds::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Progress {
    done: Arc<AtomicU64>,
    /// Units that other work had done before.
    before: u64,
    stopped: Arc<AtomicBool>,
}

impl Progress {
    /// The number of units done. The work defines the unit: a step, a pair, a fit.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Adds finished units. Returns [`Error::Stopped`] if a stop was requested.
    pub fn add(&self, units: u64) -> Result<()> {
        self.done.fetch_add(units, Ordering::Relaxed);
        self.check()
    }

    /// Sets the number of finished units. Returns [`Error::Stopped`] if a stop was requested.
    pub fn set(&self, units: u64) -> Result<()> {
        self.done.store(self.before + units, Ordering::Relaxed);
        self.check()
    }

    /// Requests a stop: the work ends with [`Error::Stopped`] the next time it counts.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Returns [`Error::Stopped`] if a stop was requested.
    pub fn check(&self) -> Result<()> {
        if self.stopped.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Progress of a part of the work: it has its own count and stops with the whole.
    pub fn part(&self) -> Progress {
        Progress { stopped: self.stopped.clone(), ..Progress::default() }
    }

    /// Progress of work that follows `units` of other work and counts its own with [`set`](Self::set).
    pub(crate) fn after(&self, units: u64) -> Progress {
        Progress { done: self.done.clone(), before: self.before + units, stopped: self.stopped.clone() }
    }
}
