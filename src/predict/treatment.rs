//! What is done to a system.

use super::Wanted;
use super::matching::{Aim, Goal, match_aims};
use crate::model::Model;
use crate::sample::{Intervention, SampleSettings, Sampler};
use crate::{Error, Progress, Result};
use std::collections::BTreeMap;

/// An intervention, and on top of it shifts that bring the means of some variables to given values.
#[derive(Clone, Debug, PartialEq)]
pub struct Treatment {
    /// In the model's units.
    pub intervention: Intervention,
    /// The variables whose means are set, and the means in the data's units.
    pub set: Wanted,
}

impl Treatment {
    /// Nothing but means that are set.
    pub fn setting(model: &Model, set: Wanted) -> Self {
        Treatment { intervention: Intervention::none(model.dim()), set }
    }

    /// By the names of variables: the fitted intervention of training environment `env`, on top of it what is added to
    /// drifts and what noises are multiplied by, and the means that are set.
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
        let mut wanted = Wanted { targets: Vec::new(), means: Vec::new() };
        for (name, mean) in set {
            let variable = model.variable(name)?;
            if shift.contains_key(name) {
                return Err(Error::invalid(format!(
                    "found both a shift of '{name}' and a mean that it is set to, expected one of them"
                )));
            }
            if !mean.is_finite() {
                return Err(Error::invalid(format!(
                    "the mean that '{name}' is set to is {mean}, expected a finite number"
                )));
            }
            wanted.targets.push(variable);
            wanted.means.push(*mean);
        }
        Ok(Treatment { intervention, set: wanted })
    }

    /// Whether shifts are to be found.
    pub fn sets_means(&self) -> bool {
        !self.set.targets.is_empty()
    }
}

/// The intervention of each treatment, with the shifts under which the model's own means are those that are set. One
/// under which the model has no stationary law is an error of its own entry. `progress` counts to
/// [`MATCHED`](super::MATCHED).
pub fn interventions_for(
    sampler: &Sampler,
    model: &Model,
    treatments: &[Treatment],
    settings: &SampleSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<Result<Intervention>>> {
    let aims: Vec<Aim> = treatments
        .iter()
        .map(|Treatment { intervention, set }| Aim {
            base: intervention.clone(),
            targets: set.targets.clone(),
            goal: Goal::Means(set.means.clone()),
        })
        .collect();
    match_aims(sampler, model, &aims, settings, seed, progress)
}
