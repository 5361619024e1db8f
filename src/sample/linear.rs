//! The Gaussian law of a linear model under an intervention: of a diffusion, of structural equations, or averaged over several.

use super::{Gaussian, Intervention, stationary_mean};
use crate::model::{LawKind, Model, Parameters};
use crate::numeric::dense::Lu;
use crate::numeric::matmul::product;
use crate::{Error, Matrix, Result};
use faer::Mat;

/// The parts of a linear model, with their shares in its law.
pub(crate) struct LinearParts<'a>(Vec<Part<'a>>);

struct Part<'a> {
    weight: f64,
    law: LawKind,
    parameters: &'a Parameters<f64>,
    weights: &'a Matrix<f64>,
}

impl<'a> LinearParts<'a> {
    /// Of a linear model, or an average of linear models.
    pub(crate) fn of(model: &'a Model) -> Result<Self> {
        let part = |(weight, law, parameters): (f64, LawKind, &'a Parameters<f64>)| {
            let weights = parameters.drift.linear_weights()?;
            Ok(Part { weight, law, parameters, weights })
        };
        model.parts().into_iter().map(part).collect::<Result<_>>().map(LinearParts)
    }

    /// The mean under an intervention; not finite where a matrix is singular.
    pub(crate) fn mean(&self, intervention: &Intervention) -> Vec<f64> {
        let mut sum = vec![0.0; intervention.shift.len()];
        for part in &self.0 {
            let mean = stationary_mean(part.weights, &intervention.biases(part.parameters));
            sum.iter_mut().zip(mean).for_each(|(sum, mean)| *sum += part.weight * mean);
        }
        sum
    }

    /// Mean and covariance under an intervention.
    pub(crate) fn gaussian(&self, intervention: &Intervention) -> Result<Gaussian> {
        if let [part] = self.0.as_slice() {
            return part.gaussian(intervention);
        }
        let d = intervention.shift.len();
        let mut sum = Gaussian { mean: vec![0.0; d], covariance: Matrix::full(d, d, 0.0) };
        for part in &self.0 {
            let Gaussian { mean, covariance } = part.gaussian(intervention)?;
            sum.mean.iter_mut().zip(mean).for_each(|(sum, value)| *sum += part.weight * value);
            let entries = sum.covariance.as_mut_slice().iter_mut().zip(covariance.as_slice());
            entries.for_each(|(sum, value)| *sum += part.weight * value);
        }
        Ok(sum)
    }

    /// Column 0: the mean under an intervention. Then one column for each target: how means answer to a shift of 1.
    pub(crate) fn response(&self, base: &Intervention, targets: &[usize]) -> Mat<f64> {
        let d = base.shift.len();
        let mut sum = Mat::zeros(d, targets.len() + 1);
        for part in &self.0 {
            let biases = base.biases(part.parameters);
            let mut columns = Mat::from_fn(d, targets.len() + 1, |i, c| match c {
                0 => -biases[i],
                c => -f64::from(u8::from(i == targets[c - 1])),
            });
            Lu::of(part.weights.view()).solve_in_place(columns.as_mut());
            for c in 0..=targets.len() {
                (0..d).for_each(|i| sum[(i, c)] += part.weight * columns[(i, c)]);
            }
        }
        sum
    }
}

impl Part<'_> {
    fn gaussian(&self, intervention: &Intervention) -> Result<Gaussian> {
        let biases = intervention.biases(self.parameters);
        let a = intervention.diffusion(self.parameters)?;
        match self.law {
            LawKind::Diffusion => Gaussian::stationary(self.weights, &biases, &a),
            LawKind::Structural => resting(self.weights, &biases, &a),
        }
    }
}

/// The law of x = −W⁻¹ (b + noise) with noise of covariance a: N(−W⁻¹ b, W⁻¹ a W⁻ᵀ).
fn resting(weights: &Matrix<f64>, bias: &[f64], a: &Matrix<f64>) -> Result<Gaussian> {
    let d = bias.len();
    let mean = stationary_mean(weights, bias);
    let inverse = Lu::of(weights.view()).inverse();
    let (mut half, mut whole) = (Mat::zeros(d, d), Mat::zeros(d, d));
    product(half.as_mut(), inverse.as_ref(), a.view());
    product(whole.as_mut(), half.as_ref(), inverse.transpose());
    let covariance = Matrix::from_fn(d, d, |i, j| 0.5 * (whole[(i, j)] + whole[(j, i)]));
    if mean.iter().chain(covariance.as_slice()).any(|value| !value.is_finite()) {
        return Err(Error::NonFinite(
            "the structural equations have no solution: their matrix is singular, expected one with an inverse".into(),
        ));
    }
    Ok(Gaussian { mean, covariance })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Drift, Member, Noise};

    fn parameters(a_on_b: f64, b_on_a: f64) -> Parameters<f64> {
        Parameters {
            drift: Drift::linear(Matrix::from_rows(2, 2, vec![-1.0, b_on_a, a_on_b, -1.0])),
            biases: vec![1.0, 0.0],
            noise: Noise::Diagonal { log_noise: vec![0.0, 2f64.ln()] },
            shift: None,
            log_scale: None,
        }
    }

    fn structural(parameters: Parameters<f64>) -> Model {
        Model { law: LawKind::Structural, ..Model::new(parameters) }
    }

    #[test]
    fn structural_equations_have_their_own_covariance() {
        // x = 1 + e, y = 0.5 x + 2 f: var x = 1, cov = 0.5, var y = 0.25 + 4.
        let model = structural(parameters(0.5, 0.0));
        let law = LinearParts::of(&model).unwrap().gaussian(&Intervention::none(2)).unwrap();
        for (found, expected) in law.mean.iter().zip([1.0, 0.5]) {
            assert!((found - expected).abs() < 1e-14);
        }
        for (found, expected) in law.covariance.as_slice().iter().zip([1.0, 0.5, 0.5, 4.25]) {
            assert!((found - expected).abs() < 1e-14, "{found} {expected}");
        }
        // A diffusion with the same drift has the same mean and another covariance.
        let diffusion = Model::new(parameters(0.5, 0.0));
        let other = LinearParts::of(&diffusion).unwrap().gaussian(&Intervention::none(2)).unwrap();
        assert_eq!(other.mean, law.mean);
        assert!((other.covariance[(0, 0)] - 0.5).abs() < 1e-14);
        let singular = structural(parameters(1.0, 1.0));
        let error = LinearParts::of(&singular).unwrap().gaussian(&Intervention::none(2)).unwrap_err();
        assert!(matches!(error, Error::NonFinite(_)), "{error}");
    }

    #[test]
    fn an_ensemble_averages_means_and_covariances() {
        let laws = [(0.25, LawKind::Diffusion, 0.5), (0.75, LawKind::Structural, -0.4)];
        let members: Vec<Member> = laws
            .map(|(weight, law, effect)| Member { weight, law, parameters: parameters(effect, 0.3) })
            .to_vec();
        let model = Model { members, ..Model::new(parameters(0.0, 0.0)) };
        let parts = LinearParts::of(&model).unwrap();
        let mut moved = Intervention::none(2);
        moved.add_shift(0, 2.0).unwrap();
        moved.multiply_noise(1, 3.0).unwrap();
        let found = parts.gaussian(&moved).unwrap();
        let alone: Vec<Gaussian> =
            (0..2).map(|k| LinearParts::of(&model.member(k)).unwrap().gaussian(&moved).unwrap()).collect();
        for i in 0..2 {
            let mean = 0.25 * alone[0].mean[i] + 0.75 * alone[1].mean[i];
            assert!((found.mean[i] - mean).abs() < 1e-14);
            for j in 0..2 {
                let entry = 0.25 * alone[0].covariance[(i, j)] + 0.75 * alone[1].covariance[(i, j)];
                assert!((found.covariance[(i, j)] - entry).abs() < 1e-13);
            }
        }
        assert_eq!(parts.mean(&moved), found.mean);
        // The answer to a shift of 1 is half of what 2 do.
        let response = parts.response(&Intervention::none(2), &[0]);
        for i in 0..2 {
            assert!((response[(i, 0)] + 2.0 * response[(i, 1)] - found.mean[i]).abs() < 1e-13);
        }
    }
}
