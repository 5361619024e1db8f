//! Removes old data by the operator's rules, and nothing else.

use super::service::Service;
use crate::serve::domain::error::ServiceError;
use crate::serve::domain::now;
use crate::serve::store::removal::{self, JUST_UPLOADED};
use crate::stderr::say;
use std::sync::Arc;
use std::time::Duration;

/// Time between two rounds.
const EVERY: Duration = Duration::from_secs(600);
const SECONDS_PER_DAY: f64 = 86_400.0;

/// Cleans now and every ten minutes.
pub(crate) fn keep_cleaning(service: Arc<Service>) {
    tokio::spawn(async move {
        while !service.is_closing() {
            let cleaned = service.clone();
            let _ = tokio::task::spawn_blocking(move || {
                if let Err(error) = clean(&cleaned) {
                    say!("error: old data could not be removed: {error}");
                }
            })
            .await;
            tokio::time::sleep(EVERY).await;
        }
    });
}

/// Removes what is too old, and then the oldest while the folder takes too much space.
fn clean(service: &Service) -> Result<(), ServiceError> {
    let Service { store, files, .. } = service;
    removal::set_strays_aside(store, files)?;
    if let Some(days) = service.keep_days {
        let before = now() - days * SECONDS_PER_DAY;
        for id in removal::ended_jobs(store, before)? {
            removal::remove_job(store, files, &id)?;
        }
        removal::remove_unused(store, files, before)?;
    }
    if let Some(most) = service.max_disk {
        for id in removal::ended_jobs(store, f64::INFINITY)? {
            if files.bytes() <= most {
                return Ok(());
            }
            removal::remove_job(store, files, &id)?;
        }
        if files.bytes() > most {
            removal::remove_unused(store, files, now() - JUST_UPLOADED)?;
        }
    }
    Ok(())
}
