//! Lists: pages of summaries, which are as long as they look and read nothing that is longer.

use crate::serve::domain::problem::Problem;
use crate::serve::store::database::{JobState, Progress};
use rusqlite::{Connection, Row, params};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// The longest text in a summary, in letters.
const LONGEST_TEXT: usize = 300;

/// A job, in short.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct JobSummary {
    /// Its name, which is also its address: `/v1/jobs/{id}` has the request and the result.
    pub id: String,
    /// fit, sample, evaluate, loss or simulate.
    pub kind: String,
    /// How it stands.
    pub state: JobState,
    /// The dataset it is about.
    pub dataset: Option<String>,
    /// What people call that.
    pub dataset_name: Option<String>,
    /// The model it is about.
    pub model: Option<String>,
    /// Its settings in a few words.
    pub about: String,
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
}

/// A dataset, in short.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DatasetSummary {
    /// Its name, which is also its address: `/v1/datasets/{id}` has names and targets.
    pub id: String,
    /// As its uploader called it.
    pub name: String,
    /// The size of its file.
    pub bytes: u64,
    /// All samples.
    pub rows: u64,
    /// How many there are.
    pub variables: u64,
    /// How many there are.
    pub environments: u64,
    /// Seconds since 1970.
    pub created: f64,
}

/// Which jobs.
pub struct JobFilter {
    pub state: Option<JobState>,
    pub kind: Option<String>,
    /// Only this owner's.
    pub owner: Option<String>,
}

/// A part of a list, and where the next begins if there is one.
pub struct Page<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
}

/// One more than fits is asked for, to know whether there is more.
fn page<T>(mut found: Vec<(T, String)>, limit: usize) -> Page<T> {
    let next = (found.len() > limit).then(|| {
        found.truncate(limit);
        found.last().map(|(_, place)| place.clone())
    });
    Page { items: found.into_iter().map(|(item, _)| item).collect(), next: next.flatten() }
}

fn wrong_place() -> Problem {
    Problem::bad("after is no place in this list, expected what 'next' of the page before said")
}

/// Jobs, newest first, after a place in the list.
pub fn jobs(
    db: &Connection,
    which: &JobFilter,
    after: Option<&str>,
    limit: usize,
) -> Result<Page<JobSummary>, Problem> {
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

/// A row that is not as it should be is one job that cannot be read, and no reason for another not to be.
fn summary_of(row: &Row<'_>) -> JobSummary {
    let text = |place: usize| row.get::<_, Option<String>>(place).ok().flatten();
    let number = |place: usize| row.get::<_, Option<f64>>(place).ok().flatten();
    let state = text(2).map_or(JobState::Unreadable, |name| JobState::of(&name));
    let unreadable = (state == JobState::Unreadable).then(|| {
        format!(
            "the record has the state '{}', which this version does not know",
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

/// Datasets, newest first, after a place in the list; only an owner's if one is named.
pub fn datasets(
    db: &Connection,
    owner: Option<&str>,
    after: Option<&str>,
    limit: usize,
) -> Result<Page<DatasetSummary>, Problem> {
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
        // A row that is not as it should be is shown as far as it can be read.
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

/// What tells jobs of a kind apart, in a few words.
pub fn about(request: &Value) -> String {
    let settings = &request["settings"];
    let text = |name: &str| settings[name].as_str().unwrap_or("");
    let about = match request["kind"].as_str() {
        Some("simulate") => {
            let system = settings["system"].as_str().unwrap_or("sde");
            format!("{system}, {} variables", settings["dim"].as_u64().unwrap_or(20))
        }
        Some("fit") => {
            let kds = text("objective") == "kds";
            let how = match (text("model"), text("solver")) {
                ("mlp", _) => "MLP",
                ("basis", _) => "given functions",
                (_, "adam") => "linear by Adam",
                _ if kds => "linear by Adam",
                _ => "automatic",
            };
            format!("{how}{}", if kds { ", KDS" } else { "" })
        }
        _ => String::new(),
    };
    about.chars().take(LONGEST_TEXT).collect()
}
