//! What the service is about, as values: requests and jobs, identities, limits, estimates and errors. This layer knows neither
//! SQL nor HTTP.

pub mod client;
pub mod error;
pub mod estimate;
pub mod id;
pub mod info;
pub mod job;
pub mod kinds;
pub mod limits;
pub mod token_guesses;

use std::time::{SystemTime, UNIX_EPOCH};

/// The time, in seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
