//! Fits to which something of the effects is known: forbidden ones are 0, required ones are not shrunk, and the rest is a
//! minimum by the engine's own gradients.

use super::tests::{basis, by_engine, data, kernels};
use super::*;
use crate::data::Dataset;
use crate::model::{Basis, BasisDrift, Drift};
use crate::{Matrix, Progress};
use std::sync::Arc;

const INF: f64 = f64::INFINITY;

fn spec(kernel: Kernel, penalty: Option<Penalty>) -> ExactSpec {
    ExactSpec { kernel, estimator: Estimator::V, penalty, learn_scale: false }
}

fn solve(data: &Dataset, design: &Design, known: Option<&Matrix<f64>>, spec: ExactSpec) -> Solution {
    let exact = ExactSolver::prepare(None, data, data.targets(), design, known, spec, &Progress::default());
    exact.unwrap().solve().unwrap()
}

fn weights(solution: &Solution) -> &Matrix<f64> {
    (solution.parameters.drift.linear_weights().unwrap()) as _
}

/// Effects of 4 variables of every kind.
fn known() -> Matrix<f64> {
    let rows = vec![1.0, INF, 2.0, 1.0, 0.0, 1.0, INF, 0.5, 1.0, 3.0, 1.0, 0.0, INF, 1.0, 1.0, 1.0];
    Matrix::from_rows(4, 4, rows)
}

#[test]
fn every_kind_of_effect_meets_its_condition_by_the_engines_gradient() {
    let data = data(&[150, 90, 80], 4, 5);
    let known = known();
    let charges = Matrix::from_fn(4, 4, |j, i| if known[(j, i)] == INF { 0.0 } else { known[(j, i)] });
    for kernel in kernels() {
        for &kind in PenaltyKind::ALL {
            for lambda in [0.05, 0.4] {
                let penalty = Penalty::new(kind, lambda);
                let solution = solve(&data, &Design::Linear, Some(&known), spec(kernel, Some(penalty)));
                let what = format!("{kernel:?} {kind} {lambda}");
                assert!(solution.violation < 1e-8, "{what}: {}", solution.violation);
                let (loss, mut gradient) = by_engine(&data, kernel, Estimator::V, &solution.parameters);
                assert!((loss - solution.loss).abs() < 1e-10 * (1.0 + loss), "{what}");
                let value = penalty
                    .add_weighted_gradient(&solution.parameters, Some(&charges), &mut gradient)
                    .unwrap();
                assert!((value - solution.penalty).abs() < 1e-12, "{what}: {value} {}", solution.penalty);
                gradient.mask_fixed(data.targets());
                let slopes = gradient.drift.linear_weights().unwrap();
                let w = weights(&solution);
                let single = lambda / 16.0;
                for (j, i) in (0..4).flat_map(|j| (0..4).map(move |i| (j, i))).filter(|(j, i)| j != i) {
                    let (w, slope, multiplier) = (w[(j, i)], slopes[(j, i)], known[(j, i)]);
                    if multiplier == INF {
                        assert_eq!(w, 0.0, "{what} {j} {i}");
                    } else if multiplier == 0.0 {
                        assert!(w != 0.0 && slope.abs() < 1e-8, "{what} {j} {i}: {w} {slope}");
                    } else if w == 0.0 {
                        // Within what the penalty can hold; a group that is 0 shares its part.
                        let most = single * multiplier * if kind == PenaltyKind::Both { 2.0 } else { 1.0 };
                        assert!(slope.abs() <= most + 1e-8, "{what} {j} {i}: {slope} {most}");
                    } else {
                        assert!(slope.abs() < 1e-8, "{what} {j} {i}: {slope}");
                    }
                }
                for tensor in gradient.tensors().iter().skip(1) {
                    let worst = tensor.values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
                    assert!(worst < 1e-8, "{what} {}: {worst}", tensor.name);
                }
            }
        }
    }
}

#[test]
fn forbidding_everything_that_is_0_changes_nothing_and_forbidding_more_costs() {
    let data = data(&[120, 80, 60], 4, 6);
    let kernel = Kernel::TiltedRbf { bandwidth: 2.0 };
    for &kind in PenaltyKind::ALL {
        // Some effects are 0 and some are not.
        let at = |lambda: f64| {
            let spec = spec(kernel, Some(Penalty::new(kind, lambda)));
            (solve(&data, &Design::Linear, None, spec), spec)
        };
        let mixed = |solution: &Solution| {
            let zeros = weights(solution).as_slice().iter().filter(|w| **w == 0.0).count();
            (1..12).contains(&zeros)
        };
        let (free, spec) = [0.1, 0.2, 0.3, 0.4, 0.5].map(at).into_iter().find(|(s, _)| mixed(s)).unwrap();
        let w = weights(&free);
        let mut known = Matrix::from_fn(4, 4, |j, i| if w[(j, i)] == 0.0 { INF } else { 1.0 });
        let same = solve(&data, &Design::Linear, Some(&known), spec);
        let total = |solution: &Solution| solution.loss + solution.penalty;
        assert!((total(&same) - total(&free)).abs() < 1e-12, "{kind}");
        let worst = weights(&same).as_slice().iter().zip(w.as_slice());
        assert!(worst.fold(0.0f64, |m, (a, b)| m.max((a - b).abs())) < 1e-7, "{kind}");
        // The first effect that was there.
        let at = (0..16).map(|at| (at / 4, at % 4)).find(|&(j, i)| i != j && w[(j, i)] != 0.0).unwrap();
        known[at] = INF;
        let without = solve(&data, &Design::Linear, Some(&known), spec);
        assert_eq!(weights(&without)[at], 0.0);
        assert!(total(&without) > total(&free) + 1e-9, "{kind}");
    }
}

#[test]
fn weights_of_2_are_twice_the_penalty_and_tiny_ones_hardly_any() {
    let data = data(&[120, 80, 60], 4, 7);
    let kernel = Kernel::Rbf { bandwidth: 2.0 };
    let close = |a: &Solution, b: &Solution, within: f64, what: &str| {
        let pairs = weights(a).as_slice().iter().zip(weights(b).as_slice());
        let worst = pairs.fold(0.0f64, |m, (a, b)| m.max((a - b).abs()));
        assert!(worst < within, "{what}: {worst}");
    };
    for &kind in PenaltyKind::ALL {
        let of = |lambda: f64, by: f64| {
            let known = Matrix::full(4, 4, by);
            solve(&data, &Design::Linear, Some(&known), spec(kernel, Some(Penalty::new(kind, lambda))))
        };
        let (twice, double) = (of(0.1, 2.0), of(0.2, 1.0));
        close(&twice, &double, 1e-8, kind.name());
        assert!((twice.penalty - double.penalty).abs() < 1e-12);
        close(
            &double,
            &solve(&data, &Design::Linear, None, spec(kernel, Some(Penalty::new(kind, 0.2)))),
            1e-13,
            kind.name(),
        );
        // One row with weight 2 is that row with twice the penalty, where rows are separate.
        if kind == PenaltyKind::Ingoing {
            let known = Matrix::from_fn(4, 4, |j, _| if j == 1 { 2.0 } else { 1.0 });
            let mixed =
                solve(&data, &Design::Linear, Some(&known), spec(kernel, Some(Penalty::new(kind, 0.1))));
            let plain = of(0.1, 1.0);
            for i in 0..4 {
                assert!((weights(&mixed)[(1, i)] - weights(&double)[(1, i)]).abs() < 1e-10);
                assert!((weights(&mixed)[(2, i)] - weights(&plain)[(2, i)]).abs() < 1e-10);
            }
        }
        close(&of(0.1, 0.0), &of(0.0, 1.0), 1e-8, kind.name());
        // The ends of what may be given, beside each other.
        let known = Matrix::from_fn(4, 4, |j, i| if (i + j) % 2 == 0 { 1e-6 } else { 1e6 });
        let ends = solve(&data, &Design::Linear, Some(&known), spec(kernel, Some(Penalty::new(kind, 0.1))));
        assert!(ends.violation < 1e-6, "{kind}: {}", ends.violation);
        let clear = Matrix::from_fn(4, 4, |j, i| if (i + j) % 2 == 0 { 0.0 } else { INF });
        let cleared =
            solve(&data, &Design::Linear, Some(&clear), spec(kernel, Some(Penalty::new(kind, 0.1))));
        close(&ends, &cleared, 1e-4, kind.name());
    }
}

#[test]
fn given_functions_of_a_source_are_known_together() {
    let data = data(&[200, 150, 150, 150], 3, 2);
    let design = basis("polynomial:2", "1", &data);
    let Design::Basis { basis, .. } = &design else { unreachable!() };
    // Nothing comes from 2 to 0; what comes from 0 to 1 is not penalised.
    let mut known = Matrix::full(3, 3, 1.0);
    (known[(0, 2)], known[(1, 0)]) = (INF, 0.0);
    let kernel = Kernel::TiltedRbf { bandwidth: 2.0 };
    let coefficients = |kind: PenaltyKind, lambda: f64| {
        let solution = solve(&data, &design, Some(&known), spec(kernel, Some(Penalty::new(kind, lambda))));
        assert!(solution.violation < 1e-8, "{kind} {lambda}: {}", solution.violation);
        let Drift::Basis(BasisDrift { coefficients, .. }) = solution.parameters.drift else { unreachable!() };
        coefficients
    };
    for &kind in PenaltyKind::ALL {
        let (weak, strong) = (coefficients(kind, 1e-4), coefficients(kind, 1e6));
        for p in 0..basis.features() {
            let variables = basis.variables(p);
            if variables.contains(&2) {
                assert_eq!((weak[(0, p)], strong[(0, p)]), (0.0, 0.0), "{}", basis.feature(p));
            } else {
                assert!(weak[(0, p)] != 0.0, "{kind} {}", basis.feature(p));
            }
            // A product with another variable is penalised as that one's functions are.
            let penalised = variables.contains(&2);
            assert_eq!(strong[(1, p)] == 0.0, penalised, "{kind} {}", basis.feature(p));
        }
    }
}

#[test]
fn a_speed_is_not_fixed_by_a_forbidden_function() {
    // No function is of 1 alone: without knowledge any may fix its speed.
    let data = data(&[200, 150], 2, 3);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("functions.txt");
    std::fs::write(&file, "x0\nx0*x1").unwrap();
    let basis = Arc::new(Basis::new(&file.to_str().unwrap().parse().unwrap(), "1", &data).unwrap());
    let mut known = Matrix::full(2, 2, 1.0);
    known[(1, 0)] = INF;
    let sentence = Design::basis_knowing(basis, &data, Some(&known)).unwrap_err().to_string();
    assert!(sentence.contains("no function of the drift changes with variable 'x1'"), "{sentence}");
}

#[test]
fn convexity_does_not_depend_on_multipliers() {
    let small = data(&[6, 6], 5, 1);
    let kernel = Kernel::TiltedRbf { bandwidth: 8.0 };
    let penalty = Some(Penalty::new(PenaltyKind::Ingoing, 0.1));
    let spec = ExactSpec { kernel, estimator: Estimator::U, penalty, learn_scale: false };
    let known = Matrix::from_fn(5, 5, |_, i| if i == 0 { 1e-6 } else { 1.0 });
    let progress = Progress::default();
    let exact =
        ExactSolver::prepare(None, &small, small.targets(), &Design::Linear, Some(&known), spec, &progress)
            .unwrap();
    assert!(exact.fell_back);
}
