//! Cells in memory, dense or sparse, borrowed from whoever has them.

use super::source::{CellMatrix, CellSource, Origin};
use crate::{Error, Result};

/// Cells in memory.
#[derive(Clone, Copy, Debug)]
pub struct CellTable<'a> {
    /// Cells × genes.
    pub values: CellValues<'a>,
    /// The names of the genes.
    pub genes: &'a [String],
    /// The perturbation of each cell; empty where it is unknown.
    pub labels: &'a [String],
}

/// The numbers of a matrix of cells and genes.
#[derive(Clone, Copy, Debug)]
pub enum CellValues<'a> {
    /// One cell after the other.
    Dense(CellNumbers<'a>),
    /// Only the numbers that are not 0: of one cell after the other (csr) or of one gene after the other (csc).
    Sparse {
        /// Whether lines are cells.
        by_cells: bool,
        /// Where each line begins, and where the last one ends.
        starts: CellPlaces<'a>,
        /// The place of each number in its line.
        indices: CellPlaces<'a>,
        /// The numbers.
        values: CellNumbers<'a>,
    },
}

/// Numbers of either precision.
#[derive(Clone, Copy, Debug)]
pub enum CellNumbers<'a> {
    /// In single precision.
    F32(&'a [f32]),
    /// In double precision.
    F64(&'a [f64]),
}

/// Places of either width.
#[derive(Clone, Copy, Debug)]
pub enum CellPlaces<'a> {
    /// Of 32 bits.
    I32(&'a [i32]),
    /// Of 64 bits.
    I64(&'a [i64]),
}

impl CellNumbers<'_> {
    fn len(&self) -> usize {
        match self {
            CellNumbers::F32(values) => values.len(),
            CellNumbers::F64(values) => values.len(),
        }
    }

    fn at(&self, k: usize) -> f64 {
        match self {
            CellNumbers::F32(values) => values[k].into(),
            CellNumbers::F64(values) => values[k],
        }
    }
}

impl CellPlaces<'_> {
    fn len(&self) -> usize {
        match self {
            CellPlaces::I32(places) => places.len(),
            CellPlaces::I64(places) => places.len(),
        }
    }

    /// None for a negative place.
    fn at(&self, k: usize) -> Option<usize> {
        match self {
            CellPlaces::I32(places) => usize::try_from(places[k]).ok(),
            CellPlaces::I64(places) => usize::try_from(places[k]).ok(),
        }
    }
}

impl<'a> CellTable<'a> {
    /// The table with its sizes checked.
    pub(super) fn source(&self) -> Result<CellSource<'a>> {
        let (cells, genes) = (self.labels.len(), self.genes.len());
        let matrix = TableMatrix { values: self.values, cells, genes };
        matrix.check()?;
        Ok(CellSource {
            matrix: CellMatrix::Table(matrix),
            genes: self.genes.to_vec(),
            labels: self.labels.to_vec(),
            origin: Origin { path: None, column: "the column of perturbations".into() },
        })
    }
}

/// The numbers of a table, and its sizes.
pub(in crate::data) struct TableMatrix<'a> {
    values: CellValues<'a>,
    pub(super) cells: usize,
    pub(super) genes: usize,
}

impl TableMatrix<'_> {
    fn check(&self) -> Result<()> {
        let TableMatrix { values, cells, genes } = self;
        match values {
            CellValues::Dense(values) => {
                let expected = cells.checked_mul(*genes);
                match expected == Some(values.len()) {
                    true => Ok(()),
                    false => Err(Error::invalid(format!(
                        "the matrix has {} numbers, expected {cells} × {genes}: one for each label and each gene",
                        values.len()
                    ))),
                }
            }
            CellValues::Sparse { by_cells, starts, indices, values } => {
                let lines = if *by_cells { *cells } else { *genes };
                let rising = || (1..starts.len()).all(|k| starts.at(k - 1) <= starts.at(k));
                let whole = starts.len() == lines + 1 && starts.at(0) == Some(0) && rising();
                match whole && starts.at(lines) == Some(values.len()) && indices.len() == values.len() {
                    true => Ok(()),
                    false => Err(Error::invalid(format!(
                        "the sparse matrix has {} numbers, {} indices and {} lines, expected as many indices as numbers and {lines} lines, one for \
                         each {}",
                        values.len(),
                        indices.len(),
                        starts.len().saturating_sub(1),
                        if *by_cells { "label" } else { "gene" }
                    ))),
                }
            }
        }
    }

    pub(super) fn visit(&self, mut visit: impl FnMut(usize, usize, f64)) -> Result<()> {
        match self.values {
            CellValues::Dense(values) => {
                for cell in 0..self.cells {
                    for gene in 0..self.genes {
                        let value = values.at(cell * self.genes + gene);
                        if value != 0.0 {
                            check(cell, gene, value)?;
                            visit(cell, gene, value);
                        }
                    }
                }
            }
            CellValues::Sparse { by_cells, starts, indices, values } => {
                let (lines, width) =
                    if by_cells { (self.cells, self.genes) } else { (self.genes, self.cells) };
                for line in 0..lines {
                    let ends = (starts.at(line), starts.at(line + 1));
                    let (Some(first), Some(end)) = ends else { continue };
                    for k in first..end {
                        let Some(at) = indices.at(k).filter(|at| *at < width) else {
                            return Err(Error::invalid(format!(
                                "the sparse matrix has an index beyond its size in line {line}, expected indices below {width}"
                            )));
                        };
                        let value = values.at(k);
                        if value != 0.0 {
                            let (cell, gene) = if by_cells { (line, at) } else { (at, line) };
                            check(cell, gene, value)?;
                            visit(cell, gene, value);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

fn check(cell: usize, gene: usize, value: f64) -> Result<()> {
    match value.is_finite() {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "the matrix holds {value} at cell {cell}, gene {gene}, expected a finite number"
        ))),
    }
}
