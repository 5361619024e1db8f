//! The methods of an experiment. A method learns from training environments and predicts test environments, given the means of
//! their targets.

use crate::data::Dataset;
use crate::evaluate::TargetMeans;
use crate::fit;
use crate::model::Model;
use crate::numeric::statistics::moments;
use crate::predict::match_and_draw;
use crate::sample::{SampleSettings, Sampler};
use crate::{Error, Matrix, Progress, Result};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The longest time limit of a program: thirty years.
const MOST_SECONDS: f64 = 1e9;

/// A time limit of so many seconds, unless they are out of range.
fn time(seconds: f64) -> Option<Duration> {
    (seconds > 0.0 && seconds <= MOST_SECONDS).then(|| Duration::from_secs_f64(seconds))
}

/// A test environment to predict: all that a method may know of it.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictionTask {
    /// The targets of the intervention and their means.
    pub wanted: TargetMeans,
    /// The number of samples to predict.
    pub rows: usize,
}

/// A way to learn and predict.
pub trait Method: Sync {
    /// The name in tables.
    fn name(&self) -> &str;

    /// Learns from training environments, of which the first is observational.
    fn fit(&self, train: &Dataset, seed: u64) -> Result<Box<dyn FittedMethod>>;
}

/// A method that has learnt from training data.
pub trait FittedMethod {
    /// Predicted samples of each environment. An environment that cannot be predicted has an error in its place.
    fn predict(&self, tasks: &[PredictionTask], seed: u64) -> Result<Vec<Result<Matrix<f64>>>>;
}

/// The kinds of methods, with their settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum MethodSettings {
    /// A stationary diffusion, as `skds fit` fits it.
    Fit {
        /// The settings of the fit.
        #[serde(default)]
        settings: Box<fit::Settings>,
    },
    /// A floor: the observational samples, with the targets shifted to their means.
    Observational,
    /// A floor: independent Gaussian variables with the observational means and deviations, with the targets shifted to their means.
    Diagonal,
    /// Another program. Its arguments are the training file, a file of the prediction tasks, and the file to write samples to.
    Program {
        /// The program and its arguments.
        command: Vec<String>,
        /// The time limit for a dataset in seconds; an hour by default.
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

    /// The same settings with every default filled in, which identify the method.
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

    /// The method with these settings, under a name.
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

    fn fit(&self, train: &Dataset, seed: u64) -> Result<Box<dyn FittedMethod>> {
        let (model, _) = fit::fit(train, &fit::Settings { seed: Some(seed), ..self.settings.clone() })?;
        Ok(Box::new(model))
    }
}

impl FittedMethod for Model {
    fn predict(&self, tasks: &[PredictionTask], seed: u64) -> Result<Vec<Result<Matrix<f64>>>> {
        let (sampler, settings) = (Sampler::cpu(), SampleSettings::default());
        let wanted: Vec<TargetMeans> = tasks.iter().map(|task| task.wanted.clone()).collect();
        let rows: Vec<usize> = tasks.iter().map(|task| task.rows).collect();
        let drawn = match_and_draw(&sampler, self, &wanted, &rows, &settings, seed, &Progress::default())?;
        Ok(drawn.into_iter().map(|drawn| drawn.map(|(_, samples)| samples)).collect())
    }
}

/// A floor that any method must beat: only the targets move.
struct Floor {
    name: String,
    independent: bool,
}

struct FittedFloor {
    observed: Matrix<f64>,
    mean: Vec<f64>,
    /// The standard deviations, if the variables are drawn independently.
    deviations: Option<Vec<f64>>,
}

impl Method for Floor {
    fn name(&self) -> &str {
        &self.name
    }

    fn fit(&self, train: &Dataset, _: u64) -> Result<Box<dyn FittedMethod>> {
        let observed = train.environment(0);
        let (mean, deviations) = moments(&observed);
        let deviations = self.independent.then_some(deviations);
        Ok(Box::new(FittedFloor { observed, mean, deviations }))
    }
}

impl FittedMethod for FittedFloor {
    fn predict(&self, tasks: &[PredictionTask], seed: u64) -> Result<Vec<Result<Matrix<f64>>>> {
        let d = self.mean.len();
        Ok(tasks
            .iter()
            .zip(0..)
            .map(|(task, e)| {
                let mut rng = ChaCha8Rng::seed_from_u64(seed.wrapping_add(e));
                let mut by = vec![0.0; d];
                for (&j, mean) in task.wanted.targets.iter().zip(&task.wanted.means) {
                    by[j] = mean - self.mean[j];
                }
                let mut samples = Matrix::full(task.rows, d, 0.0);
                for i in 0..task.rows {
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
