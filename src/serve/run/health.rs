//! Whether the service works: its workers run, and the database and the disk accept writes.

use super::service::Service;
use crate::stderr::say;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A finding stays valid for this long, because a check writes to the disk and anyone may ask.
const VALID: Duration = Duration::from_secs(1);
/// The longest time to wait for a write.
const LONGEST: Duration = Duration::from_secs(5);

/// The health of the service, as far as it is known.
#[derive(Default)]
pub(super) struct Health {
    /// The devices whose workers have stopped.
    stopped: Mutex<Vec<String>>,
    last: tokio::sync::Mutex<Option<(Instant, Vec<String>)>>,
}

/// Held by a worker while it runs. When it is dropped, the worker has stopped.
pub(super) struct WorkerGuard {
    service: Arc<Service>,
    device: String,
}

impl WorkerGuard {
    pub(super) fn new(service: Arc<Service>, device: &str) -> WorkerGuard {
        WorkerGuard { service, device: device.to_owned() }
    }
}

impl Drop for WorkerGuard {
    fn drop(&mut self) {
        if !self.service.is_closing() {
            say!("error: the worker of {} has stopped", self.device);
            let mut stopped =
                self.service.health.stopped.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if !stopped.contains(&self.device) {
                stopped.push(self.device.clone());
            }
        }
    }
}

impl Service {
    /// What does not work; empty if everything does.
    pub(in crate::serve) async fn find_problems(self: &Arc<Self>) -> Vec<String> {
        // Others who ask meanwhile wait for the same check.
        let mut last = self.health.last.lock().await;
        if let Some((_, found)) = last.as_ref().filter(|(when, _)| when.elapsed() < VALID) {
            return found.clone();
        }
        let stopped = self.health.stopped.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let mut found: Vec<String> =
            stopped.iter().map(|device| format!("the worker of {device} has stopped")).collect();
        found.extend(match tokio::time::timeout(LONGEST, self.store.beat()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("the database cannot be written: {error}")),
            Err(_) => Some(format!("the database has not been written within {} s", LONGEST.as_secs())),
        });
        let uploads = self.files.uploads();
        let written = tokio::task::spawn_blocking(move || probe(&uploads));
        found.extend(match tokio::time::timeout(LONGEST, written).await {
            Ok(Ok(Ok(()))) => None,
            // The kind of the error, without its path.
            Ok(Ok(Err(error))) => Some(format!("files cannot be written: {}", error.kind())),
            Ok(Err(_)) => Some("files cannot be written".into()),
            Err(_) => Some(format!("no file has been written within {} s", LONGEST.as_secs())),
        });
        *last = Some((Instant::now(), found.clone()));
        found
    }
}

/// Writes a file where uploads go, and removes it.
fn probe(folder: &Path) -> std::io::Result<()> {
    let mut file = tempfile::tempfile_in(folder)?;
    file.write_all(&[0; 512])?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::Options;

    #[test]
    fn a_worker_that_has_stopped_is_a_problem_unless_the_service_ends() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::local(folder.path().join("service"), vec!["skds".into()]);
        let (service, _) = Service::start(options).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let problems = || runtime.block_on(service.find_problems());
        assert_eq!(problems(), [] as [String; 0]);
        let guard = WorkerGuard::new(service.clone(), "cpu");
        let died = std::thread::spawn(move || {
            let _guard = guard;
            panic!("a bug");
        });
        assert!(died.join().is_err());
        // Earlier findings stay valid for a moment.
        *runtime.block_on(service.health.last.lock()) = None;
        assert_eq!(problems(), ["the worker of cpu has stopped"]);
        let guard = WorkerGuard::new(service.clone(), "gpu");
        service.close();
        drop(guard);
        *runtime.block_on(service.health.last.lock()) = None;
        assert_eq!(problems(), ["the worker of cpu has stopped"]);
    }
}
