//! One worker per device: takes what waits, and does it.

use super::problem::sentence_of;
use super::queue::Ticket;
use super::request::Request;
use super::service::{Finished, Service};
use super::store::{JobState, Progress, now};
use super::work;
use crate::bench::Place;
use crate::engine::gpu::GpuEngine;
use crate::{Error, Result};
use std::path::PathBuf;
use std::time::Instant;

/// What a job's work can use.
pub(super) struct Work<'a> {
    pub service: &'a Service,
    pub ticket: &'a Ticket,
    pub gpu: Option<&'a GpuEngine>,
    pub device: &'a str,
    start: Instant,
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
    if matches!(*tickets[0].request, Request::Loss(_)) {
        return work::loss::evaluate(service, gpu, device, tickets);
    }
    for ticket in &tickets {
        service.announce(ticket);
        let work = Work { service, ticket, gpu, device, start: Instant::now() };
        // A panic is a bug; it must not take the queue with it.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work.run()))
            .unwrap_or_else(|_| Err(Error::Mismatch("the service failed; its log says more".into())));
        match outcome {
            // It goes on from its checkpoint next time.
            _ if service.is_closing() && outcome.is_err() => {}
            _ if ticket.live.is_cancelled() => {
                let _ = std::fs::remove_dir_all(service.files.job(&ticket.id));
                service.end(&ticket.id, JobState::Cancelled, None, None);
            }
            Ok(finished) => service.end(&ticket.id, JobState::Done, Some(finished), None),
            Err(error) => {
                if matches!(error, Error::Io { .. }) {
                    eprintln!("error: {error}");
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
        let seconds_left = (share > 0.0).then(|| self.seconds() * (1.0 - share) / share);
        self.ticket.live.report(Progress { share, seconds_left, ..details });
    }

    /// Lets short jobs pass: a long fit calls this now and then.
    pub fn let_short_jobs_pass(&self) {
        while !self.service.is_closing()
            && let Some(tickets) = self.service.queue.take_short(self.device)
        {
            serve(self.service, self.gpu, self.device, tickets);
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
