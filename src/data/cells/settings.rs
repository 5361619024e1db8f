//! How cells become a dataset, and what a model remembers of it.

use super::{GeneChoice, Normalization};
use crate::named::by_name;
use serde::{Deserialize, Serialize};

/// How cells become a dataset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CellSettings {
    /// The column of `obs` that holds every cell's perturbation.
    pub perturbation: Option<String>,
    /// The label of control cells; none for one of the usual ones, such as `control`, `NT` or `non-targeting`.
    pub control: Option<String>,
    /// What separates the genes of a combination; none for `+`.
    pub separator: Option<String>,
    /// The layer to read in place of `X`.
    pub layer: Option<String>,
    /// Which genes become variables; none for targets and the 50 most variable ones.
    pub genes: Option<GeneChoice>,
    /// What is done with counts; none for what suits them.
    #[serde(with = "by_name::optional")]
    pub normalization: Option<Normalization>,
    /// The fewest cells of a perturbation; none for 20.
    pub least_cells: Option<usize>,
}

/// How the cells of a model's data were prepared: other cells must be prepared alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellPreparation {
    /// The column of `obs` with perturbations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perturbation: Option<String>,
    /// The label of controls, if it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// The separator of combinations, if it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separator: Option<String>,
    /// The layer, if it was not `X`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// The fewest cells of a perturbation, if it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_cells: Option<usize>,
    /// The total count that every cell was scaled to before log1p; none if numbers were taken as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<f64>,
}

/// What cells are read for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CellRole<'a> {
    /// To fit a model: settings say which genes become variables.
    Fit,
    /// To start predictions of a model from: its variables, prepared like its data.
    Start(&'a [String], Option<&'a CellPreparation>),
    /// To compare predictions of a model with: the same, without controls.
    Test(&'a [String], Option<&'a CellPreparation>),
}

impl<'a> CellRole<'a> {
    /// The names of the model's variables.
    pub(super) fn names(&self) -> Option<&'a [String]> {
        match *self {
            CellRole::Fit => None,
            CellRole::Start(names, _) | CellRole::Test(names, _) => Some(names),
        }
    }

    /// How the data of the model was prepared.
    pub(super) fn preparation(&self) -> Option<&'a CellPreparation> {
        match *self {
            CellRole::Fit => None,
            CellRole::Start(_, preparation) | CellRole::Test(_, preparation) => preparation,
        }
    }

    pub(super) fn has_controls(&self) -> bool {
        !matches!(self, CellRole::Test(..))
    }
}

impl CellSettings {
    /// These settings, and where they say nothing what the model's data had.
    pub(in crate::data) fn prepared(&self, role: &CellRole<'_>) -> CellPreparation {
        let before = role.preparation().cloned().unwrap_or_default();
        let column = |name: &String| name.strip_prefix("obs:").unwrap_or(name).to_owned();
        CellPreparation {
            perturbation: self.perturbation.as_ref().map(column).or(before.perturbation),
            control: self.control.clone().or(before.control),
            separator: self.separator.clone().or(before.separator),
            layer: self.layer.clone().or(before.layer),
            least_cells: self.least_cells.or(before.least_cells),
            depth: before.depth,
        }
    }
}
