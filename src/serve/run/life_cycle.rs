//! The life of every job, whatever its kind: submitted, queued, running, and done, failed or cancelled.
//!
//! Each change is committed before anyone hears of it. On the disk, a job that is running is one that waits: after a crash of the
//! service it is queued again.

use super::crashes;
use super::live::Event;
use super::queue::{Full, Ticket};
use super::service::Service;
use crate::Error;
use crate::serve::domain::client::Client;
use crate::serve::domain::error::ServiceError;
use crate::serve::domain::estimate::{Estimate, Records};
use crate::serve::domain::id::JobId;
use crate::serve::domain::info::{DatasetInfo, ModelInfo};
use crate::serve::domain::job::{Job, JobEnd, JobState};
use crate::serve::domain::kinds::Request;
use crate::serve::domain::kinds::task::{JobOutput, Outcome};
use crate::serve::domain::now;
use crate::serve::store::{Holder, Unfinished};
use crate::stderr::say;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two tries to write to a full disk.
const RETRY_WRITE: Duration = Duration::from_secs(1);

/// Why a job has to stop.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum StopReason {
    Cancelled,
    /// The service ends.
    Closing,
    /// The job has taken longer than the limit.
    TooLong,
}

/// The records of dataset, origin and model, as far as a request names them.
type ReferencedRecords = (Option<DatasetInfo>, Option<DatasetInfo>, Option<ModelInfo>);

impl Service {
    // ---- submitted

    /// Checks everything that can be known before the work, and estimates what that needs. The files that the request names must
    /// belong to the owner, if one is given.
    pub(super) fn check(&self, request: &Request, owner: Option<&str>) -> Result<Estimate, ServiceError> {
        if let Some(wanted) = request.device().filter(|wanted| *wanted != "auto") {
            let wanted = wanted.to_lowercase();
            if !self.devices.iter().any(|(name, _)| name.to_lowercase().contains(&wanted)) {
                let known: Vec<&str> = self.devices.iter().map(|(name, _)| name.as_str()).collect();
                let known = known.join(", ");
                return Err(ServiceError::invalid(format!(
                    "unknown device '{wanted}', expected one of auto, {known}"
                )));
            }
        }
        request.check()?;
        let (dataset, origin, model) = self.records_of(request, owner)?;
        let records = Records { dataset: dataset.as_ref(), origin: origin.as_ref(), model: model.as_ref() };
        request.check_against(&records, &self.limits)?;
        let estimate = request.estimate(&records);
        self.limits.check_bytes(estimate.bytes)?;
        Ok(estimate)
    }

    /// The records of the files that a request names: dataset, origin and model.
    fn records_of(&self, request: &Request, owner: Option<&str>) -> Result<ReferencedRecords, ServiceError> {
        let files = request.references();
        let dataset = files.dataset.map(|id| self.store.dataset_for(id, owner)).transpose()?;
        let origin = files.origin.map(|id| self.store.dataset_for(id, owner)).transpose()?;
        let model = files.model.map(|id| self.store.model_for(id, owner)).transpose()?;
        Ok((dataset, origin, model))
    }

    /// Accepts a job: checks, commits and queues it. The client may disconnect meanwhile; a job that is committed is queued.
    pub(in crate::serve) async fn submit(
        self: &Arc<Self>,
        client: &Client,
        request: Request,
    ) -> Result<Job, ServiceError> {
        let (service, client) = (self.clone(), client.clone());
        let accepted = tokio::spawn(async move { service.accept(&client, request).await });
        accepted.await.unwrap_or(Err(ServiceError::Internal))
    }

    async fn accept(&self, client: &Client, request: Request) -> Result<Job, ServiceError> {
        let estimate = self.check(&request, client.sees_only())?;
        let seat = self.queue.seat(&client.queue_name()).map_err(|full| ServiceError::TooMany {
            sentence: match full {
                Full::Everyone(count) => {
                    format!("{count} jobs wait already, expected fewer: try again later")
                }
                Full::Client(count) => {
                    format!("{count} jobs of yours wait already, expected fewer: try again later")
                }
            },
            retry_after: 2,
        })?;
        let id = self.store.new_job_id()?;
        let job = Job::queued(id, request, client.queue_name(), client.owner().to_owned());
        self.store.create_job(client, &job).await?;
        self.enqueue(&job, &estimate);
        drop(seat);
        Ok(job)
    }

    // ---- queued

    fn enqueue(&self, job: &Job, estimate: &Estimate) {
        let Job { id, request: Some(request), created, client, .. } = job else { return };
        let ticket = Ticket {
            id: id.clone(),
            request: Arc::new(request.clone()),
            live: self.live_jobs.begin(id),
            created: *created,
            short: estimate.is_short(),
            bytes: estimate.bytes,
        };
        self.queue.push(client, ticket);
    }

    /// Queues the jobs that an earlier run of the service did not finish.
    pub(super) fn requeue_unfinished(&self) -> Result<(), ServiceError> {
        for job in self.store.unfinished()? {
            match job {
                Unfinished::Job(job) => {
                    let Some(request) = &job.request else { continue };
                    // A job whose data is gone fails when its turn comes.
                    let estimate = match self.records_of(request, None) {
                        Ok((dataset, origin, model)) => request.estimate(&Records {
                            dataset: dataset.as_ref(),
                            origin: origin.as_ref(),
                            model: model.as_ref(),
                        }),
                        Err(_) => Estimate::default(),
                    };
                    self.enqueue(&job, &estimate);
                }
                Unfinished::Unreadable(number, reason) => {
                    say!("error: job {number} has failed: {reason}");
                    if let Err(error) = self.store.fail_unreadable(number, reason) {
                        say!("error: the failure of job {number} could not be recorded: {error}");
                    }
                }
            }
        }
        Ok(())
    }

    // ---- running

    /// Does jobs from their start to their end. `work` returns an outcome for each; a panic in it fails them all.
    pub(super) fn run_jobs(
        &self,
        tickets: &[Ticket],
        device: &str,
        work: impl FnOnce(Instant) -> Vec<Outcome>,
    ) {
        for ticket in tickets {
            self.begin(ticket, device);
        }
        let start = Instant::now();
        let outcomes = std::panic::catch_unwind(AssertUnwindSafe(|| work(start))).unwrap_or_else(|panic| {
            let failed = Outcome::Failed(Error::panicked(panic.as_ref()).to_string());
            vec![failed; tickets.len()]
        });
        let ends = tickets.iter().zip(outcomes);
        self.end(ends.filter_map(|(ticket, outcome)| self.conclude(ticket, start, outcome)).collect());
    }

    /// A worker starts a job: recorded soon, and announced to those who follow it.
    fn begin(&self, ticket: &Ticket, device: &str) {
        let started = now();
        self.store.start_job(&ticket.id, device, started);
        // Reading the job takes longer than evaluating a short loss.
        if ticket.live.is_followed()
            && let Ok(job) = self.job(&ticket.id)
        {
            let (state, device) = (JobState::Running, Some(device.to_owned()));
            let job = Job { state, device, started: Some(started), ..job };
            ticket.live.send(Event::State(Box::new(job)));
        }
    }

    /// Why a job that began at `start` has to stop, if it has to.
    pub(super) fn stop_reason(&self, ticket: &Ticket, start: Instant) -> Option<StopReason> {
        if ticket.live.is_cancelled() {
            Some(StopReason::Cancelled)
        } else if self.is_closing() {
            Some(StopReason::Closing)
        } else {
            (start.elapsed().as_secs_f64() > self.limits.job_seconds).then_some(StopReason::TooLong)
        }
    }

    // ---- done, failed or cancelled

    /// How a job ends whose work has this outcome; none if the service ends and the job continues next time.
    fn conclude(&self, ticket: &Ticket, start: Instant, outcome: Outcome) -> Option<JobEnd> {
        let (id, folder) = (ticket.id.clone(), self.files.job(&ticket.id));
        match (outcome, self.stop_reason(ticket, start)) {
            // Whoever cancelled a job wants no result, even if it is done.
            (_, Some(StopReason::Cancelled)) => {
                let _ = std::fs::remove_dir_all(&folder);
                Some(JobEnd::cancelled(id))
            }
            // A job that is done is done, even if it should have stopped by now.
            (Outcome::Done(output), _) => Some(match self.keep(ticket, &folder, *output) {
                Ok(end) => end,
                Err(error) => JobEnd::failed(id, error.to_string()),
            }),
            // It resumes from its checkpoint, or starts from the beginning.
            (_, Some(StopReason::Closing)) => None,
            (Outcome::Failed(sentence), _) => Some(JobEnd::failed(id, sentence)),
            (Outcome::Stopped, _) => {
                let (took, most) = (start.elapsed().as_secs_f64(), self.limits.job_seconds);
                Some(JobEnd::failed(
                    id,
                    match took > most {
                        true => {
                            format!("the job took {took:.0} s, expected at most {most:.0} on this service")
                        }
                        false => "the job was stopped".into(),
                    },
                ))
            }
        }
    }

    /// Moves the models and datasets of a finished job to their places and records them.
    fn keep(&self, ticket: &Ticket, folder: &Path, output: JobOutput) -> Result<JobEnd, ServiceError> {
        let holder = Holder::Job(ticket.id.clone());
        for (file, info) in &output.datasets {
            self.files.share(&folder.join(file), &self.files.dataset(&info.id), &info.id)?;
            self.store.add_dataset_now(info, &holder)?;
        }
        if let Some((file, info)) = &output.model {
            self.files.share(&folder.join(file), &self.files.model(&info.id), &info.id)?;
            self.store.add_model_now(info, &holder)?;
        }
        crashes::forget(folder);
        self.metrics.finished(&ticket.request, now() - ticket.created);
        Ok(JobEnd::done(ticket.id.clone(), output.result, downloads(folder)))
    }

    /// Records how jobs ended, in one commit, and then sends the last event to those who follow them.
    fn end(&self, ends: Vec<JobEnd>) {
        if ends.is_empty() {
            return;
        }
        let ends = Arc::new(ends);
        for end in ends.iter() {
            self.metrics.ended(end.state);
        }
        // While the disk is full nothing else can be recorded either, so this waits for room. If the service ends first, the jobs
        // are unfinished on the disk and are done again next time.
        while let Err(error) = self.store.end_jobs(&ends) {
            say!("error: results could not be recorded: {error}");
            if self.is_closing() {
                return;
            }
            std::thread::sleep(RETRY_WRITE);
        }
        for end in ends.iter() {
            match self.job(&end.id) {
                Ok(job) => self.live_jobs.end(job),
                Err(error) => say!("error: {error}"),
            }
        }
    }

    /// Cancels a job: at once if it waits, otherwise as soon as its work can stop. The client may disconnect meanwhile.
    pub(in crate::serve) async fn cancel(
        self: &Arc<Self>,
        client: &Client,
        id: &JobId,
    ) -> Result<Job, ServiceError> {
        let job = self.job_for(client, id)?;
        let (service, client) = (self.clone(), client.clone());
        let cancelled = tokio::spawn(async move { service.cancel_known(&client, job).await });
        cancelled.await.unwrap_or(Err(ServiceError::Internal))
    }

    async fn cancel_known(&self, client: &Client, job: Job) -> Result<Job, ServiceError> {
        let id = job.id;
        if let Some(ticket) = self.queue.remove(&id) {
            if let Err(error) = self.store.cancel_job(client, &id).await {
                // It is not cancelled then, and waits again.
                self.queue.push(&job.client, ticket);
                return Err(error);
            }
            self.live_jobs.end(self.job(&id)?);
        } else if let Some(live) = self.live_jobs.get(&id) {
            live.cancel();
            self.store.log_cancellation(client, &id).await?;
        }
        self.job(&id)
    }

    // ---- at any time

    /// A job with its progress.
    pub(in crate::serve) fn job(&self, id: &JobId) -> Result<Job, ServiceError> {
        let mut job = self.store.job(id)?.ok_or(ServiceError::NotFound("job"))?;
        job.progress = self.live_jobs.get(id).and_then(|live| live.progress());
        Ok(job)
    }

    /// A job that a client may see.
    pub(in crate::serve) fn job_for(&self, client: &Client, id: &JobId) -> Result<Job, ServiceError> {
        let job = self.job(id)?;
        match client.sees_only() {
            Some(owner) if owner != job.owner => Err(ServiceError::NotFound("job")),
            _ => Ok(job),
        }
    }
}

/// The names of the files in a job's folder that clients may download.
fn downloads(folder: &Path) -> Vec<String> {
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
