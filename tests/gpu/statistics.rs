//! The exact solver's pass over pairs on the device against the one on the host.

use crate::common::{gpu_engine, random_data, relative_error};
use skds::Progress;
use skds::engine::gpu::plan::Bounds;
use skds::kernel::KernelKind;
use skds::model::{Basis, Penalty, PenaltyKind};
use skds::objective::Estimator;
use skds::solve::{Design, ExactSolver, ExactSpec, Statistics};
use std::sync::Arc;

/// Of sums in f32, relative to the largest entry.
const TOLERANCE: f64 = 2e-5;

#[test]
fn statistics_on_the_device_are_the_hosts_to_f32() {
    let engine = gpu_engine();
    let spans = gpu_engine().with_bounds(Bounds::new(96 << 10, 1 << 30));
    for (case, (rows, d)) in
        [(vec![2], 1), (vec![65, 3], 5), (vec![333, 70, 129], 20), (vec![90], 70)].into_iter().enumerate()
    {
        let data = random_data(case as u64, &rows, d);
        let basis = |features: &str, diffusion: &str| {
            let basis = Basis::new(&features.parse().unwrap(), diffusion, &data).unwrap();
            Design::basis(Arc::new(basis), &data).unwrap()
        };
        let functions = if d > 5 { "rbf:2" } else { "polynomial:2" };
        for design in [Design::Linear, basis(functions, "1"), basis("polynomial:1", "1, self^2/9")] {
            for &kind in KernelKind::ALL {
                let kernel = kind.with_bandwidth((d as f64).sqrt()).unwrap();
                for estimator in [Estimator::U, Estimator::V] {
                    let host =
                        Statistics::of(&data, &design, kernel, estimator, &Progress::default()).unwrap();
                    let engine = if case % 2 == 0 { &engine } else { &spans };
                    let pass = || {
                        Statistics::on_gpu(engine, &data, &design, kernel, estimator, &Progress::default())
                            .unwrap()
                    };
                    let found = pass();
                    for (e, (found, host)) in found.iter().zip(&host).enumerate() {
                        for (part, f, h) in [
                            ("C", found.drift.as_slice(), host.drift.as_slice()),
                            ("D", found.cross.as_slice(), host.cross.as_slice()),
                            ("E", found.noise.as_slice(), host.noise.as_slice()),
                        ] {
                            let error = relative_error(f, h);
                            let what =
                                format!("{rows:?} {d} {kernel:?} {estimator} {e} {part} {design:.20?}");
                            assert!(error < TOLERANCE, "{what}: {error}");
                        }
                    }
                    assert_eq!(found, pass(), "the same bytes twice");
                }
            }
        }
    }
    let linear = Statistics::on_gpu(
        &engine,
        &random_data(1, &[4], 2),
        &Design::Linear,
        KernelKind::Rbf.with_bandwidth(1.0).unwrap(),
        Estimator::Linear,
        &Progress::default(),
    );
    assert!(linear.is_err());
}

#[test]
fn a_fit_from_the_devices_statistics_is_the_hosts_nearly() {
    let data = random_data(4, &[400, 300], 6);
    let kernel = KernelKind::TiltedRbf.with_bandwidth(2.0).unwrap();
    let penalty = Some(Penalty::new(PenaltyKind::Both, 0.1));
    let spec = ExactSpec { kernel, estimator: Estimator::V, penalty, learn_scale: false };
    let host = ExactSolver::new(&data, data.targets(), spec).unwrap().solve().unwrap();
    let found = ExactSolver::prepare(
        Some(&gpu_engine()),
        &data,
        data.targets(),
        &Design::Linear,
        None,
        spec,
        &Progress::default(),
    )
    .unwrap()
    .solve()
    .unwrap();
    assert!(found.violation < 1e-8);
    let (a, b) = (host.loss + host.penalty, found.loss + found.penalty);
    assert!((a - b).abs() < 1e-5 * a, "{a} {b}");
    for (f, h) in found.parameters.tensors().iter().zip(host.parameters.tensors()) {
        let error = f.values.iter().zip(h.values).fold(0.0f64, |m, (f, h)| m.max((f - h).abs()));
        assert!(error < 1e-3, "{}: {error}", h.name);
    }
}
