//! Samples: the same numbers as `skds sample` draws.

use super::Task;
use crate::data::Dataset;
use crate::model::Model;
use crate::sample::{Draw, Intervention, Sampler};
use crate::serve::message::Done;
use crate::serve::request::SampleRequest;
use crate::{Matrix, Progress, Result};
use serde_json::{Value, json};

/// Bars of a histogram.
const BARS: usize = 40;
/// Quantiles that are told.
const QUANTILES: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];

pub(super) fn run(task: &Task<'_>, request: &SampleRequest) -> Result<Done> {
    let model = task.model()?;
    let intervention = intervention(request, &model)?;
    let settings = request.settings();
    let method = settings.method_for(&model)?;
    let sampler = task.sampler();
    let draw = Draw { intervention: &intervention, samples: request.n, seed: request.seed };
    let (progress, steps) = (Progress::default(), sampler.steps_for(request.n, &settings));
    let samples =
        task.watched(&progress, steps, || sampler.draw(&model, &[draw], &settings, &progress)?.remove(0))?;
    let variables: Vec<Value> = (0..model.dim()).map(|j| describe(&samples, j, &model.names[j])).collect();
    let path = task.folder()?.join("samples.npz");
    Dataset::from_environments(vec![samples])?.with_names(model.names.clone())?.write(&path)?;
    Ok(Done::new(json!({ "method": method.name(), "variables": variables })))
}

fn intervention(request: &SampleRequest, model: &Model) -> Result<Intervention> {
    let mut intervention = match request.env {
        Some(e) => Intervention::of_environment(model, e)?,
        None => Intervention::none(model.dim()),
    };
    for (name, by) in &request.shift {
        intervention.add_shift(model.variable(name)?, *by)?;
    }
    for (name, factor) in &request.scale {
        intervention.multiply_noise(model.variable(name)?, *factor)?;
    }
    Ok(intervention)
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
