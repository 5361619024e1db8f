//! Lines on standard error, which may be full or closed.

use std::fmt::Arguments;
use std::io::Write;

/// Writes a line to standard error. A failure is ignored, so that the work continues.
pub(crate) fn line(text: Arguments<'_>) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(format!("{text}\n").as_bytes());
    let _ = stderr.flush();
}

/// Like `eprintln!`, but never panics.
macro_rules! say {
    ($($part:tt)*) => {
        $crate::stderr::line(format_args!($($part)*))
    };
}
pub(crate) use say;
