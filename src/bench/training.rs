//! Times of whole training steps, compared with their matrix products alone, and of exact fits.

use super::Measurement;
use super::timing::{Contender, Effort, Ratio, race};
use crate::data::Dataset;
use crate::engine::cpu::CpuTraining;
use crate::engine::{Adam, Batches, LossSpec, Place, Training, TrainingSpec};
use crate::fit;
use crate::kernel::{Bandwidth, Kernel};
use crate::model::{Activation, Drift, MlpDrift, Noise, Parameters, Penalty, PenaltyKind};
use crate::numeric::matmul;
use crate::objective::{Estimator, Objective};
use crate::simulate;
use crate::{Matrix, Result};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// Rows of a batch, as in the paper.
const BATCH: usize = 512;
/// Numbers of variables and hidden units (0 for the linear model).
const SIZES: [(usize, usize); 6] = [(20, 0), (20, 8), (200, 0), (200, 8), (500, 8), (2000, 0)];

/// The time of a training step, and that of its products alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepRow {
    /// The step.
    pub step: Measurement,
    /// The step's two matrix products alone, on the CPU.
    pub products: Option<Measurement>,
    /// The time of the step divided by that of the products.
    pub ratio: Option<Ratio>,
}

fn parameters(d: usize, hidden: usize, rng: &mut ChaCha8Rng) -> Parameters<f32> {
    let mut random = |rows, cols| Matrix::from_fn(rows, cols, |_, _| rng.random_range(-0.05f32..0.05));
    let drift = match hidden {
        0 => Drift::linear(random(d, d)),
        h => Drift::Mlp(MlpDrift {
            activation: Activation::Sigmoid,
            hidden_weights: random(d * h, d),
            hidden_biases: random(d, h),
            output_weights: random(d, h),
        }),
    };
    Parameters {
        drift,
        biases: vec![0.0; d],
        noise: Noise::Diagonal { log_noise: vec![-1.0; d] },
        shift: None,
        log_scale: None,
    }
}

/// A training of SKDS on random samples, with the paper's settings except for the kind of penalty.
pub fn random_training(
    place: &Place,
    d: usize,
    hidden: usize,
    penalty: Option<PenaltyKind>,
) -> Result<Box<dyn Training>> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let start = parameters(d, hidden, &mut rng);
    let samples = Matrix::from_fn(2 * BATCH, d, |_, _| rng.random_range(-1.5..1.5));
    let data = Dataset::from_environments(vec![samples])?;
    let kernel = Kernel::TiltedRbf { bandwidth: (d as f64).sqrt() };
    let spec = TrainingSpec {
        loss: LossSpec { objective: Objective::Skds, kernel, estimator: Estimator::Linear },
        penalty: penalty.map(|kind| Penalty::new(kind, 0.01)),
        optimiser: Adam::default().into(),
        batches: Some(Batches { seed: 1, rows: BATCH, environments: 1 }),
    };
    let mut free = start.zeros_like();
    free.tensors_mut().into_iter().for_each(|(_, values)| values.fill(1.0));
    Ok(match place.gpu() {
        Some(engine) => Box::new(engine.train(&data, &spec, &start, &free)?),
        None => Box::new(CpuTraining::new(&data, spec, &start, &free)?),
    })
}

/// Times the steps of every size, on a software GPU only those of the smallest.
pub fn steps(place: &Place, effort: Effort, watch: &mut dyn FnMut()) -> Result<Vec<StepRow>> {
    let sizes = if place.is_software() { &SIZES[..2] } else { &SIZES[..] };
    let mut rows = Vec::new();
    for &(d, hidden) in sizes {
        let units = d * hidden.max(1);
        let model = if hidden == 0 { "linear".into() } else { format!("MLP of {hidden}") };
        let mut training = random_training(place, d, hidden, Some(PenaltyKind::Both))?;
        let step = Contender::new(format!("step, {model}"), move || {
            training.step()?;
            // Asking for the state waits for a GPU to finish; on the CPU it costs nothing.
            training.standing()
        });
        let mut contenders = vec![step];
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut random = |rows, cols| Matrix::from_fn(rows, cols, |_, _| rng.random_range(-1.0f32..1.0));
        let (x, weights, bar) = (random(BATCH, d), random(units, d), random(units, BATCH));
        let (mut out, mut gradient) = (random(BATCH, units), random(units, d));
        if matches!(place, Place::Cpu) {
            contenders.push(Contender::new(format!("products, {model}"), move || {
                matmul::product(out.view_mut(), x.view(), weights.view().transpose());
                matmul::product(gradient.view_mut(), bar.view(), x.view());
                Ok(())
            }));
        }
        let timings = race(&mut contenders, effort)?;
        let flops = (4 * BATCH * d * units) as f64;
        let bytes = 4.0 * (6 * BATCH * units + 7 * units * d) as f64;
        let record = |timing| Measurement::new("train", place.name(), (BATCH, d), (flops, bytes), timing);
        rows.push(StepRow {
            step: record(&timings[0]),
            products: timings.get(1).map(record),
            ratio: timings.get(1).map(|products| timings[0].over(products)),
        });
        watch();
    }
    Ok(rows)
}

/// The number of sizes that [`steps`] measures, for progress.
pub fn step_count(place: &Place) -> u64 {
    if place.is_software() { 2 } else { SIZES.len() as u64 }
}

/// Times exact fits of the paper's size (11 environments × 1000 rows of 20 variables), with given settings and tuned.
pub fn exact_fits(effort: Effort) -> Result<Vec<Measurement>> {
    let data = simulate::simulate(&simulate::Settings::default(), &Default::default())?.train;
    let given = fit::Settings {
        bandwidth: Some(Bandwidth::Value(3.0)),
        lambda: Some(0.1),
        ..fit::Settings::default()
    };
    let fit = |name: &str, settings: fit::Settings| {
        let data = &data;
        Contender::new(name, move || fit::fit(data, &settings))
    };
    let mut contenders =
        [fit("exact fit, given settings", given), fit("exact fit, tuned", fit::Settings::default())];
    let effort = Effort { turns: effort.turns.min(5), repetitions: 1, ..effort };
    let rows = data.samples().rows();
    let record = |timing| Measurement::new("train", "cpu".into(), (rows, data.dim()), (0.0, 0.0), timing);
    Ok(race(&mut contenders, effort)?.iter().map(record).collect())
}

/// Both tables as text.
pub fn text(device: &str, steps: &[StepRow], fits: &[Measurement]) -> String {
    let mut lines = vec![
        format!("{device}: a training step in ms, SKDS, tilted-rbf, batch {BATCH}, group penalties, Adam"),
        format!(
            "{:<22}{:>8}{:>12}{:>12}{:>16}{:>14}",
            "", "d", "step", "GFLOP/s", "products alone", "step/products"
        ),
    ];
    for StepRow { step, products, ratio } in steps {
        let number = |value: Option<f64>, decimals: usize| match value {
            Some(value) => format!("{value:.decimals$}"),
            None => "–".into(),
        };
        lines.push(format!(
            "{:<22}{:>8}{:>12.4}{:>12.1}{:>16}{:>14}",
            step.what,
            step.d,
            step.median_ms,
            step.gflops,
            number(products.as_ref().map(|p| p.median_ms), 4),
            number(ratio.map(|r| r.median), 2)
        ));
    }
    for fit in fits {
        lines.push(format!(
            "{:<28}{:>14.1} ms, {} rows of {} variables",
            fit.what, fit.median_ms, fit.n, fit.d
        ));
    }
    lines.join("\n")
}
