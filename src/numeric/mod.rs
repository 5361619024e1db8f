//! Numbers and what is computed with them, whatever they mean: matrices, their products and factorizations, vector code,
//! tasks, statistics.

pub(crate) mod dense;
pub(crate) mod matmul;
mod matrix;
mod scalar;
pub(crate) mod simd;
pub(crate) mod statistics;
pub(crate) mod tasks;

pub use matrix::Matrix;
pub use scalar::Scalar;
