//! The service's folder. Names in it are hashes and numbers that the service made; files appear whole or not at all.

use super::describe::describe_model;
use super::id::{ContentId, JobId};
use super::store::ModelInfo;
use crate::model::Model;
use crate::output::create_folder;
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

impl Files {
    /// Makes the folders, and removes what an earlier run had not finished receiving.
    pub fn open(root: &Path) -> Result<Self> {
        create_folder(root)?;
        let path = root.join("service.lock");
        let lock = File::create(&path).map_err(|source| Error::Io { action: "create", path, source })?;
        lock.try_lock()
            .map_err(|_| Error::file(root, "is in use by another service, expected a folder of its own"))?;
        let files = Files { root: root.to_path_buf(), _lock: lock };
        let uploads = files.root.join("uploads");
        if uploads.exists() {
            std::fs::remove_dir_all(&uploads).map_err(|source| Error::Io {
                action: "remove",
                path: uploads.clone(),
                source,
            })?;
        }
        for folder in ["uploads", "datasets", "models", "jobs"] {
            create_folder(&files.root.join(folder))?;
        }
        Ok(files)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn database(&self) -> PathBuf {
        self.root.join("service.sqlite")
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

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        bytes_in(&self.root)
    }

    /// Bytes of what is being uploaded.
    pub fn bytes_of_uploads(&self) -> u64 {
        bytes_in(&self.uploads())
    }

    /// Keeps the file of a model, under its hash.
    pub fn keep_model(&self, path: &Path, model: Model) -> Result<ModelInfo> {
        let id = hash_of(path)?;
        self.share(path, &self.model(&id))?;
        Ok(describe_model(id, &model))
    }

    /// Gives a file of a job a second name: the job may be removed, the file stays.
    pub fn share(&self, from: &Path, to: &Path) -> Result<()> {
        if to.exists() {
            return Ok(());
        }
        std::fs::hard_link(from, to)
            .or_else(|_| std::fs::copy(from, to).map(|_| ()))
            .map_err(|source| self.cannot("write", source))
    }

    /// Gives a finished file its place; one that is there already is the same.
    pub fn take(&self, from: &Path, to: &Path) -> Result<()> {
        let sync = |path: &Path| File::open(path).and_then(|file| file.sync_all());
        sync(from).and_then(|()| std::fs::rename(from, to)).map_err(|source| self.cannot("write", source))?;
        // The folder's entry must survive a crash too.
        to.parent().map_or(Ok(()), sync).map_err(|source| self.cannot("write", source))
    }

    fn cannot(&self, action: &'static str, source: std::io::Error) -> Error {
        Error::Io { action, path: self.root.clone(), source }
    }
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
