//! LLC: linear cyclic equations from the covariances of environments with known targets.
//!
//! Hyttinen, Eberhardt and Hoyer (2012), "Learning linear cyclic causal models with latent variables". An intervention on
//! i cuts the equation of i, so in an environment with targets J every effect of i ∈ J on a variable u ∉ J goes along
//! paths through the other observed variables:
//!
//! ```text
//! t(i→u) = b_ui + Σ_{k ∉ J, k ≠ u} t(i→k) b_uk
//! ```
//!
//! With targets that are independent of each other and have variance 1, the total effect t(i→u) is the covariance C_iu in
//! that environment. The published comparison (and the NODAGS one before it) puts the covariances of the standardised
//! samples in these equations as they are, divided by n and not by the variance of i, and so does this module. Shift
//! interventions fit that description badly, which belongs to the comparison: see `a_shift_is_no_surgical_intervention` in
//! the tests.
//!
//! The equations of different u share no unknown. Row u of the effects minimises
//!
//! ```text
//! ‖T_u b − t_u‖² + λ Σ_k |b_k|
//! ```
//!
//! a sum of squares, not a mean, over all pairs of an environment and one of its targets. The published code minimises the
//! same function with BFGS, which has no exact zeros; this module finds the minimum itself. With λ = 0 it is the solution of
//! least norm. Environments count separately even if their targets are the same. One without targets has no equations.
//!
//! The noise variance of u is the mean of ((I − B) C (I − B)ᵀ)_uu over the environments that do not intervene on u, each
//! with the same weight. Intercepts are 0: covariances say nothing about them, and the data are standardised.
//!
//! | setting | SDE-ER | SDE-SF | SCM-ER | SCM-SF | SERGIO-ER | SERGIO-SF |
//! |---|---|---|---|---|---|---|
//! | λ | 0.1 | 0.1 | 1 | 1 | 10 | 10 |
//!
//! The method draws nothing: its result does not depend on the seed.

mod equations;
mod lasso;
mod least_norm;
#[cfg(test)]
mod tests;

use super::LinearEquations;
use crate::data::Dataset;
use crate::{Error, Matrix, Progress, Result};
use equations::{TotalEffects, covariance, noise_variance};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// The settings of LLC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LlcSettings {
    /// λ, the penalty on the sum of absolute effects. 0 asks for least squares.
    pub lambda: f64,
}

impl Default for LlcSettings {
    fn default() -> Self {
        LlcSettings { lambda: 0.1 }
    }
}

impl LlcSettings {
    /// Checks every setting alone.
    pub(crate) fn check(&self) -> Result<()> {
        if !(self.lambda.is_finite() && self.lambda >= 0.0) {
            let problem = format!("lambda is {}, expected a finite number of at least 0", self.lambda);
            return Err(Error::invalid(problem));
        }
        Ok(())
    }

    /// The units of progress of a fit: one per covariance and one per equation.
    pub(crate) fn work(&self, data: &Dataset) -> u64 {
        (data.environments() + data.dim()) as u64
    }
}

/// Fits LLC to standardised data. The seed has no influence.
pub(crate) fn fit(
    data: &Dataset,
    settings: &LlcSettings,
    _seed: u64,
    progress: &Progress,
) -> Result<LinearEquations> {
    settings.check()?;
    let covariances: Vec<Matrix<f64>> = (0..data.environments())
        .map(|e| progress.add(1).map(|()| covariance(data, e)))
        .collect::<Result<_>>()?;
    let equations = solve(&covariances, data.targets(), settings.lambda, progress)?;
    progress.set(settings.work(data))?;
    Ok(equations)
}

/// The equations that best explain the covariance of each environment.
fn solve(
    covariances: &[Matrix<f64>],
    targets: &Matrix<bool>,
    lambda: f64,
    progress: &Progress,
) -> Result<LinearEquations> {
    let d = targets.cols();
    let rows: Vec<(Vec<f64>, f64)> = (0..d)
        .into_par_iter()
        .map(|u| {
            let system = TotalEffects::of(covariances, targets, u);
            let effects = match lambda {
                0.0 => least_norm::solution(system.coefficients.view(), &system.values)?,
                _ => lasso::minimum(&system.coefficients, &system.values, lambda, progress)?,
            };
            let effects = system.with_own(&effects);
            let variance = noise_variance(covariances, targets, u, &effects);
            progress.add(1)?;
            Ok((effects, variance))
        })
        .collect::<Result<_>>()?;
    let effects = Matrix::from_fn(d, d, |u, i| rows[u].0[i]);
    let variances: Vec<f64> = rows.iter().map(|row| row.1).collect();
    let numbers = effects.as_slice().iter().chain(&variances);
    if let Some(number) = numbers.into_iter().find(|number| !number.is_finite()) {
        return Err(Error::NonFinite(format!(
            "LLC found the coefficient {number}, expected finite ones: the values of the data are too large"
        )));
    }
    Ok(LinearEquations { effects, intercepts: vec![0.0; d], variances })
}
