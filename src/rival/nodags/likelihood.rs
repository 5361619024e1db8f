//! The exact likelihood of fitted equations, for tests.

use crate::Matrix;
use crate::data::Dataset;
use crate::numeric::dense::Lu;
use crate::rival::NetworkEquations;

/// The means of all variables given the others, and their Jacobian with row j for mean_j.
pub(super) fn means(equations: &NetworkEquations, x: &[f64]) -> (Vec<f64>, Matrix<f64>) {
    let (d, h) = (x.len(), equations.first_biases.cols());
    let mut jacobian = Matrix::full(d, d, 0.0);
    let mut means = equations.mean_biases.clone();
    let layers = std::iter::once((&equations.first_weights, &equations.first_biases))
        .chain(equations.inner.iter().map(|(weights, biases)| (weights, biases)));
    let layers: Vec<_> = layers.collect();
    for j in 0..d {
        let mut values = x.to_vec();
        let mut slopes = Matrix::from_fn(d, d, |i, k| f64::from(u8::from(i == k)));
        for (weights, biases) in &layers {
            let row = |k: usize| weights.row(j * h + k);
            let sums: Vec<f64> = (0..h)
                .map(|k| biases[(j, k)] + row(k).iter().zip(&values).map(|(w, v)| w * v).sum::<f64>())
                .collect();
            slopes = Matrix::from_fn(h, d, |k, i| {
                let slope: f64 = row(k).iter().enumerate().map(|(l, w)| w * slopes[(l, i)]).sum();
                if sums[k] > 0.0 { slope } else { equations.slope * slope }
            });
            values = sums.iter().map(|s| s.max(equations.slope * s)).collect();
        }
        means[j] += equations.mean_weights.row(j).iter().zip(&values).map(|(w, v)| w * v).sum::<f64>();
        for i in 0..d {
            jacobian[(j, i)] = (0..h).map(|k| equations.mean_weights[(j, k)] * slopes[(k, i)]).sum();
        }
    }
    (means, jacobian)
}

/// Per environment: the mean over its rows of the logarithm of their density.
pub(super) fn log_likelihoods(equations: &NetworkEquations, data: &Dataset) -> Vec<f64> {
    let d = data.dim();
    let one = |e: usize| {
        let targets = data.targets().row(e);
        let row = |at: usize| {
            let x = data.samples().row(at);
            let (means, jacobian) = means(equations, x);
            let free = Matrix::from_fn(d, d, |j, i| {
                f64::from(u8::from(i == j)) - if targets[j] { 0.0 } else { jacobian[(j, i)] }
            });
            let mut sum = Lu::of(free.view()).determinant().1;
            for j in (0..d).filter(|&j| !targets[j]) {
                let log_scale = equations.scale_biases[j];
                let z = (x[j] - means[j]) * (-log_scale).exp();
                sum -= 0.5 * z * z + log_scale + 0.5 * std::f64::consts::TAU.ln();
            }
            sum
        };
        data.rows(e).map(row).sum::<f64>() / data.rows(e).len() as f64
    };
    (0..data.environments()).map(one).collect()
}
