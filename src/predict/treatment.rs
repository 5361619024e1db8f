//! Treatments: interventions, and means that are set.

use super::TargetMeans;
use super::matching::{Goal, MatchingTask, match_tasks};
use crate::model::Model;
use crate::sample::{Intervention, SampleSettings, Sampler};
use crate::{Error, Progress, Result};
use std::collections::BTreeMap;

/// An intervention, with shifts on top of it that bring some variables to given means.
#[derive(Clone, Debug, PartialEq)]
pub struct Treatment {
    /// In the model's units.
    pub intervention: Intervention,
    /// The variables whose means are set, and the means in the data's units.
    pub set: TargetMeans,
}

impl Treatment {
    /// A treatment that only sets means.
    pub fn with_means(model: &Model, set: TargetMeans) -> Self {
        Treatment { intervention: Intervention::none(model.dim()), set }
    }

    /// A treatment by names of variables: the fitted intervention of training environment `env`, then shifts of drifts, factors
    /// of noises, and means to set.
    pub fn named(
        model: &Model,
        env: Option<usize>,
        shift: &BTreeMap<String, f64>,
        scale: &BTreeMap<String, f64>,
        set: &BTreeMap<String, f64>,
    ) -> Result<Self> {
        let mut intervention = match env {
            Some(e) => Intervention::of_environment(model, e)?,
            None => Intervention::none(model.dim()),
        };
        for (name, by) in shift {
            intervention.add_shift(model.variable(name)?, *by)?;
        }
        for (name, factor) in scale {
            intervention.multiply_noise(model.variable(name)?, *factor)?;
        }
        let mut wanted = TargetMeans { targets: Vec::new(), means: Vec::new() };
        for (name, mean) in set {
            let variable = model.variable(name)?;
            if shift.contains_key(name) {
                return Err(Error::invalid(format!(
                    "found both a shift and a mean for '{name}', expected one of them"
                )));
            }
            if !mean.is_finite() {
                return Err(Error::invalid(format!(
                    "the mean for '{name}' is {mean}, expected a finite number"
                )));
            }
            wanted.targets.push(variable);
            wanted.means.push(*mean);
        }
        Ok(Treatment { intervention, set: wanted })
    }

    /// Whether the treatment does anything to a variable itself.
    pub fn acts_on(&self, variable: usize) -> bool {
        let Intervention { shift, log_scale } = &self.intervention;
        shift[variable] != 0.0 || log_scale[variable] != 0.0 || self.set.targets.contains(&variable)
    }

    /// Whether the treatment sets means, so that shifts must be found.
    pub fn sets_means(&self) -> bool {
        !self.set.targets.is_empty()
    }
}

/// The intervention of each treatment, with the shifts that give the model the means to set. If the model has no stationary law
/// under a treatment, that entry is an error. `progress` counts to [`MATCHING_PROGRESS`](super::MATCHING_PROGRESS).
pub fn interventions_for(
    sampler: &Sampler,
    model: &Model,
    treatments: &[Treatment],
    settings: &SampleSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<Result<Intervention>>> {
    let aims: Vec<MatchingTask> = treatments
        .iter()
        .map(|Treatment { intervention, set }| MatchingTask {
            base: intervention.clone(),
            targets: set.targets.clone(),
            goal: Goal::Means(set.means.clone()),
        })
        .collect();
    match_tasks(sampler, model, &aims, settings, seed, progress)
}
