//! The service's folder. Names in it are hashes and numbers that the service made; files appear whole or not at all.

use crate::files::output::{create_folder, relocate};
use crate::model::Model;
use crate::serve::domain::describe::describe_model;
use crate::serve::domain::id::{ContentId, JobId};
use crate::serve::store::database::ModelInfo;
use crate::serve::store::folder::{self, Claim};
use crate::stderr::say;
use crate::{Error, Result};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Where everything lies.
pub struct Files {
    root: PathBuf,
    /// Held while the service runs: two of them in one folder would do every job twice.
    _lock: File,
}

/// Where what is on no record is moved.
const SET_ASIDE: &str = "set-aside";
/// Where what is being removed waits for its record to go first.
const REMOVED: &str = "removed";

impl Files {
    /// Claims the folder and makes what belongs in it; removes what an earlier run had not finished receiving.
    pub fn open(root: &Path, recover: bool) -> Result<(Self, Claim)> {
        let claim = folder::claim(root, recover)?;
        create_folder(root)?;
        folder::make_private(root, claim);
        let path = root.join(folder::LOCK);
        let lock = File::create(&path).map_err(|source| Error::Io { action: "create", path, source })?;
        lock.try_lock()
            .map_err(|_| Error::file(root, "is in use by another service, expected a folder of its own"))?;
        if claim != Claim::Own {
            folder::mark(root)?;
        }
        let files = Files { root: root.to_path_buf(), _lock: lock };
        for folder in folder::FOLDERS.into_iter().chain(["uploads"]) {
            create_folder(&files.root.join(folder))?;
        }
        files.clear_uploads()?;
        if claim == Claim::Recovered {
            // Changes that were meant for the database that is gone.
            for ending in ["-wal", "-shm"] {
                let path = files.root.join(format!("{}{ending}", folder::DATABASE));
                if path.exists() {
                    files.set_aside(&path)?;
                }
            }
        }
        Ok((files, claim))
    }

    /// Temporary files of ours go; anything else in their folder is someone's.
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

    /// Moves what is on no record to where nobody removes it, and says so.
    pub fn set_aside(&self, path: &Path) -> Result<()> {
        let place = moved(&self.root, path, SET_ASIDE)?;
        let shown = |path: &Path| path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
        say!("note: {} is on no record; it was moved to {}", shown(path), shown(&place));
        Ok(())
    }

    /// What takes something away that is about to be removed; it gives none if that is not there. Once its record is gone it may
    /// be removed.
    pub fn take_away(&self, path: &Path) -> impl FnOnce() -> Result<Option<PathBuf>> + Send + use<> {
        let (root, path) = (self.root.clone(), path.to_path_buf());
        move || match path.symlink_metadata() {
            Ok(_) => moved(&root, &path, REMOVED).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// The other way: its record stays.
    pub fn bring_back(&self, away: &Path, path: &Path) -> Result<()> {
        relocate(away, path)
    }

    /// What was taken away when an earlier run ended, with the place it came from.
    pub fn taken_away(&self) -> Vec<(PathBuf, PathBuf)> {
        let inside = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut found = Vec::new();
        for kind in inside(self.root.join(REMOVED)) {
            for entry in inside(kind.path()) {
                found.push((entry.path(), self.root.join(kind.file_name()).join(entry.file_name())));
            }
        }
        found
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn database(&self) -> PathBuf {
        self.root.join(folder::DATABASE)
    }

    pub fn audit_log(&self) -> PathBuf {
        self.root.join(crate::serve::store::audit::FILE)
    }

    pub fn uploads(&self) -> PathBuf {
        self.root.join("uploads")
    }

    pub fn dataset(&self, id: &ContentId) -> PathBuf {
        self.datasets().join(format!("{}.npz", id.as_str()))
    }

    pub fn model(&self, id: &ContentId) -> PathBuf {
        self.models().join(format!("{}.safetensors", id.as_str()))
    }

    /// A job's own folder.
    pub fn job(&self, id: &JobId) -> PathBuf {
        self.jobs().join(id.as_str())
    }

    pub fn jobs(&self) -> PathBuf {
        self.root.join("jobs")
    }

    pub fn datasets(&self) -> PathBuf {
        self.root.join("datasets")
    }

    pub fn models(&self) -> PathBuf {
        self.root.join("models")
    }

    /// Bytes of all files but those that were set aside, which are not the service's.
    pub fn bytes(&self) -> u64 {
        bytes_in(&self.root).saturating_sub(bytes_in(&self.root.join(SET_ASIDE)))
    }

    /// Bytes of what is being uploaded.
    pub fn bytes_of_uploads(&self) -> u64 {
        bytes_in(&self.uploads())
    }

    /// Keeps the file of a model, under its hash.
    pub fn keep_model(&self, path: &Path, model: Model) -> Result<ModelInfo> {
        let id = hash_of(path)?;
        self.share(path, &self.model(&id), &id)?;
        Ok(describe_model(id, &model))
    }

    /// Gives a file of a job a second name: the job may be removed, the file stays. One that is there is trusted only if it is
    /// whole: earlier versions could leave half a copy.
    pub fn share(&self, from: &Path, to: &Path, id: &ContentId) -> Result<()> {
        if to.exists() && hash_of(to)? == *id {
            return Ok(());
        }
        crate::files::output::link(from, to)
    }

    /// Gives a finished file its place; one that is there already is the same.
    pub fn take(&self, from: &Path, to: &Path) -> Result<()> {
        crate::files::output::rename(from, to)
    }
}

/// Moves something of a folder in the root to a folder of the same name elsewhere in it, under a name that is free.
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

/// The hash of a file.
pub fn hash_of(path: &Path) -> Result<ContentId> {
    let cannot = |source| Error::Io { action: "read", path: path.into(), source };
    let mut file = File::open(path).map_err(cannot)?;
    let mut hash = Sha256::new();
    let mut block = vec![0; 1 << 16];
    loop {
        let read = std::io::Read::read(&mut file, &mut block).map_err(cannot)?;
        if read == 0 {
            return Ok(ContentId::of(hash));
        }
        hash.update(&block[..read]);
    }
}
