//! Finds shifts within one simulation each, which is steered to the goals.

use super::bracketing::bracketed;
use super::matching::{Goal, MATCHING_PROGRESS, MATCHING_SAMPLES, MatchingTask};
use crate::model::Model;
use crate::numeric::statistics::moments;
use crate::sample::{Draw, Goals, Intervention, SampleSettings, Sampler, Steered, SteeredDraw};
use crate::{Error, Matrix, Progress, Result};
use std::sync::Arc;

/// A steered simulation that misses a mean by more standard deviations than this is left to bracketing.
const ACCEPTED_MISS: f64 = 0.06;

/// An intervention that was found and, if the search simulated it last, samples under it.
pub(super) struct Found {
    pub intervention: Intervention,
    pub samples: Option<Matrix<f64>>,
}

/// Steers one simulation for each aim, and searches by bracketing where that fails.
pub(super) fn steered(
    sampler: &Sampler,
    model: &Model,
    aims: &[MatchingTask],
    rows: &[usize],
    settings: &SampleSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<Result<Found>>> {
    let goals = goals_of(sampler, model, aims, settings, seed, progress)?;
    let draws = aims.iter().zip(&goals).zip(rows).zip(0..).filter_map(|(((aim, goals), &samples), e)| {
        let goals = goals.as_ref().ok()?.clone();
        let MatchingTask { base, targets, .. } = aim;
        // What follows a simulation has its random numbers.
        let own = if matches!(goals, Goals::Follow { .. }) { 0 } else { e };
        Some(SteeredDraw { base, targets, goals, samples, seed: seed.wrapping_add(own) })
    });
    let draws: Vec<SteeredDraw<'_>> = draws.collect();
    let mut drawn = sampler.steer(model, &draws, settings, MATCHING_PROGRESS, progress)?.into_iter();
    let mut found: Vec<Option<Result<Found>>> = goals
        .into_iter()
        .map(|goals| match goals {
            Err(reason) => Some(Err(reason)),
            Ok(_) => match drawn.next().expect("every aim with goals was steered to") {
                Ok(Steered { intervention, samples, miss, .. }) if miss <= ACCEPTED_MISS => {
                    Some(Ok(Found { intervention, samples: Some(samples) }))
                }
                _ => None,
            },
        })
        .collect();
    let left: Vec<usize> = (0..aims.len()).filter(|&k| found[k].is_none()).collect();
    let by_bracketing = bracketed(sampler, model, aims, &left, settings, seed, progress)?;
    for (k, outcome) in left.into_iter().zip(by_bracketing) {
        found[k] = Some(outcome.map(|intervention| Found { intervention, samples: None }));
    }
    Ok(found.into_iter().map(|found| found.expect("every aim has its outcome")).collect())
}

/// The goals of each aim, in the units of the model's parameters. Changes follow a simulation of the base with the same random
/// numbers; bases that several aims share are simulated once.
fn goals_of(
    sampler: &Sampler,
    model: &Model,
    aims: &[MatchingTask],
    settings: &SampleSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<Result<Goals>>> {
    let mut bases: Vec<&Intervention> = Vec::new();
    for aim in aims.iter().filter(|aim| matches!(aim.goal, Goal::Changes(_))) {
        if !bases.contains(&&aim.base) {
            bases.push(&aim.base);
        }
    }
    let still = Goals::Means(Vec::new());
    let draws: Vec<SteeredDraw<'_>> = bases
        .iter()
        .map(|base| SteeredDraw { base, targets: &[], goals: still.clone(), samples: MATCHING_SAMPLES, seed })
        .collect();
    let measured = match draws.is_empty() {
        true => Vec::new(),
        false => sampler.steer(model, &draws, settings, 0, &progress.part())?,
    };
    let tracks: Vec<Result<Arc<Vec<Vec<f64>>>>> =
        measured.into_iter().map(|steered| steered.map(|steered| Arc::new(steered.track))).collect();
    let units = model.standardization.as_ref();
    let goals_of = |aim: &MatchingTask| -> Result<Goals> {
        let pairs = aim.targets.iter();
        match &aim.goal {
            Goal::Means(means) => {
                let own = |(&j, mean): (&usize, &f64)| units.map_or(*mean, |units| units.standard(j, *mean));
                Ok(Goals::Means(pairs.zip(means).map(own).collect()))
            }
            Goal::Changes(changes) => {
                let own = |(&j, by): (&usize, &f64)| units.map_or(*by, |units| by / units.scale[j]);
                let at = bases.iter().position(|base| **base == aim.base);
                match &tracks[at.expect("every base was measured")] {
                    Ok(track) => Ok(Goals::Follow {
                        track: track.clone(),
                        changes: pairs.zip(changes).map(own).collect(),
                    }),
                    Err(reason) => Err(Error::NonFinite(reason.to_string())),
                }
            }
        }
    };
    Ok(aims.iter().map(goals_of).collect())
}

/// For each entry of `wanted`, variables and the changes of their means that shifts of their drift bring about: the changes of all means that
/// go with them. Everything is in the units of the model, which is simulated. If the model has no law under an intervention, that entry
/// is an error.
pub(crate) fn changes_of_means(
    sampler: &Sampler,
    model: &Model,
    wanted: &[(Vec<usize>, Vec<f64>)],
    settings: &SampleSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<Result<Vec<f64>>>> {
    let base = Intervention::none(model.dim());
    let aims: Vec<MatchingTask> = wanted
        .iter()
        .map(|(targets, changes)| MatchingTask {
            base: base.clone(),
            targets: targets.clone(),
            goal: Goal::Changes(changes.clone()),
        })
        .collect();
    let found =
        steered(sampler, model, &aims, &vec![MATCHING_SAMPLES; aims.len()], settings, seed, progress)?;
    // All have the random numbers of the base, so the noise of its means cancels.
    let draw = |intervention| Draw { intervention, samples: MATCHING_SAMPLES, seed };
    let interventions =
        found.iter().flatten().filter(|found| found.samples.is_none()).map(|found| &found.intervention);
    let draws: Vec<Draw<'_>> = std::iter::once(&base).chain(interventions).map(draw).collect();
    let mut drawn = sampler.draw(model, &draws, settings, &progress.part())?.into_iter();
    let before = match drawn.next().expect("the base was drawn") {
        Ok(samples) => moments(&samples).0,
        Err(reason) => return Ok(wanted.iter().map(|_| Err(Error::NonFinite(reason.to_string()))).collect()),
    };
    let change = |found: Result<Found>| -> Result<Vec<f64>> {
        let samples = match found?.samples {
            Some(samples) => samples,
            None => drawn.next().expect("every intervention without samples was drawn under")?,
        };
        Ok(moments(&samples).0.iter().zip(&before).map(|(now, before)| now - before).collect())
    };
    Ok(found.into_iter().map(change).collect())
}
