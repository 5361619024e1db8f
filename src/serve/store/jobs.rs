//! Records of jobs.

use super::audit::line;
use super::database::Store;
use super::rows::{JOB, Unfinished, job_of, unfinished_of};
use super::writer::Answer;
use crate::serve::domain::client::Client;
use crate::serve::domain::error::ServiceError;
use crate::serve::domain::id::{ContentId, JobId};
use crate::serve::domain::job::{Job, JobEnd};
use crate::serve::domain::kinds::References;
use crate::serve::domain::now;
use crate::serve::store::lists::summary;
use rusqlite::{OptionalExtension, Transaction, params};
use std::sync::Arc;

impl Store {
    /// A new id for a job.
    pub(crate) fn new_job_id(&self) -> Result<JobId, ServiceError> {
        let text: String =
            self.read(|db| db.query_row("SELECT lower(hex(randomblob(16)))", [], |row| row.get(0)))?;
        Ok(JobId::try_from(text)?)
    }

    pub(crate) fn job(&self, id: &JobId) -> Result<Option<Job>, ServiceError> {
        self.read(|db| {
            let mut query = db.prepare_cached(&format!("{JOB} WHERE id = ?1"))?;
            query.query_row([id.as_str()], job_of).optional()
        })
    }

    /// All jobs that have not ended, oldest first.
    pub(crate) fn unfinished(&self) -> Result<Vec<Unfinished>, ServiceError> {
        self.read(|db| {
            let mut query =
                db.prepare(&format!("{JOB} WHERE state IN ('queued', 'running') ORDER BY number"))?;
            query.query_map([], unfinished_of)?.collect()
        })
    }

    /// Records a new job of a client. The files that it refers to must still be there.
    pub(crate) async fn create_job(&self, client: &Client, job: &Job) -> Answer {
        let logged = line(Some(client), "create", "job", job.id.as_str());
        let job = job.clone();
        self.write_logged(logged, move |db| insert(db, &job)).await
    }

    /// Records that a worker has started a job. Nobody waits for this: a job that was running when the service crashed is queued
    /// again just like one that was waiting.
    pub(crate) fn start_job(&self, id: &JobId, device: &str, started: f64) {
        let (id, device) = (id.as_str().to_owned(), device.to_owned());
        drop(self.write_soon(move |db| {
            db.prepare_cached("UPDATE jobs SET state = 'running', device = ?2, started = ?3 WHERE id = ?1")?
                .execute(params![id, device, started])?;
            Ok(())
        }));
    }

    /// Records how jobs ended, in one commit.
    pub(crate) fn end_jobs(&self, ends: &Arc<Vec<JobEnd>>) -> Answer {
        let ends = ends.clone();
        self.write_now(move |db| ends.iter().try_for_each(|end| write_end(db, end)))
    }

    /// Records that a client cancelled a job that was waiting.
    pub(crate) async fn cancel_job(&self, client: &Client, id: &JobId) -> Answer {
        let logged = line(Some(client), "cancel", "job", id.as_str());
        let end = JobEnd::cancelled(id.clone());
        self.write_logged(logged, move |db| write_end(db, &end)).await
    }

    /// Logs that a client asked to cancel a job that is running.
    pub(crate) async fn log_cancellation(&self, client: &Client, id: &JobId) -> Answer {
        self.write_logged(line(Some(client), "cancel", "job", id.as_str()), |_| Ok(())).await
    }

    /// Records that a job whose record cannot be read has failed.
    pub(crate) fn fail_unreadable(&self, number: i64, reason: String) -> Answer {
        self.write_now(move |db| {
            db.execute(
                "UPDATE jobs SET state = 'failed', finished = ?2, error = ?3 WHERE number = ?1",
                params![number, now(), reason],
            )
            .map(|_| ())
        })
    }
}

fn insert(db: &Transaction<'_>, job: &Job) -> rusqlite::Result<()> {
    let Some(request) = &job.request else { return Err(rusqlite::Error::InvalidQuery) };
    let References { dataset, origin, model } = request.references();
    for (table, id) in [("datasets", dataset), ("models", model), ("datasets", origin)] {
        if let Some(id) = id {
            let query = format!("SELECT 1 FROM {table} WHERE id = ?1");
            db.prepare_cached(&query)?.query_row([id.as_str()], |_| Ok(()))?;
        }
    }
    let text = serde_json::to_value(request).expect("requests serialise");
    db.prepare_cached(
        "INSERT INTO jobs (id, kind, client, state, request, created, owner, dataset, model, about)
         VALUES (?1, ?2, ?3, 'queued', ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        job.id.as_str(),
        job.kind,
        job.client,
        text.to_string(),
        job.created,
        job.owner,
        dataset.map(ContentId::as_str),
        model.map(ContentId::as_str),
        summary(&text)
    ])?;
    Ok(())
}

fn write_end(db: &Transaction<'_>, end: &JobEnd) -> rusqlite::Result<()> {
    let JobEnd { id, state, result, files, error } = end;
    let files = serde_json::to_string(files).expect("names serialise");
    db.prepare_cached(
        "UPDATE jobs SET state = ?2, finished = ?3, error = ?4, result = ?5, files = ?6 WHERE id = ?1",
    )?
    .execute(params![
        id.as_str(),
        state.name(),
        now(),
        error,
        result.as_ref().map(|result| result.to_string()),
        files
    ])?;
    Ok(())
}
