//! Removes files together with their records. A file that is on no record is moved aside, never removed.

use super::audit::line;
use super::database::Store;
use super::files::Files;
use super::folder::FolderState;
use crate::serve::domain::error::ServiceError;
use crate::serve::domain::id::{ContentId, JobId};
use crate::stderr::say;
use rusqlite::{Transaction, params};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Seconds that an upload stays before its first job.
pub(crate) const JUST_UPLOADED: f64 = 3600.0;

/// The jobs that ended before a time, oldest first.
pub(crate) fn ended_jobs(store: &Store, before: f64) -> Result<Vec<JobId>, ServiceError> {
    let ids: Vec<String> = store.read_long(|reader| {
        let mut query = reader.0.prepare(
            "SELECT id FROM jobs WHERE state IN ('done', 'failed', 'cancelled') AND finished < ?1 ORDER BY finished",
        )?;
        let ids = query.query_map([before], |row| row.get(0))?;
        Ok(ids.flatten().collect())
    })?;
    // This version makes no other ids.
    Ok(ids.into_iter().filter_map(|id| JobId::try_from(id).ok()).collect())
}

/// Finishes removals that the end of the service interrupted. A file whose record is still there comes back; one without a record
/// is removed. If the database was lost, the file is set aside.
pub(crate) fn finish_removals(store: &Store, files: &Files, state: FolderState) -> Result<(), ServiceError> {
    for (away, place) in files.taken_away() {
        let table = place.parent().and_then(file_name).unwrap_or_default();
        let id = place.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let on_record = ["jobs", "datasets", "models"].contains(&table.as_str()) && store.has(&table, &id)?;
        match on_record && !place.exists() {
            true => files.bring_back(&away, &place)?,
            false if state == FolderState::Recovered => files.set_aside(&away)?,
            false => discard(&away),
        }
    }
    Ok(())
}

fn discard(path: &Path) {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    if let Err(error) = removed {
        say!("error: cannot remove {}: {error}", path.display());
    }
}

/// Removes a file or folder with its record. The file is moved away before the commit, so that a crash in between leaves no file
/// without a record. The one thread that writes does this, so that no new job can refer to the file meanwhile. `delete` returns the
/// number of records that it deleted.
fn remove_with_record(
    store: &Store,
    files: &Files,
    path: &Path,
    line: String,
    delete: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<usize> + Send + 'static,
) -> Result<(), ServiceError> {
    let take_away = files.take_away(path);
    let place = Arc::new(Mutex::new(None));
    let found = place.clone();
    let answer = store.write_logged_now(Box::new(move |db| {
        if delete(db)? == 0 {
            return Ok(None);
        }
        let away = take_away().map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        *found.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = away;
        Ok(Some(line))
    }));
    let away = place.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
    match (away, &answer) {
        (Some(away), Ok(())) => discard(&away),
        // The record stays, so the file does, too.
        (Some(away), Err(_)) => files.bring_back(&away, path)?,
        (None, _) => {}
    }
    answer
}

/// Removes a job.
pub(crate) fn remove_job(store: &Store, files: &Files, id: &JobId) -> Result<(), ServiceError> {
    let name = id.as_str().to_owned();
    remove_with_record(store, files, &files.job(id), line(None, "delete", "job", id.as_str()), move |db| {
        db.execute("DELETE FROM jobs WHERE id = ?1", [name])
    })
}

/// Removes datasets and models from before a time to which no job on record refers.
pub(crate) fn remove_unused(store: &Store, files: &Files, before: f64) -> Result<(), ServiceError> {
    for table in ["datasets", "models"] {
        let unused = format!(
            "created < ?1 AND NOT EXISTS
             (SELECT 1 FROM jobs WHERE instr(request, {table}.id) OR instr(coalesce(result, ''), {table}.id))"
        );
        let ids: Vec<String> = store.read_long(|reader| {
            let mut query = reader.0.prepare(&format!("SELECT id FROM {table} WHERE {unused}"))?;
            let ids = query.query_map([before], |row| row.get(0))?;
            Ok(ids.flatten().collect())
        })?;
        for id in ids {
            let Ok(id) = ContentId::try_from(id) else { continue };
            // Checked once more: a new job may refer to it by now.
            let query = format!("DELETE FROM {table} WHERE {unused} AND id = ?2");
            let name = id.as_str().to_owned();
            let path = if table == "models" { files.model(&id) } else { files.dataset(&id) };
            let about = table.trim_end_matches('s');
            remove_with_record(store, files, &path, line(None, "delete", about, id.as_str()), move |db| {
                let removed = db.execute(&query, params![before, name])?;
                if removed > 0 {
                    db.execute("DELETE FROM shares WHERE kind = ?1 AND id = ?2", params![table, name])?;
                }
                Ok(removed)
            })?;
        }
    }
    Ok(())
}

/// Sets aside folders of jobs and files of datasets and models that are on no record. A crash can leave them, or somebody put them
/// there. New files may be about to be recorded.
pub(crate) fn set_strays_aside(store: &Store, files: &Files) -> Result<(), ServiceError> {
    for (table, folder) in
        [("jobs", files.jobs()), ("datasets", files.datasets()), ("models", files.models())]
    {
        for path in entries(&folder)?.into_iter().filter(|path| table == "jobs" || !is_new(path)) {
            let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let expected = match table {
                "jobs" => JobId::try_from(id.clone()).ok().map(|id| files.job(&id)),
                "datasets" => ContentId::try_from(id.clone()).ok().map(|id| files.dataset(&id)),
                _ => ContentId::try_from(id.clone()).ok().map(|id| files.model(&id)),
            };
            if expected.as_ref() != Some(&path) || !store.has(table, &id)? {
                files.set_aside(&path)?;
            }
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, ServiceError> {
    Ok(std::fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect())
}

fn file_name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().into_owned())
}

/// Files keep the time of their last change when they are renamed into place.
fn is_new(path: &Path) -> bool {
    let age = path.metadata().and_then(|data| data.modified()).map(|changed| changed.elapsed());
    age.is_ok_and(|age| age.is_ok_and(|age| age.as_secs_f64() < JUST_UPLOADED))
}
