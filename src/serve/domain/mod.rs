//! What the service is about, as values: requests and jobs, identities, limits, estimates and errors. This layer knows neither
//! SQL nor HTTP.

pub(super) mod client;
pub(super) mod error;
pub(super) mod estimate;
pub(super) mod id;
pub(super) mod info;
pub(super) mod job;
pub(super) mod kinds;
pub(super) mod limits;
pub(super) mod token_guesses;

use std::time::{SystemTime, UNIX_EPOCH};

/// The time, in seconds since 1970.
pub(super) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
