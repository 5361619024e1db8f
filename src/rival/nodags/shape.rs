//! The parameters of the shared network in one vector, and the spectral norms of its layers.

use super::settings::{Edges, NodagsSettings};
use crate::numeric::dense::symmetric_eigenvalues;
use crate::rival::NetworkEquations;
use crate::{Matrix, Result};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use std::ops::Range;

/// The least logarithm of a noise scale. Data that a variable's equation explains without an error would drive it to −∞.
pub(super) const LEAST_LOG_SCALE: f64 = -10.0;
/// Vectors shorter than this are not normalized.
const SHORTEST: f64 = 1e-12;
/// Power iterations on the initial weights.
const FIRST_ITERATIONS: usize = 200;

/// Where each parameter is: the layers W₁ … W_L and the output layer V, each d × d; the logits of the edges, d × d with row
/// j for the edges into j; the logarithms of the noise scales, d.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// d.
    pub dim: usize,
    /// L.
    pub hidden: usize,
    /// Whether the output layer has a ReLU.
    pub relu_output: bool,
}

impl Shape {
    /// The number of parameters.
    pub(super) fn count(&self) -> usize {
        (self.hidden + 2) * self.dim * self.dim + self.dim
    }

    /// The weights of layer `at`; the output layer is number L.
    pub(super) fn layer(&self, at: usize) -> Range<usize> {
        at * self.dim * self.dim..(at + 1) * self.dim * self.dim
    }

    pub(super) fn logits(&self) -> Range<usize> {
        self.layer(self.hidden + 1)
    }

    pub(super) fn log_scales(&self) -> Range<usize> {
        self.logits().end..self.count()
    }

    /// Uniform weights, scaled to the largest spectral norms that are allowed; every edge has probability ½.
    pub(super) fn initial(&self, settings: &NodagsSettings, rng: &mut ChaCha8Rng) -> (Vec<f64>, Vec<Norm>) {
        let mut parameters = vec![0.0; self.count()];
        let mut norms = Vec::new();
        for at in 0..=self.hidden {
            let limit = if at == self.hidden { settings.lipschitz } else { 1.0 };
            let weights = &mut parameters[self.layer(at)];
            // The bound of Kaiming's uniform initialization does not matter: the norm is set below.
            weights.iter_mut().for_each(|w| *w = rng.random_range(-1.0..1.0));
            let mut norm = Norm::new(self.dim, limit, rng);
            let found = norm.estimate(weights, FIRST_ITERATIONS);
            weights.iter_mut().for_each(|w| *w *= limit / found.max(SHORTEST));
            norms.push(norm);
        }
        parameters[self.log_scales()].fill(settings.log_scale);
        (parameters, norms)
    }

    /// The probability of the edge from i to j, 0 for i = j.
    pub(super) fn probability(&self, parameters: &[f64], j: usize, i: usize) -> f64 {
        let logit = parameters[self.logits()][j * self.dim + i];
        if i == j { 0.0 } else { 1.0 / (1.0 + (-logit).exp()) }
    }

    /// One network per variable: the shared weights, with the variable's own mask in the first layer.
    pub(super) fn equations(&self, parameters: &[f64], settings: &NodagsSettings) -> NetworkEquations {
        let d = self.dim;
        let mask = Matrix::from_fn(d, d, |j, i| {
            let p = self.probability(parameters, j, i);
            match settings.edges {
                Edges::Expected => p,
                Edges::Threshold => f64::from(u8::from(i != j && p > settings.threshold)),
            }
        });
        let output = |j: usize, k: usize| parameters[self.layer(self.hidden)][j * d + k];
        let layer = |at: usize, row: usize, col: usize| parameters[self.layer(at)][row * d + col];
        // Without hidden layers, z = relu(z) − relu(−z) where the output is linear.
        let width = match (self.hidden, self.relu_output) {
            (0, true) => 1,
            (0, false) => 2,
            _ => d,
        };
        let first_weights = Matrix::from_fn(d * width, d, |row, i| {
            let (j, k) = (row / width, row % width);
            let weight = match self.hidden {
                0 => output(j, i) * if k == 0 { 1.0 } else { -1.0 },
                _ => layer(0, k, i),
            };
            // Not −0 where there is no edge.
            if mask[(j, i)] == 0.0 { 0.0 } else { mask[(j, i)] * weight }
        });
        let none = Matrix::full(d, width, 0.0);
        let mut inner: Vec<_> = (1..self.hidden)
            .map(|at| (Matrix::from_fn(d * d, d, |row, k| layer(at, row % d, k)), none.clone()))
            .collect();
        let mut mean_weights = Matrix::from_fn(d, width, |j, k| match self.hidden {
            0 => [1.0, -1.0][k],
            _ => output(j, k),
        });
        if self.hidden > 0 && self.relu_output {
            // The output's own ReLU is one more layer, of which only the first unit is used.
            let last =
                Matrix::from_fn(d * d, d, |row, k| if row % d == 0 { output(row / d, k) } else { 0.0 });
            inner.push((last, none.clone()));
            mean_weights = Matrix::from_fn(d, d, |_, k| if k == 0 { 1.0 } else { 0.0 });
        }
        NetworkEquations {
            slope: 0.0,
            first_weights,
            first_biases: none.clone(),
            inner,
            mean_weights,
            mean_biases: vec![0.0; d],
            scale_weights: none,
            scale_biases: parameters[self.log_scales()].to_vec(),
        }
    }
}

/// The largest spectral norm of a layer, and the singular vectors of the last estimate of its norm.
pub(super) struct Norm {
    limit: f64,
    left: Vec<f64>,
    right: Vec<f64>,
}

impl Norm {
    fn new(dim: usize, limit: f64, rng: &mut ChaCha8Rng) -> Norm {
        let mut direction = || {
            let mut vector: Vec<f64> = (0..dim).map(|_| StandardNormal.sample(rng)).collect();
            normalize(&mut vector);
            vector
        };
        Norm { limit, left: direction(), right: direction() }
    }

    /// uᵀ W v after so many power iterations, which continue from the vectors of the last call.
    fn estimate(&mut self, weights: &[f64], iterations: usize) -> f64 {
        let d = self.left.len();
        for _ in 0..iterations {
            self.right.fill(0.0);
            for (u, row) in self.left.iter().zip(weights.chunks_exact(d)) {
                self.right.iter_mut().zip(row).for_each(|(v, w)| *v += u * w);
            }
            normalize(&mut self.right);
            for (u, row) in self.left.iter_mut().zip(weights.chunks_exact(d)) {
                *u = inner(row, &self.right);
            }
            normalize(&mut self.left);
        }
        self.left.iter().zip(weights.chunks_exact(d)).map(|(u, row)| u * inner(row, &self.right)).sum()
    }

    /// Shrinks the weights to the limit if their norm exceeds it, by the estimate of a few power iterations.
    pub(super) fn shrink(&mut self, weights: &mut [f64], iterations: usize) {
        let found = self.estimate(weights, iterations);
        if found > self.limit {
            weights.iter_mut().for_each(|w| *w *= self.limit / found);
        }
    }

    /// The same by the exact norm: an estimate is never above it.
    pub(super) fn shrink_exactly(&self, weights: &mut [f64]) -> Result<()> {
        let found = spectral_norm(weights, self.left.len())?;
        if found > self.limit {
            weights.iter_mut().for_each(|w| *w *= self.limit / found);
        }
        Ok(())
    }
}

/// The largest singular value of a matrix with d columns.
pub(super) fn spectral_norm(weights: &[f64], d: usize) -> Result<f64> {
    let gram = Matrix::from_fn(d, d, |i, k| weights.chunks_exact(d).map(|row| row[i] * row[k]).sum::<f64>());
    let values = symmetric_eigenvalues(gram.view())?;
    Ok(values.iter().fold(0.0, |most: f64, v| most.max(*v)).sqrt())
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn normalize(vector: &mut [f64]) {
    let length = inner(vector, vector).sqrt().max(SHORTEST);
    vector.iter_mut().for_each(|v| *v /= length);
}
