//! Connections for reading at length: few, and never on a thread that answers others.

use crate::serve::domain::problem::Problem;
use crate::serve::run::service::Service;
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Semaphore;

/// Reads at once; others wait, without a thread.
const AT_ONCE: usize = 4;

/// Connections that nobody uses.
pub struct Readers {
    path: PathBuf,
    free: Mutex<Vec<Connection>>,
    seats: Arc<Semaphore>,
}

impl Readers {
    pub fn new(path: PathBuf) -> Self {
        Readers { path, free: Mutex::default(), seats: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    fn free(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Looks something up at length, on a thread that may wait.
    pub fn with<T>(&self, look: impl FnOnce(&Connection) -> Result<T, Problem>) -> Result<T, Problem> {
        let connection = self.take()?;
        let found = look(&connection);
        self.free().push(connection);
        found
    }

    fn take(&self) -> rusqlite::Result<Connection> {
        match self.free().pop() {
            Some(connection) => Ok(connection),
            None => crate::serve::store::database::open(&self.path),
        }
    }
}

impl Service {
    /// Looks something up on a thread of its own.
    pub(in crate::serve) async fn aside<T: Send + 'static>(
        self: &Arc<Self>,
        look: impl FnOnce(&Service, &Connection) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let readers = &self.store.readers;
        let seat = readers.seats.clone().acquire_owned().await.map_err(|_| Problem::internal())?;
        let service = self.clone();
        let found = tokio::task::spawn_blocking(move || {
            let found = service.store.readers.with(|db| look(&service, db));
            drop(seat);
            found
        });
        found.await.map_err(|_| Problem::internal())?
    }
}
