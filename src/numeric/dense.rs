//! faer's factorizations, each on one thread: their bits would otherwise depend on the number of threads.

use super::Matrix;
use crate::{Error, Result};
use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::linalg::cholesky::llt::{factor as llt, solve as cholesky_solve};
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::lu::partial_pivoting::{factor, solve};
use faer::perm::PermRef;
use faer::{Conj, Mat, MatMut, MatRef, Par, Spec};
use rayon::prelude::*;

/// Columns that are solved for at a time: fixed, so that threads share the work without changing it.
const SOLVE_COLS: usize = 128;
/// Eigenvalues of a covariance may lie this far below 0, relative to the largest, because of rounding.
const NEGATIVE: f64 = 1e-8;

/// P A = L U.
pub(crate) struct Lu {
    factors: Mat<f64>,
    order: Vec<usize>,
    order_back: Vec<usize>,
}

impl Lu {
    pub(crate) fn of(matrix: MatRef<'_, f64>) -> Lu {
        let d = matrix.nrows();
        let mut lu = Lu { factors: matrix.to_owned(), order: vec![0; d], order_back: vec![0; d] };
        let scratch = factor::lu_in_place_scratch::<usize, f64>(d, d, Par::Seq, Spec::default());
        let (order, order_back) = (&mut lu.order, &mut lu.order_back);
        with_stack(scratch, |stack| {
            factor::lu_in_place(lu.factors.as_mut(), order, order_back, Par::Seq, stack, Spec::default());
        });
        lu
    }

    /// Replaces each column of `right` by A⁻¹ times it. The result is not finite if A is singular.
    pub(crate) fn solve_in_place(&self, right: MatMut<'_, f64>) {
        let (mut blocks, mut rest) = (Vec::new(), right);
        while rest.ncols() > 0 {
            let width = SOLVE_COLS.min(rest.ncols());
            let (block, others) = rest.split_at_col_mut(width);
            blocks.push(block);
            rest = others;
        }
        blocks.into_par_iter().for_each(|block| self.solve_on_one_thread(block));
    }

    /// The sign of the determinant, and the logarithm of its size.
    pub(crate) fn determinant(&self) -> (f64, f64) {
        let (mut sign, mut log) = (1.0, 0.0);
        for j in 0..self.order.len() {
            sign *= self.factors[(j, j)].signum();
            log += self.factors[(j, j)].abs().ln();
        }
        // Every cycle of even length turns the sign.
        let mut seen = vec![false; self.order.len()];
        for first in 0..self.order.len() {
            let (mut at, mut length) = (first, 0);
            while !seen[at] {
                (seen[at], at, length) = (true, self.order[at], length + 1);
            }
            if length > 0 && length % 2 == 0 {
                sign = -sign;
            }
        }
        (sign, log)
    }

    /// The inverse, computed on the calling thread.
    pub(crate) fn inverse_on_one_thread(&self) -> Mat<f64> {
        let d = self.factors.nrows();
        let mut inverse = Mat::identity(d, d);
        self.solve_on_one_thread(inverse.as_mut());
        inverse
    }

    /// Like [`solve_in_place`](Self::solve_in_place), on the calling thread.
    pub(crate) fn solve_on_one_thread(&self, right: MatMut<'_, f64>) {
        let d = self.factors.nrows();
        let scratch = solve::solve_in_place_scratch::<usize, f64>(d, right.ncols(), Par::Seq);
        let order = PermRef::new_checked(&self.order, &self.order_back, d);
        let factors = self.factors.as_ref();
        with_stack(scratch, |stack| {
            solve::solve_in_place_with_conj(factors, factors, order, Conj::No, right, Par::Seq, stack);
        });
    }

    pub(crate) fn inverse(&self) -> Mat<f64> {
        let d = self.factors.nrows();
        let mut inverse = Mat::identity(d, d);
        self.solve_in_place(inverse.as_mut());
        inverse
    }
}

/// The real parts of the eigenvalues, in no particular order.
pub(crate) fn real_parts(matrix: MatRef<'_, f64>) -> Result<Vec<f64>> {
    let d = matrix.nrows();
    let (mut real, mut imaginary) = (Diag::<f64>::zeros(d), Diag::<f64>::zeros(d));
    let no = ComputeEigenvectors::No;
    let scratch = evd::evd_scratch::<f64>(d, no, no, Par::Seq, Spec::default());
    with_stack(scratch, |stack| {
        let (real, imaginary) = (real.as_mut(), imaginary.as_mut());
        evd::evd_real(matrix, real, imaginary, None, None, Par::Seq, stack, Spec::default())
    })
    .map_err(|_| Error::NonFinite("the eigenvalues of the weights did not converge".into()))?;
    Ok(real.column_vector().iter().copied().collect())
}

/// A matrix R with R Rᵀ = `covariance`: Cholesky's, or the one of eigenvalues if the covariance is singular.
pub(crate) fn square_root(covariance: MatRef<'_, f64>) -> Result<Mat<f64>> {
    let d = covariance.nrows();
    if let Some(Cholesky(mut root)) = Cholesky::of(covariance) {
        for j in 1..d {
            (0..j).for_each(|i| root[(i, j)] = 0.0);
        }
        return Ok(root);
    }
    let mut root = Mat::zeros(d, d);
    let values = symmetric(covariance, Some(root.as_mut()))?;
    let (least, largest) = values.iter().fold((0.0f64, 0.0f64), |(low, high), &v| (low.min(v), high.max(v)));
    if least < -NEGATIVE * largest || !largest.is_finite() {
        return Err(Error::NonFinite(format!(
            "the covariance has the eigenvalue {least:e}, expected none below 0"
        )));
    }
    for j in 0..d {
        let scale = values[j].max(0.0).sqrt();
        root.col_mut(j).iter_mut().for_each(|entry| *entry *= scale);
    }
    Ok(root)
}

fn with_stack<R>(size: StackReq, f: impl FnOnce(&mut MemStack) -> R) -> R {
    f(MemStack::new(&mut MemBuffer::new(size)))
}

/// A = L Lᵀ of a positive definite matrix.
pub(crate) struct Cholesky(Mat<f64>);

impl Cholesky {
    /// None if the matrix is not positive definite.
    pub(crate) fn of(matrix: MatRef<'_, f64>) -> Option<Cholesky> {
        let d = matrix.nrows();
        let mut factor = matrix.to_owned();
        let scratch = llt::cholesky_in_place_scratch::<f64>(d, Par::Seq, Spec::default());
        let positive = with_stack(scratch, |stack| {
            llt::cholesky_in_place(factor.as_mut(), Default::default(), Par::Seq, stack, Spec::default())
        });
        positive.is_ok().then_some(Cholesky(factor))
    }

    /// Replaces each column of `right` by A⁻¹ times it.
    pub(crate) fn solve_in_place(&self, right: MatMut<'_, f64>) {
        let scratch = cholesky_solve::solve_in_place_scratch::<f64>(self.0.nrows(), right.ncols(), Par::Seq);
        with_stack(scratch, |stack| cholesky_solve::solve_in_place(self.0.as_ref(), right, Par::Seq, stack));
    }
}

/// The eigenvalues of a symmetric matrix, ascending.
pub(crate) fn symmetric_eigenvalues(matrix: MatRef<'_, f64>) -> Result<Vec<f64>> {
    symmetric(matrix, None)
}

/// The symmetric R with R R = `matrix`, which has no eigenvalues below 0 but for rounding.
pub(crate) fn symmetric_root(matrix: MatRef<'_, f64>) -> Result<Matrix<f64>> {
    let d = matrix.nrows();
    let mut vectors = Mat::<f64>::zeros(d, d);
    let values = symmetric(matrix, Some(vectors.as_mut()))?;
    let roots: Vec<f64> = values.iter().map(|v| v.max(0.0).sqrt()).collect();
    Ok(Matrix::from_fn(d, d, |i, j| (0..d).map(|k| vectors[(i, k)] * roots[k] * vectors[(j, k)]).sum()))
}

/// The eigenvalues of a symmetric matrix, ascending, and its eigenvectors as columns.
pub(crate) fn symmetric_eigen(matrix: MatRef<'_, f64>) -> Result<(Vec<f64>, Mat<f64>)> {
    let mut vectors = Mat::zeros(matrix.nrows(), matrix.nrows());
    let values = symmetric(matrix, Some(vectors.as_mut()))?;
    Ok((values, vectors))
}

/// The eigenvalues of a symmetric matrix, ascending, and its eigenvectors as columns if there is a place for them.
fn symmetric(matrix: MatRef<'_, f64>, vectors: Option<MatMut<'_, f64>>) -> Result<Vec<f64>> {
    let d = matrix.nrows();
    let mut values = Diag::<f64>::zeros(d);
    let compute = if vectors.is_some() { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
    let scratch = evd::self_adjoint_evd_scratch::<f64>(d, compute, Par::Seq, Spec::default());
    with_stack(scratch, |stack| {
        evd::self_adjoint_evd(matrix, values.as_mut(), vectors, Par::Seq, stack, Spec::default())
    })
    .map_err(|_| Error::NonFinite("the eigenvalues of a symmetric matrix did not converge".into()))?;
    Ok(values.column_vector().iter().copied().collect())
}
