//! Which perturbation to make next.
//!
//! Candidates are perturbations of one variable, or also of two, that the data does not have. Each is taken to bring its targets to
//! their [levels](crate::predict::Levels). There are two aims:
//!
//! - [`Aim::Information`]: the perturbations whose outcome is least certain. The fit is repeated on parts of the data
//!   ([`refits`]), and a candidate's score is the variance between the refits of the means that they predict, in standard
//!   units, averaged over the variables that it does not perturb. Where all refits agree, an experiment would teach nothing
//!   about this model.
//! - [`Aim::State`]: the perturbations that bring some means closest to a wanted state. The score is the mean squared distance
//!   that remains, in standard units, over the distance at rest.

mod candidates;
mod refits;
#[cfg(test)]
mod tests;

use refits::fits_of_one;
pub use refits::{LEAST_REFITS, refits};

use crate::data::Dataset;
use crate::fit::Knowledge;
use crate::model::Model;
use crate::numeric::statistics::moments;
use crate::predict::{Level, Levels, Origin, TargetMeans, TransportMap, transport_maps};
use crate::sample::{SampleSettings, Sampler};
use crate::{Error, Matrix, Progress, Result};
use candidates::{pairs, singles};
use serde::Serialize;

/// Pairs are made of so many variables at most: those that rank first alone.
const VARIABLES_OF_PAIRS: usize = 40;

/// What a perturbation is to be good for.
#[derive(Clone, Debug, PartialEq)]
pub enum Aim {
    /// To tell most: its outcome differs most between so many refits.
    Information {
        /// The number of refits.
        refits: usize,
    },
    /// To bring the means of some variables to given values, in the data's units.
    State(TargetMeans),
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// What a perturbation is to be good for.
    pub aim: Aim,
    /// The number of suggestions.
    pub count: usize,
    /// Whether pairs of variables are candidates, too.
    pub pairs: bool,
    /// The seed that refits and simulations follow from.
    pub seed: u64,
}

/// A perturbation that the data does not have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Suggestion {
    /// The variables to perturb.
    pub targets: Vec<String>,
    /// The means that they are taken to reach.
    pub levels: Vec<Level>,
    /// For information, larger is better; for a state, smaller.
    pub score: f64,
}

/// Suggestions, best first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Suggestions {
    /// What the score means, in a sentence.
    pub meaning: String,
    /// The number of candidates that were compared.
    pub candidates: usize,
    /// The best of them.
    pub suggestions: Vec<Suggestion>,
}

/// Ranks perturbations that `data` does not have. `known` edges hold in refits. `progress` counts about to [`work`].
pub fn suggest(
    model: &Model,
    data: &Dataset,
    known: Option<&Knowledge>,
    question: &Question,
    progress: &Progress,
) -> Result<Suggestions> {
    check(question)?;
    let origin = Origin::of(model, data)?;
    let mut judge = Judge {
        levels: Levels::of(data)?,
        deviations: deviations(&origin),
        models: Vec::new(),
        wanted: None,
        origin,
        seed: question.seed,
    };
    let meaning = match &question.aim {
        Aim::Information { refits: count } => {
            judge.models = refits(model, data, known, *count, question.seed, progress)?;
            format!(
                "The score is the variance of the predicted means between {count} refits to parts of the data, in standard units, averaged over \
                 the other variables: where it is large, the outcome is uncertain and would tell most."
            )
        }
        Aim::State(wanted) => {
            judge.models = vec![model.clone()];
            judge.wanted = Some(wanted.clone());
            if judge.distance(&judge.origin.means) == 0.0 {
                return Err(Error::invalid(
                    "the system at rest has the wanted means already, expected others",
                ));
            }
            "The score is the squared distance to the wanted means that remains, over that at rest: 0 reaches them, above 1 leads away."
                .into()
        }
    };
    // Pairs are made of the variables that rank first alone, whether somebody has perturbed these or not.
    let singles = singles(data);
    let asked = singles.iter().filter(|(_, new)| *new || question.pairs).map(|(targets, _)| targets.clone());
    let mut all = judge.ranked(asked.collect())?;
    let best: Vec<usize> = all.iter().take(VARIABLES_OF_PAIRS).map(|(_, targets)| targets[0]).collect();
    all.retain(|(_, targets)| singles[targets[0]].1);
    if question.pairs {
        all.extend(judge.ranked(pairs(data, &best))?);
        judge.sort(&mut all);
    }
    if all.is_empty() {
        return Err(Error::invalid(
            "the data has every perturbation that could be suggested, expected some that it does not have: consider pairs",
        ));
    }
    progress.add(1)?;
    let candidates = all.len();
    let suggestions = all
        .into_iter()
        .take(question.count)
        .map(|(score, targets)| {
            Ok(Suggestion {
                levels: targets.iter().map(|&j| judge.levels.level(j)).collect::<Result<_>>()?,
                targets: targets.into_iter().map(|j| model.names[j].clone()).collect(),
                score,
            })
        })
        .collect::<Result<_>>()?;
    Ok(Suggestions { meaning, candidates, suggestions })
}

/// What the progress of [`suggest`] counts to: the fits that all refits compare, and the ranking.
pub fn work(model: &Model, data: &Dataset, question: &Question) -> Result<u64> {
    Ok(match question.aim {
        Aim::Information { refits } => refits as u64 * fits_of_one(model, data)? + 1,
        Aim::State(_) => 1,
    })
}

fn check(question: &Question) -> Result<()> {
    if question.count == 0 {
        return Err(Error::invalid("0 suggestions are asked for, expected at least 1"));
    }
    match &question.aim {
        Aim::State(wanted) if wanted.targets.is_empty() => {
            Err(Error::invalid("the wanted state names no variable, expected at least one"))
        }
        _ => Ok(()),
    }
}

/// Standard deviations at rest; 1 for constant variables.
fn deviations(origin: &Origin) -> Vec<f64> {
    let (_, deviations) = moments(&origin.rows);
    deviations.into_iter().map(|deviation| if deviation > 0.0 { deviation } else { 1.0 }).collect()
}

/// Sums over models of what they predict for a candidate.
#[derive(Clone)]
struct Spread {
    count: f64,
    sum: Vec<f64>,
    squares: Vec<f64>,
}

/// Scores candidates.
struct Judge {
    levels: Levels,
    deviations: Vec<f64>,
    origin: Origin,
    /// The models whose predictions are compared, or the one that predicts.
    models: Vec<Model>,
    /// The wanted state, if there is one.
    wanted: Option<TargetMeans>,
    seed: u64,
}

impl Judge {
    /// Candidates with their scores, best first. Those without a prediction are left out.
    fn ranked(&self, candidates: Vec<Vec<usize>>) -> Result<Vec<(f64, Vec<usize>)>> {
        let scores = match self.wanted {
            None => self.disagreements(&candidates)?,
            Some(_) => self.distances(&candidates)?,
        };
        let mut ranked: Vec<(f64, Vec<usize>)> = scores
            .into_iter()
            .zip(candidates)
            .filter_map(|(score, targets)| Some((score?, targets)))
            .collect();
        self.sort(&mut ranked);
        Ok(ranked)
    }

    fn sort(&self, ranked: &mut [(f64, Vec<usize>)]) {
        let larger_is_better = self.wanted.is_none();
        ranked.sort_by(|a, b| {
            let order = if larger_is_better { b.0.total_cmp(&a.0) } else { a.0.total_cmp(&b.0) };
            order.then_with(|| a.1.cmp(&b.1))
        });
    }

    /// The means that a model predicts under each candidate; none where it has no law.
    fn means(&self, model: &Model, candidates: &[Vec<usize>]) -> Result<Vec<Option<Vec<f64>>>> {
        let treatments = candidates
            .iter()
            .map(|targets| Ok(self.levels.treatment(model, targets)?.0))
            .collect::<Result<Vec<_>>>()?;
        let (sampler, settings) = (Sampler::cpu(), SampleSettings::default());
        let rest = &self.origin.means;
        let maps =
            transport_maps(&sampler, model, rest, &treatments, &settings, self.seed, &Progress::default())?;
        let image =
            |map: TransportMap| map.apply(&Matrix::from_rows(1, rest.len(), rest.clone())).row(0).to_vec();
        maps.into_iter()
            .map(|map| match map {
                Ok(map) => Ok(Some(image(map))),
                Err(Error::NonFinite(_)) => Ok(None),
                Err(other) => Err(other),
            })
            .collect()
    }

    /// The variance of predicted means between models, averaged over the variables that are not perturbed.
    fn disagreements(&self, candidates: &[Vec<usize>]) -> Result<Vec<Option<f64>>> {
        let d = self.deviations.len();
        let none = Spread { count: 0.0, sum: vec![0.0; d], squares: vec![0.0; d] };
        let mut spreads = vec![none; candidates.len()];
        for model in &self.models {
            let means = self.means(model, candidates)?;
            for (Spread { count, sum, squares }, means) in spreads.iter_mut().zip(means) {
                let Some(means) = means else { continue };
                *count += 1.0;
                for j in 0..d {
                    let change = (means[j] - self.origin.means[j]) / self.deviations[j];
                    sum[j] += change;
                    squares[j] += change * change;
                }
            }
        }
        let score = |(Spread { count, sum, squares }, targets): (Spread, &Vec<usize>)| {
            // With fewer than half of the refits, the rest says little.
            if count < 2.0 || 2.0 * count < self.models.len() as f64 {
                return None;
            }
            let variance = |j: usize| (squares[j] - sum[j] * sum[j] / count).max(0.0) / (count - 1.0);
            let others = (0..d).filter(|j| !targets.contains(j));
            let (total, number) = others.fold((0.0, 0.0), |(total, n), j| (total + variance(j), n + 1.0));
            (number > 0.0).then(|| total / number)
        };
        Ok(spreads.into_iter().zip(candidates).map(score).collect())
    }

    /// The distances to the wanted state that remain, over that at rest.
    fn distances(&self, candidates: &[Vec<usize>]) -> Result<Vec<Option<f64>>> {
        let rest = self.distance(&self.origin.means);
        let model = self.models.first().expect("the model that predicts");
        let means = self.means(model, candidates)?;
        Ok(means.into_iter().map(|means| Some(self.distance(&means?) / rest)).collect())
    }

    /// The mean squared distance of means from the wanted ones, in standard units.
    fn distance(&self, means: &[f64]) -> f64 {
        let Some(TargetMeans { targets, means: wanted }) = &self.wanted else { return 0.0 };
        let squared = |(&j, wanted): (&usize, &f64)| ((means[j] - wanted) / self.deviations[j]).powi(2);
        targets.iter().zip(wanted).map(squared).sum::<f64>() / targets.len() as f64
    }
}
