//! The statistics and minima of models that are made of given functions.

use super::tests::{basis, by_engine, data, kernels};
use super::*;
use crate::kernel::with_profile;
use crate::model::{BasisDrift, Drift, Noise};
use crate::{Matrix, Progress};

/// Pair by pair, from the kernel's derivatives.
fn by_pairs(x: &Matrix<f64>, design: &Design, kernel: Kernel, estimator: Estimator) -> Statistics {
    let n = x.rows();
    let different: Vec<(usize, usize)> = (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).collect();
    let count = different.len();
    let of = |pairs: Vec<(usize, usize)>, count: usize| {
        with_profile!(kernel, f64, |profile| {
            convexity::sum_of_pairs(profile, x, design, pairs.into_iter(), count)
        })
    };
    let u = of(different, count);
    if estimator == Estimator::U {
        return u;
    }
    let own = of((0..n).map(|i| (i, i)).collect(), n);
    let mix = |u: &Matrix<f64>, own: &Matrix<f64>| {
        let share = 1.0 / n as f64;
        Matrix::from_fn(u.rows(), u.cols(), |i, j| (1.0 - share) * u[(i, j)] + share * own[(i, j)])
    };
    Statistics {
        drift: mix(&u.drift, &own.drift),
        cross: mix(&u.cross, &own.cross),
        noise: mix(&u.noise, &own.noise),
    }
}

#[test]
fn statistics_of_given_functions_are_those_of_single_pairs() {
    for (rows, d) in [(37, 3), (300, 2), (2, 1)] {
        let data = data(&[rows], d, 5);
        for (features, diffusion) in
            [("polynomial:2", "1"), ("polynomial:1", "1 + self^2"), ("rbf:2", "1, self^2, exp(-x0^2)")]
        {
            let design = basis(features, diffusion, &data);
            for kernel in kernels() {
                for estimator in [Estimator::U, Estimator::V] {
                    let found = Statistics::of(&data, &design, kernel, estimator, &Progress::default())
                        .unwrap()
                        .remove(0);
                    let expected = by_pairs(data.samples(), &design, kernel, estimator);
                    for (name, a, b) in [
                        ("C", &found.drift, &expected.drift),
                        ("D", &found.cross, &expected.cross),
                        ("E", &found.noise, &expected.noise),
                    ] {
                        let size = b.as_slice().iter().fold(1e-3f64, |m, v| m.max(v.abs()));
                        for (a, b) in a.as_slice().iter().zip(b.as_slice()) {
                            let what =
                                format!("{name} {rows} {d} {features} {diffusion} {kernel:?} {estimator}");
                            assert!((a - b).abs() < 1e-11 * size, "{what}: {a} {b}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_basis_of_the_variables_is_the_linear_model() {
    let data = data(&[300, 200, 250], 3, 8);
    let design = basis("polynomial:1", "1", &data);
    let kernel = Kernel::TiltedRbf { bandwidth: 2.0 };
    let spec = ExactSpec { kernel, estimator: Estimator::V, penalty: None, learn_scale: false };
    let found = ExactSolver::prepare(None, &data, data.targets(), &design, None, spec, &Progress::default())
        .unwrap()
        .solve()
        .unwrap();
    let (Drift::Basis(BasisDrift { coefficients, .. }), Noise::Basis { amounts }) =
        (&found.parameters.drift, &found.parameters.noise)
    else {
        unreachable!()
    };
    let log_noise = (0..3).map(|j| 0.5 * amounts[(j, 0)].ln()).collect();
    let linear = Parameters {
        drift: Drift::linear(coefficients.clone()),
        noise: Noise::Diagonal { log_noise },
        biases: found.parameters.biases.clone(),
        shift: found.parameters.shift.clone(),
        log_scale: None,
    };
    let (loss, gradient) = by_engine(&data, kernel, Estimator::V, &linear);
    assert!((loss - found.loss).abs() < 1e-8 * loss, "{loss} {}", found.loss);
    assert!((0..3).all(|j| (coefficients[(j, j)] + 1.0).abs() < 1e-12), "{coefficients:?}");
    for tensor in gradient.tensors() {
        for (at, slope) in tensor.values.iter().enumerate() {
            let fixed = match tensor.name {
                "shift" => !data.targets().as_slice()[at],
                "weights" => at % 4 == 0,
                _ => false,
            };
            assert!(fixed || slope.abs() < 1e-8, "{}[{at}]: {slope}", tensor.name);
        }
    }
    // A square takes part in the reversion of its own variable: mean (b_own + x) (x − m) = 0 with m by environment.
    let design = basis("polynomial:2", "1", &data);
    let found = ExactSolver::prepare(None, &data, data.targets(), &design, None, spec, &Progress::default())
        .unwrap()
        .solve()
        .unwrap();
    let Drift::Basis(BasisDrift { coefficients, .. }) = &found.parameters.drift else { unreachable!() };
    let squares = [3, 6, 8];
    for j in 0..3 {
        let (mut sum, mut size) = (0.0, 0.0);
        for e in 0..data.environments() {
            let mean = data.means(e)[j];
            for i in data.rows(e) {
                let x = data.samples()[(i, j)];
                let own = coefficients[(j, j)] * x + coefficients[(j, squares[j])] * x * x;
                sum += (own + x) * (x - mean);
                size += (x - mean) * (x - mean);
            }
        }
        assert!(sum.abs() < 1e-9 * size && coefficients[(j, squares[j])] != 0.0, "{sum} {size}");
    }
}

#[test]
fn penalised_fits_of_given_functions_meet_their_conditions() {
    let data = data(&[200, 150, 150, 150], 3, 2);
    for (features, diffusion) in [("polynomial:2", "1, self^2"), ("rbf:3", "1 + self^2")] {
        let design = basis(features, diffusion, &data);
        for kernel in kernels() {
            let spec = ExactSpec { kernel, estimator: Estimator::V, penalty: None, learn_scale: false };
            let exact =
                ExactSolver::prepare(None, &data, data.targets(), &design, None, spec, &Progress::default())
                    .unwrap();
            let all = [0, 1, 2, 3];
            let top = exact.largest_penalty(&all).unwrap();
            for &kind in PenaltyKind::ALL {
                let path = exact.path(&all, kind, &[2.0 * top, 0.3 * top, 0.01 * top]).unwrap();
                let used = |solution: &Solution| {
                    let Drift::Basis(BasisDrift { coefficients, .. }) = &solution.parameters.drift else {
                        unreachable!()
                    };
                    coefficients.as_slice().iter().filter(|c| **c != 0.0).count()
                };
                assert!(path.iter().all(|solution| solution.violation < 1e-8), "{kind}");
                assert!(path.windows(2).all(|pair| pair[1].loss <= pair[0].loss + 1e-12), "{kind}");
                assert!(used(&path[0]) < used(&path[2]), "{kind}");
                if kind == PenaltyKind::Ingoing {
                    assert_eq!(path[0].penalty, 0.0, "nothing is left above the largest penalty");
                }
            }
        }
    }
    // Several amounts and learnt scales are a product of unknowns.
    let design = basis("polynomial:1", "1, self^2", &data);
    let spec =
        ExactSpec { kernel: Kernel::ImqPlus, estimator: Estimator::V, penalty: None, learn_scale: true };
    assert!(
        ExactSolver::prepare(None, &data, data.targets(), &design, None, spec, &Progress::default()).is_err()
    );
}
