//! From a file to environments: samples, names and intervention targets.
//!
//! A [`Dataset`] holds the samples of all environments in one matrix, environment after environment,
//! each in the order of the file: the `linear` estimator pairs neighbouring rows, so order matters.

mod csv;
mod npz;

use crate::{Error, Matrix, Result};
use std::ops::Range;
use std::path::Path;

/// Samples of a system in one or more environments.
#[derive(Clone, Debug)]
pub struct Dataset {
    samples: Matrix<f64>,
    offsets: Vec<usize>,
    targets: Matrix<bool>,
    names: Vec<String>,
}

/// What a reader found in a file, before it is checked as a whole.
struct Raw {
    /// Rows in file order.
    samples: Matrix<f64>,
    /// The environment of each row; `None` when the file names none.
    env: Option<Vec<i64>>,
    /// One row per environment, 1 where a variable is intervened on.
    targets: Option<Matrix<f64>>,
    names: Option<Vec<String>>,
}
