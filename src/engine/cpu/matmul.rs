//! Matrix products: faer's, on blocks of the result that are fixed by the shape.

use super::tasks;
use crate::Scalar;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

/// A block of the result should be worth about this many flops, so that packing its inputs is negligible.
const BLOCK_FLOPS: usize = 1 << 26;
/// Products below this are left whole.
const SPLIT_FLOPS: usize = 1 << 22;
/// Blocks are cut at multiples of this, the largest micro-kernel's height.
const GRAIN: usize = 64;

/// `dst = lhs · rhs`, or `dst += lhs · rhs` with [`Accum::Add`], on one thread.
pub(super) fn product_sequential<T: Scalar>(
    dst: MatMut<'_, T>,
    accum: Accum,
    lhs: MatRef<'_, T>,
    rhs: MatRef<'_, T>,
) {
    matmul(dst, accum, lhs, rhs, T::ONE, Par::Seq);
}

/// `dst = lhs · rhs` on all threads: the same bits whatever their number, because each block of `dst` is one
/// sequential product.
pub(super) fn product<T: Scalar>(dst: MatMut<'_, T>, lhs: MatRef<'_, T>, rhs: MatRef<'_, T>) {
    let (m, n, k) = (dst.nrows(), dst.ncols(), lhs.ncols());
    let flops = 2 * m * n * k;
    if flops < SPLIT_FLOPS {
        return product_sequential(dst, Accum::Replace, lhs, rhs);
    }
    let wanted = (flops / BLOCK_FLOPS).clamp(4, 64);
    // Columns first: a row-major result keeps long rows together when the row blocks are few.
    let row_parts = (m / 256).clamp(1, wanted);
    let col_parts = (wanted / row_parts).clamp(1, n.div_ceil(GRAIN));
    let mut blocks = Vec::new();
    let mut below = dst;
    for (i, rows) in cuts(m, row_parts) {
        let (mut right, rest) = below.split_at_row_mut(rows);
        below = rest;
        for (j, cols) in cuts(n, col_parts) {
            let (block, rest) = right.split_at_col_mut(cols);
            right = rest;
            blocks.push((block, i, j));
        }
    }
    tasks::run(blocks, flops, |(block, i, j)| {
        let (rows, cols) = (block.nrows(), block.ncols());
        product_sequential(block, Accum::Replace, lhs.subrows(i, rows), rhs.subcols(j, cols));
    });
}

/// Offsets and lengths of about `parts` pieces of `length`, cut at multiples of [`GRAIN`].
fn cuts(length: usize, parts: usize) -> impl Iterator<Item = (usize, usize)> {
    let piece = length.div_ceil(parts).next_multiple_of(GRAIN);
    (0..length).step_by(piece).map(move |start| (start, piece.min(length - start)))
}
