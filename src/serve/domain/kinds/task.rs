//! What is handed to the work of a job, and what that hands back.

use super::Request;
use crate::data::Dataset;
use crate::engine::gpu::GpuEngine;
use crate::model::Model;
use crate::sample::Sampler;
use crate::serve::domain::error::public_sentence;
use crate::serve::domain::id::ContentId;
use crate::serve::domain::info::{DatasetInfo, ModelInfo};
use crate::serve::domain::job::Progress;
use crate::stderr::say;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time between two looks at running work.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Looks between two reports of progress.
const LOOKS_PER_REPORT: u32 = 10;

/// A job, with the paths of everything it reads and writes.
#[derive(Serialize, Deserialize)]
pub(crate) struct Assignment {
    pub request: Request,
    /// The job's own folder.
    pub folder: PathBuf,
    pub dataset: Option<PathBuf>,
    /// The data that predictions start from.
    pub origin: Option<PathBuf>,
    pub model: Option<PathBuf>,
}

/// What a job found, and which files in its folder are to be kept as a model and as datasets.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct JobOutput {
    pub result: serde_json::Value,
    pub model: Option<(String, ModelInfo)>,
    pub datasets: Vec<(String, DatasetInfo)>,
}

impl JobOutput {
    /// A result without a model and datasets.
    pub(crate) fn new(result: serde_json::Value) -> Self {
        JobOutput { result, model: None, datasets: Vec::new() }
    }
}

/// How the work of a job ended.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Done(Box<JobOutput>),
    /// It failed, with a sentence for clients.
    Failed(String),
    /// It ended early because it had to stop.
    Stopped,
}

impl Outcome {
    /// The outcome of finished work.
    pub(crate) fn of(finished: Result<JobOutput>) -> Outcome {
        match finished {
            Ok(output) => Outcome::Done(Box::new(output)),
            Err(Error::Stopped) => Outcome::Stopped,
            Err(error) => {
                if matches!(error, Error::Io { .. }) {
                    say!("error: {error}");
                }
                Outcome::Failed(public_sentence(&error))
            }
        }
    }

    /// The outcome of work that may have panicked. A panic is a bug of this program, and the sentence says so.
    pub(crate) fn of_caught(caught: std::thread::Result<Result<JobOutput>>) -> Outcome {
        Outcome::of(caught.unwrap_or_else(|panic| Err(Error::panicked(panic.as_ref()))))
    }
}

/// The outside of a running job: whoever follows it, and whoever may stop it.
pub(crate) trait Supervisor: Sync {
    fn should_stop(&self) -> bool;
    fn progress(&self, progress: Progress);
    fn log(&self, line: String);
}

/// Does long work. Beside it, a second thread reports its progress out of `all` and stops it if need be.
pub(crate) fn supervised<T>(
    supervisor: &dyn Supervisor,
    start: Instant,
    progress: &crate::Progress,
    all: u64,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    std::thread::scope(|scope| {
        let (ended, end) = channel::<()>();
        scope.spawn(move || {
            let mut looks = 0;
            while end.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if supervisor.should_stop() {
                    progress.stop();
                }
                looks += 1;
                if looks % LOOKS_PER_REPORT == 0 {
                    let share = progress.done() as f64 / all.max(1) as f64;
                    supervisor.progress(Progress::default().with_share(share, start.elapsed().as_secs_f64()));
                }
            }
        });
        let outcome = work();
        drop(ended);
        outcome
    })
}

/// A job that runs in a process of its own, and what its work can use.
pub(crate) struct Task<'a> {
    pub assignment: &'a Assignment,
    pub gpu: Option<&'a GpuEngine>,
    pub supervisor: &'a dyn Supervisor,
    pub start: Instant,
    pub inputs: &'a LastInputs,
}

impl Task<'_> {
    pub(crate) fn dataset(&self) -> Result<Arc<Dataset>> {
        let path =
            self.assignment.dataset.as_ref().ok_or_else(|| Error::invalid("the job has no dataset"))?;
        self.inputs.dataset.get(path, || Dataset::read(path))
    }

    /// The data that predictions start from, if any.
    pub(crate) fn origin(&self) -> Result<Option<Arc<Dataset>>> {
        let path = self.assignment.origin.as_ref();
        path.map(|path| self.inputs.origin.get(path, || Dataset::read(path))).transpose()
    }

    pub(crate) fn model(&self) -> Result<Arc<Model>> {
        let path = self.assignment.model.as_ref().ok_or_else(|| Error::invalid("the job has no model"))?;
        self.inputs.model.get(path, || Model::read(path))
    }

    /// The job's folder, which this creates if need be.
    pub(crate) fn folder(&self) -> Result<&Path> {
        crate::files::output::create_folder(&self.assignment.folder)?;
        Ok(&self.assignment.folder)
    }

    /// A sampler on the device of the process.
    pub(crate) fn sampler(&self) -> Sampler {
        Sampler::with_gpu(self.gpu.map(|gpu| gpu.again()))
    }

    pub(crate) fn should_stop(&self) -> bool {
        self.supervisor.should_stop()
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    pub(crate) fn log(&self, line: String) {
        self.supervisor.log(line);
    }

    /// Reports the share that is done, with the time left at the present rate.
    pub(crate) fn report(&self, share: f64, details: Progress) {
        self.supervisor.progress(details.with_share(share, self.seconds()));
    }

    /// Does long work that reports its progress and can be stopped.
    pub(crate) fn supervised<T>(
        &self,
        progress: &crate::Progress,
        all: u64,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        supervised(self.supervisor, self.start, progress, all, work)
    }
}

/// The files that the last job read: the next job often reads the same ones.
#[derive(Default)]
pub(crate) struct LastInputs {
    dataset: LastInput<Dataset>,
    origin: LastInput<Dataset>,
    model: LastInput<Model>,
}

impl LastInputs {
    /// Drops what a job does not use, so that it has the memory.
    pub(crate) fn keep_only(&self, assignment: &Assignment) {
        self.dataset.keep_only(assignment.dataset.as_deref());
        self.origin.keep_only(assignment.origin.as_deref());
        self.model.keep_only(assignment.model.as_deref());
    }
}

struct LastInput<V>(Mutex<Option<(PathBuf, Arc<V>)>>);

impl<V> Default for LastInput<V> {
    fn default() -> Self {
        LastInput(Mutex::new(None))
    }
}

impl<V> LastInput<V> {
    fn get(&self, path: &Path, read: impl FnOnce() -> Result<V>) -> Result<Arc<V>> {
        let mut last = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((known, value)) = &*last
            && known == path
        {
            return Ok(value.clone());
        }
        let value = Arc::new(read()?);
        *last = Some((path.into(), value.clone()));
        Ok(value)
    }

    fn keep_only(&self, path: Option<&Path>) {
        let mut last = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if last.as_ref().is_some_and(|(known, _)| Some(known.as_path()) != path) {
            *last = None;
        }
    }
}

/// Short jobs of one kind that the service evaluates together, and what their work can use.
pub(crate) trait JointTask {
    fn dataset(&self, id: &ContentId) -> Result<Arc<Dataset>>;
    fn model(&self, id: &ContentId) -> Result<Arc<Model>>;
    fn gpu(&self) -> Option<&GpuEngine>;
    /// The name of the device.
    fn device(&self) -> &str;
    /// Counts one evaluation that answers so many jobs; none of them if it repeats another.
    fn count_evaluation(&self, jobs: usize);
    /// When the work began.
    fn start(&self) -> Instant;
}

/// A job among those that are evaluated together.
pub(crate) struct JointJob<'a> {
    pub request: &'a Request,
    /// The job's own folder, which may not exist yet.
    pub folder: PathBuf,
    /// Whether the job is short; a long one is always alone.
    pub short: bool,
    pub supervisor: &'a dyn Supervisor,
}
