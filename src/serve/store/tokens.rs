//! Tokens, each with a name: a file of the service's folder has their hashes, and is read again whenever it changes.

use crate::files::input;
use crate::files::output::{create_folder, write_atomically};
use crate::serve::domain::who::DEFAULT_OWNER;
use crate::serve::store::audit;
use crate::serve::store::folder::{self, Claim};
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

/// The file, in the service's folder.
const FILE: &str = "tokens";
/// Held while the file is changed.
const LOCK: &str = "tokens.lock";
/// The shortest token that someone chose.
const SHORTEST: usize = 16;
/// The longest name.
const LONGEST_NAME: usize = 64;
/// Random bytes of a token that is made here.
const RANDOM: usize = 24;

type Hash = [u8; 32];

/// Whoever may come in.
pub struct Tokens {
    /// The one without a name of its own.
    single: Option<Hash>,
    path: PathBuf,
    named: RwLock<Vec<(String, Hash)>>,
    /// What the file looked like when it was read.
    mark: Mutex<Option<Mark>>,
    /// Whether anyone needs a token. Once so, it stays so: a file that is gone lets nobody in.
    needed: AtomicBool,
}

/// What changes if a file does.
#[derive(Clone, Debug, PartialEq)]
struct Mark {
    changed: Option<SystemTime>,
    length: u64,
    #[cfg(unix)]
    inode: u64,
}

impl Mark {
    fn of(path: &Path) -> Option<Mark> {
        let data = std::fs::metadata(path).ok()?;
        Some(Mark {
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
            "the name of a token is wrong, expected 1 to {LONGEST_NAME} characters of a-z A-Z 0-9 - _ ."
        )),
    }
}

/// Lines `name:hash`, and what is wrong with the others. Lines that begin with # are comments.
fn parse(text: &str) -> (Vec<(String, Hash)>, Vec<String>) {
    let (mut found, mut wrong) = (Vec::<(String, Hash)>::new(), Vec::new());
    let lines = text.lines().map(str::trim).enumerate();
    for (k, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let mut read = || {
            let (name, hash) = line.split_once(':').ok_or("there is no ':', expected name:hash")?;
            check_name(name)?;
            let hash = unhex(hash).ok_or("the hash is wrong, expected 64 digits 0-9a-f")?;
            if found.iter().any(|(known, _)| known == name) {
                return Err(format!("the name '{name}' is there twice, expected it once"));
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

/// The tokens of a folder; none if it has no file of them. Whatever is wrong with that is an error.
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
    /// The single token, if there is one, and those of a service's folder.
    pub fn open(single: Option<&str>, root: &Path) -> Result<Tokens> {
        if let Some(found) =
            single.map(|token| token.trim().chars().count()).filter(|found| *found < SHORTEST)
        {
            return Err(Error::invalid(format!(
                "the token has {found} characters, expected at least {SHORTEST}"
            )));
        }
        let path = root.join(FILE);
        let mark = Mark::of(&path);
        let named = load(&path)?;
        if single.is_none() && named.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::file(
                &path,
                "has no token, expected one: add it with --add-token, or remove the file to serve without tokens",
            ));
        }
        Ok(Tokens {
            needed: AtomicBool::new(single.is_some() || named.is_some()),
            single: single.map(hash),
            named: RwLock::new(named.unwrap_or_default()),
            mark: Mutex::new(mark),
            path,
        })
    }

    /// Whether anyone needs one.
    pub fn are_needed(&self) -> bool {
        self.look();
        self.needed.load(Ordering::Relaxed)
    }

    /// The name of whoever has this token, and its hash. Tokens are hashed and all of them compared, so that neither length
    /// nor content nor place shows in the time.
    pub fn name_of(&self, given: &str) -> Option<(String, Hash)> {
        self.look();
        let given = hash(given);
        self.name_of_hash(&given).map(|name| (name, given))
    }

    /// Whether a token that was let in still is.
    pub fn still_holds(&self, hash: &Hash) -> bool {
        self.look();
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

    /// Reads the file again if it has changed. A file that cannot be read lets nobody in, whatever it said before.
    fn look(&self) {
        let now = Mark::of(&self.path);
        let mut mark = self.mark.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if now == *mark {
            return;
        }
        let exists = now.is_some();
        *mark = now;
        let (found, wrong) = match input::text(&self.path) {
            Ok(text) => parse(&text),
            Err(error) => (Vec::new(), vec![error.to_string()]),
        };
        for problem in wrong {
            say!("error: tokens: {problem}");
        }
        say!("note: {} named tokens were read", found.len());
        *self.named.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = found;
        if exists {
            self.needed.store(true, Ordering::Relaxed);
        }
    }
}

/// Changes the tokens of a folder, which becomes a service's if it is new. A service that runs there sees it at once.
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
    if claim != Claim::Own {
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

/// Makes a token for someone. It is told here and never again.
pub fn add(root: &Path, name: &str) -> Result<String> {
    let mut random = [0; RANDOM];
    getrandom::fill(&mut random)
        .map_err(|error| Error::Failed(format!("the system gives no random numbers: {error}")))?;
    let token = hex(&random);
    change(root, "create", name, |tokens| {
        if tokens.iter().any(|(known, _)| known == name) {
            let problem = format!(
                "there is a token named '{name}' already, expected another name or --revoke-token first"
            );
            return Err(Error::Invalid(problem));
        }
        tokens.push((name.to_owned(), hash(&token)));
        Ok(())
    })?;
    Ok(token)
}

/// Takes someone's token back.
pub fn revoke(root: &Path, name: &str) -> Result<()> {
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
pub fn names(root: &Path) -> Result<Vec<String>> {
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
        // No file, no named tokens; the single one is another matter.
        std::fs::remove_file(root.join(FILE)).unwrap();
        assert_eq!((name(&ben), name("the-single-token-of-old").as_deref()), (None, Some("default")));
        let text = std::fs::read_to_string(root.join(audit::FILE)).unwrap();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains(r#""what":"delete""#) && !text.contains(&anna), "{text}");
    }

    #[test]
    fn the_first_token_closes_the_door_and_no_file_opens_it_again() {
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
            (add(&root, "anna").map(|_| ()), "there is a token named 'anna' already"),
            (add(&root, "a b").map(|_| ()), "the name of a token is wrong"),
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
            (format!("a:{good}\na:{good}"), "line 2: the name 'a' is there twice"),
        ] {
            std::fs::write(root.join(FILE), text).unwrap();
            let sentence = Tokens::open(None, &root).err().unwrap().to_string();
            assert!(sentence.contains(piece), "{sentence}");
        }
        // A folder that is someone else's gets no tokens.
        let foreign = folder.path().join("foreign");
        std::fs::create_dir(&foreign).unwrap();
        std::fs::write(foreign.join("thesis.tex"), "x").unwrap();
        assert!(add(&foreign, "anna").is_err());
        assert_eq!(std::fs::read_dir(&foreign).unwrap().count(), 1);
    }
}
