//! Jobs that evaluate a loss: the same number as from `skds loss`, in f32. They take a moment, so the service evaluates those that
//! wait at the same time together.

mod work;

use super::task::{JointJob, JointTask, Outcome};
use super::{Execution, JointKind, Kind, References, Request};
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
    /// skds or kds.
    #[serde(default = "skds", with = "by_name")]
    #[schema(value_type = String)]
    pub objective: Objective,
    /// rbf, tilted-rbf or imq-plus.
    #[serde(default = "rbf", with = "by_name")]
    #[schema(value_type = String)]
    pub kernel: KernelKind,
    /// A number above 0, or "auto".
    #[serde(default = "auto_bandwidth", with = "by_name")]
    #[schema(value_type = String)]
    pub bandwidth: Bandwidth,
    /// linear, u or v.
    #[serde(default = "linear", with = "by_name")]
    #[schema(value_type = String)]
    pub estimator: Estimator,
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

fn skds() -> Objective {
    Objective::Skds
}

fn rbf() -> KernelKind {
    KernelKind::Rbf
}

fn auto_bandwidth() -> Bandwidth {
    Bandwidth::Auto
}

fn linear() -> Estimator {
    Estimator::Linear
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
        let pairs: f64 = sizes.environments.iter().map(|n| self.estimator.pairs(*n) as f64).sum();
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
        let settings = |request: &LossRequest| {
            (request.objective, request.kernel, request.bandwidth, request.estimator, request.device.clone())
        };
        self.model == other.model && settings(self) == settings(other) && !self.gradient && !other.gradient
    }

    fn run_all(&self, jobs: &[JointJob<'_>], task: &dyn JointTask) -> Vec<Outcome> {
        work::evaluate(jobs, task)
    }
}
