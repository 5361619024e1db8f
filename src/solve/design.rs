//! The design of a fit: the functions in which drift and noise are linear.

use crate::data::Dataset;
use crate::model::{Basis, BasisDrift, Drift, LinearDrift, Noise, Parameters};
use crate::{Error, Matrix, Result};
use std::sync::Arc;

/// The functions whose coefficients are fitted. The last function of the drift is always the constant 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Design {
    /// b = W x + biases, a constant. The speed is fixed by w_jj = −1.
    Linear,
    /// Drift and noise are sums of given functions; features are divided by their scales.
    Basis {
        /// The functions.
        basis: Arc<Basis>,
        /// The coefficients that fix the speed.
        speed: Arc<Speed>,
    },
}

/// Scaling drift and diffusion by the same factor does not change the law, so every variable's speed is fixed, as w_jj = −1 does
/// for the linear model. Over the data, the part of the drift that depends only on x_j reverts it at the rate 1: −mean b_own(x_j)
/// (x_j − m_j) = mean (x_j − m_j)² with m the means of each environment. The coefficient of one of these functions, the pivot,
/// follows from the others. Without such functions, the condition applies to the whole drift.
#[derive(Clone, Debug, PartialEq)]
pub struct Speed {
    /// The pivot of each variable.
    pub(super) pivots: Vec<usize>,
    /// Its coefficient if all others are 0.
    pub(super) alone: Vec<f64>,
    /// The amount by which a function's coefficient lowers the pivot's, d × functions; 0 at the pivot.
    pub(super) slopes: Matrix<f64>,
}

impl Design {
    /// Given functions, with the speed fixed on this data.
    pub fn basis(basis: Arc<Basis>, data: &Dataset) -> Result<Design> {
        Design::basis_knowing(basis, data, None)
    }

    /// The same with prior knowledge: row j, column i of `multipliers` is infinity where i has no effect on j.
    pub fn basis_knowing(
        basis: Arc<Basis>,
        data: &Dataset,
        multipliers: Option<&Matrix<f64>>,
    ) -> Result<Design> {
        let values = scaled_features(&basis, data.samples());
        let (d, count) = (data.dim(), basis.features());
        // mean f_p (x_j − m_j), and the mean square of x_j − m_j.
        let mut moments = Matrix::full(d, count, 0.0);
        let mut squares = vec![0.0; d];
        for e in 0..data.environments() {
            let means = data.means(e);
            for i in data.rows(e) {
                for j in 0..d {
                    let away = data.samples()[(i, j)] - means[j];
                    squares[j] += away * away;
                    let row = moments.row_mut(j).iter_mut();
                    row.zip(values.row(i)).for_each(|(moment, value)| *moment += away * value);
                }
            }
        }
        let (mut pivots, mut alone) = (Vec::new(), Vec::new());
        let mut slopes = Matrix::full(d, count, 0.0);
        for j in 0..d {
            let any_own = (0..count).any(|p| basis.is_own(p, j));
            let allowed =
                |p: usize| multipliers.is_none_or(|known| multiplier(&basis, p, j, known.row(j)).is_finite());
            let counts = |p: &usize| basis.is_own(*p, j) == any_own && allowed(*p);
            let pivot = (0..count)
                .filter(counts)
                .max_by(|&a, &b| moments[(j, a)].abs().total_cmp(&moments[(j, b)].abs()));
            match pivot.filter(|&p| moments[(j, p)] != 0.0) {
                Some(p) => {
                    pivots.push(p);
                    alone.push(-squares[j] / moments[(j, p)]);
                    for q in (0..count).filter(counts).filter(|&q| q != p) {
                        slopes[(j, q)] = moments[(j, q)] / moments[(j, p)];
                    }
                }
                None => {
                    return Err(Error::invalid(format!(
                        "no function of the drift changes with variable '{}', expected one that can bring it back",
                        data.names()[j]
                    )));
                }
            }
        }
        Ok(Design::Basis { basis, speed: Arc::new(Speed { pivots, alone, slopes }) })
    }

    /// Drift and noise of `d` variables, given the coefficients of the drift's functions but the constant, and of the noise's.
    pub(super) fn drift_and_noise(
        &self,
        d: usize,
        coefficient: impl Fn(usize, usize) -> f64,
        amount: impl Fn(usize, usize) -> f64,
    ) -> (Drift<f64>, Noise<f64>) {
        match self {
            Design::Linear => {
                let log_noise = (0..d).map(|j| 0.5 * amount(j, 0).ln()).collect();
                (Drift::linear(Matrix::from_fn(d, d, coefficient)), Noise::Diagonal { log_noise })
            }
            Design::Basis { basis, .. } => {
                let scaled = |j: usize, p: usize| coefficient(j, p) / basis.scales[p];
                let coefficients = Matrix::from_fn(d, basis.features(), scaled);
                let amounts = Matrix::from_fn(d, basis.amounts(), amount);
                (BasisDrift { basis: basis.clone(), coefficients }.into(), Noise::Basis { amounts })
            }
        }
    }

    /// The coefficients of the drift's functions but the constant, d × p, and of the noise's, d × m: the way back from
    /// [`drift_and_noise`](Self::drift_and_noise).
    pub(super) fn coefficients(&self, parameters: &Parameters<f64>) -> Result<(Matrix<f64>, Matrix<f64>)> {
        let d = parameters.dim();
        parameters.check_shapes()?;
        match (self, &parameters.drift, &parameters.noise) {
            (Design::Linear, Drift::Linear(LinearDrift { weights }), Noise::Diagonal { log_noise }) => {
                Ok((weights.clone(), Matrix::from_fn(d, 1, |j, _| (2.0 * log_noise[j]).exp())))
            }
            (
                Design::Basis { basis, .. },
                Drift::Basis(BasisDrift { basis: other, coefficients }),
                Noise::Basis { amounts },
            ) if Arc::ptr_eq(basis, other) || basis == other => {
                let scaled = |j: usize, p: usize| coefficients[(j, p)] * basis.scales[p];
                Ok((Matrix::from_fn(d, basis.features(), scaled), amounts.clone()))
            }
            _ => Err(Error::invalid(format!(
                "the model has the drift {} of {d} variables, expected the form that is fitted",
                parameters.drift.name()
            ))),
        }
    }

    /// The unit of variable j in sums over variables.
    pub(super) fn unit(&self, j: usize) -> f64 {
        match self {
            Design::Linear => 1.0,
            Design::Basis { basis, .. } => basis.spread[j],
        }
    }

    /// Whether function p depends on nothing but variable j. Of the linear drift that one is fixed.
    pub(super) fn is_own(&self, p: usize, j: usize) -> bool {
        match self {
            Design::Linear => p == j,
            Design::Basis { basis, .. } => basis.is_own(p, j),
        }
    }

    /// The multiplier of the penalty of function p in row j, given the multiplier of each variable's effect on j.
    pub(super) fn multiplier(&self, p: usize, j: usize, known: &[f64]) -> f64 {
        match self {
            Design::Linear => known[p],
            Design::Basis { basis, .. } => multiplier(basis, p, j, known),
        }
    }

    /// The number of functions of a drift of `dim` variables, including the constant.
    pub(crate) fn features(&self, dim: usize) -> usize {
        1 + match self {
            Design::Linear => dim,
            Design::Basis { basis, .. } => basis.features(),
        }
    }

    /// The number of functions of a variable's noise.
    pub(super) fn amounts(&self) -> usize {
        match self {
            Design::Linear => 1,
            Design::Basis { basis, .. } => basis.amounts(),
        }
    }

    /// The drift's functions of every row except the constant; none if they are the rows themselves.
    pub(super) fn functions(&self, x: &Matrix<f64>) -> Option<Matrix<f64>> {
        match self {
            Design::Linear => None,
            Design::Basis { basis, .. } => Some(scaled_features(basis, x)),
        }
    }

    /// The noise's functions of every row, those of a variable side by side; none if all are 1.
    pub(super) fn diffusion(&self, x: &Matrix<f64>) -> Option<Matrix<f64>> {
        match self {
            Design::Basis { basis, .. } if !basis.has_constant_diffusion() => Some(basis.diffusion_of(x)),
            _ => None,
        }
    }
}

/// The largest multiplier of the other variables that function p depends on: a product with one that has no effect has none.
fn multiplier(basis: &Basis, p: usize, j: usize, known: &[f64]) -> f64 {
    basis.variables(p).iter().filter(|&&i| i != j).fold(0.0, |largest: f64, &i| largest.max(known[i]))
}

fn scaled_features(basis: &Basis, x: &Matrix<f64>) -> Matrix<f64> {
    let mut values = basis.features_of(x);
    for i in 0..values.rows() {
        values.row_mut(i).iter_mut().zip(&basis.scales).for_each(|(value, scale)| *value /= scale);
    }
    values
}
