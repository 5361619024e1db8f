//! Whether a folder belongs to a service, as its marker says. A service leaves all other folders as they are.

use super::database::Store;
use super::files::Files;
use super::schema;
use super::shares::Holder;
use crate::data::Dataset;
use crate::files::input;
use crate::files::output::write_atomically;
use crate::model::Model;
use crate::serve::domain::client::DEFAULT_OWNER;
use crate::serve::domain::error::ServiceError;
use crate::serve::domain::id::ContentId;
use crate::serve::domain::info::{DatasetInfo, ModelInfo};
use crate::stderr::say;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;

/// The name of the marker.
pub(crate) const MARKER: &str = "skds-service.json";
/// The name of the database.
pub(crate) const DATABASE: &str = "service.sqlite";
/// The name of the lock.
pub(crate) const LOCK: &str = "service.lock";
/// The folders that every version has had.
pub(crate) const FOLDERS: [&str; 3] = ["datasets", "models", "jobs"];
/// The newest format of a folder.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Marker {
    /// The format of the folder.
    format: u32,
    /// For people.
    program: String,
}

/// The state of a folder as a service finds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FolderState {
    /// New or empty; it becomes a folder of the service.
    New,
    /// A folder of the service.
    Own,
    /// A folder of a version that left no marker; it gets one.
    Adopted,
    /// A folder of the service that has lost its database, which is to be created anew.
    Recovered,
}

/// Inspects a folder and changes nothing. An error says why a service cannot use it, and what to do.
pub(crate) fn claim(root: &Path, recover: bool) -> Result<FolderState> {
    let entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        // Creating it comes later and may fail then.
        Err(_) if !root.is_dir() => return Ok(FolderState::New),
        Err(source) => return Err(Error::Io { action: "read", path: root.into(), source }),
    };
    let names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let has = |name: &str| names.iter().any(|known| known == name);
    let has_database = has(DATABASE);
    if recover && has_database {
        return Err(Error::file(
            root,
            format!("--recover is given but {DATABASE} exists, expected a folder without it"),
        ));
    }
    if has(MARKER) {
        check_marker(&root.join(MARKER))?;
        return match has_database {
            true => Ok(FolderState::Own),
            false if recover => Ok(FolderState::Recovered),
            // An interrupted first start.
            false if is_unused(root) => Ok(FolderState::New),
            false => Err(Error::file(
                root,
                format!(
                    "belongs to a service but {DATABASE} is missing: restore it from a backup, or start once with --recover, which \
                     creates a new one from the datasets and models in the folder and moves the files of jobs aside"
                ),
            )),
        };
    }
    if has_database {
        schema::is_of_a_service(&root.join(DATABASE))?;
        if let Some(missing) = FOLDERS.into_iter().find(|name| !root.join(name).is_dir()) {
            let problem = format!("has a {DATABASE} but no folder {missing}, expected a folder of a service");
            return Err(Error::file(root, problem));
        }
        return Ok(FolderState::Adopted);
    }
    // A file system or an interrupted first start can leave these.
    let nothing = |name: &String| name == LOCK || name == "lost+found" || name.starts_with(".skds-");
    match names.iter().find(|name| !nothing(name)) {
        None => Ok(FolderState::New),
        Some(_) => Err(Error::file(
            root,
            format!(
                "is not empty and does not belong to a service (it has no {MARKER}), expected a new or empty folder"
            ),
        )),
    }
}

/// Whether a folder of a service holds no data.
fn is_unused(root: &Path) -> bool {
    let is_empty =
        |name: &str| std::fs::read_dir(root.join(name)).map_or(true, |mut found| found.next().is_none());
    FOLDERS.into_iter().all(is_empty)
}

fn check_marker(path: &Path) -> Result<()> {
    let marker: Marker = serde_json::from_str(&input::text(path)?)
        .map_err(|error| Error::file(path, format!("is not a marker of a service: {error}")))?;
    match marker.format {
        FORMAT => Ok(()),
        found => {
            let problem =
                format!("has format {found}, expected {FORMAT}: {} created the folder", marker.program);
            Err(Error::file(path, problem))
        }
    }
}

/// Marks a folder as one of a service.
pub(crate) fn mark(root: &Path) -> Result<()> {
    let marker = Marker { format: FORMAT, program: concat!("skds ", env!("CARGO_PKG_VERSION")).into() };
    write_atomically(&root.join(MARKER), |writer| {
        serde_json::to_writer(&mut *writer, &marker)?;
        writer.write_all(b"\n")
    })
}

/// Makes the folder readable for its user alone, with everything that an earlier version left there. Some disks know no
/// permissions.
pub(crate) fn make_private(root: &Path, claim: FolderState) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fn set(path: &Path, all: bool) -> std::io::Result<()> {
            let data = std::fs::symlink_metadata(path)?;
            let mode = if data.is_dir() { 0o700 } else { 0o600 };
            if !data.is_symlink() && data.permissions().mode() & 0o777 != mode {
                std::fs::set_permissions(path, PermissionsExt::from_mode(mode))?;
            }
            if data.is_dir() && all {
                for entry in std::fs::read_dir(path)? {
                    set(&entry?.path(), all)?;
                }
            }
            Ok(())
        }
        if let Err(error) = set(root, claim == FolderState::Adopted) {
            say!(
                "warning: other users may be able to read {}: its permissions cannot be changed: {error}",
                root.display()
            );
        }
    }
}

/// Records the datasets and models in the folder. Files that cannot be read stay without a record and are moved aside later.
pub(crate) fn recover(files: &Files, store: &Store) -> Result<()> {
    let holder = Holder::Owner(DEFAULT_OWNER.into());
    let mut counts = [0; 2];
    for path in entries(&files.datasets())? {
        let Some(id) = id_of(&path) else { continue };
        let Ok(data) = Dataset::read(&path) else { continue };
        let bytes = std::fs::metadata(&path).map_or(0, |data| data.len());
        let name = format!("recovered-{}.npz", &id.as_str()[..8]);
        let info = DatasetInfo::of(id, &name, &data, bytes);
        store.add_dataset_now(&info, &holder).map_err(ServiceError::into_error)?;
        counts[0] += 1;
    }
    for path in entries(&files.models())? {
        let Some(id) = id_of(&path).filter(|id| ContentId::of_file(&path).is_ok_and(|hash| hash == *id))
        else {
            continue;
        };
        let Ok(model) = Model::read(&path) else { continue };
        let info = ModelInfo::of(id, &model);
        store.add_model_now(&info, &holder).map_err(ServiceError::into_error)?;
        counts[1] += 1;
    }
    say!("note: {} datasets and {} models were recovered", counts[0], counts[1]);
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let found = std::fs::read_dir(folder);
    let found = found.map_err(|source| Error::Io { action: "read", path: folder.into(), source })?;
    Ok(found.flatten().map(|entry| entry.path()).collect())
}

fn id_of(path: &Path) -> Option<ContentId> {
    ContentId::try_from(path.file_stem()?.to_string_lossy().into_owned()).ok()
}
