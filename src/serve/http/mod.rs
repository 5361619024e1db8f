//! The way in: HTTP.

mod datasets;
mod jobs;
pub mod listen;
mod openapi;
mod page;
mod uploads;
mod various;

pub(in crate::serve) use datasets::look;
pub use openapi::document;

use crate::serve::domain::attempts::Verdict;
use crate::serve::domain::problem::Problem;
use crate::serve::domain::who::{Who, counted};
use crate::serve::run::service::Service;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

type Shared = State<Arc<Service>>;
type Answer<T> = std::result::Result<T, Problem>;
/// Who asks, as [`authorise`] found.
type Asks = Extension<Who>;

/// The longest part of a list.
const LONGEST_LIST: usize = 1000;
/// The length of a part of a list if nothing is said.
const USUAL_LIST: usize = 50;

/// The length of a part of a list.
fn list_length(limit: Option<usize>) -> Answer<usize> {
    match limit.unwrap_or(USUAL_LIST) {
        limit if (1..=LONGEST_LIST).contains(&limit) => Ok(limit),
        limit if limit > LONGEST_LIST => {
            Err(Problem::bad(format!("limit is {limit}, expected at most {LONGEST_LIST}")))
        }
        limit => Err(Problem::bad(format!("limit is {limit}, expected at least 1"))),
    }
}

/// Everything that a service answers to.
pub fn router(service: Arc<Service>) -> Router {
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
        .route("/v1/devices", get(various::devices))
        .route("/v1/openapi.json", get(various::openapi))
        .route("/metrics", get(various::metrics))
        .layer(middleware::from_fn_with_state(service.clone(), authorise));
    Router::new()
        .route("/healthz", get(various::health))
        .merge(page::routes())
        .merge(guarded)
        .fallback(|| async { Problem::unknown("address") })
        .method_not_allowed_fallback(|| async {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "the address knows other methods only")
        })
        .layer(middleware::from_fn_with_state(service.clone(), count))
        .with_state(service)
}

/// Lets those in who know a token, and remembers who they are. Without tokens whoever is on this machine may come in, but not a
/// page from elsewhere in a browser on this machine.
async fn authorise(State(service): Shared, mut request: Request, next: Next) -> Response {
    let address = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let address = address.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(address)| counted(*address));
    let mut who = Who { token: None, secret: None, address };
    if service.tokens.are_needed() {
        match known(&service, request.headers(), address).await {
            Ok((name, secret)) => (who.token, who.secret) = (Some(name), Some(secret)),
            Err(problem) => return problem.into_response(),
        }
    } else if !is_from_here(request.headers()) {
        let sentence = "the request names another host or comes from another page, expected this machine's own: \
                        others need a service with a token";
        return Problem::new(StatusCode::FORBIDDEN, sentence).into_response();
    }
    request.extensions_mut().insert(who);
    next.run(request).await
}

/// The name and the hash of the token in a request. Wrong ones are answered later and later.
async fn known(service: &Service, headers: &HeaderMap, address: IpAddr) -> Answer<(String, [u8; 32])> {
    let wrong = || {
        let sentence = "the token is missing or wrong, expected 'Authorization: Bearer TOKEN'";
        Problem::new(StatusCode::UNAUTHORIZED, sentence)
    };
    let too_many = |left: Duration| Problem {
        status: StatusCode::TOO_MANY_REQUESTS,
        sentence: "too many wrong tokens came from this address: try again later".into(),
        retry_after: Some(left.as_secs() as u32 + 1),
    };
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer ")).map_or("", str::trim);
    if given.is_empty() {
        // No attempt at guessing one: the page begins like this.
        return Err(wrong());
    }
    match service.tokens.name_of(given) {
        Some((name, secret)) => match service.attempts.admits(address, &secret, Instant::now()) {
            Ok(()) => Ok((name, secret)),
            Err(left) => Err(too_many(left)),
        },
        None => match service.attempts.wrong(address, Instant::now()) {
            Verdict::Refuse(after) => {
                tokio::time::sleep(after).await;
                Err(wrong())
            }
            Verdict::TooMany(left) => Err(too_many(left)),
        },
    }
}

/// Whether the host is this machine, by a name that no other server can give it, and the page, if one asks, is our own.
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

/// Counts, and adds what browsers should know of every answer.
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

/// A body that is small enough, as JSON.
async fn parsed<T: serde::de::DeserializeOwned>(service: &Service, body: Body) -> Answer<T> {
    parse(&uploads::collect(body, service.limits).await?)
}

/// What a body says.
pub(in crate::serve) fn parse<T: serde::de::DeserializeOwned>(body: &[u8]) -> Answer<T> {
    serde_json::from_slice(body).map_err(|error| Problem::bad(format!("the body is no request: {error}")))
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
        // A name that was made to lead here, another page, another port of this machine, a sandbox.
        assert!(!asks(Some("evil.example:8765"), None));
        assert!(!asks(Some("127.0.0.1.evil.example"), None));
        for origin in ["http://evil.example", "http://localhost:3000", "https://localhost:8765", "null"] {
            assert!(!asks(Some("localhost:8765"), Some(origin)), "{origin}");
        }
        assert!(!asks(None, None));
    }
}
