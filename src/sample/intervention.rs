//! What an intervention does to a diffusion.

use crate::data::Standardization;
use crate::model::{Model, Noise, Parameters};
use crate::{Error, Matrix, Result};

/// An intervention e: b_e = b + shift, σ_e = diag(exp(log_scale)) σ, in the model's units.
#[derive(Clone, Debug, PartialEq)]
pub struct Intervention {
    /// d, added to the drift.
    pub shift: Vec<f64>,
    /// d, logarithms of what multiplies the rows of σ.
    pub log_scale: Vec<f64>,
}

impl Intervention {
    /// No intervention on any of `dim` variables.
    pub fn none(dim: usize) -> Self {
        Intervention { shift: vec![0.0; dim], log_scale: vec![0.0; dim] }
    }

    /// The fitted intervention of training environment `e`. Environments without fitted interventions have none.
    pub fn of_environment(model: &Model, e: usize) -> Result<Self> {
        let Parameters { shift, log_scale, .. } = &model.parameters;
        let rows = [shift.as_ref().map(Matrix::rows), log_scale.as_ref().map(Matrix::rows)];
        let targets = model.targets.as_ref().map(Matrix::rows);
        let environments = rows.into_iter().flatten().chain(targets).max().unwrap_or(1);
        if e >= environments {
            return Err(Error::invalid(format!(
                "environment {e} is unknown, expected a number below {environments}, the model's environments"
            )));
        }
        let row = |matrix: &Option<Matrix<f64>>| match matrix {
            Some(matrix) if e < matrix.rows() => matrix.row(e).to_vec(),
            _ => vec![0.0; model.dim()],
        };
        Ok(Intervention { shift: row(shift), log_scale: row(log_scale) })
    }

    /// The same intervention on a model whose parameters are in the units of `units`, given one in the data's.
    pub fn in_standard_units(&self, units: &Standardization) -> Self {
        let shift = self.shift.iter().zip(&units.scale).map(|(shift, scale)| shift / scale).collect();
        Intervention { shift, log_scale: self.log_scale.clone() }
    }

    /// The same intervention on a model in the data's units, given one in those of `units`.
    pub fn in_data_units(&self, units: &Standardization) -> Self {
        let shift = self.shift.iter().zip(&units.scale).map(|(shift, scale)| shift * scale).collect();
        Intervention { shift, log_scale: self.log_scale.clone() }
    }

    /// Adds `by` to the drift of one variable, on top of what is there.
    pub fn add_shift(&mut self, variable: usize, by: f64) -> Result<()> {
        self.check_variable(variable)?;
        if !by.is_finite() {
            return Err(Error::invalid(format!("a shift is {by}, expected a finite number")));
        }
        self.shift[variable] += by;
        Ok(())
    }

    /// Multiplies the noise of one variable by `factor`, on top of what is there.
    pub fn multiply_noise(&mut self, variable: usize, factor: f64) -> Result<()> {
        self.check_variable(variable)?;
        if !(factor > 0.0 && factor.is_finite()) {
            return Err(Error::invalid(format!("a scale is {factor}, expected a finite number above 0")));
        }
        self.log_scale[variable] += factor.ln();
        Ok(())
    }

    /// The drift's constant under this intervention: biases + shift.
    pub fn biases(&self, parameters: &Parameters<f64>) -> Vec<f64> {
        parameters.biases.iter().zip(&self.shift).map(|(bias, shift)| bias + shift).collect()
    }

    /// σ_e, of the same form as the model's σ.
    pub fn noise(&self, parameters: &Parameters<f64>) -> Noise<f64> {
        parameters.noise.scaled(&self.log_scale)
    }

    /// a = σ_e σ_eᵀ, d × d; in the middle of the data if it depends on the state.
    pub fn diffusion(&self, parameters: &Parameters<f64>) -> Result<Matrix<f64>> {
        let d = parameters.dim();
        Ok(match self.noise(parameters) {
            Noise::Diagonal { log_noise } => {
                Matrix::from_fn(d, d, |i, j| if i == j { (2.0 * log_noise[i]).exp() } else { 0.0 })
            }
            Noise::Full { noise } => {
                let mut a = Matrix::full(d, d, 0.0);
                crate::numeric::matmul::product(a.view_mut(), noise.view(), noise.view().transpose());
                a
            }
            Noise::Basis { amounts } => {
                let variances = parameters.drift.dynamics().variances(&amounts)?;
                Matrix::from_fn(d, d, |i, j| if i == j { variances[i] } else { 0.0 })
            }
        })
    }

    /// Checks that this has one entry for each variable of the model.
    pub(crate) fn check_fits(&self, parameters: &Parameters<f64>) -> Result<()> {
        let d = parameters.dim();
        if self.shift.len() != d || self.log_scale.len() != d {
            return Err(Error::invalid(format!(
                "the intervention has {} shifts and {} scales, expected {d} like the model's variables",
                self.shift.len(),
                self.log_scale.len()
            )));
        }
        Ok(())
    }

    fn check_variable(&self, variable: usize) -> Result<()> {
        let d = self.shift.len().min(self.log_scale.len());
        if variable >= d {
            return Err(Error::invalid(format!(
                "variable {variable} is unknown, expected a number below {d}"
            )));
        }
        Ok(())
    }
}
