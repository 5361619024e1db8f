//! Files appear whole or not at all.

use crate::{Error, Result};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Creates or replaces `path` with what `write` writes.
///
/// The bytes go to a temporary name in the same folder, reach the disk, and only then take the final name: a
/// crash or a full disk leaves an earlier file of that name as it was, and no debris.
pub(crate) fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<()> {
    replace(path, write).map_err(|source| Error::Io { action: "write", path: path.into(), source })
}

/// Makes a folder and those it lies in, unless it is there.
pub(crate) fn create_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|source| Error::Io { action: "create", path: path.into(), source })
}

fn replace(path: &Path, write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // Asked first, because the answer then names no temporary file.
    std::fs::metadata(folder)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".skds-");
    // Temporary files are private by default; a result should be as readable as any file the user creates.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let temporary = builder.tempfile_in(folder)?;
    let mut writer = BufWriter::new(temporary.as_file());
    write(&mut writer)?;
    writer.flush()?;
    drop(writer);
    temporary.as_file().sync_all()?;
    temporary.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn replaces_the_whole_file_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.txt");
        write_atomically(&path, |w| w.write_all(b"a longer first text")).unwrap();
        write_atomically(&path, |w| w.write_all(b"second")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"second");
        assert_eq!(names(folder.path()), ["out.txt"]);
    }

    #[test]
    fn a_failed_write_keeps_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.txt");
        std::fs::write(&path, "old").unwrap();
        let error = write_atomically(&path, |w| {
            w.write_all(b"half of")?;
            Err(io::Error::other("disk on fire"))
        })
        .unwrap_err();
        assert!(error.to_string().starts_with("cannot write "), "{error}");
        assert!(error.to_string().ends_with("out.txt: disk on fire"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["out.txt"]);
    }

    #[test]
    fn a_folder_in_the_way_or_missing_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        std::fs::create_dir(&taken).unwrap();
        let error = write_atomically(&taken, |w| w.write_all(b"x")).unwrap_err();
        assert!(matches!(error, Error::Io { action: "write", .. }), "{error}");
        assert_eq!(names(folder.path()), ["taken"]);
        let error = write_atomically(&folder.path().join("absent/out"), |_| Ok(())).unwrap_err();
        assert!(matches!(error, Error::Io { action: "write", .. }), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn permissions_are_those_of_an_ordinary_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (ours, ordinary) = (folder.path().join("ours"), folder.path().join("ordinary"));
        write_atomically(&ours, |w| w.write_all(b"x")).unwrap();
        std::fs::write(&ordinary, "x").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&ordinary));
    }
}
