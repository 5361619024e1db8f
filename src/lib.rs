//! Learn stationary diffusions from samples.

pub mod cli;
pub mod data;
pub mod engine;
mod error;
pub mod kernel;
mod matrix;
pub mod model;
pub mod objective;
mod output;
mod scalar;

pub use error::{Error, Result};
pub use matrix::Matrix;
pub use scalar::Scalar;
