//! Finds the shifts that bring variables to given means.

use super::bracketing::bracketed;
use super::steering::{Found, steered};
use crate::model::Model;
use crate::sample::{Draw, Intervention, LinearParts, Method, SampleSettings, Sampler};
use crate::{Error, Matrix, Progress, Result};
use faer::linalg::solvers::Solve;
use std::borrow::Cow;

/// Samples that estimate a mean.
pub(crate) const MATCHING_SAMPLES: usize = 512;

/// The progress count at the end of the search for shifts. [`PREDICTION_PROGRESS`](crate::evaluate::PREDICTION_PROGRESS) includes
/// the comparison of samples.
pub const MATCHING_PROGRESS: u64 = 800;

/// Variables that are intervened on, and the means that the intervention gives them.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetMeans {
    /// The variables that are intervened on.
    pub targets: Vec<usize>,
    /// Their means, in the data's units.
    pub means: Vec<f64>,
}

/// Means to reach by shifts on top of another intervention.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MatchingTask {
    /// The intervention to start from, in the model's units.
    pub base: Intervention,
    /// The variables whose shifts are to be found.
    pub targets: Vec<usize>,
    /// Their means, or changes of means, in the data's units.
    pub goal: Goal,
}

impl MatchingTask {
    /// On top of no intervention.
    fn of(model: &Model, TargetMeans { targets, means }: &TargetMeans) -> Self {
        let (base, targets, goal) =
            (Intervention::none(model.dim()), targets.clone(), Goal::Means(means.clone()));
        MatchingTask { base, targets, goal }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Goal {
    Means(Vec<f64>),
    /// Differences to the means under the base in the same simulation, so that its noise cancels.
    Changes(Vec<f64>),
}

/// For each entry of `wanted`, the intervention on its targets under which they have the wanted stationary means. Linear models
/// that are sampled exactly have a closed form. For all others, one simulation of each entry is steered to the means, and simulations
/// bracket the shifts where that fails. If the model has no stationary law under an intervention, that entry is an error.
///
/// `progress` counts to [`MATCHING_PROGRESS`], roughly in proportion to the work.
pub fn match_means(
    sampler: &Sampler,
    model: &Model,
    wanted: &[TargetMeans],
    settings: &SampleSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<Result<Intervention>>> {
    let aims: Vec<MatchingTask> = wanted.iter().map(|wanted| MatchingTask::of(model, wanted)).collect();
    match_tasks(sampler, model, &aims, settings, seed, progress)
}

/// The same on top of other interventions, which the results include.
pub(super) fn match_tasks(
    sampler: &Sampler,
    model: &Model,
    aims: &[MatchingTask],
    settings: &SampleSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<Result<Intervention>>> {
    let standard = model.in_standard_units();
    if let (Cow::Owned(standard), Some(units)) = (&standard, &model.reference) {
        let inside: Vec<MatchingTask> = aims
            .iter()
            .map(|aim| MatchingTask { base: aim.base.in_standard_units(units), ..aim.clone() })
            .collect();
        let found = match_tasks(sampler, standard, &inside, settings, seed, progress)?;
        let in_data_units = |found: Result<Intervention>| found.map(|found| found.in_data_units(units));
        return Ok(found.into_iter().map(in_data_units).collect());
    }
    let exact = settings.method_for(model)? == Method::Exact;
    if exact && model.is_of_equations() {
        // Samples are cheap, and searches have the same random numbers throughout.
        let all: Vec<usize> = (0..aims.len()).collect();
        let found = bracketed(sampler, model, aims, &all, settings, seed, progress)?;
        progress.set(MATCHING_PROGRESS)?;
        return Ok(found);
    }
    if exact {
        progress.set(MATCHING_PROGRESS)?;
        let parts = LinearParts::of(model)?;
        let solve = |aim: &MatchingTask| {
            let goal = aim.goal.in_standard_units(model, &aim.targets);
            let mut found = aim.base.clone();
            let response = parts.response(&aim.base, &aim.targets);
            for (&j, shift) in aim.targets.iter().zip(shifts_for(&response, &aim.targets, &goal)?) {
                found.shift[j] += shift;
            }
            Ok(found)
        };
        return Ok(aims.iter().map(solve).collect());
    }
    let samples = vec![MATCHING_SAMPLES; aims.len()];
    let found = steered(sampler, model, aims, &samples, settings, seed, progress)?;
    Ok(found.into_iter().map(|found| found.map(|found| found.intervention)).collect())
}

/// An intervention that was found, and samples under it.
pub(crate) type FoundAndDrawn = (Intervention, Matrix<f64>);

/// For each entry of `wanted`, the intervention that [`match_means`] finds, and `rows` samples under it. Entry e has the seed
/// `seed` + e.
#[allow(clippy::too_many_arguments)]
pub(crate) fn match_and_draw(
    sampler: &Sampler,
    model: &Model,
    wanted: &[TargetMeans],
    rows: &[usize],
    settings: &SampleSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<Result<FoundAndDrawn>>> {
    let standard = model.in_standard_units();
    if let (Cow::Owned(standard), Some(units)) = (&standard, &model.reference) {
        let found = match_and_draw(sampler, standard, wanted, rows, settings, seed, progress)?;
        let in_data_units = |(found, samples): (Intervention, _)| (found.in_data_units(units), samples);
        return Ok(found.into_iter().map(|found| found.map(in_data_units)).collect());
    }
    let found: Vec<Result<Found>> = if settings.method_for(model)? == Method::Exact {
        let found = match_means(sampler, model, wanted, settings, seed, progress)?;
        found.into_iter().map(|found| Ok(Found { intervention: found?, samples: None })).collect()
    } else {
        let aims: Vec<MatchingTask> = wanted.iter().map(|wanted| MatchingTask::of(model, wanted)).collect();
        steered(sampler, model, &aims, rows, settings, seed, progress)?
    };
    let missing = found.iter().zip(rows).zip(0..).filter_map(|((found, &samples), e)| match found {
        Ok(Found { intervention, samples: None }) => {
            Some(Draw { intervention, samples, seed: seed.wrapping_add(e) })
        }
        _ => None,
    });
    let missing: Vec<Draw<'_>> = missing.collect();
    let mut drawn = sampler.draw(model, &missing, settings, &progress.part())?.into_iter();
    let both = |found: Result<Found>| {
        let Found { intervention, samples } = found?;
        let samples = match samples {
            Some(samples) => samples,
            None => drawn.next().expect("every intervention without samples was drawn under")?,
        };
        Ok((intervention, samples))
    };
    Ok(found.into_iter().map(both).collect())
}

/// Solves one small linear system for all targets, because means are linear in the shifts. `response` has the means without these
/// shifts, and the derivative of the means with respect to each; all in the model's units.
fn shifts_for(response: &faer::Mat<f64>, targets: &[usize], goal: &Goal) -> Result<Vec<f64>> {
    let k = targets.len();
    if k == 0 {
        return Ok(Vec::new());
    }
    let system = faer::Mat::from_fn(k, k, |r, c| response[(targets[r], c + 1)]);
    let gap = faer::Mat::from_fn(k, 1, |r, _| match goal {
        Goal::Means(means) => means[r] - response[(targets[r], 0)],
        Goal::Changes(changes) => changes[r],
    });
    let shifts = system.partial_piv_lu().solve(&gap);
    let finite = |(r, &j): (usize, &usize)| match shifts[(r, 0)] {
        shift if shift.is_finite() => Ok(shift),
        _ => Err(Error::NonFinite(format!("no shift of variable {j} reproduces its mean"))),
    };
    targets.iter().enumerate().map(finite).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Standardization;
    use crate::model::{Drift, Noise, Parameters};
    use crate::sample::stationary_samples;

    fn model() -> Model {
        Model {
            standardization: Some(Standardization { mean: vec![5.0, -1.0], scale: vec![2.0, 0.5] }),
            ..Model::new(Parameters {
                drift: Drift::linear(Matrix::from_rows(2, 2, vec![-1.0, 0.5, 0.3, -1.0])),
                biases: vec![0.2, -0.4],
                noise: Noise::Diagonal { log_noise: vec![-1.0, -1.0] },
                shift: None,
                log_scale: None,
            })
        }
    }

    fn matched(settings: &SampleSettings, targets: &[usize], means: &[f64]) -> Intervention {
        let wanted = TargetMeans { targets: targets.to_vec(), means: means.to_vec() };
        let found =
            match_means(&Sampler::cpu(), &model(), &[wanted], settings, 1, &Progress::default()).unwrap();
        found.into_iter().next().unwrap().unwrap()
    }

    #[test]
    fn the_closed_form_reproduces_the_means() {
        for (targets, means) in [(vec![1], vec![-3.0]), (vec![0, 1], vec![9.0, 2.0])] {
            let settings = SampleSettings::default();
            let found = matched(&settings, &targets, &means);
            let samples = stationary_samples(&model(), &found, 40_000, &settings, 2).unwrap();
            for (j, mean) in targets.iter().zip(&means) {
                let seen = (0..40_000).map(|i| samples[(i, *j)]).sum::<f64>() / 40_000.0;
                assert!((seen - mean).abs() < 0.02, "{targets:?} {seen} {mean}");
            }
        }
    }

    #[test]
    fn the_search_finds_what_the_closed_form_finds() {
        let simulated = SampleSettings { method: Method::Euler, ..SampleSettings::default() };
        for (targets, means) in [(vec![1], vec![-3.0]), (vec![0, 1], vec![9.0, 2.0])] {
            let exact = matched(&SampleSettings::default(), &targets, &means);
            let searched = matched(&simulated, &targets, &means);
            // 512 samples have a mean to about 0.02 standard deviations.
            for j in 0..2 {
                assert!((exact.shift[j] - searched.shift[j]).abs() < 0.1, "{exact:?} {searched:?}");
            }
        }
    }

    #[test]
    fn a_mean_that_cannot_be_held_while_chains_walk_is_found_by_bracketing() {
        // Stable, but the second variable runs away where the first one's mean is held. −W⁻¹ has −1/7 in its corner.
        let mut model = model();
        model.standardization = None;
        model.parameters.drift = Drift::linear(Matrix::from_rows(2, 2, vec![-1.0, -2.0, 2.0, 0.5]));
        model.parameters.biases = vec![0.0; 2];
        let simulated = SampleSettings { method: Method::Euler, ..SampleSettings::default() };
        let wanted = TargetMeans { targets: vec![0], means: vec![0.5] };
        let progress = Progress::default();
        let found = match_means(&Sampler::cpu(), &model, &[wanted], &simulated, 1, &progress).unwrap();
        let shift = found[0].as_ref().unwrap().shift[0];
        assert!((shift + 3.5).abs() < 0.5, "{shift}");
    }

    #[test]
    fn matched_samples_have_the_means_that_were_asked_for() {
        let simulated = SampleSettings { method: Method::Euler, ..SampleSettings::default() };
        let wanted = [
            TargetMeans { targets: vec![1], means: vec![-3.0] },
            TargetMeans { targets: vec![0, 1], means: vec![9.0, 2.0] },
        ];
        let progress = Progress::default();
        let drawn =
            match_and_draw(&Sampler::cpu(), &model(), &wanted, &[1000, 2500], &simulated, 1, &progress)
                .unwrap();
        for (wanted, drawn) in wanted.iter().zip(drawn) {
            let (_, samples) = drawn.unwrap();
            let n = samples.rows() as f64;
            for (&j, mean) in wanted.targets.iter().zip(&wanted.means) {
                let found = (0..samples.rows()).map(|i| samples[(i, j)]).sum::<f64>() / n;
                let deviation =
                    ((0..samples.rows()).map(|i| (samples[(i, j)] - found).powi(2)).sum::<f64>() / n).sqrt();
                // Twice the tolerance, and four standard errors of a mean of independent samples.
                assert!((found - mean).abs() < (0.04 + 4.0 / n.sqrt()) * deviation, "{j}: {found} {mean}");
            }
        }
    }

    #[test]
    fn entries_do_not_disturb_each_other() {
        let simulated = SampleSettings { method: Method::Euler, ..SampleSettings::default() };
        let wanted = |mean: f64| TargetMeans { targets: vec![1], means: vec![mean] };
        let both = match_means(
            &Sampler::cpu(),
            &model(),
            &[wanted(-3.0), wanted(0.5)],
            &simulated,
            1,
            &Progress::default(),
        )
        .unwrap();
        assert_eq!(*both[0].as_ref().unwrap(), matched(&simulated, &[1], &[-3.0]));
        assert!(both[1].as_ref().unwrap().shift[1] > 0.0);
    }
}
