//! The settings of NODAGS, with the published values as defaults.

use super::shape::Shape;
use crate::data::Dataset;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// How the log-determinant of I − J is estimated while training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogDet {
    /// A power series of random length, weighted so that its expectation is the whole series.
    Unbiased,
    /// The first `terms` terms of the power series.
    Bounded,
    /// An LU factorization per row, in f64.
    Exact,
}

/// Which edges the fitted equations have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Edges {
    /// The edges with a probability above `threshold`, at full strength.
    Threshold,
    /// All edges, each input weight times the edge's probability.
    Expected,
}

/// Settings of NODAGS; the defaults are those published for SDE-ER.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NodagsSettings {
    /// λ, the weight of the sum of all edge probabilities.
    pub penalty: f64,
    /// Adam's.
    pub learning_rate: f64,
    /// Hidden layers, each as wide as there are variables. With 0, each variable has one unit.
    pub hidden_layers: usize,
    /// Whether the output layer has a ReLU too, as published: then no mean is below 0.
    pub relu_output: bool,
    /// Passes over the data.
    pub epochs: usize,
    /// Rows per step: consecutive rows of one environment.
    pub batch: usize,
    /// The largest spectral norm of the output layer, below 1; that of a hidden layer is 1.
    pub lipschitz: f64,
    /// Power iterations after each step, which find the spectral norms.
    pub power_iterations: usize,
    /// The estimate of the log-determinant.
    pub log_det: LogDet,
    /// Of the unbiased estimate: terms that are always taken, beside at least one more.
    pub exact_terms: usize,
    /// Of the unbiased estimate: the probability to stop after each further term.
    pub stop_probability: f64,
    /// Of the bounded estimate: its number of terms.
    pub terms: usize,
    /// The logarithm of every noise scale at the start.
    pub log_scale: f64,
    /// Which edges the result has.
    pub edges: Edges,
    /// The least probability of an edge in the result.
    pub threshold: f64,
}

impl Default for NodagsSettings {
    fn default() -> Self {
        NodagsSettings {
            penalty: 1e-4,
            learning_rate: 1e-3,
            hidden_layers: 1,
            relu_output: true,
            epochs: 100,
            batch: 256,
            lipschitz: 0.9,
            power_iterations: 10,
            log_det: LogDet::Unbiased,
            exact_terms: 2,
            stop_probability: 0.5,
            terms: 10,
            log_scale: 0.5,
            edges: Edges::Threshold,
            threshold: 0.5,
        }
    }
}

/// The largest counts that settings may hold.
const MOST_LAYERS: usize = 16;
const MOST_TERMS: usize = 1000;
const MOST: usize = 1_000_000_000;
/// The largest number of weights: networks of so many variables and layers do not fit into memory anyway.
const MOST_WEIGHTS: usize = 1 << 28;

impl NodagsSettings {
    /// Checks each setting by itself.
    pub(crate) fn check(&self) -> Result<()> {
        let number = |name: &str, value: f64, fits: bool, expected: &str| {
            if fits {
                Ok(())
            } else {
                Err(Error::invalid(format!("the {name} is {value}, expected {expected}")))
            }
        };
        let count = |name: &str, value: usize, least: usize, most: usize| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            let problem = format!("the {name} is {value}, expected a whole number from {least} to {most}");
            Err(Error::invalid(problem))
        };
        let (rate, scale) = (self.learning_rate, self.log_scale);
        let (lipschitz, stop, threshold) = (self.lipschitz, self.stop_probability, self.threshold);
        let penalty = self.penalty;
        number("penalty", penalty, penalty >= 0.0 && penalty.is_finite(), "at least 0")?;
        number("learning_rate", rate, rate > 0.0 && rate <= 1.0, "above 0 and at most 1")?;
        count("hidden_layers", self.hidden_layers, 0, MOST_LAYERS)?;
        count("epochs", self.epochs, 1, MOST)?;
        count("batch", self.batch, 1, MOST)?;
        number("lipschitz", lipschitz, lipschitz > 0.0 && lipschitz < 1.0, "above 0 and below 1")?;
        count("power_iterations", self.power_iterations, 1, MOST_TERMS)?;
        count("exact_terms", self.exact_terms, 0, MOST_TERMS)?;
        number("stop_probability", stop, (0.01..=0.99).contains(&stop), "0.01 to 0.99")?;
        count("terms", self.terms, 1, MOST_TERMS)?;
        number("log_scale", scale, (-10.0..=10.0).contains(&scale), "-10 to 10")?;
        number("threshold", threshold, (0.0..1.0).contains(&threshold), "at least 0 and below 1")
    }

    /// Checks that the networks of `dim` variables are of a possible size.
    pub(super) fn check_size(&self, dim: usize) -> Result<()> {
        let copies = dim.checked_mul(dim).and_then(|s| s.checked_mul(dim));
        let weights = copies.and_then(|s| s.checked_mul(self.hidden_layers + 1)).unwrap_or(usize::MAX);
        if weights > MOST_WEIGHTS {
            let problem = format!(
                "NODAGS found {dim} variables, expected at most {} with {} hidden layers",
                ((MOST_WEIGHTS / (self.hidden_layers + 1)) as f64).cbrt() as usize,
                self.hidden_layers
            );
            return Err(Error::invalid(problem));
        }
        Ok(())
    }

    /// What progress counts to: the number of steps.
    pub(crate) fn work(&self, data: &Dataset) -> u64 {
        let batches = (0..data.environments()).map(|e| data.rows(e).len().div_ceil(self.batch.max(1)) as u64);
        self.epochs as u64 * batches.sum::<u64>()
    }

    pub(super) fn shape(&self, dim: usize) -> Shape {
        Shape { dim, hidden: self.hidden_layers, relu_output: self.relu_output }
    }
}
