//! A service: its options, what it holds, and how it starts and ends.

use super::cache::Cache;
use super::health::{Health, WorkerGuard};
use super::live::LiveJobs;
use super::metrics::Metrics;
use super::queue::{Lane, Queue};
use super::upload_budget::UploadBudget;
use super::worker;
use crate::data::Dataset;
use crate::engine::Place;
use crate::model::Model;
use crate::serve::domain::error::ServiceError;
use crate::serve::domain::id::ContentId;
use crate::serve::domain::limits::Limits;
use crate::serve::domain::token_guesses::TokenGuesses;
use crate::serve::store::database::Reader;
use crate::serve::store::folder::{self, FolderState};
use crate::serve::store::tokens::Tokens;
use crate::serve::store::{Files, Store, removal};
use crate::{Error, Result};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The options of a service.
pub struct Options {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The folder of the service.
    pub data: PathBuf,
    /// The token that clients must send, if any. Clients with a named token send their own.
    pub token: Option<String>,
    /// Whether a folder that has lost its database gets a new one.
    pub recover: bool,
    /// What clients may ask for.
    pub limits: Limits,
    /// The devices to compute on. Each has its own workers.
    pub places: Vec<Place>,
    /// Whether losses are evaluated together.
    pub batching: bool,
    /// Remove finished jobs, and files that no other job uses, after so many days.
    pub keep_days: Option<f64>,
    /// Remove finished jobs, oldest first, while the folder takes more bytes.
    pub max_disk: Option<u64>,
    /// The words that start the program that jobs run in: `skds`, which has the command `work`.
    pub program: Vec<OsString>,
}

impl Options {
    /// Defaults for a service that only this machine reaches, without a device.
    pub fn local(data: PathBuf, program: Vec<OsString>) -> Self {
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

/// Bytes of datasets that are kept in memory.
const DATASET_CACHE: usize = 512 << 20;
/// Models that are kept in memory.
const MODEL_CACHE: usize = 64;

/// A running service.
pub struct Service {
    pub(in crate::serve) files: Files,
    pub(in crate::serve) store: Store,
    pub(in crate::serve) queue: Queue,
    pub(in crate::serve) live_jobs: LiveJobs,
    pub(in crate::serve) limits: Limits,
    pub(in crate::serve) metrics: Metrics,
    pub(in crate::serve) tokens: Tokens,
    pub(in crate::serve) token_guesses: TokenGuesses,
    pub(super) health: Health,
    /// The name of each device, and whether it is a GPU in software.
    pub(in crate::serve) devices: Vec<(String, bool)>,
    pub(super) keep_days: Option<f64>,
    pub(in crate::serve) max_disk: Option<u64>,
    datasets: Cache<ContentId, Dataset>,
    models: Cache<ContentId, Model>,
    closing: AtomicBool,
    pub(super) program: Vec<OsString>,
    pub(in crate::serve) upload_budget: UploadBudget,
}

impl Service {
    /// Opens the folder, queues the jobs that an earlier run left, and starts the workers of every device.
    pub fn start(options: Options) -> Result<(Arc<Service>, Vec<JoinHandle<()>>)> {
        // Inspected before anything is changed.
        folder::claim(&options.data, options.recover)?;
        let tokens = Tokens::open(options.token.as_deref(), &options.data)?;
        let listen = options.listen;
        if !listen.ip().is_loopback() && !tokens.are_needed() {
            return Err(Error::invalid(format!(
                "other machines can reach the address {listen}, expected a token for it: give --token-file or SKDS_TOKEN, or \
                 create named tokens with --add-token"
            )));
        }
        let (files, folder_state) = Files::open(&options.data, options.recover)?;
        let store = Store::open(&files.database(), files.audit_log())?;
        if folder_state == FolderState::Recovered {
            folder::recover(&files, &store)?;
        }
        let devices = options.places.iter().map(|place| (place.name(), place.is_software())).collect();
        let service = Arc::new(Service {
            files,
            store,
            queue: Queue::new(options.limits.queued, options.limits.queued_each, options.batching),
            live_jobs: LiveJobs::default(),
            limits: options.limits,
            metrics: Metrics::default(),
            tokens,
            token_guesses: TokenGuesses::default(),
            health: Health::default(),
            devices,
            keep_days: options.keep_days,
            max_disk: options.max_disk,
            datasets: Cache::new(DATASET_CACHE),
            models: Cache::new(MODEL_CACHE),
            closing: AtomicBool::new(false),
            program: options.program,
            upload_budget: UploadBudget::new(options.limits.job_bytes),
        });
        removal::finish_removals(&service.store, &service.files, folder_state)
            .and_then(|()| service.requeue_unfinished())
            .map_err(ServiceError::into_error)?;
        let workers = options
            .places
            .into_iter()
            .map(Arc::new)
            .flat_map(|place| Lane::ALL.map(|lane| (place.clone(), lane)))
            .map(|(place, lane)| {
                let service = service.clone();
                let guard = WorkerGuard::new(service.clone(), &place.name());
                std::thread::spawn(move || {
                    let _guard = guard;
                    worker::work(&service, &place, lane)
                })
            })
            .collect();
        Ok((service, workers))
    }

    /// Whether the service is about to end.
    pub(in crate::serve) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Begins to end: workers stop, fits keep their checkpoints and resume next time.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.queue.close();
        self.live_jobs.clear();
    }

    /// Reads a dataset, or takes it from the cache.
    pub(super) fn dataset(&self, id: &ContentId) -> Result<Arc<Dataset>> {
        let size = |data: &Dataset| 8 * data.samples().as_slice().len();
        self.datasets.get(id, || Dataset::read(self.files.dataset(id)), size)
    }

    /// Reads a model, or takes it from the cache.
    pub(super) fn model(&self, id: &ContentId) -> Result<Arc<Model>> {
        self.models.get(id, || Model::read(self.files.model(id)), |_| 1)
    }

    /// Reads from the database at length, on a thread that may wait.
    pub(in crate::serve) async fn read_long<T: Send + 'static>(
        self: &Arc<Self>,
        look: impl FnOnce(&Service, &Reader<'_>) -> std::result::Result<T, ServiceError> + Send + 'static,
    ) -> std::result::Result<T, ServiceError> {
        let seat = self.store.seat().await?;
        let service = self.clone();
        let found = tokio::task::spawn_blocking(move || {
            let found = service.store.read_long(|reader| look(&service, reader));
            drop(seat);
            found
        });
        found.await.map_err(|_| ServiceError::Internal)?
    }
}
