//! The diffusion's parameters: drift, noise and the interventions of each environment.
//!
//! | file tensor | shape | meaning |
//! |---|---|---|
//! | `weights` | d × d | linear drift: row j holds the effects on variable j |
//! | `hidden_weights`, `hidden_biases`, `output_weights` | d × h × d, d × h, d × h | MLP drift: network j |
//! | `coefficients` | d × p | drift of given functions: row j holds what makes up the drift of variable j |
//! | `biases` | d | drift at the origin |
//! | `log_noise` or `noise` | d or d × d | σ = diag(exp(log_noise)), or σ itself |
//! | `amounts` | d × m | what makes up the squared noise of given functions |
//! | `shift`, `log_scale` | E × d | b_e = b + shift_e, σ_e = diag(exp(log_scale_e)) σ |

pub mod basis;
mod constraint;
mod file;
mod fitted;
mod lists;
mod members;
mod penalty;
#[cfg(test)]
mod tests;
mod units;

pub use basis::Basis;
pub(crate) use file::TensorFile;
pub use fitted::{Intervals, Model};
pub use members::{LawKind, Member};
pub(crate) use penalty::{ENTRIES_PER_TASK, Groups};
pub use penalty::{Penalty, PenaltyKind};

use crate::named::named;
use crate::{Error, Matrix, Result, Scalar};
use std::sync::Arc;

/// Why engines never see a basis.
pub(crate) const REFUSED: &str = "check_fits refuses models that are made of given functions";

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
    /// b_j(x) = biases_j + Σ_p coefficients_jp f_p(x), for given functions.
    Basis {
        /// The functions.
        basis: Arc<Basis>,
        /// d × p.
        coefficients: Matrix<T>,
    },
}

impl<T> Drift<T> {
    /// As model files call it.
    pub fn name(&self) -> &'static str {
        match self {
            Drift::Linear { .. } => "linear",
            Drift::Mlp { .. } => "mlp",
            Drift::Basis { .. } => "basis",
        }
    }
}

/// The diffusion coefficient σ; the losses see a = σσᵀ.
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
    /// a_j(x) = Σ_k amounts_jk g_k(x), with the functions of a [`Drift::Basis`].
    Basis {
        /// d × m, at least 0.
        amounts: Matrix<T>,
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

    /// The number of environments with an intervention, if there are any.
    pub fn environments(&self) -> Option<usize> {
        self.shift.as_ref().or(self.log_scale.as_ref()).map(Matrix::rows)
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
            Drift::Basis { basis, coefficients } => {
                push("coefficients", &[d, basis.features()], coefficients.as_slice());
            }
        }
        push("biases", &[d], &self.biases);
        match &self.noise {
            Noise::Diagonal { log_noise } => push("log_noise", &[d], log_noise),
            Noise::Full { noise } => push("noise", &[d, d], noise.as_slice()),
            Noise::Basis { amounts } => push("amounts", &[d, amounts.cols()], amounts.as_slice()),
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
            Drift::Basis { coefficients, .. } => all.push(("coefficients", coefficients.as_mut_slice())),
        }
        all.push(("biases", &mut self.biases));
        match &mut self.noise {
            Noise::Diagonal { log_noise } => all.push(("log_noise", log_noise)),
            Noise::Full { noise } => all.push(("noise", noise.as_mut_slice())),
            Noise::Basis { amounts } => all.push(("amounts", amounts.as_mut_slice())),
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
                Drift::Basis { basis, coefficients } => {
                    Drift::Basis { basis: basis.clone(), coefficients: matrix(coefficients) }
                }
            },
            biases: vector(&self.biases),
            noise: match &self.noise {
                Noise::Diagonal { log_noise } => Noise::Diagonal { log_noise: vector(log_noise) },
                Noise::Full { noise } => Noise::Full { noise: matrix(noise) },
                Noise::Basis { amounts } => Noise::Basis { amounts: matrix(amounts) },
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
        match (&self.drift, &self.noise) {
            (Drift::Basis { basis, .. }, Noise::Basis { amounts }) => {
                if basis.dim() != self.dim() || basis.amounts() != amounts.cols() {
                    return Err(Error::invalid(format!(
                        "the basis has {} variables and {} diffusions, expected {} and {}",
                        basis.dim(),
                        basis.amounts(),
                        self.dim(),
                        amounts.cols()
                    )));
                }
                Ok(())
            }
            (Drift::Basis { .. }, _) | (_, Noise::Basis { .. }) => Err(Error::invalid(
                "drift or noise alone is made of given functions, expected both of them or neither",
            )),
            _ => Ok(()),
        }
    }

    /// Whether drift and noise are made of given functions.
    pub fn is_basis(&self) -> bool {
        matches!(self.drift, Drift::Basis { .. }) || matches!(self.noise, Noise::Basis { .. })
    }

    /// Checks that the parameters suit an engine, and data of `dim` variables in `environments` environments.
    pub fn check_fits(&self, dim: usize, environments: usize) -> Result<()> {
        self.check_shapes()?;
        if self.is_basis() {
            return Err(Error::invalid(
                "the model is made of given functions (basis), which the exact solver alone knows, expected a linear or mlp drift",
            ));
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

    /// Parameters of the same shape, all 0: where a gradient is written.
    pub fn zeros_like(&self) -> Self {
        let mut zeros = self.clone();
        for (_, values) in zeros.tensors_mut() {
            values.fill(T::ZERO);
        }
        zeros
    }
}
