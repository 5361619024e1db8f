//! How far long work is, and whether it shall stop.

use crate::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared by who works and who watches: a counter that the work raises, and a wish to stop that it looks for whenever it
/// does.
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
    /// Units that were done before what this counts.
    before: u64,
    stopped: Arc<AtomicBool>,
}

impl Progress {
    /// Units that are done: steps, pairs, fits, as the work says.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// So many more are done; an error if the work shall stop.
    pub fn add(&self, units: u64) -> Result<()> {
        self.done.fetch_add(units, Ordering::Relaxed);
        self.check()
    }

    /// So many are done by now; an error if the work shall stop.
    pub fn set(&self, units: u64) -> Result<()> {
        self.done.store(self.before + units, Ordering::Relaxed);
        self.check()
    }

    /// Asks the work to stop: it ends with [`Error::Stopped`] the next time it counts.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// An error if the work shall stop.
    pub fn check(&self) -> Result<()> {
        if self.stopped.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
    }

    /// For a part of the work, with a count of its own: it stops when the whole does.
    pub fn part(&self) -> Progress {
        Progress { stopped: self.stopped.clone(), ..Progress::default() }
    }

    /// For work that comes after so many units of other work, and sets how many of its own are done.
    pub(crate) fn after(&self, units: u64) -> Progress {
        Progress { done: self.done.clone(), before: self.before + units, stopped: self.stopped.clone() }
    }
}
