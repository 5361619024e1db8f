//! Linear systems: a diffusion, and structural equations with the same weights.

use super::{Settings, Simulation};
use crate::model::{Drift, Model, Noise, Parameters};
use crate::numeric::dense::Lu;
use crate::sample::{
    EulerSettings, Gaussian, Intervention, Method, SampleSettings, spectral_abscissa, stationary_samples,
};
use crate::{Matrix, Result};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// Chains of a simulation, each with a burn-in of its own.
pub(super) const CHAINS: usize = 16;

/// The parameters of a linear system.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearTruth {
    /// The effects, d × d: row j holds the effects on variable j.
    pub weights: Matrix<f64>,
    /// The biases, d.
    pub biases: Vec<f64>,
    /// The factors of standard normal noise, d: exp(log scale) for the diffusion, and the log scale itself for the structural
    /// equations, as in the published code.
    pub noise: Vec<f64>,
}

impl LinearTruth {
    /// Weights on the graph's edges and the diagonal, which is then lowered until the drift is stable.
    pub(super) fn draw(graph: &Matrix<bool>, settings: &Settings, rng: &mut impl Rng) -> Result<Self> {
        let d = graph.rows();
        let mut weights = Matrix::from_fn(d, d, |j, i| {
            let weight = settings.weights.draw_signed(rng);
            if i == j || graph[(j, i)] { weight } else { 0.0 }
        });
        let lower = spectral_abscissa(&weights)? + settings.margin;
        (0..d).for_each(|j| weights[(j, j)] -= lower);
        let biases = (0..d).map(|_| settings.biases.draw(rng)).collect();
        let logs: Vec<f64> = (0..d).map(|_| settings.log_scales.draw(rng)).collect();
        let noise = match settings.system {
            super::System::Scm => logs,
            _ => logs.into_iter().map(f64::exp).collect(),
        };
        Ok(LinearTruth { weights, biases, noise })
    }

    /// Samples of the diffusion's stationary law under a shift.
    pub(super) fn diffusion(&self, shift: &[f64], settings: &Settings, seed: u64) -> Result<Matrix<f64>> {
        let (d, rows) = (self.biases.len(), settings.rows);
        match settings.simulate {
            Simulation::Exact => {
                let biases: Vec<f64> = self.biases.iter().zip(shift).map(|(b, s)| b + s).collect();
                let a = Matrix::from_fn(d, d, |i, j| if i == j { self.noise[i].powi(2) } else { 0.0 });
                Gaussian::stationary(&self.weights, &biases, &a)?
                    .draw(rows, &mut ChaCha8Rng::seed_from_u64(seed))
            }
            Simulation::Euler => {
                let model = Model::new(Parameters {
                    drift: Drift::linear(self.weights.clone()),
                    biases: self.biases.clone(),
                    noise: Noise::Diagonal { log_noise: self.noise.iter().map(|noise| noise.ln()).collect() },
                    shift: None,
                    log_scale: None,
                });
                let intervention = Intervention { shift: shift.to_vec(), log_scale: vec![0.0; d] };
                let euler = EulerSettings {
                    dt: settings.euler_dt,
                    burn_in: settings.euler_burn_in.saturating_mul(settings.euler_thin),
                    thin: settings.euler_thin,
                    chains: Some(CHAINS),
                };
                let settings = SampleSettings { method: Method::Euler, euler, nonnegative: false };
                stationary_samples(&model, &intervention, rows, &settings, seed)
            }
        }
    }

    /// Samples of x = (I − W)⁻¹ (noise + biases + shift).
    pub(super) fn structural(&self, shift: &[f64], rows: usize, seed: u64) -> Result<Matrix<f64>> {
        let d = self.biases.len();
        let system = Matrix::from_fn(d, d, |i, j| f64::from(u8::from(i == j)) - self.weights[(i, j)]);
        let inverse = Lu::of(system.view()).inverse();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut samples = Matrix::full(rows, d, 0.0);
        let mut right = vec![0.0; d];
        for i in 0..rows {
            for (j, right) in right.iter_mut().enumerate() {
                let normal: f64 = StandardNormal.sample(&mut rng);
                *right = self.noise[j] * normal + self.biases[j] + shift[j];
            }
            for (j, value) in samples.row_mut(i).iter_mut().enumerate() {
                *value = (0..d).map(|k| inverse[(j, k)] * right[k]).sum();
            }
        }
        Ok(samples)
    }
}
