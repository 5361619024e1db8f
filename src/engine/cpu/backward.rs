//! Stage `backward`: from ∂/∂b at every sample to the gradient of the drift's parameters and the shifts.

use super::drift::row_tasks;
use super::outer::outer_product;
use super::reduce::column_sums;
use super::rows::{Rows, SampleRows};
use crate::model::{Activation, Drift, Parameters};
use crate::numeric::simd::dispatch;
use crate::numeric::tasks::{self, Cutter};
use crate::{Matrix, Scalar};

/// Overwrites the gradient of weights, biases and shifts. `hidden` holds the MLP's activations and is overwritten
/// with the derivatives with respect to what they were made of; `space` is kept between calls.
pub(super) fn backward<T: Scalar>(
    parameters: &Parameters<T>,
    offsets: &[usize],
    x: &Rows<T>,
    b_bar: &Rows<T>,
    hidden: &mut [T],
    space: &mut Vec<T>,
    gradient: &mut Parameters<T>,
) {
    let n = x.all().len();
    let by_environment = match (&parameters.drift, &mut gradient.drift) {
        (Drift::Linear { .. }, Drift::Linear { weights }) => {
            outer_product(weights.view_mut(), b_bar.sample_rows(), x.view(0..n), offsets, space)
        }
        (
            Drift::Mlp { activation, output_weights, .. },
            Drift::Mlp { hidden_weights, hidden_biases, output_weights: output_bar, .. },
        ) => {
            let width = hidden_weights.rows();
            through_hidden(*activation, output_weights, offsets, b_bar, hidden, output_bar);
            let pre_bar = SampleRows { data: hidden, n, p: width, stride: width };
            let units = outer_product(hidden_weights.view_mut(), pre_bar, x.view(0..n), &[0, n], space);
            hidden_biases
                .as_mut_slice()
                .iter_mut()
                .zip(&units)
                .for_each(|(out, sum)| *out = T::from_f64(*sum));
            column_sums(b_bar.sample_rows(), offsets)
        }
        _ => unreachable!("a gradient has the form of its parameters"),
    };
    let d = x.dim();
    for (j, bias) in gradient.biases.iter_mut().enumerate() {
        *bias = T::from_f64(by_environment.iter().skip(j).step_by(d).sum());
    }
    if let Some(shift) = &mut gradient.shift {
        shift.as_mut_slice().iter_mut().zip(&by_environment).for_each(|(out, sum)| *out = T::from_f64(*sum));
    }
}

/// From ∂/∂b to the gradient of the output weights, and, in place of the activations, to the derivatives with respect
/// to what they were made of.
fn through_hidden<T: Scalar>(
    activation: Activation,
    output_weights: &Matrix<T>,
    offsets: &[usize],
    b_bar: &Rows<T>,
    hidden: &mut [T],
    output_bar: &mut Matrix<T>,
) {
    let (n, h) = (b_bar.all().len(), output_weights.cols());
    let width = b_bar.dim() * h;
    let mut shares = vec![T::ZERO; row_tasks(offsets).count() * width];
    let (mut hidden_cut, mut shares_cut) = (Cutter::new(hidden), Cutter::new(&mut shares));
    let tasks: Vec<_> = row_tasks(offsets)
        .map(|(_, rows)| {
            (b_bar.slice(rows.clone()), hidden_cut.take(rows.len() * width), shares_cut.take(width))
        })
        .collect();
    tasks::run(tasks, n * width * 4, |(bars, hidden, share)| {
        dispatch(
            #[inline(always)]
            || {
                for (bars, units) in bars.chunks_exact(b_bar.stride()).zip(hidden.chunks_exact_mut(width)) {
                    let weights = output_weights.as_slice().chunks_exact(h);
                    let networks = units.chunks_exact_mut(h).zip(weights).zip(share.chunks_exact_mut(h));
                    for (((units, weights), share), bar) in networks.zip(bars) {
                        for k in 0..h {
                            share[k] += *bar * units[k];
                            units[k] = *bar * weights[k] * slope(activation, units[k]);
                        }
                    }
                }
            },
        );
    });
    output_bar.as_mut_slice().fill(T::ZERO);
    for share in shares.chunks_exact(width) {
        output_bar.as_mut_slice().iter_mut().zip(share).for_each(|(sum, share)| *sum += *share);
    }
}

/// γ' expressed by the value of γ; 0 where relu is 0.
#[inline(always)]
fn slope<T: Scalar>(activation: Activation, value: T) -> T {
    match activation {
        Activation::Sigmoid => value * (T::ONE - value),
        Activation::Tanh => T::ONE - value * value,
        Activation::Relu => {
            if value > T::ZERO {
                T::ONE
            } else {
                T::ZERO
            }
        }
    }
}
