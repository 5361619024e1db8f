//! Fits of kernel KDS by the device's gradients against those by the host's.

use crate::common::{gpu_engine, random_data};
use skds::engine::LossSpec;
use skds::kernel::KernelKind;
use skds::model::{Penalty, PenaltyKind};
use skds::objective::{Estimator, Objective};

use skds::solve::{Design, ProductMethod, Quadratic, QuadraticSpec, Tolerance};
use skds::{Matrix, Progress};

#[test]
fn a_fit_by_the_devices_gradients_is_the_hosts_nearly() {
    let targets = Matrix::from_fn(2, 4, |e, j| e == 1 && j == 2);
    let data = random_data(4, &[120, 90], 4).with_targets(targets).unwrap();
    let engine = gpu_engine();
    for &kind in KernelKind::ALL {
        let kernel = kind.with_bandwidth(2.0).unwrap();
        let loss = LossSpec { objective: Objective::Kds, kernel, estimator: Estimator::V };
        let spec = QuadraticSpec {
            loss,
            learn_scale: false,
            multipliers: None,
            fits: 1,
            products: Some(ProductMethod::ByGradients),
        };
        let fit = |gpu, violation| {
            let progress = Progress::default();
            let mut fit =
                Quadratic::new(gpu, &data, data.targets(), &Design::Linear, spec, &progress).unwrap();
            let penalty = Some(Penalty::new(PenaltyKind::Ingoing, 0.02));
            fit.fit(penalty, None, Tolerance { violation, steps: 300 }, &progress).unwrap()
        };
        let (host, found) = (fit(None, 1e-9), fit(Some(&engine), 1e-4));
        assert!(host.violation < 1e-8, "{kind}: {}", host.violation);
        assert!(found.violation < 1e-3, "{kind}: {}", found.violation);
        let (a, b) = (host.loss + host.penalty, found.loss + found.penalty);
        assert!((a - b).abs() < 1e-3 * a, "{kind}: {a} {b}");
    }
}
