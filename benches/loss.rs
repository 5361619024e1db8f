//! Value and gradient for objective × kernel × estimator over n and d, and the machine's matrix-multiply rate in
//! the same run.
//!
//! An "element" of the throughput is a floating-point operation: for the `linear` estimator those of the drift and its backward
//! product (4 n d²), for `u` those of the tiles (6 n² d). The rates are therefore comparable with `matmul`, and the pairs
//! themselves account for the difference.

mod common;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use skds::Matrix;
use skds::bench::random_problem;
use skds::engine::{Engine, LossSpec, cpu::CpuEngine};
use skds::kernel::KernelKind;
use skds::objective::{Estimator, Objective};
use std::time::Duration;

/// faer's product on all threads: what the machine can do.
fn matmul(c: &mut Criterion) {
    let mut group = c.benchmark_group("matmul");
    for (m, k, n) in [(512, 200, 200), (512, 1000, 1000), (512, 2000, 2000), (2000, 2000, 2000)] {
        let (lhs, rhs) = (Matrix::full(m, k, 1.5f32), Matrix::full(n, k, 0.5f32));
        let mut dst = Matrix::full(m, n, 0.0f32);
        group.throughput(Throughput::Elements((2 * m * k * n) as u64));
        group.bench_function(BenchmarkId::from_parameter(format!("{m}x{k}x{n}")), |b| {
            b.iter(|| {
                common::product(dst.view_mut(), lhs.view(), rhs.view().transpose());
            });
        });
    }
    group.finish();
}

fn losses(c: &mut Criterion) {
    for (estimator, sizes) in [
        (Estimator::Linear, &[(512, 20), (512, 200), (512, 1000), (512, 2000)][..]),
        (Estimator::U, &[(1000, 20), (1000, 200), (4000, 20)]),
    ] {
        for &objective in Objective::ALL {
            for &kind in KernelKind::ALL {
                let mut group = c.benchmark_group(format!("{objective}/{kind}/{estimator}"));
                for &(n, d) in sizes {
                    let (data, parameters) = random_problem(n, d);
                    let kernel = kind.with_bandwidth((d as f64).sqrt()).expect("a valid bandwidth");
                    let spec = LossSpec { objective, kernel, estimator };
                    let mut gradient = parameters.zeros_like();
                    let mut loss =
                        Engine::<f32>::load(&CpuEngine, &data, &spec).expect("the CPU engine loads");
                    let flops = if estimator == Estimator::Linear { 4 * n * d * d } else { 6 * n * n * d };
                    group.throughput(Throughput::Elements(flops as u64));
                    group.bench_function(BenchmarkId::from_parameter(format!("n={n},d={d}")), |b| {
                        b.iter(|| loss.evaluate(&parameters, Some(&mut gradient)).expect("finite"));
                    });
                }
                group.finish();
            }
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = matmul, losses
}
criterion_main!(benches);
