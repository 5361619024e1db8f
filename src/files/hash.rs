//! SHA-256 as text.

use sha2::{Digest, Sha256};

/// A finished hash in hexadecimal digits.
pub(crate) fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first digits of a hash: enough to tell two apart in a sentence.
pub(crate) fn short(digits: &str) -> String {
    digits.chars().take(16).collect()
}
