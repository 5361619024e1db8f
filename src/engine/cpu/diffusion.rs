//! a = σσᵀ of each environment, and the way back from ∂/∂a to the noise parameters.

use crate::model::{Noise, Parameters};
use crate::numeric::matmul::product;
use crate::numeric::simd::padded;
use crate::{Matrix, Result, Scalar};

/// The constant diffusion of one environment.
pub(super) struct Diffusion<T> {
    pub form: Form<T>,
    /// tr a.
    pub trace: f64,
    /// tr a².
    pub trace2: f64,
}

pub(super) enum Form<T> {
    /// a = diag(α), α padded with zeros.
    Diagonal { alpha: Vec<T> },
    /// a = σσᵀ with σ = diag(scale) noise.
    Full { scale: Vec<T>, sigma: Matrix<T>, a: Matrix<T> },
}

/// ∂loss/∂a of one environment, apart from what goes through tr a and tr a².
pub(super) enum Adjoint<T> {
    /// ∂/∂α.
    Diagonal(Vec<f64>),
    /// ∂/∂a with all entries of a as independent variables.
    Full(Matrix<T>),
}

/// [`Adjoint`] with the derivatives with respect to the traces.
pub(super) struct DiffusionAdjoint<T> {
    pub form: Adjoint<T>,
    pub trace: f64,
    pub trace2: f64,
}

impl<T: Scalar> Adjoint<T> {
    /// Adds `factor` times the tasks' shares of ∂/∂α, rows of `stride` numbers, in their order (diagonal diffusion; a
    /// full one has none).
    pub(super) fn add_alpha_shares(&mut self, shares: &[T], stride: usize, factor: f64) {
        if let Adjoint::Diagonal(bar) = self {
            for share in shares.chunks_exact(stride) {
                bar.iter_mut().zip(share).for_each(|(bar, share)| *bar += factor * share.to_f64());
            }
        }
    }
}

impl<T: Scalar> Diffusion<T> {
    /// The diffusion of environment `e`.
    pub(super) fn new(parameters: &Parameters<T>, e: usize) -> Result<Self> {
        let d = parameters.dim();
        let scale = |i: usize| parameters.log_scale.as_ref().map_or(0.0, |s| s[(e, i)].to_f64());
        Ok(match &parameters.noise {
            other @ Noise::Basis { .. } => return Err(other.depends_on_state()),
            Noise::Diagonal { log_noise } => {
                let exact: Vec<f64> =
                    (0..d).map(|i| (2.0 * (log_noise[i].to_f64() + scale(i))).exp()).collect();
                let mut alpha = vec![T::ZERO; padded(d)];
                for (alpha, exact) in alpha.iter_mut().zip(&exact) {
                    *alpha = T::from_f64(*exact);
                }
                let (trace, trace2) = (exact.iter().sum(), exact.iter().map(|a| a * a).sum());
                Diffusion { form: Form::Diagonal { alpha }, trace, trace2 }
            }
            Noise::Full { noise } => {
                let factor: Vec<f64> = (0..d).map(|i| scale(i).exp()).collect();
                let sigma = Matrix::from_fn(d, d, |i, j| T::from_f64(factor[i] * noise[(i, j)].to_f64()));
                let mut a = Matrix::full(d, d, T::ZERO);
                product(a.view_mut(), sigma.view(), sigma.view().transpose());
                let trace = (0..d).map(|i| a[(i, i)].to_f64()).sum();
                let trace2 = a.as_slice().iter().map(|v| v.to_f64() * v.to_f64()).sum();
                let scale = factor.into_iter().map(T::from_f64).collect();
                Diffusion { form: Form::Full { scale, sigma, a }, trace, trace2 }
            }
        })
    }

    /// A zero adjoint of this diffusion's shape.
    pub(super) fn adjoint(&self, d: usize) -> DiffusionAdjoint<T> {
        let form = match &self.form {
            Form::Diagonal { .. } => Adjoint::Diagonal(vec![0.0; d]),
            Form::Full { .. } => Adjoint::Full(Matrix::full(d, d, T::ZERO)),
        };
        DiffusionAdjoint { form, trace: 0.0, trace2: 0.0 }
    }

    /// ⟨∂/∂a, a⟩ with the traces' share: what Euler's theorem needs.
    pub(super) fn contract(&self, adjoint: &DiffusionAdjoint<T>) -> f64 {
        let direct: f64 = match (&self.form, &adjoint.form) {
            (Form::Diagonal { alpha }, Adjoint::Diagonal(bar)) => {
                bar.iter().zip(alpha).map(|(bar, alpha)| bar * alpha.to_f64()).sum()
            }
            (Form::Full { a, .. }, Adjoint::Full(bar)) => {
                bar.as_slice().iter().zip(a.as_slice()).map(|(bar, a)| bar.to_f64() * a.to_f64()).sum()
            }
            _ => unreachable!("an adjoint has the form of its diffusion"),
        };
        direct + adjoint.trace * self.trace + 2.0 * adjoint.trace2 * self.trace2
    }

    /// Adds environment `e`'s share to the gradient of the noise and of its log-scales.
    pub(super) fn backward(&self, adjoint: &DiffusionAdjoint<T>, e: usize, gradient: &mut Parameters<T>) {
        let mut scale_row = gradient.log_scale.as_mut().map(|s| s.row_mut(e));
        match (&self.form, &adjoint.form, &mut gradient.noise) {
            (Form::Diagonal { alpha }, Adjoint::Diagonal(bar), Noise::Diagonal { log_noise }) => {
                for i in 0..bar.len() {
                    let alpha = alpha[i].to_f64();
                    // α = exp(2 (log_noise + log_scale)), ∂tr a/∂α = 1, ∂tr a²/∂α = 2α.
                    let share =
                        T::from_f64(2.0 * alpha * (bar[i] + adjoint.trace + 2.0 * alpha * adjoint.trace2));
                    log_noise[i] += share;
                    if let Some(row) = &mut scale_row {
                        row[i] = share;
                    }
                }
            }
            (Form::Full { scale, sigma, a }, Adjoint::Full(bar), Noise::Full { noise }) => {
                let d = a.rows();
                // ∂/∂σ = (A + Aᵀ) σ where A = ∂/∂a, with ∂tr a/∂a = I and ∂tr a²/∂a = 2a.
                let symmetric = Matrix::from_fn(d, d, |i, j| {
                    let traces = if i == j { T::from_f64(2.0 * adjoint.trace) } else { T::ZERO };
                    bar[(i, j)] + bar[(j, i)] + traces + T::from_f64(4.0 * adjoint.trace2) * a[(i, j)]
                });
                let mut sigma_bar = Matrix::full(d, d, T::ZERO);
                product(sigma_bar.view_mut(), symmetric.view(), sigma.view());
                for i in 0..d {
                    let (bar, sigma) = (sigma_bar.row(i), sigma.row(i));
                    for (noise, bar) in noise.row_mut(i).iter_mut().zip(bar) {
                        *noise += scale[i] * *bar;
                    }
                    if let Some(row) = &mut scale_row {
                        row[i] =
                            T::from_f64(bar.iter().zip(sigma).map(|(b, s)| b.to_f64() * s.to_f64()).sum());
                    }
                }
            }
            _ => unreachable!("a gradient has the form of its parameters"),
        }
    }
}
