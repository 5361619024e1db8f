//! Least squares without a penalty, also of systems with more unknowns than equations.

use crate::{Error, Result};
use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::svd::{ComputeSvdVectors, svd, svd_scratch};
use faer::{Mat, MatRef, Par, Spec};

/// The x of least norm among those that minimise ‖A x − y‖.
///
/// Singular values below eps · max(rows, columns) of the largest count as 0, as in numpy's `lstsq`.
pub(super) fn solution(matrix: MatRef<'_, f64>, right: &[f64]) -> Result<Vec<f64>> {
    let (rows, cols) = (matrix.nrows(), matrix.ncols());
    let size = rows.min(cols);
    let mut solution = vec![0.0; cols];
    if size == 0 {
        return Ok(solution);
    }
    let (mut left, mut values, mut basis) =
        (Mat::zeros(rows, size), Diag::zeros(size), Mat::zeros(cols, size));
    let thin = ComputeSvdVectors::Thin;
    // One thread: the bits would otherwise depend on the number of threads.
    let scratch = svd_scratch::<f64>(rows, cols, thin, thin, Par::Seq, Spec::default());
    let mut memory = MemBuffer::new(scratch);
    let (u, v) = (Some(left.as_mut()), Some(basis.as_mut()));
    svd(matrix, values.as_mut(), u, v, Par::Seq, MemStack::new(&mut memory), Spec::default())
        .map_err(|_| Error::NonFinite("the singular values of the total effects did not converge".into()))?;
    let values: Vec<f64> = values.column_vector().iter().copied().collect();
    let least = f64::EPSILON * rows.max(cols) as f64 * values.iter().fold(0.0, |a: f64, &b| a.max(b));
    for k in (0..size).filter(|&k| values[k] > least) {
        let share = (0..rows).map(|i| left[(i, k)] * right[i]).sum::<f64>() / values[k];
        solution.iter_mut().enumerate().for_each(|(j, x)| *x += share * basis[(j, k)]);
    }
    Ok(solution)
}
