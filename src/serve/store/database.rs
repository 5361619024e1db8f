//! What the service remembers: one SQLite file.
//!
//! Writes go through one thread (`writer`), so that hundreds of clients share the cost of reaching the disk. One connection serves
//! looks at single rows; whatever reads more has one of its own (`readers`).

use crate::serve::domain::id::{ContentId, JobId};
use crate::serve::domain::problem::Problem;
use crate::serve::domain::request::Request;
use crate::serve::store::audit::Log;
use crate::serve::store::readers::Readers;
use crate::serve::store::rows::{JOB, Unfinished, job_of, unfinished_of};
use crate::serve::store::schema;
use crate::serve::store::shares::{Holder, share};
use crate::serve::store::writer::{Answer, Change, Writer};
use crate::{Error, Result};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;
use utoipa::ToSchema;

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
    /// Is on record in a way that this version cannot read.
    Unreadable,
}

impl JobState {
    /// All that a record may have.
    pub const KNOWN: [JobState; 5] =
        [JobState::Queued, JobState::Running, JobState::Done, JobState::Failed, JobState::Cancelled];

    pub fn name(self) -> &'static str {
        match self {
            JobState::Queued => "queued",
            JobState::Running => "running",
            JobState::Done => "done",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
            JobState::Unreadable => "unreadable",
        }
    }

    pub fn is_final(self) -> bool {
        !matches!(self, JobState::Queued | JobState::Running)
    }

    /// By its name on record.
    pub fn of(name: &str) -> Self {
        JobState::KNOWN.into_iter().find(|state| state.name() == name).unwrap_or(JobState::Unreadable)
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
    /// What was asked for; none if that was written by another version and cannot be read.
    pub request: Option<Request>,
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
    /// Whom it belongs to.
    #[serde(skip)]
    pub owner: String,
}

/// The time, in seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// The database.
pub struct Store {
    writer: Writer,
    reader: Mutex<Connection>,
    pub(in crate::serve) readers: Readers,
}

pub(in crate::serve) fn open(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // A commit has reached the disk when it returns.
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

impl Store {
    /// Opens or makes the database, in its newest form. Changes are logged in the file `audit`.
    pub fn open(path: &Path, audit: PathBuf) -> Result<Store> {
        let wrong =
            |error: rusqlite::Error| Error::file(path, format!("is no database of a service: {error}"));
        let mut writer = open(path).map_err(wrong)?;
        schema::migrate(path, &mut writer)?;
        let reader = Mutex::new(open(path).map_err(wrong)?);
        let readers = Readers::new(path.to_path_buf());
        Ok(Store { writer: Writer::start(writer, Log::new(audit)), reader, readers })
    }

    /// Has something changed, sooner or later; the receiver hears once that is on the disk.
    pub fn write_soon(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static,
    ) -> oneshot::Receiver<Answer> {
        self.writer.send(Box::new(move |db| change(db).map(|()| None)))
    }

    /// Changes something: ready once that is on the disk.
    pub async fn write(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static,
    ) -> Answer {
        self.write_soon(change).await.unwrap_or_else(|_| Err(Problem::internal()))
    }

    /// The same with a line in the audit log.
    pub async fn write_logged(
        &self,
        line: String,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static,
    ) -> Answer {
        let answer = self.writer.send(Box::new(move |db| change(db).map(|()| Some(line))));
        answer.await.unwrap_or_else(|_| Err(Problem::internal()))
    }

    /// For a thread that may wait.
    pub fn write_now(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static,
    ) -> Answer {
        self.write_soon(change).blocking_recv().unwrap_or_else(|_| Err(Problem::internal()))
    }

    /// The same for a change that says itself what is logged, if anything.
    pub fn write_logged_now(&self, change: Change) -> Answer {
        self.writer.send(change).blocking_recv().unwrap_or_else(|_| Err(Problem::internal()))
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
        text.map(|text| serde_json::from_str(&text).map_err(|_| Problem::unreadable())).transpose()
    }

    /// Whether a dataset, a model or a job is on record, readable or not.
    pub fn has(&self, table: &str, id: &str) -> std::result::Result<bool, Problem> {
        let query = format!("SELECT 1 FROM {table} WHERE id = ?1");
        Ok(self.read(|db| db.prepare_cached(&query)?.query_row([id], |_| Ok(())).optional())?.is_some())
    }

    pub fn job(&self, id: &JobId) -> std::result::Result<Option<Job>, Problem> {
        self.read(|db| {
            let mut query = db.prepare_cached(&format!("{JOB} WHERE id = ?1"))?;
            query.query_row([id.as_str()], job_of).optional()
        })
    }

    /// Everything that has not ended, oldest first.
    pub fn unfinished(&self) -> std::result::Result<Vec<Unfinished>, Problem> {
        self.read(|db| {
            let mut query =
                db.prepare(&format!("{JOB} WHERE state IN ('queued', 'running') ORDER BY number"))?;
            query.query_map([], unfinished_of)?.collect()
        })
    }

    /// A change that keeps what is known of a dataset and gives it to someone; one that is there already is the same.
    pub fn keep_dataset(
        info: &DatasetInfo,
        holder: &Holder,
    ) -> impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + use<> {
        let DatasetInfo { id, name, bytes, rows, variables, environments, created } = info;
        let text = to_text(info);
        let counts = [*bytes as i64, *rows as i64, variables.len() as i64, environments.len() as i64];
        let share = share("datasets", id, holder, Some(name));
        let (id, name, created) = (id.as_str().to_owned(), name.clone(), *created);
        move |db| {
            let [bytes, rows, variables, environments] = counts;
            // The same content again repairs a record that could not be read.
            db.prepare_cached(
                "INSERT INTO datasets (id, info, created, name, bytes, rows, variables, environments)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                 ON CONFLICT DO UPDATE SET info = ?2, name = ?4, bytes = ?5, rows = ?6, variables = ?7, environments = ?8",
            )?
            .execute(params![id, text, created, name, bytes, rows, variables, environments])?;
            share(db)
        }
    }

    /// A change after which a dataset that is there counts as uploaded now, by someone and under their name.
    pub fn touch_dataset(
        id: &ContentId,
        holder: &Holder,
        name: &str,
    ) -> impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + use<> {
        let share = share("datasets", id, holder, Some(name));
        let id = id.as_str().to_owned();
        move |db| {
            match db.execute("UPDATE datasets SET created = ?2 WHERE id = ?1", params![id, now()])? {
                // It was removed in the meantime.
                0 => Err(rusqlite::Error::QueryReturnedNoRows),
                _ => share(db),
            }
        }
    }

    /// A change that keeps what is known of a model and gives it to someone; one that is there already is the same.
    pub fn keep_model(
        info: &ModelInfo,
        holder: &Holder,
    ) -> impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + use<> {
        let (text, share) = (to_text(info), share("models", &info.id, holder, None));
        let (id, created) = (info.id.as_str().to_owned(), info.created);
        move |db| {
            db.prepare_cached(
                "INSERT INTO models (id, info, created) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET info = ?2",
            )?
            .execute(params![id, text, created])?;
            share(db)
        }
    }
}

/// How many jobs there are, by kind and state.
pub fn counts(db: &Connection) -> rusqlite::Result<Vec<(String, String, u64)>> {
    let mut query = db
        .prepare_cached("SELECT kind, state, count(*) FROM jobs GROUP BY kind, state ORDER BY kind, state")?;
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)? as u64));
    query.query_map([], row)?.collect()
}

fn to_text(info: &impl Serialize) -> String {
    serde_json::to_string(info).expect("infos serialise")
}
