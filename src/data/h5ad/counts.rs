//! Counts, and their logarithms in units of a cell's total.
//!
//! A cell's counts depend on how deeply it was sequenced. Divided by its size factor, its total over the median total of all
//! cells, they do not; log(1 + x) then makes effects additive and noise more equal. Both are done once at most: numbers that are not whole
//! have been normalised before.

use super::matrix::CellMatrix;
use crate::named::named;
use crate::{Error, Result};

/// What is done with counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Normalization {
    /// Size factors and log1p where the matrix holds counts; nothing otherwise.
    #[default]
    Auto,
    /// Size factors and log1p; an error if the matrix does not hold counts.
    Log1p,
    /// Nothing.
    None,
}

named!(Normalization, "normalization", { Auto => "auto", Log1p => "log1p", None => "none" });

/// What is done with every number.
pub(super) struct Scale {
    /// The size factor of each cell; none if numbers stay as they are.
    factors: Option<Vec<f64>>,
}

impl Scale {
    pub(super) fn of(
        matrix: &CellMatrix<'_>,
        asked: Normalization,
        notes: &mut Vec<String>,
    ) -> Result<Scale> {
        if asked == Normalization::None {
            return Ok(Scale { factors: None });
        }
        let mut totals = vec![0.0; matrix.cells()];
        let mut other: Option<(usize, usize, f64)> = None;
        let mut largest = 0.0f64;
        matrix.visit(|cell, gene, value| {
            totals[cell] += value;
            largest = largest.max(value);
            if (value < 0.0 || value.fract() != 0.0) && other.is_none() {
                other = Some((cell, gene, value));
            }
        })?;
        match (other, asked) {
            (Some((cell, gene, value)), Normalization::Log1p) => Err(Error::invalid(format!(
                "{} holds {value} at cell {cell}, gene {gene}, expected counts to normalise: it has been normalised before",
                matrix.place()
            ))),
            (Some(_), _) => {
                notes.push(format!("{} does not hold counts and was taken as it is.", matrix.place()));
                Ok(Scale { factors: None })
            }
            // Whether something was perturbed, as 0 and 1, is no count of molecules.
            (None, Normalization::Auto) if largest <= 1.0 => Ok(Scale { factors: None }),
            (None, _) => {
                notes.push(format!(
                    "{} holds counts: they were divided by size factors, and x became log(1 + x).",
                    matrix.place()
                ));
                Ok(Scale { factors: Some(size_factors(&totals)) })
            }
        }
    }

    /// A cell's number.
    pub(super) fn apply(&self, cell: usize, value: f64) -> f64 {
        self.factors.as_ref().map_or(value, |factors| (value / factors[cell]).ln_1p())
    }
}

/// Totals over the median of those above 0; 1 for cells without any counts.
fn size_factors(totals: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = totals.iter().copied().filter(|total| *total > 0.0).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median = match sorted.len() {
        0 => 1.0,
        length if length % 2 == 1 => sorted[middle],
        _ => 0.5 * (sorted[middle - 1] + sorted[middle]),
    };
    totals.iter().map(|total| if *total > 0.0 { total / median } else { 1.0 }).collect()
}
