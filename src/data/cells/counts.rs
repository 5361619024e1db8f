//! Counts, and their logarithms in units of a cell's total.
//!
//! A cell's counts depend on how deeply it was sequenced. Divided by its size factor, its total over the median total of all
//! cells, they do not; log(1 + x) then makes effects additive and noise more equal. Both are done once at most: numbers that are not whole
//! have been normalised before.

use super::CellRole;
use super::source::CellMatrix;
use crate::named::named;
use crate::numeric::statistics::median;
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
    /// The total of a cell with the factor 1.
    depth: Option<f64>,
}

impl Scale {
    /// Cells for a model are treated like the data of its fit, unless something else is asked for.
    pub(super) fn of(
        matrix: &CellMatrix<'_>,
        given: Option<Normalization>,
        role: &CellRole<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Scale> {
        let depth = role.preparation().and_then(|before| before.depth);
        let asked = match (given, role, depth) {
            (Some(asked), ..) => asked,
            (None, CellRole::Fit, _) => Normalization::Auto,
            (None, _, Some(_)) => Normalization::Log1p,
            (None, _, None) => Normalization::None,
        };
        // Cells for a model whose data was taken as it is are looked at all the same: raw counts would be something else.
        let looks = given.is_none() && *role != CellRole::Fit;
        if asked == Normalization::None && !looks {
            return Ok(Scale { factors: None, depth: None });
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
            (None, Normalization::None) if largest > 1.0 => {
                notes.push(format!(
                    "Warning: {} holds counts, but the model's data was not normalised when it was read. It was taken as it is.",
                    matrix.place()
                ));
                Ok(Scale { factors: None, depth: None })
            }
            (_, Normalization::None) => Ok(Scale { factors: None, depth: None }),
            (Some((cell, gene, value)), Normalization::Log1p) => Err(Error::invalid(format!(
                "{} holds {value} at cell {cell}, gene {gene}, expected counts to normalise: it has been normalised before",
                matrix.place()
            ))),
            (Some(_), _) => {
                notes.push(format!(
                    "{} does not hold counts and was taken as it is.",
                    sentence(matrix.place())
                ));
                Ok(Scale { factors: None, depth: None })
            }
            // Whether something was perturbed, as 0 and 1, is no count of molecules.
            (None, Normalization::Auto) if largest <= 1.0 => Ok(Scale { factors: None, depth: None }),
            (None, _) => {
                let depth = depth.unwrap_or_else(|| median_depth(&totals));
                notes.push(format!(
                    "{} holds counts: every cell was scaled to {depth} counts, and x became log(1 + x).",
                    sentence(matrix.place())
                ));
                let factor = |total: &f64| if *total > 0.0 { total / depth } else { 1.0 };
                Ok(Scale { factors: Some(totals.iter().map(factor).collect()), depth: Some(depth) })
            }
        }
    }

    /// A cell's number.
    pub(super) fn apply(&self, cell: usize, value: f64) -> f64 {
        self.factors.as_ref().map_or(value, |factors| (value / factors[cell]).ln_1p())
    }

    /// The total that cells were scaled to, if they were.
    pub(super) fn depth(&self) -> Option<f64> {
        self.depth
    }
}

/// A name at the beginning of a sentence.
fn sentence(place: &str) -> String {
    let mut letters = place.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// The median of totals above 0.
fn median_depth(totals: &[f64]) -> f64 {
    let above: Vec<f64> = totals.iter().copied().filter(|total| *total > 0.0).collect();
    if above.is_empty() { 1.0 } else { median(&above) }
}
