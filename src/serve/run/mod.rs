//! What runs jobs: the service itself, its queue, its workers and their processes.

pub mod arriving;
pub mod cache;
pub mod child;
pub mod clean;
pub mod deaths;
pub mod estimate;
pub mod events;
pub mod health;
pub mod metrics;
pub mod process;
pub mod queue;
pub mod reading;
pub mod service;
pub mod watch;
pub mod work;
pub mod worker;
