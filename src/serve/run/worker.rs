//! Workers: for every device one that evaluates losses, one for short jobs and one for long ones. Losses are evaluated here,
//! many at once; everything else runs in a process of its own, one for each worker, so that a job that ends its process ends
//! nothing else.

use crate::engine::Place;
use crate::engine::gpu::GpuEngine;
use crate::serve::domain::id::JobId;
use crate::serve::domain::message::{Assignment, Done, Order, Outcome, Said};
use crate::serve::domain::problem::sentence_of;
use crate::serve::domain::request::Request;
use crate::serve::run::deaths;
use crate::serve::run::process::{Death, Heard, Process};
use crate::serve::run::queue::{Lane, Ticket};
use crate::serve::run::service::{Finished, Service};
use crate::serve::run::watch::{self, BEAT};
use crate::serve::run::work::loss;
use crate::serve::store::database::{JobState, Progress, Store, now};
use crate::serve::store::files::Files;
use crate::serve::store::shares::Holder;
use crate::stderr::say;
use crate::{Error, Result};
use std::cell::LazyCell;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time that a job has to stop before its process is killed.
const STOP_WITHIN: Duration = Duration::from_secs(6);
/// The same when the service ends, as a part of the time that it has for that.
const STOP_SHARE: f64 = 0.6;
/// Tries to start a process, and the time between them.
const STARTS: u32 = 3;
const START_AGAIN: Duration = Duration::from_secs(1);

/// Works until the service ends.
pub(in crate::serve) fn work(service: &Service, place: &Place, lane: Lane) {
    let device = place.name();
    let gpu = LazyCell::new(|| place.gpu());
    let mut desk = Desk { service, place, process: None };
    loop {
        if lane != Lane::Losses {
            desk.prepare();
        }
        let Some(tickets) = service.queue.wait(&device, lane) else { return };
        for ticket in &tickets {
            service.begin(ticket, &device);
        }
        if matches!(*tickets[0].request, Request::Loss(_)) {
            evaluate(service, gpu.as_ref(), &device, tickets);
            continue;
        }
        for ticket in &tickets {
            service.announce(ticket);
            let start = Instant::now();
            // A panic here is a bug of the service's own; it must not take the queue with it.
            let served = std::panic::catch_unwind(AssertUnwindSafe(|| desk.serve(ticket, start)));
            if let Err(panic) = served {
                desk.process = None;
                service.end(
                    &ticket.id,
                    JobState::Failed,
                    None,
                    Some(Error::panicked(panic.as_ref()).to_string()),
                );
            }
        }
    }
}

/// Evaluates losses, here.
fn evaluate(service: &Service, gpu: Option<&GpuEngine>, device: &str, tickets: Vec<Ticket>) {
    let ids: Vec<JobId> = tickets.iter().map(|ticket| ticket.id.clone()).collect();
    let evaluate = || loss::evaluate(service, gpu, device, tickets);
    if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(evaluate)) {
        let sentence = Error::panicked(panic.as_ref()).to_string();
        let ended = ids.into_iter().map(|id| (id, JobState::Failed, None, Some(sentence.clone())));
        service.end_all(ended.collect());
    }
}

/// What the evaluation of a loss can use.
pub(in crate::serve) struct Work<'a> {
    pub service: &'a Service,
    pub ticket: &'a Ticket,
    pub gpu: Option<&'a GpuEngine>,
    pub start: Instant,
}

impl Work<'_> {
    /// Evaluates at length: tells how far that is of `all`, and stops it if need be.
    pub fn watched<T>(
        &self,
        progress: &crate::Progress,
        all: u64,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let Work { service, ticket, start, .. } = self;
        let shall_stop = || why_stop(service, ticket, *start).is_some();
        let report = |share: f64| {
            ticket.live.report(Progress::default().with_share(share, start.elapsed().as_secs_f64()));
        };
        watch::watched(progress, all, shall_stop, report, work).map_err(|error| match error {
            Error::Stopped => Error::invalid(why_stopped(service, *start)),
            other => other,
        })
    }
}

/// Why work shall stop.
#[derive(Clone, Copy, PartialEq)]
enum Why {
    Cancelled,
    Closing,
    Late,
}

fn why_stop(service: &Service, ticket: &Ticket, start: Instant) -> Option<Why> {
    if ticket.live.is_cancelled() {
        Some(Why::Cancelled)
    } else if service.is_closing() {
        Some(Why::Closing)
    } else {
        (start.elapsed().as_secs_f64() > service.limits.job_seconds).then_some(Why::Late)
    }
}

/// For clients: in time or not, a job that was stopped has no result.
fn why_stopped(service: &Service, start: Instant) -> String {
    let (took, most) = (start.elapsed().as_secs_f64(), service.limits.job_seconds);
    match took > most {
        true => format!("the job took {took:.0} s, expected at most {most:.0} on this service"),
        false => "the job was stopped".into(),
    }
}

/// Where a worker has its jobs done: in a process that goes on from job to job.
struct Desk<'a> {
    service: &'a Service,
    place: &'a Place,
    process: Option<Process>,
}

/// How a try to do a job ended.
enum Tried {
    Ended(Outcome),
    Died(Death),
    /// Its process could not be started at all.
    Never(String),
}

impl Desk<'_> {
    /// Does a job, in a second process if its first one ended before the job did.
    fn serve(&mut self, ticket: &Ticket, start: Instant) {
        let (service, folder) = (self.service, self.service.files.job(&ticket.id));
        let failed = |sentence: String| service.end(&ticket.id, JobState::Failed, None, Some(sentence));
        loop {
            if let Some(reason) = deaths::exhausted(&folder) {
                return failed(format!("the job ended its process twice: {reason}"));
            }
            let tried = self.attempt(ticket, start);
            // Done is done, even if it was to stop in the same moment; but who cancelled wants nothing.
            let stopped = why_stop(service, ticket, start);
            match (tried, stopped) {
                (_, Some(Why::Cancelled)) => {
                    let _ = std::fs::remove_dir_all(&folder);
                    return service.end(&ticket.id, JobState::Cancelled, None, None);
                }
                (Tried::Ended(Outcome::Done(done)), _) => {
                    return match self.keep(ticket, &folder, *done) {
                        Ok(finished) => service.end(&ticket.id, JobState::Done, Some(finished), None),
                        Err(error) => {
                            say!("error: {error}");
                            failed(sentence_of(&error))
                        }
                    };
                }
                // It goes on from its checkpoint, or begins anew, next time.
                (_, Some(Why::Closing)) => return,
                (Tried::Ended(Outcome::Failed(sentence)) | Tried::Never(sentence), _) => {
                    return failed(sentence);
                }
                (Tried::Ended(Outcome::Stopped), _) | (Tried::Died(_), Some(Why::Late)) => {
                    return failed(why_stopped(service, start));
                }
                // Someone ended the process: no fault of the job's, which begins again.
                (Tried::Died(Death { asked: true, .. }), None) => {}
                (Tried::Died(Death { reason, .. }), None) => {
                    say!("error: job {}: {reason}", ticket.id.as_str());
                    if let Err(error) = deaths::count(&folder, &reason) {
                        // Without a count it would be tried for ever.
                        say!("error: {error}");
                        return failed(reason);
                    }
                    ticket.live.say(format!("{reason}; it is tried once more"));
                }
            }
        }
    }

    /// Has a process ready before there is a job for it. If none can be started, the job's own try tells.
    fn prepare(&mut self) {
        if !self.process.as_mut().is_some_and(Process::is_alive) {
            self.process = self.start_once().ok();
        }
    }

    /// One try, until it ends or its process does.
    fn attempt(&mut self, ticket: &Ticket, start: Instant) -> Tried {
        let service = self.service;
        // One that ended between two jobs has nothing to do with this one.
        let idle = self.process.take().and_then(|mut process| process.is_alive().then_some(process));
        let mut process = match idle.map_or_else(|| self.start(), Ok) {
            Ok(process) => process,
            Err(error) => {
                say!("error: a process for jobs cannot be started: {error}");
                return Tried::Never("the service could not start a process for the job".into());
            }
        };
        process.tell(&Order::Do(Box::new(assignment(&service.files, ticket))));
        let mut asked: Option<Instant> = None;
        loop {
            match process.hear(BEAT) {
                Heard::Said(Said::Progress(progress)) => ticket.live.report(progress),
                Heard::Said(Said::Log(line)) => ticket.live.say(line),
                Heard::Said(Said::Ended { outcome, last }) => {
                    self.process = (!last).then_some(process);
                    return Tried::Ended(outcome);
                }
                Heard::Said(Said::Ready { .. }) | Heard::Nothing => {}
                Heard::End => return Tried::Died(process.end()),
            }
            match asked {
                None if why_stop(service, ticket, start).is_some() => {
                    process.tell(&Order::Stop);
                    asked = Some(Instant::now());
                }
                // Whatever it is doing, it does not listen.
                Some(asked) if asked.elapsed() > self.stop_within() => {
                    process.kill();
                    return Tried::Died(process.end());
                }
                _ => {}
            }
        }
    }

    fn stop_within(&self) -> Duration {
        match self.service.is_closing() {
            true => STOP_WITHIN.min(self.service.limits.shutdown.mul_f64(STOP_SHARE)),
            false => STOP_WITHIN,
        }
    }

    fn start_once(&self) -> std::io::Result<Process> {
        let service = self.service;
        Process::start(&service.program, service.files.root(), self.place, service.limits.job_bytes)
    }

    fn start(&self) -> std::io::Result<Process> {
        let service = self.service;
        let mut tries = 0;
        loop {
            let started = self.start_once();
            tries += 1;
            if started.is_ok() || tries == STARTS || service.is_closing() {
                return started;
            }
            std::thread::sleep(START_AGAIN);
        }
    }

    /// Gives what a job made its place and its record.
    fn keep(&self, ticket: &Ticket, folder: &Path, done: Done) -> Result<Finished> {
        let service = self.service;
        let committed = |problem: crate::serve::domain::problem::Problem| Error::invalid(problem.sentence);
        let holder = Holder::Job(ticket.id.clone());
        for (file, info) in &done.datasets {
            service.files.share(&folder.join(file), &service.files.dataset(&info.id), &info.id)?;
            service.store.write_now(Store::keep_dataset(info, &holder)).map_err(committed)?;
        }
        if let Some((file, info)) = &done.model {
            service.files.share(&folder.join(file), &service.files.model(&info.id), &info.id)?;
            service.store.write_now(Store::keep_model(info, &holder)).map_err(committed)?;
        }
        deaths::forget(folder);
        service.metrics.finished(&ticket.request, now() - ticket.created);
        Ok(Finished { result: done.result, files: files_in(folder) })
    }
}

/// What a process needs to know of a job.
fn assignment(files: &Files, ticket: &Ticket) -> Assignment {
    let inside = |path: PathBuf| path.strip_prefix(files.root()).map_or(path.clone(), Path::to_path_buf);
    Assignment {
        request: (*ticket.request).clone(),
        folder: inside(files.job(&ticket.id)),
        dataset: ticket.request.dataset().map(|id| inside(files.dataset(id))),
        origin: ticket.request.origin().map(|id| inside(files.dataset(id))),
        model: ticket.request.model().map(|id| inside(files.model(id))),
    }
}

/// The names of files in a job's folder that clients may fetch.
fn files_in(folder: &Path) -> Vec<String> {
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.') && !name.contains("checkpoint"))
        .collect();
    files.sort();
    files
}
