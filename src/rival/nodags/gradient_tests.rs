//! Gradients by finite differences, and the series against LU.

use super::gradient::{Batch, Part, Space};
use super::logdet::{Terms, exact, series};
use super::settings::{LogDet, NodagsSettings};
use super::shape::Shape;
use super::train::odds;
use crate::numeric::dense::Lu;
use faer::Mat;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

struct Problem {
    shape: Shape,
    parameters: Vec<f64>,
    x: Vec<f64>,
    targets: Vec<bool>,
}

impl Problem {
    /// Random logits and noise scales, and a network from `initial`, whose layers have the largest norms.
    fn draw(dim: usize, hidden: usize, relu_output: bool, rows: usize, seed: u64) -> Problem {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let shape = Shape { dim, hidden, relu_output };
        let (mut parameters, _) = shape.initial(&NodagsSettings::default(), &mut rng);
        for p in &mut parameters[shape.logits().start..] {
            *p = StandardNormal.sample(&mut rng);
        }
        let x = (0..rows * dim).map(|_| StandardNormal.sample(&mut rng)).collect();
        let targets = (0..dim).map(|j| j == 1).collect();
        Problem { shape, parameters, x, targets }
    }

    fn run(&self, parameters: &[f64], terms: &Terms, hard: bool, seed: u64) -> Part<f64> {
        let odds = odds(&self.shape, parameters);
        let batch = Batch {
            shape: self.shape,
            parameters,
            odds: &odds,
            targets: &self.targets,
            terms,
            rows: self.x.len() / self.shape.dim,
            hard,
        };
        Space::default().run(&batch, &self.x, &mut ChaCha8Rng::seed_from_u64(seed))
    }
}

/// Everything but the Neumann series: with the sigmoids as masks and the exact log-determinant, the loss is differentiable.
#[test]
fn the_gradient_is_that_of_the_loss() {
    const STEP: f64 = 1e-5;
    for (hidden, relu_output) in [(0, true), (0, false), (1, true), (1, false), (3, true)] {
        let problem = Problem::draw(4, hidden, relu_output, 7, 5 + hidden as u64);
        let found = problem.run(&problem.parameters, &Terms::Exact, false, 9);
        let mut largest: f64 = 0.0;
        for at in 0..problem.shape.count() {
            let mut shifted = problem.parameters.clone();
            let mut loss = |by: f64| {
                shifted[at] = problem.parameters[at] + by;
                problem.run(&shifted, &Terms::Exact, false, 9).loss
            };
            let slope = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
            // Differences are exact to about STEP² and ε / STEP = 2e-11.
            let error = (slope - found.gradient[at]).abs();
            assert!(
                error < 1e-8,
                "parameter {at} of {:?}: {slope} and {}",
                problem.shape,
                found.gradient[at]
            );
            largest = largest.max(slope.abs());
        }
        assert!(largest > 0.1, "the gradient is 0");
    }
}

/// Hard masks: no sigmoid of a logit enters but in the logits' gradient, where it is that of the noisy sigmoid.
#[test]
fn hard_masks_keep_the_other_gradients_exact() {
    const STEP: f64 = 1e-5;
    let problem = Problem::draw(4, 1, true, 9, 3);
    let found = problem.run(&problem.parameters, &Terms::Exact, true, 2);
    let logits = problem.shape.logits();
    for at in 0..problem.shape.count() {
        let mut shifted = problem.parameters.clone();
        let mut loss = |by: f64| {
            shifted[at] = problem.parameters[at] + by;
            problem.run(&shifted, &Terms::Exact, true, 2).loss
        };
        let slope = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
        let expected = if logits.contains(&at) { 0.0 } else { found.gradient[at] };
        assert!((slope - expected).abs() < 1e-8, "parameter {at}: {slope} and {expected}");
    }
    assert!(found.gradient[logits].iter().any(|g| g.abs() > 1e-3), "logits have no gradient");
}

/// Masks are Bernoulli numbers with the edges' probabilities: the mean over masks of a linear network's loss is known.
#[test]
fn masks_have_the_probabilities_of_their_edges() {
    let mut problem = Problem::draw(3, 0, false, 1, 4);
    // f_0 = m_02 x_2 alone, far from x_0: (x_0 − m)² is 4 or 1, and the log-determinant is 0.
    problem.parameters[..9].fill(0.0);
    problem.parameters[2] = 1.0;
    problem.x = vec![2.0, 0.0, 1.0];
    problem.targets = vec![false, true, true];
    let scales = problem.shape.log_scales();
    problem.parameters[scales].fill(0.0);
    let p = problem.shape.probability(&problem.parameters, 0, 2);
    let runs: u32 = 20_000;
    let present = (0..runs)
        .filter(|seed| problem.run(&problem.parameters, &Terms::Exact, true, u64::from(*seed)).loss < 2.0)
        .count();
    let (share, spread) = (present as f64 / f64::from(runs), (p * (1.0 - p) / f64::from(runs)).sqrt());
    assert!((share - p).abs() < 4.0 * spread, "{share} of masks have the edge, expected {p}");
}

/// The mean of the estimated loss and gradient over many probes and lengths is the exact one, within 4.5 standard errors.
#[test]
fn the_unbiased_estimate_is_unbiased() {
    let mut problem = Problem::draw(5, 1, false, 6, 8);
    // Certain edges: only probes and lengths are random. Effects of one sign make feedback that is strong, and so short that the
    // estimate has a finite variance: 2 · 0.6² < 1.
    let (logits, first, output) = (problem.shape.logits(), problem.shape.layer(0), problem.shape.layer(1));
    problem.parameters[logits].fill(40.0);
    for (at, w) in problem.parameters[first].iter_mut().enumerate() {
        *w = 0.1 * *w + f64::from(u8::from(at % 6 == 0));
    }
    problem.parameters[output].iter_mut().for_each(|w| *w = 0.15 + 0.05 * *w);
    problem.x.iter_mut().for_each(|x| *x = x.abs());
    let exact = problem.run(&problem.parameters, &Terms::Exact, true, 0);
    let none = problem.run(&problem.parameters, &Terms::Series(Vec::new()), true, 0);
    assert!((exact.loss - none.loss).abs() > 1e-2, "there is no log-determinant to estimate");

    let settings = NodagsSettings::default();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let runs = 30_000;
    let size = problem.shape.count() + 1;
    let (mut sums, mut squares) = (vec![0.0; size], vec![0.0; size]);
    for seed in 0..runs {
        let part = problem.run(&problem.parameters, &Terms::draw(&settings, &mut rng), true, seed);
        for (at, value) in part.gradient.iter().chain([&part.loss]).enumerate() {
            sums[at] += value;
            squares[at] += value * value;
        }
    }
    let mut moved = 0;
    for (at, expected) in exact.gradient.iter().chain([&exact.loss]).enumerate() {
        let mean = sums[at] / runs as f64;
        let spread = ((squares[at] / runs as f64 - mean * mean).max(0.0) / runs as f64).sqrt();
        assert!(
            (mean - expected).abs() <= 4.5 * spread + 1e-9,
            "number {at}: mean {mean}, expected {expected}, standard error {spread}"
        );
        let without = none.gradient.iter().chain([&none.loss]).nth(at).unwrap();
        moved += usize::from((without - expected).abs() > 9.0 * spread + 1e-9);
    }
    assert!(moved > 10, "only {moved} numbers depend on the log-determinant: the test sees nothing");
}

/// With the unit vectors as probes the series is exact: its error is that of the terms left out.
#[test]
fn the_bounded_series_is_as_close_as_its_length_allows() {
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    for (d, norm) in [(3, 0.5), (6, 0.9), (8, 0.3)] {
        let mut jacobian: Vec<f64> =
            (0..d * d).map(|at| if at / d == at % d { 0.0 } else { rng.random_range(-1.0..1.0) }).collect();
        let scale = norm / super::shape::spectral_norm(&jacobian, d).unwrap();
        jacobian.iter_mut().for_each(|j| *j *= scale);
        let expected = exact(&jacobian, d).0;
        let estimate = |terms: usize| -> f64 {
            (0..d)
                .map(|i| {
                    let probe: Vec<f64> = (0..d).map(|k| f64::from(u8::from(k == i))).collect();
                    series(&jacobian, &probe, &vec![1.0; terms], &mut vec![0.0; 2 * d], &mut vec![0.0; d])
                })
                .sum()
        };
        for terms in [1, 2, 5, 20, 60] {
            let left_out = norm.powi(terms as i32 + 1) / (terms as f64 + 1.0) / (1.0 - norm);
            let error = (estimate(terms) - expected).abs();
            assert!(error <= d as f64 * left_out + 1e-12, "{terms} terms: {error} above {left_out}");
        }
        assert!((estimate(2) - expected).abs() > 1e-4, "two terms suffice: the test sees nothing");
    }
}

/// The series' slope is (I − Jᵀ)⁻¹ Jᵀ ε.
#[test]
fn the_slope_solves_the_transposed_equations() {
    let (d, mut rng) = (5, ChaCha8Rng::seed_from_u64(6));
    let jacobian: Vec<f64> =
        (0..d * d).map(|at| if at / d == at % d { 0.0 } else { rng.random_range(-0.15..0.15) }).collect();
    let probe: Vec<f64> = (0..d).map(|_| StandardNormal.sample(&mut rng)).collect();
    let mut slope = vec![0.0; d];
    series(&jacobian, &probe, &vec![1.0; 80], &mut vec![0.0; 2 * d], &mut slope);
    let free = Mat::from_fn(d, d, |i, j| f64::from(u8::from(i == j)) - jacobian[j * d + i]);
    let mut expected = Mat::from_fn(d, 1, |i, _| probe[i]);
    Lu::of(free.as_ref()).solve_in_place(expected.as_mut());
    for i in 0..d {
        assert!((slope[i] - (expected[(i, 0)] - probe[i])).abs() < 1e-12);
    }
}

#[test]
fn lengths_are_geometric() {
    let (settings, mut rng) = (NodagsSettings::default(), ChaCha8Rng::seed_from_u64(2));
    let lengths: Vec<usize> = (0..10_000)
        .map(|_| match Terms::draw(&settings, &mut rng) {
            Terms::Series(weights) => {
                let expected = (0..weights.len()).map(|k| 2.0f64.powi((k as i32 - 2).max(0)));
                assert!(weights.iter().copied().eq(expected), "{weights:?}");
                weights.len()
            }
            Terms::Exact => panic!("not a series"),
        })
        .collect();
    for length in 3..8 {
        let (share, expected) =
            (lengths.iter().filter(|l| **l == length).count() as f64 / 1e4, 0.5f64.powi(length as i32 - 2));
        assert!((share - expected).abs() < 4.0 * (expected / 1e4).sqrt(), "length {length}: {share}");
    }
    let bounded = NodagsSettings { log_det: LogDet::Bounded, terms: 7, ..settings };
    assert!(matches!(Terms::draw(&bounded, &mut rng), Terms::Series(weights) if weights == [1.0; 7]));
}
