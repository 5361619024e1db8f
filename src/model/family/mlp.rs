//! The MLP drift: one network of one hidden layer per variable.

use super::{
    ChainDrift, ChainSpace, Checked, Container, Drift, DriftArrays, DriftDynamics, Family, InputWeights,
    InputWeightsMut, cast,
};
use crate::data::Standardization;
use crate::model::{Basis, Noise, Tensor};
use crate::named::named;
use crate::numeric::matmul::product_sequential;
use crate::numeric::simd::dispatch;
use crate::{Error, Matrix, Result, Scalar};
use faer::{Accum, MatMut, MatRef};
use std::sync::Arc;

pub(super) const FAMILY: Family =
    Family { name: "mlp", tensors: &["hidden_weights", "hidden_biases", "output_weights"], read };

/// The nonlinearity γ of the MLP drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// 1 / (1 + e^−z), the paper's choice.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// max(z, 0), with derivative 0 at 0.
    Relu,
}

named!(Activation, "activation", { Sigmoid => "sigmoid", Tanh => "tanh", Relu => "relu" });

/// b_j(x) = biases_j + ⟨output_j, γ(U_j x + v_j)⟩ − x_j.
#[derive(Clone, Debug, PartialEq)]
pub struct MlpDrift<T> {
    /// γ.
    pub activation: Activation,
    /// U, (d·h) × d: row j·h + k is unit k of network j.
    pub hidden_weights: Matrix<T>,
    /// v, d × h.
    pub hidden_biases: Matrix<T>,
    /// d × h.
    pub output_weights: Matrix<T>,
}

fn read(file: &Container<'_>, d: usize) -> Checked<(Drift<f64>, Noise<f64>)> {
    let activation = match file.meta("activation") {
        Some(name) => name.parse().map_err(|error: Error| error.to_string())?,
        None => Activation::Sigmoid,
    };
    let h = match *file.shape("hidden_biases")? {
        [rows, h] if rows == d && h > 0 => h,
        ref other => {
            return Err(format!(
                "tensor `hidden_biases` has shape {other:?}, expected [{d}, units] with at least one unit"
            ));
        }
    };
    // The file's shape is checked before d·h is multiplied, so the product cannot overflow.
    let hidden_weights = file.values("hidden_weights", &[d, h, d])?;
    let drift = MlpDrift {
        activation,
        hidden_weights: Matrix::from_rows(d * h, d, hidden_weights),
        hidden_biases: file.matrix("hidden_biases", d, h)?,
        output_weights: file.matrix("output_weights", d, h)?,
    };
    Ok((drift.into(), file.noise(d)?))
}

impl<T: Scalar> MlpDrift<T> {
    pub(super) fn cast<U: Scalar>(&self) -> MlpDrift<U> {
        MlpDrift {
            activation: self.activation,
            hidden_weights: cast(&self.hidden_weights),
            hidden_biases: cast(&self.hidden_biases),
            output_weights: cast(&self.output_weights),
        }
    }
}

impl<T: Scalar> DriftArrays<T> for MlpDrift<T> {
    fn family(&self) -> &'static Family {
        &FAMILY
    }

    fn tensors(&self, d: usize) -> Vec<Tensor<'_, T>> {
        let h = self.hidden_biases.cols();
        vec![
            Tensor::new("hidden_weights", &[d, h, d], self.hidden_weights.as_slice()),
            Tensor::new("hidden_biases", &[d, h], self.hidden_biases.as_slice()),
            Tensor::new("output_weights", &[d, h], self.output_weights.as_slice()),
        ]
    }

    fn tensors_mut(&mut self) -> Vec<(&'static str, &mut [T])> {
        vec![
            ("hidden_weights", self.hidden_weights.as_mut_slice()),
            ("hidden_biases", self.hidden_biases.as_mut_slice()),
            ("output_weights", self.output_weights.as_mut_slice()),
        ]
    }

    fn metadata(&self) -> Vec<(&'static str, String)> {
        vec![("activation", self.activation.name().into())]
    }

    fn has_loss(&self) -> bool {
        true
    }

    fn inputs(&self) -> Option<InputWeights<'_, T>> {
        Some(InputWeights { weights: &self.hidden_weights, units: self.hidden_biases.cols() })
    }

    fn inputs_mut(&mut self) -> Option<InputWeightsMut<'_, T>> {
        let units = self.hidden_biases.cols();
        Some(InputWeightsMut { weights: &mut self.hidden_weights, units, own: T::ZERO })
    }
}

impl DriftDynamics for MlpDrift<f64> {
    fn at_chains<'a>(&'a self, _noise: &Noise<f64>, _dt: f64) -> Result<Box<dyn ChainDrift + 'a>> {
        Ok(Box::new(Network::of(self)))
    }

    fn in_units_of(
        &self,
        units: &Standardization,
        biases: &mut [f64],
        _functions: Option<&Arc<Basis>>,
    ) -> Result<Drift<f64>> {
        let Standardization { mean, scale } = units;
        let (d, h) = (biases.len(), self.hidden_biases.cols());
        let seen =
            Matrix::from_fn(self.hidden_weights.rows(), d, |u, i| self.hidden_weights[(u, i)] / scale[i]);
        let rest = |u: usize| seen.row(u).iter().zip(mean).map(|(weight, m)| weight * m).sum::<f64>();
        let hidden_biases = Matrix::from_fn(d, h, |j, k| self.hidden_biases[(j, k)] - rest(j * h + k));
        // −s z = −x + m.
        biases.iter_mut().zip(mean).for_each(|(bias, m)| *bias += m);
        let output_weights = Matrix::from_fn(d, h, |j, k| scale[j] * self.output_weights[(j, k)]);
        let activation = self.activation;
        Ok(MlpDrift { activation, hidden_weights: seen, hidden_biases, output_weights }.into())
    }

    fn gradient_before(&self, units: &Standardization, _biases: &[f64]) -> Result<Drift<f64>> {
        let Standardization { mean, scale } = units;
        let (rows, d, h) =
            (self.hidden_weights.rows(), self.hidden_weights.cols(), self.hidden_biases.cols());
        let by_weight = |u: usize, i: usize| {
            (self.hidden_weights[(u, i)] - self.hidden_biases[(u / h, u % h)] * mean[i]) / scale[i]
        };
        let drift = MlpDrift {
            activation: self.activation,
            hidden_weights: Matrix::from_fn(rows, d, by_weight),
            hidden_biases: self.hidden_biases.clone(),
            output_weights: Matrix::from_fn(d, h, |j, k| scale[j] * self.output_weights[(j, k)]),
        };
        Ok(drift.into())
    }

    fn effect(&self, source: usize, target: usize) -> Result<f64> {
        let outputs = self.output_weights.row(target);
        let seen = |k: usize| self.hidden_weights[(target * outputs.len() + k, source)];
        // By hypot, because squares of weights may overflow or vanish where the norm does not.
        let norm = (0..outputs.len()).fold(0.0, |norm: f64, k| norm.hypot(seen(k)));
        let slope: f64 = outputs.iter().enumerate().map(|(k, output)| output * seen(k)).sum();
        // `signum` gives 0 a sign.
        Ok(if slope == 0.0 { 0.0 } else { norm * slope.signum() })
    }

    fn standard_effect(&self, strength: f64, source: f64, _target: f64) -> Option<f64> {
        Some(strength * source)
    }
}

/// The networks of all variables, for simulations.
///
/// The hidden layer is evaluated in f32: that is several times faster, and its error, about 10⁻⁶ of the drift, is
/// nothing beside that of a step of finite length. The position itself, and all that adds up, stays in f64.
struct Network {
    activation: Activation,
    /// (d·h) × d.
    hidden_weights: Matrix<f32>,
    /// d·h.
    hidden_biases: Vec<f32>,
    /// d × h.
    output_weights: Matrix<f32>,
}

impl Network {
    fn of(drift: &MlpDrift<f64>) -> Self {
        Network {
            activation: drift.activation,
            hidden_weights: drift.hidden_weights.map(|w| w as f32),
            hidden_biases: drift.hidden_biases.as_slice().iter().map(|v| *v as f32).collect(),
            output_weights: drift.output_weights.map(|w| w as f32),
        }
    }
}

impl ChainDrift for Network {
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
