//! Watches over inputs: one that panics or takes too long is kept in a file, and named.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// An input that takes longer hangs.
pub const LONGEST: Duration = Duration::from_secs(10);

/// What is being tried.
struct Trial {
    name: String,
    input: Vec<u8>,
    start: Instant,
}

/// A thread that looks at what is being tried, and at how long already.
pub struct Watch {
    now: Arc<Mutex<Option<Trial>>>,
    kept: PathBuf,
}

impl Watch {
    /// `hung` is told of an input that hangs; it is not expected to come back.
    pub fn new(kept: &Path, longest: Duration, hung: impl Fn(String) + Send + 'static) -> Watch {
        let now: Arc<Mutex<Option<Trial>>> = Arc::default();
        let (seen, folder) = (Arc::downgrade(&now), kept.to_path_buf());
        std::thread::spawn(move || {
            while let Some(now) = seen.upgrade() {
                let late = now.lock().unwrap().take_if(|trial| trial.start.elapsed() > longest);
                if let Some(trial) = late {
                    let path = keep(&folder, &trial.name, &trial.input);
                    hung(format!("{} takes more than {longest:?}: {}", trial.name, path.display()));
                }
                drop(now);
                std::thread::sleep(longest / 20);
            }
        });
        Watch { now, kept: kept.into() }
    }

    /// Tries an input. A panic is an error that names the file with the input.
    pub fn over<T>(&self, name: String, input: &[u8], work: impl FnOnce() -> T) -> Result<T, String> {
        *self.now.lock().unwrap() =
            Some(Trial { name: name.clone(), input: input.to_vec(), start: Instant::now() });
        let outcome = catch_unwind(AssertUnwindSafe(work));
        *self.now.lock().unwrap() = None;
        outcome.map_err(|_| format!("{name} panicked: {}", keep(&self.kept, &name, input).display()))
    }

    /// Keeps an input for another reason.
    pub fn keep(&self, name: &str, input: &[u8]) -> PathBuf {
        keep(&self.kept, name, input)
    }
}

fn keep(folder: &Path, name: &str, input: &[u8]) -> PathBuf {
    let path = folder.join(name.replace([' ', ','], "-"));
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, input));
    if let Err(error) = written {
        let _ = writeln!(std::io::stderr(), "{} could not be kept: {error}", path.display());
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn what_panics_or_hangs_is_kept_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let (tell, told) = channel();
        let watch =
            Watch::new(folder.path(), Duration::from_millis(200), move |said| tell.send(said).unwrap());
        assert_eq!(watch.over("a good one".into(), b"1", || 7), Ok(7));
        let said = watch.over("bad, 5".into(), b"2", || panic!("as expected")).unwrap_err();
        assert!(said.starts_with("bad, 5 panicked: "), "{said}");
        assert_eq!(std::fs::read(folder.path().join("bad--5")).unwrap(), b"2");
        // On a busy machine, what went before may have been slow too.
        let said = watch.over("slow".into(), b"3", || {
            loop {
                let said: String = told.recv_timeout(Duration::from_secs(60)).expect("what hangs is named");
                if said.starts_with("slow ") {
                    return said;
                }
            }
        });
        assert!(said.unwrap().starts_with("slow takes more than"));
        assert_eq!(std::fs::read(folder.path().join("slow")).unwrap(), b"3");
    }
}
