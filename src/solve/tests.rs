use super::*;
use crate::data::Dataset;
use crate::engine::cpu::CpuEngine;
use crate::engine::{Engine, LossSpec};
use crate::kernel::KernelKind;
use crate::model::{Basis, Drift, Noise};
use crate::objective::Objective;
use crate::{Matrix, Progress};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use std::sync::Arc;

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(rng)
}

/// Environments of correlated samples, each but the first with a target.
pub(super) fn data(rows: &[usize], d: usize, seed: u64) -> Dataset {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mix = Matrix::from_fn(d, d, |i, j| if i == j { 1.0 } else { 0.4 * normal(&mut rng) });
    let environments = rows
        .iter()
        .enumerate()
        .map(|(e, &n)| {
            let noise = Matrix::from_fn(n, d, |_, _| normal(&mut rng));
            Matrix::from_fn(n, d, |i, j| {
                let mixed: f64 = (0..d).map(|k| mix[(j, k)] * noise[(i, k)]).sum();
                mixed + 0.3 * j as f64 + if e > 0 && j == (e - 1) % d { 2.0 } else { 0.0 }
            })
        })
        .collect();
    let targets = Matrix::from_fn(rows.len(), d, |e, j| e > 0 && j == (e - 1) % d);
    Dataset::from_environments(environments).unwrap().with_targets(targets).unwrap()
}

pub(super) fn kernels() -> Vec<Kernel> {
    KernelKind::ALL.iter().map(|kind| kind.with_bandwidth(1.7).unwrap()).collect()
}

/// The engine's loss and gradient.
pub(super) fn by_engine(
    data: &Dataset,
    kernel: Kernel,
    estimator: Estimator,
    parameters: &Parameters<f64>,
) -> (f64, Parameters<f64>) {
    let spec = LossSpec { objective: Objective::Skds, kernel, estimator };
    let mut gradient = parameters.zeros_like();
    let value = CpuEngine.load(data, &spec).unwrap().evaluate(parameters, Some(&mut gradient)).unwrap();
    (value, gradient)
}

fn solve(
    data: &Dataset,
    kernel: Kernel,
    estimator: Estimator,
    penalty: Option<Penalty>,
    learn_scale: bool,
) -> Solution {
    let spec = ExactSpec { kernel, estimator, penalty, learn_scale };
    ExactSolver::new(data, data.targets(), spec).unwrap().solve().unwrap()
}

#[test]
fn statistics_give_the_loss_of_any_linear_model() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    // More than one tile of rows and columns, and a size that divides nothing.
    for (rows, d) in [(vec![5, 2], 1), (vec![301, 60], 4), (vec![40], 7)] {
        let data = data(&rows, d, 2);
        for kernel in kernels() {
            for estimator in [Estimator::U, Estimator::V] {
                let all =
                    Statistics::of(&data, &Design::Linear, kernel, estimator, &Progress::default()).unwrap();
                let parameters = Parameters {
                    drift: Drift::linear(Matrix::from_fn(d, d, |_, _| normal(&mut rng))),
                    biases: (0..d).map(|_| normal(&mut rng)).collect(),
                    noise: Noise::Diagonal { log_noise: (0..d).map(|_| 0.3 * normal(&mut rng)).collect() },
                    shift: Some(Matrix::from_fn(rows.len(), d, |_, _| normal(&mut rng))),
                    log_scale: None,
                };
                let (expected, _) = by_engine(&data, kernel, estimator, &parameters);
                let weights = parameters.drift.linear_weights().unwrap();
                let Noise::Diagonal { log_noise } = &parameters.noise else { unreachable!() };
                let mut found = 0.0;
                for (e, Statistics { drift, cross, noise }) in all.iter().enumerate() {
                    for j in 0..d {
                        let shift = parameters.shift.as_ref().unwrap()[(e, j)];
                        let v: Vec<f64> =
                            weights.row(j).iter().copied().chain([parameters.biases[j] + shift]).collect();
                        let alpha = (2.0 * log_noise[j]).exp();
                        for a in 0..=d {
                            found += 2.0 * alpha * v[a] * cross[(a, j)];
                            found += v[a] * (0..=d).map(|b| drift[(a, b)] * v[b]).sum::<f64>();
                        }
                        found += alpha * alpha * noise[(j, 0)];
                    }
                }
                found /= rows.len() as f64;
                let error = (found - expected).abs() / expected.abs().max(1e-3);
                assert!(error < 1e-10, "{kernel:?} {estimator} {rows:?}: {found} {expected}");
            }
        }
    }
}

#[test]
fn the_minimum_has_no_slope_by_the_engine_and_its_loss_is_the_engines() {
    let known = data(&[150, 90, 80], 4, 5);
    let unknown = known.clone().with_targets(Matrix::from_fn(3, 4, |e, _| e > 0)).unwrap();
    for (kernel, data) in kernels().into_iter().flat_map(|kernel| [(kernel, &known), (kernel, &unknown)]) {
        for learn_scale in [false, true] {
            let solution = solve(data, kernel, Estimator::V, None, learn_scale);
            let (value, mut gradient) = by_engine(data, kernel, Estimator::V, &solution.parameters);
            assert!((value - solution.loss).abs() < 1e-10 * (1.0 + value), "{value} {}", solution.loss);
            assert!(solution.violation < 1e-8, "{}", solution.violation);
            gradient.mask_fixed(data.targets());
            for tensor in gradient.tensors() {
                let worst = tensor.values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
                assert!(worst < 1e-8, "{kernel:?} {learn_scale} {}: {worst}", tensor.name);
            }
        }
    }
}

#[test]
fn penalised_minima_are_lower_than_everything_around_them() {
    let data = data(&[120, 80, 60], 4, 6);
    let kernel = Kernel::TiltedRbf { bandwidth: 2.0 };
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for &kind in PenaltyKind::ALL {
        for lambda in [0.02, 1.0] {
            let penalty = Penalty::new(kind, lambda);
            let solution = solve(&data, kernel, Estimator::V, Some(penalty), false);
            assert!(solution.violation < 1e-8, "{kind} {lambda}: {}", solution.violation);
            let total = |parameters: &Parameters<f64>| {
                by_engine(&data, kernel, Estimator::V, parameters).0 + penalty.value(parameters).unwrap()
            };
            let best = total(&solution.parameters);
            assert!((best - solution.loss - solution.penalty).abs() < 1e-12);
            for size in [1e-1, 1e-2, 1e-3] {
                for _ in 0..10 {
                    let mut other = solution.parameters.clone();
                    for (_, values) in other.tensors_mut() {
                        values.iter_mut().for_each(|v| *v += size * rng.random_range(-1.0..1.0));
                    }
                    other.impose_fixed(data.targets());
                    assert!(total(&other) > best, "{kind} {lambda} {size}");
                }
            }
            let weights = solution.parameters.drift.linear_weights().unwrap();
            let zeros = weights.as_slice().iter().filter(|w| **w == 0.0).count();
            assert!(lambda < 0.1 || zeros > 0, "{kind} {lambda}: {weights:?}");
        }
    }
}

#[test]
fn a_variable_that_every_environment_shifts_is_compared_with_the_first() {
    let data = data(&[80, 60], 3, 8).with_targets(Matrix::from_fn(2, 3, |_, j| j == 1)).unwrap();
    let kernel = Kernel::TiltedRbf { bandwidth: 2.0 };
    for learn_scale in [false, true] {
        let solution = solve(&data, kernel, Estimator::V, None, learn_scale);
        let (value, mut gradient) = by_engine(&data, kernel, Estimator::V, &solution.parameters);
        assert!((value - solution.loss).abs() < 1e-10 * (1.0 + value));
        gradient.mask_fixed(data.targets());
        // No direction is left to go down in, also none of those that were not needed.
        let worst =
            gradient.tensors().iter().flat_map(|t| t.values.to_vec()).fold(0.0f64, |m, v| m.max(v.abs()));
        assert!(worst < 1e-8, "{worst}");
        assert_eq!(solution.parameters.shift.as_ref().unwrap()[(0, 1)], 0.0);
    }
}

#[test]
fn a_path_meets_the_single_fits() {
    let data = data(&[120, 80, 60], 5, 7);
    let kernel = Kernel::Rbf { bandwidth: 2.0 };
    for &kind in PenaltyKind::ALL {
        let lambdas = [1.0, 0.3, 0.05];
        let spec = ExactSpec { kernel, estimator: Estimator::V, penalty: None, learn_scale: false };
        let exact = ExactSolver::new(&data, data.targets(), spec).unwrap();
        let path = exact.path(&[0, 1, 2], kind, &lambdas).unwrap();
        for (found, &lambda) in path.iter().zip(&lambdas) {
            let alone = solve(&data, kernel, Estimator::V, Some(Penalty::new(kind, lambda)), false);
            let (a, b) = (found.loss + found.penalty, alone.loss + alone.penalty);
            assert!((a - b).abs() < 1e-12, "{kind} {lambda}: {a} {b}");
        }
    }
}

#[test]
fn noise_that_would_be_negative_is_held_at_its_least() {
    // loss = |v|² + 2 α ⟨v, D⟩ + α² with v = (−1, bias): D₀ < 0 pulls α below 0.
    let statistics = |d0: f64| Statistics {
        drift: Matrix::from_rows(2, 2, vec![1.0, 0.0, 0.0, 1.0]),
        cross: Matrix::from_rows(2, 1, vec![d0, 0.0]),
        noise: Matrix::full(1, 1, 1.0),
    };
    let spec =
        ExactSpec { kernel: Kernel::ImqPlus, estimator: Estimator::V, penalty: None, learn_scale: true };
    let noises = |d0: f64, d1: f64| {
        let targets = Matrix::from_rows(2, 1, vec![false, true]);
        let exact = ExactSolver::from_statistics(vec![statistics(d0), statistics(d1)], &targets, spec);
        let parameters = exact.solve().unwrap().parameters;
        let Noise::Diagonal { log_noise } = &parameters.noise else { unreachable!() };
        let scale = parameters.log_scale.unwrap()[(1, 0)];
        [(2.0 * log_noise[0]).exp(), (2.0 * (log_noise[0] + scale)).exp()]
    };
    let close = |found: [f64; 2], expected: [f64; 2]| {
        for (f, e) in found.iter().zip(expected) {
            assert!((f - e).abs() < 1e-12 * (1.0 + e), "{found:?} {expected:?}");
        }
    };
    let least = coordinate::LEAST_NOISE;
    close(noises(0.5, 0.25), [0.5, 0.25]);
    close(noises(-0.5, 0.25), [least, 0.25]);
    close(noises(0.5, -0.25), [0.5, least]);
    close(noises(-0.5, -0.25), [least, least]);
}

#[test]
fn a_u_form_that_is_not_convex_is_replaced_by_the_v_form() {
    let small = data(&[6, 6], 5, 1);
    let spec = ExactSpec {
        kernel: Kernel::TiltedRbf { bandwidth: 8.0 },
        estimator: Estimator::U,
        penalty: Some(Penalty::new(PenaltyKind::Ingoing, 0.1)),
        learn_scale: false,
    };
    let exact = ExactSolver::new(&small, small.targets(), spec).unwrap();
    assert!(exact.fell_back);
    let as_v =
        ExactSolver::new(&small, small.targets(), ExactSpec { estimator: Estimator::V, ..spec }).unwrap();
    assert!(!as_v.fell_back);
    assert_eq!(exact.solve().unwrap(), as_v.solve().unwrap());
    // With enough samples and a narrow kernel it stays.
    let large = data(&[600, 500], 3, 1);
    let spec = ExactSpec { kernel: Kernel::TiltedRbf { bandwidth: 0.7 }, ..spec };
    assert!(!ExactSolver::new(&large, large.targets(), spec).unwrap().fell_back);
    assert!(
        Statistics::of(&large, &Design::Linear, spec.kernel, Estimator::Linear, &Progress::default())
            .is_err()
    );
}

#[test]
fn the_same_bits_whatever_the_number_of_threads() {
    let data = data(&[300, 200, 130], 6, 9);
    let penalty = Penalty::new(PenaltyKind::Both, 0.05);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| solve(&data, Kernel::TiltedRbf { bandwidth: 2.0 }, Estimator::V, Some(penalty), true))
    };
    assert_eq!(run(1), run(3));
}

pub(super) fn basis(features: &str, diffusion: &str, data: &Dataset) -> Design {
    let basis = Basis::new(&features.parse().unwrap(), diffusion, data).unwrap();
    Design::basis(Arc::new(basis), data).unwrap()
}
