//! The way from bytes to a name: a file appears whole or not at all, and once it has its name a power cut does not take it.
//!
//! Bytes reach the disk before a name leads to them, and the folder that holds the name reaches it before the caller hears of
//! success. Everything that leaves files goes through here.

use crate::{Error, Result};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Links in a row before they count as a circle, as on Linux.
const MOST_LINKS: usize = 40;

/// Creates or replaces `path` with what `write` writes.
///
/// The bytes go to a temporary name in the same folder, reach the disk, and only then take the final name: a
/// crash or a full disk leaves an earlier file of that name as it was, and no debris. If `path` is a link, the file it leads to
/// is replaced and the link stays. A device or a pipe is written to as it is.
pub(crate) fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<()> {
    replace(path, write).map_err(|source| Error::Io { action: "write", path: path.into(), source })
}

/// Makes a folder and those it lies in, unless it is there.
pub(crate) fn create_folder(path: &Path) -> Result<()> {
    create_all(path).map_err(|source| Error::Io { action: "create", path: path.into(), source })
}

/// Gives a finished file, or a folder of them, another name on the same disk; a file of that name is replaced.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    renamed(from, to).map_err(|source| Error::Io { action: "write", path: to.into(), source })
}

/// Moves something as it is, finished or not, to a name that is free on the same disk.
pub(crate) fn relocate(from: &Path, to: &Path) -> Result<()> {
    named(from, to).map_err(|source| Error::Io { action: "move", path: from.into(), source })
}

/// Gives a finished file a second name, or a copy where the disk has no second names; a file of that name is replaced.
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
    // Asked first, because the answer then names no temporary file.
    std::fs::metadata(folder_of(path))?;
    let temporary = temporary_beside(path)?;
    let mut writer = BufWriter::new(temporary.as_file());
    step(Step::Write, temporary.path())?;
    write(&mut writer)?;
    writer.flush()?;
    drop(writer);
    persist(temporary, path)
}

/// A temporary file becomes `path`.
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

/// Whether something is there that is neither a file nor a folder: a terminal, a pipe, /dev/null. None of them is replaced.
fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|data| !data.is_file() && !data.is_dir())
}

/// What a path leads to; nothing needs to be there yet.
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
        // Someone else was faster.
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
    // Where there is something already, or the disk has no second names, a copy takes the place as a new file does.
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

/// A name is on the disk once its folder is.
fn sync_folder(folder: &Path) -> io::Result<()> {
    step(Step::SyncFolder, folder)?;
    // Only Unix opens folders, and not every file system there has something to do for them.
    #[cfg(unix)]
    match sync(folder) {
        Err(error) if !matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            return Err(error);
        }
        _ => {}
    }
    Ok(())
}

/// What is about to happen; tests watch the order, and have one of them fail.
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
