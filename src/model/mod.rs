//! The diffusion's parameters: drift, noise and the interventions of each environment.
//!
//! | file tensor | shape | meaning |
//! |---|---|---|
//! | `weights` | d × d | linear drift: row j holds the effects on variable j |
//! | `hidden_weights`, `hidden_biases`, `output_weights` | d × h × d, d × h, d × h | MLP drift: network j |
//! | `biases` | d | drift at the origin |
//! | `log_noise` or `noise` | d or d × d | σ = diag(exp(log_noise)), or σ itself |
//! | `shift`, `log_scale` | E × d | b_e = b + shift_e, σ_e = diag(exp(log_scale_e)) σ |

mod constraint;
mod file;
mod fitted;
mod penalty;
#[cfg(test)]
mod tests;

pub(crate) use file::TensorFile;
pub use fitted::{Intervals, Model};
pub(crate) use penalty::{ENTRIES_PER_TASK, Groups};
pub use penalty::{Penalty, PenaltyKind};

use crate::named::named;
use crate::{Error, Matrix, Result, Scalar};

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

/// The drift without its biases.
#[derive(Clone, Debug, PartialEq)]
pub enum Drift<T> {
    /// b(x) = W x + biases.
    Linear {
        /// d × d.
        weights: Matrix<T>,
    },
    /// b_j(x) = biases_j + ⟨output_j, γ(U_j x + v_j)⟩ − x_j: one network of one hidden layer per variable.
    Mlp {
        /// γ.
        activation: Activation,
        /// U, (d·h) × d: row j·h + k is unit k of network j.
        hidden_weights: Matrix<T>,
        /// v, d × h.
        hidden_biases: Matrix<T>,
        /// d × h.
        output_weights: Matrix<T>,
    },
}

/// The constant diffusion coefficient σ; the losses see a = σσᵀ.
#[derive(Clone, Debug, PartialEq)]
pub enum Noise<T> {
    /// σ = diag(exp(log_noise)).
    Diagonal {
        /// d.
        log_noise: Vec<T>,
    },
    /// Any σ.
    Full {
        /// d × d.
        noise: Matrix<T>,
    },
}

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

impl<T: Scalar> Parameters<T> {
    /// The number of variables.
    pub fn dim(&self) -> usize {
        self.biases.len()
    }

    /// Every array with its name and shape, in a fixed order.
    pub fn tensors(&self) -> Vec<Tensor<'_, T>> {
        let d = self.dim();
        let mut all = Vec::new();
        let mut push =
            |name, shape: &[usize], values| all.push(Tensor { name, shape: shape.to_vec(), values });
        match &self.drift {
            Drift::Linear { weights } => push("weights", &[d, d], weights.as_slice()),
            Drift::Mlp { hidden_weights, hidden_biases, output_weights, .. } => {
                let h = hidden_biases.cols();
                push("hidden_weights", &[d, h, d], hidden_weights.as_slice());
                push("hidden_biases", &[d, h], hidden_biases.as_slice());
                push("output_weights", &[d, h], output_weights.as_slice());
            }
        }
        push("biases", &[d], &self.biases);
        match &self.noise {
            Noise::Diagonal { log_noise } => push("log_noise", &[d], log_noise),
            Noise::Full { noise } => push("noise", &[d, d], noise.as_slice()),
        }
        if let Some(shift) = &self.shift {
            push("shift", &[shift.rows(), d], shift.as_slice());
        }
        if let Some(log_scale) = &self.log_scale {
            push("log_scale", &[log_scale.rows(), d], log_scale.as_slice());
        }
        all
    }

    /// The arrays of [`tensors`](Self::tensors), writable, in the same order.
    pub fn tensors_mut(&mut self) -> Vec<(&'static str, &mut [T])> {
        let mut all = Vec::new();
        match &mut self.drift {
            Drift::Linear { weights } => all.push(("weights", weights.as_mut_slice())),
            Drift::Mlp { hidden_weights, hidden_biases, output_weights, .. } => {
                all.push(("hidden_weights", hidden_weights.as_mut_slice()));
                all.push(("hidden_biases", hidden_biases.as_mut_slice()));
                all.push(("output_weights", output_weights.as_mut_slice()));
            }
        }
        all.push(("biases", &mut self.biases));
        match &mut self.noise {
            Noise::Diagonal { log_noise } => all.push(("log_noise", log_noise)),
            Noise::Full { noise } => all.push(("noise", noise.as_mut_slice())),
        }
        if let Some(shift) = &mut self.shift {
            all.push(("shift", shift.as_mut_slice()));
        }
        if let Some(log_scale) = &mut self.log_scale {
            all.push(("log_scale", log_scale.as_mut_slice()));
        }
        all
    }

    /// The same parameters in another precision.
    pub fn cast<U: Scalar>(&self) -> Parameters<U> {
        let matrix = |m: &Matrix<T>| m.map(|v| U::from_f64(v.to_f64()));
        let vector = |v: &[T]| v.iter().map(|v| U::from_f64(v.to_f64())).collect();
        Parameters {
            drift: match &self.drift {
                Drift::Linear { weights } => Drift::Linear { weights: matrix(weights) },
                Drift::Mlp { activation, hidden_weights, hidden_biases, output_weights } => Drift::Mlp {
                    activation: *activation,
                    hidden_weights: matrix(hidden_weights),
                    hidden_biases: matrix(hidden_biases),
                    output_weights: matrix(output_weights),
                },
            },
            biases: vector(&self.biases),
            noise: match &self.noise {
                Noise::Diagonal { log_noise } => Noise::Diagonal { log_noise: vector(log_noise) },
                Noise::Full { noise } => Noise::Full { noise: matrix(noise) },
            },
            shift: self.shift.as_ref().map(matrix),
            log_scale: self.log_scale.as_ref().map(matrix),
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
        Ok(())
    }

    /// Checks that the parameters suit data of `dim` variables in `environments` environments.
    pub fn check_fits(&self, dim: usize, environments: usize) -> Result<()> {
        self.check_shapes()?;
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

    /// Parameters of the same shape, all 0: where a gradient is written.
    pub fn zeros_like(&self) -> Self {
        let mut zeros = self.clone();
        for (_, values) in zeros.tensors_mut() {
            values.fill(T::ZERO);
        }
        zeros
    }
}
