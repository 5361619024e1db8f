//! What each kind of job does, in the process that it has for itself; losses alone are evaluated by the service, many at once.

mod evaluate;
mod fit;
pub(super) mod loss;
mod sample;
mod simulate;

use crate::data::Dataset;
use crate::engine::gpu::GpuEngine;
use crate::model::Model;
use crate::serve::domain::message::{Assignment, Done, Said};
use crate::serve::domain::request::Request;
use crate::serve::run::child::Voice;
use crate::serve::run::watch;
use crate::serve::store::database::Progress;
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// What a job's work can use.
pub(super) struct Task<'a> {
    pub assignment: &'a Assignment,
    pub gpu: Option<&'a GpuEngine>,
    /// Set when the work shall stop.
    pub stop: &'a AtomicBool,
    pub start: Instant,
    pub kept: &'a Kept,
}

impl Task<'_> {
    pub fn run(&self) -> Result<Done> {
        match &self.assignment.request {
            Request::Fit(request) => fit::run(self, request),
            Request::Sample(request) => sample::run(self, request),
            Request::Evaluate(request) => evaluate::run(self, request),
            Request::Simulate(request) => simulate::run(self, request),
            Request::Loss(_) => Err(Error::invalid(
                "the job is a loss, expected one that is not evaluated by the service itself",
            )),
        }
    }

    fn dataset(&self) -> Result<Arc<Dataset>> {
        let path =
            self.assignment.dataset.as_ref().ok_or_else(|| Error::invalid("the job has no dataset"))?;
        self.kept.dataset.get(path, || Dataset::read(path))
    }

    /// The data that predictions start from, if any.
    fn origin(&self) -> Result<Option<Arc<Dataset>>> {
        let path = self.assignment.origin.as_ref();
        path.map(|path| self.kept.origin.get(path, || Dataset::read(path))).transpose()
    }

    fn model(&self) -> Result<Arc<Model>> {
        let path = self.assignment.model.as_ref().ok_or_else(|| Error::invalid("the job has no model"))?;
        self.kept.model.get(path, || Model::read(path))
    }

    /// The job's folder, made if need be.
    fn folder(&self) -> Result<&Path> {
        crate::files::output::create_folder(&self.assignment.folder)?;
        Ok(&self.assignment.folder)
    }

    fn shall_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn say(&self, line: String) {
        Voice.say(&Said::Log(line));
    }

    /// Tells how far the job is, with the time left at the present rate.
    fn report(&self, share: f64, details: Progress) {
        Voice.say(&Said::Progress(details.with_share(share, self.seconds())));
    }

    /// Does long work: tells how far it is of `all`, and stops it if need be.
    fn watched<T>(
        &self,
        progress: &crate::Progress,
        all: u64,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let report = |share: f64| self.report(share, Progress::default());
        watch::watched(progress, all, || self.shall_stop(), report, work)
    }
}

/// What the last job read: the next one is often about the same.
#[derive(Default)]
pub(super) struct Kept {
    dataset: Slot<Dataset>,
    origin: Slot<Dataset>,
    model: Slot<Model>,
}

impl Kept {
    /// Forgets what a job has no use for: the memory is the job's.
    pub fn keep_only(&self, assignment: &Assignment) {
        self.dataset.keep_only(assignment.dataset.as_deref());
        self.origin.keep_only(assignment.origin.as_deref());
        self.model.keep_only(assignment.model.as_deref());
    }
}

struct Slot<V>(Mutex<Option<(PathBuf, Arc<V>)>>);

impl<V> Default for Slot<V> {
    fn default() -> Self {
        Slot(Mutex::new(None))
    }
}

impl<V> Slot<V> {
    fn get(&self, path: &Path, read: impl FnOnce() -> Result<V>) -> Result<Arc<V>> {
        let mut slot = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((known, value)) = &*slot
            && known == path
        {
            return Ok(value.clone());
        }
        let value = Arc::new(read()?);
        *slot = Some((path.into(), value.clone()));
        Ok(value)
    }

    fn keep_only(&self, path: Option<&Path>) {
        let mut slot = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if slot.as_ref().is_some_and(|(known, _)| Some(known.as_path()) != path) {
            *slot = None;
        }
    }
}
