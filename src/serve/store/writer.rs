//! The one thread that writes. All changes that wait for it share a transaction, and each is answered after the commit.

use super::audit::Log;
use crate::serve::domain::error::ServiceError;
use rusqlite::{Connection, Transaction};
use std::panic::AssertUnwindSafe;
use std::sync::mpsc;
use tokio::sync::oneshot;

/// The most changes that share a transaction.
const TOGETHER: usize = 512;

/// A change. It returns the line for the audit log, if any.
pub(super) type Change = Box<dyn FnOnce(&Transaction<'_>) -> rusqlite::Result<Option<String>> + Send>;
/// The answer to a change: it is on the disk, or it failed.
pub(super) type Answer = std::result::Result<(), ServiceError>;

struct Write {
    change: Change,
    answer: oneshot::Sender<Answer>,
}

/// Takes changes for the thread.
pub(super) struct Writer {
    writes: mpsc::Sender<Write>,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(mut connection: Connection, mut log: Log) -> Writer {
        let (writes, waiting) = mpsc::channel::<Write>();
        std::thread::spawn(move || {
            while let Ok(first) = waiting.recv() {
                let together = std::iter::once(first).chain(waiting.try_iter().take(TOGETHER)).collect();
                commit(&mut connection, &mut log, together);
            }
        });
        Writer { writes }
    }

    /// Hands a change to the thread. The receiver gets the answer after the commit.
    pub(super) fn send(&self, change: Change) -> oneshot::Receiver<Answer> {
        let (answer, receiver) = oneshot::channel();
        // If the thread is gone, the receiver notices.
        let _ = self.writes.send(Write { change, answer });
        receiver
    }
}

/// Makes all changes in one transaction. A change that fails is undone alone.
fn commit(connection: &mut Connection, log: &mut Log, writes: Vec<Write>) {
    let mut answers = Vec::new();
    let outcome = connection.transaction().and_then(|transaction| {
        for Write { change, answer } in writes {
            transaction.execute_batch("SAVEPOINT one")?;
            // A panic is a bug of one change; the thread and the other changes survive it.
            let done = std::panic::catch_unwind(AssertUnwindSafe(|| change(&transaction)))
                .unwrap_or(Err(rusqlite::Error::InvalidQuery));
            transaction.execute_batch(match done {
                Ok(_) => "RELEASE one",
                Err(_) => "ROLLBACK TO one; RELEASE one",
            })?;
            answers.push((answer, done));
        }
        transaction.commit()
    });
    let failed = outcome.err().map(ServiceError::from);
    let mut lines = Vec::new();
    let answers: Vec<_> = answers
        .into_iter()
        .map(|(answer, done)| match (&failed, done) {
            (Some(error), _) => (answer, Err(error.clone())),
            (None, Ok(line)) => {
                lines.extend(line);
                (answer, Ok(()))
            }
            (None, Err(error)) => (answer, Err(ServiceError::from(error))),
        })
        .collect();
    log.add(&lines);
    for (answer, said) in answers {
        // The one who asked may be gone.
        let _ = answer.send(said);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_change_that_fails_or_panics_is_undone_alone_and_only_what_happened_is_logged() {
        let folder = tempfile::tempdir().unwrap();
        let (path, audit) = (folder.path().join("db"), folder.path().join("audit.log"));
        let db = Connection::open(&path).unwrap();
        db.execute_batch("CREATE TABLE t (x INTEGER PRIMARY KEY)").unwrap();
        let writer = Writer::start(db, Log::new(audit.clone()));
        let insert = |x: i64| -> Change {
            Box::new(move |db| {
                db.execute("INSERT INTO t VALUES (?1)", [x]).map(|_| Some(format!("line {x}")))
            })
        };
        let broken = |db: &Transaction<'_>| {
            db.execute("INSERT INTO t VALUES (7)", []).unwrap();
            panic!("a bug")
        };
        let answers = [insert(1), insert(1), Box::new(broken), insert(2)].map(|change| writer.send(change));
        let said = answers.map(|answer| answer.blocking_recv().unwrap().is_ok());
        assert_eq!(said, [true, false, false, true]);
        let rows: i64 =
            Connection::open(&path).unwrap().query_row("SELECT sum(x) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 3);
        assert_eq!(std::fs::read_to_string(&audit).unwrap(), "line 1\nline 2\n");
    }
}
