//! Texts that come in, files that go out, and the hashes that tell them apart.

pub(crate) mod hash;
pub(crate) mod input;
pub(crate) mod output;
