//! A whole training step beside its matrix products alone, in the same run.
//!
//! Throughput is reported in "elements" that are floating-point operations of the products (forward and backward,
//! 4 · rows · d · units), so the rates of a step and of `products` can be read beside each other: their ratio is what
//! drawing the batch, pairs, penalty, the look for NaN and Adam cost.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use faer::linalg::matmul::matmul;
use faer::{Accum, Par};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use skds::Matrix;
use skds::data::Dataset;
use skds::engine::cpu::CpuTraining;
use skds::engine::{Adam, Batches, LossSpec, Training, TrainingSpec};
use skds::kernel::Kernel;
use skds::model::{Activation, Drift, Noise, Parameters, Penalty, PenaltyKind};
use skds::objective::{Estimator, Objective};
use std::time::Duration;

const ROWS: usize = 512;

fn parameters(
    d: usize,
    hidden: usize,
    random: &mut impl FnMut(usize, usize) -> Matrix<f32>,
) -> Parameters<f32> {
    let drift = match hidden {
        0 => Drift::Linear { weights: random(d, d) },
        h => Drift::Mlp {
            activation: Activation::Sigmoid,
            hidden_weights: random(d * h, d),
            hidden_biases: random(d, h),
            output_weights: random(d, h),
        },
    };
    Parameters {
        drift,
        biases: vec![0.0; d],
        noise: Noise::Diagonal { log_noise: vec![-1.0; d] },
        shift: None,
        log_scale: None,
    }
}

fn steps(c: &mut Criterion) {
    for (d, hidden) in [(20, 0), (20, 8), (500, 0), (500, 8)] {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut random = |rows, cols| Matrix::from_fn(rows, cols, |_, _| rng.random_range(-0.05f32..0.05));
        let start = parameters(d, hidden, &mut random);
        let units = d * hidden.max(1);
        let samples = Matrix::from_fn(2000, d, |i, j| ((i * 31 + j * 17) as f64).sin());
        let data = Dataset::from_environments(vec![samples]).expect("a valid dataset");
        let mut group = c.benchmark_group(format!("training/d={d},hidden={hidden}"));
        group.throughput(Throughput::Elements((4 * ROWS * d * units) as u64));

        let (x, weights, bar) = (random(ROWS, d), random(units, d), random(ROWS, units));
        let (mut out, mut gradient) = (random(ROWS, units), random(units, d));
        group.bench_function(BenchmarkId::from_parameter("products"), |b| {
            b.iter(|| {
                let threads = Par::rayon(0);
                matmul(out.view_mut(), Accum::Replace, x.view(), weights.view().transpose(), 1.0, threads);
                matmul(gradient.view_mut(), Accum::Replace, bar.view().transpose(), x.view(), 1.0, threads);
            });
        });
        for kind in [None, Some(PenaltyKind::Ingoing), Some(PenaltyKind::Both)] {
            let kernel = Kernel::TiltedRbf { bandwidth: (d as f64).sqrt() };
            let loss = LossSpec { objective: Objective::Skds, kernel, estimator: Estimator::Linear };
            let penalty = kind.map(|kind| Penalty { kind, lambda: 0.01 });
            let batches = Some(Batches { seed: 1, rows: ROWS, environments: 1 });
            let spec = TrainingSpec { loss, penalty, adam: Adam::default(), batches };
            let mut free = start.zeros_like();
            free.tensors_mut().into_iter().for_each(|(_, values)| values.fill(1.0));
            let mut training =
                CpuTraining::new(&data, spec, &start, &free).expect("the data suits the model");
            let name = kind.map_or("no penalty", PenaltyKind::name);
            group.bench_function(BenchmarkId::new("step", name), |b| {
                b.iter(|| training.step().expect("finite"));
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2));
    targets = steps
}
criterion_main!(benches);
