//! Every way a request can fail, in sentences a person can act on.

use std::path::PathBuf;

/// What went wrong, with what was found and what was expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be opened, read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted: "read" or "write".
        action: &'static str,
        /// The file in question.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// A file exists but does not hold what its format promises.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file in question.
        path: PathBuf,
        /// What was found and what was expected.
        problem: String,
    },
    /// Values that are each valid but do not fit together, or an impossible setting.
    #[error("{0}")]
    Invalid(String),
    /// The loss or a gradient came out as NaN or infinity.
    #[error("{0}")]
    NonFinite(String),
}

impl Error {
    /// A [`Error::File`] for `path`.
    pub fn file(path: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        Error::File { path: path.into(), problem: problem.into() }
    }

    /// An [`Error::Invalid`].
    pub fn invalid(problem: impl Into<String>) -> Self {
        Error::Invalid(problem.into())
    }
}

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;
