//! The MLP drift: one network of one hidden layer per variable.

use super::networks::Networks;
use super::{
    ChainDrift, Checked, Container, Drift, DriftArrays, DriftDynamics, Family, InputWeights, InputWeightsMut,
    cast,
};
use crate::data::Standardization;
use crate::model::{Basis, IngoingScale, Noise, Tensor};
use crate::named::named;
use crate::{Error, Matrix, Result, Scalar};
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
        let units = self.hidden_biases.cols();
        Some(InputWeights { weights: &self.hidden_weights, units, scale: IngoingScale::Sum })
    }

    fn inputs_mut(&mut self) -> Option<InputWeightsMut<'_, T>> {
        let units = self.hidden_biases.cols();
        Some(InputWeightsMut { weights: &mut self.hidden_weights, units, own: T::ZERO })
    }
}

impl DriftDynamics for MlpDrift<f64> {
    fn at_chains<'a>(&'a self, _noise: &Noise<f64>, _dt: f64) -> Result<Box<dyn ChainDrift + 'a>> {
        Ok(Box::new(Networks::of(self)))
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
