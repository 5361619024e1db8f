//! From a file to environments: samples, names and intervention targets.
//!
//! A [`Dataset`] holds the samples of all environments in one matrix, environment after environment,
//! each in the order of the file: the `linear` estimator pairs neighbouring rows, so order matters.
//!
//! An `.npz` file holds `x` (N × d, float32 or float64) and optionally `env` (N integers from 0), `targets`
//! (E × d, 1 where a variable is intervened on; required with several environments) and `names` (d strings).
//!
//! A `.csv` file has a header, one column per variable and optionally a column `env` (or `Env`, `ENV`); the targets are a
//! second file with the same variables in any order, one row per environment, and optionally a column `env`.
//!
//! Sizes are checked before anything of that size is allocated, against what the file really holds and, if the reader is
//! given [`Most`], against that.

mod bounded;
mod csv;
mod npy;
mod npz;
mod standardize;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use csv::{outline as outline_of_csv, width as width_of_csv};
pub use standardize::Standardization;
pub(crate) use write::{Array, Format, write_arrays};

use crate::{Error, Matrix, Result};
use std::collections::HashSet;
use std::fs::File;
use std::io;
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

/// How much a data file may hold. What has more is refused as soon as that is known, before it is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    /// Variables.
    pub variables: usize,
    /// Bytes that the samples take in memory, 8 for each number; the names may take as many, and so may the targets.
    pub bytes: u64,
}

impl Most {
    /// As much as there is.
    pub const ANY: Most = Most { variables: usize::MAX, bytes: u64::MAX };

    fn check_variables(&self, found: usize) -> std::result::Result<(), String> {
        match found > self.variables {
            true => Err(format!("has {found} variables, expected at most {}", self.variables)),
            false => Ok(()),
        }
    }

    /// Checks `count` things of `size` bytes each.
    fn check_bytes(&self, what: &str, count: usize, size: u64) -> std::result::Result<(), String> {
        match (count as u64).checked_mul(size) {
            Some(bytes) if bytes <= self.bytes => Ok(()),
            _ => Err(format!("has {count} {what} of {size} bytes, expected at most {} bytes", self.bytes)),
        }
    }
}

impl Default for Most {
    fn default() -> Self {
        Most::ANY
    }
}

/// Rows and variables of an .npz file, before anything else is read of it.
pub(crate) fn shape_of_npz(path: &Path) -> Result<(usize, usize)> {
    npz::shape(path, open(path)?)
}

/// What a reader found in a file: every entry checked by itself, the environments not yet gathered.
struct Raw {
    /// Rows in file order.
    samples: Matrix<f64>,
    /// The environment of each row, below the number of rows of `targets`; empty means all rows are in one.
    env: Vec<usize>,
    /// One row per environment, true where a variable is intervened on.
    targets: Matrix<bool>,
    names: Vec<String>,
}

impl Dataset {
    /// Reads an `.npz` or `.csv` file; `targets` is the second file of the csv form.
    pub fn read(path: &Path, targets: Option<&Path>) -> Result<Dataset> {
        Dataset::read_within(path, targets, &Most::ANY)
    }

    /// As [`read`](Self::read), but what holds more than `most` is refused.
    pub fn read_within(path: &Path, targets: Option<&Path>, most: &Most) -> Result<Dataset> {
        let file = open(path)?;
        let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
        let raw = match (extension.as_deref(), targets) {
            (Some("npz"), None) => npz::read(path, file, most)?,
            (Some("csv"), targets) => csv::read(path, file, targets, most)?,
            (Some("npz"), Some(targets)) => {
                let problem = "a separate targets file goes with .csv data only, \
                               expected the array `targets` inside the .npz file";
                return Err(Error::file(targets, problem));
            }
            (Some(other), _) => {
                return Err(Error::file(path, format!("has the extension .{other}, expected .npz or .csv")));
            }
            (None, _) => return Err(Error::file(path, "has no extension, expected .npz or .csv")),
        };
        raw.gather().map_err(|problem| Error::file(path, problem))
    }

    /// Takes one matrix of samples per environment, all with the same columns; no variable is a target.
    ///
    /// Variables are called x0, x1, … until [`with_names`](Self::with_names) says otherwise.
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

    /// The names of the variables.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

impl Raw {
    /// Brings the rows of each environment together, keeping their order.
    fn gather(self) -> std::result::Result<Dataset, String> {
        let Raw { samples, env, targets, names } = self;
        let (rows, dim, environments) = (samples.rows(), samples.cols(), targets.rows());
        let mut offsets = vec![0; environments + 1];
        if env.is_empty() {
            offsets[1] = rows;
        }
        // First the number of rows of each environment, then the sums.
        env.iter().for_each(|&e| offsets[e + 1] += 1);
        for e in 0..environments {
            check_rows(e, offsets[e + 1])?;
            offsets[e + 1] += offsets[e];
        }
        // Files are mostly in order already; then the samples, by far the largest part, need no second copy.
        let samples = if env.is_sorted() {
            samples
        } else {
            let mut next = offsets.clone();
            let mut gathered = Matrix::full(rows, dim, 0.0);
            for (i, &e) in env.iter().enumerate() {
                gathered.row_mut(next[e]).copy_from_slice(samples.row(i));
                next[e] += 1;
            }
            gathered
        };
        Ok(Dataset { samples, offsets, targets, names })
    }
}

/// Opens a file for reading; a folder is refused here because reading it would fail with less of a reason.
fn open(path: &Path) -> Result<File> {
    let fail = |source| Error::Io { action: "read", path: path.into(), source };
    let file = File::open(path).map_err(fail)?;
    if file.metadata().map_err(fail)?.is_dir() {
        return Err(fail(io::Error::new(io::ErrorKind::IsADirectory, "is a directory, expected a file")));
    }
    Ok(file)
}

/// Fewer than two rows say nothing about a distribution, and the estimators divide by the number of pairs.
fn check_rows(e: usize, count: usize) -> std::result::Result<(), String> {
    match count {
        0 => Err(format!("environment {e} has no rows, expected at least 2")),
        1 => Err(format!("environment {e} has 1 row, expected at least 2")),
        _ => Ok(()),
    }
}

/// Names of variables are distinct and not empty, wherever they come from.
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

/// What variables are called if nobody named them.
pub(crate) fn default_names(dim: usize) -> Vec<String> {
    (0..dim).map(|j| format!("x{j}")).collect()
}
