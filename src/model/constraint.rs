//! What fitting must leave alone: the speed of the process, and interventions outside their targets.
//!
//! A drift and diffusion scaled by the same factor have the same stationary law (the paper's section on
//! identifiability), so one number per variable is fixed: w_jj = −1 for the linear model; for the MLP, whose
//! reversion −x_j is part of its form, the own input weight, 0.

use super::Parameters;
use super::family::InputWeightsMut;
use crate::{Matrix, Scalar};

impl<T: Scalar> Parameters<T> {
    /// Sets every fixed entry to its value: the speed's, and 0 for shifts and log-scales outside `targets`.
    ///
    /// # Panics
    /// If `targets` is not E × d.
    pub fn impose_fixed(&mut self, targets: &Matrix<bool>) {
        self.overwrite_fixed(|own| own, targets);
    }

    /// Sets a gradient to 0 at every entry that [`impose_fixed`](Self::impose_fixed) fixes.
    ///
    /// # Panics
    /// If `targets` is not E × d.
    pub fn mask_fixed(&mut self, targets: &Matrix<bool>) {
        self.overwrite_fixed(|_| T::ZERO, targets);
    }

    /// `value` is given what a variable's weight on itself is held at. A drift without such weights fixes its speed by its noise.
    fn overwrite_fixed(&mut self, value: impl Fn(T) -> T, targets: &Matrix<bool>) {
        if let Some(InputWeightsMut { weights, units, own }) = self.drift.arrays_mut().inputs_mut() {
            (0..weights.rows()).for_each(|unit| weights[(unit, unit / units)] = value(own));
        }
        for table in [&mut self.shift, &mut self.log_scale].into_iter().flatten() {
            assert_eq!(
                (table.rows(), table.cols()),
                (targets.rows(), targets.cols()),
                "one target per entry"
            );
            for (value, target) in table.as_mut_slice().iter_mut().zip(targets.as_slice()) {
                if !target {
                    *value = T::ZERO;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Activation, Drift, MlpDrift, Noise};

    fn ones(drift: Drift<f64>) -> Parameters<f64> {
        Parameters {
            drift,
            biases: vec![1.0; 2],
            noise: Noise::Diagonal { log_noise: vec![1.0; 2] },
            shift: Some(Matrix::full(2, 2, 1.0)),
            log_scale: Some(Matrix::full(2, 2, 1.0)),
        }
    }

    #[test]
    fn only_fixed_entries_change() {
        let targets = Matrix::from_rows(2, 2, vec![false, false, false, true]);
        let mut linear = ones(Drift::linear(Matrix::full(2, 2, 1.0)));
        linear.impose_fixed(&targets);
        let weights = linear.drift.linear_weights().unwrap();
        assert_eq!(weights.as_slice(), [-1.0, 1.0, 1.0, -1.0]);
        assert_eq!(linear.shift.as_ref().unwrap().as_slice(), [0.0, 0.0, 0.0, 1.0]);
        assert_eq!(linear.log_scale.as_ref().unwrap().as_slice(), [0.0, 0.0, 0.0, 1.0]);
        assert_eq!(linear.biases, [1.0, 1.0]);
        linear.mask_fixed(&targets);
        let weights = linear.drift.linear_weights().unwrap();
        assert_eq!(weights.as_slice(), [0.0, 1.0, 1.0, 0.0]);
    }

    #[test]
    fn own_inputs_of_every_unit_are_fixed() {
        let mut mlp = ones(Drift::Mlp(MlpDrift {
            activation: Activation::Tanh,
            hidden_weights: Matrix::full(4, 2, 1.0),
            hidden_biases: Matrix::full(2, 2, 1.0),
            output_weights: Matrix::full(2, 2, 1.0),
        }));
        mlp.impose_fixed(&Matrix::full(2, 2, true));
        let Drift::Mlp(MlpDrift { hidden_weights, .. }) = &mlp.drift else { unreachable!() };
        assert_eq!(hidden_weights.as_slice(), [0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0]);
    }
}
