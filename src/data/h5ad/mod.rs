//! `.h5ad` files, as anndata writes them.
//!
//! | file | answers |
//! |---|---|
//! | `store` | strings, columns and attributes of the file, and errors that name what there is |
//! | `matrix` | the numbers of `X` or a layer, dense or sparse, in blocks |
//! | `write` | a dataset as an `.h5ad` file |
//!
//! What cells mean is up to [`cells`](super::cells).

mod matrix;
mod store;
#[cfg(test)]
mod tests;
mod write;

pub(super) use matrix::FileMatrix;
pub(super) use write::write;

use super::cells::{CellMatrix, CellRole, CellSettings, CellSource, Cells, Origin, listed};
use super::{Dataset, SizeLimits};
use crate::panics::caught;
use crate::{Error, Result};
use std::path::Path;
use store::Store;

impl Dataset {
    /// Reads the cells of an `.h5ad` file to fit a model.
    pub fn read_cells(path: impl AsRef<Path>, settings: &CellSettings) -> Result<Cells> {
        Dataset::read_cells_within(path.as_ref(), settings, &CellRole::Fit, None, &SizeLimits::UNLIMITED)
    }

    /// Reads the cells of an `.h5ad` file for a [role](CellRole).
    pub fn read_cells_for(
        path: impl AsRef<Path>,
        settings: &CellSettings,
        role: &CellRole<'_>,
    ) -> Result<Cells> {
        Dataset::read_cells_within(path.as_ref(), settings, role, None, &SizeLimits::UNLIMITED)
    }

    /// Reads the numbers of an `.h5ad` file whose genes and labels are already in memory, because a program has changed them there.
    pub fn read_labelled_cells(
        path: impl AsRef<Path>,
        genes: &[String],
        labels: &[String],
        settings: &CellSettings,
        role: &CellRole<'_>,
    ) -> Result<Cells> {
        let known = Some((genes, labels));
        Dataset::read_cells_within(path.as_ref(), settings, role, known, &SizeLimits::UNLIMITED)
    }

    /// The same, but refuses what exceeds `limits`. Genes and labels that are `known` are not read.
    pub(crate) fn read_cells_within(
        path: &Path,
        settings: &CellSettings,
        role: &CellRole<'_>,
        known: Option<(&[String], &[String])>,
        limits: &SizeLimits,
    ) -> Result<Cells> {
        // Where the reader of HDF5 panics, a file is damaged in a way that it does not expect.
        caught(|| Dataset::read_store(path, settings, role, known, limits))
            .unwrap_or_else(|panic| Err(Error::file(path, format!("is damaged: {panic}"))))
    }

    fn read_store(
        path: &Path,
        settings: &CellSettings,
        role: &CellRole<'_>,
        known: Option<(&[String], &[String])>,
        limits: &SizeLimits,
    ) -> Result<Cells> {
        let store = Store::open(path)?;
        let prepared = settings.prepared(role);
        let matrix = FileMatrix::open(&store, prepared.layer.as_deref())?;
        let (genes, labels, column) = match known {
            Some((genes, labels)) => {
                check_count(&store, "genes", genes.len(), matrix.genes())?;
                (genes.to_vec(), labels.to_vec(), "the column of perturbations".to_owned())
            }
            None => {
                let genes = store.index("var", matrix.genes())?;
                let Some(column) = &prepared.perturbation else {
                    return Err(no_column(&store)?);
                };
                (genes, store.column("obs", column)?, format!("obs/{column}"))
            }
        };
        check_count(&store, "labels", labels.len(), matrix.cells())?;
        let origin = Origin { path: Some(path.into()), column };
        let source = CellSource { matrix: CellMatrix::File(matrix), genes, labels, origin };
        Dataset::from_source(source, settings, role, limits)
    }
}

fn no_column(store: &Store) -> Result<Error> {
    let columns = store.members("obs")?;
    let (list, count) = (columns.iter().map(String::as_str), columns.len());
    Ok(Error::invalid(format!(
        "no column of perturbations is given for {}, expected one of {}",
        store.path().display(),
        listed(list, count)
    )))
}

fn check_count(store: &Store, what: &str, found: usize, expected: usize) -> Result<()> {
    match found == expected {
        true => Ok(()),
        false => Err(store.error(format!("has {found} {what}, expected {expected} as in the matrix"))),
    }
}
