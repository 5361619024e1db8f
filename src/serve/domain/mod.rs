//! What the service speaks of: requests, identities, limits, needs, refusals. Values only: no SQL, no HTTP.

pub mod attempts;
pub mod describe;
pub mod id;
pub mod limits;
pub mod message;
pub mod need;
pub mod problem;
pub mod request;
pub mod who;
