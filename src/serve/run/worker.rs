//! Workers. Every device has one for losses, one for short jobs and one for long ones. The service evaluates losses itself, many at
//! once. Every other job runs in a process, one for each worker, so that a job which ends its process ends nothing else.

use super::crashes;
use super::process::{Death, Heard, Process};
use super::protocol::{Message, Order};
use super::queue::{Lane, Ticket};
use super::service::Service;
use crate::Result;
use crate::data::Dataset;
use crate::engine::Place;
use crate::engine::gpu::GpuEngine;
use crate::model::Model;
use crate::serve::domain::id::ContentId;
use crate::serve::domain::job::Progress;
use crate::serve::domain::kinds::task::{
    Assignment, JointJob, JointTask, Outcome, POLL_INTERVAL, Supervisor,
};
use crate::serve::domain::kinds::{Execution, JointKind};
use crate::serve::store::Files;
use crate::stderr::say;
use std::cell::LazyCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time that a job has to stop before its process is killed.
const STOP_WITHIN: Duration = Duration::from_secs(6);
/// The same when the service ends, as a share of the time that it has for that.
const STOP_SHARE: f64 = 0.6;
/// Tries to start a process, and the time between them.
const START_TRIES: u32 = 3;
const START_AGAIN: Duration = Duration::from_secs(1);

/// Works until the service ends.
pub(super) fn work(service: &Service, place: &Place, lane: Lane) {
    let device = place.name();
    let gpu = LazyCell::new(|| place.gpu());
    let mut runner = ProcessRunner { service, place, process: None };
    loop {
        if lane != Lane::Losses {
            runner.prepare();
        }
        let Some(tickets) = service.queue.wait(&device, lane) else { return };
        service.run_jobs(&tickets, &device, |start| match tickets[0].request.execution() {
            Execution::Jointly(kind) => {
                Joint { service, gpu: gpu.as_ref(), device: &device, start }.run(kind, &tickets)
            }
            Execution::InProcess(_) => tickets.iter().map(|ticket| runner.run(ticket, start)).collect(),
        });
    }
}

/// Jobs that the service evaluates together.
pub(super) struct Joint<'a> {
    pub service: &'a Service,
    pub gpu: Option<&'a GpuEngine>,
    pub device: &'a str,
    pub start: Instant,
}

impl Joint<'_> {
    /// Evaluates all jobs but those that were cancelled while they waited.
    pub(super) fn run(&self, kind: &dyn JointKind, tickets: &[Ticket]) -> Vec<Outcome> {
        let supervisors: Vec<TicketSupervisor<'_>> = tickets
            .iter()
            .map(|ticket| TicketSupervisor { service: self.service, ticket, start: self.start })
            .collect();
        let places: Vec<usize> = (0..tickets.len()).filter(|k| !tickets[*k].live.is_cancelled()).collect();
        let job = |k: &usize| JointJob {
            request: &tickets[*k].request,
            folder: self.service.files.job(&tickets[*k].id),
            short: tickets[*k].short,
            supervisor: &supervisors[*k],
        };
        let jobs: Vec<JointJob<'_>> = places.iter().map(job).collect();
        let mut outcomes = vec![Outcome::Stopped; tickets.len()];
        for (k, outcome) in places.into_iter().zip(kind.run_all(&jobs, self)) {
            outcomes[k] = outcome;
        }
        outcomes
    }
}

impl JointTask for Joint<'_> {
    fn dataset(&self, id: &ContentId) -> Result<Arc<Dataset>> {
        self.service.dataset(id)
    }

    fn model(&self, id: &ContentId) -> Result<Arc<Model>> {
        self.service.model(id)
    }

    fn gpu(&self) -> Option<&GpuEngine> {
        self.gpu
    }

    fn device(&self) -> &str {
        self.device
    }

    fn count_evaluation(&self, jobs: usize) {
        self.service.metrics.evaluated(jobs);
    }

    fn start(&self) -> Instant {
        self.start
    }
}

/// Connects the work of a job that the service does itself with those who follow and stop it.
struct TicketSupervisor<'a> {
    service: &'a Service,
    ticket: &'a Ticket,
    start: Instant,
}

impl Supervisor for TicketSupervisor<'_> {
    fn should_stop(&self) -> bool {
        self.service.stop_reason(self.ticket, self.start).is_some()
    }

    fn progress(&self, progress: Progress) {
        self.ticket.live.report(progress);
    }

    fn log(&self, line: String) {
        self.ticket.live.log(line);
    }
}

/// Runs jobs in a process that continues from job to job.
struct ProcessRunner<'a> {
    service: &'a Service,
    place: &'a Place,
    process: Option<Process>,
}

/// How one try to do a job ended.
enum Try {
    Ended(Outcome),
    Died(Death),
    /// No process could be started.
    NotStarted,
}

impl ProcessRunner<'_> {
    /// Does a job. If its process ends before the job does, a second one tries again.
    fn run(&mut self, ticket: &Ticket, start: Instant) -> Outcome {
        let (service, folder) = (self.service, self.service.files.job(&ticket.id));
        loop {
            if let Some(reason) = crashes::exhausted(&folder) {
                return Outcome::Failed(format!("the job ended its process twice: {reason}"));
            }
            match self.attempt(ticket, start) {
                Try::Ended(outcome) => return outcome,
                Try::NotStarted => {
                    return Outcome::Failed("the service could not start a process for the job".into());
                }
                Try::Died(_) if service.stop_reason(ticket, start).is_some() => return Outcome::Stopped,
                // Somebody ended the process. That is not the job's fault, and it starts again.
                Try::Died(Death { asked: true, .. }) => {}
                Try::Died(Death { reason, .. }) => {
                    say!("error: job {}: {reason}", ticket.id.as_str());
                    if let Err(error) = crashes::count(&folder, &reason) {
                        // Without a count it would be tried for ever.
                        say!("error: {error}");
                        return Outcome::Failed(reason);
                    }
                    ticket.live.log(format!("{reason}; the service tries once more"));
                }
            }
        }
    }

    /// Has a process ready before there is a job for it. If none can be started, the job's own try reports that.
    fn prepare(&mut self) {
        if !self.process.as_mut().is_some_and(Process::is_alive) {
            self.process = self.start_once().ok();
        }
    }

    /// One try, until the job or its process ends.
    fn attempt(&mut self, ticket: &Ticket, start: Instant) -> Try {
        let service = self.service;
        // A process that ended between two jobs has nothing to do with this one.
        let idle = self.process.take().and_then(|mut process| process.is_alive().then_some(process));
        let mut process = match idle.map_or_else(|| self.start(), Ok) {
            Ok(process) => process,
            Err(error) => {
                say!("error: a process for jobs cannot be started: {error}");
                return Try::NotStarted;
            }
        };
        process.send(&Order::Do(Box::new(assignment(&service.files, ticket))));
        let mut stop_sent: Option<Instant> = None;
        loop {
            match process.receive(POLL_INTERVAL) {
                Heard::Message(Message::Progress(progress)) => ticket.live.report(progress),
                Heard::Message(Message::Log(line)) => ticket.live.log(line),
                Heard::Message(Message::Ended { outcome, last }) => {
                    self.process = (!last).then_some(process);
                    return Try::Ended(outcome);
                }
                Heard::Message(Message::Ready { .. }) | Heard::Nothing => {}
                Heard::End => return Try::Died(process.end()),
            }
            match stop_sent {
                None if service.stop_reason(ticket, start).is_some() => {
                    process.send(&Order::Stop);
                    stop_sent = Some(Instant::now());
                }
                // It does not listen.
                Some(sent) if sent.elapsed() > self.stop_within() => {
                    process.kill();
                    return Try::Died(process.end());
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
        let mut tries = 0;
        loop {
            let started = self.start_once();
            tries += 1;
            if started.is_ok() || tries == START_TRIES || self.service.is_closing() {
                return started;
            }
            std::thread::sleep(START_AGAIN);
        }
    }
}

/// A job for a process, with paths relative to the folder of the service, in which the process runs.
fn assignment(files: &Files, ticket: &Ticket) -> Assignment {
    let inside = |path: PathBuf| path.strip_prefix(files.root()).map_or(path.clone(), Path::to_path_buf);
    let references = ticket.request.references();
    Assignment {
        request: (*ticket.request).clone(),
        folder: inside(files.job(&ticket.id)),
        dataset: references.dataset.map(|id| inside(files.dataset(id))),
        origin: references.origin.map(|id| inside(files.dataset(id))),
        model: references.model.map(|id| inside(files.model(id))),
    }
}
