//! The diffusion coefficient.

use super::Tensor;
use super::family::cast;
use crate::{Error, Matrix, Result, Scalar};

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
    /// a_j(x) = Σ_k amounts_jk g_k(x), with the functions of a [`Drift::Basis`](super::Drift::Basis).
    Basis {
        /// d × m, at least 0.
        amounts: Matrix<T>,
    },
}

impl<T: Scalar> Noise<T> {
    /// The array with its name and its shape for `d` variables.
    pub(super) fn tensor(&self, d: usize) -> Tensor<'_, T> {
        match self {
            Noise::Diagonal { log_noise } => Tensor::new("log_noise", &[d], log_noise),
            Noise::Full { noise } => Tensor::new("noise", &[d, d], noise.as_slice()),
            Noise::Basis { amounts } => Tensor::new("amounts", &[d, amounts.cols()], amounts.as_slice()),
        }
    }

    /// The same array, writable.
    pub(crate) fn tensor_mut(&mut self) -> (&'static str, &mut [T]) {
        match self {
            Noise::Diagonal { log_noise } => ("log_noise", log_noise),
            Noise::Full { noise } => ("noise", noise.as_mut_slice()),
            Noise::Basis { amounts } => ("amounts", amounts.as_mut_slice()),
        }
    }

    pub(super) fn cast<U: Scalar>(&self) -> Noise<U> {
        match self {
            Noise::Diagonal { log_noise } => {
                Noise::Diagonal { log_noise: log_noise.iter().map(|v| U::from_f64(v.to_f64())).collect() }
            }
            Noise::Full { noise } => Noise::Full { noise: cast(noise) },
            Noise::Basis { amounts } => Noise::Basis { amounts: cast(amounts) },
        }
    }

    /// The logarithms of a diagonal σ.
    pub fn log_noise(&self) -> Result<&[T]> {
        match self {
            Noise::Diagonal { log_noise } => Ok(log_noise),
            Noise::Full { .. } => Err(Error::invalid("the noise is a full matrix, expected a diagonal one")),
            Noise::Basis { .. } => Err(self.depends_on_state()),
        }
    }

    /// A σ that is a full matrix.
    pub fn matrix(&self) -> Result<&Matrix<T>> {
        match self {
            Noise::Full { noise } => Ok(noise),
            Noise::Diagonal { .. } => Err(Error::invalid("the noise is diagonal, expected a full matrix")),
            Noise::Basis { .. } => Err(self.depends_on_state()),
        }
    }

    /// The error of asking for a noise that is the same everywhere.
    pub(crate) fn depends_on_state(&self) -> Error {
        Error::invalid("the noise is made of given functions, expected one that does not depend on the state")
    }
}

impl Noise<f64> {
    /// The noise of x = s z, given this one of z.
    pub(super) fn in_units_of(&self, scale: &[f64]) -> Noise<f64> {
        let scaled = |matrix: &Matrix<f64>| {
            Matrix::from_fn(matrix.rows(), matrix.cols(), |i, k| scale[i] * matrix[(i, k)])
        };
        match self {
            Noise::Diagonal { log_noise } => Noise::Diagonal {
                log_noise: log_noise.iter().zip(scale).map(|(log, s)| log + s.ln()).collect(),
            },
            Noise::Full { noise } => Noise::Full { noise: scaled(noise) },
            Noise::Basis { amounts } => Noise::Basis { amounts: scaled(&scaled(amounts)) },
        }
    }

    /// The gradient by a noise, given the one by that noise in other units, which this is.
    pub(super) fn gradient_before(&self, scale: &[f64]) -> Result<Noise<f64>> {
        match self {
            Noise::Diagonal { log_noise } => Ok(Noise::Diagonal { log_noise: log_noise.clone() }),
            Noise::Full { noise } => Ok(Noise::Full {
                noise: Matrix::from_fn(noise.rows(), noise.cols(), |i, k| scale[i] * noise[(i, k)]),
            }),
            Noise::Basis { .. } => Err(self.depends_on_state()),
        }
    }

    /// diag(exp(log_scale)) σ.
    pub(crate) fn scaled(&self, log_scale: &[f64]) -> Noise<f64> {
        match self {
            Noise::Diagonal { log_noise } => Noise::Diagonal {
                log_noise: log_noise.iter().zip(log_scale).map(|(noise, scale)| noise + scale).collect(),
            },
            Noise::Full { noise } => Noise::Full {
                noise: Matrix::from_fn(noise.rows(), noise.cols(), |i, j| log_scale[i].exp() * noise[(i, j)]),
            },
            Noise::Basis { amounts } => Noise::Basis {
                amounts: Matrix::from_fn(amounts.rows(), amounts.cols(), |j, k| {
                    (2.0 * log_scale[j]).exp() * amounts[(j, k)]
                }),
            },
        }
    }
}
