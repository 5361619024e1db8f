//! What the score needs of the data: second moments of the rows that have an equation for a variable.

use super::set::Set;
use super::settings::Intercepts;
use crate::data::Dataset;
use crate::numeric::matmul::product;
use crate::{Error, Matrix, Progress, Result};
use std::collections::BTreeMap;

/// Second moments that are this small a part of the sum of squares are rounding of a constant.
const CONSTANT: f64 = 1e-24;

/// Sufficient statistics of one environment.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    /// The number of rows.
    pub rows: usize,
    /// The mean of each variable.
    pub means: Vec<f64>,
    /// d × d: Σ (x − mean)(x − mean)ᵀ.
    pub scatter: Matrix<f64>,
    /// The variables that are acted on.
    pub targets: Set,
}

impl Environment {
    /// The statistics of each environment of a dataset.
    pub(crate) fn all(data: &Dataset, progress: &Progress) -> Result<Vec<Environment>> {
        let d = data.dim();
        let of = |e: usize| {
            progress.check()?;
            let (means, mut centered) = (data.means(e), data.environment(e));
            for i in 0..centered.rows() {
                centered.row_mut(i).iter_mut().zip(&means).for_each(|(x, mean)| *x -= mean);
            }
            let mut scatter = Matrix::full(d, d, 0.0);
            product(scatter.view_mut(), centered.view().transpose(), centered.view());
            let acted_on = data.targets().row(e).iter().enumerate().filter(|(_, acts)| **acts);
            let targets = Set::of(d, acted_on.map(|(j, _)| j));
            Ok(Environment { rows: centered.rows(), means, scatter, targets })
        };
        (0..data.environments()).map(of).collect()
    }
}

/// Pooled second moments.
#[derive(Clone, Debug)]
pub(crate) struct Statistics {
    /// The number of rows in all environments.
    pub rows: usize,
    /// Moments of the environments without an action on a variable; variables with the same environments share them.
    pools: Vec<Pool>,
    /// The pool of each variable.
    pool_of: Vec<usize>,
}

/// Moments of some environments.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    /// The number of rows.
    pub rows: usize,
    /// d × d: Σ x xᵀ, less what the intercepts explain.
    pub moments: Matrix<f64>,
}

impl Statistics {
    /// Pools the environments, all with the same number of variables.
    pub(crate) fn new(
        environments: &[Environment],
        intercepts: Intercepts,
        progress: &Progress,
    ) -> Result<Self> {
        let d = environments.first().map_or(0, |e| e.means.len());
        let mut known = BTreeMap::new();
        let (mut pools, mut pool_of) = (Vec::new(), Vec::new());
        for j in 0..d {
            progress.check()?;
            let free: Vec<usize> =
                (0..environments.len()).filter(|&e| !environments[e].targets.contains(j)).collect();
            let at = *known.entry(free).or_insert_with_key(|free| {
                let chosen: Vec<&Environment> = free.iter().map(|&e| &environments[e]).collect();
                pools.push(Pool::new(d, &chosen, intercepts));
                pools.len() - 1
            });
            pool_of.push(at);
        }
        if pools.iter().any(|pool| pool.moments.as_slice().iter().any(|m| !m.is_finite())) {
            let problem = "the second moments of the data are not finite, expected smaller numbers; standardize the data";
            return Err(Error::NonFinite(problem.into()));
        }
        Ok(Statistics { rows: environments.iter().map(|e| e.rows).sum(), pools, pool_of })
    }

    /// The number of variables.
    pub(crate) fn dim(&self) -> usize {
        self.pool_of.len()
    }

    /// The moments for the equation of a variable.
    pub(crate) fn pool(&self, j: usize) -> &Pool {
        &self.pools[self.pool_of[j]]
    }
}

impl Pool {
    fn new(d: usize, environments: &[&Environment], intercepts: Intercepts) -> Self {
        let rows: usize = environments.iter().map(|e| e.rows).sum();
        let mean =
            |j: usize| environments.iter().map(|e| e.rows as f64 * e.means[j]).sum::<f64>() / rows as f64;
        let center: Vec<f64> = match intercepts {
            Intercepts::Pooled if rows > 0 => (0..d).map(mean).collect(),
            _ => vec![0.0; d],
        };
        let mut moments = Matrix::full(d, d, 0.0);
        let mut squares = vec![0.0; d];
        for e in environments {
            let n = e.rows as f64;
            for i in 0..d {
                squares[i] += e.scatter[(i, i)] + n * e.means[i] * e.means[i];
                for j in 0..d {
                    let between = n * (e.means[i] - center[i]) * (e.means[j] - center[j]);
                    let between = if intercepts == Intercepts::Environment { 0.0 } else { between };
                    moments[(i, j)] += e.scatter[(i, j)] + between;
                }
            }
        }
        let constant = |&i: &usize| squares[i].is_finite() && moments[(i, i)] <= CONSTANT * squares[i];
        for i in (0..d).filter(constant).collect::<Vec<_>>() {
            for j in 0..d {
                (moments[(i, j)], moments[(j, i)]) = (0.0, 0.0);
            }
        }
        Pool { rows, moments }
    }
}
