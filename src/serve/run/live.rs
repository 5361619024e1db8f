//! Jobs that have not ended, and the events that those who follow them receive.

use crate::serve::domain::id::JobId;
use crate::serve::domain::job::{Job, Progress};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::broadcast;

/// Events by which a slow listener may lag behind. Beyond, it misses the oldest.
const BACKLOG: usize = 64;

/// An event in the life of a job.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// The job made progress.
    Progress(Progress),
    /// The job wrote a line to its log.
    Log(LogLine),
    /// The state of the job changed.
    State(Box<Job>),
}

/// A line of a job's log.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct LogLine {
    /// The text of the line.
    pub line: String,
}

/// A job that has not ended.
pub(crate) struct LiveJob {
    cancelled: AtomicBool,
    progress: Mutex<Option<Progress>>,
    events: broadcast::Sender<Event>,
}

impl Default for LiveJob {
    fn default() -> Self {
        LiveJob {
            cancelled: AtomicBool::new(false),
            progress: Mutex::default(),
            events: broadcast::channel(BACKLOG).0,
        }
    }
}

impl LiveJob {
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub(crate) fn progress(&self) -> Option<Progress> {
        self.progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Keeps the progress and sends it to listeners.
    pub(crate) fn report(&self, progress: Progress) {
        *self.progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(progress.clone());
        self.send(Event::Progress(progress));
    }

    /// Sends a line of the job's log to listeners.
    pub(crate) fn log(&self, line: impl Into<String>) {
        self.send(Event::Log(LogLine { line: line.into() }));
    }

    /// Sends an event to listeners, if there are any.
    pub(crate) fn send(&self, event: Event) {
        let _ = self.events.send(event);
    }

    pub(crate) fn listen(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// Whether anyone listens.
    pub(crate) fn is_followed(&self) -> bool {
        self.events.receiver_count() > 0
    }
}

/// All jobs that have not ended.
#[derive(Default)]
pub(crate) struct LiveJobs {
    by_id: Mutex<HashMap<JobId, Arc<LiveJob>>>,
}

impl LiveJobs {
    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Arc<LiveJob>>> {
        self.by_id.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Adds a job.
    pub(crate) fn begin(&self, id: &JobId) -> Arc<LiveJob> {
        self.lock().entry(id.clone()).or_default().clone()
    }

    pub(crate) fn get(&self, id: &JobId) -> Option<Arc<LiveJob>> {
        self.lock().get(id).cloned()
    }

    /// Removes a job that has ended. Its listeners receive the last event, and their streams end.
    pub(crate) fn end(&self, job: Job) {
        if let Some(live) = self.lock().remove(&job.id) {
            live.send(Event::State(Box::new(job)));
        }
    }

    /// Ends all streams, because the service ends.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }
}
