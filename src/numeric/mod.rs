//! Numerical building blocks: matrices, their products and factorizations, vector code, random numbers, parallel tasks, statistics.

mod convert;
pub(crate) mod dense;
pub(crate) mod matmul;
mod matrix;
pub(crate) mod normals;
mod scalar;
pub(crate) mod simd;
pub(crate) mod statistics;
pub(crate) mod tasks;

pub use matrix::Matrix;
pub use scalar::Scalar;
