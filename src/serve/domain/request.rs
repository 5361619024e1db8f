//! What a job is asked to do: the settings of the command line, under the same names and with the same defaults.

use crate::fit;
use crate::kernel::{Bandwidth, KernelKind};
use crate::named::by_name;
use crate::objective::{Estimator, Objective};
use crate::sample::{EulerSettings, Method, SampleSettings};
use crate::serve::domain::id::ContentId;
use crate::simulate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Request {
    /// Fit a model to a dataset.
    Fit(FitRequest),
    /// Draw samples of a model's stationary law.
    Sample(SampleRequest),
    /// Predict the interventions of a dataset and compare.
    Evaluate(EvaluateRequest),
    /// Evaluate a loss.
    Loss(LossRequest),
    /// Simulate a system, and keep its data as datasets.
    Simulate(SimulateRequest),
}

/// As `skds fit`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FitRequest {
    /// What to fit to.
    pub dataset: ContentId,
    /// As `skds fit --config` takes them; what is left out has its default.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub settings: Box<fit::Settings>,
    /// What is known of effects: objects with source, target, kind (required, forbidden or candidate) and optionally weight, at
    /// most one per pair of variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub edges: Vec<fit::Edge>,
    /// Resamples for intervals of every effect (exact solver).
    #[serde(default)]
    pub bootstrap: Option<usize>,
    /// A part of a device's name; any device if nothing is said.
    #[serde(default)]
    pub device: Option<String>,
}

/// As `skds sample`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SampleRequest {
    /// Of which model.
    pub model: ContentId,
    /// How many samples: 1000 if nothing is said, or all rows that there are to start from.
    #[serde(default)]
    pub n: Option<usize>,
    /// Start from this data instead of the model's law: the rows of its first environment without targets, moved by what the
    /// model says changes.
    #[serde(default)]
    pub from: Option<ContentId>,
    /// The fitted intervention of a training environment.
    #[serde(default)]
    pub env: Option<usize>,
    /// What is added to drifts, by variable.
    #[serde(default)]
    pub shift: BTreeMap<String, f64>,
    /// What noises are multiplied with, by variable.
    #[serde(default)]
    pub scale: BTreeMap<String, f64>,
    /// What means are brought to, by variable.
    #[serde(default)]
    pub set: BTreeMap<String, f64>,
    /// exact, euler or auto.
    #[serde(default = "auto_method", with = "by_name")]
    #[schema(value_type = String)]
    pub method: Method,
    /// Simulation: the length of a step.
    #[serde(default)]
    pub dt: Option<f64>,
    /// Simulation: steps before the first sample.
    #[serde(default)]
    pub burn_in: Option<usize>,
    /// Simulation: steps between samples.
    #[serde(default)]
    pub thin: Option<usize>,
    /// Simulation: chains side by side.
    #[serde(default)]
    pub chains: Option<usize>,
    /// Simulation: hold every variable at or above 0.
    #[serde(default)]
    pub nonnegative: bool,
    /// Of every random choice.
    #[serde(default)]
    pub seed: u64,
    /// A part of a device's name; any device if nothing is said.
    #[serde(default)]
    pub device: Option<String>,
}

/// As `skds evaluate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EvaluateRequest {
    /// Which model predicts.
    pub model: ContentId,
    /// The test data.
    pub dataset: ContentId,
    /// The training data: its observational rows are moved and compared too, beside floors that need no model.
    #[serde(default)]
    pub from: Option<ContentId>,
    /// exact, euler or auto.
    #[serde(default = "auto_method", with = "by_name")]
    #[schema(value_type = String)]
    pub method: Method,
    /// Simulation: hold every variable at or above 0.
    #[serde(default)]
    pub nonnegative: bool,
    /// Of every random choice.
    #[serde(default)]
    pub seed: u64,
    /// A part of a device's name; any device if nothing is said.
    #[serde(default)]
    pub device: Option<String>,
}

/// As `skds loss`, in f32.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LossRequest {
    /// Whose parameters.
    pub model: ContentId,
    /// On which data.
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
    /// Whether to keep the gradient of every parameter as gradient.safetensors.
    #[serde(default)]
    pub gradient: bool,
    /// Of every random choice.
    #[serde(default)]
    pub seed: u64,
    /// A part of a device's name; any device if nothing is said.
    #[serde(default)]
    pub device: Option<String>,
}

/// As `skds simulate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SimulateRequest {
    /// As a manifest has them; what is left out has its default.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub settings: Box<simulate::Settings>,
}

fn auto_method() -> Method {
    Method::Auto
}

fn auto_bandwidth() -> Bandwidth {
    Bandwidth::Auto
}

fn skds() -> Objective {
    Objective::Skds
}

fn rbf() -> KernelKind {
    KernelKind::Rbf
}

fn linear() -> Estimator {
    Estimator::Linear
}

impl Request {
    /// Its name.
    pub fn kind(&self) -> &'static str {
        match self {
            Request::Fit(_) => "fit",
            Request::Sample(_) => "sample",
            Request::Evaluate(_) => "evaluate",
            Request::Loss(_) => "loss",
            Request::Simulate(_) => "simulate",
        }
    }

    /// The device it asks for.
    pub fn device(&self) -> Option<&str> {
        match self {
            Request::Fit(FitRequest { device, .. })
            | Request::Sample(SampleRequest { device, .. })
            | Request::Evaluate(EvaluateRequest { device, .. })
            | Request::Loss(LossRequest { device, .. }) => device.as_deref(),
            Request::Simulate(_) => None,
        }
    }

    /// The data it is about.
    pub fn dataset(&self) -> Option<&ContentId> {
        match self {
            Request::Fit(FitRequest { dataset, .. })
            | Request::Evaluate(EvaluateRequest { dataset, .. })
            | Request::Loss(LossRequest { dataset, .. }) => Some(dataset),
            Request::Sample(_) | Request::Simulate(_) => None,
        }
    }

    /// The data whose rows its predictions start from.
    pub fn origin(&self) -> Option<&ContentId> {
        match self {
            Request::Sample(SampleRequest { from, .. }) | Request::Evaluate(EvaluateRequest { from, .. }) => {
                from.as_ref()
            }
            Request::Fit(_) | Request::Loss(_) | Request::Simulate(_) => None,
        }
    }

    /// The model it is about.
    pub fn model(&self) -> Option<&ContentId> {
        match self {
            Request::Sample(SampleRequest { model, .. })
            | Request::Evaluate(EvaluateRequest { model, .. })
            | Request::Loss(LossRequest { model, .. }) => Some(model),
            Request::Fit(_) | Request::Simulate(_) => None,
        }
    }
}

/// Samples of a law if nothing is said.
const SAMPLES: usize = 1000;

impl SampleRequest {
    /// Samples of the model's law.
    pub fn samples(&self) -> usize {
        self.n.unwrap_or(SAMPLES)
    }

    /// As the sampler takes them.
    pub fn settings(&self) -> SampleSettings {
        let default = EulerSettings::default();
        let euler = EulerSettings {
            dt: self.dt.unwrap_or(default.dt),
            burn_in: self.burn_in.unwrap_or(default.burn_in),
            thin: self.thin.unwrap_or(default.thin),
            chains: self.chains,
        };
        SampleSettings { method: self.method, euler, nonnegative: self.nonnegative }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_command_lines_names_and_defaults() {
        let id = "a".repeat(64);
        let text = format!(
            r#"{{"kind": "fit", "dataset": "{id}", "settings": {{"lambda": 0.2, "solver": "adam"}}}}"#
        );
        let Request::Fit(fit) = serde_json::from_str(&text).unwrap() else { panic!() };
        let expected = fit::Settings {
            lambda: Some(0.2),
            solver: Some(fit::SolverChoice::Adam),
            ..fit::Settings::default()
        };
        assert_eq!(*fit.settings, expected);
        let text = format!(r#"{{"kind": "loss", "model": "{id}", "dataset": "{id}", "bandwidth": 3}}"#);
        let Request::Loss(loss) = serde_json::from_str(&text).unwrap() else { panic!() };
        assert_eq!((loss.bandwidth, loss.estimator), (Bandwidth::Value(3.0), Estimator::Linear));
        for (wrong, piece) in [
            (r#"{"kind": "dance"}"#.to_string(), "unknown variant `dance`"),
            (r#"{"kind": "fit", "dataset": "../x"}"#.into(), "expected 64 digits"),
            (format!(r#"{{"kind": "fit", "dataset": "{id}", "colour": 1}}"#), "unknown field `colour`"),
            (
                format!(r#"{{"kind": "fit", "dataset": "{id}", "settings": {{"lamda": 1}}}}"#),
                "unknown field `lamda`",
            ),
        ] {
            let error = serde_json::from_str::<Request>(&wrong).unwrap_err().to_string();
            assert!(error.contains(piece), "{wrong}: {error}");
        }
    }
}
