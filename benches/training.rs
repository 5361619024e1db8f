//! A whole training step beside its matrix products alone, in the same run.
//!
//! An "element" of the throughput is a floating-point operation of the products (forward and backward, 4 · rows · d · units). The
//! ratio of the rates of `products` and a step is the cost of drawing the batch, the pairs, the penalty, the check for NaN and Adam.

mod common;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use skds::Matrix;
use skds::bench::training::random_training;
use skds::engine::Place;
use skds::model::PenaltyKind;
use std::time::Duration;

const ROWS: usize = 512;

fn steps(c: &mut Criterion) {
    for (d, hidden) in [(20, 0), (20, 8), (500, 0), (500, 8)] {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut random = |rows, cols| Matrix::from_fn(rows, cols, |_, _| rng.random_range(-0.05f32..0.05));
        let units = d * hidden.max(1);
        let mut group = c.benchmark_group(format!("training/d={d},hidden={hidden}"));
        group.throughput(Throughput::Elements((4 * ROWS * d * units) as u64));

        let (x, weights, bar) = (random(ROWS, d), random(units, d), random(ROWS, units));
        let (mut out, mut gradient) = (random(ROWS, units), random(units, d));
        group.bench_function(BenchmarkId::from_parameter("products"), |b| {
            b.iter(|| {
                common::product(out.view_mut(), x.view(), weights.view().transpose());
                common::product(gradient.view_mut(), bar.view().transpose(), x.view());
            });
        });
        for kind in [None, Some(PenaltyKind::Ingoing), Some(PenaltyKind::Both)] {
            let mut training =
                random_training(&Place::Cpu, d, hidden, kind).expect("the data suits the model");
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
