//! `golden/systems.json` holds ten systems of random linear models with feedback, solved all at once by numpy 2.4 (`pinv`,
//! λ = 0) and scikit-learn 1.9 (`Lasso`, otherwise), and their noise variances.

use super::*;
use crate::numeric::dense::Lu;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

fn numbers(value: &Value) -> Vec<f64> {
    serde_json::from_value(value.clone()).unwrap()
}

fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, |a: f64, b| a.max(b.abs()))
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    largest(a.iter().zip(b).map(|(a, b)| a - b))
}

/// Targets from lists of variables, one per environment.
fn targets_of(d: usize, lists: &[Vec<usize>]) -> Matrix<bool> {
    Matrix::from_fn(lists.len(), d, |e, j| lists[e].contains(&j))
}

/// Effects between all variables, with feedback, far from instability.
fn feedback(d: usize, rng: &mut ChaCha8Rng) -> Matrix<f64> {
    Matrix::from_fn(d, d, |u, i| if u == i { 0.0 } else { rng.random_range(-0.8..0.8) / d as f64 })
}

/// The covariance of x = B x + ε with noise variances `noise`, where targets have variance 1 and no parents.
fn surgical(effects: &Matrix<f64>, noise: &[f64], targets: &[usize]) -> Matrix<f64> {
    let d = noise.len();
    let cut = |u: usize| targets.contains(&u);
    let left = Matrix::from_fn(d, d, |u, i| {
        f64::from(u8::from(u == i)) - if cut(u) { 0.0 } else { effects[(u, i)] }
    });
    let total = Lu::of(left.view()).inverse();
    let variance = |k: usize| if cut(k) { 1.0 } else { noise[k] };
    Matrix::from_fn(d, d, |a, b| (0..d).map(|k| total[(a, k)] * variance(k) * total[(b, k)]).sum())
}

fn random_data(lists: &[Vec<usize>], d: usize, rows: usize, seed: u64) -> Dataset {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let effects = feedback(d, &mut rng);
    let environments = lists
        .iter()
        .map(|list| {
            let left = Matrix::from_fn(d, d, |u, i| f64::from(u8::from(u == i)) - effects[(u, i)]);
            let total = Lu::of(left.view()).inverse();
            let mut samples = Matrix::full(rows, d, 0.0);
            for row in 0..rows {
                let noise: Vec<f64> = (0..d)
                    .map(|j| rng.random_range(-1.7..1.7) + if list.contains(&j) { 2.0 } else { 0.0 })
                    .collect();
                samples.row_mut(row).iter_mut().enumerate().for_each(|(a, x)| {
                    *x = (0..d).map(|k| total[(a, k)] * noise[k]).sum();
                });
            }
            samples
        })
        .collect();
    Dataset::from_environments(environments).unwrap().with_targets(targets_of(d, lists)).unwrap()
}

#[test]
fn surgical_interventions_give_the_equations_back() {
    let d = 7;
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let effects = feedback(d, &mut rng);
    let noise: Vec<f64> = (0..d).map(|_| rng.random_range(0.2..1.5)).collect();
    let single: Vec<Vec<usize>> = (0..d).map(|i| vec![i]).collect();
    // Every ordered pair of variables is separated by one of these.
    let several = vec![
        vec![],
        vec![0, 1, 2],
        vec![3, 4],
        vec![5, 6],
        vec![0, 3, 5],
        vec![1, 4, 6],
        vec![2],
        vec![4, 5],
        vec![3, 6, 1],
    ];
    for lists in [single, several] {
        let covariances: Vec<_> = lists.iter().map(|list| surgical(&effects, &noise, list)).collect();
        let targets = targets_of(d, &lists);
        let found = solve(&covariances, &targets, 0.0, &Progress::default()).unwrap();
        assert!(distance(found.effects.as_slice(), effects.as_slice()) < 1e-12, "{lists:?}");
        assert!(distance(&found.variances, &noise) < 1e-12);
        // A weak penalty moves them a little, towards 0.
        let shrunk = solve(&covariances, &targets, 1e-4, &Progress::default()).unwrap();
        let moved = distance(shrunk.effects.as_slice(), effects.as_slice());
        assert!(moved > 1e-7 && moved < 1e-2, "{moved}");
    }
}

/// The parents of a shifted variable still act on it, so its covariance with its effects is also that with its causes.
#[test]
fn a_shift_is_no_surgical_intervention() {
    let b = 0.6;
    // x₁ = b x₀ + ε, both with variance 1; a shift changes no covariance.
    let observed = Matrix::from_rows(2, 2, vec![1.0, b, b, 1.0]);
    let found =
        solve(&[observed.clone(), observed], &targets_of(2, &[vec![0], vec![1]]), 0.0, &Progress::default())
            .unwrap();
    assert!(distance(found.effects.as_slice(), &[0.0, b, b, 0.0]) < 1e-15);
}

#[test]
fn other_solvers_find_the_same() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("golden/systems.json")).unwrap();
    assert_eq!(cases.len(), 10);
    let mut zeros = 0;
    for (c, case) in cases.iter().enumerate() {
        let variances = numbers(&case["variances"]);
        let d = variances.len();
        let covariances: Vec<_> = case["covariances"]
            .as_array()
            .unwrap()
            .iter()
            .map(|numbers_of| Matrix::from_rows(d, d, numbers(numbers_of)))
            .collect();
        let lists: Vec<Vec<usize>> = serde_json::from_value(case["targets"].clone()).unwrap();
        let lambda = case["lam"].as_f64().unwrap();
        let found = solve(&covariances, &targets_of(d, &lists), lambda, &Progress::default()).unwrap();
        let expected = numbers(&case["effects"]);
        let missed = distance(found.effects.as_slice(), &expected);
        assert!(missed < 1e-7, "case {c}, lambda {lambda}: {missed:e}");
        assert!(distance(&found.variances, &variances) < 1e-7, "case {c}");
        // Zeros are exact.
        let apart =
            expected.iter().zip(found.effects.as_slice()).filter(|(a, b)| (**a == 0.0) != (**b == 0.0));
        assert!(lambda == 0.0 || apart.count() == 0, "case {c}");
        zeros += found.effects.as_slice().iter().filter(|b| **b == 0.0).count() - d;
        // The comparison can fail.
        let other = solve(&covariances, &targets_of(d, &lists), lambda + 1e-3, &Progress::default()).unwrap();
        assert!(distance(other.effects.as_slice(), &expected) > 1e-6, "case {c}");
    }
    assert!(zeros > 50, "{zeros}");
}

#[test]
fn effects_meet_the_conditions_of_a_minimum() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    for (rows, cols, lambda) in [(30, 12, 0.5), (8, 19, 0.1), (8, 19, 1e-6), (19, 19, 10.0), (40, 30, 1e-9)] {
        // Columns of very different sizes, and two that nearly agree.
        let mut matrix =
            Matrix::from_fn(rows, cols, |_, k| rng.random_range(-1.0..1.0) * 0.7f64.powi(k as i32 % 9));
        (0..rows).for_each(|i| matrix[(i, 1)] = matrix[(i, 0)] + 1e-3 * matrix[(i, 1)]);
        let values: Vec<f64> = (0..rows).map(|_| rng.random_range(-1.0..1.0)).collect();
        let effects = lasso::minimum(&matrix, &values, lambda, &Progress::default()).unwrap();
        let left: Vec<f64> = (0..rows).map(|i| equations::dot(matrix.row(i), &effects) - values[i]).collect();
        let slopes: Vec<f64> =
            (0..cols).map(|k| 2.0 * (0..rows).map(|i| matrix[(i, k)] * left[i]).sum::<f64>()).collect();
        let rounding = 1e-11 * values.len() as f64;
        for (slope, effect) in slopes.iter().zip(&effects) {
            match *effect {
                0.0 => assert!(slope.abs() <= lambda + rounding, "{slope} of {lambda}"),
                effect => {
                    assert!((slope + lambda * effect.signum()).abs() <= rounding, "{slope} of {lambda}")
                }
            }
        }
    }
}

#[test]
fn effects_vanish_from_the_largest_slope_on() {
    let lists = [vec![], vec![0], vec![1], vec![2]];
    let data = random_data(&lists, 3, 50, 5);
    let covariances: Vec<_> = (0..4).map(|e| covariance(&data, e)).collect();
    for u in 0..3 {
        let system = TotalEffects::of(&covariances, data.targets(), u);
        let slope = |k: usize| -> f64 {
            2.0 * (0..system.values.len())
                .map(|i| system.coefficients[(i, k)] * system.values[i])
                .sum::<f64>()
        };
        let steepest = largest((0..2).map(slope));
        let at = |lambda| {
            lasso::minimum(&system.coefficients, &system.values, lambda, &Progress::default()).unwrap()
        };
        assert_eq!(at(1.0001 * steepest), [0.0, 0.0]);
        assert!(at(0.999 * steepest).iter().any(|b| *b != 0.0));
    }
}

#[test]
fn covariances_are_centred_and_divided_by_the_number_of_rows() {
    let samples = Matrix::from_rows(4, 2, vec![1.0, 5.0, 3.0, 5.0, 1.0, 7.0, 3.0, 9.0]);
    let data = Dataset::from_environments(vec![samples]).unwrap();
    assert_eq!(covariance(&data, 0).as_slice(), [1.0, 0.5, 0.5, 2.75]);
}

#[test]
fn odd_data_give_equations_or_a_sentence() {
    let constant = Matrix::from_fn(6, 4, |i, j| if j == 2 { 0.0 } else { ((i * i + j) % 5) as f64 });
    let everywhere = vec![vec![0, 1], vec![0], vec![0, 3]];
    for lists in [vec![vec![]; 3], vec![vec![], vec![0, 1, 2, 3], vec![2]], everywhere] {
        for lambda in [0.0, 0.1] {
            let data = Dataset::from_environments(vec![constant.clone(); 3]).unwrap();
            let data = data.with_targets(targets_of(4, &lists)).unwrap();
            let found = fit(&data, &LlcSettings { lambda }, 0, &Progress::default()).unwrap();
            assert!(found.variances.iter().all(|v| *v > 0.0));
            assert!((0..4).all(|j| found.effects[(j, j)] == 0.0));
        }
    }
    for d in [1, 2] {
        let data = random_data(&[vec![], vec![0]], d, 2, 1);
        fit(&data, &LlcSettings::default(), 0, &Progress::default()).unwrap();
    }
    let huge = Dataset::from_environments(vec![constant.map(|x| 1e200 * x); 2]).unwrap();
    let huge = huge.with_targets(targets_of(4, &[vec![], vec![1]])).unwrap();
    for lambda in [0.0, 0.1] {
        let error = fit(&huge, &LlcSettings { lambda }, 0, &Progress::default()).unwrap_err();
        assert!(matches!(error, Error::NonFinite(_)), "{error}");
    }
}

#[test]
fn a_fit_counts_stops_and_repeats() {
    let lists: Vec<Vec<usize>> = (0..9).map(|e| if e == 0 { vec![] } else { vec![e - 1] }).collect();
    let data = random_data(&lists, 12, 60, 9);
    let (settings, progress) = (LlcSettings::default(), Progress::default());
    let found = fit(&data, &settings, 0, &progress).unwrap();
    assert_eq!(progress.done(), settings.work(&data));
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    for threads in [1, 2] {
        let again = pool(threads).install(|| fit(&data, &settings, 7, &Progress::default())).unwrap();
        assert_eq!(found, again);
    }
    let stopped = Progress::default();
    stopped.stop();
    assert!(matches!(fit(&data, &settings, 0, &stopped), Err(Error::Stopped)));
}

#[test]
fn settings_out_of_bounds_are_named() {
    for lambda in [-1.0, f64::NAN, f64::INFINITY] {
        let error = LlcSettings { lambda }.check().unwrap_err().to_string();
        assert!(error.starts_with("lambda is ") && error.contains("expected"), "{error}");
    }
    assert_eq!(serde_json::from_str::<LlcSettings>("{}").unwrap(), LlcSettings::default());
    assert!(serde_json::from_str::<LlcSettings>("{\"alpha\": 1}").is_err());
}
