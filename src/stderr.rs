//! Messages on standard error that can be lost: where nobody can read them, the program goes on.

use std::fmt::Arguments;
use std::io::Write;

/// Writes a line. `eprintln!` panics if standard error is full or closed; this does not.
pub(crate) fn say(line: Arguments<'_>) {
    // One write for the whole line, so that lines of several threads do not mix.
    let _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

/// [`say`] with a format string.
macro_rules! say {
    ($($part:tt)*) => { $crate::stderr::say(format_args!($($part)*)) };
}
