//! Jobs that evaluate a loss: the same number as from `skds loss`, in f32. They take a moment, so the service evaluates those that
//! wait at the same time together.

mod work;

use super::task::{JointJob, JointTask, Outcome};
use super::{Execution, JointKind, Kind, References, Request};
use crate::fit::LossSettings;
use crate::kernel::{Bandwidth, KernelKind};
use crate::named::by_name;
use crate::objective::{Estimator, Objective};
use crate::serve::domain::estimate::{Estimate, Records};
use crate::serve::domain::id::ContentId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The same loss as from `skds loss`, in f32.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LossRequest {
    /// The model whose parameters are evaluated.
    pub model: ContentId,
    /// The dataset to evaluate on.
    pub dataset: ContentId,
    /// skds or kds. The default of this and the next three settings is what the model's fit used, as its file stores it; if the
    /// file does not store it, the default is skds.
    #[serde(default, with = "by_name::optional")]
    #[schema(value_type = Option<String>)]
    pub objective: Option<Objective>,
    /// rbf, tilted-rbf or imq-plus. The last default is rbf.
    #[serde(default, with = "by_name::optional")]
    #[schema(value_type = Option<String>)]
    pub kernel: Option<KernelKind>,
    /// A number above 0, or "auto". The last default is "auto".
    #[serde(default, with = "by_name::optional")]
    #[schema(value_type = Option<String>)]
    pub bandwidth: Option<Bandwidth>,
    /// linear, u or v. The last default is linear.
    #[serde(default, with = "by_name::optional")]
    #[schema(value_type = Option<String>)]
    pub estimator: Option<Estimator>,
    /// Whether to keep the gradient of every parameter, as gradient.safetensors.
    #[serde(default)]
    pub gradient: bool,
    /// The seed of all random numbers.
    #[serde(default)]
    pub seed: u64,
    /// A part of the name of the device to use; any device if left out.
    #[serde(default)]
    pub device: Option<String>,
}

impl LossRequest {
    /// The settings that the request gives.
    fn settings(&self) -> LossSettings {
        let LossRequest { objective, kernel, bandwidth, estimator, .. } = *self;
        LossSettings { objective, kernel, bandwidth, estimator, as_is: false }
    }
}

impl Kind for LossRequest {
    fn references(&self) -> References<'_> {
        References { dataset: Some(&self.dataset), origin: None, model: Some(&self.model) }
    }

    fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    fn estimate(&self, records: &Records<'_>) -> Estimate {
        let sizes = records.sizes();
        // The model's own estimator is not known yet; V takes most pairs.
        let estimator = self.estimator.unwrap_or(Estimator::V);
        let pairs: f64 = sizes.environments.iter().map(|n| estimator.pairs(*n) as f64).sum();
        let operations = 20.0 * pairs * sizes.d + 4.0 * sizes.rows * sizes.parameters;
        Estimate { bytes: sizes.samples() + 32.0 * sizes.parameters, operations }
    }

    fn execution(&self) -> Execution<'_> {
        Execution::Jointly(self)
    }
}

impl JointKind for LossRequest {
    /// Losses of the same model with the same settings are evaluated together, whatever the data. A gradient is evaluated alone.
    fn joins(&self, other: &Request) -> bool {
        let Request::Loss(other) = other else { return false };
        let same =
            (&self.model, &self.device, self.settings()) == (&other.model, &other.device, other.settings());
        same && !self.gradient && !other.gradient
    }

    fn run_all(&self, jobs: &[JointJob<'_>], task: &dyn JointTask) -> Vec<Outcome> {
        work::evaluate(jobs, task)
    }
}
