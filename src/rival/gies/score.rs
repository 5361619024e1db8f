//! The score of a DAG: its log likelihood with the best coefficients and variances, less λ per parameter.
//!
//! With n_j rows in the environments that do not act on j, and σ²_j the mean squared residual of j given its parents there,
//!
//! ```text
//! Σ_j −½ n_j (1 + log σ²_j) − λ (1 + number of parents of j)
//! ```
//!
//! (Hauser and Bühlmann 2012, section 5.1, without the constant ½ n_j log 2π.)

use super::graph::Graph;
use super::set::Set;
use super::statistics::Statistics;
use crate::{Error, Matrix, Result};
use std::collections::HashMap;

/// The least share of its second moment that a variable keeps as residual. A parent with less beyond other parents is ignored.
const LEAST_SHARE: f64 = 1e-12;

/// Scores of variables given their parents. It keeps what it computed.
pub(crate) struct Score<'a> {
    statistics: &'a Statistics,
    lambda: f64,
    known: Vec<HashMap<Set, f64>>,
    /// Space for a factorization.
    factor: Vec<f64>,
}

impl<'a> Score<'a> {
    /// A score with a penalty per parameter: ½ log N if none is given.
    pub(crate) fn new(statistics: &'a Statistics, lambda: Option<f64>) -> Self {
        let lambda = lambda.unwrap_or(0.5 * (statistics.rows as f64).ln());
        Score { statistics, lambda, known: vec![HashMap::new(); statistics.dim()], factor: vec![] }
    }

    /// The part of the score that variable j with these parents makes.
    pub(crate) fn local(&mut self, j: usize, parents: &Set) -> Result<f64> {
        if let Some(&known) = self.known[j].get(parents) {
            return Ok(known);
        }
        let pool = self.statistics.pool(j);
        let n = pool.rows as f64;
        let penalty = self.lambda * (1 + parents.len()) as f64;
        let members: Vec<usize> = parents.iter().collect();
        // A constant has no likelihood: no parent changes it.
        let log = match residual(&pool.moments, j, &members, &mut self.factor) {
            0.0 => 0.0,
            left => (left / n).ln(),
        };
        let score = if pool.rows == 0 { -penalty } else { -0.5 * n * (1.0 + log) - penalty };
        if !score.is_finite() {
            return Err(Error::NonFinite(format!(
                "the score of variable {j} is {score}, expected a finite number"
            )));
        }
        self.known[j].insert(parents.clone(), score);
        Ok(score)
    }

    /// The score of a DAG.
    pub(crate) fn total(&mut self, dag: &Graph) -> Result<f64> {
        (0..self.statistics.dim()).map(|j| self.local(j, dag.parents(j))).sum()
    }
}

/// The sum of squared residuals of j given its parents: the last pivot of a Cholesky factorization. `factor` is space for it.
fn residual(moments: &Matrix<f64>, j: usize, parents: &[usize], factor: &mut Vec<f64>) -> f64 {
    let k = parents.len();
    let index = |at: usize| if at < k { parents[at] } else { j };
    factor.resize(factor.len().max((k + 1) * (k + 1)), 0.0);
    let mut left = 0.0;
    for row in 0..=k {
        let own = moments[(index(row), index(row))];
        left = own;
        for col in 0..row {
            let (above, below) = factor.split_at_mut(row * (k + 1));
            let other = &above[col * (k + 1)..];
            let known: f64 = other[..col].iter().zip(&below[..col]).map(|(a, b)| a * b).sum();
            let pivot = other[col];
            let entry = if pivot > 0.0 { (moments[(index(row), index(col))] - known) / pivot } else { 0.0 };
            below[col] = entry;
            left -= entry * entry;
        }
        // Row j keeps a least residual, so that its logarithm is finite.
        left = if row == k { left.max(LEAST_SHARE * own) } else { left };
        factor[row * (k + 1) + row] = if left > LEAST_SHARE * own { left.sqrt() } else { 0.0 };
    }
    left
}
