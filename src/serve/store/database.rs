//! The database: one SQLite file.
//!
//! One thread writes (`writer`), so that hundreds of clients share the cost of reaching the disk. One connection reads single
//! rows; a few others read whatever takes longer.

use super::audit::Log;
use super::schema;
use super::writer::{Answer, Change, Writer};
use crate::serve::domain::error::ServiceError;
use crate::serve::domain::now;
use crate::{Error, Result};
use rusqlite::{Connection, Transaction};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Long reads at the same time; others wait, without a thread.
const LONG_READS: usize = 4;

/// The database.
pub(crate) struct Store {
    writer: Writer,
    reader: Mutex<Connection>,
    readers: Readers,
}

/// Connections for long reads.
struct Readers {
    path: PathBuf,
    free: Mutex<Vec<Connection>>,
    seats: Arc<Semaphore>,
}

/// A connection that reads lists and counts.
pub(crate) struct Reader<'a>(pub(super) &'a Connection);

impl From<rusqlite::Error> for ServiceError {
    fn from(error: rusqlite::Error) -> Self {
        if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) {
            return ServiceError::DiskFull;
        }
        // Somebody removed the dataset or model between a look and a change.
        if error == rusqlite::Error::QueryReturnedNoRows {
            return ServiceError::NotFound("dataset or model");
        }
        ServiceError::logged(error)
    }
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // A commit has reached the disk when it returns.
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

impl Store {
    /// Opens or creates the database and brings it to the newest version. Changes are logged in the file `audit`.
    pub(crate) fn open(path: &Path, audit: PathBuf) -> Result<Store> {
        let wrong =
            |error: rusqlite::Error| Error::file(path, format!("is not a database of a service: {error}"));
        let mut writer = open(path).map_err(wrong)?;
        schema::migrate(path, &mut writer)?;
        let reader = Mutex::new(open(path).map_err(wrong)?);
        let readers = Readers {
            path: path.to_path_buf(),
            free: Mutex::default(),
            seats: Arc::new(Semaphore::new(LONG_READS)),
        };
        Ok(Store { writer: Writer::start(writer, Log::new(audit)), reader, readers })
    }

    /// Hands a change to the writer. The receiver hears from it once the change is on the disk.
    pub(super) fn write_soon(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static,
    ) -> oneshot::Receiver<Answer> {
        self.writer.send(Box::new(move |db| change(db).map(|()| None)))
    }

    /// Makes a change and adds a line to the audit log; ready once the change is on the disk.
    pub(super) async fn write_logged(
        &self,
        line: String,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static,
    ) -> Answer {
        let answer = self.writer.send(Box::new(move |db| change(db).map(|()| Some(line))));
        answer.await.unwrap_or(Err(ServiceError::Internal))
    }

    /// Makes a change, on a thread that may wait.
    pub(super) fn write_now(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static,
    ) -> Answer {
        self.write_soon(change).blocking_recv().unwrap_or(Err(ServiceError::Internal))
    }

    /// The same for a change that decides itself whether it is logged.
    pub(super) fn write_logged_now(&self, change: Change) -> Answer {
        self.writer.send(change).blocking_recv().unwrap_or(Err(ServiceError::Internal))
    }

    /// Reads a row or a few.
    pub(super) fn read<T>(
        &self,
        look: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> std::result::Result<T, ServiceError> {
        let reader: MutexGuard<'_, Connection> =
            self.reader.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok(look(&reader)?)
    }

    /// Waits until there is room for another long read, without a thread. The seat is free again once this is dropped.
    pub(crate) async fn seat(&self) -> std::result::Result<OwnedSemaphorePermit, ServiceError> {
        self.readers.seats.clone().acquire_owned().await.map_err(|_| ServiceError::Internal)
    }

    /// Reads at length, on a thread that may wait.
    pub(crate) fn read_long<T>(
        &self,
        look: impl FnOnce(&Reader<'_>) -> std::result::Result<T, ServiceError>,
    ) -> std::result::Result<T, ServiceError> {
        let lock = || self.readers.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let free = lock().pop();
        let connection = free.map_or_else(|| open(&self.readers.path), Ok)?;
        let found = look(&Reader(&connection));
        lock().push(connection);
        found
    }

    /// Writes the time, to see whether writing works.
    pub(crate) async fn beat(&self) -> Answer {
        let beat = self.write_soon(|db| {
            db.prepare_cached("INSERT OR REPLACE INTO beats (one, at) VALUES (1, ?1)")?
                .execute([now()])
                .map(|_| ())
        });
        beat.await.unwrap_or(Err(ServiceError::Internal))
    }

    /// Whether a dataset, a model or a job is on record, readable or not.
    pub(crate) fn has(&self, table: &str, id: &str) -> std::result::Result<bool, ServiceError> {
        use rusqlite::OptionalExtension;
        let query = format!("SELECT 1 FROM {table} WHERE id = ?1");
        Ok(self.read(|db| db.prepare_cached(&query)?.query_row([id], |_| Ok(())).optional())?.is_some())
    }
}
