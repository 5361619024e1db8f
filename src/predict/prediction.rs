//! One prediction, wherever it starts.

use super::{MATCHED, Origin, Treatment, anchored, interventions_for};
use crate::model::Model;
use crate::sample::{Draw, SampleSettings, Sampler};
use crate::{Matrix, Progress, Result};

/// What a prediction starts from.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// Nothing but the model: so many samples of its stationary law.
    Law(usize),
    /// Rows that were observed.
    Data(Origin),
}

impl Start {
    /// Samples of a prediction.
    pub fn samples(&self) -> usize {
        match self {
            Start::Law(samples) => *samples,
            Start::Data(origin) => origin.rows.rows(),
        }
    }

    /// What progress counts to in [`predicted`]; nothing if it does not count.
    pub(crate) fn counted(&self, sampler: &Sampler, treatment: &Treatment, settings: &SampleSettings) -> u64 {
        match self {
            _ if treatment.sets_means() => MATCHED,
            Start::Law(samples) => sampler.steps_for(*samples, settings),
            Start::Data(_) => 0,
        }
    }
}

/// What a model says of a system after a treatment, one sample per row, in the data's units.
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
