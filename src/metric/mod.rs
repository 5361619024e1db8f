//! How far predicted samples are from observed ones: the numbers by which a fitted model is judged.
//!
//! | metric | compares | takes |
//! |---|---|---|
//! | [`mean_squared_error`] | the means of the variables | O(n d) |
//! | [`wasserstein2`] | the laws, by the best matching of samples | O(n³) at worst, 2000 samples at most |
//! | [`sinkhorn_divergence`] | the laws, by a blurred matching that a computer finds faster | O(n²) per iteration |
//!
//! All three take samples in rows and variables in columns, and are squares: moving every sample by t adds |t|² to
//! the last two if the laws were the same before.
//!
//! ```
//! use skds::{Matrix, metric};
//!
//! let observed = Matrix::from_rows(4, 2, vec![0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
//! let predicted = Matrix::from_fn(4, 2, |i, j| observed[(i, j)] + if j == 0 { 3.0 } else { 4.0 });
//! assert_eq!(metric::mean_squared_error(&predicted, &observed)?, (9.0 + 16.0) / 2.0);
//! assert_eq!(metric::wasserstein2(&predicted, &observed)?, 25.0);
//! assert!((metric::sinkhorn_divergence(&predicted, &observed)? - 25.0).abs() < 1e-9);
//! # Ok::<(), skds::Error>(())
//! ```

mod assignment;
mod costs;
mod sinkhorn;
#[cfg(test)]
mod tests;
mod wasserstein;

pub use sinkhorn::sinkhorn_divergence;
pub use wasserstein::{MAX_ASSIGNED, wasserstein2};

use crate::{Error, Matrix, Result};

/// The mean over the variables of (predicted mean − true mean)².
///
/// The sets may differ in size.
///
/// # Errors
/// If a set has no rows or no columns, if the numbers of columns differ, or if a number is NaN or infinite.
pub fn mean_squared_error(predicted: &Matrix<f64>, truth: &Matrix<f64>) -> Result<f64> {
    check(predicted, truth)?;
    let (predicted, truth) = (means(predicted, predicted.rows()), means(truth, truth.rows()));
    finite(squared_distance(&predicted, &truth) / predicted.len() as f64)
}

/// Refuses sets of samples that no metric is defined for.
fn check(a: &Matrix<f64>, b: &Matrix<f64>) -> Result<()> {
    for (name, samples) in [("first", a), ("second", b)] {
        let (n, d) = (samples.rows(), samples.cols());
        if n == 0 || d == 0 {
            return Err(Error::invalid(format!(
                "the {name} set has {n} samples of {d} variables, expected at least one of each"
            )));
        }
        if let Some(at) = samples.as_slice().iter().position(|value| !value.is_finite()) {
            return Err(Error::invalid(format!(
                "the {name} set has {} in row {}, column {} (counted from 0), expected finite numbers",
                samples.as_slice()[at],
                at / d,
                at % d
            )));
        }
    }
    if a.cols() != b.cols() {
        return Err(Error::invalid(format!(
            "the sets have {} and {} variables, expected the same number",
            a.cols(),
            b.cols()
        )));
    }
    Ok(())
}

/// A result, unless samples are so far apart that squares of their distances exceed the largest number.
fn finite(value: f64) -> Result<f64> {
    if value.is_finite() {
        Ok(value)
    } else {
        Err(Error::NonFinite(format!(
            "the squared distance between the sets is {value}, expected samples with values below about 1e150"
        )))
    }
}

/// The mean of every column over the first `n` rows.
fn means(samples: &Matrix<f64>, n: usize) -> Vec<f64> {
    let mut sums = vec![0.0; samples.cols()];
    for i in 0..n {
        sums.iter_mut().zip(samples.row(i)).for_each(|(sum, value)| *sum += value);
    }
    sums.iter_mut().for_each(|sum| *sum /= n as f64);
    sums
}

/// The first `n` rows with `means` taken away.
///
/// Both transport problems split: |x − y|² of the sets is |x' − y'|² of the centred ones, plus |difference of means|²,
/// plus terms that are the same for every matching. Solving the centred problem loses no digits to a common offset.
fn centred(samples: &Matrix<f64>, n: usize, means: &[f64]) -> Matrix<f64> {
    Matrix::from_fn(n, samples.cols(), |i, j| samples[(i, j)] - means[j])
}

/// |x − y|².
fn squared_distance(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)).sum()
}

/// The mean over the rows of |x|².
fn mean_square(samples: &Matrix<f64>) -> f64 {
    samples.as_slice().iter().map(|x| x * x).sum::<f64>() / samples.rows() as f64
}
