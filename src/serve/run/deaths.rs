//! How often a job has ended its process: kept in the job's folder, so that the service's own end does not make it forget.

use crate::Result;
use crate::files::output::{create_folder, write_atomically};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A job that has ended so many processes has failed.
const MOST: u32 = 2;

#[derive(Default, Serialize, Deserialize)]
struct Deaths {
    count: u32,
    reason: String,
}

fn file(folder: &Path) -> PathBuf {
    folder.join(".deaths.json")
}

fn read(folder: &Path) -> Deaths {
    let text = std::fs::read(file(folder)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Why the job of this folder is not tried again, if so.
pub fn exhausted(folder: &Path) -> Option<String> {
    let Deaths { count, reason } = read(folder);
    (count >= MOST).then_some(reason)
}

/// The job has ended its process once more. Known for good before it is tried again.
pub fn count(folder: &Path, reason: &str) -> Result<()> {
    create_folder(folder)?;
    let deaths = Deaths { count: read(folder).count + 1, reason: reason.into() };
    write_atomically(&file(folder), |writer| {
        writer.write_all(&serde_json::to_vec(&deaths).expect("counts serialise"))
    })
}

/// The job has ended well.
pub fn forget(folder: &Path) {
    let _ = std::fs::remove_file(file(folder));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_death_is_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("job");
        assert_eq!(exhausted(&folder), None);
        count(&folder, "signal 9").unwrap();
        assert_eq!(exhausted(&folder), None);
        count(&folder, "signal 6").unwrap();
        assert_eq!(exhausted(&folder).as_deref(), Some("signal 6"));
        forget(&folder);
        assert_eq!(exhausted(&folder), None);
    }
}
