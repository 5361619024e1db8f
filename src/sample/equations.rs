//! Samples of structural equations by networks: every row draws its noise and solves its equations.

use super::{Intervention, room};
use crate::model::{Drift, Model, RowSpace};
use crate::{Error, Matrix, Result};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// Rows that are solved side by side.
const ROWS: usize = 64;
/// A row is solved if no variable changes by more than this share of 1 plus its size.
const TOLERANCE: f64 = 1e-10;
/// Sweeps over all variables at most. Equations without loops take two, contractions by 0.9 take 220.
const SWEEPS: usize = 1000;

/// `n` samples under an intervention, in the model's units, by repeated substitution. It converges without loops, and where the
/// means contract.
pub(super) fn draw(model: &Model, intervention: &Intervention, n: usize, seed: u64) -> Result<Matrix<f64>> {
    let Drift::Equations(drift) = &model.parameters.drift else {
        return Err(model.parameters.drift.without("equations that repeated substitution solves"));
    };
    let (d, biases) = (model.dim(), intervention.biases(&model.parameters));
    let log_noise = intervention.noise(&model.parameters).log_noise()?.to_vec();
    let equations = drift.at_rows();
    let order = equations.order();
    let mut samples = room(n, d)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut space = RowSpace::default();
    for block in samples.as_mut_slice().chunks_mut(ROWS * d) {
        let rows = block.len() / d;
        // Row by row, so that the first samples do not depend on how many there are.
        let mut noise = vec![0.0; d * rows];
        for i in 0..rows {
            (0..d).for_each(|j| noise[j * rows + i] = StandardNormal.sample(&mut rng));
        }
        let (mut x, mut mean, mut log_scale) = (vec![0.0; d * rows], vec![0.0; rows], vec![0.0; rows]);
        let mut sweeps = 0;
        loop {
            let mut solved = true;
            for &j in &order {
                equations.evaluate(j, &x, &mut mean, &mut log_scale, &mut space);
                for i in 0..rows {
                    let at = j * rows + i;
                    let now = mean[i] + biases[j] + (log_scale[i] + log_noise[j]).exp() * noise[at];
                    // A NaN is no solution.
                    solved &= (now - x[at]).abs() <= TOLERANCE * (1.0 + now.abs());
                    x[at] = now;
                }
            }
            if solved {
                break;
            }
            sweeps += 1;
            if sweeps == SWEEPS || x.iter().any(|x| !x.is_finite()) {
                return Err(Error::NonFinite(
                    "the structural equations have no solution that repeated substitution finds, expected equations without loops \
                     or with means that contract"
                        .into(),
                ));
            }
        }
        for (i, row) in block.chunks_exact_mut(d).enumerate() {
            row.iter_mut().enumerate().for_each(|(j, value)| *value = x[j * rows + i]);
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Progress;
    use crate::model::{EquationsDrift, LawKind, Noise, Parameters};
    use crate::numeric::statistics::moments;
    use crate::sample::{Draw, SampleSettings, Sampler};

    /// x = a + ε, y = gain · max(x, 0) + 2 e, and x sees y with the weight `back`.
    fn model(gain: f64, back: f64) -> Model {
        let drift = EquationsDrift {
            slope: 0.0,
            first_weights: Matrix::from_rows(2, 2, vec![0.0, 1.0, 1.0, 0.0]),
            first_biases: Matrix::full(2, 1, 0.0),
            inner_weights: Matrix::full(0, 1, 0.0),
            inner_biases: Matrix::full(0, 1, 0.0),
            mean_weights: Matrix::from_rows(2, 1, vec![back, gain]),
            scale_weights: Matrix::full(2, 1, 0.0),
        };
        let noise = Noise::Diagonal { log_noise: vec![0.0, 2f64.ln()] };
        let parameters =
            Parameters { drift: drift.into(), biases: vec![0.5, 0.0], noise, shift: None, log_scale: None };
        Model { law: LawKind::Structural, ..Model::new(parameters) }
    }

    fn sampled(model: &Model, n: usize) -> Result<Matrix<f64>> {
        let intervention = Intervention::none(2);
        let draw = Draw { intervention: &intervention, samples: n, seed: 3 };
        Sampler::cpu()
            .draw(model, &[draw], &SampleSettings::default(), &Progress::default())
            .unwrap()
            .remove(0)
    }

    #[test]
    fn samples_solve_their_equations() {
        let model = model(0.7, 0.0);
        let samples = sampled(&model, 40_000).unwrap();
        let (mean, deviation) = moments(&samples);
        // E max(x, 0) for x ~ N(½, 1) is ½ Φ(½) + φ(½).
        let positive = 0.5 * 0.691_462 + 0.352_065;
        assert!((mean[0] - 0.5).abs() < 0.02 && (mean[1] - 0.7 * positive).abs() < 0.04, "{mean:?}");
        assert!((deviation[0] - 1.0).abs() < 0.02, "{deviation:?}");
        // The first rows are the same however many there are.
        assert_eq!(sampled(&model, 10).unwrap().as_slice(), &samples.as_slice()[..20]);
    }

    #[test]
    fn loops_that_contract_are_solved_and_others_are_refused() {
        let samples = sampled(&model(0.8, -0.9), 300).unwrap();
        let (drawn, mut rng) = (samples, ChaCha8Rng::seed_from_u64(3));
        for i in 0..300 {
            let (e, f): (f64, f64) = (StandardNormal.sample(&mut rng), StandardNormal.sample(&mut rng));
            let (x, y) = (drawn[(i, 0)], drawn[(i, 1)]);
            assert!((x - (0.5 - 0.9 * y.max(0.0) + e)).abs() < 1e-8, "{i}");
            assert!((y - (0.8 * x.max(0.0) + 2.0 * f)).abs() < 1e-8, "{i}");
        }
        let error = sampled(&model(2.0, 2.0), 300).unwrap_err().to_string();
        assert!(error.contains("no solution that repeated substitution finds"), "{error}");
    }
}
