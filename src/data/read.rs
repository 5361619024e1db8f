//! Reads a data file of either form, by its extension.

use super::{Dataset, SizeLimits, check_rows, csv, npz};
use crate::{Error, Matrix, Result};
use std::fs::File;
use std::io;
use std::path::Path;

impl Dataset {
    /// Reads an `.npz` file, or a `.csv` file with one environment.
    ///
    /// A `.csv` file with several environments has its targets in a second file: use
    /// [`read_with_targets`](Self::read_with_targets).
    pub fn read(path: impl AsRef<Path>) -> Result<Dataset> {
        Dataset::read_within(path.as_ref(), None, &SizeLimits::UNLIMITED)
    }

    /// Reads a `.csv` file and the `.csv` file of its targets, whose columns must name the same variables.
    pub fn read_with_targets(data: impl AsRef<Path>, targets: impl AsRef<Path>) -> Result<Dataset> {
        Dataset::read_within(data.as_ref(), Some(targets.as_ref()), &SizeLimits::UNLIMITED)
    }

    /// Reads data of either form, with the file of its targets if there is one.
    pub(crate) fn read_files(data: &Path, targets: Option<&Path>) -> Result<Dataset> {
        Dataset::read_within(data, targets, &SizeLimits::UNLIMITED)
    }

    /// Reads the file `path`, and the file of its targets if there is one, but refuses what exceeds `limits`.
    pub fn read_within(path: &Path, targets: Option<&Path>, limits: &SizeLimits) -> Result<Dataset> {
        let file = open(path)?;
        let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
        let raw = match (extension.as_deref(), targets) {
            (Some("npz"), None) => npz::read(path, file, limits)?,
            (Some("csv"), targets) => csv::read(path, file, targets, limits)?,
            (Some("npz"), Some(targets)) => {
                let problem = "a separate targets file goes with .csv data only, \
                               expected the array `targets` inside the .npz file";
                return Err(Error::file(targets, problem));
            }
            (Some("h5ad"), _) => {
                let problem = "holds cells, expected .npz or .csv here: cells are read with the column of their perturbations";
                return Err(Error::file(path, problem));
            }
            (Some(other), _) => {
                return Err(Error::file(path, format!("has the extension .{other}, expected .npz or .csv")));
            }
            (None, _) => return Err(Error::file(path, "has no extension, expected .npz or .csv")),
        };
        raw.gather().map_err(|problem| Error::file(path, problem))
    }
}

/// The numbers of rows and variables of an .npz file, from its header alone.
pub(crate) fn shape_of_npz(path: &Path) -> Result<(usize, usize)> {
    npz::shape(path, open(path)?)
}

/// What a file holds: every entry is checked, but the rows of each environment are not yet brought together.
pub(super) struct Raw {
    /// Rows in file order.
    pub(super) samples: Matrix<f64>,
    /// The environment of each row, below the number of rows of `targets`; empty means all rows are in one.
    pub(super) env: Vec<usize>,
    /// One row per environment, true where a variable is intervened on.
    pub(super) targets: Matrix<bool>,
    pub(super) names: Vec<String>,
}

impl Raw {
    /// Brings the rows of each environment together, keeping their order.
    pub(super) fn gather(self) -> std::result::Result<Dataset, String> {
        let Raw { samples, env, targets, names } = self;
        let (rows, dim, environments) = (samples.rows(), samples.cols(), targets.rows());
        let mut offsets = vec![0; environments + 1];
        if env.is_empty() {
            offsets[1] = rows;
        }
        // First the number of rows of each environment, then their running sum.
        env.iter().for_each(|&e| offsets[e + 1] += 1);
        for e in 0..environments {
            check_rows(e, offsets[e + 1])?;
            offsets[e + 1] += offsets[e];
        }
        // Most files are in order already. Then the samples, by far the largest part, need no second copy.
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
        Ok(Dataset { samples, offsets, targets, names, cells: None })
    }
}

/// Opens a file for reading. A folder is refused here because the error of reading one would not say why.
pub(super) fn open(path: &Path) -> Result<File> {
    let fail = |source| Error::Io { action: "read", path: path.into(), source };
    let file = File::open(path).map_err(fail)?;
    if file.metadata().map_err(fail)?.is_dir() {
        return Err(fail(io::Error::new(io::ErrorKind::IsADirectory, "is a directory, expected a file")));
    }
    Ok(file)
}
