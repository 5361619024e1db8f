//! Why the service refuses a request or fails. The sentences go to clients, so they say nothing about the host.

use crate::Error;
use crate::error::shortened;
use crate::stderr::say;
use std::fmt;

/// A request that was refused, or a failure of the service. The HTTP layer gives each variant its status code.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ServiceError {
    /// The request is wrong in itself.
    Invalid(String),
    /// There is no such dataset, model, job or file, or it belongs to somebody else.
    NotFound(&'static str),
    /// The request is well-formed but cannot be carried out: it exceeds a limit or does not fit its data.
    Unprocessable(String),
    /// Too many jobs are waiting.
    TooMany {
        /// Why.
        sentence: String,
        /// Seconds until the client should try again.
        retry_after: u32,
    },
    /// The record of a dataset or model cannot be read by this version.
    UnreadableRecord,
    /// The disk is full.
    DiskFull,
    /// A bug or an I/O error; the log has the details.
    Internal,
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServiceError::Invalid(sentence)
            | ServiceError::Unprocessable(sentence)
            | ServiceError::TooMany { sentence, .. } => f.write_str(sentence),
            ServiceError::NotFound(what) => write!(f, "there is no such {what}"),
            ServiceError::UnreadableRecord => f.write_str(
                "this version of the service cannot read the record of this file: upload it again",
            ),
            ServiceError::DiskFull => f.write_str("the service's disk is full"),
            ServiceError::Internal => f.write_str("the service failed; its log has the details"),
        }
    }
}

impl ServiceError {
    pub(crate) fn invalid(sentence: impl Into<String>) -> Self {
        ServiceError::Invalid(shortened(sentence.into()))
    }

    pub(crate) fn unprocessable(sentence: impl Into<String>) -> Self {
        ServiceError::Unprocessable(shortened(sentence.into()))
    }

    /// Logs the cause of a failure that clients do not see.
    pub(crate) fn logged(cause: impl fmt::Display) -> Self {
        say!("error: {cause}");
        ServiceError::Internal
    }

    /// As an error of the library. There is no conversion by `?`: it would make the types of other code ambiguous.
    pub(crate) fn into_error(self) -> Error {
        Error::invalid(self.to_string())
    }

    fn of_io(source: &std::io::Error, cause: &dyn fmt::Display) -> Self {
        if is_disk_full(source) { ServiceError::DiskFull } else { ServiceError::logged(cause) }
    }
}

/// The sentence for clients: it names no path.
pub(crate) fn public_sentence(error: &Error) -> String {
    match error {
        Error::File { problem, .. } => format!("the file: {problem}"),
        Error::Io { source, .. } if is_disk_full(source) => ServiceError::DiskFull.to_string(),
        Error::Io { .. } => ServiceError::Internal.to_string(),
        other => other.to_string(),
    }
}

pub(crate) fn is_disk_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

impl From<Error> for ServiceError {
    fn from(error: Error) -> Self {
        match &error {
            Error::Io { source, .. } => ServiceError::of_io(source, &error),
            Error::File { .. } | Error::Invalid(_) => ServiceError::invalid(public_sentence(&error)),
            _ => ServiceError::unprocessable(public_sentence(&error)),
        }
    }
}

impl From<std::io::Error> for ServiceError {
    fn from(error: std::io::Error) -> Self {
        ServiceError::of_io(&error, &error)
    }
}
