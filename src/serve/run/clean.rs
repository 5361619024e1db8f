//! Removes old data that is on record, by the owner's rule and no other. What is on no record is moved aside, never removed.

use crate::serve::domain::id::{ContentId, JobId};
use crate::serve::domain::problem::Problem;
use crate::serve::run::service::Service;
use crate::serve::store::audit::line;
use crate::serve::store::database::now;
use crate::serve::store::folder::Claim;
use crate::stderr::say;
use rusqlite::{Transaction, params};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time between looks.
const EVERY: Duration = Duration::from_secs(600);
const DAY: f64 = 86_400.0;
/// Seconds that an upload has before its first job is asked for.
const JUST_UPLOADED: f64 = 3600.0;

/// Looks now and every ten minutes.
pub(in crate::serve) fn keep_cleaning(service: Arc<Service>) {
    tokio::spawn(async move {
        while !service.is_closing() {
            let cleaned = service.clone();
            let _ = tokio::task::spawn_blocking(move || {
                if let Err(problem) = clean(&cleaned) {
                    say!("error: old data could not be removed: {}", problem.sentence);
                }
            })
            .await;
            tokio::time::sleep(EVERY).await;
        }
    });
}

/// Removes what is too old, and then the oldest while there is too much.
pub(in crate::serve) fn clean(service: &Service) -> Result<(), Problem> {
    set_strays_aside(service)?;
    if let Some(days) = service.keep_days {
        for id in ended_jobs(service, now() - days * DAY)? {
            remove(service, &id)?;
        }
        remove_unused(service, now() - days * DAY)?;
    }
    if let Some(most) = service.max_disk {
        for id in ended_jobs(service, f64::INFINITY)? {
            if service.files.bytes() <= most {
                return Ok(());
            }
            remove(service, &id)?;
        }
        if service.files.bytes() > most {
            remove_unused(service, now() - JUST_UPLOADED)?;
        }
    }
    Ok(())
}

/// Ended before a time, oldest first.
fn ended_jobs(service: &Service, before: f64) -> Result<Vec<JobId>, Problem> {
    let ids: Vec<String> = service.store.readers.with(|db| {
        let mut query = db.prepare(
            "SELECT id FROM jobs WHERE state IN ('done', 'failed', 'cancelled') AND finished < ?1 ORDER BY finished",
        )?;
        let ids = query.query_map([before], |row| row.get(0))?;
        Ok(ids.flatten().collect())
    })?;
    // One with another name is none that this version made.
    Ok(ids.into_iter().filter_map(|id| JobId::try_from(id).ok()).collect())
}

/// What an end of the service came in the midst of: with its record it is back, without it is gone. Without any records it is
/// set aside.
pub(in crate::serve) fn finish_removals(service: &Service, claim: Claim) -> Result<(), Problem> {
    for (away, place) in service.files.taken_away() {
        let table = place.parent().and_then(file_name).unwrap_or_default();
        let id = place.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let on_record =
            ["jobs", "datasets", "models"].contains(&table.as_str()) && service.store.has(&table, &id)?;
        match on_record && !place.exists() {
            true => service.files.bring_back(&away, &place)?,
            false if claim == Claim::Recovered => service.files.set_aside(&away)?,
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

/// Removes a file or folder with its record. It is taken away before that is committed, so that a crash in between leaves nothing
/// that nobody knows of; and by the one thread that writes, so that no job comes in between. `delete` tells whether the record goes.
fn remove_with_record(
    service: &Service,
    path: &Path,
    line: String,
    delete: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<usize> + Send + 'static,
) -> Result<(), Problem> {
    let take_away = service.files.take_away(path);
    let place = Arc::new(Mutex::new(None));
    let found = place.clone();
    let answer = service.store.write_logged_now(Box::new(move |db| {
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
        // Its record stays, and so does it.
        (Some(away), Err(_)) => service.files.bring_back(&away, path)?,
        (None, _) => {}
    }
    answer
}

fn remove(service: &Service, id: &JobId) -> Result<(), Problem> {
    let name = id.as_str().to_owned();
    remove_with_record(service, &service.files.job(id), line(None, "delete", "job", id.as_str()), move |db| {
        db.execute("DELETE FROM jobs WHERE id = ?1", [name])
    })
}

/// Datasets and models from before a time that no job on record names.
fn remove_unused(service: &Service, before: f64) -> Result<(), Problem> {
    for table in ["datasets", "models"] {
        let unused = format!(
            "created < ?1 AND NOT EXISTS
             (SELECT 1 FROM jobs WHERE instr(request, {table}.id) OR instr(coalesce(result, ''), {table}.id))"
        );
        let ids: Vec<String> = service.store.readers.with(|db| {
            let mut query = db.prepare(&format!("SELECT id FROM {table} WHERE {unused}"))?;
            let ids = query.query_map([before], |row| row.get(0))?;
            Ok(ids.flatten().collect())
        })?;
        for id in ids {
            let Ok(id) = ContentId::try_from(id) else { continue };
            // Looked at once more: a job may have come in between.
            let query = format!("DELETE FROM {table} WHERE {unused} AND id = ?2");
            let name = id.as_str().to_owned();
            let path = if table == "models" { service.files.model(&id) } else { service.files.dataset(&id) };
            let about = table.trim_end_matches('s');
            remove_with_record(service, &path, line(None, "delete", about, id.as_str()), move |db| {
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

/// What is not on record, because a crash came between the two or because someone put it there: folders of jobs, files of
/// datasets and models. What has just come may be about to be written down.
fn set_strays_aside(service: &Service) -> Result<(), Problem> {
    for (table, folder) in [
        ("jobs", service.files.jobs()),
        ("datasets", service.files.datasets()),
        ("models", service.files.models()),
    ] {
        for path in entries(&folder)?.into_iter().filter(|path| table == "jobs" || !is_new(path)) {
            let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let expected = match table {
                "jobs" => JobId::try_from(id.clone()).ok().map(|id| service.files.job(&id)),
                "datasets" => ContentId::try_from(id.clone()).ok().map(|id| service.files.dataset(&id)),
                _ => ContentId::try_from(id.clone()).ok().map(|id| service.files.model(&id)),
            };
            if expected.as_ref() != Some(&path) || !service.store.has(table, &id)? {
                service.files.set_aside(&path)?;
            }
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Problem> {
    Ok(std::fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect())
}

fn file_name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().into_owned())
}

/// Files are renamed into place with the time of their last change.
fn is_new(path: &Path) -> bool {
    let age = path.metadata().and_then(|data| data.modified()).map(|changed| changed.elapsed());
    age.is_ok_and(|age| age.is_ok_and(|age| age.as_secs_f64() < JUST_UPLOADED))
}
