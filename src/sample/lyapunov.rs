//! The Lyapunov equation W Σ + Σ Wᵀ + a = 0 by the matrix sign function.
//!
//! Whenever X Σ + Σ Xᵀ + Q = 0, multiplying by X⁻¹ from the left and X⁻ᵀ from the right gives an equation of the
//! same form and with the same Σ for X⁻¹ and X⁻¹ Q X⁻ᵀ, and so does every combination of the two. Newton's
//! iteration X ← ½(cX + (cX)⁻¹) leads from a stable W to −I, and there the equation reads Σ = ½ Q. It is made of
//! products and inverses only, which run at the machine's rate, and needs no eigenvectors, so a W far from
//! normal is no trouble.

use crate::numeric::dense::Lu;
use crate::numeric::matmul::product;
use faer::{Mat, MatRef, unzip, zip};

/// Once X moves less than this (relative), scaling it would only disturb the quadratic convergence.
const NEAR: f64 = 1e-2;
/// Once X moves less than this (relative), the next step is exact to rounding.
const DONE: f64 = 1e-8;
/// Scaled iterations need about ten; far more means that they do not converge.
const MOST: usize = 100;
/// A residual above this (relative) is worth another solve.
const REFINE: f64 = 1e-12;

/// Σ and its residual ‖W Σ + Σ Wᵀ + a‖ / (2 ‖W‖ ‖Σ‖ + ‖a‖), or nothing if W is not stable. `a` is symmetric.
pub(super) fn solve(w: MatRef<'_, f64>, a: MatRef<'_, f64>) -> Option<(Mat<f64>, f64)> {
    let mut sigma = solve_once(w, a)?;
    let (mut rest, mut relative) = residual(w, a, &sigma);
    for _ in 0..2 {
        if relative <= REFINE {
            break;
        }
        let mut better = solve_once(w, rest.as_ref())?;
        better += &sigma;
        let (better_rest, better_relative) = residual(w, a, &better);
        // A NaN is never better.
        if better_relative < relative {
            (sigma, rest, relative) = (better, better_rest, better_relative);
        } else {
            break;
        }
    }
    Some((sigma, relative))
}

fn solve_once(w: MatRef<'_, f64>, a: MatRef<'_, f64>) -> Option<Mat<f64>> {
    let d = w.nrows();
    let (mut x, mut q) = (w.to_owned(), a.to_owned());
    let mut half = Mat::zeros(d, d);
    let mut turned = Mat::zeros(d, d);
    let mut moved = f64::INFINITY;
    for _ in 0..MOST {
        let inverse = Lu::of(x.as_ref()).inverse();
        let (size, inverse_size) = (x.norm_l2(), inverse.norm_l2());
        let c = if moved > NEAR { (inverse_size / size).sqrt() } else { 1.0 };
        if !(c.is_finite() && c > 0.0) {
            return None;
        }
        product(half.as_mut(), inverse.as_ref(), q.as_ref());
        product(turned.as_mut(), half.as_ref(), inverse.transpose());
        let mix = |old: f64, new: f64| 0.5 * (c * old + new / c);
        zip!(&mut q, &turned).for_each(|unzip!(q, turned)| *q = mix(*q, *turned));
        let mut step = 0.0;
        zip!(&mut x, &inverse).for_each(|unzip!(x, inverse)| {
            let new = mix(*x, *inverse);
            step += (new - *x) * (new - *x);
            *x = new;
        });
        let before = moved;
        moved = step.sqrt() / x.norm_l2();
        if !moved.is_finite() {
            return None;
        }
        // Converged, or as close as rounding allows: the residual decides.
        if moved <= DONE || (before <= NEAR && moved > 0.5 * before) {
            break;
        }
    }
    // The trace of a sign function counts eigenvalues: those right of the imaginary axis minus those left of it.
    let trace: f64 = (0..d).map(|i| x[(i, i)]).sum();
    if moved > NEAR || (trace + d as f64).abs() > 0.5 {
        return None;
    }
    Some(Mat::from_fn(d, d, |i, j| 0.25 * (q[(i, j)] + q[(j, i)])))
}

/// W Σ + Σ Wᵀ + a and its relative size.
fn residual(w: MatRef<'_, f64>, a: MatRef<'_, f64>, sigma: &Mat<f64>) -> (Mat<f64>, f64) {
    let d = w.nrows();
    let mut half = Mat::zeros(d, d);
    product(half.as_mut(), w, sigma.as_ref());
    let rest = Mat::from_fn(d, d, |i, j| half[(i, j)] + half[(j, i)] + a[(i, j)]);
    let size = 2.0 * w.norm_l2() * sigma.norm_l2() + a.norm_l2();
    let relative = if size > 0.0 { rest.norm_l2() / size } else { 0.0 };
    (rest, relative)
}
