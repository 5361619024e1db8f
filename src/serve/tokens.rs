//! Tokens, each with a name: read from a file again whenever that changes, and kept as hashes only.

use super::who::DEFAULT_OWNER;
use crate::{Error, Result, input};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, RwLock};
use std::time::SystemTime;
use subtle::ConstantTimeEq;

/// The shortest token.
const SHORTEST: usize = 16;
/// The longest name.
const LONGEST_NAME: usize = 64;

type Hash = [u8; 32];

/// Whoever may come in.
pub struct Tokens {
    /// The one without a name of its own.
    single: Option<Hash>,
    file: Option<PathBuf>,
    named: RwLock<Vec<(String, Hash)>>,
    /// What the file looked like when it was read.
    mark: Mutex<Option<Mark>>,
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

/// A token that is long enough.
fn checked(token: &str) -> std::result::Result<Hash, String> {
    match token.trim().chars().count() {
        found if found < SHORTEST => {
            Err(format!("the token has {found} letters, expected at least {SHORTEST}"))
        }
        _ => Ok(hash(token)),
    }
}

/// Lines `name:token`, and what is wrong with the others. Lines that begin with # are comments.
fn parse(text: &str) -> (Vec<(String, Hash)>, Vec<String>) {
    let (mut found, mut wrong) = (Vec::<(String, Hash)>::new(), Vec::new());
    let lines = text.lines().map(str::trim).enumerate();
    for (k, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let mut read = || {
            // The line itself is not repeated: it may be a secret.
            let (name, token) = line.split_once(':').ok_or("there is no ':', expected name:token")?;
            let name = name.trim();
            let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(good) {
                return Err(format!("the name is wrong, expected 1 to {LONGEST_NAME} letters of a-z A-Z 0-9 - _ ."));
            }
            let hash = checked(token)?;
            if found.iter().any(|(known, other)| known == name || *other == hash) {
                return Err(format!("the name '{name}' or its token is there twice, expected it once"));
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

impl Tokens {
    /// The single token, if there is one, and those of a file, if there is one.
    pub fn new(single: Option<&str>, file: Option<&Path>) -> Result<Tokens> {
        let single = single.map(checked).transpose().map_err(Error::Invalid)?;
        let mut named = Vec::new();
        let mark = file.and_then(Mark::of);
        if let Some(path) = file {
            let (found, wrong) = parse(&input::text(path)?);
            if let Some(problem) = wrong.first() {
                return Err(Error::file(path, problem.clone()));
            }
            if single.is_some() && found.iter().any(|(name, _)| name == DEFAULT_OWNER) {
                let problem = format!("the name '{DEFAULT_OWNER}' is that of the single token, expected another");
                return Err(Error::file(path, problem));
            }
            if single.is_none() && found.is_empty() {
                return Err(Error::file(path, "has no token, expected lines like name:token"));
            }
            named = found;
        }
        let file = file.map(Path::to_path_buf);
        Ok(Tokens { single, file, named: RwLock::new(named), mark: Mutex::new(mark) })
    }

    /// Whether anyone needs one.
    pub fn are_needed(&self) -> bool {
        self.single.is_some() || self.file.is_some()
    }

    /// Whether there is a file that may change.
    pub fn has_file(&self) -> bool {
        self.file.is_some()
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

    /// Reads the file again if it has changed.
    fn look(&self) {
        let Some(path) = &self.file else { return };
        let now = Mark::of(path);
        let mut mark = self.mark.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if now != *mark {
            *mark = now;
            self.read(path);
        }
    }

    /// Reads the file again, whatever it looks like.
    pub fn reload(&self) {
        let Some(path) = &self.file else { return };
        let mut mark = self.mark.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *mark = Mark::of(path);
        self.read(path);
    }

    /// Whoever is not in the file does not come in, whatever else is wrong with it: a file that cannot be read lets nobody in.
    fn read(&self, path: &Path) {
        let (mut found, wrong) = match input::text(path) {
            Ok(text) => parse(&text),
            Err(error) => (Vec::new(), vec![error.to_string()]),
        };
        for problem in wrong {
            say!("error: tokens: {problem}");
        }
        if self.single.is_some() {
            found.retain(|(name, _)| name != DEFAULT_OWNER);
        }
        say!("note: {} named tokens were read", found.len());
        *self.named.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = found;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANNA: &str = "a-long-token-of-anna";
    const BEN: &str = "a-long-token-of-ben!";

    #[test]
    fn tokens_have_names_and_are_revoked_with_their_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        std::fs::write(&path, format!("# The group\nanna:{ANNA}\n\n ben : {BEN} \n")).unwrap();
        let tokens = Tokens::new(Some("the-single-token-of-old"), Some(&path)).unwrap();
        let name = |token: &str| tokens.name_of(token).map(|(name, _)| name);
        assert_eq!(name(ANNA).as_deref(), Some("anna"));
        assert_eq!(name(BEN).as_deref(), Some("ben"));
        assert_eq!(name("the-single-token-of-old").as_deref(), Some("default"));
        for wrong in ["", "anna", "a-long-token-of-ann", &format!("anna:{ANNA}")] {
            assert_eq!(name(wrong), None, "{wrong}");
        }
        let (_, secret) = tokens.name_of(ANNA).unwrap();
        // A line that is wrong does not keep a revoked one alive.
        std::fs::write(&path, format!("what is this\nben:{BEN}\n")).unwrap();
        assert_eq!((name(ANNA), name(BEN).as_deref()), (None, Some("ben")));
        assert!(!tokens.still_holds(&secret));
        // No file, no named tokens; the single one is another matter.
        std::fs::remove_file(&path).unwrap();
        assert_eq!((name(BEN), name("the-single-token-of-old").as_deref()), (None, Some("default")));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_without_its_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        for (text, piece) in [
            ("no-colon-in-this-long-line", "line 1: there is no ':'"),
            ("\nanna:short-secret", "line 2: the token has 12 letters"),
            ("a b:a-long-enough-secret", "the name is wrong"),
            ("a:a-long-enough-secret\na:another-long-secret", "line 2: the name 'a'"),
            ("a:a-long-enough-secret\nb:a-long-enough-secret", "line 2: the name 'b'"),
            ("# nobody", "has no token"),
        ] {
            std::fs::write(&path, text).unwrap();
            let sentence = Tokens::new(None, Some(&path)).err().unwrap().to_string();
            assert!(sentence.contains(piece) && !sentence.contains("secret"), "{sentence}");
        }
        std::fs::write(&path, "default:a-long-enough-secret").unwrap();
        assert!(Tokens::new(Some("the-single-token-of-old"), Some(&path)).is_err());
        assert!(Tokens::new(Some("short"), None).is_err());
    }
}
