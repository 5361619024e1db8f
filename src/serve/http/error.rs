//! Refusals as HTTP responses. Every status code of a refusal is chosen here.

use crate::Error;
use crate::serve::domain::error::ServiceError;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::time::Duration;

/// A request that is not answered as it asks.
#[derive(Debug)]
pub(super) enum ApiError {
    /// The service refuses it, or fails.
    Service(ServiceError),
    /// It has no valid token.
    WrongToken,
    /// Its address has sent too many wrong tokens.
    TooManyWrongTokens {
        /// For how long the address is refused.
        wait: Duration,
    },
    /// It names another host, or comes from another site's page.
    ForeignOrigin,
    /// There is nothing at its path.
    UnknownPath,
    /// The path does not support its method.
    WrongMethod,
    /// Its body arrives too slowly.
    Slow(String),
    /// Its body is too large.
    TooLarge { most: u64 },
}

/// The body of every refusal.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct Refusal {
    /// What was found and what was expected.
    pub error: String,
}

impl ApiError {
    pub(super) fn invalid(sentence: impl Into<String>) -> Self {
        ApiError::Service(ServiceError::invalid(sentence))
    }

    pub(super) fn internal() -> Self {
        ApiError::Service(ServiceError::Internal)
    }

    fn status(&self) -> StatusCode {
        match self {
            ApiError::Service(ServiceError::Invalid(_)) => StatusCode::BAD_REQUEST,
            ApiError::Service(ServiceError::NotFound(_)) | ApiError::UnknownPath => StatusCode::NOT_FOUND,
            ApiError::Service(ServiceError::Unprocessable(_)) => StatusCode::UNPROCESSABLE_ENTITY,
            ApiError::Service(ServiceError::TooMany { .. }) | ApiError::TooManyWrongTokens { .. } => {
                StatusCode::TOO_MANY_REQUESTS
            }
            ApiError::Service(ServiceError::DiskFull) => StatusCode::INSUFFICIENT_STORAGE,
            ApiError::Service(ServiceError::UnreadableRecord | ServiceError::Internal) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            ApiError::WrongToken => StatusCode::UNAUTHORIZED,
            ApiError::ForeignOrigin => StatusCode::FORBIDDEN,
            ApiError::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            ApiError::Slow(_) => StatusCode::REQUEST_TIMEOUT,
            ApiError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }

    fn sentence(&self) -> String {
        match self {
            ApiError::Service(error) => error.to_string(),
            ApiError::WrongToken => {
                "the token is missing or wrong, expected 'Authorization: Bearer TOKEN'".into()
            }
            ApiError::TooManyWrongTokens { .. } => {
                "too many wrong tokens came from this address: try again later".into()
            }
            ApiError::ForeignOrigin => {
                "the request names another host or comes from another site's page, expected this \
                                        machine's own: other hosts need a service with a token"
                    .into()
            }
            ApiError::UnknownPath => "there is no such address".into(),
            ApiError::WrongMethod => "this address does not support this method".into(),
            ApiError::Slow(found) => format!("{found}, expected it to arrive faster"),
            ApiError::TooLarge { most } => {
                format!("the body has more than {most} bytes, expected at most {most}")
            }
        }
    }

    fn retry_after(&self) -> Option<u32> {
        match self {
            ApiError::Service(ServiceError::TooMany { retry_after, .. }) => Some(*retry_after),
            ApiError::TooManyWrongTokens { wait } => Some(wait.as_secs() as u32 + 1),
            _ => None,
        }
    }
}

impl From<ServiceError> for ApiError {
    fn from(error: ServiceError) -> Self {
        ApiError::Service(error)
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        ApiError::Service(error.into())
    }
}

impl From<std::io::Error> for ApiError {
    fn from(error: std::io::Error) -> Self {
        ApiError::Service(error.into())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status(), axum::Json(Refusal { error: self.sentence() })).into_response();
        if let Some(seconds) = self.retry_after() {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
