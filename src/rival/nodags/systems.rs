//! Simulated systems that NODAGS assumes, for tests.

use super::shape::spectral_norm;
use crate::Matrix;
use crate::data::Dataset;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// A system x = γ(A x) + ε that is a contraction, with γ ReLU or the identity.
pub(super) struct System {
    pub effects: Matrix<f64>,
    relu: bool,
    pub scales: Vec<f64>,
}

impl System {
    /// About two causes per variable; the effects' spectral norm is 0.8.
    pub(super) fn draw(d: usize, relu: bool, seed: u64) -> System {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let density = 2.0 / (d as f64 - 1.0);
        let mut effects = Matrix::from_fn(d, d, |j, i| {
            let size = rng.random_range(0.4..0.9);
            // With ReLU, an effect below 0 is hidden by another one that is not positive.
            let sign = if !relu && rng.random_bool(0.5) { -1.0 } else { 1.0 };
            if i != j && rng.random_bool(density) { sign * size } else { 0.0 }
        });
        let norm = spectral_norm(effects.as_slice(), d).unwrap();
        effects.as_mut_slice().iter_mut().for_each(|a| *a *= 0.8 / norm.max(0.8));
        let scales = (0..d).map(|_| rng.random_range(0.5..1.0)).collect();
        System { effects, relu, scales }
    }

    /// An observational environment, and one for each variable where it is replaced by a standard normal number.
    /// Standardised by the first.
    pub(super) fn data(&self, rows: usize, seed: u64) -> Dataset {
        let d = self.scales.len();
        let mut rng = ChaCha8Rng::seed_from_u64(1000 + seed);
        let mut environments: Vec<Matrix<f64>> = (0..=d)
            .map(|e| {
                let mut x = Matrix::full(rows, d, 0.0);
                (0..rows)
                    .for_each(|r| x.row_mut(r).copy_from_slice(&self.sample(e.checked_sub(1), &mut rng)));
                x
            })
            .collect();
        for j in 0..d {
            let column: Vec<f64> = (0..rows).map(|r| environments[0][(r, j)]).collect();
            let mean = column.iter().sum::<f64>() / rows as f64;
            let square = column.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / rows as f64;
            for x in &mut environments {
                // A ReLU system has no biases either: its data are only scaled.
                let mean = if self.relu { 0.0 } else { mean };
                (0..rows).for_each(|r| x[(r, j)] = (x[(r, j)] - mean) / square.sqrt());
            }
        }
        Dataset::from_environments(environments)
            .unwrap()
            .with_targets(Matrix::from_fn(d + 1, d, |e, j| e == j + 1))
            .unwrap()
    }

    fn sample(&self, target: Option<usize>, rng: &mut ChaCha8Rng) -> Vec<f64> {
        let d = self.scales.len();
        let noise: Vec<f64> = (0..d).map(|_| StandardNormal.sample(rng)).collect();
        let mut x = vec![0.0; d];
        for _ in 0..100 {
            x = (0..d)
                .map(|j| {
                    let sum: f64 = self.effects.row(j).iter().zip(&x).map(|(a, x)| a * x).sum();
                    let mean = if self.relu { sum.max(0.0) } else { sum };
                    if target == Some(j) { noise[j] } else { mean + self.scales[j] * noise[j] }
                })
                .collect();
        }
        x
    }
}
