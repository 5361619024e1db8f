//! The numbers, genes and labels of cells, wherever they are.

use super::table::TableMatrix;
#[cfg(feature = "h5ad")]
use crate::data::h5ad::FileMatrix;
use crate::{Error, Result};
use std::path::PathBuf;

/// Cells: their numbers, the names of their genes, and the label of each cell.
pub(in crate::data) struct CellSource<'a> {
    pub matrix: CellMatrix<'a>,
    pub genes: Vec<String>,
    pub labels: Vec<String>,
    pub origin: Origin,
}

/// Where cells come from, for sentences.
pub(in crate::data) struct Origin {
    /// The file, if there is one.
    pub path: Option<PathBuf>,
    /// The column of labels, as sentences name it.
    pub column: String,
}

impl Origin {
    pub(in crate::data) fn error(&self, problem: impl Into<String>) -> Error {
        match &self.path {
            Some(path) => Error::file(path, problem),
            None => Error::invalid(format!("the cells: {}", problem.into())),
        }
    }
}

/// The numbers of cells.
pub(in crate::data) enum CellMatrix<'a> {
    Table(TableMatrix<'a>),
    #[cfg(feature = "h5ad")]
    File(FileMatrix<'a>),
}

impl CellMatrix<'_> {
    pub(super) fn cells(&self) -> usize {
        match self {
            CellMatrix::Table(table) => table.cells,
            #[cfg(feature = "h5ad")]
            CellMatrix::File(file) => file.cells(),
        }
    }

    pub(super) fn genes(&self) -> usize {
        match self {
            CellMatrix::Table(table) => table.genes,
            #[cfg(feature = "h5ad")]
            CellMatrix::File(file) => file.genes(),
        }
    }

    /// What the matrix is called in sentences.
    pub(super) fn place(&self) -> &str {
        match self {
            CellMatrix::Table(_) => "the matrix",
            #[cfg(feature = "h5ad")]
            CellMatrix::File(file) => file.place(),
        }
    }

    /// Calls `visit` with every number that is not 0, its cell and its gene. A number that is not finite is an error.
    pub(super) fn visit(&self, visit: impl FnMut(usize, usize, f64)) -> Result<()> {
        match self {
            CellMatrix::Table(table) => table.visit(visit),
            #[cfg(feature = "h5ad")]
            CellMatrix::File(file) => file.visit(visit),
        }
    }
}
