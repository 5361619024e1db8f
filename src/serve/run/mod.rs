//! What runs jobs: the service itself, its queue, its workers and their processes.

mod cache;
mod cleaning;
mod crashes;
mod health;
pub mod intake;
pub mod job_process;
mod life_cycle;
pub mod live;
pub mod metrics;
mod process;
mod protocol;
pub mod queue;
pub mod read_cost;
pub mod service;
mod trial;
pub mod upload_budget;
mod worker;

#[cfg(test)]
mod tests;

pub use cleaning::keep_cleaning;
