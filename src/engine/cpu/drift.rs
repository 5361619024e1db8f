//! Stage `drift`: b at every sample, with biases and shifts; and the share of stage `backward` that depends on the family of the
//! drift. Linear: one matrix product of width d. MLP: one of width d·h with the activation and the output layer on top.

use super::backward::through_hidden;
use super::outer::outer_product;
use super::reduce::column_sums;
use super::rows::{Rows, SampleRows};
use crate::model::{Activation, Drift, LinearDrift, MlpDrift, Parameters};
use crate::numeric::matmul::{product, product_then};
use crate::numeric::simd::dispatch;
use crate::numeric::tasks::{self, Cutter};
use crate::{Error, Matrix, Result, Scalar};
use faer::MatMut;

/// Rows that one task finishes after the product.
const ROWS_PER_TASK: usize = 128;

/// What the stages `drift` and `backward` do for a family of drifts.
pub(super) trait DriftStage<T: Scalar>: Sync {
    /// Columns of the matrix product with the samples.
    fn width(&self) -> usize;

    /// b(x) for every row, with biases and shifts. `hidden` receives what `backward` needs of
    /// the family's own values: n rows of its [`width`](Self::width), or nothing.
    fn drift(&self, rows: &Inputs<'_, T>, b: &mut Rows<T>, hidden: &mut Vec<T>);

    /// Overwrites the gradient of the drift, given ∂/∂b of every row; returns the sums of ∂/∂b over each environment's rows.
    /// `hidden` is what `drift` left there and may be overwritten; `space` is kept between calls.
    fn backward(
        &self,
        rows: &Inputs<'_, T>,
        b_bar: &Rows<T>,
        hidden: &mut [T],
        space: &mut Vec<T>,
        gradient: &mut Drift<T>,
    ) -> Result<Vec<f64>>;
}

/// The stage of every family that has a loss on the CPU; an error for the others.
pub(super) fn stage_of<T: Scalar>(drift: &Drift<T>) -> Result<&dyn DriftStage<T>> {
    match drift {
        Drift::Linear(drift) => Ok(drift),
        Drift::Mlp(drift) => Ok(drift),
        other => Err(other.without("loss on the CPU")),
    }
}

/// What every stage sees.
pub(super) struct Inputs<'a, T> {
    /// The samples.
    pub x: &'a Rows<T>,
    /// Where environments begin and end.
    pub offsets: &'a [usize],
    /// biases + shift_e, one row per environment.
    pub constants: Matrix<T>,
}

impl<'a, T: Scalar> Inputs<'a, T> {
    pub(super) fn new(parameters: &Parameters<T>, x: &'a Rows<T>, offsets: &'a [usize]) -> Self {
        let constants = Matrix::from_fn(offsets.len() - 1, parameters.dim(), |e, j| {
            parameters.biases[j] + parameters.shift.as_ref().map_or(T::ZERO, |shift| shift[(e, j)])
        });
        Inputs { x, offsets, constants }
    }
}

impl<T: Scalar> DriftStage<T> for LinearDrift<T> {
    fn width(&self) -> usize {
        self.weights.rows()
    }

    fn drift(&self, rows: &Inputs<'_, T>, b: &mut Rows<T>, _hidden: &mut Vec<T>) {
        let Inputs { x, offsets, constants } = rows;
        let n = x.all().len();
        let (left, right) = (x.view(0..n), self.weights.view().transpose());
        product_then(b.view_mut(0..n), left, right, |block, first_row, first_col| {
            dispatch(
                #[inline(always)]
                || add_constants(block, first_row, first_col, offsets, constants),
            );
        });
    }

    fn backward(
        &self,
        rows: &Inputs<'_, T>,
        b_bar: &Rows<T>,
        _hidden: &mut [T],
        space: &mut Vec<T>,
        gradient: &mut Drift<T>,
    ) -> Result<Vec<f64>> {
        let weights = gradient.linear_weights_mut()?;
        let x = rows.x.view(0..rows.x.all().len());
        Ok(outer_product(weights.view_mut(), b_bar.sample_rows(), x, rows.offsets, space))
    }
}

impl<T: Scalar> DriftStage<T> for MlpDrift<T> {
    fn width(&self) -> usize {
        self.hidden_weights.rows()
    }

    fn drift(&self, rows: &Inputs<'_, T>, b: &mut Rows<T>, hidden: &mut Vec<T>) {
        let Inputs { x, offsets, constants } = rows;
        let (d, n, width) = (x.dim(), x.all().len(), self.hidden_weights.rows());
        hidden.resize(n * width, T::ZERO);
        let pre = MatMut::from_column_major_slice_mut(hidden, width, n).transpose_mut();
        product(pre, x.view(0..n), self.hidden_weights.view().transpose());
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
                        activate(self.activation, units, self.hidden_biases.as_slice());
                        let b = &mut b[local * stride..local * stride + d];
                        read_out(b, units, &self.output_weights);
                        for (j, b) in b.iter_mut().enumerate() {
                            *b += constants[(e, j)] - x.row(row)[j];
                        }
                    }
                },
            );
        });
    }

    fn backward(
        &self,
        rows: &Inputs<'_, T>,
        b_bar: &Rows<T>,
        hidden: &mut [T],
        space: &mut Vec<T>,
        gradient: &mut Drift<T>,
    ) -> Result<Vec<f64>> {
        let Drift::Mlp(bars) = gradient else {
            let found = gradient.name();
            return Err(Error::invalid(format!("the gradient has the drift {found}, expected mlp")));
        };
        let (n, width) = (rows.x.all().len(), self.hidden_weights.rows());
        through_hidden(
            self.activation,
            &self.output_weights,
            rows.offsets,
            b_bar,
            hidden,
            &mut bars.output_weights,
        );
        let pre_bar = SampleRows { data: hidden, n, p: width, stride: width };
        let units = outer_product(bars.hidden_weights.view_mut(), pre_bar, rows.x.view(0..n), &[0, n], space);
        let biases = bars.hidden_biases.as_mut_slice().iter_mut();
        biases.zip(&units).for_each(|(out, sum)| *out = T::from_f64(*sum));
        Ok(column_sums(b_bar.sample_rows(), rows.offsets))
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

/// Environments cut into runs of at most [`ROWS_PER_TASK`] rows.
pub(super) fn row_tasks(offsets: &[usize]) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
    offsets.windows(2).enumerate().flat_map(|(e, bounds)| {
        let (start, end) = (bounds[0], bounds[1]);
        (start..end).step_by(ROWS_PER_TASK).map(move |first| (e, first..end.min(first + ROWS_PER_TASK)))
    })
}

/// Adds to each row of a block the constants of its environment.
#[inline(always)]
fn add_constants<T: Scalar>(
    block: MatMut<'_, T>,
    first_row: usize,
    first_col: usize,
    offsets: &[usize],
    constants: &Matrix<T>,
) {
    let mut e = 0;
    for (i, row) in (first_row..).zip(block.row_iter_mut()) {
        while i >= offsets[e + 1] {
            e += 1;
        }
        let row = row.try_as_row_major_mut().expect("rows of samples are contiguous").as_slice_mut();
        for (b, constant) in row.iter_mut().zip(&constants.row(e)[first_col..]) {
            *b += *constant;
        }
    }
}
