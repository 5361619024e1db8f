//! Covariances and means side by side, [S₁ | S₂ | … | means]: the right factor of products with W, and of products back to
//! slopes.

use crate::Matrix;
use crate::numeric::matmul::{product, product_sequential};
use crate::numeric::simd::dispatch;
use faer::{Accum, MatRef};
use rayon::prelude::*;

/// Independent partial sums of a dot product, so that it vectorises.
const SUMS: usize = 16;

/// The sparsity pattern of W, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SparsityPattern {
    /// Where the columns of each row begin; one more than there are rows.
    pub starts: Vec<usize>,
    pub columns: Vec<u32>,
}

impl SparsityPattern {
    pub(super) fn new(d: usize, mut holds: impl FnMut(usize, usize) -> bool) -> SparsityPattern {
        let mut support = SparsityPattern { starts: vec![0], columns: Vec::new() };
        for j in 0..d {
            support.columns.extend((0..d as u32).filter(|&i| i as usize != j && holds(j, i as usize)));
            support.starts.push(support.columns.len());
        }
        support
    }

    pub(super) fn len(&self) -> usize {
        self.columns.len()
    }

    fn dim(&self) -> usize {
        self.starts.len() - 1
    }

    /// Places of a row's entries.
    pub(super) fn row(&self, j: usize) -> std::ops::Range<usize> {
        self.starts[j]..self.starts[j + 1]
    }

    /// Row and column of every entry, in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.dim()).flat_map(move |j| self.row(j).map(move |at| (j, self.columns[at] as usize)))
    }

    /// These entries of a matrix.
    pub(super) fn of(&self, matrix: &Matrix<f64>) -> Vec<f64> {
        self.entries().map(|(j, i)| matrix[(j, i)]).collect()
    }

    /// −I with these entries.
    pub(super) fn weights(&self, values: &[f64]) -> Matrix<f64> {
        let mut weights = super::no_effects(self.dim());
        for ((j, i), value) in self.entries().zip(values) {
            weights[(j, i)] = *value;
        }
        weights
    }
}

/// The matrix, d × (groups · d + E).
pub(super) struct Stack {
    matrix: Matrix<f64>,
    groups: usize,
}

impl Stack {
    pub(super) fn new(covariances: &[Matrix<f64>], means: &Matrix<f64>) -> Stack {
        let d = means.rows();
        let mut values = Vec::with_capacity(d * (covariances.len() * d + means.cols()));
        for j in 0..d {
            covariances.iter().for_each(|s| values.extend_from_slice(s.row(j)));
            values.extend_from_slice(means.row(j));
        }
        let width = values.len() / d;
        Stack { matrix: Matrix::from_rows(d, width, values), groups: covariances.len() }
    }

    pub(super) fn dim(&self) -> usize {
        self.matrix.rows()
    }

    pub(super) fn width(&self) -> usize {
        self.matrix.cols()
    }

    /// A row: covariances of a variable, and its means.
    #[inline(always)]
    pub(super) fn row(&self, j: usize) -> &[f64] {
        self.matrix.row(j)
    }

    pub(super) fn view(&self) -> MatRef<'_, f64> {
        self.matrix.view()
    }

    /// Columns of a group's covariance.
    pub(super) fn group(&self, g: usize) -> std::ops::Range<usize> {
        g * self.dim()..(g + 1) * self.dim()
    }

    /// Columns of the means.
    pub(super) fn means(&self) -> std::ops::Range<usize> {
        self.groups * self.dim()..self.width()
    }

    /// W times this, where W is −I but for a support's entries.
    pub(super) fn times(&self, support: &SparsityPattern, values: &[f64], out: &mut Matrix<f64>) {
        let width = self.width();
        out.as_mut_slice().par_chunks_exact_mut(width).enumerate().for_each(|(j, out)| {
            dispatch(
                #[inline(always)]
                || {
                    out.iter_mut().zip(self.matrix.row(j)).for_each(|(out, value)| *out = -value);
                    for at in support.row(j) {
                        let (weight, row) = (values[at], self.matrix.row(support.columns[at] as usize));
                        if weight != 0.0 {
                            out.iter_mut().zip(row).for_each(|(out, value)| *out += weight * value);
                        }
                    }
                },
            );
        });
    }

    /// `slopes` (d × width) times the transpose of this, at a support's entries.
    pub(super) fn back(&self, slopes: &Matrix<f64>, support: &SparsityPattern, out: &mut [f64]) {
        let mut rows: Vec<&mut [f64]> = Vec::with_capacity(self.dim());
        let mut rest = out;
        for j in 0..self.dim() {
            let (row, others) = rest.split_at_mut(support.row(j).len());
            rows.push(row);
            rest = others;
        }
        rows.into_par_iter().enumerate().for_each(|(j, out)| {
            dispatch(
                #[inline(always)]
                || {
                    let columns = &support.columns[support.row(j)];
                    for (out, &i) in out.iter_mut().zip(columns) {
                        *out = dot(slopes.row(j), self.matrix.row(i as usize));
                    }
                },
            );
        });
    }

    /// The same at all entries.
    pub(super) fn back_to_all(&self, slopes: &Matrix<f64>) -> Matrix<f64> {
        let mut out = Matrix::full(self.dim(), self.dim(), 0.0);
        product(out.view_mut(), slopes.view(), self.matrix.view().transpose());
        out
    }

    /// The same on one thread, for callers that run in parallel.
    pub(super) fn back_on_one_thread(&self, slopes: &Matrix<f64>) -> Matrix<f64> {
        let mut out = Matrix::full(self.dim(), self.dim(), 0.0);
        product_sequential(out.view_mut(), Accum::Replace, slopes.view(), self.matrix.view().transpose());
        out
    }

    /// All of W times this.
    pub(super) fn times_all(&self, weights: &Matrix<f64>, out: &mut Matrix<f64>) {
        product(out.view_mut(), weights.view(), self.matrix.view());
    }
}

#[inline(always)]
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; SUMS];
    let (wide_a, rest_a) = a.as_chunks::<SUMS>();
    let (wide_b, rest_b) = b.as_chunks::<SUMS>();
    for (a, b) in wide_a.iter().zip(wide_b) {
        for k in 0..SUMS {
            sums[k] += a[k] * b[k];
        }
    }
    let rest: f64 = rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + rest
}

/// Adds a multiple of one vector to another.
#[inline(always)]
pub(super) fn add(to: &mut [f64], factor: f64, vector: &[f64]) {
    to.iter_mut().zip(vector).for_each(|(to, value)| *to += factor * value);
}
