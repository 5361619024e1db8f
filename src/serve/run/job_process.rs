//! The process that jobs run in. It takes one job after the other from a service, and ends when the service does.
//!
//! The service survives whatever a job does to its process: exhausted memory, an abort, a crash of a driver.

use super::protocol::{Message, Order};
use crate::engine::Place;
use crate::serve::domain::job::Progress;
use crate::serve::domain::kinds::Execution;
use crate::serve::domain::kinds::task::{Assignment, JobOutput, LastInputs, Outcome, Supervisor, Task};
use crate::{Error, Result};
use std::io::{BufRead, Write};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

/// Memory of a process beside that of its job: code, threads, buffers of files.
const BASE: u64 = 256 << 20;
/// The same for each thread: its stack and the part of the allocator.
const THREAD: u64 = 16 << 20;
/// The same for the driver of a GPU, which can be a GPU in software.
const GPU_BASE: u64 = 8 << 30;
/// A process that holds this much more memory after a job than at its start is replaced by a new one.
const LEAKED: u64 = 128 << 20;
/// The priority of jobs is lower than that of the service, so that answers do not wait for jobs.
const NICE: i32 = 10;

/// The settings of a process for jobs.
pub struct JobProcess {
    /// The device to compute on.
    pub place: Place,
    /// Bytes of memory that a job may use.
    pub memory: u64,
}

/// Sends a message to the service. If the service is gone, so is the reason to work.
fn send(message: &Message) {
    let mut line = serde_json::to_vec(message).expect("messages serialise");
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    if out.write_all(&line).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// The service, as the work of a job sees it.
struct ServiceLink {
    stop: Arc<AtomicBool>,
}

impl Supervisor for ServiceLink {
    fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn progress(&self, progress: Progress) {
        send(&Message::Progress(progress));
    }

    fn log(&self, line: String) {
        send(&Message::Log(line));
    }
}

impl JobProcess {
    /// Does jobs from standard input until that ends.
    pub fn run(&self) -> Result<()> {
        let gpu = self.place.gpu();
        let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let base = BASE + THREAD * threads + if gpu.is_some() { GPU_BASE } else { 0 };
        let memory = confine(self.memory, base)?;
        // Threads start here, so that the first job need not wait for them. They inherit the priority that was just set.
        rayon::current_num_threads();
        let link = ServiceLink { stop: Arc::new(AtomicBool::new(false)) };
        let orders = listen(link.stop.clone());
        let at_start = memory_held();
        send(&Message::Ready { memory });
        let inputs = LastInputs::default();
        for assignment in orders {
            inputs.keep_only(&assignment);
            let task = Task {
                assignment: &assignment,
                gpu: gpu.as_ref(),
                supervisor: &link,
                start: Instant::now(),
                inputs: &inputs,
            };
            let caught = std::panic::catch_unwind(AssertUnwindSafe(|| run_task(&task)));
            // A panic can leave anything behind.
            let last = caught.is_err() || memory_held() > at_start + LEAKED;
            let outcome = Outcome::of_caught(caught);
            send(&Message::Ended { outcome, last });
            if last {
                break;
            }
        }
        Ok(())
    }
}

fn run_task(task: &Task<'_>) -> Result<JobOutput> {
    match task.assignment.request.execution() {
        Execution::InProcess(kind) => kind.run(task),
        Execution::Jointly(_) => {
            let kind = task.assignment.request.kind();
            Err(Error::invalid(format!("a process got a {kind} job, expected a kind that runs in a process")))
        }
    }
}

/// Takes orders on a second thread, so that an order to stop arrives during the work.
fn listen(stop: Arc<AtomicBool>) -> mpsc::Receiver<Assignment> {
    let (assignments, orders) = mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            match line.ok().and_then(|line| serde_json::from_str(&line).ok()) {
                Some(Order::Stop) => stop.store(true, Ordering::Relaxed),
                Some(Order::Do(assignment)) => {
                    // An order to stop meant the job before.
                    stop.store(false, Ordering::Relaxed);
                    if assignments.send(*assignment).is_err() {
                        return;
                    }
                }
                None => break,
            }
        }
        // The service has ended, so nobody waits for this job any more.
        std::process::exit(0);
    });
    orders
}

/// Limits the process: no more memory than its job may use, no core files, and less priority than the service when processor or
/// memory are short. Returns the memory that a job may use.
#[cfg(unix)]
fn confine(memory: u64, base: u64) -> Result<Option<u64>> {
    use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};
    let cannot = |error: rustix::io::Errno| {
        Error::invalid(format!("the resources of a process for jobs cannot be limited: {error}"))
    };
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).map_err(cannot)?;
    // This limits memory that is written to. The size of the address space says little: drivers and allocators reserve much of it.
    let limit = memory.saturating_add(base);
    let limit = getrlimit(Resource::Data).maximum.map_or(limit, |most| most.min(limit));
    setrlimit(Resource::Data, Rlimit { current: Some(limit), maximum: Some(limit) }).map_err(cannot)?;
    // A system may forbid both, and neither is necessary.
    let _ = nice(NICE);
    #[cfg(target_os = "linux")]
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    Ok(Some(limit.saturating_sub(base)))
}

#[cfg(not(unix))]
fn confine(_memory: u64, _base: u64) -> Result<Option<u64>> {
    Ok(None)
}

/// Bytes of memory that the process can write to, where the system reports them.
fn memory_held() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()).unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_reported_as_an_internal_error_with_its_message() {
        let ran = |work: fn() -> Result<JobOutput>| Outcome::of_caught(std::panic::catch_unwind(work));
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
