//! What runs jobs: the service itself, its queue, its workers and their processes.

mod cache;
mod cleaning;
mod crashes;
mod health;
pub(super) mod intake;
pub(super) mod job_process;
mod life_cycle;
pub(super) mod live;
pub(super) mod metrics;
mod process;
mod protocol;
pub(super) mod queue;
pub(super) mod read_cost;
pub(super) mod service;
mod trial;
pub(super) mod upload_budget;
mod worker;

#[cfg(test)]
mod tests;

pub(super) use cleaning::keep_cleaning;
