//! The linear equations between total and direct effects, and the noise that the direct effects leave.

use crate::Matrix;
use crate::data::Dataset;

/// The least noise variance, relative to the variable's own.
const LEAST_SHARE: f64 = 1e-10;
/// The least noise variance of a variable that never changes.
const LEAST_VARIANCE: f64 = 1e-10;

/// The covariance of environment `e`, centred and divided by n.
pub(super) fn covariance(data: &Dataset, e: usize) -> Matrix<f64> {
    let (d, means, rows) = (data.dim(), data.means(e), data.rows(e));
    let n = rows.len() as f64;
    let mut sums = Matrix::full(d, d, 0.0);
    let mut centred = vec![0.0; d];
    for row in rows {
        let x = data.samples().row(row);
        (0..d).for_each(|j| centred[j] = x[j] - means[j]);
        for a in 0..d {
            let (value, upper) = (centred[a], &centred[a..]);
            sums.row_mut(a)[a..].iter_mut().zip(upper).for_each(|(sum, other)| *sum += value * other);
        }
    }
    Matrix::from_fn(d, d, |a, b| sums[(a.min(b), a.max(b))] / n)
}

/// The equations T b = t for the effects b of all other variables on u.
pub(super) struct TotalEffects {
    /// u.
    variable: usize,
    /// T: one row per pair of an environment that does not intervene on u and one of its targets; column k is variable k if
    /// k < u, else k + 1.
    pub coefficients: Matrix<f64>,
    /// t.
    pub values: Vec<f64>,
}

impl TotalEffects {
    /// The equations for the effects on `u`.
    pub(super) fn of(covariances: &[Matrix<f64>], targets: &Matrix<bool>, u: usize) -> Self {
        let d = targets.cols();
        let (mut coefficients, mut values) = (Vec::new(), Vec::new());
        for (e, covariance) in covariances.iter().enumerate() {
            if targets[(e, u)] {
                continue;
            }
            for i in (0..d).filter(|&i| targets[(e, i)]) {
                let total = covariance.row(i);
                coefficients.extend((0..d).filter(|&k| k != u).map(|k| match (k == i, targets[(e, k)]) {
                    (true, _) => 1.0,
                    // Another target does not depend on i.
                    (false, true) => 0.0,
                    (false, false) => total[k],
                }));
                values.push(total[u]);
            }
        }
        let coefficients = Matrix::from_rows(values.len(), d - 1, coefficients);
        TotalEffects { variable: u, coefficients, values }
    }

    /// The effects of all variables: those of the others, and 0 of u on itself.
    pub(super) fn with_own(&self, others: &[f64]) -> Vec<f64> {
        let mut effects = others.to_vec();
        effects.insert(self.variable, 0.0);
        effects
    }
}

/// The mean variance of x_u − b x over the environments that do not intervene on u, or over all if each does.
pub(super) fn noise_variance(
    covariances: &[Matrix<f64>],
    targets: &Matrix<bool>,
    u: usize,
    effects: &[f64],
) -> f64 {
    let mut informative: Vec<&Matrix<f64>> =
        covariances.iter().enumerate().filter(|(e, _)| !targets[(*e, u)]).map(|(_, c)| c).collect();
    if informative.is_empty() {
        informative = covariances.iter().collect();
    }
    let weights: Vec<f64> = effects.iter().enumerate().map(|(k, b)| if k == u { 1.0 } else { -b }).collect();
    let residual = |c: &Matrix<f64>| -> f64 {
        let products = (0..weights.len()).map(|k| dot(c.row(k), &weights));
        products.zip(&weights).map(|(product, weight)| product * weight).sum()
    };
    let mean = |of: &dyn Fn(&Matrix<f64>) -> f64| {
        informative.iter().map(|c| of(c)).sum::<f64>() / informative.len() as f64
    };
    // `f64::max` would turn a NaN into the floor.
    let (variance, floor) = (mean(&residual), (LEAST_SHARE * mean(&|c| c[(u, u)])).max(LEAST_VARIANCE));
    if variance < floor { floor } else { variance }
}

/// The sum of products.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
