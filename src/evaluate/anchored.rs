//! Predictions that start from the rows of the training data, and floors that need no model.

use super::floors::{additive, no_effect};
use super::{PREDICTION_PROGRESS, Scores, distances, in_standard_units, target_means, too_wide};
use crate::data::Dataset;
use crate::metric::mean_squared_error;
use crate::model::Model;
use crate::predict::{MATCHING_PROGRESS, Origin, TransportMap, Treatment, transport_maps};
use crate::sample::{SampleSettings, Sampler};
use crate::{Error, Matrix, Progress, Result};

/// The distances of each test environment from predictions that start from observed rows; none without a prediction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnchoredScores {
    /// Rows moved by the model's prediction.
    pub anchored: Vec<Option<Scores>>,
    /// Rows of which only the targets are moved, to their given means.
    pub none: Vec<Option<Scores>>,
    /// Rows moved by the sum of the observed effects of single interventions, for combinations of targets.
    pub additive: Vec<Option<Scores>>,
}

/// Predicts every environment of the test data by moving the observational rows of `train`. Distances compare as many rows as the
/// environment has; means are compared over all rows. `progress` counts to [`PREDICTION_PROGRESS`].
pub fn predict_anchored(
    sampler: &Sampler,
    model: &Model,
    test: &Dataset,
    train: &Dataset,
    settings: &SampleSettings,
    seed: u64,
    progress: &Progress,
) -> Result<AnchoredScores> {
    let origin = Origin::of(model, train)?;
    let wanted = target_means(test);
    let treatments: Vec<Treatment> =
        wanted.iter().map(|wanted| Treatment::with_means(model, wanted.clone())).collect();
    let maps = transport_maps(sampler, model, &origin.means, &treatments, settings, seed, progress)?;
    let mut all = AnchoredScores::default();
    for (e, (map, wanted)) in maps.into_iter().zip(&wanted).enumerate() {
        let truth = in_standard_units(model, test.environment(e));
        let moved = |map: &TransportMap, settings: &SampleSettings| {
            in_standard_units(model, origin.moved(map, settings))
        };
        all.anchored.push(match map {
            Ok(map) => {
                let rows = moved(&map, settings);
                // A translation keeps the width of the data, so it is never too wide.
                let wide = map.deviations.is_some() && too_wide(&model.names, &rows).is_some();
                if wide { None } else { Some(compare(rows, &truth)?) }
            }
            Err(Error::NonFinite(_)) => None,
            Err(other) => return Err(other),
        });
        // Floors do not depend on settings of the simulation.
        let of_floor = |map: TransportMap| compare(moved(&map, &SampleSettings::default()), &truth);
        all.none.push(Some(of_floor(no_effect(&origin, wanted))?));
        all.additive.push(additive(train, &origin, wanted).map(of_floor).transpose()?);
        progress.set(
            MATCHING_PROGRESS
                + (PREDICTION_PROGRESS - MATCHING_PROGRESS) * (e as u64 + 1) / test.environments() as u64,
        )?;
    }
    Ok(all)
}

/// Compares means over all rows, and distances over as many rows as both have.
fn compare(predicted: Matrix<f64>, truth: &Matrix<f64>) -> Result<Scores> {
    let mse = mean_squared_error(&predicted, truth)?;
    let n = predicted.rows().min(truth.rows());
    let first = |rows: &Matrix<f64>| Matrix::from_rows(n, rows.cols(), rows.rows_slice(0..n).to_vec());
    Ok(Scores { mse, ..distances(&first(&predicted), &first(truth))? })
}
