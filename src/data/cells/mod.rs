//! Single cells become a dataset: cells become rows, genes become variables, and every perturbation becomes an environment.
//!
//! | file | answers |
//! |---|---|
//! | `settings` | how cells become a dataset, and what a model remembers of it |
//! | `table` | cells in memory, dense or sparse |
//! | `source` | the numbers, genes and labels of cells, wherever they are |
//! | `labels` | which variables a perturbation's label names |
//! | `genes` | which genes become variables |
//! | `counts` | whether a matrix holds counts, and their logarithms in units of a cell's total |
//!
//! A matrix is visited as often as needed, and never copied as a whole: only the selected genes are kept.

mod counts;
mod genes;
mod labels;
mod settings;
mod source;
mod table;
#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests;

pub use counts::Normalization;
pub use genes::GeneChoice;
pub use settings::{CellPreparation, CellRole, CellSettings};
pub(in crate::data) use source::{CellMatrix, CellSource, Origin};
pub use table::{CellNumbers, CellPlaces, CellTable, CellValues};

use super::{Dataset, SizeLimits};
use crate::{Matrix, Result};
use counts::Scale;
use genes::Selection;
use labels::{Labels, Perturbation};

/// Perturbations with fewer cells are left out.
const LEAST_CELLS: usize = 20;
/// Labels, genes and columns in a sentence.
const LISTED: usize = 20;

/// A dataset of cells, and what a person should know of how it was made.
#[derive(Clone, Debug)]
pub struct Cells {
    /// Controls first, if there are any, then perturbations in the order of their labels.
    pub data: Dataset,
    /// The label of each environment.
    pub labels: Vec<String>,
    /// For each row of the data, the cell it comes from.
    pub rows: Vec<usize>,
    /// What was read, and what was left out and why, a sentence each.
    pub notes: Vec<String>,
}

impl Dataset {
    /// A dataset of cells in memory.
    ///
    /// ```
    /// use skds::data::Dataset;
    /// use skds::data::cells::{CellNumbers, CellRole, CellSettings, CellTable, CellValues};
    ///
    /// let genes = ["KLF1", "GATA1"].map(String::from);
    /// let labels = ["NT", "KLF1", "NT", "KLF1"].map(String::from);
    /// let values = [2.5f32, 1.0, 0.1, 0.6, 2.0, 1.5, 0.2, 0.4];
    /// let table = CellTable { values: CellValues::Dense(CellNumbers::F32(&values)), genes: &genes, labels: &labels };
    /// let settings = CellSettings { least_cells: Some(2), ..CellSettings::default() };
    /// let cells = Dataset::from_cells(&table, &settings, &CellRole::Fit)?;
    /// assert_eq!(cells.labels, ["control", "KLF1"]);
    /// assert!(cells.data.targets()[(1, 0)]);
    /// # Ok::<(), skds::Error>(())
    /// ```
    pub fn from_cells(table: &CellTable<'_>, settings: &CellSettings, role: &CellRole<'_>) -> Result<Cells> {
        Dataset::from_source(table.source()?, settings, role, &SizeLimits::UNLIMITED)
    }

    /// A dataset of cells from any source.
    pub(in crate::data) fn from_source(
        source: CellSource<'_>,
        settings: &CellSettings,
        role: &CellRole<'_>,
        limits: &SizeLimits,
    ) -> Result<Cells> {
        let CellSource { matrix, genes, labels, origin } = source;
        let fail = |problem: String| origin.error(problem);
        let prepared = settings.prepared(role);
        let labels = Labels::of(labels, &genes, &prepared, role, &origin)?;
        let mut notes = Vec::new();

        // Perturbations whose genes were measured, with enough cells.
        let least = prepared.least_cells.unwrap_or(LEAST_CELLS).max(2);
        let perturbations = labels.usable(&genes, least, role, &mut notes).map_err(fail)?;
        let scale = Scale::of(&matrix, settings.normalization, role, &mut notes)?;
        let selection = Selection::of(settings, role, &matrix, &scale, &genes, &perturbations, &origin)?;
        let perturbations =
            selection.with_variables(perturbations, &genes, role, &mut notes).map_err(fail)?;
        limits.check_variables(selection.columns.len()).map_err(fail)?;

        // Every kept cell has its row: environments lie one after the other.
        let mut offsets = vec![0];
        let mut rows = Vec::new();
        for perturbation in &perturbations {
            rows.extend_from_slice(&perturbation.cells);
            offsets.push(rows.len());
        }
        let (n, d) = (rows.len(), selection.columns.len());
        limits.check_bytes("numbers", n.saturating_mul(d), 8).map_err(fail)?;
        crate::bounds::room(8.0 * n as f64 * d as f64, || format!("{n} cells of {d} genes"))?;
        let samples = extract(&matrix, &rows, &selection.columns, &scale)?;
        let names: Vec<String> = selection.columns.iter().map(|&j| genes[j].clone()).collect();
        super::check_names(&names, d).map_err(|problem| fail(format!("var: {problem}")))?;
        let targets = Matrix::from_fn(perturbations.len(), d, |e, j| {
            perturbations[e].genes.contains(&selection.columns[j])
        });
        notes.insert(0, summary(&perturbations, n, d));
        let labels = perturbations.into_iter().map(|perturbation| perturbation.label).collect();
        let prepared = CellPreparation { depth: scale.depth(), ..prepared };
        let data = Dataset { samples, offsets, targets, names, cells: Some(prepared) };
        Ok(Cells { data, labels, rows, notes })
    }
}

/// The chosen columns of some cells.
fn extract(
    matrix: &CellMatrix<'_>,
    cells: &[usize],
    columns: &[usize],
    scale: &Scale,
) -> Result<Matrix<f64>> {
    let mut row_of = vec![None; matrix.cells()];
    cells.iter().enumerate().for_each(|(row, &cell)| row_of[cell] = Some(row));
    let mut place_of = vec![None; matrix.genes()];
    columns.iter().enumerate().for_each(|(place, &j)| place_of[j] = Some(place));
    let mut samples = Matrix::full(cells.len(), columns.len(), 0.0);
    matrix.visit(|cell, gene, value| {
        if let (Some(row), Some(place)) = (row_of[cell], place_of[gene]) {
            // Duplicate entries of a sparse matrix add up.
            samples[(row, place)] += value;
        }
    })?;
    for (row, &cell) in cells.iter().enumerate() {
        samples.row_mut(row).iter_mut().for_each(|value| *value = scale.apply(cell, *value));
    }
    Ok(samples)
}

fn summary(perturbations: &[Perturbation], cells: usize, genes: usize) -> String {
    let controls = perturbations.iter().filter(|perturbation| perturbation.genes.is_empty());
    let controls: usize = controls.map(|perturbation| perturbation.cells.len()).sum();
    let others = perturbations.iter().filter(|perturbation| !perturbation.genes.is_empty()).count();
    format!(
        "Read {cells} cells of {}: {}, and {}.",
        counted(genes, "gene"),
        counted(controls, "control"),
        counted(others, "perturbation")
    )
}

/// "1 cell", "2 cells".
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The first few of some names, quoted.
pub(in crate::data) fn listed<'a>(names: impl Iterator<Item = &'a str>, count: usize) -> String {
    let first: Vec<String> = names.take(LISTED).map(|name| format!("'{name:.60}'")).collect();
    match count.saturating_sub(LISTED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
