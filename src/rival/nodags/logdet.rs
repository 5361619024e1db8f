//! The log-determinant of I − J: its power series, estimated with a random probe, and its exact value.
//!
//! J_ji = ∂f_j/∂x_i, with zero rows for the variables that are intervened on. With a standard normal probe ε,
//!
//! ```text
//! log det(I − J) = −Σ_{k≥1} tr(Jᵏ)/k = −E Σ_{k≥1} εᵀJᵏε / k,     d log det(I − J) = −E Σ_{k≥0} εᵀJᵏ dJ ε
//! ```
//!
//! The second series is the one that training follows ("Neumann"), with the vectors εᵀJᵏ held fixed. The diagonal of J is 0, so
//! the traces of J and dJ are 0, and the terms with them are left out: they have expectation 0 and only add noise. (The
//! published code takes the term of k = 0 with the other sign, which has the same expectation.)
//!
//! Unbiased estimates take n terms with a random n and divide term k by the probability that n ≥ k. Here n = `exact_terms` + N with
//! a geometric N ≥ 1, one for the whole batch.

use super::settings::{LogDet, NodagsSettings};
use crate::numeric::Scalar;
use crate::numeric::dense::Lu;
use faer::Mat;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// The most terms of an unbiased estimate: a geometric number with the default settings exceeds it with probability 2⁻¹⁰⁰⁰.
const MOST_TERMS: usize = 1000;

/// The weights of the series' terms for one batch.
pub(super) enum Terms {
    /// Of k = 1, 2, ….
    Series(Vec<f64>),
    /// No series: the exact derivative.
    Exact,
}

impl Terms {
    /// The weights for the next batch.
    pub(super) fn draw(settings: &NodagsSettings, rng: &mut ChaCha8Rng) -> Terms {
        match settings.log_det {
            LogDet::Exact => Terms::Exact,
            LogDet::Bounded => Terms::Series(vec![1.0; settings.terms]),
            LogDet::Unbiased => {
                let go_on = 1.0 - settings.stop_probability;
                let mut weights = vec![1.0; settings.exact_terms];
                let mut weight = 1.0;
                loop {
                    weights.push(weight);
                    weight /= go_on;
                    if weights.len() >= MOST_TERMS || rng.random::<f64>() >= go_on {
                        return Terms::Series(weights);
                    }
                }
            }
        }
    }
}

/// Estimates of one row of data. `jacobian` is d × d, row j for f_j; `powers` holds 2 d numbers of scratch.
///
/// Adds Σ_{k≥1} c_k εᵀJᵏ to `slope`, which is 0 before, and returns −Σ_{k≥2} c_k εᵀJᵏε / k.
#[inline(always)]
pub(super) fn series<T: Scalar>(
    jacobian: &[T],
    probe: &[T],
    weights: &[T],
    powers: &mut [T],
    slope: &mut [T],
) -> T {
    let d = probe.len();
    let (now, next) = powers.split_at_mut(d);
    now.copy_from_slice(probe);
    let mut value = T::ZERO;
    for (k, &weight) in weights.iter().enumerate() {
        next.fill(T::ZERO);
        for (&v, row) in now.iter().zip(jacobian.chunks_exact(d)) {
            for (sum, &entry) in next.iter_mut().zip(row) {
                *sum += v * entry;
            }
        }
        now.copy_from_slice(next);
        let mut trace = T::ZERO;
        for ((sum, &v), &e) in slope.iter_mut().zip(now.iter()).zip(probe) {
            *sum += weight * v;
            trace += v * e;
        }
        if k > 0 {
            value += weight * trace / T::from_f64(-((k + 1) as f64));
        }
    }
    value
}

/// log |det(I − J)|, and (I − J)⁻¹.
pub(super) fn exact<T: Scalar>(jacobian: &[T], d: usize) -> (f64, Mat<f64>) {
    let lu = Lu::of(
        Mat::from_fn(d, d, |j, i| f64::from(u8::from(i == j)) - jacobian[j * d + i].to_f64()).as_ref(),
    );
    (lu.determinant().1, lu.inverse_on_one_thread())
}
