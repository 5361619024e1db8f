use super::*;
use crate::kernel::{Kernel, KernelKind};
use crate::objective::Objective;
use crate::solve::tests::data;
use std::time::Instant;

#[test]
#[ignore]
fn timing() {
    let path = std::env::var("DATA").unwrap();
    let data = Dataset::read(std::path::Path::new(&path), None).unwrap();
    let data = match std::env::var("DIM") {
        Ok(d) => {
            let d: usize = d.parse().unwrap();
            let n: usize = std::env::var("ROWS").unwrap().parse().unwrap();
            let envs: Vec<usize> = (0..data.environments())
                .filter(|&e| (d..data.dim()).all(|j| !data.targets()[(e, j)]))
                .collect();
            let mats = envs
                .iter()
                .map(|&e| {
                    let x = data.environment(e);
                    Matrix::from_fn(n.min(x.rows()), d, |i, j| x[(i, j)])
                })
                .collect();
            let t = Matrix::from_fn(envs.len(), d, |k, j| data.targets()[(envs[k], j)]);
            Dataset::from_environments(mats).unwrap().with_targets(t).unwrap()
        }
        Err(_) => data,
    };
    let d = data.dim();
    println!("d {d} environments {} rows {}", data.environments(), data.samples().rows());
    let h: f64 = std::env::var("H").map_or((d as f64).sqrt(), |h| h.parse().unwrap());
    let kernel = KernelKind::TiltedRbf.with_bandwidth(h).unwrap();
    let objective = if std::env::var("SKDS").is_ok() { Objective::Skds } else { Objective::Kds };
    let loss = LossSpec { objective, kernel, estimator: Estimator::V };
    let way = if std::env::var("FORMED").is_ok() { Way::Formed } else { Way::Free };
    let spec = QuadraticSpec { loss, learn_scale: false, multipliers: None, fits: 1, way: Some(way) };
    let progress = Progress::default();
    let start = Instant::now();
    let mut fit = Quadratic::new(None, &data, data.targets(), spec, &progress).unwrap();
    println!("new {:?} steps {} unknowns {}", start.elapsed(), fit.steps(), fit.unknowns());
    for lambda in [1.0, 0.1, 0.01] {
        for kind in crate::model::PenaltyKind::ALL {
            let before = fit.steps();
            let start = Instant::now();
            let tolerance = Tolerance { violation: 1e-8, steps: 5000 };
            let found = fit.fit(Some(Penalty { kind: *kind, lambda }), None, tolerance, &progress).unwrap();
            let crate::model::Drift::Linear { weights } = &found.parameters.drift else { unreachable!() };
            let count = weights.as_slice().iter().filter(|w| **w != 0.0).count() - d;
            eprintln!(
                "λ {lambda} {kind} {:?} steps {} loss {} penalty {} violation {:.1e} effects {count}",
                start.elapsed(),
                fit.steps() - before,
                found.loss,
                found.penalty,
                found.violation
            );
        }
    }
}
