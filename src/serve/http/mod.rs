//! The HTTP side of the service: routes, requests and responses, and the OpenAPI document.

pub(super) mod connections;
mod datasets;
mod error;
mod jobs;
mod metrics;
mod openapi;
mod page;
mod system;
mod uploads;

use crate::serve::domain::client::{Client, network_of};
use crate::serve::domain::token_guesses::WrongToken;
use crate::serve::run::service::Service;
use axum::extract::rejection::QueryRejection;
use axum::extract::{ConnectInfo, Query, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use error::ApiError;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

type Shared = State<Arc<Service>>;
type Answer<T> = std::result::Result<T, ApiError>;
/// The client, as [`authorise`] found it.
type FromClient = Extension<Client>;

/// The most items of a page of a list.
const LONGEST_LIST: usize = 1000;
/// The default number of items.
const USUAL_LIST: usize = 50;

/// The number of items of a page.
fn list_length(limit: Option<usize>) -> Answer<usize> {
    match limit.unwrap_or(USUAL_LIST) {
        limit if (1..=LONGEST_LIST).contains(&limit) => Ok(limit),
        limit if limit > LONGEST_LIST => {
            Err(ApiError::invalid(format!("limit is {limit}, expected at most {LONGEST_LIST}")))
        }
        limit => Err(ApiError::invalid(format!("limit is {limit}, expected at least 1"))),
    }
}

/// The parameters in an address.
fn query<T>(query: std::result::Result<Query<T>, QueryRejection>) -> Answer<T> {
    query.map(|Query(found)| found).map_err(|error| ApiError::invalid(error.body_text()))
}

/// All routes of the service.
pub(super) fn router(service: Arc<Service>) -> Router {
    let guarded = Router::new()
        .route("/v1/datasets", post(datasets::upload).get(datasets::list))
        .route("/v1/datasets/{id}", get(datasets::show))
        .route("/v1/models", post(datasets::upload_model))
        .route("/v1/models/{id}", get(datasets::show_model))
        .route("/v1/jobs", post(jobs::submit).get(jobs::list))
        .route("/v1/jobs/{id}", get(jobs::show))
        .route("/v1/jobs/{id}/cancel", post(jobs::cancel))
        .route("/v1/jobs/{id}/events", get(jobs::events))
        .route("/v1/jobs/{id}/files/{name}", get(jobs::file))
        .route("/v1/devices", get(system::devices))
        .route("/v1/openapi.json", get(system::openapi))
        .route("/metrics", get(system::metrics))
        .layer(middleware::from_fn_with_state(service.clone(), authorise));
    Router::new()
        .route("/healthz", get(system::health))
        .merge(page::routes())
        .merge(guarded)
        .fallback(|| async { ApiError::UnknownPath })
        .method_not_allowed_fallback(|| async { ApiError::WrongMethod })
        .layer(middleware::from_fn_with_state(service.clone(), count))
        .with_state(service)
}

/// Admits clients with a token, and remembers who they are. Without tokens it admits everyone on this machine, but not another
/// site's page in a browser on this machine.
async fn authorise(State(service): Shared, mut request: Request, next: Next) -> Response {
    let address = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let address =
        address.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(address)| network_of(*address));
    let mut client = Client { token_name: None, token_hash: None, address };
    if service.tokens.are_needed() {
        match check_token(&service, request.headers(), address).await {
            Ok((name, hash)) => (client.token_name, client.token_hash) = (Some(name), Some(hash)),
            Err(error) => return error.into_response(),
        }
    } else if !is_from_here(request.headers()) {
        return ApiError::ForeignOrigin.into_response();
    }
    request.extensions_mut().insert(client);
    next.run(request).await
}

/// The name and the hash of the token in a request. Every wrong token delays the next answer.
async fn check_token(service: &Service, headers: &HeaderMap, address: IpAddr) -> Answer<(String, [u8; 32])> {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer ")).map_or("", str::trim);
    if given.is_empty() {
        // Not a guess: the page starts without a token.
        return Err(ApiError::WrongToken);
    }
    match service.tokens.name_of(given) {
        Some((name, hash)) => match service.token_guesses.admits(address, &hash, Instant::now()) {
            Ok(()) => Ok((name, hash)),
            Err(wait) => Err(ApiError::TooManyWrongTokens { wait }),
        },
        None => match service.token_guesses.wrong(address, Instant::now()) {
            WrongToken::Refuse(delay) => {
                tokio::time::sleep(delay).await;
                Err(ApiError::WrongToken)
            }
            WrongToken::TooMany(wait) => Err(ApiError::TooManyWrongTokens { wait }),
        },
    }
}

/// Whether a request names this machine as its host, in a way that no other server can imitate, and does not come from another
/// site's page.
fn is_from_here(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    let Some(host) = text(header::HOST) else { return false };
    let local = match (host.parse::<SocketAddr>(), host.split_once(':').map_or(host, |(name, _)| name)) {
        (Ok(address), _) => address.ip().is_loopback(),
        (_, "localhost") => true,
        (_, name) => name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()),
    };
    local && text(header::ORIGIN).is_none_or(|origin| origin.strip_prefix("http://") == Some(host))
}

/// Counts requests, and adds the headers for browsers to every response.
async fn count(State(service): Shared, request: Request, next: Next) -> Response {
    service.metrics.requests.fetch_add(1, Ordering::Relaxed);
    let mut response = next.run(request).await;
    if response.status().is_client_error() {
        service.metrics.refused.fetch_add(1, Ordering::Relaxed);
    }
    let headers = response.headers_mut();
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("content-security-policy", page::POLICY),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_token_only_this_machine_and_its_own_page_may_ask() {
        let asks = |host: Option<&'static str>, origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
                value.map(|value| headers.insert(name, HeaderValue::from_static(value)));
            }
            is_from_here(&headers)
        };
        for host in ["127.0.0.1:8765", "127.0.0.1", "localhost:8765", "localhost", "[::1]:8765"] {
            assert!(asks(Some(host), None), "{host}");
        }
        assert!(asks(Some("localhost:8765"), Some("http://localhost:8765")));
        // A name that somebody made resolve to this machine, another site, another port of this machine, a sandbox.
        assert!(!asks(Some("evil.example:8765"), None));
        assert!(!asks(Some("127.0.0.1.evil.example"), None));
        for origin in ["http://evil.example", "http://localhost:3000", "https://localhost:8765", "null"] {
            assert!(!asks(Some("localhost:8765"), Some(origin)), "{origin}");
        }
        assert!(!asks(None, None));
    }
}
