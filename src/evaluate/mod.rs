//! Measures how well a model predicts unseen interventions, by the paper's protocol.
//!
//! For each test environment the model receives the targets and their means. [`match_means`] finds the shifts of the drift that
//! reproduce these means. As many samples as the environment has are drawn from the stationary law under these shifts, and
//! compared with the environment's.
//!
//! With training data, [`predict_anchored`] moves its observational rows instead ([`crate::predict`]), and compares the result
//! with floors that need no model.

mod anchored;
mod evaluation;
mod floors;

pub use crate::predict::{MATCHING_PROGRESS, TargetMeans, match_means};
pub use anchored::{AnchoredScores, predict_anchored};
pub use evaluation::{Comparison, Evaluation, Floors};

use crate::data::Dataset;
use crate::metric::{mean_squared_error, sinkhorn_divergence, wasserstein2};
use crate::model::Model;
use crate::numeric::statistics::moments;
use crate::predict::{Origin, match_and_draw};
use crate::sample::{SampleSettings, Sampler};
use crate::{Error, Matrix, Progress, Result};
use serde::{Deserialize, Serialize};

/// Above this standard deviation of a variable, in the model's units, a prediction counts as unstable.
const LARGEST_DEVIATION: f64 = 100.0;

/// How a test environment was predicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The environment's index in the test data.
    pub environment: usize,
    /// The variables intervened on, by name.
    pub targets: Vec<String>,
    /// The shifts of their drift that reproduce their means, in the model's units.
    pub shifts: Vec<f64>,
    /// The distances; none if the prediction is unstable.
    #[serde(flatten)]
    pub scores: Option<Scores>,
    /// Why there are no distances.
    pub unstable: Option<String>,
}

/// Distances between predicted and true samples, in standard units if the model knows them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Mean over variables of the squared difference of means.
    pub mse: f64,
    /// The squared 2-Wasserstein distance.
    pub w2: f64,
    /// The Sinkhorn divergence.
    pub sinkhorn: f64,
}

/// Checks that the test data has the model's variables, and targets in every environment.
pub fn check_test_data(model: &Model, test: &Dataset) -> Result<()> {
    model.check_variables(test, "the test data")?;
    match test.observational() {
        Some(e) => Err(Error::invalid(format!(
            "test environment {e} has no target, expected at least one intervened variable"
        ))),
        None => Ok(()),
    }
}

/// The targets of each test environment and their means.
pub(crate) fn target_means(test: &Dataset) -> Vec<TargetMeans> {
    (0..test.environments())
        .map(|e| {
            let targets: Vec<usize> = (0..test.dim()).filter(|&j| test.targets()[(e, j)]).collect();
            let means = test.means(e);
            TargetMeans { means: targets.iter().map(|&j| means[j]).collect(), targets }
        })
        .collect()
}

/// The progress count when every environment is predicted and compared.
pub const PREDICTION_PROGRESS: u64 = 1000;

/// Evaluates a model by the paper's protocol and, with training data, from its observational rows. `progress` counts to
/// [`evaluation_progress`].
pub fn evaluate(
    sampler: &Sampler,
    model: &Model,
    test: &Dataset,
    train: Option<&Dataset>,
    settings: &SampleSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Evaluation> {
    if let Some(train) = train {
        // Refused before anything is computed.
        Origin::of(model, train)?;
    }
    let evaluation = Evaluation::new(predict(sampler, model, test, settings, seed, progress)?);
    Ok(match train {
        Some(train) => {
            let progress = progress.after(PREDICTION_PROGRESS);
            let scores = predict_anchored(sampler, model, test, train, settings, seed, &progress)?;
            evaluation.with_anchored(scores)
        }
        None => evaluation,
    })
}

/// The progress count at the end of [`evaluate`], with training data or without.
pub const fn evaluation_progress(with_train: bool) -> u64 {
    if with_train { 2 * PREDICTION_PROGRESS } else { PREDICTION_PROGRESS }
}

/// Predicts every environment of the test data and compares. `progress` counts to [`PREDICTION_PROGRESS`].
pub fn predict(
    sampler: &Sampler,
    model: &Model,
    test: &Dataset,
    settings: &SampleSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<Prediction>> {
    check_test_data(model, test)?;
    let wanted = target_means(test);
    let rows: Vec<usize> = (0..test.environments()).map(|e| test.rows(e).len()).collect();
    let drawn = match_and_draw(sampler, model, &wanted, &rows, settings, seed, progress)?;
    let mut predictions = Vec::new();
    for (e, (wanted, drawn)) in wanted.into_iter().zip(drawn).enumerate() {
        let (shifts, samples) = match drawn {
            Ok((intervention, samples)) => {
                (wanted.targets.iter().map(|&j| intervention.shift[j]).collect(), Ok(samples))
            }
            Err(reason) => (Vec::new(), Err(reason)),
        };
        let truth = in_standard_units(model, test.environment(e));
        let samples = samples.map(|samples| in_standard_units(model, samples));
        let (scores, unstable) = compare_samples(&model.names, samples, &truth)?;
        let targets = wanted.targets.iter().map(|&j| model.names[j].clone()).collect();
        predictions.push(Prediction { environment: e, targets, shifts, scores, unstable });
        progress.set(
            MATCHING_PROGRESS
                + (PREDICTION_PROGRESS - MATCHING_PROGRESS) * (e as u64 + 1) / test.environments() as u64,
        )?;
    }
    Ok(predictions)
}

/// The distances of predicted samples from true ones, or the reason why there are none.
pub(crate) fn compare_samples(
    names: &[String],
    samples: Result<Matrix<f64>>,
    truth: &Matrix<f64>,
) -> Result<(Option<Scores>, Option<String>)> {
    let samples = match samples {
        Ok(samples) => samples,
        Err(Error::NonFinite(reason)) => return Ok((None, Some(reason))),
        Err(other) => return Err(other),
    };
    if let Some(reason) = too_wide(names, &samples) {
        return Ok((None, Some(reason)));
    }
    Ok((Some(distances(&samples, truth)?), None))
}

/// The reason why samples count as unstable, if they do.
fn too_wide(names: &[String], samples: &Matrix<f64>) -> Option<String> {
    let (j, deviation) = widest(samples).filter(|(_, deviation)| *deviation > LARGEST_DEVIATION)?;
    Some(format!(
        "variable '{}' has the standard deviation {deviation:.3e}, expected at most {LARGEST_DEVIATION}",
        names[j]
    ))
}

fn distances(samples: &Matrix<f64>, truth: &Matrix<f64>) -> Result<Scores> {
    Ok(Scores {
        mse: mean_squared_error(samples, truth)?,
        w2: wasserstein2(samples, truth)?,
        sinkhorn: sinkhorn_divergence(samples, truth)?,
    })
}

/// Distances are in standard units if the model knows them, so that no variable dominates by its scale.
fn in_standard_units(model: &Model, mut samples: Matrix<f64>) -> Matrix<f64> {
    if let Some(units) = model.units() {
        units.apply_to(&mut samples);
    }
    samples
}

/// The variable with the largest standard deviation.
fn widest(samples: &Matrix<f64>) -> Option<(usize, f64)> {
    let (_, deviations) = moments(samples);
    deviations.into_iter().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))
}
