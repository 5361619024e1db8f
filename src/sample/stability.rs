//! Whether a linear drift pulls back.

use crate::numeric::dense;
use crate::{Error, Matrix, Result};

/// The largest real part of the eigenvalues of W.
///
/// dX = (W X + b) dt + σ dB has a stationary law if it is below 0, and then e^(abscissa · t) is how fast the
/// slowest memory of the past fades. Costs O(d³).
pub fn spectral_abscissa(weights: &Matrix<f64>) -> Result<f64> {
    check_square("weights", weights)?;
    Ok(dense::real_parts(weights.view())?.into_iter().fold(f64::NEG_INFINITY, f64::max))
}

/// Checks that a matrix is square, not empty and finite.
pub(super) fn check_square(what: &str, matrix: &Matrix<f64>) -> Result<()> {
    let (rows, cols) = (matrix.rows(), matrix.cols());
    if rows != cols || rows == 0 {
        return Err(Error::invalid(format!("the {what} have shape [{rows}, {cols}], expected [d, d]")));
    }
    match matrix.as_slice().iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::invalid(format!(
            "the {what} hold {} at [{}, {}], expected finite numbers",
            matrix.as_slice()[at],
            at / cols,
            at % cols
        ))),
    }
}
