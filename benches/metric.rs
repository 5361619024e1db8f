//! Times of the metrics on samples of normal laws that differ in mean and sample size.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use skds::{Matrix, metric};
use std::time::Duration;

fn normal(seed: u64, n: usize, d: usize) -> Matrix<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    Matrix::from_fn(n, d, |_, _| rand_distr::Distribution::sample(&rand_distr::StandardNormal, &mut rng))
}

fn metrics(c: &mut Criterion) {
    let mut group = c.benchmark_group("metric");
    group.sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
    for (n, d) in [(1000, 2), (1000, 20), (2000, 20)] {
        let (a, b) = (normal(1, n, d), normal(2, n, d).map(|x| 0.5 + 1.5 * x));
        let size = format!("n{n} d{d}");
        group.bench_function(BenchmarkId::new("wasserstein2", &size), |bench| {
            bench.iter(|| metric::wasserstein2(&a, &b).expect("valid samples"));
        });
        group.bench_function(BenchmarkId::new("sinkhorn", &size), |bench| {
            bench.iter(|| metric::sinkhorn_divergence(&a, &b).expect("valid samples"));
        });
    }
    group.finish();
}

criterion_group!(benches, metrics);
criterion_main!(benches);
