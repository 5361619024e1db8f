use super::*;
use crate::engine::cpu::CpuEngine;
use crate::engine::{Engine, LossSpec};
use crate::kernel::{KernelKind, with_profile};
use crate::model::{Basis, BasisDrift, Drift, Noise};
use crate::objective::Objective;
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
    let spec = Spec { kernel, estimator, penalty, learn_scale };
    Exact::new(data, data.targets(), spec).unwrap().solve().unwrap()
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
            let penalty = Penalty { kind, lambda };
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
        let spec = Spec { kernel, estimator: Estimator::V, penalty: None, learn_scale: false };
        let exact = Exact::new(&data, data.targets(), spec).unwrap();
        let path = exact.path(&[0, 1, 2], kind, &lambdas).unwrap();
        for (found, &lambda) in path.iter().zip(&lambdas) {
            let alone = solve(&data, kernel, Estimator::V, Some(Penalty { kind, lambda }), false);
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
    let spec = Spec { kernel: Kernel::ImqPlus, estimator: Estimator::V, penalty: None, learn_scale: true };
    let noises = |d0: f64, d1: f64| {
        let targets = Matrix::from_rows(2, 1, vec![false, true]);
        let exact = Exact::from_statistics(vec![statistics(d0), statistics(d1)], &targets, spec);
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
    let spec = Spec {
        kernel: Kernel::TiltedRbf { bandwidth: 8.0 },
        estimator: Estimator::U,
        penalty: Some(Penalty { kind: PenaltyKind::Ingoing, lambda: 0.1 }),
        learn_scale: false,
    };
    let exact = Exact::new(&small, small.targets(), spec).unwrap();
    assert!(exact.fell_back);
    let as_v = Exact::new(&small, small.targets(), Spec { estimator: Estimator::V, ..spec }).unwrap();
    assert!(!as_v.fell_back);
    assert_eq!(exact.solve().unwrap(), as_v.solve().unwrap());
    // With enough samples and a narrow kernel it stays.
    let large = data(&[600, 500], 3, 1);
    let spec = Spec { kernel: Kernel::TiltedRbf { bandwidth: 0.7 }, ..spec };
    assert!(!Exact::new(&large, large.targets(), spec).unwrap().fell_back);
    assert!(
        Statistics::of(&large, &Design::Linear, spec.kernel, Estimator::Linear, &Progress::default())
            .is_err()
    );
}

#[test]
fn the_same_bits_whatever_the_number_of_threads() {
    let data = data(&[300, 200, 130], 6, 9);
    let penalty = Penalty { kind: PenaltyKind::Both, lambda: 0.05 };
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
    let spec = Spec { kernel, estimator: Estimator::V, penalty: None, learn_scale: false };
    let found = Exact::on(None, &data, data.targets(), &design, None, spec, &Progress::default())
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
    let found = Exact::on(None, &data, data.targets(), &design, None, spec, &Progress::default())
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
            let spec = Spec { kernel, estimator: Estimator::V, penalty: None, learn_scale: false };
            let exact =
                Exact::on(None, &data, data.targets(), &design, None, spec, &Progress::default()).unwrap();
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
    let spec = Spec { kernel: Kernel::ImqPlus, estimator: Estimator::V, penalty: None, learn_scale: true };
    assert!(Exact::on(None, &data, data.targets(), &design, None, spec, &Progress::default()).is_err());
}
