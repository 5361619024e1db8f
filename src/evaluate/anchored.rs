//! Predictions that start from the rows of the training data, beside what can be predicted without a model.

use super::floors::{additive, no_effect};
use super::{PREDICTED, Scores, distances, in_standard_units, told_of, too_wide};
use crate::data::Dataset;
use crate::metric::mean_squared_error;
use crate::model::Model;
use crate::predict::{MATCHED, Origin, TransportMap, Treatment, transport_maps};
use crate::sample::{SampleSettings, Sampler};
use crate::{Error, Matrix, Progress, Result};

/// The distances of each test environment from predictions that start from observed rows; none where there is no
/// prediction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnchoredScores {
    /// Rows that are moved as the model says.
    pub anchored: Vec<Option<Scores>>,
    /// Rows of which only the targets are moved, to where they were told to be.
    pub none: Vec<Option<Scores>>,
    /// Rows that are moved by the sum of what was observed when each target of a combination was intervened on alone.
    pub additive: Vec<Option<Scores>>,
}

/// Predicts every environment of the test data by moving the observational rows of `train`, and compares as many of them
/// as the environment has; means are compared over all rows. `progress` counts to [`PREDICTED`].
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
    let told = told_of(test);
    let treatments: Vec<Treatment> =
        told.iter().map(|wanted| Treatment::setting(model, wanted.clone())).collect();
    let maps = transport_maps(sampler, model, &origin.means, &treatments, settings, seed, progress)?;
    let mut all = AnchoredScores::default();
    for (e, (map, wanted)) in maps.into_iter().zip(&told).enumerate() {
        let truth = in_standard_units(model, test.environment(e));
        let moved = |map: &TransportMap, settings: &SampleSettings| {
            in_standard_units(model, origin.moved(map, settings))
        };
        all.anchored.push(match map {
            Ok(map) => {
                let rows = moved(&map, settings);
                // A translation is as wide as the data, however wide that is.
                let wide = map.deviations.is_some() && too_wide(&model.names, &rows).is_some();
                if wide { None } else { Some(compare(rows, &truth)?) }
            }
            Err(Error::NonFinite(_)) => None,
            Err(other) => return Err(other),
        });
        // Floors are what they are: no setting of a simulation is theirs.
        let of_floor = |map: TransportMap| compare(moved(&map, &SampleSettings::default()), &truth);
        all.none.push(Some(of_floor(no_effect(&origin, wanted))?));
        all.additive.push(additive(train, &origin, wanted).map(of_floor).transpose()?);
        progress.set(MATCHED + (PREDICTED - MATCHED) * (e as u64 + 1) / test.environments() as u64)?;
    }
    Ok(all)
}

/// Means of all rows, distances of as many as both have.
fn compare(predicted: Matrix<f64>, truth: &Matrix<f64>) -> Result<Scores> {
    let mse = mean_squared_error(&predicted, truth)?;
    let n = predicted.rows().min(truth.rows());
    let first = |rows: &Matrix<f64>| Matrix::from_rows(n, rows.cols(), rows.rows_slice(0..n).to_vec());
    Ok(Scores { mse, ..distances(&first(&predicted), &first(truth))? })
}
