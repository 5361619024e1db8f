//! The stationary law of the linear model: a Gaussian, known exactly.

use super::lyapunov;
use super::stability::{check_square, spectral_abscissa};
use crate::numeric::dense::{self, Lu};
use crate::numeric::matmul::product;
use crate::{Error, Matrix, Result};
use faer::Mat;
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

/// The largest relative residual of the Lyapunov equation that passes.
const RESIDUAL: f64 = 1e-8;
/// Rows that are drawn at a time.
const DRAW_ROWS: usize = 1024;

/// N(mean, covariance).
#[derive(Clone, Debug, PartialEq)]
pub struct Gaussian {
    /// d.
    pub mean: Vec<f64>,
    /// d × d, symmetric.
    pub covariance: Matrix<f64>,
}

impl Gaussian {
    /// The stationary law of dX = (W X + b) dt + σ dB with a = σσᵀ: W m + b = 0 and W Σ + Σ Wᵀ + a = 0.
    ///
    /// Costs O(d³). A W with an eigenvalue that is not left of the imaginary axis has no stationary law and is an
    /// error of the computation, not of the input.
    pub fn stationary(weights: &Matrix<f64>, bias: &[f64], a: &Matrix<f64>) -> Result<Gaussian> {
        check_square("weights", weights)?;
        check_square("diffusion's entries", a)?;
        let d = weights.rows();
        if a.rows() != d || bias.len() != d {
            return Err(Error::invalid(format!(
                "the bias has {} entries and the diffusion shape [{}, {}], expected {d} and [{d}, {d}] like the weights",
                bias.len(),
                a.rows(),
                a.cols()
            )));
        }
        let solved = lyapunov::solve(weights.view(), a.view()).filter(|(_, residual)| *residual <= RESIDUAL);
        let Some((sigma, _)) = solved else { return Err(no_law(weights)?) };
        let mean = stationary_mean(weights, bias);
        if mean.iter().any(|m| !m.is_finite()) {
            return Err(no_law(weights)?);
        }
        Ok(Gaussian { mean, covariance: Matrix::from_fn(d, d, |i, j| sigma[(i, j)]) })
    }

    /// `n` independent samples, one per row. The covariance may be singular, but not indefinite.
    pub fn draw(&self, n: usize, rng: &mut impl Rng) -> Result<Matrix<f64>> {
        let d = self.mean.len();
        let mut samples = super::room(n, d)?;
        let root = dense::square_root(self.covariance.view())?;
        let mut normal = Matrix::full(DRAW_ROWS.min(n), d, 0.0);
        for first in (0..n).step_by(DRAW_ROWS) {
            let rows = DRAW_ROWS.min(n - first);
            for value in &mut normal.as_mut_slice()[..rows * d] {
                *value = StandardNormal.sample(rng);
            }
            let block = samples.view_mut().subrows_mut(first, rows);
            product(block, normal.view().subrows(0, rows), root.transpose());
        }
        for row in samples.as_mut_slice().chunks_exact_mut(d) {
            row.iter_mut().zip(&self.mean).for_each(|(value, mean)| *value += mean);
        }
        Ok(samples)
    }
}

/// The mean alone, −W⁻¹ b, with one step of refinement. Not finite if W is singular.
pub(crate) fn stationary_mean(weights: &Matrix<f64>, bias: &[f64]) -> Vec<f64> {
    let d = bias.len();
    let lu = Lu::of(weights.view());
    let mut mean = Mat::from_fn(d, 1, |i, _| -bias[i]);
    lu.solve_in_place(mean.as_mut());
    let mut rest = Mat::from_fn(d, 1, |i, _| {
        -bias[i] - weights.row(i).iter().enumerate().map(|(j, w)| w * mean[(j, 0)]).sum::<f64>()
    });
    lu.solve_in_place(rest.as_mut());
    (0..d).map(|i| mean[(i, 0)] + rest[(i, 0)]).collect()
}

/// Why there is no stationary law, or none that can be computed.
fn no_law(weights: &Matrix<f64>) -> Result<Error> {
    let abscissa = spectral_abscissa(weights)?;
    Ok(Error::NonFinite(if abscissa >= 0.0 {
        format!(
            "the linear model is not stable and has no stationary law: the spectral abscissa of its weights (the \
             largest real part of an eigenvalue) is {abscissa:.6}, expected it below 0"
        )
    } else {
        format!(
            "the linear model is so near to unstable that its stationary law cannot be computed to {RESIDUAL:e}: the \
             spectral abscissa of its weights (the largest real part of an eigenvalue) is {abscissa:e}"
        )
    }))
}
