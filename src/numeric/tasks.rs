//! Work cut into tasks by shape alone, so that results do not depend on how many threads share it.

use rayon::prelude::*;

/// A step below this many elementary operations stays on one thread. The limit is low because an idle thread falls asleep between
/// two steps, and waking it costs more than a small step.
const PARALLEL_STEP: usize = 1 << 17;
/// An evaluation below this many never leaves the calling thread.
const PARALLEL_EVALUATION: usize = 1 << 22;

/// Runs `f` on a thread of the pool if `work` elementary operations are worth it. Outside the pool, every parallel step would put
/// the calling thread to sleep and wake it again.
pub(crate) fn enter<R: Send>(work: usize, f: impl FnOnce() -> R + Send) -> R {
    if work < PARALLEL_EVALUATION { f() } else { rayon::scope(|_| f()) }
}

/// Runs every task, on several threads if `work` elementary operations are worth it.
pub(crate) fn run<I: Send>(tasks: Vec<I>, work: usize, f: impl Fn(I) + Sync + Send) {
    if work < PARALLEL_STEP || tasks.len() < 2 {
        tasks.into_iter().for_each(f);
    } else {
        tasks.into_par_iter().with_max_len(1).for_each(f);
    }
}

/// Like [`run`], with scratch space that each thread keeps for its tasks.
pub(crate) fn run_with<I: Send, S>(
    tasks: Vec<I>,
    work: usize,
    scratch: impl Fn() -> S + Sync + Send,
    f: impl Fn(&mut S, I) + Sync + Send,
) {
    if work < PARALLEL_STEP || tasks.len() < 2 {
        let mut space = scratch();
        tasks.into_iter().for_each(|task| f(&mut space, task));
    } else {
        tasks.into_par_iter().for_each_init(scratch, f);
    }
}

/// Cuts a slice into consecutive parts of the given lengths.
pub(crate) struct Cutter<'a, T>(&'a mut [T]);

impl<'a, T> Cutter<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Cutter(slice)
    }

    /// The next `length` entries.
    pub(crate) fn take(&mut self, length: usize) -> &'a mut [T] {
        let (head, tail) = std::mem::take(&mut self.0).split_at_mut(length);
        self.0 = tail;
        head
    }
}
