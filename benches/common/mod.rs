//! What the machine can do: faer's product on every thread, a block of rows each.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use skds::Scalar;

/// `dst = lhs · rhs`.
pub fn product<T: Scalar>(dst: MatMut<'_, T>, lhs: MatRef<'_, T>, rhs: MatRef<'_, T>) {
    let threads = rayon::current_num_threads();
    let rows = dst.nrows().div_ceil(threads).next_multiple_of(16);
    rayon::scope(|scope| {
        let (mut rest, mut first) = (dst, 0);
        while rest.nrows() > 0 {
            let height = rows.min(rest.nrows());
            let (block, below) = rest.split_at_row_mut(height);
            rest = below;
            let part = lhs.subrows(first, height);
            scope.spawn(move |_| matmul(block, Accum::Replace, part, rhs, T::ONE, Par::Seq));
            first += height;
        }
    });
}
