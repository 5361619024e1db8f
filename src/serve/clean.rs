//! Removes old data, by the owner's rule and no other.

use super::id::{ContentId, JobId};
use super::problem::Problem;
use super::service::Service;
use super::store::now;
use rusqlite::params;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time between looks.
const EVERY: Duration = Duration::from_secs(600);
const DAY: f64 = 86_400.0;
/// Seconds that an upload has before its first job is asked for.
const JUST_UPLOADED: f64 = 3600.0;

/// Looks now and every ten minutes.
pub(super) fn keep_cleaning(service: Arc<Service>) {
    tokio::spawn(async move {
        while !service.is_closing() {
            let cleaned = service.clone();
            let _ = tokio::task::spawn_blocking(move || {
                if let Err(problem) = clean(&cleaned) {
                    eprintln!("error: old data could not be removed: {}", problem.sentence);
                }
            })
            .await;
            tokio::time::sleep(EVERY).await;
        }
    });
}

/// Removes what is too old, and then the oldest while there is too much. A job's record goes first: files without one are
/// never served.
pub(super) fn clean(service: &Service) -> Result<(), Problem> {
    remove_strays(service)?;
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
    let ids: Vec<String> = service.store.read(|db| {
        let mut query = db.prepare(
            "SELECT id FROM jobs WHERE state IN ('done', 'failed', 'cancelled') AND finished < ?1 ORDER BY finished",
        )?;
        query.query_map([before], |row| row.get(0))?.collect()
    })?;
    ids.into_iter().map(|id| Ok(JobId::try_from(id)?)).collect()
}

fn remove(service: &Service, id: &JobId) -> Result<(), Problem> {
    let name = id.as_str().to_owned();
    service.store.write_now(move |db| db.execute("DELETE FROM jobs WHERE id = ?1", [name]).map(|_| ()))?;
    let _ = std::fs::remove_dir_all(service.files.job(id));
    Ok(())
}

/// Datasets and models from before a time that no job on record names.
fn remove_unused(service: &Service, before: f64) -> Result<(), Problem> {
    for table in ["datasets", "models"] {
        let unused = format!(
            "created < ?1 AND NOT EXISTS
             (SELECT 1 FROM jobs WHERE instr(request, {table}.id) OR instr(coalesce(result, ''), {table}.id))"
        );
        let ids: Vec<String> = service.store.read(|db| {
            let mut query = db.prepare(&format!("SELECT id FROM {table} WHERE {unused}"))?;
            query.query_map([before], |row| row.get(0))?.collect()
        })?;
        for id in ids {
            let id = ContentId::try_from(id)?;
            // Looked at once more: a job may have come in between.
            let query = format!("DELETE FROM {table} WHERE {unused} AND id = ?2");
            let (name, removed) = (id.as_str().to_owned(), Arc::new(AtomicBool::new(false)));
            let found = removed.clone();
            service.store.write_now(move |db| {
                found.store(db.execute(&query, params![before, name])? > 0, Ordering::Relaxed);
                Ok(())
            })?;
            if removed.load(Ordering::Relaxed) {
                let path =
                    if table == "models" { service.files.model(&id) } else { service.files.dataset(&id) };
                let _ = std::fs::remove_file(path);
            }
        }
    }
    Ok(())
}

/// What is not on record, because a crash came between the two: folders of jobs, files of datasets and models. What has just
/// come may be about to be written down.
fn remove_strays(service: &Service) -> Result<(), Problem> {
    for path in entries(&service.files.jobs())? {
        let id = file_name(&path).and_then(|name| JobId::try_from(name).ok());
        let known = id.map(|id| service.store.job(&id)).transpose()?.flatten().is_some();
        if !known {
            let _ = std::fs::remove_dir_all(path);
        }
    }
    for (folder, is_dataset) in [(service.files.datasets(), true), (service.files.models(), false)] {
        for path in entries(&folder)?.into_iter().filter(|path| !is_new(path)) {
            let known =
                match path.file_stem().map(|name| ContentId::try_from(name.to_string_lossy().into_owned())) {
                    Some(Ok(id)) if is_dataset => service.store.dataset(&id)?.is_some(),
                    Some(Ok(id)) => service.store.model(&id)?.is_some(),
                    _ => false,
                };
            if !known {
                let _ = std::fs::remove_file(path);
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
