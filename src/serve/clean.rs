//! Removes old data, by the owner's rule and no other.

use super::id::JobId;
use super::problem::Problem;
use super::service::Service;
use super::store::now;
use rusqlite::params;
use std::sync::Arc;
use std::time::Duration;

/// Time between looks.
const EVERY: Duration = Duration::from_secs(600);
const DAY: f64 = 86_400.0;

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
            remove_unused(service, f64::INFINITY)?;
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
    for (table, folder) in [("datasets", "dataset"), ("models", "model")] {
        let ids: Vec<String> = service.store.read(|db| {
            let mut query = db.prepare(&format!(
                "SELECT id FROM {table} AS kept WHERE created < ?1 AND NOT EXISTS
                 (SELECT 1 FROM jobs WHERE instr(request, kept.id) OR instr(coalesce(result, ''), kept.id))"
            ))?;
            query.query_map(params![before], |row| row.get(0))?.collect()
        })?;
        for id in ids {
            let id = super::id::ContentId::try_from(id)?;
            let name = id.as_str().to_owned();
            service.store.write_now(move |db| {
                db.execute(&format!("DELETE FROM {table} WHERE id = ?1"), [name]).map(|_| ())
            })?;
            let path = if folder == "model" { service.files.model(&id) } else { service.files.dataset(&id) };
            let _ = std::fs::remove_file(path);
        }
    }
    Ok(())
}

/// Folders of jobs that are not on record: a crash came between the two.
fn remove_strays(service: &Service) -> Result<(), Problem> {
    for entry in std::fs::read_dir(service.files.jobs())?.flatten() {
        let known = match entry.file_name().into_string().ok().and_then(|name| JobId::try_from(name).ok()) {
            Some(id) => service.store.job(&id)?.is_some(),
            None => false,
        };
        if !known {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}
