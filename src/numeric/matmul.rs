//! Matrix products: faer's, on blocks of the result that are fixed by the shape.
//!
//! Measured with faer 0.24 on AVX-512: blocks of about 512 × 192 run fastest.

use super::Scalar;
use super::tasks;
use faer::linalg::matmul::matmul;
use faer::prelude::ReborrowMut;
use faer::{Accum, MatMut, MatRef, Par};

/// Products below this many flops are left whole.
pub(crate) const SPLIT_FLOPS: usize = 1 << 21;
/// The width of a block.
const BLOCK_COLS: usize = 192;
/// The largest height of a block.
const BLOCK_ROWS: usize = 512;
/// So many blocks keep threads busy to the end, and this is the least height they are cut to for it.
const BLOCKS: (usize, usize) = (8, 128);
/// Fewer blocks than this leave threads idle: for these, blocks may be lower.
const FEWEST_BLOCKS: (usize, usize) = (4, 32);
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
pub(crate) fn product_then<T: Scalar>(
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
        if part == parts { length } else { length.min((part * length / parts + GRAIN / 2) / GRAIN * GRAIN) }
    };
    (0..parts).map(move |part| (cut(part), cut(part + 1) - cut(part))).filter(|(_, piece)| *piece > 0)
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
