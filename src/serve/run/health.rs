//! Whether the service can do what it is there for: workers work, the database and the disk take what is written.

use crate::serve::run::service::Service;
use crate::serve::store::database::now;
use crate::stderr::say;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What was found holds so long: a look writes to the disk, and anyone may ask.
const HOLDS: Duration = Duration::from_secs(1);
/// The longest that a write is waited for.
const LONGEST: Duration = Duration::from_secs(5);

/// What is known of the service's health.
#[derive(Default)]
pub struct Health {
    /// Devices whose workers have stopped.
    stopped: Mutex<Vec<String>>,
    last: tokio::sync::Mutex<Option<(Instant, Vec<String>)>>,
}

/// A worker's life: when this is dropped, the worker has stopped.
pub struct Pulse {
    service: Arc<Service>,
    device: String,
}

impl Pulse {
    pub fn new(service: Arc<Service>, device: &str) -> Pulse {
        Pulse { service, device: device.to_owned() }
    }
}

impl Drop for Pulse {
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
    /// What is wrong; nothing if all is well.
    pub(in crate::serve) async fn problems(self: &Arc<Self>) -> Vec<String> {
        // Whoever asks meanwhile waits for the same look.
        let mut last = self.health.last.lock().await;
        if let Some((_, found)) = last.as_ref().filter(|(when, _)| when.elapsed() < HOLDS) {
            return found.clone();
        }
        let stopped = self.health.stopped.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let mut found: Vec<String> =
            stopped.iter().map(|device| format!("the worker of {device} has stopped")).collect();
        let beat = self.store.write(|db| {
            db.prepare_cached("INSERT OR REPLACE INTO beats (one, at) VALUES (1, ?1)")?
                .execute([now()])
                .map(|_| ())
        });
        found.extend(match tokio::time::timeout(LONGEST, beat).await {
            Ok(Ok(())) => None,
            Ok(Err(problem)) => Some(format!("the database cannot be written: {}", problem.sentence)),
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
    fn a_worker_that_has_stopped_is_no_health_unless_the_service_ends() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::local(folder.path().join("service"), "skds".into());
        let (service, _) = Service::start(options).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let problems = || runtime.block_on(service.problems());
        assert_eq!(problems(), [] as [String; 0]);
        let pulse = Pulse::new(service.clone(), "cpu");
        let died = std::thread::spawn(move || {
            let _pulse = pulse;
            panic!("a bug");
        });
        assert!(died.join().is_err());
        // What was found before does not hold for long.
        *runtime.block_on(service.health.last.lock()) = None;
        assert_eq!(problems(), ["the worker of cpu has stopped"]);
        let pulse = Pulse::new(service.clone(), "gpu");
        service.close();
        drop(pulse);
        *runtime.block_on(service.health.last.lock()) = None;
        assert_eq!(problems(), ["the worker of cpu has stopped"]);
    }
}
