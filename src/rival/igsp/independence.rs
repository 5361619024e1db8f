//! Tests of conditional independence in the observational data: partial correlations and Fisher's z.

use super::inverse::{DEPENDENT, generalised_inverse};
use super::nodes::Nodes;
use super::special::two_sided_normal;
use crate::Matrix;
use std::collections::HashMap;

/// Remembers at most this many tests.
const MOST_REMEMBERED: usize = 2_000_000;

/// Tests between the variables of one sample.
pub(super) struct Independence {
    rows: f64,
    correlations: Matrix<f64>,
    alpha: f64,
    known: HashMap<(usize, usize, Nodes), bool>,
}

impl Independence {
    /// Tests at the level `alpha` of samples with this covariance (in any unit).
    pub(super) fn new(covariance: &Matrix<f64>, rows: usize, alpha: f64) -> Self {
        let d = covariance.rows();
        let scale: Vec<f64> = (0..d).map(|j| covariance[(j, j)].sqrt()).collect();
        let correlations = Matrix::from_fn(d, d, |i, j| match (i == j, scale[i] * scale[j]) {
            (true, _) => 1.0,
            (_, product) if product > 0.0 => (covariance[(i, j)] / product).clamp(-1.0, 1.0),
            // A constant is independent of everything.
            _ => 0.0,
        });
        Independence { rows: rows as f64, correlations, alpha, known: HashMap::new() }
    }

    /// Whether the test does not reject that i and j are independent given a set, at the level α.
    pub(super) fn holds(&mut self, i: usize, j: usize, given: Nodes) -> bool {
        let key = (i.min(j), i.max(j), given);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let correlation = self.partial_correlation(key.0, key.1, given);
        // No number is no evidence of a dependence.
        let p = self.p_value(correlation, given.len());
        let holds = p.is_nan() || p >= self.alpha;
        if self.known.len() >= MOST_REMEMBERED {
            self.known.clear();
        }
        self.known.insert(key, holds);
        holds
    }

    /// The pairs among `nodes`, by their places, that depend on each other given all other nodes.
    ///
    /// The package tests these one-sided, at the level α of each tail, and so does this.
    pub(super) fn dependent_pairs(&self, nodes: &[usize]) -> Matrix<bool> {
        let p = nodes.len();
        let of_nodes = Matrix::from_fn(p, p, |a, b| self.correlations[(nodes[a], nodes[b])]);
        let precision = generalised_inverse(&of_nodes);
        Matrix::from_fn(p, p, |a, b| {
            let scale = (precision[(a, a)] * precision[(b, b)]).sqrt();
            let correlation = if scale > 0.0 { -precision[(a, b)] / scale } else { 0.0 };
            a != b && 0.5 * self.p_value(correlation, p - 2) <= self.alpha
        })
    }

    /// P(larger |z|) under independence, of Fisher's z = √(n − |S| − 3) artanh r. 1 if there are too few rows.
    fn p_value(&self, correlation: f64, given: usize) -> f64 {
        let freedom = self.rows - given as f64 - 3.0;
        if freedom <= 0.0 {
            return 1.0;
        }
        two_sided_normal(freedom.sqrt() * correlation.clamp(-1.0, 1.0).atanh().abs())
    }

    /// The correlation of what the set leaves of i and j. 0 if it leaves nothing of one of them.
    fn partial_correlation(&self, i: usize, j: usize, given: Nodes) -> f64 {
        let all: Vec<usize> = given.iter().chain([i, j]).collect();
        let p = all.len();
        let mut left = Matrix::from_fn(p, p, |a, b| self.correlations[(all[a], all[b])]);
        for k in 0..p - 2 {
            let pivot = left[(k, k)];
            if pivot <= DEPENDENT {
                continue;
            }
            for a in k + 1..p {
                let share = left[(a, k)] / pivot;
                for b in k + 1..=a {
                    left[(a, b)] -= share * left[(b, k)];
                }
            }
        }
        let (own_i, own_j, common) = (left[(p - 2, p - 2)], left[(p - 1, p - 1)], left[(p - 1, p - 2)]);
        if own_i <= DEPENDENT || own_j <= DEPENDENT { 0.0 } else { common / (own_i * own_j).sqrt() }
    }
}
