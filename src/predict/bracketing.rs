//! Finds shifts by simulations that bracket them: for laws that are cheap to draw from, and where steering fails.

use super::matching::{Goal, MATCHING_SAMPLES, MatchingTask};
use super::root::Root;
use crate::model::Model;
use crate::sample::{Draw, Intervention, SampleSettings, Sampler};
use crate::{Error, Matrix, Progress, Result};

/// Sweeps over several targets, one after the other.
const SWEEPS: usize = 4;
/// A mean is matched if it misses by at most this share of the variable's standard deviation. The estimate itself has an error of
/// 0.04.
const TOLERANCE: f64 = 2e-3;

/// Searches the shifts of some of the aims by simulations that bracket them.
pub(super) fn bracketed(
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

impl Goal {
    /// The same in standard units, if they are known.
    pub(super) fn in_standard_units(&self, model: &Model, targets: &[usize]) -> Goal {
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
