//! What drift and noise are linear in: the state itself, or given functions of it.

use crate::Matrix;
use crate::model::Basis;
use std::sync::Arc;

/// The functions whose coefficients are sought. The constant 1 is always the last one of the drift.
#[derive(Clone, Debug, PartialEq)]
pub enum Design {
    /// b = W x + biases, a constant.
    Linear,
    /// Both are made of given functions; features are divided by their scales.
    Basis(Arc<Basis>),
}

impl Design {
    /// Functions that a drift of `dim` variables has, with the constant.
    pub(super) fn features(&self, dim: usize) -> usize {
        1 + match self {
            Design::Linear => dim,
            Design::Basis(basis) => basis.features(),
        }
    }

    /// Functions that a variable's noise has.
    pub(super) fn amounts(&self) -> usize {
        match self {
            Design::Linear => 1,
            Design::Basis(basis) => basis.amounts(),
        }
    }

    /// The drift's functions of every row but the constant; none if they are the rows themselves.
    pub(super) fn functions(&self, x: &Matrix<f64>) -> Option<Matrix<f64>> {
        match self {
            Design::Linear => None,
            Design::Basis(basis) => {
                let mut values = basis.features_of(x);
                for i in 0..values.rows() {
                    values
                        .row_mut(i)
                        .iter_mut()
                        .zip(&basis.scales)
                        .for_each(|(value, scale)| *value /= scale);
                }
                Some(values)
            }
        }
    }

    /// The noise's functions of every row, those of a variable side by side; none if all are 1.
    pub(super) fn diffusion(&self, x: &Matrix<f64>) -> Option<Matrix<f64>> {
        match self {
            Design::Basis(basis) if !basis.has_constant_diffusion() => Some(basis.diffusion_of(x)),
            _ => None,
        }
    }
}
