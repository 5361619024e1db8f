//! What the integration tests share: the golden cases, random problems and named tolerances.
#![allow(dead_code)] // each test binary uses its own part

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use skds::Matrix;
use skds::data::Dataset;
use skds::engine::gpu::{GpuEngine, adapters};
use skds::engine::{Engine, LossSpec, Precision, cpu::CpuEngine};
use skds::kernel::KernelKind;
use skds::model::{Activation, Drift, MlpDrift, Noise, Parameters};
use skds::objective::{Estimator, Objective};
use skds::{Error, Scalar};
use std::path::{Path, PathBuf};

/// Golden values come from float64 automatic differentiation of the definitions.
pub struct Case {
    pub name: String,
    pub spec: LossSpec,
    pub loss: f64,
}

pub fn golden_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

pub fn golden_cases() -> Vec<Case> {
    let text = std::fs::read_to_string(golden_dir().join("cases.json")).unwrap();
    let cases: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let field = |case: &serde_json::Value, key: &str| case[key].as_str().unwrap().to_owned();
    cases
        .iter()
        .map(|case| {
            let kind: KernelKind = field(case, "kernel").parse().unwrap();
            Case {
                name: field(case, "name"),
                spec: LossSpec {
                    objective: field(case, "objective").parse().unwrap(),
                    kernel: kind.with_bandwidth(case["bandwidth"].as_f64().unwrap()).unwrap(),
                    estimator: field(case, "estimator").parse().unwrap(),
                },
                loss: case["loss"].as_f64().unwrap(),
            }
        })
        .collect()
}

impl Case {
    pub fn data(&self) -> Dataset {
        Dataset::read(golden_dir().join(format!("{}.npz", self.name))).unwrap()
    }

    pub fn parameters(&self) -> Parameters<f64> {
        Parameters::read(&golden_dir().join(format!("{}.params.safetensors", self.name))).unwrap()
    }

    /// The expected gradient by tensor name; `loss` is among them.
    pub fn expected(&self) -> Vec<(String, Vec<f64>)> {
        let bytes = std::fs::read(golden_dir().join(format!("{}.expected.safetensors", self.name))).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        file.tensors()
            .into_iter()
            .map(|(name, view)| {
                let values = view.data().chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap()));
                (name, values.collect())
            })
            .collect()
    }
}

/// The GPU engine on whatever device there is. Tests never skip: without a device they fail and say what to do.
pub fn gpu_engine() -> GpuEngine {
    let gpus = adapters::list();
    let gpu = adapters::any(&gpus).expect(
        "these tests need a Vulkan device: on Debian, apt-get install mesa-vulkan-drivers libvulkan1",
    );
    GpuEngine::new(gpu)
}

/// Loss and gradient by the CPU engine.
pub fn evaluate<T: Precision>(
    data: &Dataset,
    spec: &LossSpec,
    parameters: &Parameters<T>,
) -> Result<(f64, Parameters<T>), Error> {
    let mut gradient = parameters.zeros_like();
    let mut loss = Engine::<T>::load(&CpuEngine, data, spec)?;
    let value = loss.evaluate(parameters, Some(&mut gradient))?;
    Ok((value, gradient))
}

/// The loss alone.
pub fn value(data: &Dataset, spec: &LossSpec, parameters: &Parameters<f64>) -> f64 {
    Engine::<f64>::load(&CpuEngine, data, spec).unwrap().evaluate(parameters, None).unwrap()
}

/// The largest difference, relative to the largest expected entry.
pub fn relative_error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len(), "lengths differ");
    let largest = expected.iter().fold(0.0f64, |m, v| m.max(v.abs())).max(f64::MIN_POSITIVE);
    let mut worst = 0.0f64;
    for (f, e) in found.iter().zip(expected) {
        let error = (f - e).abs() / largest;
        // A NaN must not hide behind `max`.
        if error.is_nan() {
            return f64::NAN;
        }
        worst = worst.max(error);
    }
    worst
}

/// The gradient as f64 tensors by name.
pub fn tensors<T: Scalar>(parameters: &Parameters<T>) -> Vec<(String, Vec<f64>)> {
    parameters
        .tensors()
        .into_iter()
        .map(|t| (t.name.to_owned(), t.values.iter().map(|v| v.to_f64()).collect()))
        .collect()
}

/// Everything that has a closed form, as one list.
pub fn all_specs(bandwidth: f64) -> Vec<LossSpec> {
    let mut specs = Vec::new();
    for &objective in Objective::ALL {
        for &kind in KernelKind::ALL {
            for &estimator in Estimator::ALL {
                specs.push(LossSpec {
                    objective,
                    kernel: kind.with_bandwidth(bandwidth).unwrap(),
                    estimator,
                });
            }
        }
    }
    specs
}

/// The model shapes that tests go through.
pub const SHAPES: [(&str, Option<Activation>, bool); 6] = [
    ("linear", None, false),
    ("linear-full", None, true),
    ("mlp-sigmoid", Some(Activation::Sigmoid), false),
    ("mlp-tanh", Some(Activation::Tanh), false),
    ("mlp-relu", Some(Activation::Relu), false),
    ("mlp-full", Some(Activation::Sigmoid), true),
];

pub fn normal(rng: &mut impl Rng) -> f64 {
    rand_distr::Distribution::sample(&rand_distr::StandardNormal, rng)
}

pub fn matrix(rng: &mut impl Rng, rows: usize, cols: usize, scale: f64) -> Matrix<f64> {
    Matrix::from_fn(rows, cols, |_, _| scale * normal(rng))
}

/// Environments of the given sizes, each a little further from the origin.
pub fn random_data(seed: u64, sizes: &[usize], d: usize) -> Dataset {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let environments = sizes
        .iter()
        .enumerate()
        .map(|(e, &n)| Matrix::from_fn(n, d, |_, _| 0.3 * e as f64 + normal(&mut rng)))
        .collect();
    Dataset::from_environments(environments).unwrap()
}

pub fn random_parameters(
    seed: u64,
    d: usize,
    environments: usize,
    activation: Option<Activation>,
    full: bool,
) -> Parameters<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let scale = 1.0 / (d as f64).sqrt();
    let drift = match activation {
        None => {
            let mut weights = matrix(&mut rng, d, d, 0.5 * scale);
            (0..d).for_each(|j| weights[(j, j)] -= 1.0);
            Drift::linear(weights)
        }
        Some(activation) => {
            let h = 1 + rng.random_range(1..4);
            Drift::Mlp(MlpDrift {
                activation,
                hidden_weights: matrix(&mut rng, d * h, d, scale),
                hidden_biases: matrix(&mut rng, d, h, 0.5),
                output_weights: matrix(&mut rng, d, h, 0.7),
            })
        }
    };
    let noise = if full {
        let mut noise = matrix(&mut rng, d, d, 0.5 * scale);
        (0..d).for_each(|j| noise[(j, j)] += 1.0);
        Noise::Full { noise }
    } else {
        Noise::Diagonal { log_noise: (0..d).map(|_| -0.3 + 0.4 * normal(&mut rng)).collect() }
    };
    Parameters {
        drift,
        biases: (0..d).map(|_| 0.5 * normal(&mut rng)).collect(),
        noise,
        shift: Some(matrix(&mut rng, environments, d, 0.5)),
        log_scale: Some(matrix(&mut rng, environments, d, 0.3)),
    }
}
