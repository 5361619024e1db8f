//! The diffusion's parameters: drift, noise and the interventions of each environment.
//!
//! | file tensor | shape | meaning |
//! |---|---|---|
//! | `weights` | d × d | linear drift: row j holds the effects on variable j |
//! | `hidden_weights`, `hidden_biases`, `output_weights` | d × h × d, d × h, d × h | MLP drift: network j |
//! | `first_weights`, `first_biases`, `inner_weights`, `inner_biases`, `mean_weights`, `scale_weights` | see [`EquationsDrift`] | structural equations by networks |
//! | `coefficients` | d × p | drift of given functions: row j holds what makes up the drift of variable j |
//! | `biases` | d | drift at the origin |
//! | `log_noise` or `noise` | d or d × d | σ = diag(exp(log_noise)), or σ itself |
//! | `amounts` | d × m | what makes up the squared noise of given functions |
//! | `shift`, `log_scale` | E × d | b_e = b + shift_e, σ_e = diag(exp(log_scale_e)) σ |

pub mod basis;
mod constraint;
mod container;
mod family;
mod file;
mod fitted;
mod lists;
mod members;
mod noise;
mod penalty;
#[cfg(test)]
mod tests;
mod units;

pub use basis::Basis;
pub use family::{Activation, BasisDrift, Drift, EquationsDrift, LinearDrift, MlpDrift};
pub(crate) use family::{ChainDrift, ChainSpace, InputWeightsMut, RowSpace};
pub(crate) use file::TensorFile;
pub use fitted::{Intervals, Model};
pub use members::{LawKind, Member};
pub use noise::Noise;
pub(crate) use penalty::{ENTRIES_PER_TASK, Groups};
pub use penalty::{IngoingScale, Penalty, PenaltyKind};

use crate::{Error, Matrix, Result, Scalar};

/// All parameters of a model and its interventions; also the shape of a gradient with respect to them.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters<T> {
    /// The drift's weights.
    pub drift: Drift<T>,
    /// d.
    pub biases: Vec<T>,
    /// The diffusion coefficient.
    pub noise: Noise<T>,
    /// E × d, added to the drift of each environment; none means 0.
    pub shift: Option<Matrix<T>>,
    /// E × d, logarithms of what multiplies the rows of σ in each environment; none means 0.
    pub log_scale: Option<Matrix<T>>,
}

/// One named array of [`Parameters`].
#[derive(Debug)]
pub struct Tensor<'a, T> {
    /// The name it has in files.
    pub name: &'static str,
    /// The shape it has in files.
    pub shape: Vec<usize>,
    /// The entries, row-major.
    pub values: &'a [T],
}

impl<'a, T> Tensor<'a, T> {
    fn new(name: &'static str, shape: &[usize], values: &'a [T]) -> Self {
        Tensor { name, shape: shape.to_vec(), values }
    }
}

impl<T: Scalar> Parameters<T> {
    /// The number of variables.
    pub fn dim(&self) -> usize {
        self.biases.len()
    }

    /// The number of environments with an intervention, if there are any.
    pub fn environments(&self) -> Option<usize> {
        self.shift.as_ref().or(self.log_scale.as_ref()).map(Matrix::rows)
    }

    /// Every array with its name and shape, in a fixed order.
    pub fn tensors(&self) -> Vec<Tensor<'_, T>> {
        let d = self.dim();
        let mut all = self.drift.arrays().tensors(d);
        all.push(Tensor::new("biases", &[d], &self.biases));
        all.push(self.noise.tensor(d));
        for (name, table) in [("shift", &self.shift), ("log_scale", &self.log_scale)] {
            if let Some(table) = table {
                all.push(Tensor::new(name, &[table.rows(), d], table.as_slice()));
            }
        }
        all
    }

    /// The arrays of [`tensors`](Self::tensors), writable, in the same order.
    pub fn tensors_mut(&mut self) -> Vec<(&'static str, &mut [T])> {
        let mut all = self.drift.arrays_mut().tensors_mut();
        all.push(("biases", &mut self.biases));
        all.push(self.noise.tensor_mut());
        for (name, table) in [("shift", &mut self.shift), ("log_scale", &mut self.log_scale)] {
            if let Some(table) = table {
                all.push((name, table.as_mut_slice()));
            }
        }
        all
    }

    /// The same parameters in another precision.
    pub fn cast<U: Scalar>(&self) -> Parameters<U> {
        Parameters {
            drift: self.drift.cast(),
            biases: self.biases.iter().map(|v| U::from_f64(v.to_f64())).collect(),
            noise: self.noise.cast(),
            shift: self.shift.as_ref().map(family::cast),
            log_scale: self.log_scale.as_ref().map(family::cast),
        }
    }

    /// Checks that every array has the size its place asks for: the fields are public, so nothing else does.
    pub(crate) fn check_shapes(&self) -> Result<()> {
        for Tensor { name, shape, values } in self.tensors() {
            if values.len() != shape.iter().product::<usize>() {
                let found = values.len();
                return Err(Error::invalid(format!(
                    "the parameter `{name}` has {found} entries, expected the shape {shape:?}"
                )));
            }
        }
        self.drift.arrays().check(self.dim(), &self.noise)
    }

    /// Checks that the parameters suit an engine, and data of `dim` variables in `environments` environments.
    pub fn check_fits(&self, dim: usize, environments: usize) -> Result<()> {
        self.check_shapes()?;
        if !self.drift.arrays().has_loss() {
            return Err(self.drift.without("loss that an engine evaluates"));
        }
        if self.dim() != dim {
            return Err(Error::invalid(format!(
                "the model has {} variables, expected {dim} like the data",
                self.dim()
            )));
        }
        for (name, found) in [("shift", &self.shift), ("log_scale", &self.log_scale)] {
            if let Some(matrix) = found
                && matrix.rows() != environments
            {
                let shape = [matrix.rows(), matrix.cols()];
                return Err(Error::invalid(format!(
                    "the model's `{name}` has shape {shape:?}, expected {:?} for the environments of the data",
                    [environments, dim]
                )));
            }
        }
        Ok(())
    }

    /// Checks that this gradient has the shape of `parameters`.
    pub(crate) fn check_shape_of(&self, parameters: &Parameters<T>) -> Result<()> {
        let (found, expected) = (self.tensors(), parameters.tensors());
        let sizes = |all: &[Tensor<'_, T>]| all.iter().map(|t| (t.name, t.values.len())).collect::<Vec<_>>();
        if sizes(&found) != sizes(&expected) {
            return Err(Error::invalid(format!(
                "the gradient consists of {}, expected {} like the parameters",
                shapes(&found),
                shapes(&expected)
            )));
        }
        Ok(())
    }

    /// Parameters of the same shape, all 0: where a gradient is written.
    pub fn zeros_like(&self) -> Self {
        let mut zeros = self.clone();
        for (_, values) in zeros.tensors_mut() {
            values.fill(T::ZERO);
        }
        zeros
    }
}

/// Tensors as `weights [2, 2], biases [2]`.
fn shapes<T>(tensors: &[Tensor<'_, T>]) -> String {
    let all: Vec<String> = tensors.iter().map(|t| format!("{} {:?}", t.name, t.shape)).collect();
    all.join(", ")
}
