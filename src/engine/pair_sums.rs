//! Sums over all pairs that a device computes for the exact solver.

use crate::Matrix;

/// The columns to sum over the samples of an environment.
pub(crate) struct PairColumns<'a> {
    /// ω of each sample; 1 without a tilt.
    pub omega: &'a [f64],
    /// n × columns, to be weighted by the kernel; at least one.
    pub value: Matrix<f64>,
    /// n × columns, to be weighted by derivatives of the kernel's profile, if it is not Gaussian.
    pub radial: Option<&'a Matrix<f64>>,
}

/// Sums of one environment, row by row; each weighted by ω(x) ω(y).
pub(crate) struct PairSums {
    /// Σ κ times [`PairColumns::value`].
    pub value: Matrix<f64>,
    /// Σ κ (x − y) of a Gaussian kernel; Σ −½φ' (x − y) and Σ −½φ'' (x − y) of others.
    pub directions: Vec<Matrix<f64>>,
    /// Σ −½φ' over all rows.
    pub z_total: f64,
    /// Σ −½φ' and Σ −½φ'' times [`PairColumns::radial`].
    pub radial: Option<(Matrix<f64>, Matrix<f64>)>,
}
