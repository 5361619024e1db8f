//! Jobs that fit a model to a dataset.

mod estimate;
mod work;

use super::task::{JobOutput, Task};
use super::{Execution, Kind, ProcessKind, References};
use crate::fit::{self, Knowledge, check_resamples};
use crate::model::LawKind;
use crate::model::basis::FeatureChoice;
use crate::serve::domain::error::ServiceError;
use crate::serve::domain::estimate::{Estimate, Records};
use crate::serve::domain::id::ContentId;
use crate::serve::domain::limits::Limits;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The same fit as `skds fit`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FitRequest {
    /// The dataset to fit.
    pub dataset: ContentId,
    /// Settings under the names that a settings file of `skds fit` has. Settings that are left out keep their defaults.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub settings: Box<fit::Settings>,
    /// Prior knowledge of effects: objects with source, target, kind (required, forbidden or candidate) and optionally weight, at
    /// most one per pair of variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub edges: Vec<fit::Edge>,
    /// The number of resamples for an interval of every effect (exact solver only).
    #[serde(default)]
    pub bootstrap: Option<usize>,
    /// A part of the name of the device to use; any device if left out.
    #[serde(default)]
    pub device: Option<String>,
}

impl Kind for FitRequest {
    fn check(&self) -> Result<(), ServiceError> {
        let recipe = self.settings.settle()?;
        if let Some(resamples) = self.bootstrap {
            if recipe.solver.adam().is_some() {
                return Err(ServiceError::invalid(
                    "bootstrap is given with the solver adam, expected the exact solver",
                ));
            }
            if recipe.solver.rival().is_some() {
                return Err(ServiceError::invalid(
                    "bootstrap is given with a method, expected a diffusion for it",
                ));
            }
            // The memory for all resamples is part of the estimate.
            check_resamples(resamples, 0.0)?;
        }
        // No text of a client becomes a path.
        if matches!(self.settings.features, Some(FeatureChoice::File(_))) {
            return Err(ServiceError::invalid(
                "features are a file, expected polynomial:K or rbf:K: a service reads no files of its clients",
            ));
        }
        Ok(())
    }

    fn references(&self) -> References<'_> {
        References { dataset: Some(&self.dataset), ..References::default() }
    }

    fn check_against(&self, records: &Records<'_>, _limits: &Limits) -> Result<(), ServiceError> {
        if let Some(data) = records.dataset {
            Knowledge::check(&data.variables, &self.edges)?;
        }
        Ok(())
    }

    fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    fn estimate(&self, records: &Records<'_>) -> Estimate {
        estimate::estimate(self, &records.sizes())
    }

    fn execution(&self) -> Execution<'_> {
        Execution::InProcess(self)
    }

    fn summary(request: &Value) -> String {
        let settings = &request["settings"];
        let text = |name: &str| settings[name].as_str().unwrap_or("");
        let kds = text("objective") == "kds";
        let how = match (text("model"), text("solver")) {
            ("mlp", _) => "MLP",
            ("basis", _) => "given functions",
            (_, "adam") => "linear by Adam",
            _ if kds => "linear by Adam",
            _ => "automatic",
        };
        format!("{how}{}", if kds { ", KDS" } else { "" })
    }

    /// Every setting of a fit with its default. No single fit has all of them.
    fn default_settings() -> Option<Value> {
        let settled = |given: fit::Settings| {
            given.settle().map(|recipe| recipe.to_settings()).expect("defaults settle")
        };
        let of_form = |model| settled(fit::Settings { model: Some(model), ..fit::Settings::default() });
        let adam = fit::Settings { solver: Some(fit::SolverChoice::Adam), ..fit::Settings::default() };
        let rest = fit::Settings {
            solver: Some(fit::SolverChoice::Auto),
            estimator: Some(fit::EstimatorChoice::Auto),
            law: Some(LawKind::Diffusion),
            ..settled(fit::Settings::default())
        };
        let all = of_form(fit::ModelKind::Mlp)
            .overlaid(of_form(fit::ModelKind::Basis))
            .overlaid(settled(adam))
            .overlaid(rest);
        Some(serde_json::to_value(all).expect("settings serialise"))
    }
}

impl ProcessKind for FitRequest {
    fn run(&self, task: &Task<'_>) -> crate::Result<JobOutput> {
        work::run(task, self)
    }
}
