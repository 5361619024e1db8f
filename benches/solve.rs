//! The exact solver: its pass over all pairs beside the machine's f64 matrix-multiply rate in the same run, and whole fits.
//!
//! Throughput of `statistics` is in floating-point operations of the tiles' products: 6 n² d per environment with a
//! tilted Gaussian kernel (inner products, and weights times [x | τx]), 4 n² d without a tilt, 10 n² d with IMQ+.

mod common;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use skds::data::Dataset;
use skds::kernel::KernelKind;
use skds::model::{Penalty, PenaltyKind};
use skds::objective::Estimator;
use skds::solve::{Design, ExactSolver, ExactSpec, Statistics};
use skds::{Matrix, Progress};
use std::time::Duration;

fn data(environments: usize, rows: usize, d: usize) -> Dataset {
    let samples = (0..environments).map(|e| {
        Matrix::from_fn(rows, d, |i, j| {
            ((i * 7 + j * 13 + i * j) as f64 * 0.37 + e as f64).sin()
                + if e > 0 && j == e % d { 1.0 } else { 0.0 }
        })
    });
    let targets = Matrix::from_fn(environments, d, |e, j| e > 0 && j == e % d);
    Dataset::from_environments(samples.collect())
        .and_then(|data| data.with_targets(targets))
        .expect("a valid dataset")
}

fn product(c: &mut Criterion) {
    let mut group = c.benchmark_group("matmul f64");
    for (m, k, n) in [(1000, 1000, 200), (2000, 2000, 2000)] {
        let (lhs, rhs) = (Matrix::full(m, k, 1.5), Matrix::full(k, n, 0.5));
        let mut dst = Matrix::full(m, n, 0.0);
        group.throughput(Throughput::Elements((2 * m * k * n) as u64));
        group.bench_function(BenchmarkId::from_parameter(format!("{m}x{k}x{n}")), |b| {
            b.iter(|| common::product(dst.view_mut(), lhs.view(), rhs.view()));
        });
    }
    group.finish();
}

fn statistics(c: &mut Criterion) {
    for (environments, rows, d) in [(11, 1000, 20), (4, 1000, 200)] {
        let data = data(environments, rows, d);
        let mut group = c.benchmark_group(format!("statistics/{environments}x{rows},d={d}"));
        for &kind in KernelKind::ALL {
            // Distances and the sums of the kernel; the tilt adds another, and each derivative that is not a multiple of it.
            let traits = kind.traits();
            let products = 4 + if traits.tilted { 2 } else { 0 } + if traits.gaussian { 0 } else { 4 };
            let kernel = kind.with_bandwidth((d as f64).sqrt()).expect("a valid bandwidth");
            group.throughput(Throughput::Elements((products * environments * rows * rows * d) as u64));
            group.bench_function(BenchmarkId::from_parameter(kind), |b| {
                b.iter(|| {
                    Statistics::of(&data, &Design::Linear, kernel, Estimator::V, &Progress::default())
                        .expect("finite")
                });
            });
        }
        group.finish();
    }
}

fn fits(c: &mut Criterion) {
    let data = data(11, 1000, 20);
    let mut group = c.benchmark_group("exact fit/11x1000,d=20");
    for &kind in PenaltyKind::ALL {
        let penalty = Some(Penalty::new(kind, 0.1));
        let kernel = KernelKind::TiltedRbf.with_bandwidth(3.0).expect("a valid bandwidth");
        let spec = ExactSpec { kernel, estimator: Estimator::V, penalty, learn_scale: false };
        group.bench_function(BenchmarkId::from_parameter(kind), |b| {
            b.iter(|| {
                ExactSolver::new(&data, data.targets(), spec).and_then(|exact| exact.solve()).expect("finite")
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2));
    targets = product, statistics, fits
}
criterion_main!(benches);
