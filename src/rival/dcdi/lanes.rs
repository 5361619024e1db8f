//! Groups of samples that a loop handles at once.

use crate::Scalar;

/// Samples in a group: one 512-bit vector of f32. A constant, so that sums are taken in the same order on every machine.
pub(super) const WIDTH: usize = 16;
/// Units of a layer that a loop handles at once: with them, `WIDTH` samples fill half of the vector registers.
pub(super) const UNITS: usize = 8;

/// One number for each sample of a group.
pub(super) type Lanes<T> = [T; WIDTH];

/// The sum of the lanes, pairwise.
#[inline(always)]
pub(super) fn total<T: Scalar>(lanes: &Lanes<T>) -> T {
    let mut half = [T::ZERO; WIDTH / 2];
    for l in 0..WIDTH / 2 {
        half[l] = lanes[l] + lanes[l + WIDTH / 2];
    }
    ((half[0] + half[4]) + (half[2] + half[6])) + ((half[1] + half[5]) + (half[3] + half[7]))
}

/// Adds `factor * values[l]` to each lane of `sum`.
#[inline(always)]
pub(super) fn add_scaled<T: Scalar>(sum: &mut Lanes<T>, factor: T, values: &Lanes<T>) {
    for l in 0..WIDTH {
        sum[l] += factor * values[l];
    }
}
