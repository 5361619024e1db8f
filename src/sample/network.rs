//! The MLP drift for groups of chains.
//!
//! The hidden layer is evaluated in f32: that is several times faster, and its error, about 10⁻⁶ of the drift, is
//! nothing beside that of a step of finite length. The position itself, and all that adds up, stays in f64.

use crate::model::Activation;
use crate::numeric::matmul::product_sequential;
use crate::numeric::simd::dispatch;
use crate::{Matrix, Scalar};
use faer::{Accum, MatMut, MatRef};

/// One network of one hidden layer per variable.
pub(super) struct Network {
    activation: Activation,
    /// (d·h) × d.
    hidden_weights: Matrix<f32>,
    /// d·h.
    hidden_biases: Vec<f32>,
    /// d × h.
    output_weights: Matrix<f32>,
}

impl Network {
    /// Hidden units of all variables.
    pub(super) fn width(&self) -> usize {
        self.hidden_biases.len()
    }

    pub(super) fn new(
        activation: Activation,
        hidden_weights: &Matrix<f64>,
        hidden_biases: &Matrix<f64>,
        output_weights: &Matrix<f64>,
    ) -> Self {
        Network {
            activation,
            hidden_weights: hidden_weights.map(|w| w as f32),
            hidden_biases: hidden_biases.as_slice().iter().map(|v| *v as f32).collect(),
            output_weights: output_weights.map(|w| w as f32),
        }
    }

    /// ⟨output_j, γ(U_j x + v_j)⟩ − x_j of every chain; in `x` and `b` the entries of a variable are contiguous.
    pub(super) fn drift(&self, x: &[f64], chains: usize, b: &mut [f64], space: &mut Vec<f32>) {
        let (d, h) = (self.output_weights.rows(), self.output_weights.cols());
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
                    sum.fill(0.0);
                    for k in j * h..(j + 1) * h {
                        let unit = &units[k * chains..(k + 1) * chains];
                        let (bias, weight) = (self.hidden_biases[k], self.output_weights.as_slice()[k]);
                        add_unit(self.activation, sum, unit, bias, weight);
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

/// sum += weight · γ(unit + bias).
#[inline(always)]
fn add_unit(activation: Activation, sum: &mut [f32], unit: &[f32], bias: f32, weight: f32) {
    let pairs = sum.iter_mut().zip(unit);
    match activation {
        Activation::Sigmoid => {
            pairs.for_each(|(sum, z)| *sum += weight / (1.0 + Scalar::exp(-(z + bias))));
        }
        // tanh z = 2 sigmoid(2z) − 1.
        Activation::Tanh => pairs.for_each(|(sum, z)| {
            *sum += weight * (2.0 / (1.0 + Scalar::exp(-2.0 * (z + bias))) - 1.0);
        }),
        Activation::Relu => pairs.for_each(|(sum, z)| *sum += weight * Scalar::max(z + bias, 0.0)),
    }
}
