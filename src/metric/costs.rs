//! The squared distances between two sets of samples, laid out for vector code.

use crate::Matrix;
use rayon::prelude::*;

/// Numbers that a loop handles at once. A constant, so that sums have the same order on every machine.
pub(super) const LANES: usize = 8;

/// Rows per task: cut by shape alone, so that bits do not depend on the number of threads.
const BLOCK: usize = 16;
/// Below this many costs one thread is faster than waking another.
const PARALLEL: usize = 1 << 14;

/// C, where C[i, j] is what it costs to match sample i of one set with sample j of another.
pub(super) struct Costs {
    rows: usize,
    cols: usize,
    stride: usize,
    data: Vec<f64>,
}

impl Costs {
    /// |x − y|² for every row x of `a` and y of `b`, from differences: nothing cancels.
    pub(super) fn between(a: &Matrix<f64>, b: &Matrix<f64>) -> Self {
        let mut costs = Costs::new(a.rows(), b.rows());
        // One coordinate after the other, so that the inner loop runs over samples, of which there are more.
        let coordinates =
            Matrix::from_fn(b.cols(), costs.stride, |k, j| if j < b.rows() { b[(j, k)] } else { 0.0 });
        let (cols, stride) = (costs.cols, costs.stride);
        for_blocks(
            &mut costs.data,
            stride,
            #[inline(always)]
            |first, block| {
                for (i, row) in block.chunks_exact_mut(stride).enumerate() {
                    row.fill(0.0);
                    for (k, x) in a.row(first + i).iter().enumerate() {
                        for (cost, y) in row.iter_mut().zip(coordinates.row(k)) {
                            *cost += (x - y) * (x - y);
                        }
                    }
                    row[cols..].fill(f64::INFINITY);
                }
            },
        );
        costs
    }

    /// Costs still to be filled in, with the padding in place.
    fn new(rows: usize, cols: usize) -> Self {
        let stride = cols.next_multiple_of(LANES);
        Costs { rows, cols, stride, data: vec![f64::INFINITY; rows * stride] }
    }

    /// The costs `entry(i, j)`.
    #[cfg(test)]
    pub(super) fn from_fn(rows: usize, cols: usize, entry: impl Fn(usize, usize) -> f64) -> Self {
        let mut costs = Costs::new(rows, cols);
        for i in 0..rows {
            (0..cols).for_each(|j| costs.data[i * costs.stride + j] = entry(i, j));
        }
        costs
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub(super) fn cols(&self) -> usize {
        self.cols
    }

    /// The length of a row with its padding, whole groups of lanes.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// Row `i`. What pads it is infinite: it is never a minimum and its exponential is 0.
    #[inline(always)]
    pub(super) fn row(&self, i: usize) -> &[f64] {
        &self.data[i * self.stride..(i + 1) * self.stride]
    }

    /// The largest cost.
    pub(super) fn largest(&self) -> f64 {
        (0..self.rows)
            .flat_map(|i| &self.row(i)[..self.cols])
            .fold(0.0, |largest, &cost| f64::max(largest, cost))
    }

    /// `result[i] = f(row i)` for every row, on several threads if that is worth it, compiled for the widest
    /// instruction set this processor has.
    pub(super) fn map_rows(&self, result: &mut [f64], f: impl Fn(&[f64]) -> f64 + Sync) {
        let step = |(block, results): (usize, &mut [f64])| {
            vectorised(
                #[inline(always)]
                || {
                    for (i, result) in results.iter_mut().enumerate() {
                        *result = f(self.row(block * BLOCK + i));
                    }
                },
            );
        };
        if self.data.len() < PARALLEL {
            result.chunks_mut(BLOCK).enumerate().for_each(step);
        } else {
            result.par_chunks_mut(BLOCK).enumerate().for_each(step);
        }
    }
}

/// Runs `f(first row, rows)` over blocks of rows.
fn for_blocks(data: &mut [f64], stride: usize, f: impl Fn(usize, &mut [f64]) + Sync) {
    data.par_chunks_mut(BLOCK * stride).enumerate().for_each(|(block, rows)| {
        vectorised(
            #[inline(always)]
            || f(block * BLOCK, rows),
        );
    });
}

/// A padded slice as groups of lanes.
#[inline(always)]
pub(super) fn groups(slice: &[f64]) -> &[[f64; LANES]] {
    let (groups, rest) = slice.as_chunks();
    debug_assert!(rest.is_empty(), "slices are padded to whole groups");
    groups
}

/// One number of all lanes, pairwise.
#[inline(always)]
pub(super) fn fold(mut lanes: [f64; LANES], f: impl Fn(f64, f64) -> f64) -> f64 {
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        (0..width).for_each(|l| lanes[l] = f(lanes[l], lanes[l + width]));
    }
    lanes[0]
}

/// Runs `f` compiled for the widest instruction set this processor has.
#[inline(always)]
pub(super) fn vectorised<R>(f: impl FnMut() -> R) -> R {
    /// A closure that can be called again is called once through an adapter that the compiler need not inline, and
    /// what is not inlined is compiled for the least processor. Calling it as what it is avoids the adapter.
    struct Inlined<F>(F);

    impl<R, F: FnMut() -> R> pulp::NullaryFnOnce for Inlined<F> {
        type Output = R;

        #[inline(always)]
        fn call(mut self) -> R {
            (self.0)()
        }
    }

    pulp::Arch::new().dispatch(Inlined(f))
}
