//! Reads text files, with errors that name the file.

use crate::{Error, Result};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The largest text file in bytes, far above any settings, plans or lists of functions.
const MOST: u64 = 16 << 20;

/// The text of a file.
pub(crate) fn text(path: &Path) -> Result<String> {
    let fail = |source| Error::Io { action: "read", path: path.into(), source };
    let mut text = String::new();
    let file = File::open(path).map_err(fail)?;
    file.take(MOST + 1).read_to_string(&mut text).map_err(fail)?;
    if text.len() as u64 > MOST {
        return Err(Error::file(
            path,
            format!("has more than {MOST} bytes, expected a text of at most {MOST} bytes"),
        ));
    }
    Ok(text)
}

#[cfg(feature = "cli")]
/// The contents of a TOML file. An error names the line.
pub(crate) fn toml<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = text(path)?;
    ::toml::from_str(&text).map_err(|error| {
        // The message says what was found and expected; the rest is a drawing of the line.
        let line = error.span().map_or(0, |span| text.get(..span.start).unwrap_or("").lines().count().max(1));
        Error::file(path, format!("line {line}: {}", error.message().replace('\n', " ")))
    })
}
