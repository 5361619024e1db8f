//! The GPU engine.
pub mod compose;
pub mod shared;
pub mod stages;
