//! One prediction, from the model's law or from observed rows.

use super::{MATCHING_PROGRESS, Origin, Treatment, anchored, interventions_for};
use crate::model::Model;
use crate::sample::{Draw, SampleSettings, Sampler};
use crate::{Matrix, Progress, Result};

/// The start of a prediction.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// The model alone: this many samples of its stationary law.
    Law(usize),
    /// Observed rows.
    Data(Origin),
}

impl Start {
    /// The number of samples of the prediction.
    pub fn samples(&self) -> usize {
        match self {
            Start::Law(samples) => *samples,
            Start::Data(origin) => origin.rows.rows(),
        }
    }

    /// The progress count at the end of [`predicted`]; 0 if it does not count.
    pub(crate) fn counted(&self, sampler: &Sampler, treatment: &Treatment, settings: &SampleSettings) -> u64 {
        match self {
            _ if treatment.sets_means() => MATCHING_PROGRESS,
            Start::Law(samples) => sampler.steps_for(*samples, settings),
            Start::Data(_) => 0,
        }
    }
}

/// The model's prediction after a treatment, one sample per row, in the data's units.
pub fn predicted(
    sampler: &Sampler,
    model: &Model,
    start: &Start,
    treatment: &Treatment,
    settings: &SampleSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Matrix<f64>> {
    let samples = match start {
        Start::Law(samples) => *samples,
        Start::Data(origin) => {
            return anchored(sampler, model, origin, treatment, settings, seed, progress);
        }
    };
    let draw = |intervention: &_, progress: &_| {
        sampler.draw(model, &[Draw { intervention, samples, seed }], settings, progress)?.remove(0)
    };
    if !treatment.sets_means() {
        return draw(&treatment.intervention, progress);
    }
    let treatments = std::slice::from_ref(treatment);
    let found = interventions_for(sampler, model, treatments, settings, seed, progress)?.remove(0)?;
    draw(&found, &progress.part())
}
