//! Linear structural equations with feedback: x = −W⁻¹ (b + δ + ε), with noise that is constant in time instead of noise that
//! fluctuates.
//!
//! With R = −W, rows r_j and r_jj = 1, and optimal biases, shifts and noise variances for R, the log likelihood of a row is
//!
//! ```text
//! log |det R| − ½ Σ_j log v_j,   v_j = r_jᵀ M_j r_j
//! ```
//!
//! where M_j is the pooled covariance, and that of the means of the environments that do not act on j beside it. It is not
//! convex, but well behaved along a path of penalties that starts from R = I.

use super::likelihood::Likelihood;
use super::proximal::{Lasso, Tolerance};
use super::stack::SparsityPattern;
use super::{MomentFit, Pool, no_effects};
use crate::model::{Parameters, PenaltyKind};
use crate::numeric::dense::Lu;
use crate::{Matrix, Progress, Result};

/// Values that a step may not exceed the largest of: now and then one upwards is the way down.
const MEMORY: usize = 6;
/// The least share of the expected descent.
const SHARE: f64 = 1e-4;
/// The most times a step is shortened.
const SHORTER: usize = 40;
/// The shortest and longest steps, in units of the diagonal's curvature.
const STEPS: (f64, f64) = (1e-6, 1e6);

/// Structural equations, ready for fits with several penalties.
pub(crate) struct Structural<'a> {
    pool: &'a Pool<'a>,
    /// For penalties on single effects.
    likelihood: Likelihood<'a>,
    /// W [S | means], where all entries move at once.
    products: Matrix<f64>,
}

/// A point of the search.
struct Point {
    weights: Matrix<f64>,
    /// −log likelihood.
    value: f64,
    penalty: f64,
    variances: Vec<f64>,
    slopes: Matrix<f64>,
}

impl<'a> Structural<'a> {
    /// Fits to a pool of environments.
    pub(crate) fn new(pool: &'a Pool<'a>) -> Self {
        Structural { pool, likelihood: Likelihood::new(pool), products: Matrix::full(0, 0, 0.0) }
    }

    /// Variances of the noises at W, and minus the logarithm of the likelihood of a row: infinite where the equations have no
    /// solution, or beyond there.
    fn value(&mut self, weights: &Matrix<f64>) -> (f64, Vec<f64>, Option<Lu>) {
        let (d, pool) = (self.pool.dim(), self.pool);
        if self.products.rows() == 0 {
            self.products = Matrix::full(d, pool.stack.width(), 0.0);
        }
        pool.stack.times_all(weights, &mut self.products);
        let means = pool.stack.means();
        let variances: Vec<f64> = (0..d)
            .map(|j| {
                let row = self.products.row(j);
                let within: f64 = weights.row(j).iter().zip(&row[..d]).map(|(w, p)| w * p).sum();
                let between = pool.residuals(j, &mut row[means.clone()].to_vec());
                (within + between).max(super::LEAST_NOISE * pool.units[j])
            })
            .collect();
        let lu = Lu::of(weights.view());
        let (sign, log) = lu.determinant();
        // det W = (−1)^d det R.
        let same_side = sign * if d.is_multiple_of(2) { 1.0 } else { -1.0 } > 0.0;
        if !same_side || !log.is_finite() {
            return (f64::INFINITY, variances, None);
        }
        (0.5 * variances.iter().map(|v| v.ln()).sum::<f64>() - log, variances, Some(lu))
    }

    /// Slopes in W at the point of the last call of [`value`](Self::value).
    fn slopes(&self, variances: &[f64], lu: &Lu) -> Matrix<f64> {
        let (d, pool) = (self.pool.dim(), self.pool);
        let inverse = lu.inverse();
        let mut slopes = self.products.clone();
        let means = pool.stack.means();
        for j in 0..d {
            let row = slopes.row_mut(j);
            row[..d].fill(0.0);
            pool.residuals(j, &mut row[means.clone()]);
        }
        // The part of the means; that of the covariance is there already.
        let between = pool.stack.back_to_all(&slopes);
        Matrix::from_fn(d, d, |j, i| {
            (self.products[(j, i)] + between[(j, i)]) / variances[j] - inverse[(i, j)]
        })
    }

    /// The largest slope without effects. Violations are relative to it.
    pub(crate) fn steepest(&mut self) -> f64 {
        self.likelihood.steepest
    }

    fn point(&mut self, weights: Matrix<f64>, lasso: &Lasso<'_>, allowed: &SparsityPattern) -> Point {
        let (value, variances, lu) = self.value(&weights);
        let penalty = lasso.value(allowed, &allowed.of(&weights));
        let slopes = match &lu {
            Some(lu) => self.slopes(&variances, lu),
            None => Matrix::full(self.pool.dim(), self.pool.dim(), 0.0),
        };
        Point { weights, value, penalty, variances, slopes }
    }

    /// A minimum with a penalty, from `from` on, or from no effects.
    pub(crate) fn fit(
        &mut self,
        lasso: &Lasso<'_>,
        from: Option<&Matrix<f64>>,
        tolerance: Tolerance,
        progress: &Progress,
    ) -> Result<MomentFit> {
        let (d, pool) = (self.pool.dim(), self.pool);
        if lasso.kind == PenaltyKind::Ingoing {
            let none = no_effects(d);
            return self.likelihood.minimise(lasso, from.unwrap_or(&none), tolerance, progress);
        }
        let allowed = SparsityPattern::new(d, |j, i| lasso.allows(j, i));
        let none = self.point(no_effects(d), lasso, &allowed);
        let steepest =
            allowed.of(&none.slopes).iter().fold(f64::MIN_POSITIVE, |most, slope| most.max(slope.abs()));
        let mut at = match from {
            Some(from) => self.point(from.clone(), lasso, &allowed),
            None => none,
        };
        if !at.value.is_finite() {
            at = self.point(no_effects(d), lasso, &allowed);
        }
        let mut past = vec![at.value + at.penalty];
        let mut length = 1.0;
        for _ in 0..tolerance.steps {
            progress.check()?;
            if violation(lasso, &allowed, &at) / steepest <= tolerance.violation {
                break;
            }
            // The curvature of each row, but for the determinant's: the steepest of them, because groups move alike.
            let unit = allowed
                .entries()
                .map(|(j, i)| at.variances[j] / pool.units[i].max(f64::MIN_POSITIVE))
                .fold(f64::INFINITY, f64::min);
            let (values, slopes) = (allowed.of(&at.weights), allowed.of(&at.slopes));
            let highest = past.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut next = None;
            for _ in 0..SHORTER {
                let moved = lasso.step(&allowed, &values, &slopes, length * unit);
                let gap: f64 =
                    moved.iter().zip(&values).map(|(moved, value)| (moved - value).powi(2) / unit).sum();
                let weights = allowed.weights(&moved);
                let (value, ..) = self.value(&weights);
                let penalty = lasso.value(&allowed, &moved);
                if value + penalty <= highest - 0.5 * SHARE / length * gap {
                    next = Some((weights, gap));
                    break;
                }
                length *= 0.5;
            }
            let Some((weights, gap)) = next else { break };
            let point = self.point(weights, lasso, &allowed);
            // The step that this change of slopes speaks for.
            let change: f64 = allowed
                .of(&point.weights)
                .iter()
                .zip(&values)
                .zip(allowed.of(&point.slopes).iter().zip(&slopes))
                .map(|((new, old), (slope, before))| (new - old) * (slope - before))
                .sum();
            length = if change > 0.0 { (gap / change).clamp(STEPS.0, STEPS.1) } else { 4.0 * length };
            past.push(point.value + point.penalty);
            if past.len() > MEMORY {
                past.remove(0);
            }
            at = point;
        }
        let missed = violation(lasso, &allowed, &at) / steepest;
        let of_mean = 1.0 / (d * d) as f64;
        Ok(MomentFit {
            weights: at.weights,
            loss: of_mean * at.value,
            penalty: of_mean * at.penalty,
            violation: missed,
        })
    }

    /// The parameters with this W and optimal biases, shifts and noises.
    pub(crate) fn parameters(&mut self, weights: &Matrix<f64>) -> Parameters<f64> {
        let (_, variances, _) = self.value(weights);
        self.pool.parameters(weights.clone(), &variances, None)
    }
}

fn violation(lasso: &Lasso<'_>, allowed: &SparsityPattern, at: &Point) -> f64 {
    lasso.violation(allowed, &allowed.of(&at.weights), &allowed.of(&at.slopes), 1.0)
}
