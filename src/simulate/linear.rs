//! Linear systems: a diffusion, and structural equations with the same weights.

use super::{Range, Simulation};
use crate::dense::Lu;
use crate::model::{Drift, Model, Noise, Parameters};
use crate::sample::{
    EulerSettings, Gaussian, Intervention, Method, SampleSettings, spectral_abscissa, stationary_samples,
};
use crate::{Matrix, Result};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// How far below 0 the largest real part of the weights' eigenvalues is put.
const STABLE_BY: f64 = 0.5;
/// The paper's simulation: steps of 0.01, a sample every 500 of them after 100 samples that are thrown away.
const PAPERS_EULER: EulerSettings = EulerSettings { dt: 0.01, burn_in: 50_000, thin: 500, chains: Some(16) };

/// The parameters of a linear system.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearTruth {
    /// d × d: effects on row j.
    pub weights: Matrix<f64>,
    /// d.
    pub biases: Vec<f64>,
    /// d, what multiplies standard normal noise: exp(log scale) for the diffusion, the log scale itself for the
    /// structural equations, as published.
    pub noise: Vec<f64>,
}

impl LinearTruth {
    /// Weights on the graph's edges and the diagonal, which is then lowered until the drift is stable.
    pub(super) fn draw(graph: &Matrix<bool>, settings: &super::Settings, rng: &mut impl Rng) -> Result<Self> {
        let d = graph.rows();
        let mut weights = Matrix::from_fn(d, d, |j, i| {
            let weight = settings.weights.draw_signed(rng);
            if i == j || graph[(j, i)] { weight } else { 0.0 }
        });
        let lower = spectral_abscissa(&weights)? + STABLE_BY;
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
    pub(super) fn diffusion(
        &self,
        shift: &[f64],
        rows: usize,
        simulation: Simulation,
        seed: u64,
    ) -> Result<Matrix<f64>> {
        let d = self.biases.len();
        match simulation {
            Simulation::Exact => {
                let biases: Vec<f64> = self.biases.iter().zip(shift).map(|(b, s)| b + s).collect();
                let a = Matrix::from_fn(d, d, |i, j| if i == j { self.noise[i].powi(2) } else { 0.0 });
                Gaussian::stationary(&self.weights, &biases, &a)?
                    .draw(rows, &mut ChaCha8Rng::seed_from_u64(seed))
            }
            Simulation::Euler => {
                let model = Model::new(Parameters {
                    drift: Drift::Linear { weights: self.weights.clone() },
                    biases: self.biases.clone(),
                    noise: Noise::Diagonal { log_noise: self.noise.iter().map(|noise| noise.ln()).collect() },
                    shift: None,
                    log_scale: None,
                });
                let intervention = Intervention { shift: shift.to_vec(), log_scale: vec![0.0; d] };
                let settings =
                    SampleSettings { method: Method::Euler, euler: PAPERS_EULER, nonnegative: false };
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

impl Range {
    pub(super) fn draw(&self, rng: &mut impl Rng) -> f64 {
        let share: f64 = rng.random_range(0.0..1.0);
        self.low + share * (self.high - self.low)
    }

    /// The same with a sign that is + or − with equal chance.
    pub(super) fn draw_signed(&self, rng: &mut impl Rng) -> f64 {
        let size = self.draw(rng);
        if rng.random_bool(0.5) { size } else { -size }
    }
}
