//! Tests of DCDI-G.
//!
//! `golden/networks.json` comes from `golden/reference.py` (numpy 2.4.6, f64), which shares no code with this module: networks, rows
//! and their log densities.

mod gradients;
mod graphs;
mod learning;
mod schedule;

use crate::Matrix;
use crate::data::Dataset;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// Equations x_j = f(Σ_i w_ji x_i) + scale · ε over a random acyclic graph, and what a step of sampling does.
pub(super) struct Truth {
    /// Row j: the weights of the parents of j.
    pub weights: Matrix<f64>,
    order: Vec<usize>,
    curved: bool,
}

impl Truth {
    /// A random graph on `d` variables with probability `p` of each edge that the order allows.
    pub(super) fn random(d: usize, p: f64, curved: bool, rng: &mut ChaCha8Rng) -> Self {
        let mut order: Vec<usize> = (0..d).collect();
        (1..d).rev().for_each(|n| order.swap(n, rng.random_range(0..=n)));
        let mut weights = Matrix::full(d, d, 0.0);
        for at in 0..d {
            for before in 0..at {
                if rng.random::<f64>() < p {
                    let size = 0.8 + 0.7 * rng.random::<f64>();
                    weights[(order[at], order[before])] = if rng.random() { size } else { -size };
                }
            }
        }
        Truth { weights, order, curved }
    }

    /// `rows` samples per environment: one observational, and one for each variable with a perfect intervention that makes it N(2, 1).
    pub(super) fn data(&self, rows: usize, rng: &mut ChaCha8Rng) -> Dataset {
        let d = self.order.len();
        let environments = (0..=d).map(|e| {
            let mut x = Matrix::full(rows, d, 0.0);
            for s in 0..rows {
                for &j in &self.order {
                    let noise: f64 = StandardNormal.sample(rng);
                    let sum: f64 = (0..d).map(|i| self.weights[(j, i)] * x[(s, i)]).sum();
                    let mean = if self.curved { 2.0 * sum.tanh() } else { sum };
                    x[(s, j)] = if e == j + 1 { 2.0 + noise } else { mean + 0.6 * noise };
                }
            }
            x
        });
        let raw = Dataset::from_environments(environments.collect()).unwrap();
        let targets = Matrix::from_fn(d + 1, d, |e, j| e == j + 1);
        standardized(&raw).with_targets(targets).unwrap()
    }

    /// Missed, extra and reversed edges.
    pub(super) fn errors(&self, edges: &Matrix<bool>) -> [usize; 3] {
        let d = edges.rows();
        let truth = self.weights.map(|w| w != 0.0);
        let mut counts = [0; 3];
        for j in 0..d {
            for i in 0..j {
                let pair = |m: &Matrix<bool>| (m[(i, j)], m[(j, i)]);
                match (pair(&truth), pair(edges)) {
                    (a, b) if a == b => {}
                    ((false, false), _) => counts[1] += 1,
                    (_, (false, false)) => counts[0] += 1,
                    _ => counts[2] += 1,
                }
            }
        }
        counts
    }
}

/// By mean and deviation of environment 0.
pub(super) fn standardized(data: &Dataset) -> Dataset {
    let means = data.means(0);
    let first = data.environment(0);
    let deviation = |j: usize| {
        let sum: f64 = (0..first.rows()).map(|s| (first[(s, j)] - means[j]).powi(2)).sum();
        (sum / first.rows() as f64).sqrt()
    };
    let deviations: Vec<f64> = (0..data.dim()).map(deviation).collect();
    let environments = (0..data.environments()).map(|e| {
        let x = data.environment(e);
        Matrix::from_fn(x.rows(), x.cols(), |s, j| (x[(s, j)] - means[j]) / deviations[j])
    });
    Dataset::from_environments(environments.collect()).unwrap()
}

pub(super) fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}
