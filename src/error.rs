//! The errors of this crate. Each is a sentence that says what was found, what was expected, and what to do.

use std::path::PathBuf;

/// What went wrong, with what was found and what was expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be opened, read or written.
    #[error("cannot {action} {}: {source}", shortened(path.display().to_string()))]
    Io {
        /// What was attempted: "read" or "write".
        action: &'static str,
        /// The file in question.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// A file exists but does not hold what its format promises.
    #[error("{}: {problem}", shortened(path.display().to_string()))]
    File {
        /// The file in question.
        path: PathBuf,
        /// What was found and what was expected.
        problem: String,
    },
    /// A setting is out of bounds, or values that are valid by themselves do not fit together.
    #[error("{0}")]
    Invalid(String),
    /// A computation on valid input has no finite result: a loss or gradient is NaN, or a simulated process diverges.
    #[error("{0}")]
    NonFinite(String),
    /// The work was stopped by [`Progress::stop`](crate::Progress::stop).
    #[error("the work was stopped")]
    Stopped,
    /// The work itself failed: an external program failed, or this crate has a bug.
    #[error("{0}")]
    Failed(String),
    /// The result of a device differs from that of the reference.
    #[error("{0}")]
    Mismatch(String),
    /// A GPU failed. A new engine can repeat the work.
    #[error("{device}: {failure}")]
    Device {
        /// The adapter's name.
        device: String,
        /// What happened to it.
        failure: DeviceFailure,
    },
}

/// How a GPU fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceFailure {
    /// The device was reset, unplugged, or its driver died.
    #[error("the device was lost ({0}); run the work again on a new one")]
    Lost(String),
    /// An allocation failed although it was within the budget.
    #[error("the device ran out of memory ({0}); close other programs or use the CPU engine")]
    OutOfMemory(String),
    /// The driver refused a shader.
    #[error("the driver could not compile a shader ({0}); update it or use the CPU engine")]
    Shader(String),
    /// The device could not be opened.
    #[error("the device could not be opened ({0}); use the CPU engine")]
    Unavailable(String),
    /// The driver refused a command or failed in another way.
    #[error("the driver failed ({0}); use the CPU engine")]
    Driver(String),
}

impl Error {
    /// A [`Error::File`] for `path`.
    pub fn file(path: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        Error::File { path: path.into(), problem: shortened(problem.into()) }
    }

    /// The error that a panic, which is a bug, turns into.
    pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text =
            text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given");
        Error::Failed(format!("internal error: {text}"))
    }

    /// An [`Error::Invalid`].
    pub fn invalid(problem: impl Into<String>) -> Self {
        Error::Invalid(shortened(problem.into()))
    }
}

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Bytes of a sentence that are kept, at its beginning and at its end.
const KEPT: (usize, usize) = (1500, 500);

/// A sentence without its middle, if it is long: what was found may be a whole file in one word.
pub(crate) fn shortened(sentence: String) -> String {
    if sentence.len() <= KEPT.0 + KEPT.1 {
        return sentence;
    }
    let begin = (0..=KEPT.0).rev().find(|at| sentence.is_char_boundary(*at)).unwrap_or(0);
    let end = (sentence.len() - KEPT.1..).find(|at| sentence.is_char_boundary(*at)).unwrap_or(sentence.len());
    format!("{} … {}", &sentence[..begin], &sentence[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sentences_lose_their_middle() {
        let sentence =
            |count: usize| Error::invalid(format!("found {}, expected less", "γ".repeat(count))).to_string();
        assert_eq!(sentence(9), "found γγγγγγγγγ, expected less");
        let long = sentence(1_000_000);
        assert!(
            long.len() < 2100 && long.starts_with("found γγ") && long.ends_with("γγ, expected less"),
            "{long}"
        );
        assert!(Error::file("f", "γ".repeat(1_000_000)).to_string().len() < 2100);
    }
}
