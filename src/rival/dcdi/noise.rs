//! Random edges: for every sample, each possible parent of a variable is present or not.
//!
//! An edge with logit α is present if α + L > 0, where L = ln(u / (1 − u)) is logistic and u uniform. With p = σ(α) and
//! q = 1 − p, the relaxed edge is
//!
//! ```text
//! y = σ(α + L) = p u / (p u + q (1 − u))
//! ```
//!
//! so no logarithm is needed, and the edge is present if p u > q (1 − u). The network sees the edge, 0 or 1; the gradient
//! by α is taken through y, whose derivative is y (1 − y) (the straight-through estimator).

use super::lanes::{Lanes, WIDTH};
use crate::Scalar;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

/// One xoshiro128++ generator for each lane, with states that ChaCha8 draws.
#[derive(Clone, Debug)]
pub(super) struct Noise {
    state: [[u32; WIDTH]; 4],
}

/// How a network sees an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edges {
    /// As 0 or 1.
    Sampled,
    /// As y, of which the gradient is exact: for tests.
    #[cfg(test)]
    Relaxed,
}

impl Noise {
    /// Generators with states drawn from `rng`.
    pub(super) fn new(rng: &mut ChaCha8Rng) -> Self {
        let mut state = [[0; WIDTH]; 4];
        state.as_flattened_mut().iter_mut().for_each(|word| *word = rng.next_u32());
        // A generator whose state is 0 stays there.
        state[0].iter_mut().for_each(|word| *word |= 1);
        Noise { state }
    }

    /// Uniform numbers between 0 and 1, without both: odd multiples of 2⁻²⁴, so that 1 − u is exact in f32.
    #[inline(always)]
    pub(super) fn uniform(&mut self) -> Lanes<f32> {
        let [s0, s1, s2, s3] = &mut self.state;
        let mut numbers = [0.0; WIDTH];
        for l in 0..WIDTH {
            let bits = s0[l].wrapping_add(s3[l]).rotate_left(7).wrapping_add(s0[l]);
            let shifted = s1[l] << 9;
            s2[l] ^= s0[l];
            s3[l] ^= s1[l];
            s1[l] ^= s2[l];
            s0[l] ^= s3[l];
            s2[l] ^= shifted;
            s3[l] = s3[l].rotate_left(11);
            // Through i32, which every instruction set converts.
            numbers[l] = ((bits >> 9).cast_signed() as f32 + 0.5) * (1.0 / 8_388_608.0);
        }
        numbers
    }

    /// Uniform numbers for whole groups.
    #[inline(always)]
    pub(super) fn fill(&mut self, numbers: &mut [Lanes<f32>]) {
        numbers.iter_mut().for_each(|lanes| *lanes = self.uniform());
    }
}

/// Decides on the edge from a variable with values `x` for every sample, with the probabilities that it is present and absent.
///
/// `seen` gets edge · x, what the network sees, and `slopes` the derivative of y · x by α.
#[inline(always)]
pub(super) fn draw<T: Scalar>(
    uniform: &[Lanes<f32>],
    (present, absent): (T, T),
    kind: Edges,
    x: &[Lanes<T>],
    seen: &mut [Lanes<T>],
    slopes: &mut [Lanes<T>],
) {
    // Flat slices of a length that the compiler does not know: it turns loops over these into vector code.
    let (uniform, x) = (uniform.as_flattened(), x.as_flattened());
    let (seen, slopes) = (seen.as_flattened_mut(), slopes.as_flattened_mut());
    for (((&u, &value), seen), slope) in uniform.iter().zip(x).zip(seen).zip(slopes) {
        let u = T::from_f64(f64::from(u));
        let (a, b) = (present * u, absent * (T::ONE - u));
        let inverse = T::ONE / (a + b);
        let relaxed = a * inverse;
        *slope = relaxed * (b * inverse) * value;
        *seen = match kind {
            Edges::Sampled => kept(a > b, value),
            #[cfg(test)]
            Edges::Relaxed => relaxed * value,
        };
    }
}

/// Decides on the edge like [`draw`], without derivatives.
#[inline(always)]
pub(super) fn draw_values<T: Scalar>(
    uniform: &[Lanes<f32>],
    (present, absent): (T, T),
    x: &[Lanes<T>],
    seen: &mut [Lanes<T>],
) {
    let (uniform, x) = (uniform.as_flattened(), x.as_flattened());
    for ((&u, &value), seen) in uniform.iter().zip(x).zip(seen.as_flattened_mut()) {
        let u = T::from_f64(f64::from(u));
        *seen = kept(present * u > absent * (T::ONE - u), value);
    }
}

/// The value or 0.
#[inline(always)]
fn kept<T: Scalar>(keep: bool, value: T) -> T {
    if keep { value } else { T::ZERO }
}
