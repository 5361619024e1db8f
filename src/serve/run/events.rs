//! What is told of jobs that have not ended, to whoever listens.

use crate::serve::domain::id::JobId;
use crate::serve::store::database::{Job, Progress};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::broadcast;

/// Events that a slow listener may lag behind; it then misses the oldest.
const BACKLOG: usize = 64;

/// Something happened to a job.
#[derive(Clone, Debug)]
pub enum Event {
    /// It is further.
    Progress(Progress),
    /// It says something.
    Log(LogLine),
    /// Its state is another.
    State(Box<Job>),
}

/// What a job says.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct LogLine {
    /// One line.
    pub line: String,
}

/// A job that has not ended.
pub struct Live {
    cancelled: AtomicBool,
    progress: Mutex<Option<Progress>>,
    events: broadcast::Sender<Event>,
}

impl Default for Live {
    fn default() -> Self {
        Live {
            cancelled: AtomicBool::new(false),
            progress: Mutex::default(),
            events: broadcast::channel(BACKLOG).0,
        }
    }
}

impl Live {
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub fn progress(&self) -> Option<Progress> {
        self.progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub fn report(&self, progress: Progress) {
        *self.progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(progress.clone());
        self.tell(Event::Progress(progress));
    }

    pub fn say(&self, line: impl Into<String>) {
        self.tell(Event::Log(LogLine { line: line.into() }));
    }

    pub fn tell(&self, event: Event) {
        // Nobody may be listening.
        let _ = self.events.send(event);
    }

    pub fn listen(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }
}

/// All jobs that have not ended.
#[derive(Default)]
pub struct Lives {
    by_id: Mutex<HashMap<JobId, Arc<Live>>>,
}

impl Lives {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<JobId, Arc<Live>>> {
        self.by_id.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn begin(&self, id: &JobId) -> Arc<Live> {
        self.lock().entry(id.clone()).or_default().clone()
    }

    pub fn get(&self, id: &JobId) -> Option<Arc<Live>> {
        self.lock().get(id).cloned()
    }

    /// The job has ended: its last event goes out, and its listeners' streams end.
    pub fn end(&self, job: Job) {
        if let Some(live) = self.lock().remove(&job.id) {
            live.tell(Event::State(Box::new(job)));
        }
    }

    /// The service ends: streams do too.
    pub fn clear(&self) {
        self.lock().clear();
    }
}
