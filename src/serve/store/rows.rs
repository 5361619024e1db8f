//! Turns rows of the database into jobs. A row that cannot be read spoils no other row.

use crate::serve::domain::id::JobId;
use crate::serve::domain::job::{Job, JobState};
use rusqlite::Row;
use serde::Deserialize;

/// The columns of a job, in the order that [`job_of`] and [`unfinished_of`] expect.
pub(super) const JOB: &str = "SELECT id, kind, state, request, device, created, started, finished, error, result, files, client, owner,
    number FROM jobs";

/// The most characters of a reason, which may quote the record.
const LONGEST_REASON: usize = 300;

/// A job that had not ended when the service did.
pub(crate) enum Unfinished {
    /// A job to queue again.
    Job(Box<Job>),
    /// The number of a row that cannot be read, and why.
    Unreadable(i64, String),
}

/// A job. Fields that cannot be read stay empty, and the error says so; only a row without an id is no job.
pub(super) fn job_of(row: &Row<'_>) -> rusqlite::Result<Job> {
    let text = |place: usize| row.get::<_, Option<String>>(place).ok().flatten();
    let number = |place: usize| row.get::<_, Option<f64>>(place).ok().flatten();
    let id = text(0).and_then(|id| JobId::try_from(id).ok()).ok_or(rusqlite::Error::InvalidQuery)?;
    let mut wrong = None;
    let mut keep = |found: Result<(), String>| wrong = wrong.take().or(found.err());
    let state = JobState::of(&text(2).unwrap_or_default());
    keep(match state {
        JobState::Unreadable => Err(unknown_state(&text(2).unwrap_or_default())),
        _ => Ok(()),
    });
    let request = parsed("request", text(3));
    let result = text(9).map(|text| parsed("result", Some(text))).transpose();
    let files: Result<Vec<String>, String> = parsed("files", text(10));
    keep(request.as_ref().map(|_| ()).map_err(Clone::clone));
    keep(result.as_ref().map(|_| ()).map_err(Clone::clone));
    keep(files.as_ref().map(|_| ()).map_err(Clone::clone));
    Ok(Job {
        id,
        kind: text(1).unwrap_or_default(),
        state,
        request: request.ok(),
        device: text(4),
        created: number(5).unwrap_or(0.0),
        started: number(6),
        finished: number(7),
        progress: None,
        error: text(8).or(wrong),
        result: result.ok().flatten(),
        files: files.unwrap_or_default(),
        client: text(11).unwrap_or_default(),
        owner: text(12).unwrap_or_default(),
    })
}

/// A job that had not ended.
pub(super) fn unfinished_of(row: &Row<'_>) -> rusqlite::Result<Unfinished> {
    let number = row.get(13)?;
    Ok(match job_of(row) {
        Ok(job) if job.request.is_some() => Unfinished::Job(Box::new(job)),
        Ok(job) => Unfinished::Unreadable(number, job.error.unwrap_or_default()),
        Err(_) => Unfinished::Unreadable(number, "the id on record is not an id of a job".into()),
    })
}

/// The error for an unknown state.
fn unknown_state(found: &str) -> String {
    let found: String = found.chars().take(LONGEST_REASON).collect();
    format!("the state on record is '{found}', which this version of the service does not know")
}

fn parsed<T: for<'a> Deserialize<'a>>(what: &str, text: Option<String>) -> Result<T, String> {
    serde_json::from_str(&text.unwrap_or_default()).map_err(|error| {
        let error: String = error.to_string().chars().take(LONGEST_REASON).collect();
        format!("this version of the service cannot read the {what} on record: {error}")
    })
}
