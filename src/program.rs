//! How to start this program again, for processes of its own.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The words that start the program, where it is part of another one.
static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Says that these words start the program: an interpreter and its script, for example. Only the first call counts.
pub(crate) fn is_started_by(words: Vec<OsString>) {
    let _ = WORDS.set(words);
}

/// The words that start this program again: the one that runs, even if its file has been replaced in the meantime.
pub(crate) fn words() -> io::Result<Vec<OsString>> {
    if let Some(words) = WORDS.get().filter(|words| !words.is_empty()) {
        return Ok(words.clone());
    }
    let running = PathBuf::from("/proc/self/exe");
    Ok(vec![if running.exists() { running.into() } else { std::env::current_exe()?.into() }])
}

/// A command of these words.
pub(crate) fn command(words: &[OsString]) -> Command {
    let mut command = Command::new(words.first().map_or(std::ffi::OsStr::new("skds"), |first| first));
    command.args(words.iter().skip(1));
    command
}
