//! The schema of the database: its version, and the steps from every earlier version to the newest.

use super::lists::summary;
use crate::serve::domain::client::DEFAULT_OWNER;
use crate::{Error, Result};
use rusqlite::{Connection, Transaction, params};
use serde_json::Value;
use std::path::Path;

/// The schema before it had a version.
const FIRST: &str = "
    CREATE TABLE IF NOT EXISTS datasets (
        id TEXT PRIMARY KEY, info TEXT NOT NULL, created REAL NOT NULL);
    CREATE TABLE IF NOT EXISTS models (
        id TEXT PRIMARY KEY, info TEXT NOT NULL, created REAL NOT NULL);
    CREATE TABLE IF NOT EXISTS jobs (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, kind TEXT NOT NULL, client TEXT NOT NULL,
        state TEXT NOT NULL, request TEXT NOT NULL, device TEXT, created REAL NOT NULL, started REAL, finished REAL,
        error TEXT, result TEXT, files TEXT NOT NULL DEFAULT '[]');
    CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (state, number);";

/// Owners, and short columns for lists.
const OWNERS: &str = "
    ALTER TABLE jobs ADD COLUMN owner TEXT NOT NULL DEFAULT 'default';
    ALTER TABLE jobs ADD COLUMN dataset TEXT;
    ALTER TABLE jobs ADD COLUMN model TEXT;
    ALTER TABLE jobs ADD COLUMN about TEXT NOT NULL DEFAULT '';
    CREATE INDEX jobs_by_owner ON jobs (owner, number);
    CREATE INDEX jobs_by_kind ON jobs (kind, number);
    ALTER TABLE datasets ADD COLUMN name TEXT NOT NULL DEFAULT '';
    ALTER TABLE datasets ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE datasets ADD COLUMN rows INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE datasets ADD COLUMN variables INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE datasets ADD COLUMN environments INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE shares (
        kind TEXT NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL, name TEXT, created REAL NOT NULL,
        PRIMARY KEY (kind, id, owner)) WITHOUT ROWID;
    CREATE TABLE beats (one INTEGER PRIMARY KEY CHECK (one = 1), at REAL NOT NULL);
    CREATE INDEX shares_by_owner ON shares (owner, kind, created);";

/// The step at place k leads to version k + 1.
const STEPS: [fn(&Transaction<'_>) -> rusqlite::Result<()>; 1] = [with_owners];

/// Brings a database to the newest version, in one transaction. A database that is newer or not of a service stays as it is.
pub(super) fn migrate(path: &Path, db: &mut Connection) -> Result<()> {
    let wrong =
        |error: rusqlite::Error| Error::file(path, format!("is not a database of a service: {error}"));
    let newest = STEPS.len() as i64;
    let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(wrong)?;
    if !(0..=newest).contains(&version) {
        let problem = format!(
            "has version {version}, expected at most {newest}: a newer version of skds wrote it and can read it"
        );
        return Err(Error::file(path, problem));
    }
    if version == 0 {
        check_first(path, db)?;
    }
    if version == newest {
        return Ok(());
    }
    let step = |db: &mut Connection| -> rusqlite::Result<()> {
        let transaction = db.transaction()?;
        for step in &STEPS[version as usize..] {
            step(&transaction)?;
        }
        transaction.pragma_update(None, "user_version", newest)?;
        transaction.commit()
    };
    step(db).map_err(|error| {
        Error::file(path, format!("cannot be migrated from version {version} to {newest}: {error}"))
    })
}

/// A database without a version is empty, or has all tables of the first.
fn check_first(path: &Path, db: &Connection) -> Result<()> {
    let tables: rusqlite::Result<Vec<String>> = db
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        .and_then(|mut query| query.query_map([], |row| row.get(0))?.collect());
    let tables =
        tables.map_err(|error| Error::file(path, format!("is not a database of a service: {error}")))?;
    let missing = ["datasets", "models", "jobs"].into_iter().find(|name| !tables.iter().any(|t| t == name));
    match missing.filter(|_| !tables.is_empty()) {
        Some(missing) => {
            Err(Error::file(path, format!("is not a database of a service: it has no table {missing}")))
        }
        None => Ok(()),
    }
}

/// Checks that a file is a database that [`migrate`] accepts, with the tables of a service.
pub(super) fn is_of_a_service(path: &Path) -> Result<()> {
    let wrong =
        |error: rusqlite::Error| Error::file(path, format!("is not a database of a service: {error}"));
    let db = Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(wrong)?;
    let jobs =
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('datasets', 'models', 'jobs')";
    match db.query_row(jobs, [], |row| row.get::<_, i64>(0)).map_err(wrong)? {
        3 => Ok(()),
        _ => Err(Error::file(
            path,
            "is not a database of a service: it lacks the tables datasets, models and jobs",
        )),
    }
}

fn with_owners(db: &Transaction<'_>) -> rusqlite::Result<()> {
    db.execute_batch(FIRST)?;
    db.execute_batch(OWNERS)?;
    let all = |query: &str| -> rusqlite::Result<Vec<(String, Value)>> {
        let mut query = db.prepare(query)?;
        // Requests that cannot be read have no summary and stay as they are.
        let text = |row: &rusqlite::Row<'_>| row.get::<_, String>(1).unwrap_or_default();
        let parsed = |row: &rusqlite::Row<'_>| {
            Ok((row.get::<_, String>(0)?, serde_json::from_str(&text(row)).unwrap_or(Value::Null)))
        };
        query.query_map([], parsed)?.filter(|row| row.is_ok()).collect()
    };
    for (id, request) in all("SELECT id, request FROM jobs")? {
        db.prepare_cached("UPDATE jobs SET dataset = ?2, model = ?3, about = ?4 WHERE id = ?1")?.execute(
            params![id, request["dataset"].as_str(), request["model"].as_str(), summary(&request)],
        )?;
    }
    for (id, info) in all("SELECT id, info FROM datasets")? {
        let count = |name: &str| info[name].as_array().map_or(0, Vec::len) as i64;
        let number = |name: &str| info[name].as_i64().unwrap_or(0);
        db.prepare_cached(
            "UPDATE datasets SET name = ?2, bytes = ?3, rows = ?4, variables = ?5, environments = ?6 WHERE id = ?1",
        )?
        .execute(params![
            id,
            info["name"].as_str().unwrap_or(""),
            number("bytes"),
            number("rows"),
            count("variables"),
            count("environments")
        ])?;
    }
    for (table, name) in [("datasets", "name"), ("models", "NULL")] {
        let query = format!("INSERT INTO shares SELECT '{table}', id, ?1, {name}, created FROM {table}");
        db.execute(&query, [DEFAULT_OWNER])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(db: &Connection) -> i64 {
        db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    }

    #[test]
    fn an_old_database_becomes_the_newest_and_keeps_what_it_has() {
        let mut db = Connection::open_in_memory().unwrap();
        db.execute_batch(FIRST).unwrap();
        db.execute_batch(
            r#"INSERT INTO jobs (id, kind, client, state, request, created) VALUES
                 ('a', 'fit', 'me', 'done', '{"kind": "fit", "dataset": "d", "settings": {"solver": "adam"}}', 1.5),
                 ('b', 'fit', 'me', 'queued', 'no request', 2.5);
               INSERT INTO datasets VALUES
                 ('d', '{"name": "train.npz", "bytes": 7, "rows": 3, "variables": ["x", "y"], "environments": [{}]}', 1.0),
                 ('e', 'no info', 2.0);
               INSERT INTO models VALUES ('m', '{}', 3.0)"#,
        )
        .unwrap();
        let path = Path::new("old.sqlite");
        migrate(path, &mut db).unwrap();
        assert_eq!(version(&db), STEPS.len() as i64);
        let texts = |query: &str| -> Vec<String> {
            let mut query = db.prepare(query).unwrap();
            let rows = query.query_map([], |row| row.get(0)).unwrap();
            rows.map(|row| row.unwrap()).collect()
        };
        let row = "id || ' ' || owner || ' ' || coalesce(dataset, '-') || ' ' || about || ' ' || created";
        let jobs = texts(&format!("SELECT {row} FROM jobs ORDER BY id"));
        assert_eq!(jobs, ["a default d linear by Adam 1.5", "b default -  2.5"]);
        let row =
            "id || ' ' || name || ' ' || bytes || ' ' || rows || ' ' || variables || ' ' || environments";
        assert_eq!(texts(&format!("SELECT {row} FROM datasets")), ["d train.npz 7 3 2 1", "e  0 0 0 0"]);
        let shares = "SELECT kind || ' ' || id || ' ' || owner FROM shares";
        assert_eq!(texts(shares), ["datasets d default", "datasets e default", "models m default"]);
        // Once is enough.
        migrate(path, &mut db).unwrap();
    }

    #[test]
    fn newer_and_foreign_databases_are_refused_and_left_alone() {
        let mut newer = Connection::open_in_memory().unwrap();
        newer.pragma_update(None, "user_version", 99).unwrap();
        let sentence = migrate(Path::new("new.sqlite"), &mut newer).unwrap_err().to_string();
        assert!(sentence.contains(&format!("version 99, expected at most {}", STEPS.len())), "{sentence}");
        let mut foreign = Connection::open_in_memory().unwrap();
        foreign.execute_batch("CREATE TABLE jobs (id); CREATE TABLE recipes (id)").unwrap();
        let sentence = migrate(Path::new("foreign.sqlite"), &mut foreign).unwrap_err().to_string();
        assert!(sentence.contains("has no table datasets"), "{sentence}");
        for db in [&newer, &foreign] {
            let shares = "SELECT count(*) FROM sqlite_master WHERE name = 'shares'";
            assert_eq!(db.query_row(shares, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
        }
        assert_eq!(version(&newer), 99);
    }

    #[test]
    fn a_step_that_fails_leaves_the_old_form() {
        let mut db = Connection::open_in_memory().unwrap();
        db.execute_batch(FIRST).unwrap();
        // In the way of a step's end.
        db.execute_batch("CREATE TABLE shares (id)").unwrap();
        assert!(migrate(Path::new("old.sqlite"), &mut db).is_err());
        assert_eq!(version(&db), 0);
        assert!(db.prepare("SELECT owner FROM jobs").is_err());
    }
}
