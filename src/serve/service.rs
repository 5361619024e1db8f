//! A service: what it is told, what it holds, and the life of a job.

use super::cache::Cache;
use super::events::{Event, Lives};
use super::files::Files;
use super::id::{ContentId, JobId};
use super::limits::Limits;
use super::metrics::Metrics;
use super::problem::Problem;
use super::queue::{Queue, Ticket};
use super::request::Request;
use super::store::{DatasetInfo, Job, JobState, ModelInfo, Store, now};
use super::worker;
use crate::bench::Place;
use crate::data::Dataset;
use crate::model::Model;
use crate::model::basis::FeatureChoice;
use crate::{Error, Result};
use axum::http::StatusCode;
use rusqlite::params;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// What a service is told.
pub struct Options {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Its folder.
    pub data: PathBuf,
    /// What clients must know, if anything.
    pub token: Option<String>,
    /// What clients may ask for.
    pub limits: Limits,
    /// Devices, with a worker each.
    pub places: Vec<Place>,
    /// Whether losses are evaluated together.
    pub batching: bool,
    /// Finished jobs, and files that none of the rest uses, are removed after so many days.
    pub keep_days: Option<f64>,
    /// Finished jobs are removed, oldest first, while the folder takes more bytes.
    pub max_disk: Option<u64>,
}

/// Bytes of datasets that are kept in memory.
const DATASET_CACHE: usize = 512 << 20;
/// Models that are kept in memory.
const MODEL_CACHE: usize = 64;

/// A running service.
pub struct Service {
    pub(super) files: Files,
    pub(super) store: Store,
    pub(super) queue: Queue,
    pub(super) lives: Lives,
    pub(super) limits: Limits,
    pub(super) metrics: Metrics,
    pub(super) token: Option<String>,
    pub(super) devices: Vec<(String, bool)>,
    pub(super) keep_days: Option<f64>,
    pub(super) max_disk: Option<u64>,
    datasets: Cache<ContentId, Dataset>,
    models: Cache<ContentId, Model>,
    closing: AtomicBool,
}

/// What a finished job leaves.
pub(super) struct Finished {
    pub result: serde_json::Value,
    pub files: Vec<String>,
}

/// How a job ended: its state, what it left, and why it failed.
pub(super) type Ending = (JobId, JobState, Option<Finished>, Option<String>);

impl Service {
    /// Opens the folder, takes up what an earlier run left, and starts a worker per device.
    pub fn start(options: Options) -> Result<(Arc<Service>, Vec<JoinHandle<()>>)> {
        let files = Files::open(&options.data)?;
        let store = Store::open(&files.database())?;
        let devices = options.places.iter().map(|place| (place.name(), place.is_software())).collect();
        let service = Arc::new(Service {
            files,
            store,
            queue: Queue::new(options.limits.queued, options.batching),
            lives: Lives::default(),
            limits: options.limits,
            metrics: Metrics::default(),
            token: options.token,
            devices,
            keep_days: options.keep_days,
            max_disk: options.max_disk,
            datasets: Cache::new(DATASET_CACHE),
            models: Cache::new(MODEL_CACHE),
            closing: AtomicBool::new(false),
        });
        let unfinished = service.store.unfinished().map_err(|problem| Error::invalid(problem.sentence))?;
        for job in unfinished {
            let live = service.lives.begin(&job.id);
            let Job { id, request, created, client, .. } = job;
            service.queue.push(&client, Ticket { id, request: Arc::new(request), live, created });
        }
        let workers = options
            .places
            .into_iter()
            .map(|place| {
                let service = service.clone();
                std::thread::spawn(move || worker::work(&service, &place))
            })
            .collect();
        Ok((service, workers))
    }

    /// Whether the service is about to end.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Ends: fits keep their checkpoints and go on next time.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.queue.close();
        self.lives.clear();
    }

    /// A dataset as samples.
    pub(super) fn dataset(&self, id: &ContentId) -> Result<Arc<Dataset>> {
        let size = |data: &Dataset| 8 * data.samples().as_slice().len();
        self.datasets.get(id, || Dataset::read(&self.files.dataset(id), None), size)
    }

    /// A model.
    pub(super) fn model(&self, id: &ContentId) -> Result<Arc<Model>> {
        self.models.get(id, || Model::read(&self.files.model(id)), |_| 1)
    }

    /// What is known of a dataset that a request names.
    pub(super) fn known_dataset(&self, id: &ContentId) -> std::result::Result<DatasetInfo, Problem> {
        self.store.dataset(id)?.ok_or_else(|| Problem::unknown("dataset"))
    }

    /// What is known of a model that a request names.
    pub(super) fn known_model(&self, id: &ContentId) -> std::result::Result<ModelInfo, Problem> {
        self.store.model(id)?.ok_or_else(|| Problem::unknown("model"))
    }

    /// Checks everything that can be known before the work.
    fn check(&self, request: &Request) -> std::result::Result<(), Problem> {
        if let Some(wanted) = request.device().filter(|wanted| *wanted != "auto") {
            let wanted = wanted.to_lowercase();
            if !self.devices.iter().any(|(name, _)| name.to_lowercase().contains(&wanted)) {
                let known: Vec<&str> = self.devices.iter().map(|(name, _)| name.as_str()).collect();
                let known = known.join(", ");
                return Err(Problem::bad(format!(
                    "unknown device '{wanted}', expected one of auto, {known}"
                )));
            }
        }
        let data = match request {
            Request::Fit(fit) => {
                fit.settings.check()?;
                fit.settings.is_exact()?;
                // No string of a client becomes a path.
                if matches!(fit.settings.features, FeatureChoice::File(_)) {
                    return Err(Problem::bad(
                        "features are a file, expected polynomial:K or rbf:K: a service reads no files of its clients",
                    ));
                }
                Some(self.known_dataset(&fit.dataset)?)
            }
            Request::Sample(sample) => {
                self.known_model(&sample.model)?;
                if sample.n < 2 {
                    return Err(Problem::bad(format!("found n = {}, expected at least 2 samples", sample.n)));
                }
                sample.settings().euler.check()?;
                None
            }
            Request::Evaluate(evaluate) => {
                self.known_model(&evaluate.model)?;
                Some(self.known_dataset(&evaluate.dataset)?)
            }
            Request::Loss(loss) => {
                self.known_model(&loss.model)?;
                Some(self.known_dataset(&loss.dataset)?)
            }
            Request::Simulate(simulate) => {
                simulate.settings.check()?;
                None
            }
        };
        self.limits.check(request, data.as_ref())
    }

    /// Takes a job: checked, committed, queued.
    pub(super) async fn submit(&self, client: String, request: Request) -> std::result::Result<Job, Problem> {
        self.check(&request)?;
        if !self.queue.has_room() {
            return Err(Problem {
                status: StatusCode::TOO_MANY_REQUESTS,
                sentence: format!("{} jobs wait already, expected fewer: try again later", self.queue.len()),
                retry_after: Some(2),
            });
        }
        let job = Job {
            id: self.store.new_job_id()?,
            kind: request.kind().into(),
            state: JobState::Queued,
            request,
            device: None,
            created: now(),
            started: None,
            finished: None,
            progress: None,
            error: None,
            result: None,
            files: Vec::new(),
            client,
        };
        let row = job.clone();
        self.store
            .write(move |db| {
                let request = serde_json::to_string(&row.request).expect("requests serialise");
                db.prepare_cached(
                    "INSERT INTO jobs (id, kind, client, state, request, created) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![row.id.as_str(), row.kind, row.client, "queued", request, row.created])?;
                Ok(())
            })
            .await
            .unwrap_or_else(|_| Err(Problem::internal()))?;
        let live = self.lives.begin(&job.id);
        let ticket =
            Ticket { id: job.id.clone(), request: Arc::new(job.request.clone()), live, created: job.created };
        self.queue.push(&job.client, ticket);
        Ok(job)
    }

    /// A job with its progress.
    pub(super) fn job(&self, id: &JobId) -> std::result::Result<Job, Problem> {
        let mut job = self.store.job(id)?.ok_or_else(|| Problem::unknown("job"))?;
        job.progress = self.lives.get(id).and_then(|live| live.progress());
        Ok(job)
    }

    /// Cancels a job: at once if it waits, otherwise as soon as its work can stop.
    pub(super) async fn cancel(self: &Arc<Self>, id: &JobId) -> std::result::Result<Job, Problem> {
        self.job(id)?;
        if let Some(ticket) = self.queue.remove(id) {
            let (service, id) = (self.clone(), ticket.id);
            tokio::task::spawn_blocking(move || service.end(&id, JobState::Cancelled, None, None))
                .await
                .map_err(|_| Problem::internal())?;
        } else if let Some(live) = self.lives.get(id) {
            live.cancel();
        }
        self.job(id)
    }

    /// A worker has begun. Told to listeners at once; on the disk a job that runs is one that waits.
    pub(super) fn begin(&self, ticket: &Ticket, device: &str) {
        let (id, device) = (ticket.id.clone(), device.to_owned());
        let started = now();
        // Not waited for: after a crash the job is queued either way.
        drop(self.store.write(move |db| {
            db.prepare_cached("UPDATE jobs SET state = 'running', device = ?2, started = ?3 WHERE id = ?1")?
                .execute(params![id.as_str(), device, started])?;
            Ok(())
        }));
    }

    /// A job has ended: committed, then told.
    pub(super) fn end(&self, id: &JobId, state: JobState, finished: Option<Finished>, error: Option<String>) {
        self.end_all(vec![(id.clone(), state, finished, error)]);
    }

    /// Several at once, in one commit.
    pub(super) fn end_all(&self, ended: Vec<Ending>) {
        let ids: Vec<JobId> = ended.iter().map(|(id, ..)| id.clone()).collect();
        for (_, state, ..) in &ended {
            self.metrics.ended(*state);
        }
        let written = self.store.write_now(move |db| {
            for (id, state, finished, error) in &ended {
                let result = finished.as_ref().map(|finished| finished.result.to_string());
                let files = finished.as_ref().map_or(&[][..], |finished| &finished.files);
                let files = serde_json::to_string(files).expect("names serialise");
                db.prepare_cached(
                    "UPDATE jobs SET state = ?2, finished = ?3, error = ?4, result = ?5, files = ?6 WHERE id = ?1",
                )?
                .execute(params![id.as_str(), state.name(), now(), error, result, files])?;
            }
            Ok(())
        });
        if let Err(problem) = written {
            // Not acknowledged: the jobs stay queued on the disk and are done again after a restart.
            eprintln!("error: results could not be kept: {}", problem.sentence);
        }
        for id in ids {
            match self.job(&id) {
                Ok(job) => self.lives.end(job),
                Err(problem) => eprintln!("error: {}", problem.sentence),
            }
        }
    }

    /// Tells listeners that a job runs.
    pub(super) fn announce(&self, ticket: &Ticket) {
        if let Ok(mut job) = self.job(&ticket.id) {
            job.state = JobState::Running;
            ticket.live.tell(Event::State(Box::new(job)));
        }
    }
}
