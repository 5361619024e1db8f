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
pub enum Event {
    /// The job made progress.
    Progress(Progress),
    /// The job wrote a line to its log.
    Log(LogLine),
    /// The state of the job changed.
    State(Box<Job>),
}

/// A line of a job's log.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct LogLine {
    /// The text of the line.
    pub line: String,
}

/// A job that has not ended.
pub struct LiveJob {
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
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub fn progress(&self) -> Option<Progress> {
        self.progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Keeps the progress and sends it to listeners.
    pub fn report(&self, progress: Progress) {
        *self.progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(progress.clone());
        self.send(Event::Progress(progress));
    }

    /// Sends a line of the job's log to listeners.
    pub fn log(&self, line: impl Into<String>) {
        self.send(Event::Log(LogLine { line: line.into() }));
    }

    /// Sends an event to listeners, if there are any.
    pub fn send(&self, event: Event) {
        let _ = self.events.send(event);
    }

    pub fn listen(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// Whether anyone listens.
    pub fn is_followed(&self) -> bool {
        self.events.receiver_count() > 0
    }
}

/// All jobs that have not ended.
#[derive(Default)]
pub struct LiveJobs {
    by_id: Mutex<HashMap<JobId, Arc<LiveJob>>>,
}

impl LiveJobs {
    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Arc<LiveJob>>> {
        self.by_id.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Adds a job.
    pub fn begin(&self, id: &JobId) -> Arc<LiveJob> {
        self.lock().entry(id.clone()).or_default().clone()
    }

    pub fn get(&self, id: &JobId) -> Option<Arc<LiveJob>> {
        self.lock().get(id).cloned()
    }

    /// Removes a job that has ended. Its listeners receive the last event, and their streams end.
    pub fn end(&self, job: Job) {
        if let Some(live) = self.lock().remove(&job.id) {
            live.send(Event::State(Box::new(job)));
        }
    }

    /// Ends all streams, because the service ends.
    pub fn clear(&self) {
        self.lock().clear();
    }
}
