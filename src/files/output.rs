//! Writes files atomically and durably: a file appears whole or not at all, and survives a power cut once it has its name.
//!
//! The bytes reach the disk before the name does, and the folder reaches the disk before the caller hears of success. All files
//! that the program leaves are written here.

use crate::{Error, Result};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// The number of links to follow before they count as a circle, as on Linux.
const MOST_LINKS: usize = 40;

/// Creates or replaces `path` with what `write` writes.
///
/// The bytes go to a temporary file in the same folder, which takes the final name only when it is on the disk. After a crash or
/// with a full disk, an earlier file of that name stays as it was. If `path` is a link, its target is replaced and the link stays.
/// A device or a pipe is written to directly.
pub(crate) fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<()> {
    replace(path, write).map_err(|source| Error::Io { action: "write", path: path.into(), source })
}

/// Creates a folder and its parents, if they do not exist.
pub(crate) fn create_folder(path: &Path) -> Result<()> {
    create_all(path).map_err(|source| Error::Io { action: "create", path: path.into(), source })
}

/// Renames a finished file, or a folder of finished files, on the same disk. A file of that name is replaced.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    renamed(from, to).map_err(|source| Error::Io { action: "write", path: to.into(), source })
}

/// Moves a file or folder, finished or not, to an unused name on the same disk.
pub(crate) fn relocate(from: &Path, to: &Path) -> Result<()> {
    named(from, to).map_err(|source| Error::Io { action: "move", path: from.into(), source })
}

/// Makes a hard link to a finished file, or a copy where the disk has no hard links. A file of that name is replaced.
pub(crate) fn link(from: &Path, to: &Path) -> Result<()> {
    linked(from, to).map_err(|source| Error::Io { action: "write", path: to.into(), source })
}

fn replace(path: &Path, write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>) -> io::Result<()> {
    if is_special(path) {
        let file = File::options().write(true).open(path)?;
        let mut writer = BufWriter::new(&file);
        write(&mut writer)?;
        return writer.flush();
    }
    let path = &end_of_links(path)?;
    // Checked first, so that the error does not name a temporary file.
    std::fs::metadata(folder_of(path))?;
    let temporary = temporary_beside(path)?;
    let mut writer = BufWriter::new(temporary.as_file());
    step(Step::Write, temporary.path())?;
    write(&mut writer)?;
    writer.flush()?;
    drop(writer);
    persist(temporary, path)
}

/// Renames a temporary file to `path`.
fn persist(temporary: NamedTempFile, path: &Path) -> io::Result<()> {
    step(Step::SyncFile, temporary.path())?;
    temporary.as_file().sync_all()?;
    step(Step::Name, path)?;
    temporary.persist(path)?;
    sync_folder(folder_of(path))
}

fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".skds-");
    // Temporary files are private by default; a result should be as readable as any file the user creates.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder_of(path))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Whether the path is neither a file nor a folder, such as a terminal, a pipe or /dev/null. None of them is replaced.
fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|data| !data.is_file() && !data.is_dir())
}

/// The end of a chain of links, which need not exist yet.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    let mut end = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match std::fs::symlink_metadata(&end) {
            Ok(data) if data.is_symlink() => end = folder_of(&end).join(std::fs::read_link(&end)?),
            _ if end != path && !folder_of(&end).is_dir() => {
                let sentence = format!("it is a link to {}, in a folder that does not exist", end.display());
                return Err(io::Error::new(io::ErrorKind::NotFound, sentence));
            }
            _ => return Ok(end),
        }
    }
    Err(io::Error::other("its links lead in a circle, expected a file at their end"))
}

fn create_all(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    create_all(folder_of(path))?;
    match std::fs::create_dir(path) {
        Ok(()) => sync_folder(folder_of(path)),
        // Another process was faster.
        Err(_) if path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

fn renamed(from: &Path, to: &Path) -> io::Result<()> {
    step(Step::SyncFile, from)?;
    sync(from)?;
    named(from, to)
}

fn named(from: &Path, to: &Path) -> io::Result<()> {
    step(Step::Name, to)?;
    std::fs::rename(from, to)?;
    sync_folder(folder_of(to))?;
    match folder_of(from) == folder_of(to) {
        true => Ok(()),
        false => sync_folder(folder_of(from)),
    }
}

fn linked(from: &Path, to: &Path) -> io::Result<()> {
    step(Step::SyncFile, from)?;
    sync(from)?;
    // If the name exists, or the disk has no hard links, a copy takes its place.
    match step(Step::Link, to).and_then(|()| std::fs::hard_link(from, to)) {
        Ok(()) => sync_folder(folder_of(to)),
        Err(_) => copied(from, to),
    }
}

fn copied(from: &Path, to: &Path) -> io::Result<()> {
    let temporary = temporary_beside(to)?;
    step(Step::Write, temporary.path())?;
    io::copy(&mut File::open(from)?, &mut temporary.as_file())?;
    persist(temporary, to)
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Brings a name to the disk: it is there when its folder is.
fn sync_folder(folder: &Path) -> io::Result<()> {
    step(Step::SyncFolder, folder)?;
    // Only Unix can open folders, and not every file system supports syncing them.
    #[cfg(unix)]
    match sync(folder) {
        Err(error) if !matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            return Err(error);
        }
        _ => {}
    }
    Ok(())
}

/// The next step. Tests record the order, and make single steps fail.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Write,
    SyncFile,
    Name,
    Link,
    SyncFolder,
}

#[cfg(not(test))]
fn step(_: Step, _: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
fn step(step: Step, path: &Path) -> io::Result<()> {
    tests::seen(step, path)
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
