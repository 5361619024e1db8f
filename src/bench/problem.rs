//! The loss evaluations that are measured: value and full gradient, on random samples and a random linear model.

use crate::data::Dataset;
use crate::engine::LossSpec;
use crate::kernel::KernelKind;
use crate::model::{Drift, Noise, Parameters};
use crate::objective::{Estimator, Objective};
use crate::{Error, Matrix, Result};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::Serialize;

/// A loss and the size of its data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// SKDS or KDS.
    pub objective: Objective,
    /// The kernel. Its bandwidth is √d.
    pub kernel: KernelKind,
    /// The estimator.
    pub estimator: Estimator,
    /// The number of samples.
    pub n: usize,
    /// The number of variables.
    pub d: usize,
}

/// The names of a case in files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct CaseNames {
    pub(super) objective: &'static str,
    pub(super) kernel: &'static str,
    pub(super) estimator: &'static str,
}

impl Case {
    /// SKDS with the RBF kernel.
    pub fn skds(estimator: Estimator, n: usize, d: usize) -> Self {
        Case { objective: Objective::Skds, kernel: KernelKind::Rbf, estimator, n, d }
    }

    /// The case as text.
    pub fn name(&self) -> String {
        let Case { objective, kernel, estimator, n, d } = self;
        format!("{objective} {kernel} {estimator} n={n} d={d}")
    }

    pub(super) fn names(&self) -> CaseNames {
        CaseNames {
            objective: self.objective.name(),
            kernel: self.kernel.name(),
            estimator: self.estimator.name(),
        }
    }

    pub(super) fn bandwidth(&self) -> f64 {
        (self.d as f64).sqrt()
    }

    pub(super) fn spec(&self) -> Result<LossSpec> {
        let kernel = self.kernel.with_bandwidth(self.bandwidth())?;
        Ok(LossSpec { objective: self.objective, kernel, estimator: self.estimator })
    }

    /// Floating-point operations of the matrix products: the drift, its backward product, and the tiles if there are all pairs.
    /// Elementwise operations are not counted.
    pub fn flops(&self) -> f64 {
        let (n, d) = (self.n as f64, self.d as f64);
        let products = 4.0 * n * d * d;
        let traits = self.kernel.traits();
        let tiles = match (self.estimator, self.objective, traits.gaussian) {
            (Estimator::Linear, ..) => 0.0,
            (_, Objective::Skds, true) => 6.0,
            (_, Objective::Skds, false) => 8.0,
            (_, Objective::Kds, true) => 16.0,
            (_, Objective::Kds, false) => 20.0,
        };
        products + tiles * n * n * d
    }

    /// The fewest bytes that must be moved, in f32: reading the samples for both products, writing and reading the drift and its
    /// derivative, reading the weights and writing their gradient.
    pub fn bytes(&self) -> f64 {
        let (n, d) = (self.n as f64, self.d as f64);
        4.0 * (6.0 * n * d + 2.0 * d * d)
    }
}

/// Standard normal samples and a random linear model with diagonal noise. The same size gives the same numbers.
pub fn random_problem(n: usize, d: usize) -> (Dataset, Parameters<f32>) {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut matrix = |rows: usize, cols: usize, scale: f64| {
        Matrix::from_fn(rows, cols, |_, _| {
            let value: f64 = StandardNormal.sample(&mut rng);
            // Rounded to f32, so that peers read the same numbers from a file.
            f64::from((scale * value) as f32)
        })
    };
    let samples = matrix(n, d, 1.0);
    let weights = matrix(d, d, 1.0 / (d as f64).sqrt());
    let parameters = Parameters {
        drift: Drift::linear(weights),
        biases: matrix(1, d, 1.0).as_slice().to_vec(),
        noise: Noise::Diagonal { log_noise: matrix(1, d, 0.3).as_slice().to_vec() },
        shift: None,
        log_scale: None,
    };
    let data = Dataset::from_environments(vec![samples]).expect("normal samples are a dataset");
    (data, parameters.cast())
}

impl std::str::FromStr for Case {
    type Err = Error;

    /// OBJECTIVE:KERNEL:ESTIMATOR:N:D.
    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let wrong = || {
            Error::invalid(format!(
                "the case is '{text}', expected OBJECTIVE:KERNEL:ESTIMATOR:N:D, like skds:rbf:linear:512:20"
            ))
        };
        let [objective, kernel, estimator, n, d] = parts[..] else { return Err(wrong()) };
        let size = |text: &str, least: usize| match text.parse::<usize>() {
            Ok(size) if size >= least => Ok(size),
            _ => Err(wrong()),
        };
        Ok(Case {
            objective: objective.parse()?,
            kernel: kernel.parse()?,
            estimator: estimator.parse()?,
            n: size(n, 2)?,
            d: size(d, 1)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_read_as_they_are_written() {
        let case: Case = "kds:imq-plus:u:100:7".parse().unwrap();
        assert_eq!(case.name(), "kds imq-plus u n=100 d=7");
        assert_eq!(case.flops(), 4.0 * 100.0 * 49.0 + 20.0 * 10_000.0 * 7.0);
        for wrong in
            ["", "skds:rbf:linear:512", "skds:rbf:linear:1:20", "skds:rbf:linear:512:0", "x:rbf:u:2:2"]
        {
            assert!(wrong.parse::<Case>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn problems_are_the_same_each_time_and_exact_in_f32() {
        let (data, parameters) = random_problem(10, 3);
        assert_eq!(
            (data.clone().samples(), &parameters),
            (random_problem(10, 3).0.samples(), &random_problem(10, 3).1)
        );
        assert!(data.samples().as_slice().iter().all(|v| f64::from(*v as f32) == *v));
    }
}
