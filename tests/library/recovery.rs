//! What the exact solver finds where the truth is known.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use skds::Matrix;
use skds::data::Dataset;
use skds::kernel::Kernel;
use skds::model::{Noise, Parameters};
use skds::objective::Estimator;
use skds::sample::Gaussian;
use skds::solve::{ExactSolver, ExactSpec};

fn fit(samples: Matrix<f64>, bandwidth: f64, estimator: Estimator) -> Parameters<f64> {
    let data = Dataset::from_environments(vec![samples]).unwrap();
    let kernel = Kernel::Rbf { bandwidth };
    let spec = ExactSpec { kernel, estimator, penalty: None, learn_scale: false };
    let exact = ExactSolver::new(&data, data.targets(), spec).unwrap();
    assert!(!exact.fell_back);
    let solution = exact.solve().unwrap();
    assert!(solution.violation < 1e-8);
    solution.parameters
}

fn draws(weights: &Matrix<f64>, biases: &[f64], n: usize, seed: u64) -> Matrix<f64> {
    let d = weights.rows();
    let identity = Matrix::from_fn(d, d, |i, j| if i == j { 1.0 } else { 0.0 });
    let law = Gaussian::stationary(weights, biases, &identity).unwrap();
    law.draw(n, &mut ChaCha8Rng::seed_from_u64(seed)).unwrap()
}

/// The paper's Example 6 with its speed fixed at 1: N(1, ½) is the law of dX = −(X − 1) dt + dB.
#[test]
fn example_6_is_recovered() {
    let samples = draws(&Matrix::full(1, 1, -1.0), &[1.0], 5000, 6);
    let found = fit(samples, 0.5, Estimator::U);
    let Noise::Diagonal { log_noise } = &found.noise else { unreachable!() };
    // The mean is known to 0.01, the variance to 2 %; three times that is allowed.
    assert!((found.biases[0] - 1.0).abs() < 0.03, "{}", found.biases[0]);
    assert!(((2.0 * log_noise[0]).exp() - 1.0).abs() < 0.06, "{}", (2.0 * log_noise[0]).exp());
}

/// Mutual effects of equal strength and equal noise: reversible, so SKDS finds the truth, at the rate of statistics.
#[test]
fn a_reversible_process_is_recovered_with_an_error_of_one_over_root_n() {
    let d = 5;
    let weights = Matrix::from_fn(d, d, |i, j| match i.abs_diff(j) {
        0 => -1.0,
        1 => 0.35 * if (i + j) % 4 == 1 { 1.0 } else { -1.0 },
        _ => 0.0,
    });
    let biases = [0.5, -0.2, 0.1, 0.3, -0.4];
    let error = |n: usize| {
        let squares: Vec<f64> = (0..6)
            .map(|seed| {
                let found = fit(draws(&weights, &biases, n, seed), 1.5, Estimator::V);
                let w = found.drift.linear_weights().unwrap();
                w.as_slice().iter().zip(weights.as_slice()).map(|(a, b)| (a - b) * (a - b)).sum()
            })
            .collect();
        (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
    };
    let (few, many) = (error(250), error(4000));
    // Sixteen times the samples, a quarter of the error.
    assert!(few / many > 2.5 && few / many < 6.5, "{few} {many}");
    assert!(many < 0.15, "{many}");
}
