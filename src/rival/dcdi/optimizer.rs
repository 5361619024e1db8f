//! RMSprop: every parameter's step is its gradient over the root of a running mean of the gradient's square.

use crate::Scalar;

/// The share of the running mean that a step keeps.
const MEMORY: f64 = 0.99;
/// Added to the root.
const OFFSET: f64 = 1e-8;

/// Takes a step down and clears the gradient.
#[inline(always)]
pub(super) fn descend<T: Scalar>(rate: f64, parameters: &mut [T], gradient: &mut [T], squares: &mut [T]) {
    let (rate, offset) = (T::from_f64(rate), T::from_f64(OFFSET));
    let (memory, rest) = (T::from_f64(MEMORY), T::from_f64(1.0 - MEMORY));
    for ((parameter, gradient), square) in parameters.iter_mut().zip(gradient).zip(squares) {
        *square = memory * *square + rest * (*gradient * *gradient);
        *parameter -= rate * *gradient / (Scalar::sqrt(*square) + offset);
        *gradient = T::ZERO;
    }
}
