//! Jobs that draw samples of a model's law, or move observed rows: the same numbers as from `skds sample`.

use super::task::{JobOutput, Task};
use super::{Execution, Kind, ProcessKind, References, auto_method};
use crate::data::Dataset;
use crate::named::by_name;
use crate::predict::{MATCHING_SAMPLES, Origin, Start, Treatment, law_samples, predicted};
use crate::sample::{EulerSettings, Method, SampleSettings, Sampler};
use crate::serve::domain::error::ServiceError;
use crate::serve::domain::estimate::{Estimate, Records};
use crate::serve::domain::id::ContentId;
use crate::serve::domain::limits::Limits;
use crate::{Matrix, Progress};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The number of samples that a request draws if it does not say.
const SAMPLES: usize = 1000;
/// Bars of a histogram.
const BARS: usize = 40;
/// The quantiles in a result.
const QUANTILES: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];

/// The same samples as from `skds sample`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SampleRequest {
    /// The model to sample from.
    pub model: ContentId,
    /// The number of samples. The default is 1000, or with `from` all rows that it can start from.
    #[serde(default)]
    pub n: Option<usize>,
    /// Start from this dataset instead of the model's law: take the rows of its first environment without targets and move them
    /// by the change that the model predicts.
    #[serde(default)]
    pub from: Option<ContentId>,
    /// Apply the fitted intervention of this training environment.
    #[serde(default)]
    pub env: Option<usize>,
    /// Numbers to add to the drift, by variable.
    #[serde(default)]
    pub shift: BTreeMap<String, f64>,
    /// Factors for the noise, by variable.
    #[serde(default)]
    pub scale: BTreeMap<String, f64>,
    /// Means to reach, by variable.
    #[serde(default)]
    pub set: BTreeMap<String, f64>,
    /// exact, euler or auto.
    #[serde(default = "auto_method", with = "by_name")]
    #[schema(value_type = String)]
    pub method: Method,
    /// Simulation: the length of a step.
    #[serde(default)]
    pub dt: Option<f64>,
    /// Simulation: the number of steps before the first sample.
    #[serde(default)]
    pub burn_in: Option<usize>,
    /// Simulation: the number of steps between samples.
    #[serde(default)]
    pub thin: Option<usize>,
    /// Simulation: the number of parallel chains.
    #[serde(default)]
    pub chains: Option<usize>,
    /// Simulation: hold every variable at or above 0.
    #[serde(default)]
    pub nonnegative: bool,
    /// The seed of all random numbers.
    #[serde(default)]
    pub seed: u64,
    /// A part of the name of the device to use; any device if left out.
    #[serde(default)]
    pub device: Option<String>,
}

impl SampleRequest {
    /// The number of samples to draw from the model's law.
    fn samples(&self) -> usize {
        self.n.unwrap_or(SAMPLES)
    }

    fn settings(&self) -> SampleSettings {
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

impl Kind for SampleRequest {
    fn check(&self) -> Result<(), ServiceError> {
        if let Some(n) = self.n.filter(|n| *n < 2) {
            return Err(ServiceError::invalid(format!("found n = {n}, expected at least 2 samples")));
        }
        Ok(self.settings().euler.check()?)
    }

    fn references(&self) -> References<'_> {
        References { dataset: None, origin: self.from.as_ref(), model: Some(&self.model) }
    }

    fn check_against(&self, _records: &Records<'_>, limits: &Limits) -> Result<(), ServiceError> {
        limits.check_samples(self.samples())
    }

    fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    fn estimate(&self, records: &Records<'_>) -> Estimate {
        let sizes = records.sizes();
        let (settings, d) = (self.settings(), sizes.d);
        let exact = sizes.linear && settings.method != Method::Euler && !settings.nonnegative;
        let (n, drawn) = match &sizes.origin {
            // The law is looked at twice, at rest and under the intervention.
            Some(origin) => (self.n.map_or(origin.moved, |n| n as f64), law_samples(d as usize)),
            None => (self.samples() as f64, self.samples()),
        };
        let steps = |samples: usize| {
            Sampler::cpu().steps_for(samples, &settings) as f64 * (2.0 * sizes.parameters + 50.0 * d)
        };
        let laws = if sizes.origin.is_some() { 2.0 } else { 1.0 };
        let operations = match exact {
            true => 2.0 * n * d * d + laws * 100.0 * d.powi(3),
            false => laws * steps(drawn) + searches(self.set.len()) * steps(MATCHING_SAMPLES),
        };
        // Samples as they are drawn, as their summary is computed and as they are written; what chains compute at every step; data
        // that is started from, laws, and the map between them.
        let chains = if exact { 0.0 } else { settings.euler.chains.unwrap_or(1024).min(drawn) as f64 };
        let chains = chains * (40.0 * d + 8.0 * sizes.parameters / d.max(1.0));
        Estimate { bytes: 24.0 * n * d + chains + sizes.start(exact), operations }
    }

    fn execution(&self) -> Execution<'_> {
        Execution::InProcess(self)
    }
}

impl ProcessKind for SampleRequest {
    fn run(&self, task: &Task<'_>) -> crate::Result<JobOutput> {
        let model = task.model()?;
        let treatment = Treatment::named(&model, self.env, &self.shift, &self.scale, &self.set)?;
        let settings = self.settings();
        let method = settings.method_for(&model)?;
        let start = match task.origin()? {
            Some(data) => Start::Data(Origin::of(&model, &data)?.draw(self.n, self.seed)?),
            None => Start::Law(self.samples()),
        };
        let (sampler, progress) = (task.sampler(), Progress::default());
        let counted = start.counted(&sampler, &treatment, &settings);
        let samples = task.supervised(&progress, counted, || {
            predicted(&sampler, &model, &start, &treatment, &settings, self.seed, &progress)
        })?;
        let environment = match &start {
            Start::Data(origin) => Some(origin.environment),
            Start::Law(_) => None,
        };
        let variables: Vec<Value> =
            (0..model.dim()).map(|j| describe_variable(&samples, j, &model.names[j])).collect();
        let path = task.folder()?.join("samples.npz");
        Dataset::from_environments(vec![samples])?.with_names(model.names.clone())?.write(&path)?;
        // The environment whose rows were moved, if any were.
        Ok(JobOutput::new(
            json!({ "method": method.name(), "environment": environment, "variables": variables }),
        ))
    }
}

/// The most simulations that a search for the shifts of so many variables usually takes.
fn searches(variables: usize) -> f64 {
    let sweeps = if variables == 1 { 1.0 } else { 4.0 };
    20.0 * sweeps * variables as f64
}

/// The mean, the standard deviation, quantiles and a histogram of a variable.
fn describe_variable(samples: &Matrix<f64>, j: usize, name: &str) -> Value {
    let mut column: Vec<f64> = (0..samples.rows()).map(|i| samples[(i, j)]).collect();
    column.sort_by(f64::total_cmp);
    let n = column.len();
    let mean = column.iter().sum::<f64>() / n as f64;
    let variance = column.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n.max(2) - 1) as f64;
    let quantiles = QUANTILES.map(|share| column[(share * (n - 1) as f64).round() as usize]);
    let (low, high) = (column[0], column[n - 1]);
    let mut counts = vec![0u32; BARS];
    for x in &column {
        let share = if high > low { (x - low) / (high - low) } else { 0.5 };
        counts[((share * BARS as f64) as usize).min(BARS - 1)] += 1;
    }
    json!({
        "name": name, "mean": mean, "sd": variance.sqrt(), "quantiles": quantiles,
        "histogram": { "low": low, "high": high, "counts": counts },
    })
}
