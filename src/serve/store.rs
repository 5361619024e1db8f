//! What the service remembers: one SQLite file.
//!
//! Writes go through one thread that commits everything waiting in one transaction, so that hundreds of clients share the cost
//! of reaching the disk; each is answered after the commit.

use super::id::{ContentId, JobId};
use super::problem::Problem;
use super::request::Request;
use crate::{Error, Result};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, mpsc};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;
use utoipa::ToSchema;

/// Writes that share a transaction.
const TOGETHER: usize = 512;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS datasets (
        id TEXT PRIMARY KEY, info TEXT NOT NULL, created REAL NOT NULL);
    CREATE TABLE IF NOT EXISTS models (
        id TEXT PRIMARY KEY, info TEXT NOT NULL, created REAL NOT NULL);
    CREATE TABLE IF NOT EXISTS jobs (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, kind TEXT NOT NULL, client TEXT NOT NULL,
        state TEXT NOT NULL, request TEXT NOT NULL, device TEXT, created REAL NOT NULL, started REAL, finished REAL,
        error TEXT, result TEXT, files TEXT NOT NULL DEFAULT '[]');
    CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (state, number);";

/// How a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// Waits.
    Queued,
    /// Is being worked on.
    Running,
    /// Has a result.
    Done,
    /// Has an error.
    Failed,
    /// Was cancelled.
    Cancelled,
}

impl JobState {
    pub fn name(self) -> &'static str {
        match self {
            JobState::Queued => "queued",
            JobState::Running => "running",
            JobState::Done => "done",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        }
    }

    pub fn is_final(self) -> bool {
        matches!(self, JobState::Done | JobState::Failed | JobState::Cancelled)
    }

    fn of(name: &str) -> Self {
        match name {
            "running" => JobState::Running,
            "done" => JobState::Done,
            "failed" => JobState::Failed,
            "cancelled" => JobState::Cancelled,
            _ => JobState::Queued,
        }
    }
}

/// A dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DatasetInfo {
    /// The hash of what was uploaded.
    pub id: ContentId,
    /// As its first uploader called it.
    pub name: String,
    /// The size of its file.
    pub bytes: u64,
    /// All samples.
    pub rows: usize,
    /// Their names.
    pub variables: Vec<String>,
    /// In order.
    pub environments: Vec<EnvironmentInfo>,
    /// Seconds since 1970.
    pub created: f64,
}

/// An environment of a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EnvironmentInfo {
    /// Its samples.
    pub rows: usize,
    /// Variables intervened on, the first of them if there are many.
    pub targets: Vec<String>,
    /// How many there are.
    #[serde(default)]
    pub target_count: usize,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelInfo {
    /// The hash of its file.
    pub id: ContentId,
    /// linear, mlp or basis.
    pub kind: String,
    /// Their names.
    pub variables: Vec<String>,
    /// Training environments whose interventions it has.
    pub environments: usize,
    /// Numbers that were fitted.
    pub parameters: usize,
    /// Seconds since 1970.
    pub created: f64,
}

/// How far a job is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// From 0 to 1.
    pub share: f64,
    /// Steps taken, of a fit by Adam.
    pub step: Option<u32>,
    /// Of how many.
    pub steps: Option<u32>,
    /// The loss on that step's batch.
    pub loss: Option<f64>,
    /// The penalty.
    pub penalty: Option<f64>,
    /// At the present rate.
    pub seconds_left: Option<f64>,
}

impl Progress {
    /// So much of the work is done after so many seconds.
    pub fn with_share(self, share: f64, seconds: f64) -> Self {
        let share = share.min(1.0);
        let seconds_left = (share > 0.0).then(|| seconds * (1.0 - share) / share);
        Progress { share, seconds_left, ..self }
    }
}

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its name.
    pub id: JobId,
    /// fit, sample, evaluate, loss or simulate.
    pub kind: String,
    /// How it stands.
    pub state: JobState,
    /// What was asked for.
    pub request: Request,
    /// Where it is or was computed.
    pub device: Option<String>,
    /// Seconds since 1970.
    pub created: f64,
    /// Seconds since 1970.
    pub started: Option<f64>,
    /// Seconds since 1970.
    pub finished: Option<f64>,
    /// How far it is, while it runs.
    pub progress: Option<Progress>,
    /// Why it failed.
    pub error: Option<String>,
    /// What it found; its shape depends on the kind.
    #[schema(value_type = Option<Object>)]
    pub result: Option<serde_json::Value>,
    /// What can be fetched.
    pub files: Vec<String>,
    /// Who asked.
    #[serde(skip)]
    pub client: String,
}

/// The time, in seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

type Change = Box<dyn FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send>;
type Answer = std::result::Result<(), Problem>;

struct Write {
    change: Change,
    answer: oneshot::Sender<Answer>,
}

/// The database.
pub struct Store {
    writes: mpsc::Sender<Write>,
    reader: Mutex<Connection>,
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
    /// Opens or makes the database.
    pub fn open(path: &Path) -> Result<Store> {
        let wrong =
            |error: rusqlite::Error| Error::file(path, format!("is no database of a service: {error}"));
        let mut writer = open(path).map_err(wrong)?;
        writer.execute_batch(SCHEMA).map_err(wrong)?;
        let reader = Mutex::new(open(path).map_err(wrong)?);
        let (writes, waiting) = mpsc::channel::<Write>();
        std::thread::spawn(move || {
            while let Ok(first) = waiting.recv() {
                let together = std::iter::once(first).chain(waiting.try_iter().take(TOGETHER)).collect();
                commit(&mut writer, together);
            }
        });
        Ok(Store { writes, reader })
    }

    /// Has something changed, sooner or later; the receiver hears once that is on the disk.
    pub fn write_soon(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static,
    ) -> oneshot::Receiver<Answer> {
        let (answer, receiver) = oneshot::channel();
        // If the writer is gone, so is the answer's sender, and the receiver says so.
        let _ = self.writes.send(Write { change: Box::new(change), answer });
        receiver
    }

    /// Changes something: ready once that is on the disk.
    pub async fn write(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static,
    ) -> Answer {
        self.write_soon(change).await.unwrap_or_else(|_| Err(Problem::internal()))
    }

    /// The same for a thread that may wait.
    pub fn write_now(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static,
    ) -> Answer {
        self.write_soon(change).blocking_recv().unwrap_or_else(|_| Err(Problem::internal()))
    }

    fn reader(&self) -> MutexGuard<'_, Connection> {
        self.reader.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Reads something.
    pub fn read<T>(
        &self,
        look: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> std::result::Result<T, Problem> {
        Ok(look(&self.reader())?)
    }

    /// A name for a job.
    pub fn new_job_id(&self) -> std::result::Result<JobId, Problem> {
        let text: String =
            self.read(|db| db.query_row("SELECT lower(hex(randomblob(16)))", [], |row| row.get(0)))?;
        Ok(JobId::try_from(text)?)
    }

    pub fn dataset(&self, id: &ContentId) -> std::result::Result<Option<DatasetInfo>, Problem> {
        self.info("SELECT info FROM datasets WHERE id = ?1", id)
    }

    pub fn model(&self, id: &ContentId) -> std::result::Result<Option<ModelInfo>, Problem> {
        self.info("SELECT info FROM models WHERE id = ?1", id)
    }

    fn info<T: for<'a> Deserialize<'a>>(
        &self,
        query: &str,
        id: &ContentId,
    ) -> std::result::Result<Option<T>, Problem> {
        let text: Option<String> =
            self.read(|db| db.prepare_cached(query)?.query_row([id.as_str()], |row| row.get(0)).optional())?;
        text.map(|text| serde_json::from_str(&text).map_err(|_| Problem::internal())).transpose()
    }

    pub fn datasets(&self, most: usize) -> std::result::Result<Vec<DatasetInfo>, Problem> {
        let texts: Vec<String> = self.read(|db| {
            let mut query = db.prepare_cached("SELECT info FROM datasets ORDER BY created DESC LIMIT ?1")?;
            query.query_map([most as i64], |row| row.get(0))?.collect()
        })?;
        texts.iter().map(|text| serde_json::from_str(text).map_err(|_| Problem::internal())).collect()
    }

    pub fn job(&self, id: &JobId) -> std::result::Result<Option<Job>, Problem> {
        self.read(|db| {
            let mut query = db.prepare_cached(&format!("{JOB} WHERE id = ?1"))?;
            query.query_row([id.as_str()], job_of).optional()
        })
    }

    /// The newest jobs, of a state and a kind if they are named.
    pub fn jobs(
        &self,
        state: Option<JobState>,
        kind: Option<String>,
        most: usize,
    ) -> std::result::Result<Vec<Job>, Problem> {
        self.read(|db| {
            let mut query = db.prepare_cached(&format!(
                "{JOB} WHERE (?1 IS NULL OR state = ?1) AND (?2 IS NULL OR kind = ?2) ORDER BY number DESC LIMIT ?3"
            ))?;
            query.query_map(params![state.map(JobState::name), kind, most as i64], job_of)?.collect()
        })
    }

    /// Everything that has not ended, oldest first.
    pub fn unfinished(&self) -> std::result::Result<Vec<Job>, Problem> {
        self.read(|db| {
            let mut query =
                db.prepare(&format!("{JOB} WHERE state IN ('queued', 'running') ORDER BY number"))?;
            query.query_map([], job_of)?.collect()
        })
    }

    /// A change that keeps what is known of a dataset; one that is there already is the same.
    pub fn keep_dataset(info: &DatasetInfo) -> impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + use<> {
        keep("datasets", &info.id, to_text(info), info.created)
    }

    /// A change after which a dataset counts as uploaded now.
    pub fn touch_dataset(id: &ContentId) -> impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + use<> {
        let id = id.as_str().to_owned();
        move |db| db.execute("UPDATE datasets SET created = ?2 WHERE id = ?1", params![id, now()]).map(|_| ())
    }

    /// A change that keeps what is known of a model; one that is there already is the same.
    pub fn keep_model(info: &ModelInfo) -> impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + use<> {
        keep("models", &info.id, to_text(info), info.created)
    }

    /// How many jobs there are, by kind and state.
    pub fn counts(&self) -> std::result::Result<Vec<(String, String, u64)>, Problem> {
        self.read(|db| {
            let mut query = db.prepare_cached(
                "SELECT kind, state, count(*) FROM jobs GROUP BY kind, state ORDER BY kind, state",
            )?;
            let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)? as u64));
            query.query_map([], row)?.collect()
        })
    }
}

fn to_text(info: &impl Serialize) -> String {
    serde_json::to_string(info).expect("infos serialise")
}

fn keep(
    table: &str,
    id: &ContentId,
    info: String,
    created: f64,
) -> impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + use<> {
    let query = format!("INSERT OR IGNORE INTO {table} (id, info, created) VALUES (?1, ?2, ?3)");
    let id = id.as_str().to_owned();
    move |db| db.prepare_cached(&query)?.execute(params![id, info, created]).map(|_| ())
}

const JOB: &str = "SELECT id, kind, state, request, device, created, started, finished, error, result, files, client FROM jobs";

fn job_of(row: &Row<'_>) -> rusqlite::Result<Job> {
    fn parsed<T: for<'a> Deserialize<'a>>(column: usize, text: &str) -> rusqlite::Result<T> {
        serde_json::from_str(text).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
        })
    }
    let id: String = row.get(0)?;
    let state: String = row.get(2)?;
    let result: Option<String> = row.get(9)?;
    Ok(Job {
        id: JobId::try_from(id).map_err(|_| rusqlite::Error::InvalidQuery)?,
        kind: row.get(1)?,
        state: JobState::of(&state),
        request: parsed(3, &row.get::<_, String>(3)?)?,
        device: row.get(4)?,
        created: row.get(5)?,
        started: row.get(6)?,
        finished: row.get(7)?,
        progress: None,
        error: row.get(8)?,
        result: result.map(|text| parsed(9, &text)).transpose()?,
        files: parsed(10, &row.get::<_, String>(10)?)?,
        client: row.get(11)?,
    })
}

/// Does all changes in one transaction; one that fails is undone alone.
fn commit(connection: &mut Connection, writes: Vec<Write>) {
    let mut answers = Vec::new();
    let outcome = connection.transaction().and_then(|transaction| {
        for Write { change, answer } in writes {
            transaction.execute_batch("SAVEPOINT one")?;
            let done = change(&transaction);
            transaction.execute_batch(if done.is_ok() {
                "RELEASE one"
            } else {
                "ROLLBACK TO one; RELEASE one"
            })?;
            answers.push((answer, done));
        }
        transaction.commit()
    });
    let failed = outcome.err().map(Problem::from);
    for (answer, done) in answers {
        let said = match (&failed, done) {
            (Some(problem), _) => Err(Problem::new(problem.status, problem.sentence.clone())),
            (None, done) => done.map_err(Problem::from),
        };
        // Whoever asked may have gone away.
        let _ = answer.send(said);
    }
}
