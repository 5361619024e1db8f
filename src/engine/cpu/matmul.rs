//! Matrix products: faer's, on blocks of the result that are fixed by the shape.
//!
//! Measured with faer 0.24 on AVX-512: blocks of about 512 × 192 run fastest; a left side whose rows lie
//! contiguous along the summed index (as in `b = x Wᵀ`) runs a fifth faster than one that has to be read across,
//! which is why [`outer_product`] transposes first.

use super::reduce::{column_sums, long_sum};
use super::rows::{Rows, SampleRows, strided};
use super::simd::{LANES, dispatch};
use super::tasks::{self, Cutter};
use crate::Scalar;
use faer::linalg::matmul::matmul;
use faer::prelude::ReborrowMut;
use faer::{Accum, MatMut, MatRef, Par};

/// Products below this many flops are left whole.
const SPLIT_FLOPS: usize = 1 << 21;
/// The width of a block.
const BLOCK_COLS: usize = 192;
/// The largest height of a block.
const BLOCK_ROWS: usize = 512;
/// So many blocks keep threads busy to the end, and this is the least height they are cut to for it.
const BLOCKS: (usize, usize) = (8, 128);
/// Fewer blocks than this leave threads idle: for these, blocks may be lower.
const FEWEST_BLOCKS: (usize, usize) = (4, 32);
/// Columns that a task transposes: of f32, a whole cache line of every row it touches.
const BAND: usize = 2 * LANES;
/// Blocks are cut at multiples of this.
const GRAIN: usize = 16;

/// `dst = lhs · rhs`, or `dst += lhs · rhs` with [`Accum::Add`], on one thread.
pub(crate) fn product_sequential<T: Scalar>(
    dst: MatMut<'_, T>,
    accum: Accum,
    lhs: MatRef<'_, T>,
    rhs: MatRef<'_, T>,
) {
    matmul(dst, accum, lhs, rhs, T::ONE, Par::Seq);
}

/// `dst = lhs · rhs` on all threads: the same bits whatever their number, because each block of `dst` is one
/// sequential product.
pub(crate) fn product<T: Scalar>(dst: MatMut<'_, T>, lhs: MatRef<'_, T>, rhs: MatRef<'_, T>) {
    product_then(dst, lhs, rhs, |_, _, _| {});
}

/// Like [`product`]; `finish` gets each block, with its first row and column, while it is still in the cache.
pub(super) fn product_then<T: Scalar>(
    dst: MatMut<'_, T>,
    lhs: MatRef<'_, T>,
    rhs: MatRef<'_, T>,
    finish: impl Fn(MatMut<'_, T>, usize, usize) + Sync + Send,
) {
    let (m, n, k) = (dst.nrows(), dst.ncols(), lhs.ncols());
    let flops = 2 * m * n * k;
    let one = |mut block: MatMut<'_, T>, i: usize, j: usize| {
        let (rows, cols) = (block.nrows(), block.ncols());
        product_sequential(block.rb_mut(), Accum::Replace, lhs.subrows(i, rows), rhs.subcols(j, cols));
        finish(block, i, j);
    };
    if flops < SPLIT_FLOPS {
        return one(dst, 0, 0);
    }
    let columns = col_cuts(n);
    let mut row_parts = m.div_ceil(BLOCK_ROWS);
    for (blocks, least) in [BLOCKS, FEWEST_BLOCKS] {
        while row_parts * columns.len() < blocks && m / row_parts > least {
            row_parts *= 2;
        }
    }
    let mut blocks = Vec::with_capacity(row_parts * columns.len());
    let mut below = dst;
    for (i, rows) in cuts(m, row_parts) {
        let (mut right, rest) = below.split_at_row_mut(rows);
        below = rest;
        for &(j, cols) in &columns {
            let (block, rest) = right.split_at_col_mut(cols);
            right = rest;
            blocks.push((block, i, j));
        }
    }
    tasks::run(blocks, flops, |(block, i, j)| one(block, i, j));
}

/// `dst = leftᵀ · right` where both have one row per sample; `space` is kept between calls.
///
/// Returns the sums of each column of `left` over each environment, E × p: they come for free with the transpose.
pub(super) fn outer_product<T: Scalar>(
    dst: MatMut<'_, T>,
    left: SampleRows<'_, T>,
    right: MatRef<'_, T>,
    offsets: &[usize],
    space: &mut Vec<T>,
) -> Vec<f64> {
    let SampleRows { data, n, p, stride } = left;
    if 2 * n * p * right.ncols() < SPLIT_FLOPS {
        product_sequential(dst, Accum::Replace, strided(data, n, p, stride).transpose(), right);
        return column_sums(left, offsets);
    }
    space.resize(n * p, T::ZERO);
    let sums = transpose(left, offsets, space);
    product(dst, MatRef::from_row_major_slice(space, p, n), right);
    sums
}

/// Writes the p × n transpose and returns the sums of each column over each environment, E × p.
fn transpose<T: Scalar>(source: SampleRows<'_, T>, offsets: &[usize], transposed: &mut [T]) -> Vec<f64> {
    let SampleRows { data, n, p, stride } = source;
    let environments = offsets.len() - 1;
    let mut sums = vec![0.0; p * environments];
    let (mut cut, mut sums_cut) = (Cutter::new(transposed), Cutter::new(&mut sums));
    let bands = (0..p)
        .step_by(BAND)
        .map(|j| {
            let width = BAND.min(p - j);
            (j, cut.take(width * n), sums_cut.take(width * environments))
        })
        .collect();
    tasks::run(bands, n * p * 4, |(col, band, sums): (usize, &mut [T], &mut [f64])| {
        dispatch(
            #[inline(always)]
            || {
                let whole = if band.len() == BAND * n { n / LANES * LANES } else { 0 };
                for row in (0..whole).step_by(LANES) {
                    for first in (0..BAND).step_by(LANES) {
                        for (j, out) in band.chunks_exact_mut(n).enumerate().skip(first).take(LANES) {
                            let mut turned = [T::ZERO; LANES];
                            for (i, value) in turned.iter_mut().enumerate() {
                                *value = data[(row + i) * stride + col + j];
                            }
                            out[row..row + LANES].copy_from_slice(&turned);
                        }
                    }
                }
                for row in whole..n {
                    for (j, out) in band.chunks_exact_mut(n).enumerate() {
                        out[row] = data[row * stride + col + j];
                    }
                }
                for (line, sums) in band.chunks_exact(n).zip(sums.chunks_exact_mut(environments)) {
                    for (sum, bounds) in sums.iter_mut().zip(offsets.windows(2)) {
                        *sum = long_sum(&line[bounds[0]..bounds[1]]);
                    }
                }
            },
        );
    });
    // From p × E to E × p.
    (0..environments * p).map(|at| sums[at % p * environments + at / p]).collect()
}

/// Blocks of exactly [`BLOCK_COLS`], which is whole micro-kernels, and a last smaller one; where that would leave
/// too few, nearly equal ones.
fn col_cuts(n: usize) -> Vec<(usize, usize)> {
    if n < 4 * BLOCK_COLS {
        return cuts(n, n.div_ceil(BLOCK_COLS)).collect();
    }
    (0..n).step_by(BLOCK_COLS).map(|start| (start, BLOCK_COLS.min(n - start))).collect()
}

/// Offsets and lengths of `parts` nearly equal pieces of `length`, cut at multiples of [`GRAIN`].
fn cuts(length: usize, parts: usize) -> impl Iterator<Item = (usize, usize)> {
    let cut = move |part: usize| {
        if part == parts { length } else { (part * length / parts + GRAIN / 2) / GRAIN * GRAIN }
    };
    (0..parts).map(move |part| (cut(part), cut(part + 1) - cut(part))).filter(|(_, piece)| *piece > 0)
}

/// bar += leftᵀ right over `rows`.
pub(super) fn add_outer_product<T: Scalar>(
    bar: MatMut<'_, T>,
    left: &Rows<T>,
    right: &Rows<T>,
    rows: std::ops::Range<usize>,
) {
    product_sequential(bar, Accum::Add, left.view(rows.clone()).transpose(), right.view(rows));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matrix;

    /// Numbers whose products and sums are exact, so that any order of summation gives the same bits.
    fn small(rows: usize, cols: usize) -> Matrix<f64> {
        Matrix::from_fn(rows, cols, |i, j| ((i * 7 + j * 3) % 11) as f64 - 5.0)
    }

    fn naive(lhs: &Matrix<f64>, rhs: &Matrix<f64>) -> Matrix<f64> {
        Matrix::from_fn(lhs.rows(), rhs.cols(), |i, j| {
            (0..lhs.cols()).map(|k| lhs[(i, k)] * rhs[(k, j)]).sum()
        })
    }

    #[test]
    fn blocks_cover_the_product_whatever_its_shape() {
        for (m, k, n) in
            [(1, 1, 1), (3, 200, 5), (513, 37, 385), (130, 300, 191), (1030, 8, 400), (40, 4000, 33)]
        {
            let (lhs, rhs) = (small(m, k), small(k, n));
            let mut dst = Matrix::full(m, n, f64::NAN);
            product(dst.view_mut(), lhs.view(), rhs.view());
            assert!(dst == naive(&lhs, &rhs), "{m} {k} {n}");
        }
    }

    #[test]
    fn outer_products_equal_the_plain_ones() {
        for (n, p, q) in [(2, 1, 1), (100, 20, 20), (513, 131, 97), (77, 260, 260)] {
            let (left, right) = (small(n, p), small(n, q));
            let mut dst = Matrix::full(p, q, f64::NAN);
            let rows = SampleRows { data: left.as_slice(), n, p, stride: p };
            let offsets = [0, n / 3, n];
            let sums = outer_product(dst.view_mut(), rows, right.view(), &offsets, &mut Vec::new());
            for (at, sum) in sums.iter().enumerate() {
                let (e, j) = (at / p, at % p);
                let expected: f64 = (offsets[e]..offsets[e + 1]).map(|i| left[(i, j)]).sum();
                assert_eq!(*sum, expected, "{n} {p} {q}: column {j} of environment {e}");
            }
            let turned = Matrix::from_fn(p, n, |i, j| left[(j, i)]);
            assert!(dst == naive(&turned, &right), "{n} {p} {q}");
        }
    }

    #[test]
    fn cuts_are_gapless() {
        for length in [1, 15, 16, 17, 200, 1000, 2000] {
            for parts in [1, 2, 5, 12] {
                let pieces: Vec<_> = cuts(length, parts).collect();
                assert_eq!(pieces[0].0, 0);
                assert_eq!(pieces.iter().map(|p| p.1).sum::<usize>(), length);
                assert!(pieces.windows(2).all(|w| w[0].0 + w[0].1 == w[1].0));
            }
        }
    }
}
