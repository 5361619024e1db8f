//! Whose a folder is: a service's if its marker says so. What is anyone else's is left as it is.

use crate::data::Dataset;
use crate::files::input;
use crate::files::output::write_atomically;
use crate::model::Model;
use crate::serve::domain::describe::{describe, describe_model};
use crate::serve::domain::id::ContentId;
use crate::serve::domain::who::DEFAULT_OWNER;
use crate::serve::store::database::Store;
use crate::serve::store::files::{Files, hash_of};
use crate::serve::store::schema;
use crate::serve::store::shares::Holder;
use crate::stderr::say;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;

/// The marker's file.
pub const MARKER: &str = "skds-service.json";
/// The database's file.
pub const DATABASE: &str = "service.sqlite";
/// The lock's file.
pub const LOCK: &str = "service.lock";
/// Folders that every service has had.
pub const FOLDERS: [&str; 3] = ["datasets", "models", "jobs"];
/// The newest form of a folder.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Marker {
    /// The form of the folder.
    format: u32,
    /// For people.
    program: String,
}

/// What a folder is to a service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Claim {
    /// New or empty: it becomes the service's.
    New,
    /// The service's.
    Own,
    /// Of a version that left no marker: it gets one.
    Adopted,
    /// The service's, but for its database, which is to be made anew.
    Recovered,
}

/// Looks at a folder and touches nothing. An error says why it cannot be used, and what to do.
pub fn claim(root: &Path, recover: bool) -> Result<Claim> {
    let entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        // To be made, or to fail in being made.
        Err(_) if !root.is_dir() => return Ok(Claim::New),
        Err(source) => return Err(Error::Io { action: "read", path: root.into(), source }),
    };
    let names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let has = |name: &str| names.iter().any(|known| known == name);
    let has_database = has(DATABASE);
    if recover && has_database {
        return Err(Error::file(
            root,
            format!("--recover is given but {DATABASE} is there, expected it to be gone"),
        ));
    }
    if has(MARKER) {
        check_marker(&root.join(MARKER))?;
        return match has_database {
            true => Ok(Claim::Own),
            false if recover => Ok(Claim::Recovered),
            // A first start that was cut short.
            false if is_unused(root) => Ok(Claim::New),
            false => Err(Error::file(
                root,
                format!(
                    "belongs to a service but {DATABASE} is missing: put it back from a copy, or start once with --recover, which \
                     makes a new one of the datasets and models that are there and moves the files of jobs aside"
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
        return Ok(Claim::Adopted);
    }
    // What a file system, or a start that was cut short, leaves.
    let nothing = |name: &String| name == LOCK || name == "lost+found" || name.starts_with(".skds-");
    match names.iter().find(|name| !nothing(name)) {
        None => Ok(Claim::New),
        Some(_) => Err(Error::file(
            root,
            format!(
                "is not empty and no service's (it has no {MARKER}), expected a new or empty folder for --data"
            ),
        )),
    }
}

/// Whether no data is in a service's folder.
fn is_unused(root: &Path) -> bool {
    let is_empty =
        |name: &str| std::fs::read_dir(root.join(name)).map_or(true, |mut found| found.next().is_none());
    FOLDERS.into_iter().all(is_empty)
}

fn check_marker(path: &Path) -> Result<()> {
    let marker: Marker = serde_json::from_str(&input::text(path)?)
        .map_err(|error| Error::file(path, format!("is no marker of a service: {error}")))?;
    match marker.format {
        FORMAT => Ok(()),
        found => {
            let problem = format!(
                "has format {found}, expected {FORMAT}: it is a folder of another version, {}",
                marker.program
            );
            Err(Error::file(path, problem))
        }
    }
}

/// Says whose the folder is from now on.
pub fn mark(root: &Path) -> Result<()> {
    let marker = Marker { format: FORMAT, program: concat!("skds ", env!("CARGO_PKG_VERSION")).into() };
    write_atomically(&root.join(MARKER), |writer| {
        serde_json::to_writer(&mut *writer, &marker)?;
        writer.write_all(b"\n")
    })
}

/// Nobody but its user looks into the folder, nor into what an earlier version left there. Disks without permissions have none
/// to give.
pub fn make_private(root: &Path, claim: Claim) {
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
        if let Err(error) = set(root, claim == Claim::Adopted) {
            say!("warning: {} stays as readable as it is: {error}", root.display());
        }
    }
}

/// Writes down the datasets and models that are in the folder. What cannot be read is on no record, and is moved aside as such.
pub fn recover(files: &Files, store: &Store) -> Result<()> {
    let holder = Holder::Owner(DEFAULT_OWNER.into());
    let mut counts = [0; 2];
    for path in entries(&files.datasets())? {
        let Some(id) = id_of(&path) else { continue };
        let Ok(data) = Dataset::read(&path) else { continue };
        let bytes = std::fs::metadata(&path).map_or(0, |data| data.len());
        let name = format!("recovered-{}.npz", &id.as_str()[..8]);
        let info = describe(id, &name, &data, bytes);
        written(store.write_now(Store::keep_dataset(&info, &holder)))?;
        counts[0] += 1;
    }
    for path in entries(&files.models())? {
        let Some(id) = id_of(&path).filter(|id| hash_of(&path).is_ok_and(|hash| hash == *id)) else {
            continue;
        };
        let Ok(model) = Model::read(&path) else { continue };
        let info = describe_model(id, &model);
        written(store.write_now(Store::keep_model(&info, &holder)))?;
        counts[1] += 1;
    }
    say!("note: {} datasets and {} models were recovered", counts[0], counts[1]);
    Ok(())
}

fn written(answer: std::result::Result<(), crate::serve::domain::problem::Problem>) -> Result<()> {
    answer.map_err(|problem| Error::invalid(problem.sentence))
}

fn entries(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let found = std::fs::read_dir(folder);
    let found = found.map_err(|source| Error::Io { action: "read", path: folder.into(), source })?;
    Ok(found.flatten().map(|entry| entry.path()).collect())
}

fn id_of(path: &Path) -> Option<ContentId> {
    ContentId::try_from(path.file_stem()?.to_string_lossy().into_owned()).ok()
}
