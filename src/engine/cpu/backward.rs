//! Stage `backward`: from ∂/∂b at every sample to the gradient of the drift's parameters and the shifts.

use super::drift::row_tasks;
use super::matmul::{SampleRows, outer_product};
use super::rows::Rows;
use super::simd::dispatch;
use super::tasks::{self, Cutter};
use crate::Scalar;
use crate::model::{Activation, Drift, Parameters};

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
    shifts(offsets, b_bar, gradient);
    match (&parameters.drift, &mut gradient.drift) {
        (Drift::Linear { .. }, Drift::Linear { weights }) => {
            let left = SampleRows { data: b_bar.slice(0..n), n, p: b_bar.dim(), stride: b_bar.stride() };
            outer_product(weights.view_mut(), left, x.view(0..n), space);
        }
        (
            Drift::Mlp { activation, output_weights, .. },
            Drift::Mlp { hidden_weights, hidden_biases, output_weights: output_bar, .. },
        ) => {
            let (h, width) = (output_weights.cols(), hidden_weights.rows());
            let task_count = row_tasks(offsets).count();
            let mut shares = vec![T::ZERO; task_count * 2 * width];
            let (mut hidden_cut, mut shares_cut) = (Cutter::new(hidden), Cutter::new(&mut shares));
            let tasks: Vec<_> = row_tasks(offsets)
                .map(|(_, rows)| {
                    (rows.clone(), hidden_cut.take(rows.len() * width), shares_cut.take(2 * width))
                })
                .collect();
            tasks::run(
                tasks,
                n * width * 4,
                |(rows, hidden, shares): (std::ops::Range<usize>, &mut [T], &mut [T])| {
                    dispatch(
                        #[inline(always)]
                        || {
                            let (output_share, bias_share) = shares.split_at_mut(width);
                            for (i, units) in rows.zip(hidden.chunks_exact_mut(width)) {
                                let networks = units
                                    .chunks_exact_mut(h)
                                    .zip(output_weights.as_slice().chunks_exact(h))
                                    .zip(
                                        output_share.chunks_exact_mut(h).zip(bias_share.chunks_exact_mut(h)),
                                    );
                                for (((units, weights), (output, bias)), bar) in networks.zip(b_bar.row(i)) {
                                    for k in 0..h {
                                        output[k] += *bar * units[k];
                                        units[k] = *bar * weights[k] * slope(*activation, units[k]);
                                        bias[k] += units[k];
                                    }
                                }
                            }
                        },
                    );
                },
            );
            output_bar.as_mut_slice().fill(T::ZERO);
            hidden_biases.as_mut_slice().fill(T::ZERO);
            for share in shares.chunks_exact(2 * width) {
                let (output, bias) = share.split_at(width);
                output_bar.as_mut_slice().iter_mut().zip(output).for_each(|(sum, share)| *sum += *share);
                hidden_biases.as_mut_slice().iter_mut().zip(bias).for_each(|(sum, share)| *sum += *share);
            }
            let pre_bar = SampleRows { data: hidden, n, p: width, stride: width };
            outer_product(hidden_weights.view_mut(), pre_bar, x.view(0..n), space);
        }
        _ => unreachable!("a gradient has the form of its parameters"),
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

/// The gradient of the shifts: column sums of ∂/∂b over each environment; of the biases: their sum.
fn shifts<T: Scalar>(offsets: &[usize], b_bar: &Rows<T>, gradient: &mut Parameters<T>) {
    let (stride, d, environments) = (b_bar.stride(), b_bar.dim(), offsets.len() - 1);
    let tasks: Vec<_> = row_tasks(offsets).collect();
    let mut shares = vec![T::ZERO; tasks.len() * stride];
    let mut cut = Cutter::new(&mut shares);
    let parts: Vec<_> = tasks.iter().map(|(_, rows)| (rows.clone(), cut.take(stride))).collect();
    tasks::run(parts, b_bar.all().len() * d * 2, |(rows, share): (std::ops::Range<usize>, &mut [T])| {
        dispatch(
            #[inline(always)]
            || {
                for row in b_bar.slice(rows).chunks_exact(stride) {
                    share.iter_mut().zip(row).for_each(|(sum, value)| *sum += *value);
                }
            },
        );
    });
    let mut by_environment = vec![0.0f64; environments * d];
    for ((e, _), share) in tasks.iter().zip(shares.chunks_exact(stride)) {
        by_environment[e * d..(e + 1) * d].iter_mut().zip(share).for_each(|(sum, s)| *sum += s.to_f64());
    }
    for (j, bias) in gradient.biases.iter_mut().enumerate() {
        *bias = T::from_f64((0..environments).map(|e| by_environment[e * d + j]).sum());
    }
    if let Some(shift) = &mut gradient.shift {
        shift.as_mut_slice().iter_mut().zip(&by_environment).for_each(|(out, sum)| *out = T::from_f64(*sum));
    }
}
