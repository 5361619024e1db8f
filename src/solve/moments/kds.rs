//! KDS with the quadratic kernel, which depends only on moments.
//!
//! With the kernel k(x, y) = (1 + Σ_i (x_i − m_i)(y_i − m_i)/s_i²)²/d² of an environment with means m,
//!
//! ```text
//! d² KDS = 2 Σ_i ((W m + b + δ)_i / s_i)² + Σ_ij ((W S + S Wᵀ + A)_ij / (s_i s_j))²,   A = diag(noises)
//! ```
//!
//! summed over environments by rows. A shift does not change the covariance S, so that is pooled. Biases, shifts and noises have
//! their optimal values for W: they have no penalty, and each has its own equation, so the loss stays convex in W.

use super::proximal::{Lasso, ProximalGradient, Smooth, Tolerance};
use super::rowwise::RowwiseKds;
use super::stack::SparsityPattern;
use super::{MomentFit, Pool, no_effects};
use crate::model::{Parameters, PenaltyKind};
use crate::{Matrix, Progress, Result};
use rayon::prelude::*;

/// Columns that are transposed at a time.
const BLOCK: usize = 64;
/// Above this share of entries, products of whole matrices are faster.
const DENSE: f64 = 0.25;

/// KDS by moments, ready for fits with several penalties.
pub(crate) struct Kds<'a> {
    pool: &'a Pool<'a>,
    /// For penalties on single effects, where there is one covariance.
    quadratic: Option<RowwiseKds<'a>>,
    /// For all other penalties, created when first needed.
    descent: Option<ProximalGradient<Conditions<'a>>>,
}

impl<'a> Kds<'a> {
    /// Fits to a pool of environments.
    pub(crate) fn new(pool: &'a Pool<'a>) -> Self {
        let quadratic = (pool.groups.len() == 1).then(|| RowwiseKds::new(pool));
        Kds { pool, quadratic, descent: None }
    }

    pub(super) fn descent(&mut self) -> &mut ProximalGradient<Conditions<'a>> {
        let pool = self.pool;
        self.descent.get_or_insert_with(|| ProximalGradient::new(Conditions::new(pool)))
    }

    /// The largest slope without effects. Violations are relative to it.
    pub(crate) fn steepest(&mut self) -> f64 {
        match &self.quadratic {
            Some(quadratic) => quadratic.steepest,
            None => self.descent().steepest(),
        }
    }

    /// The minimum with a penalty, from `from` on, or from no effects.
    pub(crate) fn fit(
        &mut self,
        lasso: &Lasso<'_>,
        from: Option<&Matrix<f64>>,
        tolerance: Tolerance,
        progress: &Progress,
    ) -> Result<MomentFit> {
        let none = no_effects(self.pool.dim());
        let from = from.unwrap_or(&none);
        match &self.quadratic {
            Some(quadratic) if lasso.kind == PenaltyKind::Ingoing => {
                quadratic.minimise(lasso, from, tolerance, progress)
            }
            _ => self.descent().minimise(lasso, from, tolerance, progress),
        }
    }

    /// The parameters with this W and optimal biases, shifts and noises.
    pub(crate) fn parameters(&mut self, weights: &Matrix<f64>) -> Parameters<f64> {
        let (pool, d) = (self.pool, self.pool.dim());
        let twice = |g: usize, j: usize| {
            let column = pool.stack.group(g).start + j;
            2.0 * (0..d).map(|i| weights[(j, i)] * pool.stack.row(i)[column]).sum::<f64>()
        };
        let shared: Vec<f64> = (0..d).map(|j| pool.shared_noise(j, |g| twice(g, j))).collect();
        let own = pool
            .groups
            .iter()
            .any(|group| group.scaled.contains(&true))
            .then(|| Matrix::from_fn(pool.groups.len(), d, |g, j| -twice(g, j)));
        pool.parameters(weights.clone(), &shared, own)
    }
}

impl Pool<'_> {
    /// The optimal shared noise of variable j for 2 (W S)_jj; at least 0.
    fn shared_noise(&self, j: usize, twice: impl Fn(usize) -> f64) -> f64 {
        let (mut sum, mut shares) = (0.0, 0.0);
        for (g, group) in self.groups.iter().enumerate().filter(|(_, group)| !group.scaled[j]) {
            sum += group.share * twice(g);
            shares += group.share;
        }
        if shares > 0.0 { (-sum / shares).max(0.0) } else { 0.0 }
    }
}

/// Equations for means and covariances, squared.
pub(super) struct Conditions<'a> {
    pool: &'a Pool<'a>,
    /// W [S | means], d × width.
    products: Matrix<f64>,
    /// What is multiplied back, of the same shape.
    slopes: Matrix<f64>,
    /// (W S)ᵀ of one group.
    turned: Matrix<f64>,
}

impl<'a> Conditions<'a> {
    fn new(pool: &'a Pool<'a>) -> Self {
        let (d, width) = (pool.dim(), pool.stack.width());
        let space = || Matrix::full(d, width, 0.0);
        Conditions { pool, products: space(), slopes: space(), turned: Matrix::full(d, d, 0.0) }
    }

    fn is_dense(&self, support: &SparsityPattern) -> bool {
        let d = self.pool.dim();
        support.len() as f64 > DENSE * (d * d) as f64
    }

    /// Fills `slopes`, and gives the value.
    fn look(&mut self, support: &SparsityPattern, values: &[f64]) -> f64 {
        let pool = self.pool;
        match self.is_dense(support) {
            true => pool.stack.times_all(&support.weights(values), &mut self.products),
            false => pool.stack.times(support, values, &mut self.products),
        }
        let d = pool.dim();
        let diagonal: Vec<Vec<f64>> = (0..pool.groups.len())
            .map(|g| (0..d).map(|j| 2.0 * self.products[(j, pool.stack.group(g).start + j)]).collect())
            .collect();
        let shared: Vec<f64> = (0..d).map(|j| pool.shared_noise(j, |g| diagonal[g][j])).collect();
        let mut value = 0.0;
        for (g, group) in pool.groups.iter().enumerate() {
            let columns = pool.stack.group(g);
            transpose(&self.products, columns.clone(), &mut self.turned);
            let (products, turned) = (&self.products, &self.turned);
            let rows: Vec<f64> = self
                .slopes
                .as_mut_slice()
                .par_chunks_exact_mut(pool.stack.width())
                .enumerate()
                .map(|(j, slopes)| {
                    let own = &products.row(j)[columns.clone()];
                    let mut sum = 0.0;
                    for (k, slope) in slopes[columns.clone()].iter_mut().enumerate() {
                        let unit = 1.0 / (pool.units[j] * pool.units[k]);
                        let entry = match k == j {
                            false => own[k] + turned[(j, k)],
                            // The noise absorbs what it can.
                            true if group.scaled[j] => diagonal[g][j].max(0.0),
                            true => diagonal[g][j] + shared[j],
                        };
                        *slope = group.share * entry * unit;
                        sum += *slope * entry;
                    }
                    sum
                })
                .collect();
            value += rows.iter().sum::<f64>();
        }
        let means = pool.stack.means();
        for j in 0..d {
            let slopes = &mut self.slopes.row_mut(j)[means.clone()];
            slopes.copy_from_slice(&self.products.row(j)[means.clone()]);
            value += 2.0 * pool.residuals(j, slopes) / pool.units[j];
            slopes.iter_mut().for_each(|slope| *slope /= pool.units[j]);
        }
        value
    }
}

impl Smooth for Conditions<'_> {
    fn dim(&self) -> usize {
        self.pool.dim()
    }

    fn slopes(&mut self, support: &SparsityPattern, values: &[f64], out: &mut [f64]) -> f64 {
        let value = self.look(support, values);
        match self.is_dense(support) {
            true => out.copy_from_slice(&support.of(&self.pool.stack.back_to_all(&self.slopes))),
            false => self.pool.stack.back(&self.slopes, support, out),
        }
        out.iter_mut().for_each(|slope| *slope *= 4.0);
        value
    }

    fn all_slopes(&mut self, support: &SparsityPattern, values: &[f64]) -> Matrix<f64> {
        self.look(support, values);
        self.pool.stack.back_to_all(&self.slopes).map(|slope| 4.0 * slope)
    }
}

/// Some columns of a matrix, as many as it has rows, as rows.
fn transpose(matrix: &Matrix<f64>, columns: std::ops::Range<usize>, out: &mut Matrix<f64>) {
    let d = matrix.rows();
    out.as_mut_slice().par_chunks_mut(BLOCK * d).enumerate().for_each(|(band, out)| {
        let first = columns.start + band * BLOCK;
        for k in (0..d).step_by(BLOCK) {
            for (j, row) in out.chunks_exact_mut(d).enumerate() {
                for (k, value) in row.iter_mut().enumerate().skip(k).take(BLOCK) {
                    *value = matrix[(k, first + j)];
                }
            }
        }
    });
}
