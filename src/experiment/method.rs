//! What can be compared: anything that learns from training environments and predicts others of which it is told the targets'
//! means.

use crate::data::Dataset;
use crate::evaluate::{Wanted, draw_under, match_means};
use crate::fit;
use crate::model::Model;
use crate::numeric::statistics::moments;
use crate::sample::{SampleSettings, Sampler};
use crate::{Error, Matrix, Progress, Result};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Thirty years.
const MOST_SECONDS: f64 = 1e9;

/// So many seconds, if a program may be given them.
fn time(seconds: f64) -> Option<Duration> {
    (seconds > 0.0 && seconds <= MOST_SECONDS).then(|| Duration::from_secs_f64(seconds))
}

/// What is told of an environment that is to be predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// Its targets and their means.
    pub wanted: Wanted,
    /// How many samples to predict.
    pub rows: usize,
}

/// A way to learn and predict.
pub trait Method: Sync {
    /// As tables show it.
    fn name(&self) -> &str;

    /// Learns from training environments, of which the first is observational.
    fn fit(&self, train: &Dataset, seed: u64) -> Result<Box<dyn Fitted>>;
}

/// What a method has learnt.
pub trait Fitted {
    /// Samples of each environment; one that cannot be predicted is an error of its own.
    fn predict(&self, told: &[Told], seed: u64) -> Result<Vec<Result<Matrix<f64>>>>;
}

/// Methods by name, with their settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum MethodSettings {
    /// A stationary diffusion, as `skds fit` fits it.
    Fit {
        /// Of the fit.
        #[serde(default)]
        settings: Box<fit::Settings>,
    },
    /// A floor: the observational samples, moved at the targets.
    Observational,
    /// A floor: independent Gaussian variables with the observational means and deviations, moved at the targets.
    Diagonal,
    /// Another program: called with the training file, a file of what is told, and the file to write samples to.
    Program {
        /// Its name and arguments.
        command: Vec<String>,
        /// Seconds that it may take for a dataset; an hour if nothing is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<f64>,
    },
}

impl MethodSettings {
    /// Checks what can be checked without data.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            MethodSettings::Fit { settings } => settings.settle().map(drop),
            MethodSettings::Program { command, .. } if command.is_empty() => {
                Err(Error::invalid("the command of a program is empty, expected its name"))
            }
            MethodSettings::Program { seconds: Some(seconds), .. } if time(*seconds).is_none() => {
                Err(Error::invalid(format!(
                    "the seconds of a program are {seconds}, expected a number above 0 and at most {MOST_SECONDS:e}"
                )))
            }
            _ => Ok(()),
        }
    }

    /// The same with everything said: what a method is, whatever its plan leaves to defaults.
    pub(super) fn settled(&self) -> MethodSettings {
        match self {
            MethodSettings::Fit { settings } => MethodSettings::Fit {
                settings: settings
                    .settle()
                    .map_or_else(|_| settings.clone(), |recipe| Box::new(recipe.to_settings())),
            },
            other => other.clone(),
        }
    }

    /// The method itself, under a name.
    pub fn method(&self, name: &str) -> Box<dyn Method> {
        let name = name.to_owned();
        match self {
            MethodSettings::Fit { settings } => Box::new(Diffusion { name, settings: (**settings).clone() }),
            MethodSettings::Observational => Box::new(Floor { name, independent: false }),
            MethodSettings::Diagonal => Box::new(Floor { name, independent: true }),
            MethodSettings::Program { command, seconds } => {
                let time = seconds.and_then(time).unwrap_or(Duration::from_secs_f64(super::program::SECONDS));
                Box::new(super::program::Program { name, command: command.clone(), time })
            }
        }
    }
}

/// A stationary diffusion.
struct Diffusion {
    name: String,
    settings: fit::Settings,
}

impl Method for Diffusion {
    fn name(&self) -> &str {
        &self.name
    }

    fn fit(&self, train: &Dataset, seed: u64) -> Result<Box<dyn Fitted>> {
        let (model, _) = fit::fit(train, &fit::Settings { seed: Some(seed), ..self.settings.clone() })?;
        Ok(Box::new(model))
    }
}

impl Fitted for Model {
    fn predict(&self, told: &[Told], seed: u64) -> Result<Vec<Result<Matrix<f64>>>> {
        let (sampler, settings) = (Sampler::cpu(), SampleSettings::default());
        let wanted: Vec<Wanted> = told.iter().map(|told| told.wanted.clone()).collect();
        let found = match_means(&sampler, self, &wanted, &settings, seed, &Progress::default())?;
        let rows: Vec<usize> = told.iter().map(|told| told.rows).collect();
        draw_under(&sampler, self, &found, &rows, &settings, seed, &Progress::default())
    }
}

/// What any method must beat: nothing but the targets moves.
struct Floor {
    name: String,
    independent: bool,
}

struct Moved {
    observed: Matrix<f64>,
    mean: Vec<f64>,
    /// Standard deviations, if variables are to be independent.
    deviations: Option<Vec<f64>>,
}

impl Method for Floor {
    fn name(&self) -> &str {
        &self.name
    }

    fn fit(&self, train: &Dataset, _: u64) -> Result<Box<dyn Fitted>> {
        let observed = train.environment(0);
        let (mean, deviations) = moments(&observed);
        let deviations = self.independent.then_some(deviations);
        Ok(Box::new(Moved { observed, mean, deviations }))
    }
}

impl Fitted for Moved {
    fn predict(&self, told: &[Told], seed: u64) -> Result<Vec<Result<Matrix<f64>>>> {
        let d = self.mean.len();
        Ok(told
            .iter()
            .zip(0..)
            .map(|(told, e)| {
                let mut rng = ChaCha8Rng::seed_from_u64(seed.wrapping_add(e));
                let mut by = vec![0.0; d];
                for (&j, mean) in told.wanted.targets.iter().zip(&told.wanted.means) {
                    by[j] = mean - self.mean[j];
                }
                let mut samples = Matrix::full(told.rows, d, 0.0);
                for i in 0..told.rows {
                    let row = rng.random_range(0..self.observed.rows());
                    for j in 0..d {
                        let value = match &self.deviations {
                            Some(deviations) => {
                                let z: f64 = StandardNormal.sample(&mut rng);
                                self.mean[j] + deviations[j] * z
                            }
                            None => self.observed[(row, j)],
                        };
                        samples[(i, j)] = value + by[j];
                    }
                }
                Ok(samples)
            })
            .collect())
    }
}
