//! Words for people: lines on standard error, which may be full, closed or gone.

use std::fmt::Arguments;
use std::io::Write;

/// Writes a line to standard error. Where that cannot be written, nobody is left to tell: the work goes on.
pub(crate) fn line(text: Arguments<'_>) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(format!("{text}\n").as_bytes());
    let _ = stderr.flush();
}

/// As `eprintln!`, but never a panic.
macro_rules! say {
    ($($part:tt)*) => {
        $crate::stderr::line(format_args!($($part)*))
    };
}
pub(crate) use say;
