//! Names that the service gives: hexadecimal digits and nothing else, so that none can ever be a path.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// The SHA-256 of a file's content, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String")]
#[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
pub struct ContentId(String);

/// A job's name: 32 random hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String")]
#[schema(value_type = String, pattern = "^[0-9a-f]{32}$")]
pub struct JobId(String);

fn digits(text: String, count: usize, what: &str) -> Result<String> {
    let good = text.len() == count && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    match good {
        true => Ok(text),
        false => {
            Err(Error::invalid(format!("the name of a {what} is wrong, expected {count} digits 0-9a-f")))
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
    /// Of a finished hash.
    pub fn of(hash: Sha256) -> Self {
        ContentId(crate::files::hash::hex(hash))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl JobId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_digits_is_a_name() {
        let hash = ContentId::of(<Sha256 as sha2::Digest>::new_with_prefix(b"abc"));
        assert_eq!(hash.as_str(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(ContentId::try_from(hash.as_str().to_owned()).is_ok());
        for wrong in ["", "..", "../../etc/passwd", &"A".repeat(64), &"g".repeat(64), &"a".repeat(63)] {
            assert!(ContentId::try_from(wrong.to_string()).is_err(), "{wrong}");
            assert!(JobId::try_from(wrong.to_string()).is_err(), "{wrong}");
        }
    }
}
