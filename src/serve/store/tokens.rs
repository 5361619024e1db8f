//! Named tokens. A file in the folder of the service holds their hashes; the service reads it again whenever it changes.

use super::audit;
use super::folder::{self, FolderState};
use crate::files::input;
use crate::files::output::{create_folder, write_atomically};
use crate::serve::domain::client::DEFAULT_OWNER;
use crate::stderr::say;
use crate::{Error, Result};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::SystemTime;
use subtle::ConstantTimeEq;

/// The name of the file.
const FILE: &str = "tokens";
/// The name of a lock that is held while the file is changed.
const LOCK: &str = "tokens.lock";
/// The fewest characters of a token that an operator chose.
const SHORTEST: usize = 16;
/// The most characters of a name.
const LONGEST_NAME: usize = 64;
/// The number of random bytes of a new token.
const RANDOM: usize = 24;

type Hash = [u8; 32];

/// The tokens of a service.
pub(crate) struct Tokens {
    /// The hash of the token without a name.
    single: Option<Hash>,
    path: PathBuf,
    named: RwLock<Vec<(String, Hash)>>,
    /// The stamp of the file when it was read.
    stamp: Mutex<Option<FileStamp>>,
    /// Whether clients need a token. Once they do, they always do: removing the file lets nobody in.
    needed: AtomicBool,
}

/// Changes whenever the file does.
#[derive(Clone, Debug, PartialEq)]
struct FileStamp {
    changed: Option<SystemTime>,
    length: u64,
    #[cfg(unix)]
    inode: u64,
}

impl FileStamp {
    fn of(path: &Path) -> Option<FileStamp> {
        let data = std::fs::metadata(path).ok()?;
        Some(FileStamp {
            changed: data.modified().ok(),
            length: data.len(),
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(&data),
        })
    }
}

fn hash(token: &str) -> Hash {
    Sha256::digest(token.trim()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Hash> {
    let byte = |k: usize| u8::from_str_radix(text.get(2 * k..2 * k + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..32).map(byte).collect();
    bytes.filter(|_| text.len() == 64)?.try_into().ok()
}

fn check_name(name: &str) -> std::result::Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(good) {
        true => Ok(()),
        false => Err(format!(
            "the name of a token is malformed, expected 1 to {LONGEST_NAME} characters of a-z A-Z 0-9 - _ ."
        )),
    }
}

/// Parses lines `name:hash`. Returns them, and what is wrong with the others. Lines that begin with # are comments.
fn parse(text: &str) -> (Vec<(String, Hash)>, Vec<String>) {
    let (mut found, mut wrong) = (Vec::<(String, Hash)>::new(), Vec::new());
    let lines = text.lines().map(str::trim).enumerate();
    for (k, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let mut read = || {
            let (name, hash) = line.split_once(':').ok_or("there is no ':', expected name:hash")?;
            check_name(name)?;
            let hash = unhex(hash).ok_or("the hash is wrong, expected 64 digits 0-9a-f")?;
            if found.iter().any(|(known, _)| known == name) {
                return Err(format!("the name '{name}' appears twice, expected it once"));
            }
            found.push((name.to_owned(), hash));
            Ok(())
        };
        if let Err(problem) = read() {
            wrong.push(format!("line {}: {problem}", k + 1));
        }
    }
    (found, wrong)
}

/// Reads the tokens of a folder; none if it has no file of tokens. A malformed line is an error.
fn load(path: &Path) -> Result<Option<Vec<(String, Hash)>>> {
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let (found, wrong) = parse(&input::text(path)?);
    match wrong.into_iter().next() {
        Some(problem) => Err(Error::file(path, problem)),
        None => Ok(Some(found)),
    }
}

impl Tokens {
    /// Opens the tokens of a folder, with `single` as the token without a name.
    pub(crate) fn open(single: Option<&str>, root: &Path) -> Result<Tokens> {
        if let Some(found) =
            single.map(|token| token.trim().chars().count()).filter(|found| *found < SHORTEST)
        {
            return Err(Error::invalid(format!(
                "the token has {found} characters, expected at least {SHORTEST}"
            )));
        }
        let path = root.join(FILE);
        let stamp = FileStamp::of(&path);
        let named = load(&path)?;
        if single.is_none() && named.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::file(
                &path,
                "has no token, expected one: add one with --add-token, or remove the file to serve without tokens",
            ));
        }
        Ok(Tokens {
            needed: AtomicBool::new(single.is_some() || named.is_some()),
            single: single.map(hash),
            named: RwLock::new(named.unwrap_or_default()),
            stamp: Mutex::new(stamp),
            path,
        })
    }

    /// Whether clients need a token.
    pub(crate) fn are_needed(&self) -> bool {
        self.reload_if_changed();
        self.needed.load(Ordering::Relaxed)
    }

    /// The name of a token and its hash. This hashes the token and compares it with all others, so that the time reveals neither
    /// length nor content nor place.
    pub(crate) fn name_of(&self, given: &str) -> Option<(String, Hash)> {
        self.reload_if_changed();
        let given = hash(given);
        self.name_of_hash(&given).map(|name| (name, given))
    }

    /// Whether a token that was accepted is still valid.
    pub(crate) fn still_holds(&self, hash: &Hash) -> bool {
        self.reload_if_changed();
        self.name_of_hash(hash).is_some()
    }

    fn name_of_hash(&self, given: &Hash) -> Option<String> {
        let named = self.named.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let single = self.single.iter().map(|hash| (DEFAULT_OWNER, hash));
        let mut found = None;
        for (name, hash) in single.chain(named.iter().map(|(name, hash)| (name.as_str(), hash))) {
            if bool::from(given.ct_eq(hash)) {
                found = Some(name);
            }
        }
        found.map(str::to_owned)
    }

    /// Reads the file again if it has changed. A file that cannot be read lets nobody in, whatever it held before.
    fn reload_if_changed(&self) {
        let now = FileStamp::of(&self.path);
        let mut stamp = self.stamp.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if now == *stamp {
            return;
        }
        let exists = now.is_some();
        *stamp = now;
        let (found, wrong) = match input::text(&self.path) {
            Ok(text) => parse(&text),
            Err(error) => (Vec::new(), vec![error.to_string()]),
        };
        for problem in wrong {
            say!("error: tokens: {problem}");
        }
        say!("note: read {} named tokens", found.len());
        *self.named.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = found;
        if exists {
            self.needed.store(true, Ordering::Relaxed);
        }
    }
}

/// Changes the tokens of a folder. A new folder becomes one of a service. A service that runs there notices the change at once.
fn change(
    root: &Path,
    what: &str,
    name: &str,
    change: impl FnOnce(&mut Vec<(String, Hash)>) -> Result<()>,
) -> Result<()> {
    check_name(name).map_err(Error::Invalid)?;
    let claim = folder::claim(root, false)?;
    create_folder(root)?;
    folder::make_private(root, claim);
    if claim != FolderState::Own {
        folder::mark(root)?;
    }
    let cannot = |source| Error::Io { action: "lock", path: root.join(LOCK), source };
    let lock = File::create(root.join(LOCK)).map_err(cannot)?;
    lock.lock().map_err(cannot)?;
    let path = root.join(FILE);
    let mut tokens = load(&path)?.unwrap_or_default();
    change(&mut tokens)?;
    write_atomically(&path, |writer| {
        writeln!(
            writer,
            "# Names and SHA-256 of tokens, for skds serve --add-token, --revoke-token, --list-tokens"
        )?;
        tokens.iter().try_for_each(|(name, hash)| writeln!(writer, "{name}:{}", hex(hash)))
    })?;
    audit::Log::new(root.join(audit::FILE)).add(&[audit::entry("command line", None, what, "token", name)]);
    Ok(())
}

/// Creates a token and returns it. Only its hash is kept, so nobody can look it up later.
pub(crate) fn add(root: &Path, name: &str) -> Result<String> {
    let mut random = [0; RANDOM];
    getrandom::fill(&mut random).map_err(|error| {
        Error::Failed(format!("the operating system provides no random numbers: {error}"))
    })?;
    let token = hex(&random);
    change(root, "create", name, |tokens| {
        if tokens.iter().any(|(known, _)| known == name) {
            let problem = format!(
                "a token named '{name}' exists already, expected another name or --revoke-token first"
            );
            return Err(Error::Invalid(problem));
        }
        tokens.push((name.to_owned(), hash(&token)));
        Ok(())
    })?;
    Ok(token)
}

/// Revokes a token.
pub(crate) fn revoke(root: &Path, name: &str) -> Result<()> {
    let unknown =
        || Error::invalid(format!("there is no token named '{name}', expected one of --list-tokens"));
    if !names(root)?.iter().any(|known| known == name) {
        return Err(unknown());
    }
    change(root, "delete", name, |tokens| {
        let before = tokens.len();
        tokens.retain(|(known, _)| known != name);
        if tokens.len() == before { Err(unknown()) } else { Ok(()) }
    })
}

/// The names of all tokens of a folder.
pub(crate) fn names(root: &Path) -> Result<Vec<String>> {
    Ok(load(&root.join(FILE))?.unwrap_or_default().into_iter().map(|(name, _)| name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_names_and_are_revoked_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("service");
        let (anna, ben) = (add(&root, "anna").unwrap(), add(&root, "ben").unwrap());
        let tokens = Tokens::open(Some("the-single-token-of-old"), &root).unwrap();
        let name = |token: &str| tokens.name_of(token).map(|(name, _)| name);
        assert_eq!(name(&anna).as_deref(), Some("anna"));
        assert_eq!(name(&ben).as_deref(), Some("ben"));
        assert_eq!(name("the-single-token-of-old").as_deref(), Some("default"));
        for wrong in ["", "anna", &anna[1..], &hex(&hash(&anna)), &format!("anna:{anna}")] {
            assert_eq!(name(wrong), None, "{wrong}");
        }
        assert_eq!(names(&root).unwrap(), ["anna", "ben"]);
        let (_, secret) = tokens.name_of(&anna).unwrap();
        revoke(&root, "anna").unwrap();
        assert_eq!((name(&anna), name(&ben).as_deref()), (None, Some("ben")));
        assert!(!tokens.still_holds(&secret));
        // Without the file there are no named tokens; the token without a name stays valid.
        std::fs::remove_file(root.join(FILE)).unwrap();
        assert_eq!((name(&ben), name("the-single-token-of-old").as_deref()), (None, Some("default")));
        let text = std::fs::read_to_string(root.join(audit::FILE)).unwrap();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains(r#""what":"delete""#) && !text.contains(&anna), "{text}");
    }

    #[test]
    fn the_first_token_closes_the_door_and_removing_the_file_does_not_open_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("service");
        let tokens = Tokens::open(None, &root).unwrap();
        assert!(!tokens.are_needed());
        add(&root, "anna").unwrap();
        assert!(tokens.are_needed());
        std::fs::remove_file(root.join(FILE)).unwrap();
        assert!(tokens.are_needed());
    }

    #[test]
    fn what_is_wrong_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("service");
        add(&root, "anna").unwrap();
        for (result, piece) in [
            (add(&root, "anna").map(|_| ()), "a token named 'anna' exists already"),
            (add(&root, "a b").map(|_| ()), "the name of a token is malformed"),
            (revoke(&root, "ben"), "there is no token named 'ben'"),
            (Tokens::open(Some("short"), &root).map(|_| ()), "has 5 characters, expected at least 16"),
        ] {
            let sentence = result.unwrap_err().to_string();
            assert!(sentence.contains(piece), "{sentence}");
        }
        revoke(&root, "anna").unwrap();
        let sentence = Tokens::open(None, &root).err().unwrap().to_string();
        assert!(sentence.contains("has no token, expected one"), "{sentence}");
        let good = "a".repeat(64);
        for (text, piece) in [
            ("anna".to_owned(), "line 1: there is no ':'"),
            ("\nanna:12".to_owned(), "line 2: the hash is wrong"),
            (format!("a:{good}\na:{good}"), "line 2: the name 'a' appears twice"),
        ] {
            std::fs::write(root.join(FILE), text).unwrap();
            let sentence = Tokens::open(None, &root).err().unwrap().to_string();
            assert!(sentence.contains(piece), "{sentence}");
        }
        // A folder that does not belong to a service gets no tokens.
        let foreign = folder.path().join("foreign");
        std::fs::create_dir(&foreign).unwrap();
        std::fs::write(foreign.join("thesis.tex"), "x").unwrap();
        assert!(add(&foreign, "anna").is_err());
        assert_eq!(std::fs::read_dir(&foreign).unwrap().count(), 1);
    }
}
