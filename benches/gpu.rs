//! Value and gradient on the GPU, with everything on the device, and training steps with an explicit wait. The device
//! is the best real GPU; where there is only a software adapter its times are labelled `software` and say nothing about
//! speed. Throughput is in floating-point operations, as in `benches/loss.rs`, so that rates can be compared.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use skds::bench::random_problem;
use skds::engine::gpu::GpuEngine;
use skds::engine::gpu::adapters::{self, GpuKind};
use skds::engine::{Adam, Loss, LossSpec, Training, TrainingSpec};
use skds::kernel::KernelKind;
use skds::objective::{Estimator, Objective};
use std::time::Duration;

fn losses(c: &mut Criterion) {
    let gpus = adapters::list();
    let Ok(gpu) = adapters::any(&gpus) else {
        eprintln!("no GPU found: nothing to measure");
        return;
    };
    let software = gpu.kind() == GpuKind::Software;
    let engine = GpuEngine::new(gpu);
    let device = if software { "software".to_owned() } else { gpu.name().replace('/', " ") };
    // A software adapter takes seconds for what a GPU does in milliseconds.
    let linear: &[(usize, usize)] =
        if software { &[(512, 20), (512, 200)] } else { &[(512, 20), (512, 200), (512, 1000), (512, 2000)] };
    let all: &[(usize, usize)] =
        if software { &[(512, 20)] } else { &[(1000, 20), (1000, 200), (4000, 20), (4000, 200)] };
    for (estimator, sizes) in [(Estimator::Linear, linear), (Estimator::U, all)] {
        for &objective in Objective::ALL {
            for &kind in KernelKind::ALL {
                let mut group = c.benchmark_group(format!("{device}/{objective}/{kind}/{estimator}"));
                for &(n, d) in sizes {
                    let (data, parameters) = random_problem(n, d);
                    let kernel = kind.with_bandwidth((d as f64).sqrt()).expect("a valid bandwidth");
                    let spec = LossSpec { objective, kernel, estimator };
                    let mut gradient = parameters.zeros_like();
                    let mut loss = engine.load_gpu(&data, &spec).expect("the GPU engine loads");
                    let flops = if estimator == Estimator::Linear { 4 * n * d * d } else { 6 * n * n * d };
                    group.throughput(Throughput::Elements(flops as u64));
                    // Reading the results back waits for the device.
                    group.bench_function(BenchmarkId::new("evaluate", format!("n={n},d={d}")), |b| {
                        b.iter(|| loss.evaluate(&parameters, Some(&mut gradient)).expect("finite"));
                    });
                    let mut free = parameters.zeros_like();
                    for (_, values) in free.tensors_mut() {
                        values.fill(1.0);
                    }
                    let adam = Adam { learning_rate: 1e-6, ..Adam::default() };
                    let spec =
                        TrainingSpec { loss: spec, penalty: None, optimiser: adam.into(), batches: None };
                    let mut training =
                        engine.train(&data, &spec, &parameters, &free).expect("there is room for training");
                    group.bench_function(BenchmarkId::new("step", format!("n={n},d={d}")), |b| {
                        b.iter_custom(|steps| {
                            let start = std::time::Instant::now();
                            (0..steps).for_each(|_| training.step().expect("the device is there"));
                            training.wait().expect("the device is there");
                            start.elapsed()
                        });
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
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = losses
}
criterion_main!(benches);
