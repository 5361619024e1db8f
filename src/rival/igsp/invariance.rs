//! Tests whether a conditional distribution is the same in an interventional environment as in the observational one.

use super::inverse::generalised_inverse;
use super::nodes::Nodes;
use super::special::f_cdf;
use crate::Matrix;
use std::collections::HashMap;

/// Remembers at most this many tests.
const MOST_REMEMBERED: usize = 2_000_000;

/// The moments of a sample: the Gram matrix of its columns and of a column of ones, the last.
pub(super) struct Moments {
    pub rows: usize,
    pub gram: Matrix<f64>,
}

/// Tests of an observational sample against others.
pub(super) struct Invariance {
    observed: Moments,
    contexts: Vec<Moments>,
    alpha: f64,
    known: HashMap<(usize, usize, Nodes), bool>,
}

/// The regression of a variable on others and a constant.
struct Regression {
    coefficients: Vec<f64>,
    /// Of the residuals, divided by rows less coefficients.
    variance: f64,
    inverse: Matrix<f64>,
}

impl Invariance {
    pub(super) fn new(observed: Moments, contexts: Vec<Moments>, alpha: f64) -> Self {
        Invariance { observed, contexts, alpha, known: HashMap::new() }
    }

    /// Whether the test does not reject that variable i has the same regression on a set, and the same residual variance,
    /// in the observational sample and in a context.
    pub(super) fn holds(&mut self, i: usize, context: usize, given: Nodes) -> bool {
        let key = (i, context, given);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let [coefficients, variance] = self.p_values(i, context, given);
        // Each of the two tests at half the level, after Bonferroni.
        let level = 0.5 * self.alpha;
        let holds = !(coefficients < level || variance < level);
        if self.known.len() >= MOST_REMEMBERED {
            self.known.clear();
        }
        self.known.insert(key, holds);
        holds
    }

    /// Two-sided p-values of equal coefficients and of equal variances.
    ///
    /// With coefficients β, β', residual variances v, v' and Gram matrices G, G' of the p regressors, the statistic
    /// (β − β')ᵀ (v G⁻¹ + v' G'⁻¹)⁻¹ (β − β') / p is F(p, n + n' − p), and v / v' is F(n − 1, n' − 1).
    pub(super) fn p_values(&self, i: usize, context: usize, given: Nodes) -> [f64; 2] {
        let (here, there) = (&self.observed, &self.contexts[context]);
        let regressors: Vec<usize> = given.iter().chain([here.gram.rows() - 1]).collect();
        let (a, b) = (here.regression(i, &regressors), there.regression(i, &regressors));
        let p = regressors.len();
        let gap: Vec<f64> = a.coefficients.iter().zip(&b.coefficients).map(|(a, b)| a - b).collect();
        if a.variance == 0.0 && b.variance == 0.0 {
            // No noise: any difference counts.
            let same = gap.iter().zip(&a.coefficients).all(|(gap, c)| gap.abs() <= 1e-9 * (1.0 + c.abs()));
            return [if same { 1.0 } else { 0.0 }, 1.0];
        }
        let spread =
            Matrix::from_fn(p, p, |k, l| a.variance * a.inverse[(k, l)] + b.variance * b.inverse[(k, l)]);
        let weights = generalised_inverse(&spread);
        let square: f64 =
            (0..p).map(|k| (0..p).map(|l| gap[k] * weights[(k, l)] * gap[l]).sum::<f64>()).sum();
        let (n, m, p) = (here.rows as f64, there.rows as f64, p as f64);
        let two_sided = |below: f64| 2.0 * below.min(1.0 - below);
        [
            if n + m > p { two_sided(f_cdf(square / p, p, n + m - p)) } else { 1.0 },
            two_sided(f_cdf(a.variance / b.variance, n - 1.0, m - 1.0)),
        ]
    }
}

impl Moments {
    /// The moments of some rows.
    pub(super) fn of<'a>(rows: impl Iterator<Item = &'a [f64]>, d: usize) -> Self {
        let mut gram = Matrix::full(d + 1, d + 1, 0.0);
        let mut count = 0;
        let mut extended = vec![1.0; d + 1];
        for row in rows {
            extended[..d].copy_from_slice(row);
            for a in 0..=d {
                let value = extended[a];
                let sums = &mut gram.row_mut(a)[..=a];
                sums.iter_mut().zip(&extended).for_each(|(sum, other)| *sum += value * other);
            }
            count += 1;
        }
        for a in 0..=d {
            (a + 1..=d).for_each(|b| gram[(a, b)] = gram[(b, a)]);
        }
        Moments { rows: count, gram }
    }

    /// The covariance, divided by n.
    pub(super) fn covariance(&self) -> Matrix<f64> {
        let (d, n) = (self.gram.rows() - 1, self.rows as f64);
        let mean = |a: usize| self.gram[(a, d)] / n;
        Matrix::from_fn(d, d, |a, b| {
            let (square, product) = (self.gram[(a, b)] / n, mean(a) * mean(b));
            // What is left of a constant is rounding.
            let rounding = 16.0 * f64::EPSILON * self.gram[(a, a)] / n;
            if a == b && square - product <= rounding { 0.0 } else { square - product }
        })
    }

    fn regression(&self, i: usize, regressors: &[usize]) -> Regression {
        let p = regressors.len();
        let inverse =
            generalised_inverse(&Matrix::from_fn(p, p, |a, b| self.gram[(regressors[a], regressors[b])]));
        let right: Vec<f64> = regressors.iter().map(|&k| self.gram[(k, i)]).collect();
        let coefficients: Vec<f64> =
            (0..p).map(|a| (0..p).map(|b| inverse[(a, b)] * right[b]).sum()).collect();
        let explained: f64 = coefficients.iter().zip(&right).map(|(c, r)| c * r).sum();
        let square = self.gram[(i, i)];
        let left = square - explained;
        let enough = self.rows > p && left > 64.0 * f64::EPSILON * square;
        let variance = if enough { left / (self.rows - p) as f64 } else { 0.0 };
        Regression { coefficients, variance, inverse }
    }
}
