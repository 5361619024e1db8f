//! What clients are told when something is wrong: a sentence that says nothing about the host.

use crate::Error;
use crate::error::shortened;
use crate::stderr::say;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// A refused request.
#[derive(Debug)]
pub struct Problem {
    pub status: StatusCode,
    pub sentence: String,
    /// Seconds after which to try again.
    pub retry_after: Option<u32>,
}

/// The body of every refusal.
#[derive(Serialize, utoipa::ToSchema)]
pub struct Refusal {
    /// What was found and what was expected.
    pub error: String,
}

impl Problem {
    pub fn new(status: StatusCode, sentence: impl Into<String>) -> Self {
        Problem { status, sentence: shortened(sentence.into()), retry_after: None }
    }

    pub fn bad(sentence: impl Into<String>) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, sentence)
    }

    pub fn unknown(what: &str) -> Self {
        Problem::new(StatusCode::NOT_FOUND, format!("there is no such {what}"))
    }

    pub fn too_large(found: impl std::fmt::Display, most: u64) -> Self {
        let sentence = format!("the body has {found} bytes, expected at most {most}");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, sentence)
    }

    pub fn internal() -> Self {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the service failed; its log says more")
    }

    /// Of a dataset or model whose record is not as it should be.
    pub fn unreadable() -> Self {
        let sentence =
            "what is on record of this file cannot be read by this version of the service: upload it again";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, sentence)
    }

    pub fn disk_full() -> Self {
        Problem::new(StatusCode::INSUFFICIENT_STORAGE, "the service's disk is full")
    }
}

/// A sentence for clients: paths stay here.
pub fn sentence_of(error: &Error) -> String {
    match error {
        Error::File { problem, .. } => format!("the file: {problem}"),
        Error::Io { source, .. } if is_full(source) => Problem::disk_full().sentence,
        Error::Io { .. } => Problem::internal().sentence,
        other => other.to_string(),
    }
}

pub fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match &error {
            Error::Io { source, .. } => source_problem(source, &error.to_string()),
            Error::File { .. } | Error::Invalid(_) => Problem::bad(sentence_of(&error)),
            _ => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, sentence_of(&error)),
        }
    }
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        source_problem(&error, &error.to_string())
    }
}

fn source_problem(source: &std::io::Error, said: &str) -> Problem {
    if is_full(source) {
        return Problem::disk_full();
    }
    say!("error: {said}");
    Problem::internal()
}

impl From<rusqlite::Error> for Problem {
    fn from(error: rusqlite::Error) -> Self {
        if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) {
            return Problem::disk_full();
        }
        // Of a dataset or model that was removed between a look and a change.
        if error == rusqlite::Error::QueryReturnedNoRows {
            return Problem::unknown("dataset or model");
        }
        say!("error: {error}");
        Problem::internal()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(Refusal { error: self.sentence })).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
