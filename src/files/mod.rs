//! Reads text files, writes files atomically, and hashes them.

pub(crate) mod hash;
pub(crate) mod input;
pub(crate) mod output;
