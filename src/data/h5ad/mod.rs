//! Single cells from `.h5ad` files, as anndata writes them: cells become rows, genes become variables, and every perturbation
//! becomes an environment.
//!
//! | file | answers |
//! |---|---|
//! | `store` | strings, columns and attributes of the file, and errors that name what there is |
//! | `matrix` | the numbers of `X` or a layer, dense or sparse, in blocks |
//! | `labels` | which variables a perturbation's label names |
//! | `genes` | which genes become variables |
//! | `counts` | whether a matrix holds counts, and their logarithms in units of a cell's total |
//! | `write` | a dataset as an `.h5ad` file |
//!
//! A matrix is read in blocks, as often as needed, and never as a whole: only the selected genes are kept in memory.

mod counts;
mod genes;
mod labels;
mod matrix;
mod store;
#[cfg(test)]
mod tests;
mod write;

pub use counts::Normalization;
pub use genes::GeneChoice;
pub(super) use write::write;

use super::{Dataset, SizeLimits};
use crate::{Error, Matrix, Result};
use counts::Scale;
use genes::Selection;
use labels::{Labels, Perturbation};
use matrix::CellMatrix;
use std::path::Path;
use store::Store;

/// Perturbations with fewer cells are left out.
const LEAST_CELLS: usize = 20;
/// Labels, genes and columns in a sentence.
const LISTED: usize = 20;

/// How the cells of an `.h5ad` file become a dataset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CellSettings {
    /// The column of `obs` that holds every cell's perturbation.
    pub perturbation: Option<String>,
    /// The label of control cells; none for one of the usual ones, such as `control`, `NT` or `non-targeting`.
    pub control: Option<String>,
    /// What separates the genes of a combination; none for `+`.
    pub separator: Option<String>,
    /// The layer to read in place of `X`.
    pub layer: Option<String>,
    /// Which genes become variables.
    pub genes: GeneChoice,
    /// What is done with counts.
    pub normalization: Normalization,
    /// The fewest cells of a perturbation; none for 20.
    pub least_cells: Option<usize>,
}

/// A dataset of cells, and what a person should know of how it was made.
#[derive(Clone, Debug)]
pub struct Cells {
    /// Controls first, then perturbations in the order of their labels.
    pub data: Dataset,
    /// The label of each environment.
    pub labels: Vec<String>,
    /// What was read, and what was left out and why, a sentence each.
    pub notes: Vec<String>,
}

impl Dataset {
    /// Reads the cells of an `.h5ad` file.
    pub fn read_cells(path: impl AsRef<Path>, settings: &CellSettings) -> Result<Cells> {
        Dataset::read_cells_within(path.as_ref(), settings, &SizeLimits::UNLIMITED)
    }

    /// The same, but refuses what exceeds `limits`.
    pub(crate) fn read_cells_within(
        path: &Path,
        settings: &CellSettings,
        limits: &SizeLimits,
    ) -> Result<Cells> {
        let store = Store::open(path)?;
        let matrix = CellMatrix::open(&store, settings.layer.as_deref())?;
        let genes = store.index("var", matrix.genes())?;
        let labels = Labels::read(&store, settings, matrix.cells())?;
        let mut notes = Vec::new();

        // Perturbations whose genes were measured, with enough cells.
        let least = settings.least_cells.unwrap_or(LEAST_CELLS).max(2);
        let perturbations =
            labels.usable(&genes, least, &mut notes).map_err(|problem| store.error(problem))?;
        let scale = Scale::of(&matrix, settings.normalization, &mut notes)?;
        let selection = Selection::of(&settings.genes, &matrix, &scale, &genes, &perturbations)
            .map_err(|problem| problem.at(&store))?;
        let perturbations = selection.with_variables(perturbations, &genes, &mut notes);
        limits.check_variables(selection.columns.len()).map_err(|problem| store.error(problem))?;

        // Every kept cell has its row: environments lie one after the other.
        let mut offsets = vec![0];
        let mut row_of: Vec<Option<usize>> = vec![None; matrix.cells()];
        let mut next = 0;
        for perturbation in &perturbations {
            for &cell in &perturbation.cells {
                row_of[cell] = Some(next);
                next += 1;
            }
            offsets.push(next);
        }
        let d = selection.columns.len();
        limits.check_bytes("numbers", next.saturating_mul(d), 8).map_err(|problem| store.error(problem))?;
        crate::bounds::room(8.0 * next as f64 * d as f64, || format!("{next} cells of {d} genes"))?;
        let samples = matrix.extract(&row_of, next, &selection.columns, &scale)?;
        let names: Vec<String> = selection.columns.iter().map(|&j| genes[j].clone()).collect();
        super::check_names(&names, d).map_err(|problem| store.error(format!("var: {problem}")))?;
        let targets = Matrix::from_fn(perturbations.len(), d, |e, j| {
            perturbations[e].genes.contains(&selection.columns[j])
        });
        notes.insert(0, summary(&perturbations, next, d));
        let labels = perturbations.into_iter().map(|perturbation| perturbation.label).collect();
        Ok(Cells { data: Dataset { samples, offsets, targets, names }, labels, notes })
    }
}

fn summary(perturbations: &[Perturbation], cells: usize, genes: usize) -> String {
    let controls = perturbations.iter().filter(|perturbation| perturbation.genes.is_empty());
    let controls: usize = controls.map(|perturbation| perturbation.cells.len()).sum();
    let others = perturbations.iter().filter(|perturbation| !perturbation.genes.is_empty()).count();
    format!("Read {cells} cells of {genes} genes: {controls} controls, and {others} perturbations.")
}

/// The first few of some names, quoted.
fn listed<'a>(names: impl Iterator<Item = &'a str>, count: usize) -> String {
    let first: Vec<String> = names.take(LISTED).map(|name| format!("'{name:.60}'")).collect();
    match count.saturating_sub(LISTED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// A problem that is the file's, or one that has its own error.
enum Problem {
    OfFile(String),
    Other(Error),
}

impl Problem {
    fn at(self, store: &Store) -> Error {
        match self {
            Problem::OfFile(problem) => store.error(problem),
            Problem::Other(error) => error,
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Problem::Other(error)
    }
}
