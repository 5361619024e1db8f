//! A service: what it is told, what it holds, and the life of a job.

use crate::data::Dataset;
use crate::engine::Place;
use crate::fit::{Knowledge, check_resamples};
use crate::model::Model;
use crate::model::basis::FeatureChoice;
use crate::serve::domain::attempts::Attempts;
use crate::serve::domain::id::{ContentId, JobId};
use crate::serve::domain::limits::Limits;
use crate::serve::domain::need::Need;
use crate::serve::domain::problem::Problem;
use crate::serve::domain::request::Request;
use crate::serve::domain::who::Who;
use crate::serve::run::arriving::Arriving;
use crate::serve::run::cache::Cache;
use crate::serve::run::clean;
use crate::serve::run::events::{Event, Lives};
use crate::serve::run::health::{Health, Pulse};
use crate::serve::run::metrics::Metrics;
use crate::serve::run::queue::{Full, Lane, Queue, Ticket};
use crate::serve::run::worker;
use crate::serve::store::audit::line;
use crate::serve::store::database::{DatasetInfo, Job, JobState, ModelInfo, Store, now};
use crate::serve::store::files::Files;
use crate::serve::store::folder::{self, Claim};
use crate::serve::store::lists;
use crate::serve::store::rows::Unfinished;
use crate::serve::store::tokens::Tokens;
use crate::stderr::say;
use crate::{Error, Result};
use axum::http::StatusCode;
use rusqlite::{Transaction, params};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// What a service is told.
pub struct Options {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Its folder.
    pub data: PathBuf,
    /// What clients must know, if anything; those with named tokens know theirs.
    pub token: Option<String>,
    /// Whether a folder without its database gets a new one.
    pub recover: bool,
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
    /// The program that jobs run in: `skds`, which has the command `work`.
    pub program: PathBuf,
}

impl Options {
    /// A service on this machine alone, with no device yet: what a caller has to say, and the usual for the rest.
    pub fn local(data: PathBuf, program: PathBuf) -> Self {
        Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            data,
            token: None,
            recover: false,
            limits: Limits::default(),
            places: Vec::new(),
            batching: true,
            keep_days: None,
            max_disk: None,
            program,
        }
    }
}

/// Time between tries to write to a disk that is full.
const AGAIN: Duration = Duration::from_secs(1);
/// Bytes of datasets that are kept in memory.
const DATASET_CACHE: usize = 512 << 20;
/// Models that are kept in memory.
const MODEL_CACHE: usize = 64;

/// A running service.
pub struct Service {
    pub(in crate::serve) files: Files,
    pub(in crate::serve) store: Store,
    pub(in crate::serve) queue: Queue,
    pub(in crate::serve) lives: Lives,
    pub(in crate::serve) limits: Limits,
    pub(in crate::serve) metrics: Metrics,
    pub(in crate::serve) tokens: Tokens,
    pub(in crate::serve) attempts: Attempts,
    pub(in crate::serve) health: Health,
    pub(in crate::serve) devices: Vec<(String, bool)>,
    pub(in crate::serve) keep_days: Option<f64>,
    pub(in crate::serve) max_disk: Option<u64>,
    datasets: Cache<ContentId, Dataset>,
    models: Cache<ContentId, Model>,
    closing: AtomicBool,
    /// The program that jobs run in.
    pub(in crate::serve) program: PathBuf,
    /// Uploads under way.
    pub(in crate::serve) arriving: Arriving,
}

/// What a finished job leaves.
pub(in crate::serve) struct Finished {
    pub result: serde_json::Value,
    pub files: Vec<String>,
}

/// How a job ended: its state, what it left, and why it failed.
pub(in crate::serve) type Ending = (JobId, JobState, Option<Finished>, Option<String>);

impl Service {
    /// Opens the folder, takes up what an earlier run left, and starts the workers of every device.
    pub fn start(options: Options) -> Result<(Arc<Service>, Vec<JoinHandle<()>>)> {
        // Looked at before anything is touched.
        folder::claim(&options.data, options.recover)?;
        let tokens = Tokens::open(options.token.as_deref(), &options.data)?;
        let listen = options.listen;
        if !listen.ip().is_loopback() && !tokens.are_needed() {
            return Err(Error::invalid(format!(
                "the address {listen} can be reached from other machines, expected a token for it: give --token-file or SKDS_TOKEN, \
                 or make named tokens with --add-token"
            )));
        }
        let (files, claim) = Files::open(&options.data, options.recover)?;
        let store = Store::open(&files.database(), files.audit_log())?;
        if claim == Claim::Recovered {
            folder::recover(&files, &store)?;
        }
        let devices = options.places.iter().map(|place| (place.name(), place.is_software())).collect();
        let service = Arc::new(Service {
            files,
            store,
            queue: Queue::new(options.limits.queued, options.limits.queued_each, options.batching),
            lives: Lives::default(),
            limits: options.limits,
            metrics: Metrics::default(),
            tokens,
            attempts: Attempts::default(),
            health: Health::default(),
            devices,
            keep_days: options.keep_days,
            max_disk: options.max_disk,
            datasets: Cache::new(DATASET_CACHE),
            models: Cache::new(MODEL_CACHE),
            closing: AtomicBool::new(false),
            program: options.program,
            arriving: Arriving::new(options.limits.job_bytes),
        });
        service.take_up(claim).map_err(|problem| Error::invalid(problem.sentence))?;
        let workers = options
            .places
            .into_iter()
            .map(Arc::new)
            .flat_map(|place| Lane::ALL.map(|lane| (place.clone(), lane)))
            .map(|(place, lane)| {
                let service = service.clone();
                let pulse = Pulse::new(service.clone(), &place.name());
                std::thread::spawn(move || {
                    let _pulse = pulse;
                    worker::work(&service, &place, lane)
                })
            })
            .collect();
        Ok((service, workers))
    }

    /// Goes on where an earlier run ended.
    fn take_up(&self, claim: Claim) -> std::result::Result<(), Problem> {
        clean::finish_removals(self, claim)?;
        for job in self.store.unfinished()? {
            match job {
                Unfinished::Job(job) => {
                    // One whose data is gone fails in its turn, and says so.
                    let need = job
                        .request
                        .as_ref()
                        .and_then(|request| self.need_of(request, None).ok())
                        .unwrap_or_default();
                    self.enqueue(&job, &need);
                }
                Unfinished::Unreadable(number, reason) => {
                    say!("error: job {number} has failed: {reason}");
                    let change =
                        "UPDATE jobs SET state = 'failed', finished = ?2, error = ?3 WHERE number = ?1";
                    let ended = self
                        .store
                        .write_now(move |db| db.execute(change, params![number, now(), reason]).map(|_| ()));
                    if let Err(problem) = ended {
                        say!("error: that could not be written down: {}", problem.sentence);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the service is about to end.
    pub(in crate::serve) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Ends: fits keep their checkpoints and go on next time.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.queue.close();
        self.lives.clear();
    }

    /// A dataset as samples.
    pub(in crate::serve) fn dataset(&self, id: &ContentId) -> Result<Arc<Dataset>> {
        let size = |data: &Dataset| 8 * data.samples().as_slice().len();
        self.datasets.get(id, || Dataset::read(&self.files.dataset(id)), size)
    }

    /// A model.
    pub(in crate::serve) fn model(&self, id: &ContentId) -> Result<Arc<Model>> {
        self.models.get(id, || Model::read(&self.files.model(id)), |_| 1)
    }

    /// What is known of a dataset that a request names, as an owner knows it; as its first one does if none is named.
    pub(in crate::serve) fn known_dataset(
        &self,
        id: &ContentId,
        owner: Option<&str>,
    ) -> std::result::Result<DatasetInfo, Problem> {
        let unknown = || Problem::unknown("dataset");
        let share = match owner {
            Some(owner) => Some(self.store.shared("datasets", id, owner)?.ok_or_else(unknown)?),
            None => None,
        };
        let mut info = self.store.dataset(id)?.ok_or_else(unknown)?;
        if let Some((name, _)) = share {
            info.name = name.unwrap_or(info.name);
        }
        Ok(info)
    }

    /// What is known of a model that a request names, if that is an owner's.
    pub(in crate::serve) fn known_model(
        &self,
        id: &ContentId,
        owner: Option<&str>,
    ) -> std::result::Result<ModelInfo, Problem> {
        let unknown = || Problem::unknown("model");
        if let Some(owner) = owner {
            self.store.shared("models", id, owner)?.ok_or_else(unknown)?;
        }
        self.store.model(id)?.ok_or_else(unknown)
    }

    /// What a request will need, by what is on record of its data and model, which must be an owner's if one is named. What it
    /// says of their variables is checked.
    fn need_of(&self, request: &Request, owner: Option<&str>) -> std::result::Result<Need, Problem> {
        let data = request.dataset().map(|id| self.known_dataset(id, owner)).transpose()?;
        let origin = request.origin().map(|id| self.known_dataset(id, owner)).transpose()?;
        if let (Request::Fit(fit), Some(data)) = (request, &data) {
            Knowledge::check(&data.variables, &fit.edges)?;
        }
        let model = request.model().map(|id| self.known_model(id, owner)).transpose()?;
        Ok(Need::of(request, data.as_ref(), origin.as_ref(), model.as_ref()))
    }

    /// Checks everything that can be known before the work, and tells what that will need.
    pub(in crate::serve) fn check(
        &self,
        request: &Request,
        owner: Option<&str>,
    ) -> std::result::Result<Need, Problem> {
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
        match request {
            Request::Fit(fit) => {
                let recipe = fit.settings.settle()?;
                if let Some(resamples) = fit.bootstrap {
                    if recipe.solver.adam().is_some() {
                        return Err(Problem::bad(
                            "bootstrap is given with the solver adam, expected the exact solver",
                        ));
                    }
                    // What they take together is in the estimate.
                    check_resamples(resamples, 0.0)?;
                }
                // No string of a client becomes a path.
                if matches!(fit.settings.features, Some(FeatureChoice::File(_))) {
                    return Err(Problem::bad(
                        "features are a file, expected polynomial:K or rbf:K: a service reads no files of its clients",
                    ));
                }
            }
            Request::Sample(sample) => {
                if let Some(n) = sample.n.filter(|n| *n < 2) {
                    return Err(Problem::bad(format!("found n = {n}, expected at least 2 samples")));
                }
                sample.settings().euler.check()?;
            }
            Request::Simulate(simulate) => simulate.settings.check()?,
            Request::Evaluate(_) | Request::Loss(_) => {}
        }
        let need = self.need_of(request, owner)?;
        self.limits.check(request, &need)?;
        Ok(need)
    }

    /// Takes a job: checked, committed, queued. Whoever asked may go away meanwhile: what was committed is queued.
    pub(in crate::serve) async fn submit(
        self: &Arc<Self>,
        who: &Who,
        request: Request,
    ) -> std::result::Result<Job, Problem> {
        let (service, who) = (self.clone(), who.clone());
        let taken = tokio::spawn(async move { service.take(&who, request).await });
        taken.await.unwrap_or_else(|_| Err(Problem::internal()))
    }

    async fn take(&self, who: &Who, request: Request) -> std::result::Result<Job, Problem> {
        let need = self.check(&request, who.sees_only())?;
        let client = who.client();
        let seat = self.queue.seat(&client).map_err(|full| Problem {
            status: StatusCode::TOO_MANY_REQUESTS,
            sentence: match full {
                Full::Everyone(count) => {
                    format!("{count} jobs wait already, expected fewer: try again later")
                }
                Full::Client(count) => {
                    format!("{count} jobs of yours wait already, expected fewer: try again later")
                }
            },
            retry_after: Some(2),
        })?;
        let job = Job {
            id: self.store.new_job_id()?,
            kind: request.kind().into(),
            state: JobState::Queued,
            request: Some(request.clone()),
            device: None,
            created: now(),
            started: None,
            finished: None,
            progress: None,
            error: None,
            result: None,
            files: Vec::new(),
            client,
            owner: who.owner().to_owned(),
        };
        let row = job.clone();
        let logged = line(Some(who), "create", "job", job.id.as_str());
        self.store
            .write_logged(logged, move |db| {
                // What it is about may have been removed in the meantime.
                let ids = [("datasets", request.dataset()), ("models", request.model())];
                for (table, id) in ids.into_iter().chain([("datasets", request.origin())]) {
                    if let Some(id) = id {
                        let query = format!("SELECT 1 FROM {table} WHERE id = ?1");
                        db.prepare_cached(&query)?.query_row([id.as_str()], |_| Ok(()))?;
                    }
                }
                let [dataset, model] = ids.map(|(_, id)| id.map(ContentId::as_str));
                let text = serde_json::to_value(&request).expect("requests serialise");
                db.prepare_cached(
                    "INSERT INTO jobs (id, kind, client, state, request, created, owner, dataset, model, about)
                     VALUES (?1, ?2, ?3, 'queued', ?4, ?5, ?6, ?7, ?8, ?9)",
                )?
                .execute(params![
                    row.id.as_str(),
                    row.kind,
                    row.client,
                    text.to_string(),
                    row.created,
                    row.owner,
                    dataset,
                    model,
                    lists::about(&text)
                ])?;
                Ok(())
            })
            .await?;
        self.enqueue(&job, &need);
        drop(seat);
        Ok(job)
    }

    fn enqueue(&self, job: &Job, need: &Need) {
        let Job { id, request: Some(request), created, client, .. } = job else { return };
        let live = self.lives.begin(id);
        let request = Arc::new(request.clone());
        let (short, bytes) = (need.is_short(), need.bytes);
        self.queue.push(client, Ticket { id: id.clone(), request, live, created: *created, short, bytes });
    }

    /// A job with its progress.
    pub(in crate::serve) fn job(&self, id: &JobId) -> std::result::Result<Job, Problem> {
        let mut job = self.store.job(id)?.ok_or_else(|| Problem::unknown("job"))?;
        job.progress = self.lives.get(id).and_then(|live| live.progress());
        Ok(job)
    }

    /// A job that someone may see.
    pub(in crate::serve) fn job_for(&self, who: &Who, id: &JobId) -> std::result::Result<Job, Problem> {
        let job = self.job(id)?;
        match who.sees_only() {
            Some(owner) if owner != job.owner => Err(Problem::unknown("job")),
            _ => Ok(job),
        }
    }

    /// Cancels a job: at once if it waits, otherwise as soon as its work can stop. Whoever asked may go away meanwhile.
    pub(in crate::serve) async fn cancel(
        self: &Arc<Self>,
        who: &Who,
        id: &JobId,
    ) -> std::result::Result<Job, Problem> {
        let job = self.job_for(who, id)?;
        let (service, who) = (self.clone(), who.clone());
        let cancelled = tokio::spawn(async move { service.cancel_known(&who, job).await });
        cancelled.await.unwrap_or_else(|_| Err(Problem::internal()))
    }

    async fn cancel_known(&self, who: &Who, job: Job) -> std::result::Result<Job, Problem> {
        let (id, client) = (job.id, job.client);
        let logged = line(Some(who), "cancel", "job", id.as_str());
        if let Some(ticket) = self.queue.remove(&id) {
            let ending: Ending = (id.clone(), JobState::Cancelled, None, None);
            if let Err(problem) =
                self.store.write_logged(logged, move |db| write_endings(db, &[ending])).await
            {
                // Not cancelled, then.
                self.queue.push(&client, ticket);
                return Err(problem);
            }
            self.lives.end(self.job(&id)?);
        } else if let Some(live) = self.lives.get(&id) {
            live.cancel();
            self.store.write_logged(logged, |_| Ok(())).await?;
        }
        self.job(&id)
    }

    /// A worker has begun. Told to listeners at once; on the disk a job that runs is one that waits.
    pub(in crate::serve) fn begin(&self, ticket: &Ticket, device: &str) {
        let (id, device) = (ticket.id.clone(), device.to_owned());
        let started = now();
        // Not waited for: after a crash the job is queued either way.
        drop(self.store.write_soon(move |db| {
            db.prepare_cached("UPDATE jobs SET state = 'running', device = ?2, started = ?3 WHERE id = ?1")?
                .execute(params![id.as_str(), device, started])?;
            Ok(())
        }));
    }

    /// A job has ended: committed, then told.
    pub(in crate::serve) fn end(
        &self,
        id: &JobId,
        state: JobState,
        finished: Option<Finished>,
        error: Option<String>,
    ) {
        self.end_all(vec![(id.clone(), state, finished, error)]);
    }

    /// Several at once, in one commit.
    pub(in crate::serve) fn end_all(&self, ended: Vec<Ending>) {
        let ids: Vec<JobId> = ended.iter().map(|(id, ..)| id.clone()).collect();
        for (_, state, ..) in &ended {
            self.metrics.ended(*state);
        }
        let ended = Arc::new(ended);
        let change = || {
            let ended = ended.clone();
            move |db: &Transaction<'_>| write_endings(db, &ended)
        };
        // Nothing else can be written down either while the disk is full: this waits until there is room. If the service ends
        // before, the jobs are unfinished on the disk and are done again next time.
        while let Err(problem) = self.store.write_now(change()) {
            say!("error: results could not be kept: {}", problem.sentence);
            if self.is_closing() {
                return;
            }
            std::thread::sleep(AGAIN);
        }
        for id in ids {
            match self.job(&id) {
                Ok(job) => self.lives.end(job),
                Err(problem) => say!("error: {}", problem.sentence),
            }
        }
    }

    /// Tells listeners that a job runs.
    pub(in crate::serve) fn announce(&self, ticket: &Ticket) {
        if let Ok(mut job) = self.job(&ticket.id) {
            job.state = JobState::Running;
            ticket.live.tell(Event::State(Box::new(job)));
        }
    }
}

fn write_endings(db: &Transaction<'_>, ended: &[Ending]) -> rusqlite::Result<()> {
    for (id, state, finished, error) in ended {
        let result = finished.as_ref().map(|finished| finished.result.to_string());
        let files = finished.as_ref().map_or(&[][..], |finished| &finished.files);
        let files = serde_json::to_string(files).expect("names serialise");
        db.prepare_cached(
            "UPDATE jobs SET state = ?2, finished = ?3, error = ?4, result = ?5, files = ?6 WHERE id = ?1",
        )?
        .execute(params![id.as_str(), state.name(), now(), error, result, files])?;
    }
    Ok(())
}
