//! One worker per device: takes what waits, and does it.

use super::id::JobId;
use super::problem::{Problem, sentence_of};
use super::queue::Ticket;
use super::request::Request;
use super::service::{Finished, Service};
use super::store::{JobState, Progress, now};
use super::work;
use crate::engine::Place;
use crate::engine::gpu::GpuEngine;
use crate::stderr::say;
use crate::{Error, Result};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Time between looks at work that goes on.
const BEAT: Duration = Duration::from_millis(10);
/// Beats between reports.
const REPORT_BEATS: u32 = 10;

/// What a job's work can use.
pub(super) struct Work<'a> {
    pub service: &'a Service,
    pub ticket: &'a Ticket,
    pub gpu: Option<&'a GpuEngine>,
    pub device: &'a str,
    pub start: Instant,
}

/// Works until the service ends.
pub(super) fn work(service: &Service, place: &Place) {
    let (gpu, device) = (place.gpu(), place.name());
    while let Some(tickets) = service.queue.wait(&device) {
        serve(service, gpu.as_ref(), &device, tickets);
    }
}

/// Does one job, or several losses at once.
fn serve(service: &Service, gpu: Option<&GpuEngine>, device: &str, tickets: Vec<Ticket>) {
    for ticket in &tickets {
        service.begin(ticket, device);
    }
    // A panic is a bug; it must not take the queue with it.
    let failed = || Problem::internal().sentence;
    if matches!(*tickets[0].request, Request::Loss(_)) {
        let ids: Vec<JobId> = tickets.iter().map(|ticket| ticket.id.clone()).collect();
        let evaluate = || work::loss::evaluate(service, gpu, device, tickets);
        if std::panic::catch_unwind(AssertUnwindSafe(evaluate)).is_err() {
            let ended = ids.into_iter().map(|id| (id, JobState::Failed, None, Some(failed())));
            service.end_all(ended.collect());
        }
        return;
    }
    for ticket in &tickets {
        service.announce(ticket);
        let work = Work { service, ticket, gpu, device, start: Instant::now() };
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| work.run()))
            .unwrap_or_else(|_| Err(Error::Mismatch(failed())));
        match outcome {
            // It goes on from its checkpoint, or begins anew, next time.
            Err(_) if service.is_closing() => {}
            _ if ticket.live.is_cancelled() => {
                let _ = std::fs::remove_dir_all(service.files.job(&ticket.id));
                service.end(&ticket.id, JobState::Cancelled, None, None);
            }
            Ok(finished) => service.end(&ticket.id, JobState::Done, Some(finished), None),
            Err(error) => {
                if matches!(error, Error::Io { .. }) {
                    say!("error: {error}");
                }
                service.end(&ticket.id, JobState::Failed, None, Some(sentence_of(&error)));
            }
        }
    }
}

impl Work<'_> {
    fn run(&self) -> Result<Finished> {
        match &*self.ticket.request {
            Request::Fit(request) => work::fit::run(self, request),
            Request::Sample(request) => work::sample::run(self, request),
            Request::Evaluate(request) => work::evaluate::run(self, request),
            Request::Simulate(request) => work::simulate::run(self, request),
            Request::Loss(_) => unreachable!("losses are evaluated together"),
        }
    }

    /// The job's folder, made if need be.
    pub fn folder(&self) -> Result<PathBuf> {
        let folder = self.service.files.job(&self.ticket.id);
        crate::output::create_folder(&folder)?;
        Ok(folder)
    }

    /// Whether the work shall stop: it was cancelled, took too long, or the service ends.
    pub fn shall_stop(&self) -> bool {
        self.ticket.live.is_cancelled() || self.service.is_closing() || self.is_late()
    }

    pub fn is_late(&self) -> bool {
        self.seconds() > self.service.limits.job_seconds
    }

    /// Why it was stopped, as an error.
    pub fn stopped(&self) -> Error {
        match self.is_late() {
            true => Error::invalid(format!(
                "the job took {:.0} s, expected at most {:.0} on this service",
                self.seconds(),
                self.service.limits.job_seconds
            )),
            false => Error::invalid("the job was stopped"),
        }
    }

    pub fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Tells how far the job is, with the time left at the present rate.
    pub fn report(&self, share: f64, details: Progress) {
        let share = share.min(1.0);
        let seconds_left = (share > 0.0).then(|| self.seconds() * (1.0 - share) / share);
        self.ticket.live.report(Progress { share, seconds_left, ..details });
    }

    /// Lets a short job pass, or several that are evaluated together, and no more: however many come, a long job goes on.
    /// One that is short itself lets nobody pass.
    pub fn let_one_pass(&self) {
        if !self.ticket.short
            && !self.service.is_closing()
            && let Some(tickets) = self.service.queue.take_short(self.device)
        {
            serve(self.service, self.gpu, self.device, tickets);
        }
    }

    /// Does long work, and beside it, on a thread of its own: tells how far it is of `all`, passes on a wish to stop, and
    /// does short jobs.
    pub fn watched<T>(
        &self,
        progress: &crate::Progress,
        all: u64,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let outcome = std::thread::scope(|scope| {
            let (ended, end) = channel::<()>();
            scope.spawn(move || {
                let mut beats = 0;
                while end.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                    if self.shall_stop() {
                        progress.stop();
                    }
                    beats += 1;
                    if beats % REPORT_BEATS == 0 {
                        self.report(progress.done() as f64 / all.max(1) as f64, Progress::default());
                    }
                    // A GPU has one queue, which the work itself uses.
                    if self.gpu.is_none() {
                        self.service.beside.install(|| self.let_one_pass());
                    }
                }
            });
            let outcome = work();
            drop(ended);
            outcome
        });
        match outcome {
            Err(Error::Stopped) => Err(self.stopped()),
            other => other,
        }
    }

    /// The names of files in the job's folder that clients may fetch.
    pub fn finished(&self, result: serde_json::Value) -> Result<Finished> {
        let folder = self.service.files.job(&self.ticket.id);
        let mut files: Vec<String> = std::fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| !name.starts_with('.') && !name.contains("checkpoint"))
            .collect();
        files.sort();
        let waited = now() - self.ticket.created;
        self.service.metrics.finished(&self.ticket.request, waited);
        Ok(Finished { result, files })
    }
}
