//! The folder of the service. All names in it are hashes and numbers that the service made. A file appears whole or not at all.

use super::folder::{self, FolderState};
use crate::files::output::{create_folder, relocate};
use crate::model::Model;
use crate::serve::domain::id::{ContentId, JobId};
use crate::serve::domain::info::ModelInfo;
use crate::stderr::say;
use crate::{Error, Result};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The folder of the service.
pub(crate) struct Files {
    root: PathBuf,
    /// Held while the service runs. Two services in one folder would do every job twice.
    _lock: File,
}

/// The folder for files that are on no record.
const SET_ASIDE: &str = "set-aside";
/// The folder for files that are being removed, until their records are gone.
const REMOVED: &str = "removed";

/// Takes the lock. A service that was killed while it started a process may leave the lock to that process for a moment, so
/// this tries for a second.
fn hold(lock: &File) -> std::result::Result<(), std::fs::TryLockError> {
    for _ in 0..20 {
        if lock.try_lock().is_ok() {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    lock.try_lock()
}

impl Files {
    /// Claims the folder and creates what belongs in it. Removes uploads that an earlier run did not finish.
    pub(crate) fn open(root: &Path, recover: bool) -> Result<(Self, FolderState)> {
        let claim = folder::claim(root, recover)?;
        create_folder(root)?;
        folder::make_private(root, claim);
        let path = root.join(folder::LOCK);
        let lock = File::create(&path).map_err(|source| Error::Io { action: "create", path, source })?;
        hold(&lock).map_err(|_| {
            Error::file(root, "is in use by another service, expected a folder that no service uses")
        })?;
        if claim != FolderState::Own {
            folder::mark(root)?;
        }
        let files = Files { root: root.to_path_buf(), _lock: lock };
        for folder in folder::FOLDERS.into_iter().chain(["uploads"]) {
            create_folder(&files.root.join(folder))?;
        }
        files.clear_uploads()?;
        if claim == FolderState::Recovered {
            // They belong to the database that is gone.
            for ending in ["-wal", "-shm"] {
                let path = files.root.join(format!("{}{ending}", folder::DATABASE));
                if path.exists() {
                    files.set_aside(&path)?;
                }
            }
        }
        Ok((files, claim))
    }

    /// Removes temporary files of the service. Any other file there belongs to somebody.
    fn clear_uploads(&self) -> Result<()> {
        let uploads = self.uploads();
        let cannot = |source| Error::Io { action: "remove", path: self.uploads(), source };
        for entry in std::fs::read_dir(&uploads).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            match name.starts_with(".tmp") || name.starts_with(".skds-") {
                true if is_folder => std::fs::remove_dir_all(entry.path()).map_err(cannot)?,
                true => std::fs::remove_file(entry.path()).map_err(cannot)?,
                false => self.set_aside(&entry.path())?,
            }
        }
        Ok(())
    }

    /// Moves a file that is on no record to where nobody removes it, and reports that.
    pub(crate) fn set_aside(&self, path: &Path) -> Result<()> {
        let place = moved(&self.root, path, SET_ASIDE)?;
        let shown = |path: &Path| path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
        say!("note: moved {} to {}: the database has no record of it", shown(path), shown(&place));
        Ok(())
    }

    /// Returns a function that moves a file away, to be removed once its record is gone. The function returns the new path, or none
    /// if there is no such file.
    pub(crate) fn take_away(&self, path: &Path) -> impl FnOnce() -> Result<Option<PathBuf>> + Send + use<> {
        let (root, path) = (self.root.clone(), path.to_path_buf());
        move || match path.symlink_metadata() {
            Ok(_) => moved(&root, &path, REMOVED).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Moves a file back whose record stays.
    pub(crate) fn bring_back(&self, away: &Path, path: &Path) -> Result<()> {
        relocate(away, path)
    }

    /// Files that were being removed when an earlier run ended, each with the place it came from.
    pub(crate) fn taken_away(&self) -> Vec<(PathBuf, PathBuf)> {
        let inside = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut found = Vec::new();
        for kind in inside(self.root.join(REMOVED)) {
            for entry in inside(kind.path()) {
                found.push((entry.path(), self.root.join(kind.file_name()).join(entry.file_name())));
            }
        }
        found
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.root.join(folder::DATABASE)
    }

    pub(crate) fn audit_log(&self) -> PathBuf {
        self.root.join(super::audit::FILE)
    }

    pub(crate) fn uploads(&self) -> PathBuf {
        self.root.join("uploads")
    }

    pub(crate) fn dataset(&self, id: &ContentId) -> PathBuf {
        self.datasets().join(format!("{}.npz", id.as_str()))
    }

    pub(crate) fn model(&self, id: &ContentId) -> PathBuf {
        self.models().join(format!("{}.safetensors", id.as_str()))
    }

    /// A job's own folder.
    pub(crate) fn job(&self, id: &JobId) -> PathBuf {
        self.jobs().join(id.as_str())
    }

    pub(crate) fn jobs(&self) -> PathBuf {
        self.root.join("jobs")
    }

    pub(crate) fn datasets(&self) -> PathBuf {
        self.root.join("datasets")
    }

    pub(crate) fn models(&self) -> PathBuf {
        self.root.join("models")
    }

    /// The bytes of all files except those that were set aside, which are not the service's.
    pub(crate) fn bytes(&self) -> u64 {
        bytes_in(&self.root).saturating_sub(bytes_in(&self.root.join(SET_ASIDE)))
    }

    /// The bytes of uploads that are arriving.
    pub(crate) fn bytes_of_uploads(&self) -> u64 {
        bytes_in(&self.uploads())
    }

    /// Stores the file of a model under its hash.
    pub(crate) fn keep_model(&self, path: &Path, model: &Model) -> Result<ModelInfo> {
        let id = ContentId::of_file(path)?;
        self.share(path, &self.model(&id), &id)?;
        Ok(ModelInfo::of(id, model))
    }

    /// Gives a file of a job a second name, so that the file stays when the job is removed. A file with that name is trusted only
    /// if it is whole: earlier versions could leave half a copy.
    pub(crate) fn share(&self, from: &Path, to: &Path, id: &ContentId) -> Result<()> {
        if to.exists() && ContentId::of_file(to)? == *id {
            return Ok(());
        }
        crate::files::output::link(from, to)
    }

    /// Moves a finished file to its place. A file that is there already has the same content.
    pub(crate) fn take(&self, from: &Path, to: &Path) -> Result<()> {
        crate::files::output::rename(from, to)
    }
}

/// Moves a file of a folder in the root to the folder of the same name below `to`, under a name that is free.
fn moved(root: &Path, path: &Path, to: &str) -> Result<PathBuf> {
    let inside = path.parent().and_then(|folder| folder.strip_prefix(root).ok()).unwrap_or(Path::new(""));
    let folder = root.join(to).join(inside);
    create_folder(&folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut place = folder.join(&name);
    for k in 1.. {
        if place.symlink_metadata().is_err() {
            break;
        }
        place = folder.join(format!("{name}.{k}"));
    }
    relocate(path, &place)?;
    Ok(place)
}

fn bytes_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => bytes_in(&entry.path()),
            Ok(data) => data.len(),
            Err(_) => 0,
        })
        .sum()
}
