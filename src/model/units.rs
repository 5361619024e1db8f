//! Parameters in standard units become parameters in the data's.
//!
//! With x = m + s z, a diffusion `dz = b(z)dt + σ(z)dB` is `dx_j = s_j b_j(z)dt + s_j σ_j(z)dB`.

use super::{Basis, Parameters};
use crate::data::Standardization;
use crate::{Matrix, Result};
use std::sync::Arc;

impl Parameters<f64> {
    /// The same diffusion of x = m + s z, given that of z. `functions` are those of x, which a drift of given functions needs
    /// ([`Basis::with_standard`]). An error if the drift has no form in other units.
    pub fn in_units_of(
        &self,
        units: &Standardization,
        functions: Option<&Arc<Basis>>,
    ) -> Result<Parameters<f64>> {
        let scale = &units.scale;
        let mut biases: Vec<f64> = self.biases.iter().zip(scale).map(|(bias, s)| s * bias).collect();
        let drift = self.drift.dynamics().in_units_of(units, &mut biases, functions)?;
        let noise = self.noise.in_units_of(scale);
        let shift = self
            .shift
            .as_ref()
            .map(|shift| Matrix::from_fn(shift.rows(), self.dim(), |e, j| scale[j] * shift[(e, j)]));
        Ok(Parameters { drift, biases, noise, shift, log_scale: self.log_scale.clone() })
    }

    /// The gradient by parameters θ, given the one by `θ.in_units_of(units, None)`, which this is. An error for drifts that no engine
    /// has a gradient of.
    pub(crate) fn gradient_before(&self, units: &Standardization) -> Result<Parameters<f64>> {
        let (d, scale) = (self.dim(), &units.scale);
        let drift = self.drift.dynamics().gradient_before(units, &self.biases)?;
        let noise = self.noise.gradient_before(scale)?;
        let shift = self.shift.as_ref();
        Ok(Parameters {
            drift,
            biases: self.biases.iter().zip(scale).map(|(bias, s)| s * bias).collect(),
            noise,
            shift: shift.map(|shift| Matrix::from_fn(shift.rows(), d, |e, j| scale[j] * shift[(e, j)])),
            log_scale: self.log_scale.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Dataset;

    fn units() -> Standardization {
        Standardization { mean: vec![40.0, -0.3], scale: vec![5.0, 0.01] }
    }

    #[test]
    fn given_functions_say_the_same_in_both_units() {
        let units = units();
        let mut samples = Matrix::from_fn(60, 2, |i, j| (0.7 * i as f64 + 2.0 * j as f64).sin());
        units.undo(&mut samples);
        let data = Dataset::from_environments(vec![samples]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("functions.txt");
        std::fs::write(&file, "x0\ntanh(x0/40)*x1").unwrap();
        for features in ["polynomial:3", "rbf:2", file.to_str().unwrap()] {
            let (own, standard) =
                Basis::with_standard(&features.parse().unwrap(), "1, self^2", &data, &units).unwrap();
            for z in [[0.3, -0.8], [-1.2, 0.1]] {
                let x = [units.mean[0] + units.scale[0] * z[0], units.mean[1] + units.scale[1] * z[1]];
                for p in 0..own.features() {
                    let (found, expected) = (own.feature_at(p, &x), standard.feature_at(p, &z));
                    assert!(
                        (found - expected).abs() <= 1e-9 * expected.abs().max(own.scales[p]),
                        "{features} {p}"
                    );
                    assert!((own.scales[p] / standard.scales[p] - 1.0).abs() < 1e-9);
                }
                for j in 0..2 {
                    assert!(
                        (own.diffusion_at(1, j, &x) / standard.diffusion_at(1, j, &z) - 1.0).abs() < 1e-12
                    );
                }
            }
        }
        let (own, _) = Basis::with_standard(&"polynomial:2".parse().unwrap(), "1", &data, &units).unwrap();
        assert_eq!(own.feature(0), "(x0 - 40.0)");
        assert_eq!(own.feature(4), "(x1 + 0.3)^2");
    }
}
