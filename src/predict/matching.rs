//! Finds the shifts that bring variables to given means.

use super::root::Root;
use crate::model::Model;
use crate::numeric::statistics::moments;
use crate::sample::{
    Draw, Goals, Intervention, LinearParts, Method, SampleSettings, Sampler, Steered, SteeredDraw,
};
use crate::{Error, Matrix, Progress, Result};
use faer::linalg::solvers::Solve;
use std::borrow::Cow;
use std::sync::Arc;

/// Sweeps over several targets, one after the other.
const SWEEPS: usize = 4;
/// Samples that estimate a mean.
pub(crate) const MATCHING_SAMPLES: usize = 512;
/// A mean is matched if it misses by at most this share of the variable's standard deviation. The estimate itself has an error of
/// 0.04.
const TOLERANCE: f64 = 2e-3;
/// A steered simulation that misses a mean by more standard deviations than this is left to bracketing.
const ACCEPTED_MISS: f64 = 0.06;

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

impl Goal {
    /// The same in standard units, if they are known.
    fn in_standard_units(&self, model: &Model, targets: &[usize]) -> Goal {
        let each = |values: &[f64], of: &dyn Fn(usize, f64) -> f64| {
            targets.iter().zip(values).map(|(&j, value)| of(j, *value)).collect()
        };
        match self {
            Goal::Means(means) => Goal::Means(each(means, &|j, mean| in_standard_units(model, j, mean))),
            Goal::Changes(changes) => Goal::Changes(each(changes, &|j, change| {
                model.units().map_or(change, |units| change / units.scale[j])
            })),
        }
    }
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

/// An intervention that was found and, if the search simulated it last, samples under it.
struct Found {
    intervention: Intervention,
    samples: Option<Matrix<f64>>,
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

/// Steers one simulation for each aim, and searches by bracketing where that fails.
fn steered(
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

/// Searches the shifts of some of the aims by simulations that bracket them.
fn bracketed(
    sampler: &Sampler,
    model: &Model,
    aims: &[MatchingTask],
    chosen: &[usize],
    settings: &SampleSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<Result<Intervention>>> {
    let mut searches: Vec<Search> = chosen.iter().map(|&k| Search::new(model, &aims[k])).collect();
    loop {
        let active: Vec<usize> = (0..searches.len()).filter(|&k| searches[k].is_active()).collect();
        if active.is_empty() {
            return Ok(searches.into_iter().map(|search| search.outcome).collect());
        }
        let tried: Vec<Intervention> = active.iter().map(|&k| searches[k].tried()).collect();
        let draws: Vec<Draw<'_>> = active
            .iter()
            .zip(&tried)
            .map(|(&k, intervention)| Draw {
                intervention,
                samples: MATCHING_SAMPLES,
                seed: seed.wrapping_add(chosen[k] as u64),
            })
            .collect();
        let drawn = sampler.draw(model, &draws, settings, &progress.part())?;
        for (&k, samples) in active.iter().zip(drawn) {
            searches[k].receive(model, samples)?;
        }
    }
}

/// A value of variable `j` in standard units, if they are known.
fn in_standard_units(model: &Model, j: usize, value: f64) -> f64 {
    model.units().map_or(value, |units| units.standard(j, value))
}

/// A shift of 1 in standard units, in the model's units.
fn unit_of_shift(model: &Model, j: usize) -> f64 {
    match (&model.standardization, &model.reference) {
        (None, Some(reference)) => reference.scale[j],
        _ => 1.0,
    }
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

/// Brackets each target's shift in turn, in several sweeps if there are several targets.
struct Search {
    /// For each variable, a shift of 1 in standard units, in the model's units.
    units: Vec<f64>,
    targets: Vec<usize>,
    /// In standard units, if they are known.
    goal: Goal,
    /// The index of the current target, counted over all sweeps.
    turn: usize,
    root: Root,
    /// The intervention found so far, or the reason why there is none.
    outcome: Result<Intervention>,
}

impl Search {
    fn new(model: &Model, aim: &MatchingTask) -> Self {
        let units: Vec<f64> = (0..model.dim()).map(|j| unit_of_shift(model, j)).collect();
        let start = aim.targets.first().map_or(0.0, |&j| aim.base.shift[j] / units[j]);
        Search {
            units,
            targets: aim.targets.clone(),
            goal: aim.goal.in_standard_units(model, &aim.targets),
            turn: 0,
            root: Root::new(start),
            outcome: Ok(aim.base.clone()),
        }
    }

    /// The goals as means. The first simulation, of the base itself, turns changes into means.
    fn means(&mut self, simulated: impl Fn(usize) -> f64) -> &[f64] {
        if let Goal::Changes(changes) = &self.goal {
            let means = self.targets.iter().zip(changes).map(|(&j, change)| simulated(j) + change);
            self.goal = Goal::Means(means.collect());
        }
        match &self.goal {
            Goal::Means(means) | Goal::Changes(means) => means,
        }
    }

    fn turns(&self) -> usize {
        self.targets.len() * if self.targets.len() == 1 { 1 } else { SWEEPS }
    }

    fn is_active(&self) -> bool {
        self.outcome.is_ok() && self.turn < self.turns()
    }

    fn unit(&self) -> f64 {
        self.units[self.target()]
    }

    fn target(&self) -> usize {
        self.targets[self.turn % self.targets.len()]
    }

    /// The intervention to simulate next.
    fn tried(&self) -> Intervention {
        let mut tried = self.outcome.as_ref().expect("only active searches are asked").clone();
        let shift = self.root.next().expect("a settled root ends its turn");
        tried.shift[self.target()] = shift * self.unit();
        tried
    }

    fn receive(&mut self, model: &Model, samples: Result<Matrix<f64>>) -> Result<()> {
        let j = self.target();
        match samples {
            Ok(samples) => {
                let samples = &samples;
                let n = samples.rows() as f64;
                let values =
                    |j: usize| (0..samples.rows()).map(move |i| in_standard_units(model, j, samples[(i, j)]));
                let mean_of = |j: usize| values(j).sum::<f64>() / n;
                let mean = mean_of(j);
                let deviation = (values(j).map(|x| (x - mean) * (x - mean)).sum::<f64>() / n).sqrt();
                let turn = self.turn % self.targets.len();
                let goal = self.means(mean_of)[turn];
                self.root.tell(Some(mean - goal), TOLERANCE * deviation);
            }
            Err(unstable @ Error::NonFinite(_)) if self.root.is_new() => {
                self.outcome = Err(unstable);
                return Ok(());
            }
            // So far out that the simulation diverges.
            Err(Error::NonFinite(_)) => self.root.tell(None, 0.0),
            Err(other) => return Err(other),
        }
        if self.root.next().is_none() {
            let intervention = self.outcome.as_mut().expect("only active searches receive samples");
            intervention.shift[j] = self.root.found() * self.units[j];
            self.turn += 1;
            if self.turn < self.turns() {
                let j = self.target();
                let start = self.outcome.as_ref().map_or(0.0, |intervention| intervention.shift[j]);
                let start = start / self.units[j];
                self.root = Root::new(start);
            }
        }
        Ok(())
    }
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
