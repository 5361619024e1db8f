//! The process that jobs run in: it takes one after the other from a service, and ends when the service does.
//!
//! Whatever a job does to its process (memory that runs out, an abort, a driver that crashes), the service goes on.

use crate::engine::Place;
use crate::serve::domain::message::{Assignment, Done, Order, Outcome, Said};
use crate::serve::domain::problem::sentence_of;
use crate::serve::run::work::{Kept, Task};
use crate::stderr::say;
use crate::{Error, Result};
use std::io::{BufRead, Write};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

/// Memory that a process has beside what its job may use: code, threads, what it reads and writes files with.
const BASE: u64 = 256 << 20;
/// The same for each thread: its stack and what its allocator holds for it.
const THREAD: u64 = 16 << 20;
/// The same for the driver of a GPU, which may be one in software.
const GPU_BASE: u64 = 8 << 30;
/// A process that holds so much more after a job than when it started is replaced by a new one.
const LEFT: u64 = 128 << 20;
/// Jobs give way to the service itself: an answer takes milliseconds, a job takes as long as it takes.
const NICE: i32 = 10;

/// What a process of jobs is told.
pub struct Workplace {
    /// Where it computes.
    pub place: Place,
    /// Bytes that a job may use.
    pub memory: u64,
}

/// Speaks to the service.
pub(in crate::serve) struct Voice;

impl Voice {
    /// One line; if the service is gone, so is the reason to work.
    pub fn say(&self, said: &Said) {
        let mut line = serde_json::to_vec(said).expect("messages serialise");
        line.push(b'\n');
        let mut out = std::io::stdout().lock();
        if out.write_all(&line).and_then(|()| out.flush()).is_err() {
            std::process::exit(0);
        }
    }
}

/// Does jobs from standard input until that ends.
pub fn work(workplace: &Workplace) -> Result<()> {
    let gpu = workplace.place.gpu();
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let base = BASE + THREAD * threads + if gpu.is_some() { GPU_BASE } else { 0 };
    let memory = confine(workplace.memory, base)?;
    // Threads start here, so that the first job need not wait for them; a priority is theirs only if it was set before.
    rayon::current_num_threads();
    let stop = Arc::new(AtomicBool::new(false));
    let orders = listen(stop.clone());
    let at_start = held();
    Voice.say(&Said::Ready { memory });
    let kept = Kept::default();
    for assignment in orders {
        kept.keep_only(&assignment);
        let task = Task {
            assignment: &assignment,
            gpu: gpu.as_ref(),
            stop: &stop,
            start: Instant::now(),
            kept: &kept,
        };
        let ran = std::panic::catch_unwind(AssertUnwindSafe(|| task.run()));
        // What a panic left behind is anyone's guess.
        let last = ran.is_err() || held() > at_start + LEFT;
        let outcome = outcome_of(ran);
        Voice.say(&Said::Ended { outcome, last });
        if last {
            break;
        }
    }
    Ok(())
}

/// How a job ended; a panic is a mistake of this program, and said to be one.
fn outcome_of(ran: std::thread::Result<Result<Done>>) -> Outcome {
    match ran.unwrap_or_else(|panic| Err(Error::panicked(panic.as_ref()))) {
        Ok(done) => Outcome::Done(Box::new(done)),
        Err(Error::Stopped) => Outcome::Stopped,
        Err(error) => {
            if matches!(error, Error::Io { .. }) {
                say!("error: {error}");
            }
            Outcome::Failed(sentence_of(&error))
        }
    }
}

/// Takes orders on a thread of its own, so that a wish to stop is heard during the work.
fn listen(stop: Arc<AtomicBool>) -> mpsc::Receiver<Assignment> {
    let (assignments, orders) = mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            match line.ok().and_then(|line| serde_json::from_str(&line).ok()) {
                Some(Order::Stop) => stop.store(true, Ordering::Relaxed),
                Some(Order::Do(assignment)) => {
                    // A wish to stop the job before comes before this one.
                    stop.store(false, Ordering::Relaxed);
                    if assignments.send(*assignment).is_err() {
                        return;
                    }
                }
                None => break,
            }
        }
        // The service has ended, in whatever way: nobody waits for this job any more.
        std::process::exit(0);
    });
    orders
}

/// Gives up what the process must not have: more memory than its job may use, core files, its place before the service when
/// processor or memory are short. The memory that is left for a job.
#[cfg(unix)]
fn confine(memory: u64, base: u64) -> Result<Option<u64>> {
    use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};
    let cannot = |error: rustix::io::Errno| {
        Error::invalid(format!("the process of a job cannot be confined: {error}"))
    };
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).map_err(cannot)?;
    // Memory that is written to. The size of the address space is no measure: drivers and allocators reserve much of it.
    let limit = memory.saturating_add(base);
    let limit = getrlimit(Resource::Data).maximum.map_or(limit, |most| most.min(limit));
    setrlimit(Resource::Data, Rlimit { current: Some(limit), maximum: Some(limit) }).map_err(cannot)?;
    // Neither is needed: a system may forbid them.
    let _ = nice(NICE);
    #[cfg(target_os = "linux")]
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    Ok(Some(limit.saturating_sub(base)))
}

#[cfg(not(unix))]
fn confine(_memory: u64, _base: u64) -> Result<Option<u64>> {
    Ok(None)
}

/// Bytes of memory that the process can write to, where the system tells.
fn held() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()).unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_reported_as_an_internal_error_with_its_message() {
        let ran = |work: fn() -> Result<Done>| outcome_of(std::panic::catch_unwind(work));
        let sentence = |outcome: Outcome| match outcome {
            Outcome::Failed(sentence) => sentence,
            _ => panic!("it has not failed"),
        };
        let text = sentence(ran(|| panic!("index 5 of 3")));
        assert_eq!(text, "internal error: index 5 of 3");
        assert_eq!(sentence(ran(|| std::panic::panic_any(5))), "internal error: no reason given");
        assert_eq!(sentence(ran(|| Err(Error::invalid("found 1, expected 2")))), "found 1, expected 2");
        assert!(matches!(ran(|| Err(Error::Stopped)), Outcome::Stopped));
    }
}
