//! Pages of lists. A page reads short columns only.

use super::database::Reader;
use crate::serve::domain::error::ServiceError;
use crate::serve::domain::job::{JobState, Progress};
use crate::serve::domain::kinds::Request;
use rusqlite::{Connection, Row, params};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// The most characters of a text in a summary.
const LONGEST_TEXT: usize = 300;

/// A job in a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct JobSummary {
    /// The id of the job; `/v1/jobs/{id}` has its request and result.
    pub id: String,
    /// The kind of the request: fit, sample, evaluate, loss or simulate.
    pub kind: String,
    /// The job's state.
    pub state: JobState,
    /// The id of the dataset that the request refers to.
    pub dataset: Option<String>,
    /// The name of that dataset.
    pub dataset_name: Option<String>,
    /// The id of the model that the request refers to.
    pub model: Option<String>,
    /// The settings in a few words.
    pub about: String,
    /// The device that runs or ran the job.
    pub device: Option<String>,
    /// When it was submitted, in seconds since 1970.
    pub created: f64,
    /// When it started, in seconds since 1970.
    pub started: Option<f64>,
    /// When it ended, in seconds since 1970.
    pub finished: Option<f64>,
    /// The progress, while the job runs.
    pub progress: Option<Progress>,
    /// Why the job failed.
    pub error: Option<String>,
}

/// A dataset in a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct DatasetSummary {
    /// The id of the dataset; `/v1/datasets/{id}` has the names of its variables and its targets.
    pub id: String,
    /// The name that its uploader gave it.
    pub name: String,
    /// The size of its file in bytes.
    pub bytes: u64,
    /// The number of samples in all environments.
    pub rows: u64,
    /// The number of variables.
    pub variables: u64,
    /// The number of environments.
    pub environments: u64,
    /// When it was uploaded, in seconds since 1970.
    pub created: f64,
}

/// The jobs to list.
pub(crate) struct JobFilter {
    pub state: Option<JobState>,
    pub kind: Option<String>,
    /// Only jobs of this owner.
    pub owner: Option<String>,
}

/// A page of a list, and where the next one begins, if there is one.
pub(crate) struct Page<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
}

impl Reader<'_> {
    /// Jobs, newest first, after a place in the list.
    pub(crate) fn jobs(
        &self,
        which: &JobFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<JobSummary>, ServiceError> {
        jobs(self.0, which, after, limit)
    }

    /// Datasets, newest first, after a place in the list; only those of an owner if one is given.
    pub(crate) fn datasets(
        &self,
        owner: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<DatasetSummary>, ServiceError> {
        datasets(self.0, owner, after, limit)
    }

    /// The number of jobs by kind and state.
    pub(crate) fn job_counts(&self) -> Result<Vec<(String, String, u64)>, ServiceError> {
        let mut query = self.0.prepare_cached(
            "SELECT kind, state, count(*) FROM jobs GROUP BY kind, state ORDER BY kind, state",
        )?;
        let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)? as u64));
        Ok(query.query_map([], row)?.collect::<rusqlite::Result<_>>()?)
    }
}

/// Makes a page. The query asks for one row more than fits, to know whether there is another page.
fn page<T>(mut found: Vec<(T, String)>, limit: usize) -> Page<T> {
    let next = (found.len() > limit).then(|| {
        found.truncate(limit);
        found.last().map(|(_, place)| place.clone())
    });
    Page { items: found.into_iter().map(|(item, _)| item).collect(), next: next.flatten() }
}

fn wrong_place() -> ServiceError {
    ServiceError::invalid(
        "after is not a place in this list, expected the value of 'next' from the page before",
    )
}

fn jobs(
    db: &Connection,
    which: &JobFilter,
    after: Option<&str>,
    limit: usize,
) -> Result<Page<JobSummary>, ServiceError> {
    let before = match after {
        Some(place) => i64::from_str_radix(place, 16).map_err(|_| wrong_place())?,
        None => i64::MAX,
    };
    let mut conditions = vec!["number < ?1".to_owned()];
    match which.state {
        Some(JobState::Unreadable) => {
            let known = JobState::KNOWN.map(|state| format!("'{}'", state.name())).join(", ");
            conditions.push(format!("state NOT IN ({known})"));
        }
        Some(state) => conditions.push(format!("state = '{}'", state.name())),
        None => {}
    }
    conditions.extend(which.kind.is_some().then(|| "kind = ?3".to_owned()));
    conditions.extend(which.owner.is_some().then(|| "owner = ?4".to_owned()));
    let query = format!(
        "SELECT id, kind, state, dataset, model, about, device, created, started, finished, substr(error, 1, {LONGEST_TEXT}), number,
             coalesce((SELECT name FROM shares WHERE shares.kind = 'datasets' AND shares.id = jobs.dataset AND shares.owner = jobs.owner),
                      (SELECT name FROM datasets WHERE datasets.id = jobs.dataset)),
             ?3, ?4
         FROM jobs WHERE {} ORDER BY number DESC LIMIT ?2",
        conditions.join(" AND ")
    );
    let mut query = db.prepare_cached(&query)?;
    let found = query.query_map(params![before, limit as i64 + 1, which.kind, which.owner], |row| {
        let number: i64 = row.get(11)?;
        Ok((summary_of(row), format!("{number:x}")))
    })?;
    Ok(page(found.collect::<rusqlite::Result<_>>()?, limit))
}

/// A summary of a row. A row that cannot be read spoils no other row.
fn summary_of(row: &Row<'_>) -> JobSummary {
    let text = |place: usize| row.get::<_, Option<String>>(place).ok().flatten();
    let number = |place: usize| row.get::<_, Option<f64>>(place).ok().flatten();
    let state = text(2).map_or(JobState::Unreadable, |name| JobState::of(&name));
    let unreadable = (state == JobState::Unreadable).then(|| {
        format!(
            "the state on record is '{}', which this version of the service does not know",
            text(2).unwrap_or_default()
        )
    });
    JobSummary {
        id: text(0).unwrap_or_default(),
        kind: text(1).unwrap_or_default(),
        state,
        dataset: text(3),
        dataset_name: text(12),
        model: text(4),
        about: text(5).unwrap_or_default(),
        device: text(6),
        created: number(7).unwrap_or(0.0),
        started: number(8),
        finished: number(9),
        progress: None,
        error: unreadable.or(text(10)),
    }
}

fn datasets(
    db: &Connection,
    owner: Option<&str>,
    after: Option<&str>,
    limit: usize,
) -> Result<Page<DatasetSummary>, ServiceError> {
    let (before, id) = match after {
        Some(place) => {
            let (bits, id) = place.split_once('-').ok_or_else(wrong_place)?;
            (f64::from_bits(u64::from_str_radix(bits, 16).map_err(|_| wrong_place())?), id)
        }
        None => (f64::INFINITY, ""),
    };
    let (created, name, from) = match owner {
        None => ("d.created", "d.name", "datasets d"),
        Some(_) => (
            "s.created",
            "coalesce(s.name, d.name)",
            "shares s JOIN datasets d ON s.owner = ?4 AND s.kind = 'datasets' AND d.id = s.id",
        ),
    };
    let query = format!(
        "SELECT d.id, {name}, d.bytes, d.rows, d.variables, d.environments, {created}, ?4 FROM {from}
         WHERE {created} < ?1 OR ({created} = ?1 AND d.id > ?2) ORDER BY {created} DESC, d.id LIMIT ?3"
    );
    let mut query = db.prepare_cached(&query)?;
    let found = query.query_map(params![before, id, limit as i64 + 1, owner], |row| {
        // A bad row is shown as far as it can be read.
        let number = |place: usize| row.get::<_, i64>(place).map_or(0, |number| number.max(0) as u64);
        let id: String = row.get(0).unwrap_or_default();
        let created: f64 = row.get(6).unwrap_or(0.0);
        let place = format!("{:x}-{id}", created.to_bits());
        let summary = DatasetSummary {
            id,
            name: row.get(1).unwrap_or_default(),
            bytes: number(2),
            rows: number(3),
            variables: number(4),
            environments: number(5),
            created,
        };
        Ok((summary, place))
    })?;
    Ok(page(found.collect::<rusqlite::Result<_>>()?, limit))
}

/// The settings of a request in a few words.
pub(crate) fn summary(request: &Value) -> String {
    Request::summary(request).chars().take(LONGEST_TEXT).collect()
}
