//! Samples of a law, or observed rows that are moved: the same numbers as of `skds sample`.

use super::Task;
use crate::data::Dataset;
use crate::predict::{Origin, Start, Treatment, predicted};
use crate::sample::Sampler;
use crate::serve::domain::message::Done;
use crate::serve::domain::request::SampleRequest;
use crate::{Matrix, Progress, Result};
use serde_json::{Value, json};

/// Bars of a histogram.
const BARS: usize = 40;
/// Quantiles that are told.
const QUANTILES: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];

pub(super) fn run(task: &Task<'_>, request: &SampleRequest) -> Result<Done> {
    let model = task.model()?;
    let treatment = Treatment::named(&model, request.env, &request.shift, &request.scale, &request.set)?;
    let settings = request.settings();
    let method = settings.method_for(&model)?;
    let start = match task.origin()? {
        Some(data) => Start::Data(Origin::of(&model, &data)?.draw(request.n, request.seed)?),
        None => Start::Law(request.samples()),
    };
    let (sampler, progress) = (task.sampler(), Progress::default());
    let counted = start.counted(&sampler, &treatment, &settings);
    let samples = task.watched(&progress, counted, || {
        predicted(&sampler, &model, &start, &treatment, &settings, request.seed, &progress)
    })?;
    let environment = match &start {
        Start::Data(origin) => Some(origin.environment),
        Start::Law(_) => None,
    };
    let variables: Vec<Value> = (0..model.dim()).map(|j| describe(&samples, j, &model.names[j])).collect();
    let path = task.folder()?.join("samples.npz");
    Dataset::from_environments(vec![samples])?.with_names(model.names.clone())?.write(&path)?;
    // The environment whose rows were moved, if any were.
    Ok(Done::new(json!({ "method": method.name(), "environment": environment, "variables": variables })))
}

fn describe(samples: &Matrix<f64>, j: usize, name: &str) -> Value {
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

impl Task<'_> {
    /// What draws samples on the device of the process.
    pub(super) fn sampler(&self) -> Sampler {
        Sampler::on(self.gpu.map(|gpu| gpu.again()))
    }
}
