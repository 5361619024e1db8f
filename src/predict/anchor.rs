//! Predictions that start from observed rows.

use super::law::{duplicate, laws_of};
use super::matching::{Goal, MatchingTask, match_tasks};
use super::{TransportMap, Treatment};
use crate::data::Dataset;
use crate::model::Model;
use crate::sample::{Intervention, SampleSettings, Sampler};
use crate::{Error, Matrix, Progress, Result};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The rows of a dataset's observational environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    /// The environment's index.
    pub environment: usize,
    /// Its rows, in the data's units.
    pub rows: Matrix<f64>,
    /// Their means.
    pub means: Vec<f64>,
}

impl Origin {
    /// The first environment without targets, of data with the model's variables.
    pub fn of(model: &Model, data: &Dataset) -> Result<Self> {
        model.check_variables(data, "the data to start from")?;
        let Some(e) = data.observational() else {
            return Err(Error::invalid(format!(
                "all {} environments of the data to start from have targets, expected one without targets",
                data.environments()
            )));
        };
        Ok(Origin { environment: e, rows: data.environment(e), means: data.means(e) })
    }

    /// `n` of the rows, drawn without replacement and kept in order; all rows for `None`.
    pub fn draw(mut self, n: Option<usize>, seed: u64) -> Result<Self> {
        let (all, d) = (self.rows.rows(), self.rows.cols());
        let n = n.unwrap_or(all);
        if n > all {
            return Err(Error::invalid(format!(
                "asked for {n} samples from {all} rows, expected at most the environment's number of rows"
            )));
        }
        if n < all {
            let mut order: Vec<usize> = (0..all).collect();
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            (0..n).for_each(|k| order.swap(k, rng.random_range(k..all)));
            order.truncate(n);
            order.sort_unstable();
            self.rows = Matrix::from_fn(n, d, |i, j| self.rows[(order[i], j)]);
        }
        Ok(self)
    }

    /// The rows after the map, held at or above 0 if the settings ask for it.
    pub fn moved(&self, map: &TransportMap, settings: &SampleSettings) -> Matrix<f64> {
        let mut moved = map.apply(&self.rows);
        if settings.nonnegative {
            moved.as_mut_slice().iter_mut().for_each(|x| *x = x.max(0.0));
        }
        moved
    }
}

/// The observed rows, moved by the model's prediction of a treatment, in the data's units.
///
/// Means that are set apply to all rows of the environment, even if only some were [drawn](Origin::draw).
pub fn anchored(
    sampler: &Sampler,
    model: &Model,
    origin: &Origin,
    treatment: &Treatment,
    settings: &SampleSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Matrix<f64>> {
    let treatments = std::slice::from_ref(treatment);
    let map =
        transport_maps(sampler, model, &origin.means, treatments, settings, seed, progress)?.remove(0)?;
    Ok(origin.moved(&map, settings))
}

/// The same for several treatments with names: one matrix of rows each. Where a model has no law under one of them, the error
/// names it.
pub fn anchored_each(
    sampler: &Sampler,
    model: &Model,
    origin: &Origin,
    (names, treatments): (&[String], &[Treatment]),
    settings: &SampleSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<Matrix<f64>>> {
    let maps = transport_maps(sampler, model, &origin.means, treatments, settings, seed, progress)?;
    maps.into_iter()
        .zip(names)
        .map(|(map, name)| match map {
            Ok(map) => Ok(origin.moved(&map, settings)),
            Err(Error::NonFinite(reason)) => Err(Error::NonFinite(format!("{name:.60}: {reason}"))),
            Err(other) => Err(other),
        })
        .collect()
}

/// The map by which each treatment moves rows whose means are `observed`, in the data's units. Set means are reached exactly. If
/// the model has no stationary law under a treatment, that entry is an error. `progress` counts to
/// [`MATCHING_PROGRESS`](super::MATCHING_PROGRESS) if means are set.
pub fn transport_maps(
    sampler: &Sampler,
    model: &Model,
    observed: &[f64],
    treatments: &[Treatment],
    settings: &SampleSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<Result<TransportMap>>> {
    if !model.members.is_empty() {
        return averaged_maps(sampler, model, observed, treatments, settings, seed, progress);
    }
    let none = Intervention::none(model.dim());
    let interventions: Vec<&Intervention> =
        std::iter::once(&none).chain(treatments.iter().map(|treatment| &treatment.intervention)).collect();
    let mut laws = laws_of(sampler, model, &interventions, settings, seed, progress)?.into_iter();
    let rest = laws.next().expect("the law at rest was asked for first");
    let map_from_rest = |to: Result<super::Law>| -> Result<TransportMap> {
        let map = TransportMap::between(&duplicate(&rest)?, &to?)?;
        Ok(match model.units() {
            Some(units) => map.in_data_units(units),
            None => map,
        })
    };
    let mut maps: Vec<Result<TransportMap>> = laws.map(map_from_rest).collect();

    // Set means become changes from where the rest of the treatment moves the rows.
    let (mut places, mut aims) = (Vec::new(), Vec::new());
    for (place, (map, treatment)) in maps.iter().zip(treatments).enumerate() {
        if let (Ok(map), true) = (map, treatment.sets_means()) {
            let before = image_of(map, observed);
            let set = treatment.set.targets.iter().zip(&treatment.set.means);
            places.push(place);
            aims.push(MatchingTask {
                base: treatment.intervention.clone(),
                targets: treatment.set.targets.clone(),
                goal: Goal::Changes(set.map(|(&j, mean)| mean - before[j]).collect()),
            });
        }
    }
    if aims.is_empty() {
        return Ok(maps);
    }
    let found = match_tasks(sampler, model, &aims, settings, seed, progress)?;
    let matched: Vec<&Intervention> = found.iter().flatten().collect();
    let mut laws = laws_of(sampler, model, &matched, settings, seed, progress)?.into_iter();
    for (place, found) in places.into_iter().zip(&found) {
        maps[place] = match found {
            Ok(_) => map_from_rest(laws.next().expect("every intervention has its answer")),
            Err(reason) => Err(Error::NonFinite(reason.to_string())),
        };
        // Simulated means have an error; set means must not.
        if let Ok(map) = &mut maps[place] {
            let after = image_of(map, observed);
            let set = &treatments[place].set;
            set.targets.iter().zip(&set.means).for_each(|(&j, mean)| map.shift[j] += mean - after[j]);
        }
    }
    Ok(maps)
}

/// Each member of an ensemble finds its own shifts and its own map. The result is the average map.
fn averaged_maps(
    sampler: &Sampler,
    model: &Model,
    observed: &[f64],
    treatments: &[Treatment],
    settings: &SampleSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<Result<TransportMap>>> {
    let mut each: Vec<Vec<Result<TransportMap>>> = Vec::new();
    for k in 0..model.members.len() {
        each.push(transport_maps(sampler, &model.member(k), observed, treatments, settings, seed, progress)?);
    }
    let mut each: Vec<_> = each.into_iter().map(Vec::into_iter).collect();
    let average = |_| {
        let maps = each.iter_mut().map(|maps| maps.next().expect("every treatment has its answer"));
        let maps = maps.collect::<Result<Vec<_>>>()?;
        let weights = model.members.iter().map(|member| member.weight);
        Ok(TransportMap::average(&weights.zip(maps).collect::<Vec<_>>()))
    };
    Ok(treatments.iter().map(average).collect())
}

/// The image of one point.
fn image_of(map: &TransportMap, point: &[f64]) -> Vec<f64> {
    map.apply(&Matrix::from_rows(1, point.len(), point.to_vec())).row(0).to_vec()
}
