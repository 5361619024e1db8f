//! Ids that the service makes. They consist of hexadecimal digits only, so no id can be a path.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::path::Path;

/// The SHA-256 of a file's content, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String")]
#[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
pub struct ContentId(String);

/// The id of a job: 32 random hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String")]
#[schema(value_type = String, pattern = "^[0-9a-f]{32}$")]
pub(crate) struct JobId(String);

fn digits(text: String, count: usize, what: &str) -> Result<String> {
    let good = text.len() == count && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    match good {
        true => Ok(text),
        false => {
            Err(Error::invalid(format!("the id of a {what} is malformed, expected {count} digits 0-9a-f")))
        }
    }
}

impl TryFrom<String> for ContentId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        digits(text, 64, "file").map(ContentId)
    }
}

impl TryFrom<String> for JobId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        digits(text, 32, "job").map(JobId)
    }
}

impl ContentId {
    /// The id of content with this hash.
    pub fn of(hash: Sha256) -> Self {
        ContentId(crate::files::hash::hex(hash))
    }

    /// The id of a file's content.
    pub fn of_file(path: &Path) -> Result<Self> {
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

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl JobId {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digits_make_an_id() {
        let hash = ContentId::of(<Sha256 as sha2::Digest>::new_with_prefix(b"abc"));
        assert_eq!(hash.as_str(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(ContentId::try_from(hash.as_str().to_owned()).is_ok());
        for wrong in ["", "..", "../../etc/passwd", &"A".repeat(64), &"g".repeat(64), &"a".repeat(63)] {
            assert!(ContentId::try_from(wrong.to_string()).is_err(), "{wrong}");
            assert!(JobId::try_from(wrong.to_string()).is_err(), "{wrong}");
        }
    }
}
