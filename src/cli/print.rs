//! What goes to standard output.

use crate::{Error, Result};
use serde::Serialize;
use std::io::Write;

/// Prints a report: as one JSON object, or as the text that `text` makes of it.
pub(super) fn print_report(json: bool, report: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
    if json { print_json(report) } else { print(&text()) }
}

/// Prints one line of JSON.
pub(super) fn print_json(value: &impl Serialize) -> Result<()> {
    print(&serde_json::to_string(value).expect("a report of plain values serialises"))
}

/// Prints a text and a line break.
pub(super) fn print(text: &str) -> Result<()> {
    print_bytes(format!("{text}\n").as_bytes())
}

/// Prints bytes; a reader that has gone away (`skds … | head`) is no error.
pub(super) fn print_bytes(bytes: &[u8]) -> Result<()> {
    match std::io::stdout().write_all(bytes) {
        Err(source) if source.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::Io { action: "write", path: "standard output".into(), source })
        }
        _ => Ok(()),
    }
}
