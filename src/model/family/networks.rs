//! The networks of an MLP drift at many chains at once, for simulations.

use super::{Activation, ChainDrift, ChainSpace, MlpDrift};
use crate::Matrix;
use crate::numeric::matmul::product_sequential;
use crate::numeric::simd::dispatch;
use faer::{Accum, MatMut, MatRef};

/// Sigmoids that share a division.
const SHARED: usize = 4;
/// The largest exponent of 2 in a sigmoid's denominator. Four of them stay finite when they are multiplied, and 2⁻³⁰ is less than
/// the rounding of a sum of units.
const LARGEST_EXPONENT: f32 = 30.0;

/// The networks of all variables.
///
/// The hidden layer is evaluated in f32: that is several times faster, and its error, about 10⁻⁶ of the drift, is
/// nothing beside that of a step of finite length. The position itself, and all that adds up, stays in f64.
pub(super) struct Networks {
    activation: Activation,
    /// (d·h) × d. For sigmoids, with the factor that makes e^−z a power of 2.
    hidden_weights: Matrix<f32>,
    /// d·h, with the same factor.
    hidden_biases: Vec<f32>,
    /// d × h.
    output_weights: Matrix<f32>,
    /// d, added to the sum over units.
    constant: Vec<f32>,
}

impl Networks {
    pub(super) fn of(drift: &MlpDrift<f64>) -> Self {
        // tanh z = 2 sigmoid(2z) − 1.
        let (factor, doubled) = match drift.activation {
            Activation::Sigmoid => (-std::f64::consts::LOG2_E, 1.0),
            Activation::Tanh => (-2.0 * std::f64::consts::LOG2_E, 2.0),
            Activation::Relu => (1.0, 1.0),
        };
        let outputs = &drift.output_weights;
        let constant = |j: usize| match drift.activation {
            Activation::Tanh => -outputs.row(j).iter().sum::<f64>() as f32,
            Activation::Sigmoid | Activation::Relu => 0.0,
        };
        Networks {
            activation: drift.activation,
            hidden_weights: drift.hidden_weights.map(|w| (factor * w) as f32),
            hidden_biases: drift.hidden_biases.as_slice().iter().map(|v| (factor * v) as f32).collect(),
            output_weights: outputs.map(|w| (doubled * w) as f32),
            constant: (0..outputs.rows()).map(constant).collect(),
        }
    }
}

impl ChainDrift for Networks {
    fn width(&self) -> usize {
        self.hidden_biases.len()
    }

    fn evaluate(&self, x: &[f64], chains: usize, b: &mut [f64], _sigma: &mut [f64], space: &mut ChainSpace) {
        let (d, h) = (self.output_weights.rows(), self.output_weights.cols());
        let space = &mut space.single;
        space.resize((d + d * h + 1) * chains, 0.0);
        let (single, rest) = space.split_at_mut(d * chains);
        let (units, sum) = rest.split_at_mut(d * h * chains);
        single.iter_mut().zip(x).for_each(|(single, x)| *single = *x as f32);
        product_sequential(
            MatMut::from_column_major_slice_mut(units, chains, d * h),
            Accum::Replace,
            MatRef::from_column_major_slice(single, chains, d),
            self.hidden_weights.view().transpose(),
        );
        dispatch(
            #[inline(always)]
            || {
                for j in 0..d {
                    sum.fill(self.constant[j]);
                    let own = j * h..(j + 1) * h;
                    let units = &units[own.start * chains..own.end * chains];
                    let (biases, weights) = (&self.hidden_biases[own], self.output_weights.row(j));
                    match self.activation {
                        Activation::Sigmoid | Activation::Tanh => {
                            add_sigmoids(sum, units, biases, weights);
                        }
                        Activation::Relu => {
                            for (k, unit) in units.chunks_exact(chains).enumerate() {
                                let active = |z: f32| if z + biases[k] > 0.0 { z + biases[k] } else { 0.0 };
                                sum.iter_mut().zip(unit).for_each(|(sum, z)| *sum += weights[k] * active(*z));
                            }
                        }
                    }
                    let at = j * chains..(j + 1) * chains;
                    for ((b, x), sum) in b[at.clone()].iter_mut().zip(&x[at]).zip(&*sum) {
                        *b = f64::from(*sum) - x;
                    }
                }
            },
        );
    }
}

/// sum += Σ_k weight_k / (1 + 2^(unit_k + bias_k)).
#[inline(always)]
fn add_sigmoids(sum: &mut [f32], units: &[f32], biases: &[f32], weights: &[f32]) {
    let chains = sum.len();
    let shared = weights.len() / SHARED * SHARED;
    for k in (0..shared).step_by(SHARED) {
        let unit = |i: usize| &units[(k + i) * chains..(k + i + 1) * chains];
        let (u0, u1, u2, u3) = (unit(0), unit(1), unit(2), unit(3));
        let (v, w) = (&biases[k..k + SHARED], &weights[k..k + SHARED]);
        for c in 0..chains {
            let (a, b) = (denominator(u0[c] + v[0]), denominator(u1[c] + v[1]));
            let (e, f) = (denominator(u2[c] + v[2]), denominator(u3[c] + v[3]));
            let (ab, ef) = (a * b, e * f);
            sum[c] += ((w[0] * b + w[1] * a) * ef + (w[2] * f + w[3] * e) * ab) / (ab * ef);
        }
    }
    for k in shared..weights.len() {
        let unit = &units[k * chains..(k + 1) * chains];
        for c in 0..chains {
            sum[c] += weights[k] / denominator(unit[c] + biases[k]);
        }
    }
}

/// 1 + 2^t, for t up to [`LARGEST_EXPONENT`].
#[inline(always)]
fn denominator(t: f32) -> f32 {
    // A NaN stays one.
    let t = t.clamp(-126.0, LARGEST_EXPONENT);
    // 2^t = 2^k 2^f with k = round(t). Adding 1.5·2²³ rounds, and leaves k in the low bits.
    let shifted = t + 12_582_912.0;
    let f = t - (shifted - 12_582_912.0);
    // Least-squares fit of 2^f at Chebyshev points, to 1e-7.
    let mut series = 1.340_043_2e-3f32;
    for coefficient in [9.676_037e-3, 5.550_327e-2, 2.402_210_7e-1, 6.931_472e-1, 1.000_000_1] {
        series = series * f + coefficient;
    }
    1.0 + f32::from_bits(series.to_bits().wrapping_add(shifted.to_bits() << 23))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drifts of networks with `h` units that see one other variable, at many points.
    fn worst_error(activation: Activation, h: usize, exact: fn(f64) -> f64) -> f64 {
        let drift =
            MlpDrift {
                activation,
                hidden_weights: Matrix::from_fn(2 * h, 2, |u, i| {
                    if u / h == i { 0.0 } else { 0.3 + 0.9 * u as f64 }
                }),
                hidden_biases: Matrix::from_fn(2, h, |j, k| 0.4 * j as f64 - 0.3 * k as f64),
                output_weights: Matrix::from_fn(2, h, |j, k| 1.0 - 0.6 * (j + k) as f64),
            };
        let chains = 37;
        let x: Vec<f64> = (0..2 * chains).map(|c| (c as f64 - 37.0) * 1.7).collect();
        let (mut b, mut space) = (vec![0.0; 2 * chains], ChainSpace::default());
        Networks::of(&drift).evaluate(&x, chains, &mut b, &mut [], &mut space);
        let mut worst: f64 = 0.0;
        for j in 0..2 {
            for c in 0..chains {
                let see = x[(1 - j) * chains + c];
                let unit = |k: usize| {
                    drift.output_weights[(j, k)]
                        * exact(drift.hidden_weights[(j * h + k, 1 - j)] * see + drift.hidden_biases[(j, k)])
                };
                let expected = (0..h).map(unit).sum::<f64>() - x[j * chains + c];
                worst = worst.max((b[j * chains + c] - expected).abs() / (1.0 + expected.abs()));
            }
        }
        worst
    }

    #[test]
    fn networks_agree_with_their_definition_for_every_number_of_units() {
        for h in 1..=9 {
            for (activation, exact) in [
                (Activation::Sigmoid, (|z: f64| 1.0 / (1.0 + (-z).exp())) as fn(f64) -> f64),
                (Activation::Tanh, f64::tanh),
                (Activation::Relu, |z| z.max(0.0)),
            ] {
                let error = worst_error(activation, h, exact);
                assert!(error < 3e-6, "{activation} {h}: {error}");
            }
        }
    }

    #[test]
    fn far_out_sigmoids_are_0_and_1_and_a_nan_stays_one() {
        let (weights, biases) = ([1.0, 2.0, 4.0, 8.0], [0.0; 4]);
        let at = |t: f32| {
            let mut sum = [0.0];
            add_sigmoids(&mut sum, &[t; 4], &biases, &weights);
            sum[0]
        };
        assert!((at(-1e30) - 15.0).abs() < 1e-5 && (at(f32::NEG_INFINITY) - 15.0).abs() < 1e-5);
        assert!(at(1e30).abs() < 1e-6 && at(f32::INFINITY).abs() < 1e-6);
        assert!(at(f32::NAN).is_nan());
    }
}
