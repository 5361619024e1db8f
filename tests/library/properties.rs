//! What the paper proves of the two losses, and what follows from their definitions.

use crate::common::{SHAPES, all_specs, evaluate, normal, random_data, random_parameters, value};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use skds::Matrix;
use skds::data::Dataset;
use skds::engine::LossSpec;
use skds::kernel::{Kernel, KernelKind};
use skds::model::{Drift, Noise, Parameters};
use skds::objective::{Estimator, Objective};

/// A linear model without interventions.
fn linear(weights: Matrix<f64>, biases: Vec<f64>, log_noise: Vec<f64>) -> Parameters<f64> {
    let noise = Noise::Diagonal { log_noise };
    Parameters { drift: Drift::linear(weights), biases, noise, shift: None, log_scale: None }
}

#[test]
fn v_estimates_are_never_negative() {
    for seed in 0..5 {
        let data = random_data(seed, &[7, 12], 4);
        for (shape, activation, full) in SHAPES {
            let parameters = random_parameters(100 + seed, 4, 2, activation, full);
            for spec in all_specs(0.9).into_iter().filter(|s| s.estimator == Estimator::V) {
                let loss = value(&data, &spec, &parameters);
                assert!(loss >= 0.0, "{shape} {spec:?}: {loss}");
            }
        }
    }
}

#[test]
fn scaling_drift_and_diffusion_by_c_scales_the_loss_by_c_squared() {
    let (data, c) = (random_data(3, &[6, 5], 3), 1.7f64);
    let parameters = random_parameters(4, 3, 2, None, false);
    let mut scaled = parameters.clone();
    for (name, values) in scaled.tensors_mut() {
        match name {
            "log_noise" => values.iter_mut().for_each(|v| *v += 0.5 * c.ln()),
            "log_scale" => {}
            _ => values.iter_mut().for_each(|v| *v *= c),
        }
    }
    for spec in all_specs(1.1) {
        let (before, after) = (value(&data, &spec, &parameters), value(&data, &spec, &scaled));
        assert!((after - c * c * before).abs() < 1e-12 * after.abs().max(1.0), "{spec:?} {before} {after}");
    }
}

/// The loss and gradient over all pairs is that of the `linear` estimator on rows that list every pair.
#[test]
fn u_and_v_average_over_every_pair() {
    // Past one tile in both directions, and no multiple of anything.
    let (n, d) = (277, 3);
    let samples = random_data(5, &[n], d);
    let x = samples.samples();
    let list = |pairs: Vec<(usize, usize)>| {
        let mut rows = Vec::new();
        for (i, j) in pairs {
            rows.extend_from_slice(x.row(i));
            rows.extend_from_slice(x.row(j));
        }
        let count = rows.len() / d;
        Dataset::from_environments(vec![Matrix::from_rows(count, d, rows)]).unwrap()
    };
    let different = list((0..n).flat_map(|i| (0..i).map(move |j| (i, j))).collect());
    let all = list((0..n).flat_map(|i| (0..n).map(move |j| (i, j))).collect());
    for (shape, activation, full) in SHAPES {
        let parameters = random_parameters(6, d, 1, activation, full);
        for spec in all_specs(1.3).into_iter().filter(|s| s.estimator != Estimator::Linear) {
            let listed = if spec.estimator == Estimator::U { &different } else { &all };
            let one_by_one = LossSpec { estimator: Estimator::Linear, ..spec };
            let (expected, slopes) = evaluate::<f64>(listed, &one_by_one, &parameters).unwrap();
            let (found, gradient) = evaluate::<f64>(&samples, &spec, &parameters).unwrap();
            assert!((found - expected).abs() < 1e-11 * expected.abs().max(0.1), "{shape} {spec:?}");
            for ((name, found), (_, expected)) in
                crate::common::tensors(&gradient).into_iter().zip(crate::common::tensors(&slopes))
            {
                let error = crate::common::relative_error(&found, &expected);
                assert!(error < 1e-10, "{shape} {spec:?} {name}: {error:e}");
            }
        }
    }
}

/// Both processes dX = −(X + c J X) dt + dB with the rotation J have the law N(0, ½ I); only c = 0 is reversible.
#[test]
fn kds_vanishes_for_stationary_processes_and_skds_only_for_reversible_ones() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let x = Matrix::from_fn(3000, 2, |_, _| 0.5f64.sqrt() * normal(&mut rng));
    let data = Dataset::from_environments(vec![x]).unwrap();
    let rotating =
        |c: f64| linear(Matrix::from_rows(2, 2, vec![-1.0, -c, c, -1.0]), vec![0.0; 2], vec![0.0; 2]);
    for kernel in KernelKind::ALL.iter().map(|kind| kind.with_bandwidth(1.0).unwrap()) {
        let loss = |objective, c| {
            value(&data, &LossSpec { objective, kernel, estimator: Estimator::U }, &rotating(c))
        };
        // Two percent of what the wrong process gives: noise of a degenerate U-statistic falls as 1/n.
        let wrong_law =
            linear(Matrix::from_rows(2, 2, vec![-2.0, 0.0, 0.0, -2.0]), vec![0.0; 2], vec![0.0; 2]);
        let spec = |objective| LossSpec { objective, kernel, estimator: Estimator::U };
        let kds_scale = value(&data, &spec(Objective::Kds), &wrong_law);
        let skds_scale = value(&data, &spec(Objective::Skds), &wrong_law);
        assert!(kds_scale > 0.0 && skds_scale > 0.0);
        assert!(loss(Objective::Kds, 0.0).abs() < 0.02 * kds_scale, "{kernel:?}");
        assert!(loss(Objective::Kds, 1.0).abs() < 0.02 * kds_scale, "{kernel:?}");
        assert!(loss(Objective::Skds, 0.0).abs() < 0.02 * skds_scale, "{kernel:?}");
        assert!(loss(Objective::Skds, 1.0) > 0.5 * skds_scale, "{kernel:?}");
    }
}

/// Example 6 of the paper: dX = −4 (X − α) dt + σ dB, target N(1, ½), RBF with bandwidth ½, n = 5000.
#[test]
fn example_6_has_its_stationary_point_at_the_truth() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let x = Matrix::from_fn(5000, 1, |_, _| 1.0 + 0.5f64.sqrt() * normal(&mut rng));
    let data = Dataset::from_environments(vec![x]).unwrap();
    let kernel = Kernel::Rbf { bandwidth: 0.5 };
    let spec = LossSpec { objective: Objective::Skds, kernel, estimator: Estimator::U };
    let slopes = |alpha: f64, sigma: f64| {
        let model = linear(Matrix::full(1, 1, -4.0), vec![4.0 * alpha], vec![sigma.ln()]);
        let (_, gradient) = evaluate::<f64>(&data, &spec, &model).unwrap();
        let Noise::Diagonal { log_noise } = &gradient.noise else { unreachable!() };
        // ∂/∂α = 4 ∂/∂bias, ∂/∂σ = ∂/∂log σ / σ.
        (4.0 * gradient.biases[0], log_noise[0] / sigma)
    };
    let truth = slopes(1.0, 2.0);
    let (red, blue) = (slopes(0.25, 2.0), slopes(1.0, 1.0));
    assert!(red.0 < 0.0 && blue.1 < 0.0, "the loss falls towards the truth: {red:?} {blue:?}");
    // Four standard errors of the sample's mean and standard deviation, times the slopes' own slopes.
    let error = 4.0 * (0.5f64 / 5000.0).sqrt();
    assert!(truth.0.abs() < error / 0.75 * red.0.abs(), "{truth:?} {red:?}");
    assert!(truth.1.abs() < 2.0 * error * blue.1.abs(), "{truth:?} {blue:?}");
}

/// A constant drift with next to no noise: its loss is quadratic in the drift.
#[test]
fn a_mean_that_overflows_is_an_error() {
    let drift = |by: f64| skds::model::Parameters::<f64> {
        drift: skds::model::Drift::linear(skds::Matrix::full(2, 2, 0.0)),
        biases: vec![by; 2],
        noise: skds::model::Noise::Diagonal { log_noise: vec![-20.0; 2] },
        shift: None,
        log_scale: None,
    };
    // One pair in each of two environments: each loss stays below the largest number there is, their sum does not.
    let same = skds::data::Dataset::from_environments(vec![skds::Matrix::full(2, 2, 0.3); 2]).unwrap();
    let spec = crate::common::all_specs(1.0)[0];
    let mut loss = skds::engine::Engine::<f64>::load(&skds::engine::cpu::CpuEngine, &same, &spec).unwrap();
    let one = loss.evaluate(&drift(1e100), None).unwrap() / 1e200;
    assert!(loss.evaluate(&drift((0.8e308 / one).sqrt()), None).is_ok());
    let error = loss.evaluate(&drift((1.7e308 / one).sqrt()), None).unwrap_err().to_string();
    assert!(error.contains("the mean of the losses is inf"), "{error}");
}
