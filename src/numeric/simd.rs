//! Loops that become vector code: fixed groups of lanes, compiled for every instruction set and chosen at run time.

use super::Scalar;

/// Numbers that a loop handles at once: one 256-bit vector of f32, one 512-bit vector of f64.
/// A constant, so that sums are taken in the same order on every machine.
pub(crate) const LANES: usize = 8;

/// One group of numbers.
pub(crate) type Group<T> = [T; LANES];

/// `n` rounded up to whole groups.
pub(crate) fn padded(n: usize) -> usize {
    n.next_multiple_of(LANES)
}

/// Runs `f` compiled for the widest instruction set this processor has.
#[inline(always)]
pub(crate) fn dispatch<R>(f: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(f)
}

/// A padded slice as groups.
#[inline(always)]
pub(crate) fn groups<T>(slice: &[T]) -> &[Group<T>] {
    let (groups, rest) = slice.as_chunks::<LANES>();
    debug_assert!(rest.is_empty(), "slices are padded to whole groups");
    groups
}

/// A padded slice as groups, writable.
#[inline(always)]
pub(crate) fn groups_mut<T>(slice: &mut [T]) -> &mut [Group<T>] {
    slice.as_chunks_mut::<LANES>().0
}

/// Adds `a[l] * b[l]` to each lane of `sum`.
#[inline(always)]
pub(crate) fn add_product<T: Scalar>(sum: &mut Group<T>, a: &Group<T>, b: &Group<T>) {
    for l in 0..LANES {
        sum[l] += a[l] * b[l];
    }
}

/// The sum of the lanes, pairwise.
#[inline(always)]
pub(crate) fn total<T: Scalar>(g: Group<T>) -> T {
    ((g[0] + g[4]) + (g[2] + g[6])) + ((g[1] + g[5]) + (g[3] + g[7]))
}

/// ⟨a, b⟩ of two padded slices.
#[inline(always)]
pub(crate) fn dot<T: Scalar>(a: &[T], b: &[T]) -> T {
    let mut sum = [T::ZERO; LANES];
    for (a, b) in groups(a).iter().zip(groups(b)) {
        add_product(&mut sum, a, b);
    }
    total(sum)
}

/// Σ |v|.
pub(crate) fn sum_of_sizes(values: &[f32]) -> f32 {
    dispatch(
        #[inline(always)]
        || {
            let (groups, rest) = values.as_chunks::<LANES>();
            let mut sums = [0.0; LANES];
            for group in groups {
                for l in 0..LANES {
                    sums[l] += group[l].abs();
                }
            }
            rest.iter().fold(total(sums), |sum, v| sum + v.abs())
        },
    )
}
