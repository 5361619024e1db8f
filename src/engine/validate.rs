//! Compares a device with the f64 CPU engine over everything that an engine can be asked for.

use super::cpu::CpuEngine;
use super::{Engine, LossSpec, Precision};
use crate::data::Dataset;
use crate::kernel::KernelKind;
use crate::model::{Activation, Drift, MlpDrift, Noise, Parameters};
use crate::objective::{Estimator, Objective};
use crate::{Matrix, Result};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// What float32 may differ by, relative to the largest entry of a tensor: sums of a few thousand terms, and
/// exponentials and divisions that are a few units off on some devices.
pub const TOLERANCE: f64 = 5e-4;

/// A model's drift and diffusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelShape {
    /// For reports.
    pub name: &'static str,
    /// None: the linear model.
    pub activation: Option<Activation>,
    /// Whether the noise is a full matrix.
    pub full: bool,
}

/// The models to go through.
pub const MODELS: [ModelShape; 6] = [
    ModelShape { name: "linear", activation: None, full: false },
    ModelShape { name: "linear, full noise", activation: None, full: true },
    ModelShape { name: "mlp sigmoid", activation: Some(Activation::Sigmoid), full: false },
    ModelShape { name: "mlp tanh", activation: Some(Activation::Tanh), full: false },
    ModelShape { name: "mlp relu", activation: Some(Activation::Relu), full: false },
    ModelShape { name: "mlp sigmoid, full noise", activation: Some(Activation::Sigmoid), full: true },
];

/// Rows of each environment, and variables.
pub type Shape = (&'static [usize], usize);

/// Shapes that take seconds on any device: the smallest, odd ones, and one past a tile.
pub const QUICK_SHAPES: &[Shape] = &[(&[2], 1), (&[7, 4], 3), (&[67, 30], 21)];
/// Shapes that go past every tile and block too.
pub const FULL_SHAPES: &[Shape] =
    &[(&[2], 1), (&[3], 1), (&[7, 4], 3), (&[67, 30], 21), (&[130, 64, 65], 70), (&[513], 129)];

/// How far a device is from the reference in one case.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// What was evaluated.
    pub spec: LossSpec,
    /// The model.
    pub model: ModelShape,
    /// The samples.
    pub shape: Shape,
    /// The tensor that differs most, `loss` among them.
    pub worst: &'static str,
    /// Its largest difference relative to its largest entry.
    pub error: f64,
}

impl Comparison {
    /// Whether the error is within the tolerance. NaN is not.
    pub fn passes(&self) -> bool {
        self.error <= TOLERANCE
    }
}

/// What to compare: a loss, a model and a shape.
pub type Case = (LossSpec, ModelShape, Shape);

/// Every case over `shapes`.
pub fn cases(shapes: &[Shape]) -> Vec<Case> {
    let mut all = Vec::new();
    for &shape in shapes {
        for &objective in Objective::ALL {
            for &kind in KernelKind::ALL {
                for &estimator in Estimator::ALL {
                    let kernel =
                        kind.with_bandwidth((shape.1 as f64).sqrt().max(1.2)).expect("a valid bandwidth");
                    for model in MODELS {
                        all.push((LossSpec { objective, kernel, estimator }, model, shape));
                    }
                }
            }
        }
    }
    all
}

/// Evaluates one case on `engine` and compares it with the f64 CPU engine at the same f32 parameters and samples.
pub fn compare<T: Precision>(
    engine: &dyn Engine<T>,
    (spec, model, shape): Case,
    seed: u64,
) -> Result<Comparison> {
    let data = samples(seed, shape)?;
    let parameters: Parameters<f32> = parameters(seed, shape, model).cast();
    let (exact, cast) = (parameters.cast::<f64>(), parameters.cast::<T>());
    let (mut expected, mut found) = (exact.zeros_like(), cast.zeros_like());
    let mut reference = CpuEngine.load(&data, &spec)?;
    let value = reference.evaluate(&exact, Some(&mut expected))?;
    let mut loss = engine.load(&data, &spec)?;
    let computed = loss.evaluate(&cast, Some(&mut found))?;
    // A loss near 0 is a difference of terms of order one.
    let mut worst = ("loss", (computed - value).abs() / value.abs().max(1e-2));
    for (expected, found) in expected.tensors().iter().zip(found.tensors()) {
        let found: Vec<f64> = found.values.iter().map(|v| v.to_f64()).collect();
        let error = relative_error(&found, expected.values);
        // NaN must not hide behind a comparison.
        if error.is_nan() || error > worst.1 {
            worst = (expected.name, error);
        }
    }
    Ok(Comparison { spec, model, shape, worst: worst.0, error: worst.1 })
}

/// The largest difference, relative to the largest expected entry; NaN if anything is NaN.
fn relative_error(found: &[f64], expected: &[f64]) -> f64 {
    let largest = expected.iter().fold(f64::MIN_POSITIVE, |m, v| m.max(v.abs()));
    found.iter().zip(expected).fold(0.0, |worst, (f, e)| {
        let error = (f - e).abs() / largest;
        if worst.is_nan() || error.is_nan() { f64::NAN } else { worst.max(error) }
    })
}

fn matrix(rng: &mut ChaCha8Rng, rows: usize, cols: usize, scale: f64) -> Matrix<f64> {
    Matrix::from_fn(rows, cols, |_, _| {
        let value: f64 = StandardNormal.sample(rng);
        scale * value
    })
}

/// Environments that lie apart from each other; rounded to f32, so that both sides see the same samples.
fn samples(seed: u64, (rows, d): Shape) -> Result<Dataset> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let environments = rows
        .iter()
        .enumerate()
        .map(|(e, &n)| matrix(&mut rng, n, d, 1.0).map(|v| f64::from((v + 0.3 * e as f64) as f32)))
        .collect();
    Dataset::from_environments(environments)
}

fn parameters(seed: u64, (rows, d): Shape, model: ModelShape) -> Parameters<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed.wrapping_add(1));
    let scale = 1.0 / (d as f64).sqrt();
    let with_diagonal = |rng: &mut ChaCha8Rng, diagonal: f64| {
        let mut matrix = matrix(rng, d, d, 0.5 * scale);
        (0..d).for_each(|j| matrix[(j, j)] += diagonal);
        matrix
    };
    let drift = match model.activation {
        None => Drift::linear(with_diagonal(&mut rng, -1.0)),
        Some(activation) => {
            let h = rng.random_range(2..5);
            Drift::Mlp(MlpDrift {
                activation,
                hidden_weights: matrix(&mut rng, d * h, d, scale),
                hidden_biases: matrix(&mut rng, d, h, 0.5),
                output_weights: matrix(&mut rng, d, h, 0.7),
            })
        }
    };
    let noise = if model.full {
        Noise::Full { noise: with_diagonal(&mut rng, 1.0) }
    } else {
        Noise::Diagonal { log_noise: matrix(&mut rng, 1, d, 0.4).as_slice().to_vec() }
    };
    Parameters {
        drift,
        biases: matrix(&mut rng, 1, d, 0.5).as_slice().to_vec(),
        noise,
        shift: Some(matrix(&mut rng, rows.len(), d, 0.5)),
        log_scale: Some(matrix(&mut rng, rows.len(), d, 0.3)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_engine_in_f32_passes_and_nan_does_not() {
        let all = cases(&[(&[7, 4], 3)]);
        assert_eq!(all.len(), 2 * KernelKind::ALL.len() * 3 * 6);
        for case in all {
            let found = compare::<f32>(&CpuEngine, case, 3).unwrap();
            assert!(found.passes() && found.error > 0.0, "{found:?}");
        }
        assert!(relative_error(&[1.0, f64::NAN], &[1.0, 2.0]).is_nan());
        assert_eq!(relative_error(&[1.0, 2.5], &[1.0, 2.0]), 0.25);
    }
}
