//! The linear drift.

use super::{
    ChainDrift, ChainSpace, Checked, Container, Drift, DriftArrays, DriftDynamics, Family, InputWeights,
    InputWeightsMut, cast,
};
use crate::data::Standardization;
use crate::model::{Basis, IngoingScale, Noise, Tensor};
use crate::numeric::matmul::product_sequential;
use crate::{Matrix, Result, Scalar};
use faer::{Accum, MatMut, MatRef};
use std::sync::Arc;

pub(super) const FAMILY: Family = Family { name: "linear", tensors: &["weights"], read };

/// b(x) = W x + biases.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearDrift<T> {
    /// W, d × d: row j holds the effects on variable j.
    pub weights: Matrix<T>,
}

fn read(file: &Container<'_>, d: usize) -> Checked<(Drift<f64>, Noise<f64>)> {
    Ok((Drift::linear(file.matrix("weights", d, d)?), file.noise(d)?))
}

impl<T: Scalar> LinearDrift<T> {
    pub(super) fn cast<U: Scalar>(&self) -> LinearDrift<U> {
        LinearDrift { weights: cast(&self.weights) }
    }
}

impl<T: Scalar> DriftArrays<T> for LinearDrift<T> {
    fn family(&self) -> &'static Family {
        &FAMILY
    }

    fn tensors(&self, d: usize) -> Vec<Tensor<'_, T>> {
        vec![Tensor::new("weights", &[d, d], self.weights.as_slice())]
    }

    fn tensors_mut(&mut self) -> Vec<(&'static str, &mut [T])> {
        vec![("weights", self.weights.as_mut_slice())]
    }

    fn has_loss(&self) -> bool {
        true
    }

    fn inputs(&self) -> Option<InputWeights<'_, T>> {
        Some(InputWeights { weights: &self.weights, units: 1, scale: IngoingScale::Mean })
    }

    fn inputs_mut(&mut self) -> Option<InputWeightsMut<'_, T>> {
        Some(InputWeightsMut { weights: &mut self.weights, units: 1, own: -T::ONE })
    }
}

impl DriftDynamics for LinearDrift<f64> {
    fn at_chains<'a>(&'a self, _noise: &Noise<f64>, _dt: f64) -> Result<Box<dyn ChainDrift + 'a>> {
        Ok(Box::new(self))
    }

    fn in_units_of(
        &self,
        units: &Standardization,
        biases: &mut [f64],
        _functions: Option<&Arc<Basis>>,
    ) -> Result<Drift<f64>> {
        let Standardization { mean, scale } = units;
        let d = biases.len();
        let weights = Matrix::from_fn(d, d, |j, i| match i == j {
            true => self.weights[(j, i)],
            false => scale[j] * self.weights[(j, i)] / scale[i],
        });
        for (j, bias) in biases.iter_mut().enumerate() {
            *bias -= weights.row(j).iter().zip(mean).map(|(weight, m)| weight * m).sum::<f64>();
        }
        Ok(Drift::linear(weights))
    }

    fn gradient_before(&self, units: &Standardization, biases: &[f64]) -> Result<Drift<f64>> {
        let Standardization { mean, scale } = units;
        let d = biases.len();
        Ok(Drift::linear(Matrix::from_fn(d, d, |j, i| {
            let by_weight = self.weights[(j, i)] - biases[j] * mean[i];
            if i == j { by_weight } else { scale[j] * by_weight / scale[i] }
        })))
    }

    fn effect(&self, source: usize, target: usize) -> Result<f64> {
        Ok(self.weights[(target, source)])
    }

    fn standard_effect(&self, strength: f64, source: f64, target: f64) -> Option<f64> {
        Some(strength * source / target)
    }
}

impl ChainDrift for &LinearDrift<f64> {
    fn evaluate(&self, x: &[f64], chains: usize, b: &mut [f64], _sigma: &mut [f64], _space: &mut ChainSpace) {
        let d = self.weights.rows();
        let b = MatMut::from_column_major_slice_mut(b, chains, d);
        let x = MatRef::from_column_major_slice(x, chains, d);
        product_sequential(b, Accum::Replace, x, self.weights.view().transpose());
    }
}
