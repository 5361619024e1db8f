//! Drift and noise that are made of given functions, for groups of chains.
//!
//! Functions see a chain only within the basis's box; outside of it the drift leads back at the rate [`PULL`]. A step of
//! the drift is at most half of the box, so that a steep function cannot throw a chain from one wall to the other.

use crate::Matrix;
use crate::model::Basis;
use std::sync::Arc;

/// The rate at which a chain outside of the box returns to it.
const PULL: f64 = 10.0;

/// A process made of given functions.
pub(super) struct Functions {
    basis: Arc<Basis>,
    /// The features that have a coefficient.
    used: Vec<usize>,
    /// d × used.
    coefficients: Matrix<f64>,
    /// dt times the amounts, d × m.
    amounts: Matrix<f64>,
    /// The largest drift of each variable.
    steepest: Vec<f64>,
}

impl Functions {
    /// `amounts` are those of the intervention's noise.
    pub(super) fn new(
        basis: &Arc<Basis>,
        coefficients: &Matrix<f64>,
        amounts: &Matrix<f64>,
        dt: f64,
    ) -> Self {
        let d = coefficients.rows();
        let used: Vec<usize> =
            (0..basis.features()).filter(|&p| (0..d).any(|j| coefficients[(j, p)] != 0.0)).collect();
        Functions {
            coefficients: Matrix::from_fn(d, used.len(), |j, k| coefficients[(j, used[k])]),
            used,
            amounts: amounts.map(|amount| dt * amount),
            steepest: (0..d).map(|j| 0.5 * (basis.high[j] - basis.low[j]) / dt).collect(),
            basis: basis.clone(),
        }
    }

    /// Where chains start: near the middle of the data.
    pub(super) fn start(&self, j: usize, z: f64) -> f64 {
        self.basis.centre[j] + z * self.basis.spread[j]
    }

    /// The drift without its biases, and √dt σ, of every chain; the entries of a variable are contiguous.
    pub(super) fn evaluate(&self, x: &[f64], chains: usize, b: &mut [f64], sigma: &mut [f64]) {
        let (d, m) = (self.amounts.rows(), self.amounts.cols());
        let constant = self.basis.has_constant_diffusion();
        let (mut seen, mut values) = (vec![0.0; d], vec![0.0; self.used.len()]);
        for chain in 0..chains {
            for j in 0..d {
                let x = x[j * chains + chain];
                // A NaN stays one.
                seen[j] = x.clamp(self.basis.low[j], self.basis.high[j]);
            }
            for (value, &p) in values.iter_mut().zip(&self.used) {
                *value = self.basis.feature_at(p, &seen);
            }
            for j in 0..d {
                let at = j * chains + chain;
                let drift: f64 = self.coefficients.row(j).iter().zip(&values).map(|(c, v)| c * v).sum();
                b[at] = drift.clamp(-self.steepest[j], self.steepest[j]) - PULL * (x[at] - seen[j]);
                let of = |k: usize| if constant { 1.0 } else { self.basis.diffusion_at(k, j, &seen) };
                sigma[at] = (0..m).map(|k| self.amounts[(j, k)] * of(k)).sum::<f64>().sqrt();
            }
        }
    }
}
