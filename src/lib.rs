//! Learn stationary diffusions from samples.

pub mod data;
mod error;
mod matrix;
pub mod model;
mod output;
mod scalar;

pub use error::{Error, Result};
pub use matrix::Matrix;
pub use scalar::Scalar;
