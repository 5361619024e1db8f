//! The same fit to parts of the data, choice included: how far predictions depend on what was observed.

use crate::data::Dataset;
use crate::fit::{Knowledge, PreparedFit, Settings};
use crate::model::Model;
use crate::{Error, Matrix, Progress, Result};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Fewer refits cannot disagree.
pub const LEAST_REFITS: usize = 2;
/// More are refused.
const MOST_REFITS: usize = 10_000;
/// The share of interventions that a refit sees.
const SHARE: f64 = 2.0 / 3.0;
/// A refit sees at least so many, if there are as many: with fewer a choice would leave out rows instead.
const LEAST_INTERVENTIONS: usize = 3;
/// An environment with fewer rows is seen whole.
const LEAST_ROWS: usize = 8;

/// Fits with the settings of `model`, each to two thirds of the interventions and half of the rows of every environment.
/// `progress` counts the fits that each compares.
pub fn refits(
    model: &Model,
    data: &Dataset,
    known: Option<&Knowledge>,
    count: usize,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<Model>> {
    if !(LEAST_REFITS..=MOST_REFITS).contains(&count) {
        return Err(Error::invalid(format!(
            "{count} refits are asked for, expected {LEAST_REFITS} to {MOST_REFITS}"
        )));
    }
    let settings = settings_of(model)?;
    let each = fits_of_one(model, data)?;
    (0..count)
        .map(|k| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream(1 + k as u64);
            let part = part_of(data, &mut rng)?;
            let prepared = match known {
                Some(known) => PreparedFit::with_knowledge(&part, &settings, known.clone())?,
                None => PreparedFit::new(&part, &settings)?,
            };
            let fit = prepared.solve(None, progress)?;
            // Parts of the data may have fewer fits to compare than the whole.
            progress.set((k as u64 + 1) * each)?;
            Ok(fit.model)
        })
        .collect()
}

/// The fits that a fit with the settings of `model` compares; an error if it cannot be repeated.
pub(super) fn fits_of_one(model: &Model, data: &Dataset) -> Result<u64> {
    let settings = settings_of(model)?;
    if settings.settle()?.solver.adam().is_some() {
        return Err(Error::invalid(
            "the model was trained by adam, which takes too long to repeat, expected a model of the exact solver: or name a state to reach",
        ));
    }
    Ok(PreparedFit::new(data, &settings)?.fit_count())
}

/// The settings of the model's fit, without what it has chosen.
fn settings_of(model: &Model) -> Result<Settings> {
    if model.settings.is_empty() {
        return Err(Error::invalid(
            "the model was not fitted by skds, so it has no settings to repeat the fit with",
        ));
    }
    let given = model.settings.iter().filter(|(name, _)| !["chosen", "raised"].contains(&name.as_str()));
    let given = given.map(|(name, value)| (name.clone(), value.clone())).collect();
    serde_json::from_value(serde_json::Value::Object(given))
        .map_err(|error| Error::invalid(format!("the model's settings cannot be read: {error}")))
}

/// Half of the rows of every observational environment and of two thirds of the others.
fn part_of(data: &Dataset, rng: &mut ChaCha8Rng) -> Result<Dataset> {
    let (d, all) = (data.dim(), data.environments());
    let mut interventions: Vec<usize> = (0..all).filter(|&e| data.targets().row(e).contains(&true)).collect();
    let kept = ((SHARE * interventions.len() as f64).ceil() as usize).max(LEAST_INTERVENTIONS);
    interventions.shuffle(rng);
    interventions.truncate(kept);
    let stays = |e: &usize| interventions.contains(e) || !data.targets().row(*e).contains(&true);
    let environments: Vec<usize> = (0..all).filter(stays).collect();
    let mut parts = Vec::new();
    for &e in &environments {
        let rows = data.rows(e);
        let wanted = if rows.len() < LEAST_ROWS { rows.len() } else { rows.len() / 2 };
        let chosen = some_of(rows.collect(), wanted, rng);
        parts.push(Matrix::from_fn(chosen.len(), d, |i, j| data.samples()[(chosen[i], j)]));
    }
    Dataset::from_environments(parts)?
        .with_targets(Matrix::from_fn(environments.len(), d, |e, j| data.targets()[(environments[e], j)]))?
        .with_names(data.names().to_vec())
}

/// Some of all, in their order.
fn some_of(mut all: Vec<usize>, wanted: usize, rng: &mut ChaCha8Rng) -> Vec<usize> {
    for k in 0..wanted {
        let other = rng.random_range(k..all.len());
        all.swap(k, other);
    }
    all.truncate(wanted);
    all.sort_unstable();
    all
}
