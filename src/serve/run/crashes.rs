//! Counts how often a job has ended its process. The count is in the job's folder, so it survives the end of the service.

use crate::Result;
use crate::files::output::{create_folder, write_atomically};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A job that has ended so many processes has failed.
const MOST: u32 = 2;

#[derive(Default, Serialize, Deserialize)]
struct Crashes {
    count: u32,
    reason: String,
}

fn file(folder: &Path) -> PathBuf {
    folder.join(".deaths.json")
}

fn read(folder: &Path) -> Crashes {
    let text = std::fs::read(file(folder)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Why the job of this folder is not tried again, if it is not.
pub(super) fn exhausted(folder: &Path) -> Option<String> {
    let Crashes { count, reason } = read(folder);
    (count >= MOST).then_some(reason)
}

/// Counts another process that the job has ended. The count is on the disk before the job is tried again.
pub(super) fn count(folder: &Path, reason: &str) -> Result<()> {
    create_folder(folder)?;
    let crashes = Crashes { count: read(folder).count + 1, reason: reason.into() };
    write_atomically(&file(folder), |writer| {
        writer.write_all(&serde_json::to_vec(&crashes).expect("counts serialise"))
    })
}

/// Removes the count, because the job has succeeded.
pub(super) fn forget(folder: &Path) {
    let _ = std::fs::remove_file(file(folder));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_second_crash_a_job_is_not_tried_again() {
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
