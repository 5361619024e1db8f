//! Stage `drift`: b at every sample, with biases and shifts. Linear: one matrix product of width d.
//! MLP: one of width d·h with the activation and the output layer on top.

use super::rows::Rows;
use crate::model::{Activation, Drift, Parameters, REFUSED};
use crate::numeric::matmul::{product, product_then};
use crate::numeric::simd::dispatch;
use crate::numeric::tasks::{self, Cutter};
use crate::{Matrix, Scalar};
use faer::MatMut;

/// Rows that one task finishes after the product.
const ROWS_PER_TASK: usize = 128;

/// b(x) for every row of `x`. `hidden` receives the MLP's activations (n × d·h, n·d·h entries; empty if linear).
pub(super) fn drift<T: Scalar>(
    parameters: &Parameters<T>,
    offsets: &[usize],
    x: &Rows<T>,
    b: &mut Rows<T>,
    hidden: &mut Vec<T>,
) {
    let d = x.dim();
    let n = x.all().len();
    match &parameters.drift {
        Drift::Basis { .. } => unreachable!("{REFUSED}"),
        Drift::Linear { weights } => {
            let offset_of = offsets_by_environment(parameters, offsets);
            let (left, right) = (x.view(0..n), weights.view().transpose());
            product_then(b.view_mut(0..n), left, right, |block, first_row, first_col| {
                dispatch(
                    #[inline(always)]
                    || add_offsets(block, first_row, first_col, offsets, &offset_of),
                );
            });
        }
        Drift::Mlp { activation, hidden_weights, hidden_biases, output_weights } => {
            let width = hidden_weights.rows();
            hidden.resize(n * width, T::ZERO);
            let pre = MatMut::from_column_major_slice_mut(hidden, width, n).transpose_mut();
            product(pre, x.view(0..n), hidden_weights.view().transpose());
            let offset_of = offsets_by_environment(parameters, offsets);
            let stride = b.stride();
            let tasks: Vec<_> = row_tasks(offsets).collect();
            let (mut b_cut, mut h_cut) = (Cutter::new(b.as_mut_slice()), Cutter::new(hidden));
            let tasks = tasks
                .into_iter()
                .map(|(e, rows)| {
                    (e, rows.clone(), b_cut.take(rows.len() * stride), h_cut.take(rows.len() * width))
                })
                .collect();
            tasks::run(tasks, n * width * 8, |(e, rows, b, hidden)| {
                dispatch(
                    #[inline(always)]
                    || {
                        for (local, row) in rows.enumerate() {
                            let units = &mut hidden[local * width..(local + 1) * width];
                            activate(*activation, units, hidden_biases.as_slice());
                            let b = &mut b[local * stride..local * stride + d];
                            read_out(b, units, output_weights);
                            for (j, b) in b.iter_mut().enumerate() {
                                *b += offset_of[(e, j)] - x.row(row)[j];
                            }
                        }
                    },
                );
            });
        }
    }
}

/// units = γ(units + biases).
#[inline(always)]
fn activate<T: Scalar>(activation: Activation, units: &mut [T], biases: &[T]) {
    let pairs = units.iter_mut().zip(biases);
    match activation {
        Activation::Sigmoid => pairs.for_each(|(u, v)| *u = T::ONE / (T::ONE + Scalar::exp(-(*u + *v)))),
        // tanh z = 2 sigmoid(2z) − 1.
        Activation::Tanh => pairs.for_each(|(u, v)| {
            let z = *u + *v;
            *u = (T::ONE + T::ONE) / (T::ONE + Scalar::exp(-(z + z))) - T::ONE;
        }),
        Activation::Relu => pairs.for_each(|(u, v)| *u = Scalar::max(*u + *v, T::ZERO)),
    }
}

/// b_j = ⟨output_j, units of network j⟩.
#[inline(always)]
fn read_out<T: Scalar>(b: &mut [T], units: &[T], output_weights: &Matrix<T>) {
    let h = output_weights.cols();
    let networks = units.chunks_exact(h).zip(output_weights.as_slice().chunks_exact(h));
    for (b, (units, weights)) in b.iter_mut().zip(networks) {
        let mut sum = T::ZERO;
        for (unit, weight) in units.iter().zip(weights) {
            sum += *unit * *weight;
        }
        *b = sum;
    }
}

/// biases + shift_e, one row per environment.
fn offsets_by_environment<T: Scalar>(parameters: &Parameters<T>, offsets: &[usize]) -> Matrix<T> {
    Matrix::from_fn(offsets.len() - 1, parameters.dim(), |e, j| {
        parameters.biases[j] + parameters.shift.as_ref().map_or(T::ZERO, |shift| shift[(e, j)])
    })
}

/// Environments cut into runs of at most [`ROWS_PER_TASK`] rows.
pub(super) fn row_tasks(offsets: &[usize]) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
    offsets.windows(2).enumerate().flat_map(|(e, bounds)| {
        let (start, end) = (bounds[0], bounds[1]);
        (start..end).step_by(ROWS_PER_TASK).map(move |first| (e, first..end.min(first + ROWS_PER_TASK)))
    })
}

/// Adds to each row of a block the offset of its environment.
#[inline(always)]
fn add_offsets<T: Scalar>(
    block: MatMut<'_, T>,
    first_row: usize,
    first_col: usize,
    offsets: &[usize],
    offset_of: &Matrix<T>,
) {
    let mut e = 0;
    for (i, row) in (first_row..).zip(block.row_iter_mut()) {
        while i >= offsets[e + 1] {
            e += 1;
        }
        let row = row.try_as_row_major_mut().expect("rows of samples are contiguous").as_slice_mut();
        for (b, offset) in row.iter_mut().zip(&offset_of.row(e)[first_col..]) {
            *b += *offset;
        }
    }
}
