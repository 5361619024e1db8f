//! Stage `backward`: from ∂/∂b at every sample to the gradient of the drift's parameters, biases and shifts.

use super::drift::row_tasks;
use super::rows::Rows;
use crate::model::{Activation, Parameters};
use crate::numeric::simd::dispatch;
use crate::numeric::tasks::{self, Cutter};
use crate::{Matrix, Scalar};

/// Overwrites the gradient of biases and shifts, given the sums of ∂/∂b over the rows of each environment.
pub(super) fn constants<T: Scalar>(by_environment: &[f64], gradient: &mut Parameters<T>) {
    let d = gradient.dim();
    for (j, bias) in gradient.biases.iter_mut().enumerate() {
        *bias = T::from_f64(by_environment.iter().skip(j).step_by(d).sum());
    }
    if let Some(shift) = &mut gradient.shift {
        shift.as_mut_slice().iter_mut().zip(by_environment).for_each(|(out, sum)| *out = T::from_f64(*sum));
    }
}

/// From ∂/∂b to the gradient of the output weights, and, in place of the activations, to the derivatives with respect
/// to what they were made of.
pub(super) fn through_hidden<T: Scalar>(
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
