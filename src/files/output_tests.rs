//! What is on the disk after every step, and after none.

use super::*;
use std::cell::RefCell;

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

thread_local! {
    static SEEN: RefCell<Vec<(Step, PathBuf)>> = const { RefCell::new(Vec::new()) };
    static FAILS: RefCell<Vec<Step>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn seen(step: Step, path: &Path) -> io::Result<()> {
    SEEN.with_borrow_mut(|seen| seen.push((step, path.into())));
    match FAILS.with_borrow(|fails| fails.contains(&step)) {
        true => Err(io::Error::other("the power is gone")),
        false => Ok(()),
    }
}

/// Does something while some steps fail; gives the steps that were tried, with the names of what they were about.
fn watched<T>(fails: &[Step], work: impl FnOnce() -> T) -> (T, Vec<(Step, String)>) {
    FAILS.set(fails.to_vec());
    SEEN.set(Vec::new());
    let found = work();
    FAILS.set(Vec::new());
    let name = |path: &Path| match path.file_name().unwrap().to_string_lossy() {
        temporary if temporary.starts_with(".skds-") => "temporary".to_owned(),
        name => name.into_owned(),
    };
    (found, SEEN.take().iter().map(|(step, path)| (*step, name(path))).collect())
}

fn steps(list: &[(Step, &str)]) -> Vec<(Step, String)> {
    list.iter().map(|(step, name)| (*step, (*name).to_owned())).collect()
}

/// A folder `in` with a file `from`, beside a folder `there`.
fn two_folders() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["in", "there"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    let from = folder.path().join("in/from");
    std::fs::write(&from, "whole").unwrap();
    let to = folder.path().join("there/to");
    (folder, from, to)
}

#[test]
fn bytes_reach_the_disk_before_the_name_and_the_folder_after_it() {
    use Step::*;
    let (folder, from, to) = two_folders();
    let (done, seen) = watched(&[], || write_atomically(&to, |w| w.write_all(b"x")));
    done.unwrap();
    let whole = [(Write, "temporary"), (SyncFile, "temporary"), (Name, "to"), (SyncFolder, "there")];
    assert_eq!(seen, steps(&whole));
    std::fs::remove_file(&to).unwrap();
    let (done, seen) = watched(&[], || link(&from, &to));
    done.unwrap();
    assert_eq!(seen, steps(&[(SyncFile, "from"), (Link, "to"), (SyncFolder, "there")]));
    std::fs::remove_file(&to).unwrap();
    let (done, seen) = watched(&[], || rename(&from, &to));
    done.unwrap();
    assert_eq!(seen, steps(&[(SyncFile, "from"), (Name, "to"), (SyncFolder, "there"), (SyncFolder, "in")]));
    std::fs::write(&from, "half").unwrap();
    let (done, seen) = watched(&[], || relocate(&from, &to.with_file_name("aside")));
    done.unwrap();
    assert_eq!(seen, steps(&[(Name, "aside"), (SyncFolder, "there"), (SyncFolder, "in")]));
    let (done, seen) = watched(&[], || create_folder(&folder.path().join("there/a/b")));
    done.unwrap();
    assert_eq!(seen, steps(&[(SyncFolder, "there"), (SyncFolder, "a")]));
}

#[test]
fn a_copy_has_its_name_only_once_it_is_whole() {
    use Step::*;
    let (_folder, from, to) = two_folders();
    // No second names on this disk, and the copy does not get far.
    for fails in [Write, SyncFile, Name] {
        let (done, _) = watched(&[Link, fails], || link(&from, &to));
        assert!(done.is_err(), "{fails:?}");
        assert_eq!(names(to.parent().unwrap()), [] as [&str; 0], "{fails:?}");
    }
    let (done, seen) = watched(&[Link], || link(&from, &to));
    done.unwrap();
    let copy = [(Write, "temporary"), (SyncFile, "temporary"), (Name, "to"), (SyncFolder, "there")];
    assert_eq!(seen[2..], steps(&copy));
    assert_eq!(std::fs::read(&to).unwrap(), b"whole");
    // Half a copy that is there already, from whatever time, is replaced.
    std::fs::write(&to, "wh").unwrap();
    link(&from, &to).unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), b"whole");
    assert_eq!(names(to.parent().unwrap()), ["to"]);
}

#[test]
fn a_folder_that_cannot_reach_the_disk_is_an_error() {
    let (_folder, from, to) = two_folders();
    let all: [&dyn Fn() -> Result<()>; 4] = [
        &|| write_atomically(&to, |w| w.write_all(b"x")),
        &|| link(&from, &to),
        &|| create_folder(&to.with_file_name("new")),
        &|| rename(&from, &to),
    ];
    for work in all {
        assert!(watched(&[Step::SyncFolder], work).0.is_err());
    }
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_stay() {
    use std::os::unix::fs::symlink;
    let (folder, from, to) = two_folders();
    let write = |path: &Path| write_atomically(path, |w| w.write_all(b"new"));
    // A link to a link to a file elsewhere.
    symlink("../in/from", &to).unwrap();
    let outer = folder.path().join("outer");
    symlink(&to, &outer).unwrap();
    write(&outer).unwrap();
    assert_eq!(std::fs::read(&from).unwrap(), b"new");
    assert!(!from.is_symlink() && to.is_symlink() && outer.is_symlink());
    assert_eq!(
        (names(&folder.path().join("in")), names(&folder.path().join("there"))),
        (vec!["from".into()], vec!["to".into()])
    );
    // One that leads nowhere yet makes the file; one into a folder that is not there, or in a circle, says so.
    std::fs::remove_file(&from).unwrap();
    write(&outer).unwrap();
    assert_eq!(std::fs::read(&from).unwrap(), b"new");
    let lost = folder.path().join("lost");
    symlink("nowhere/file", &lost).unwrap();
    let sentence = write(&lost).unwrap_err().to_string();
    assert!(
        sentence.contains("a link to") && sentence.contains("nowhere/file, in a folder that does not exist"),
        "{sentence}"
    );
    let round = folder.path().join("round");
    symlink("round", &round).unwrap();
    let sentence = write(&round).unwrap_err().to_string();
    assert!(sentence.contains("links lead in a circle"), "{sentence}");
    assert!(lost.is_symlink() && round.is_symlink());
}

#[cfg(target_os = "linux")]
#[test]
fn devices_are_written_to_and_not_replaced() {
    use std::os::unix::fs::FileTypeExt;
    write_atomically(Path::new("/dev/null"), |w| w.write_all(b"x")).unwrap();
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let error = write_atomically(Path::new("/dev/full"), |w| w.write_all(b"x")).unwrap_err();
    assert!(error.to_string().contains("cannot write /dev/full"), "{error}");
}
