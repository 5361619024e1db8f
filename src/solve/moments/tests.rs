use super::*;
use crate::model::PenaltyKind;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const TIGHT: Tolerance = Tolerance { violation: 1e-11, steps: 400_000 };

/// Rows of environments with correlated variables, of which all but the first act on one.
fn data(d: usize, environments: usize, rows: usize, seed: u64) -> (Dataset, Matrix<bool>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mixing = Matrix::from_fn(d, d, |j, i| f64::from(u8::from(i == j)) + rng.random_range(-0.4..0.4));
    let all = (0..environments)
        .map(|e| {
            Matrix::from_fn(rows, d, |_, _| rng.random_range(-1.0..1.0)).map(|x: f64| x + 0.3 * e as f64)
        })
        .map(|noise: Matrix<f64>| {
            Matrix::from_fn(rows, d, |i, j| (0..d).map(|k| mixing[(j, k)] * noise[(i, k)]).sum::<f64>() + 2.0)
        })
        .collect();
    let targets = Matrix::from_fn(environments, d, |e, j| e > 0 && j == (e - 1) % d);
    let data = Dataset::from_environments(all).unwrap().with_targets(targets.clone()).unwrap();
    (data, targets)
}

fn moments(data: &Dataset) -> Moments {
    let parts: Vec<usize> = (0..data.environments()).collect();
    Moments::of(data, &parts, &Progress::default()).unwrap()
}

/// KDS as its definition has it, with every parameter free: an independent value to compare with.
fn kds(data: &Dataset, units: &[f64], pooled: &Matrix<f64>, parameters: &Parameters<f64>) -> f64 {
    let d = data.dim();
    let weights = parameters.drift.linear_weights().unwrap();
    let Noise::Diagonal { log_noise } = &parameters.noise else { unreachable!() };
    let all = data.samples().rows() as f64;
    let mut sum = 0.0;
    for e in 0..data.environments() {
        let (share, mean) = (data.rows(e).len() as f64 / all, data.means(e));
        for j in 0..d {
            let drift: f64 = weights.row(j).iter().zip(&mean).map(|(w, m)| w * m).sum();
            let shift = parameters.shift.as_ref().unwrap()[(e, j)];
            sum += 2.0 * share * (drift + parameters.biases[j] + shift).powi(2) / units[j];
        }
    }
    for j in 0..d {
        for k in 0..d {
            let half = |j: usize, k: usize| (0..d).map(|i| weights[(j, i)] * pooled[(i, k)]).sum::<f64>();
            let noise = if j == k { (2.0 * log_noise[j]).exp() } else { 0.0 };
            sum += (half(j, k) + half(k, j) + noise).powi(2) / (units[j] * units[k]);
        }
    }
    sum / (d * d) as f64
}

#[test]
fn the_loss_is_kds_with_the_best_biases_shifts_and_noises() {
    let (data, targets) = data(4, 4, 60, 1);
    let moments = moments(&data);
    let pool = Pool::new(&moments, &targets, &[], false).unwrap();
    let mut fit = Kds::new(&pool);
    let lasso = Lasso { kind: PenaltyKind::Ingoing, lambda: 0.05, multipliers: None };
    let found = fit.fit(&lasso, None, TIGHT, &Progress::default()).unwrap();
    assert!(found.violation <= TIGHT.violation, "{}", found.violation);
    let parameters = fit.parameters(&found.weights);
    let pooled = Matrix::from_fn(4, 4, |i, j| pool.stack_entry(i, j));
    let value = |parameters: &Parameters<f64>| kds(&data, &pool.units, &pooled, parameters);
    let best = value(&parameters);
    // Noises of variables that would rather have none are held just above 0.
    assert!((best - found.loss).abs() < 1e-10, "{best} {}", found.loss);
    // Nothing that has no penalty can be moved for the better, and effects not for less than they cost.
    let mut tried = 0;
    for (t, tensor) in parameters.tensors().iter().enumerate() {
        for at in 0..tensor.values.len() {
            for by in [-1e-3, 1e-3] {
                let (row, column) = (at / 4, at % 4);
                let free = match tensor.name {
                    "weights" => row != column,
                    "shift" => targets[(row, column)],
                    _ => true,
                };
                if !free {
                    continue;
                }
                let mut moved = parameters.clone();
                moved.tensors_mut()[t].1[at] += by;
                let cost = match tensor.name {
                    "weights" => 0.05 / 16.0 * ((tensor.values[at] + by).abs() - tensor.values[at].abs()),
                    _ => 0.0,
                };
                assert!(value(&moved) + cost >= best - 1e-10, "{} {at} {by}", tensor.name);
                tried += 1;
            }
        }
    }
    assert!(tried > 40);
}

impl Pool<'_> {
    fn stack_entry(&self, i: usize, j: usize) -> f64 {
        let mut out = Matrix::full(self.dim(), self.stack.width(), 0.0);
        let identity = Matrix::from_fn(self.dim(), self.dim(), |a, b| f64::from(u8::from(a == b)));
        self.stack.times_all(&identity, &mut out);
        out[(i, j)]
    }
}

/// The same minimum by coordinate descent on the same loss, evaluated by its definition with everything eliminated by hand:
/// slow, and independent of the solver.
#[test]
fn an_independent_solver_finds_the_same_minimum() {
    for (kind, multipliers) in [
        (PenaltyKind::Ingoing, None),
        (PenaltyKind::Outgoing, None),
        (PenaltyKind::Both, None),
        (
            PenaltyKind::Ingoing,
            Some(Matrix::from_fn(3, 3, |j, i| match (j, i) {
                (0, 1) => f64::INFINITY,
                (2, 0) => 0.0,
                _ => 2.0,
            })),
        ),
    ] {
        let (data, targets) = data(3, 3, 40, 7);
        let moments = moments(&data);
        let pool = Pool::new(&moments, &targets, &[], false).unwrap();
        let lambda = 0.2;
        let lasso = Lasso { kind, lambda, multipliers: multipliers.as_ref() };
        let mut fit = Kds::new(&pool);
        let found = fit.fit(&lasso, None, TIGHT, &Progress::default()).unwrap();
        // Value of W alone, by the parameters that suit it best.
        let pooled = Matrix::from_fn(3, 3, |i, j| pool.stack_entry(i, j));
        let mut objective = |weights: &Matrix<f64>| {
            let parameters = fit.parameters(weights);
            let multiplier = |j: usize, i: usize| multipliers.as_ref().map_or(1.0, |m| m[(j, i)]);
            let mut cost = 0.0;
            for i in 0..3 {
                let others = || (0..3).filter(move |&j| j != i && multiplier(j, i) > 0.0);
                let single: f64 = others().map(|j| multiplier(j, i).min(1e9) * weights[(j, i)].abs()).sum();
                let group = others().map(|j| weights[(j, i)].powi(2)).sum::<f64>().sqrt();
                cost += match kind {
                    PenaltyKind::Ingoing => single,
                    PenaltyKind::Outgoing => group,
                    PenaltyKind::Both => single + group,
                };
            }
            kds(&data, &pool.units, &pooled, &parameters) + lambda / 9.0 * cost
        };
        let mut weights = no_effects(3);
        let mut value = objective(&weights);
        let mut reach = 0.5;
        // A search by patterns: along single entries, and along whole columns for groups.
        while reach > 1e-11 {
            let mut better = false;
            for j in 0..3 {
                for i in (0..3).filter(|&i| i != j) {
                    let forbidden = multipliers.as_ref().is_some_and(|m| m[(j, i)].is_infinite());
                    let here = weights[(j, i)];
                    for candidate in [here + reach, here - reach, 0.0] {
                        if forbidden || candidate == here {
                            continue;
                        }
                        weights[(j, i)] = candidate;
                        let moved = objective(&weights);
                        if moved < value - 1e-16 {
                            (value, better) = (moved, true);
                            break;
                        }
                        weights[(j, i)] = here;
                    }
                }
            }
            if !better {
                reach *= 0.7;
            }
        }
        let ours = objective(&found.weights);
        assert!(ours <= value + 1e-12, "{kind:?}: {ours} {value}");
        assert!((found.loss + found.penalty - ours).abs() < 1e-12, "{} {ours}", found.loss + found.penalty);
        if kind == PenaltyKind::Ingoing {
            let gap = weights.as_slice().iter().zip(found.weights.as_slice()).map(|(a, b)| (a - b).abs());
            let gap = gap.fold(0.0, f64::max);
            assert!(gap < 1e-6, "{gap}");
        }
    }
}

/// The likelihood with every parameter free, by its definition.
fn minus_log_likelihood(data: &Dataset, parameters: &Parameters<f64>) -> f64 {
    let d = data.dim();
    let weights = parameters.drift.linear_weights().unwrap();
    let Noise::Diagonal { log_noise } = &parameters.noise else { unreachable!() };
    let (_, log) = crate::numeric::dense::Lu::of(weights.view()).determinant();
    let mut sum = 0.0;
    for e in 0..data.environments() {
        for i in data.rows(e) {
            for j in 0..d {
                let shift = parameters.shift.as_ref().unwrap()[(e, j)];
                let drift: f64 = weights.row(j).iter().zip(data.samples().row(i)).map(|(w, x)| w * x).sum();
                let rest = drift + parameters.biases[j] + shift;
                sum += 0.5 * rest * rest * (-2.0 * log_noise[j]).exp() + log_noise[j] - 0.5;
            }
        }
    }
    (sum / data.samples().rows() as f64 - log) / (d * d) as f64
}

#[test]
fn structural_equations_are_at_a_maximum_of_their_likelihood() {
    let (data, targets) = data(4, 4, 60, 3);
    let moments = moments(&data);
    let pool = Pool::new(&moments, &targets, &[], false).unwrap();
    for kind in [PenaltyKind::Ingoing, PenaltyKind::Outgoing, PenaltyKind::Both] {
        let lambda = 0.01;
        let lasso = Lasso { kind, lambda, multipliers: None };
        let mut fit = Structural::new(&pool);
        let tolerance = Tolerance { violation: 1e-7, steps: 20_000 };
        let found = fit.fit(&lasso, None, tolerance, &Progress::default()).unwrap();
        assert!(found.violation <= tolerance.violation, "{kind}: {}", found.violation);
        let parameters = fit.parameters(&found.weights);
        let best = minus_log_likelihood(&data, &parameters);
        assert!((best - found.loss).abs() < 1e-12, "{best} {}", found.loss);
        let penalty = crate::model::Penalty::new(kind, lambda);
        assert!((penalty.value(&parameters).unwrap() - found.penalty).abs() < 1e-12);
        for (t, tensor) in parameters.tensors().iter().enumerate() {
            for at in 0..tensor.values.len() {
                let (row, column) = (at / 4, at % 4);
                let free = match tensor.name {
                    "weights" => row != column,
                    "shift" => targets[(row, column)],
                    _ => true,
                };
                for by in [-1e-3, 1e-3].into_iter().filter(|_| free) {
                    let mut moved = parameters.clone();
                    moved.tensors_mut()[t].1[at] += by;
                    let value = minus_log_likelihood(&data, &moved) + penalty.value(&moved).unwrap();
                    assert!(value >= best + found.penalty - 1e-11, "{kind} {} {at} {by}", tensor.name);
                }
            }
        }
    }
}

/// Learnt scales: every environment has a covariance of its own, and the noise of its target.
#[test]
fn noises_of_targets_are_learnt() {
    let (data, targets) = data(3, 3, 80, 11);
    let moments = moments(&data);
    let pool = Pool::new(&moments, &targets, &[], true).unwrap();
    assert_eq!(pool.groups.len(), 3);
    let mut fit = Kds::new(&pool);
    let lasso = Lasso { kind: PenaltyKind::Ingoing, lambda: 0.05, multipliers: None };
    let found = fit.fit(&lasso, None, TIGHT, &Progress::default()).unwrap();
    let parameters = fit.parameters(&found.weights);
    let scales = parameters.log_scale.as_ref().unwrap();
    let own = |e: usize, j: usize| scales[(e, j)] != 0.0;
    assert!((0..3).all(|e| (0..3).all(|j| own(e, j) == targets[(e, j)])));
    // A fit that leaves a part out is one to the others alone.
    let some = Pool::new(&moments, &targets, &[2], true).unwrap();
    assert_eq!(some.environments, [0, 1]);
    let less = Dataset::from_environments(vec![data.environment(0), data.environment(1)]).unwrap();
    let fewer = Matrix::from_fn(2, 3, |e, j| targets[(e, j)]);
    let alone = moments_of(&less);
    let pool = Pool::new(&alone, &fewer, &[], true).unwrap();
    let one = Kds::new(&some).fit(&lasso, None, TIGHT, &Progress::default()).unwrap();
    let other = Kds::new(&pool).fit(&lasso, Some(&one.weights), TIGHT, &Progress::default()).unwrap();
    assert!((one.loss - other.loss).abs() < 1e-12);
}

fn moments_of(data: &Dataset) -> Moments {
    moments(data)
}

/// What a candidate of the choice is fitted to, and then held tightly: the same minimum, whichever way it is found.
#[test]
fn rows_one_at_a_time_and_all_at_once_find_the_same_minimum() {
    let (data, targets) = data(12, 6, 60, 5);
    let moments = moments(&data);
    let pool = Pool::new(&moments, &targets, &[], false).unwrap();
    for lambda in [0.3, 0.01] {
        let lasso = Lasso { kind: PenaltyKind::Ingoing, lambda, multipliers: None };
        let tolerance = Tolerance { violation: 1e-9, steps: 100_000 };
        let mut fit = Kds::new(&pool);
        let by_rows = fit.fit(&lasso, None, tolerance, &Progress::default()).unwrap();
        assert!(by_rows.violation <= tolerance.violation, "{}", by_rows.violation);
        let none = no_effects(12);
        let at_once = fit.descent().minimise(&lasso, &none, tolerance, &Progress::default()).unwrap();
        let (one, other) = (by_rows.loss + by_rows.penalty, at_once.loss + at_once.penalty);
        assert!((one - other).abs() <= 1e-9 * other, "{lambda}: {one} {other}");
    }
}

/// A path that begins where the equations have no solution begins without effects instead.
#[test]
fn structural_equations_need_a_solution_to_begin_with() {
    let (data, targets) = data(4, 4, 60, 3);
    let moments = moments(&data);
    let pool = Pool::new(&moments, &targets, &[], false).unwrap();
    let lasso = Lasso { kind: PenaltyKind::Ingoing, lambda: 0.05, multipliers: None };
    let tolerance = Tolerance { violation: 1e-9, steps: 10_000 };
    let mut fit = Structural::new(&pool);
    // Two variables that are each other: the determinant is 0.
    let mut singular = no_effects(4);
    (singular[(0, 1)], singular[(1, 0)]) = (1.0, 1.0);
    let one = fit.fit(&lasso, Some(&singular), tolerance, &Progress::default()).unwrap();
    let other = fit.fit(&lasso, None, tolerance, &Progress::default()).unwrap();
    assert!(one.violation <= tolerance.violation);
    assert_eq!(one.weights, other.weights);
}
