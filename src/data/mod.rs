//! Data files and the [`Dataset`] they hold: samples, variable names and intervention targets.
//!
//! A [`Dataset`] keeps the samples of all environments in one matrix, environment after environment, each in the order
//! of the file. The order matters: the `linear` estimator pairs neighbouring rows.
//!
//! An `.npz` file holds `x` (N × d, float32 or float64). It may also hold `env` (N integers from 0), `targets` (E × d, 1
//! where the environment intervenes on the variable; required with several environments) and `names` (d strings).
//!
//! A `.csv` file has a header, one column per variable and optionally a column `env` (or `Env`, `ENV`). The targets are a
//! second file with the same variables in any order, one row per environment, and optionally a column `env`.
//!
//! ```
//! use skds::Matrix;
//! use skds::data::Dataset;
//! # let folder = tempfile::tempdir().unwrap();
//! # let (csv, npz) = (folder.path().join("cells.csv"), folder.path().join("cells.npz"));
//! // Environment 0 is observational, environment 1 intervenes on the second variable.
//! let observed = Matrix::from_rows(2, 2, vec![0.1, -0.4, 0.9, 0.2]);
//! let intervened = Matrix::from_rows(2, 2, vec![0.3, 5.2, -0.2, 4.9]);
//! let data = Dataset::from_environments(vec![observed, intervened])?
//!     .with_targets(Matrix::from_rows(2, 2, vec![false, false, false, true]))?
//!     .with_names(vec!["mek".into(), "erk".into()])?;
//! data.write(&npz)?;
//! data.write(&csv)?;
//!
//! let from_npz = Dataset::read(&npz)?;
//! let from_csv = Dataset::read_with_targets(&csv, Dataset::targets_beside(&csv))?;
//! assert_eq!(from_npz.samples(), from_csv.samples());
//! assert_eq!(from_npz.targets(), from_csv.targets());
//! # Ok::<(), skds::Error>(())
//! ```
//!
//! [`Dataset::from_cells`] makes a dataset of single [`cells`] in memory. With the feature `h5ad`, `Dataset::read_cells` reads
//! them from `.h5ad` files.
//!
//! A reader checks every size against what the file really holds, and against the given [`SizeLimits`], before it
//! allocates memory of that size.

// A size that a file gives must not change on its way into memory.
#![warn(clippy::cast_possible_truncation)]

mod bounded;
pub mod cells;
mod csv;
#[cfg(feature = "h5ad")]
mod h5ad;
mod limits;
mod npy;
mod npz;
mod read;
mod standardize;
mod table;
#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests;
mod write;

pub(crate) use csv::{outline as outline_of_csv, width as width_of_csv};
pub use limits::SizeLimits;
pub(crate) use read::shape_of_npz;
pub use standardize::Standardization;
pub(crate) use write::{Array, DataFormat, write_arrays};

use crate::{Error, Matrix, Result};
use cells::CellPreparation;
use std::collections::HashSet;
use std::ops::Range;

/// Samples of a system in one or more environments.
#[derive(Clone, Debug)]
pub struct Dataset {
    samples: Matrix<f64>,
    offsets: Vec<usize>,
    targets: Matrix<bool>,
    names: Vec<String>,
    /// How cells became this data, if it comes from cells.
    cells: Option<CellPreparation>,
}

impl Dataset {
    /// A dataset of one matrix of samples per environment, all with the same columns.
    ///
    /// No variable is a target until [`with_targets`](Self::with_targets) sets some, and the variables are called x0, x1, …
    /// until [`with_names`](Self::with_names) names them.
    pub fn from_environments(environments: Vec<Matrix<f64>>) -> Result<Dataset> {
        let Some(first) = environments.first() else {
            return Err(Error::invalid("found no environments, expected at least one"));
        };
        let dim = first.cols();
        if dim == 0 {
            return Err(Error::invalid("environment 0 has 0 columns, expected at least one"));
        }
        let mut offsets = vec![0];
        for (e, samples) in environments.iter().enumerate() {
            if samples.cols() != dim {
                let problem = format!(
                    "environment {e} has {} columns, expected {dim} like environment 0",
                    samples.cols()
                );
                return Err(Error::invalid(problem));
            }
            check_rows(e, samples.rows()).map_err(Error::Invalid)?;
            if let Some(at) = samples.as_slice().iter().position(|v| !v.is_finite()) {
                let (value, row, column) = (samples.as_slice()[at], at / dim, at % dim);
                let problem = format!(
                    "environment {e} holds {value} at row {row}, column {column}, expected a finite number"
                );
                return Err(Error::invalid(problem));
            }
            offsets.push(offsets[e] + samples.rows());
        }
        let count = environments.len();
        let rows = offsets[count];
        let mut data = Vec::with_capacity(rows * dim);
        // Each matrix is freed as soon as it is copied.
        environments.into_iter().for_each(|samples| data.extend_from_slice(samples.as_slice()));
        Ok(Dataset {
            samples: Matrix::from_rows(rows, dim, data),
            offsets,
            targets: Matrix::full(count, dim, false),
            names: default_names(dim),
            cells: None,
        })
    }

    /// Sets which variables are intervened on: one row per environment, one column per variable.
    pub fn with_targets(mut self, targets: Matrix<bool>) -> Result<Self> {
        let (found, expected) = ([targets.rows(), targets.cols()], [self.environments(), self.dim()]);
        if found != expected {
            return Err(Error::invalid(format!("targets have shape {found:?}, expected {expected:?}")));
        }
        self.targets = targets;
        Ok(self)
    }

    /// Sets the names of the variables: distinct and not empty.
    pub fn with_names(mut self, names: Vec<String>) -> Result<Self> {
        check_names(&names, self.dim()).map_err(Error::Invalid)?;
        self.names = names;
        Ok(self)
    }

    /// The samples of environment `e` as a matrix of their own.
    pub fn environment(&self, e: usize) -> Matrix<f64> {
        let rows = self.rows(e);
        Matrix::from_rows(rows.len(), self.dim(), self.samples.rows_slice(rows).to_vec())
    }

    /// The mean of every variable in environment `e`.
    pub fn means(&self, e: usize) -> Vec<f64> {
        let rows = self.rows(e);
        let mut sums = vec![0.0; self.dim()];
        for i in rows.clone() {
            sums.iter_mut().zip(self.samples.row(i)).for_each(|(sum, value)| *sum += value);
        }
        sums.iter().map(|sum| sum / rows.len() as f64).collect()
    }

    /// The samples of all environments, environment after environment.
    pub fn samples(&self) -> &Matrix<f64> {
        &self.samples
    }

    /// The number of environments.
    pub fn environments(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The rows of [`samples`](Self::samples) that belong to environment `e`.
    pub fn rows(&self, e: usize) -> Range<usize> {
        self.offsets[e]..self.offsets[e + 1]
    }

    /// Where each environment's rows begin, and last the number of rows: one entry more than environments.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// The number of variables.
    pub fn dim(&self) -> usize {
        self.samples.cols()
    }

    /// Environments × variables: whether the environment intervenes on the variable.
    pub fn targets(&self) -> &Matrix<bool> {
        &self.targets
    }

    /// The first environment that intervenes on nothing.
    pub fn observational(&self) -> Option<usize> {
        (0..self.environments()).find(|&e| !self.targets.row(e).contains(&true))
    }

    /// Notes how cells became this data.
    pub fn with_cells(mut self, cells: CellPreparation) -> Self {
        self.cells = Some(cells);
        self
    }

    /// How cells became this data, if it comes from cells.
    pub fn cells(&self) -> Option<&CellPreparation> {
        self.cells.as_ref()
    }

    /// The names of the variables.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// The estimators divide by the number of pairs, so an environment needs at least two rows.
fn check_rows(e: usize, count: usize) -> std::result::Result<(), String> {
    match count {
        0 => Err(format!("environment {e} has no rows, expected at least 2")),
        1 => Err(format!("environment {e} has 1 row, expected at least 2")),
        _ => Ok(()),
    }
}

/// Checks that there is one name per variable, and that names are distinct and not empty.
pub(crate) fn check_names(names: &[String], dim: usize) -> std::result::Result<(), String> {
    if names.len() != dim {
        return Err(format!("found {} names, expected {dim}, one per variable", names.len()));
    }
    let mut seen = HashSet::new();
    for (j, name) in names.iter().enumerate() {
        if name.is_empty() {
            return Err(format!("the name of variable {j} is empty, expected some text"));
        }
        if !seen.insert(name) {
            return Err(format!(
                "the name `{name:.100}` appears twice, expected every variable to have its own"
            ));
        }
    }
    Ok(())
}

/// The place of `name` among the names of variables, or an error that lists the known ones.
pub(crate) fn position_of(names: &[String], name: &str) -> Result<usize> {
    names.iter().position(|known| known == name).ok_or_else(|| {
        let mut known = names.iter().take(20).map(String::as_str).collect::<Vec<_>>().join(", ");
        if names.len() > 20 {
            known.push_str(", …");
        }
        Error::invalid(format!("unknown variable '{name}', expected one of {known}"))
    })
}

/// The names of variables that have none of their own.
pub(crate) fn default_names(dim: usize) -> Vec<String> {
    (0..dim).map(|j| format!("x{j}")).collect()
}
