//! The audit log: a line of JSON for every change, with who made it and when.

use crate::serve::domain::client::Client;
use crate::serve::domain::now;
use crate::stderr::say;
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A log of more bytes is renamed, and a new one begins.
const LONGEST: u64 = 64 << 20;
/// The number of old logs that are kept.
const KEPT: u32 = 4;

/// The name of the log in the folder of the service.
pub(crate) const FILE: &str = "audit.log";

/// A line about a change. `by` is none for removals that the service makes by itself.
pub(crate) fn line(by: Option<&Client>, what: &str, about: &str, id: &str) -> String {
    let address = by.map(|who| who.address.to_string());
    entry(by.map_or("service", Client::owner), address.as_deref(), what, about, id)
}

/// A line about an action of somebody.
pub(crate) fn entry(who: &str, address: Option<&str>, what: &str, about: &str, id: &str) -> String {
    let when = (1e3 * now()).round() / 1e3;
    json!({ "when": when, "who": who, "address": address, "what": what, "about": about, "id": id })
        .to_string()
}

/// The log, used by one thread.
pub(crate) struct Log {
    path: PathBuf,
    open: Option<(File, u64)>,
}

impl Log {
    pub(crate) fn new(path: PathBuf) -> Self {
        Log { path, open: None }
    }

    /// Adds lines in one write. The changes are made already: a failure to write the log is reported and undoes nothing.
    pub(crate) fn add(&mut self, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        if let Err(error) = self.write(lines) {
            self.open = None;
            say!("error: the audit log cannot be written: {error}");
        }
    }

    fn write(&mut self, lines: &[String]) -> std::io::Result<()> {
        if self.open.as_ref().is_some_and(|(_, length)| *length > LONGEST) {
            self.open = None;
            for age in (0..KEPT).rev() {
                let _ = std::fs::rename(older(&self.path, age), older(&self.path, age + 1));
            }
        }
        if self.open.is_none() {
            let mut options = File::options();
            options.create(true).append(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let file = options.open(&self.path)?;
            let length = file.metadata()?.len();
            self.open = Some((file, length));
        }
        let text = lines.join("\n") + "\n";
        if let Some((file, length)) = &mut self.open {
            file.write_all(text.as_bytes())?;
            *length += text.len() as u64;
        }
        Ok(())
    }
}

fn older(path: &Path, age: u32) -> PathBuf {
    match age {
        0 => path.to_path_buf(),
        age => path.with_extension(format!("log.{age}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_and_long_logs_become_old_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        Log::new(path.clone()).add(&["one".into(), "two".into()]);
        let mut log = Log::new(path.clone());
        log.add(&["three".into()]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\nthree\n");
        for k in 0..2 * KEPT {
            log.open.as_mut().unwrap().1 = LONGEST + 1;
            log.add(&[k.to_string()]);
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "7\n");
        assert_eq!(std::fs::read_to_string(older(&path, 1)).unwrap(), "6\n");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1 + KEPT as usize);
    }
}
