//! Metrics against values that were worked out another way.

use super::assignment::assign;
use super::costs::Costs;
use super::sinkhorn::divergence;
use super::*;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn normal(seed: u64, n: usize, d: usize) -> Matrix<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    Matrix::from_fn(n, d, |_, _| rand_distr::Distribution::sample(&rand_distr::StandardNormal, &mut rng))
}

#[track_caller]
fn near(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "found {found}, expected {expected}");
}

/// Checks the proof that `assign` gives along: u_i + v_j ≤ C_ij with equality for matched pairs, and a permutation.
/// Returns the cost.
fn certified(costs: &Costs, prices: &[f64], tolerance: f64) -> f64 {
    let n = costs.rows();
    let solution = assign(costs, prices);
    let mut taken = vec![false; n];
    for i in 0..n {
        let matched = solution.matching[i];
        assert!(!std::mem::replace(&mut taken[matched], true), "column {matched} is taken twice");
        let rest = costs.row(i)[matched] - solution.prices[matched];
        for j in 0..n {
            let slack = costs.row(i)[j] - solution.prices[j] - rest;
            assert!(slack >= -tolerance, "row {i} would rather have column {j}, by {slack}");
        }
    }
    (0..n).map(|i| costs.row(i)[solution.matching[i]]).sum()
}

/// The least cost over all permutations of the columns from `row` on.
fn cheapest_permutation(costs: &Costs, row: usize, columns: &mut [usize]) -> f64 {
    if row == columns.len() {
        return 0.0;
    }
    let mut least = f64::INFINITY;
    for k in row..columns.len() {
        columns.swap(row, k);
        least = least.min(costs.row(row)[columns[row]] + cheapest_permutation(costs, row + 1, columns));
        columns.swap(row, k);
    }
    least
}

#[test]
fn assignments_cost_what_the_best_permutation_does() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for n in 1..=6 {
        for round in 0..200 {
            // Every other round draws few different costs, negative ones too, so that there are ties.
            let draws = Matrix::from_fn(n, n, |_, _| match round % 2 {
                0 => rng.random_range(-1.0..1.0),
                _ => f64::from(rng.random_range(-2i32..3)),
            });
            let prices: Vec<f64> = (0..n).map(|_| rng.random_range(-3.0..3.0)).collect();
            let costs = Costs::from_fn(n, n, |i, j| draws[(i, j)]);
            let best = cheapest_permutation(&costs, 0, &mut (0..n).collect::<Vec<_>>());
            near(certified(&costs, &prices, 1e-12), best, 1e-12);
            near(certified(&costs, &vec![0.0; n], 1e-12), best, 1e-12);
        }
    }
}

#[test]
fn large_assignments_prove_themselves() {
    for (n, d) in [(257, 1), (300, 2), (200, 30)] {
        let (a, b) = (normal(1, n, d), normal(2, n, d).map(|x| x * x * x));
        certified(&Costs::between(&a, &b), &vec![0.0; n], 1e-9);
    }
    // Nothing but ties, and ranks that tie on the diagonal only.
    assert_eq!(certified(&Costs::from_fn(100, 100, |_, _| 1.0), &[0.0; 100], 0.0), 100.0);
    assert_eq!(certified(&Costs::from_fn(100, 100, |i, j| (i * j) as f64), &[0.0; 100], 0.0), 161_700.0);
}

#[test]
fn costs_are_squared_distances_from_both_sides() {
    let (a, b) = (normal(1, 37, 3), normal(2, 21, 3));
    let (costs, back) = (Costs::between(&a, &b), Costs::between(&b, &a));
    for i in 0..37 {
        for j in 0..21 {
            near(costs.row(i)[j], squared_distance(a.row(i), b.row(j)), 1e-13);
            assert_eq!(costs.row(i)[j], back.row(j)[i]);
        }
        assert!(costs.row(i)[21..].iter().all(|&padding| padding == f64::INFINITY));
    }
}

#[test]
fn in_one_dimension_the_best_matching_is_sorted() {
    let (a, b) = (normal(1, 500, 1), normal(2, 500, 1).map(|x| 0.3 + x * x * x));
    let sorted = |m: &Matrix<f64>| {
        let mut values = m.as_slice().to_vec();
        values.sort_by(f64::total_cmp);
        values
    };
    let expected = squared_distance(&sorted(&a), &sorted(&b)) / 500.0;
    near(wasserstein2(&a, &b).unwrap(), expected, 1e-12 * expected);
}

#[test]
fn a_set_is_nowhere_else_than_itself() {
    let a = normal(1, 120, 7);
    assert_eq!(wasserstein2(&a, &a).unwrap(), 0.0);
    assert_eq!(mean_squared_error(&a, &a).unwrap(), 0.0);
    near(sinkhorn_divergence(&a, &a).unwrap(), 0.0, 1e-7);
    let same = Matrix::full(5, 2, 3.0);
    assert_eq!(wasserstein2(&same, &same).unwrap(), 0.0);
    assert_eq!(sinkhorn_divergence(&same, &same).unwrap(), 0.0);
}

#[test]
fn moving_a_set_costs_the_square_of_the_way() {
    // Small multiples of 1/64: differences are exact, and so must be the distance.
    let a = normal(1, 90, 3).map(|x| (64.0 * x).round() / 64.0);
    let way = [3.0, -4.0, 1e4];
    let b = Matrix::from_fn(90, 3, |i, j| a[(89 - i, j)] + way[j]);
    let expected = 9.0 + 16.0 + 1e8;
    assert_eq!(wasserstein2(&a, &b).unwrap(), expected);
    near(sinkhorn_divergence(&a, &b).unwrap(), expected, 1e-9 * expected);
    near(mean_squared_error(&a, &b).unwrap(), expected / 3.0, 1e-9 * expected);
}

#[test]
fn only_means_count_for_the_mean_squared_error() {
    let predicted = Matrix::from_rows(2, 2, vec![1.0, 5.0, 3.0, 7.0]);
    let truth = Matrix::from_rows(3, 2, vec![0.0, 6.0, 0.0, 0.0, 3.0, 3.0]);
    // Means (2, 6) and (1, 3).
    assert_eq!(mean_squared_error(&predicted, &truth).unwrap(), (1.0 + 9.0) / 2.0);
}

#[test]
fn rows_beyond_the_shorter_set_do_not_count_for_wasserstein() {
    let a = normal(1, 60, 2);
    let b = normal(2, 40, 2);
    let head = Matrix::from_rows(40, 2, a.rows_slice(0..40).to_vec());
    assert_eq!(wasserstein2(&a, &b).unwrap(), wasserstein2(&head, &b).unwrap());
}

#[test]
fn single_points_are_as_far_as_they_are() {
    let (x, y) = (Matrix::from_rows(1, 2, vec![1.0, 2.0]), Matrix::from_rows(1, 2, vec![-2.0, 6.0]));
    assert_eq!(sinkhorn_divergence(&x, &y).unwrap(), 25.0);
    assert_eq!(wasserstein2(&x, &y).unwrap(), 25.0);
}

/// OT_ε by its primal value after textbook iterations on u and v in P = diag(u) K diag(v).
fn textbook(a: &Matrix<f64>, b: &Matrix<f64>, epsilon: f64) -> f64 {
    let (n, m) = (a.rows(), b.rows());
    let cost = |i: usize, j: usize| squared_distance(a.row(i), b.row(j));
    let kernel = Matrix::from_fn(n, m, |i, j| (-cost(i, j) / epsilon).exp());
    let (mut u, mut v) = (vec![1.0; n], vec![1.0; m]);
    for _ in 0..20_000 {
        for i in 0..n {
            u[i] = 1.0 / n as f64 / (0..m).map(|j| kernel[(i, j)] * v[j]).sum::<f64>();
        }
        for j in 0..m {
            v[j] = 1.0 / m as f64 / (0..n).map(|i| kernel[(i, j)] * u[i]).sum::<f64>();
        }
    }
    let mut value = 0.0;
    for i in 0..n {
        for j in 0..m {
            let plan = u[i] * kernel[(i, j)] * v[j];
            value += plan * cost(i, j) + epsilon * plan * (plan * (n * m) as f64).ln();
        }
    }
    value
}

#[test]
fn sinkhorn_agrees_with_the_textbook() {
    for (n, m, d) in [(8, 8, 2), (8, 5, 3), (1, 6, 1), (20, 17, 2)] {
        let (a, b) = (normal(1, n, d), normal(2, m, d).map(|x| 0.5 + 1.5 * x));
        let pairs = (0..n).flat_map(|i| (0..m).map(move |j| (i, j)));
        let mean_cost =
            pairs.map(|(i, j)| squared_distance(a.row(i), b.row(j))).sum::<f64>() / (n * m) as f64;
        for relative in [0.05, 0.5] {
            let epsilon = relative * mean_cost;
            let expected =
                textbook(&a, &b, epsilon) - 0.5 * (textbook(&a, &a, epsilon) + textbook(&b, &b, epsilon));
            near(divergence(&a, &b, relative).unwrap(), expected, 1e-6 * expected);
            if relative == 0.05 {
                near(sinkhorn_divergence(&a, &b).unwrap(), expected, 1e-6 * expected);
            }
        }
    }
}

#[test]
fn sinkhorn_tends_to_wasserstein() {
    let (a, b) = (normal(1, 10, 2), normal(2, 10, 2).map(|x| 1.0 + 0.7 * x));
    let exact = wasserstein2(&a, &b).unwrap();
    let errors = [0.3, 0.05, 0.01].map(|epsilon| (divergence(&a, &b, epsilon).unwrap() / exact - 1.0).abs());
    assert!(errors[2] < errors[1] && errors[1] < errors[0] && errors[2] < 0.01, "{errors:?}");
}

#[test]
fn neither_the_order_of_sets_nor_of_rows_counts() {
    let (a, b) = (normal(1, 150, 4), normal(2, 150, 4).map(|x| 0.2 + 1.2 * x));
    let mut order: Vec<usize> = (0..150).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(3));
    let shuffled = Matrix::from_fn(150, 4, |i, j| a[(order[i], j)]);
    for (metric, tolerance) in [(wasserstein2 as fn(&_, &_) -> _, 1e-12), (sinkhorn_divergence, 1e-7)] {
        let value: f64 = metric(&a, &b).unwrap();
        near(metric(&b, &a).unwrap(), value, tolerance * value);
        near(metric(&shuffled, &b).unwrap(), value, tolerance * value);
    }
}

#[test]
fn scaling_both_sets_scales_by_the_square() {
    let (a, b) = (normal(1, 80, 3), normal(2, 70, 3).map(|x| 1.0 + 0.5 * x));
    for scale in [1e-120, 1e-6, 3.0, 1e9, 1e120] {
        let (large_a, large_b) = (a.map(|x| scale * x), b.map(|x| scale * x));
        for metric in [wasserstein2, sinkhorn_divergence] {
            let ratio = metric(&large_a, &large_b).unwrap() / scale / scale / metric(&a, &b).unwrap();
            near(ratio, 1.0, 1e-7);
        }
    }
}

#[test]
fn far_outliers_and_distant_parts_still_converge() {
    let a = normal(1, 200, 1);
    let mut b = normal(2, 200, 1);
    b[(7, 0)] = 100.0;
    (0..60).for_each(|i| b[(3 * i, 0)] += 20.0);
    let (sinkhorn, exact) = (sinkhorn_divergence(&a, &b).unwrap(), wasserstein2(&a, &b).unwrap());
    near(sinkhorn, exact, 0.05 * exact);
}

#[test]
fn bits_do_not_depend_on_threads() {
    let (a, b) = (normal(1, 300, 5), normal(2, 280, 5));
    let values = [1, 2, 5].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| (sinkhorn_divergence(&a, &b).unwrap(), wasserstein2(&a, &b).unwrap()))
    });
    assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
}

#[test]
fn wrong_input_gets_a_sentence() {
    let a = normal(1, 4, 2);
    let mut broken = a.clone();
    broken[(2, 1)] = f64::NAN;
    let empty = Matrix::from_rows(0, 2, Vec::new());
    let huge = Matrix::from_rows(2, 2, vec![1e200, 0.0, -1e200, 5.0]);
    for metric in [mean_squared_error, wasserstein2, sinkhorn_divergence] {
        let refusal = |x: &Matrix<f64>, y: &Matrix<f64>| metric(x, y).unwrap_err().to_string();
        assert_eq!(
            refusal(&a, &normal(1, 4, 3)),
            "the sets have 2 and 3 variables, expected the same number"
        );
        assert_eq!(
            refusal(&a, &broken),
            "the second set has NaN in row 2, column 1 (counted from 0), expected finite numbers"
        );
        assert_eq!(
            refusal(&empty, &a),
            "the first set has 0 samples of 2 variables, expected at least one of each"
        );
    }
    for metric in [wasserstein2, sinkhorn_divergence] {
        assert!(metric(&huge, &a).unwrap_err().to_string().contains("is inf, expected samples"));
    }
}
