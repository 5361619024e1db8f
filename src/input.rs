//! Text files, with sentences that name them.

use crate::{Error, Result};
use serde::de::DeserializeOwned;
use std::path::Path;

/// The text of a file.
pub(crate) fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|source| Error::Io { action: "read", path: path.into(), source })
}

/// What a TOML file says; an error names the line.
pub(crate) fn toml<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = text(path)?;
    ::toml::from_str(&text).map_err(|error| {
        // The message says what was found and expected; the rest is a drawing of the line.
        let line = error.span().map_or(0, |span| text[..span.start].lines().count().max(1));
        Error::file(path, format!("line {line}: {}", error.message().replace('\n', " ")))
    })
}
