//! The one thread that writes: whatever waits for it shares a transaction, and each is answered after the commit.

use crate::serve::domain::problem::Problem;
use crate::serve::store::audit::Log;
use rusqlite::{Connection, Transaction};
use std::panic::AssertUnwindSafe;
use std::sync::mpsc;
use tokio::sync::oneshot;

/// Writes that share a transaction.
const TOGETHER: usize = 512;

/// A change, and the line that the audit log gets for it.
pub type Change = Box<dyn FnOnce(&Transaction<'_>) -> rusqlite::Result<Option<String>> + Send>;
/// Whether a change is on the disk.
pub type Answer = std::result::Result<(), Problem>;

struct Write {
    change: Change,
    answer: oneshot::Sender<Answer>,
}

/// Takes changes.
pub struct Writer {
    writes: mpsc::Sender<Write>,
}

impl Writer {
    /// Starts the thread.
    pub fn start(mut connection: Connection, mut log: Log) -> Writer {
        let (writes, waiting) = mpsc::channel::<Write>();
        std::thread::spawn(move || {
            while let Ok(first) = waiting.recv() {
                let together = std::iter::once(first).chain(waiting.try_iter().take(TOGETHER)).collect();
                commit(&mut connection, &mut log, together);
            }
        });
        Writer { writes }
    }

    /// Has something changed, sooner or later; the receiver hears once that is on the disk.
    pub fn send(&self, change: Change) -> oneshot::Receiver<Answer> {
        let (answer, receiver) = oneshot::channel();
        // If the writer is gone, so is the answer's sender, and the receiver says so.
        let _ = self.writes.send(Write { change, answer });
        receiver
    }
}

/// Does all changes in one transaction; one that fails is undone alone.
fn commit(connection: &mut Connection, log: &mut Log, writes: Vec<Write>) {
    let mut answers = Vec::new();
    let outcome = connection.transaction().and_then(|transaction| {
        for Write { change, answer } in writes {
            transaction.execute_batch("SAVEPOINT one")?;
            // A panic is a bug of one change; the thread and the others' changes outlive it.
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
    let failed = outcome.err().map(Problem::from);
    let mut lines = Vec::new();
    let answers: Vec<_> = answers
        .into_iter()
        .map(|(answer, done)| match (&failed, done) {
            (Some(problem), _) => (answer, Err(Problem::new(problem.status, problem.sentence.clone()))),
            (None, Ok(line)) => {
                lines.extend(line);
                (answer, Ok(()))
            }
            (None, Err(error)) => (answer, Err(Problem::from(error))),
        })
        .collect();
    log.add(&lines);
    for (answer, said) in answers {
        // Whoever asked may have gone away.
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
