//! How well candidates predict what was left out, and what that makes of them.

use super::{Candidate, Folds, Method, Paths};
use crate::dense::Lu;
use crate::solve::moments::Moments;
use crate::{Matrix, Progress, Result};

/// The least weight of a member; the smaller ones go.
const LEAST_WEIGHT: f64 = 0.05;
/// The most members.
const MOST_MEMBERS: usize = 5;

/// Predictions of left-out environments, and how far from the truth they are.
pub(in crate::fit) struct Scores {
    pub candidates: Vec<Candidate>,
    /// The environments that were left out, in order.
    pub environments: Vec<usize>,
    /// Changes of means that each candidate predicts of each environment.
    predicted: Vec<Vec<Vec<f64>>>,
    /// What happened.
    observed: Vec<Vec<f64>>,
    /// Who is told.
    told: Vec<Vec<usize>>,
    /// The variance of an observed change by itself, mean over variables.
    noise: Vec<f64>,
    /// Logarithms of errors: candidate by environment.
    pub errors: Vec<Vec<f64>>,
}

/// How well the chosen model is expected to predict, compared with no effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::fit) struct Outlook {
    /// Squared error over that of no effect, geometric mean.
    pub ratio: f64,
    /// The ends of its 95 % interval.
    pub interval: (f64, f64),
}

impl Scores {
    /// Fits without each fold in turn.
    pub fn of(
        moments: &Moments,
        targets: &Matrix<bool>,
        folds: &Folds,
        whole: &Paths,
        multipliers: Option<&Matrix<f64>>,
        progress: &Progress,
    ) -> Result<Scores> {
        let d = moments.dim();
        let rest = (0..targets.rows()).find(|&e| !targets.row(e).contains(&true)).unwrap_or(0);
        let candidates = Candidate::all();
        let mut scores = Scores {
            predicted: vec![Vec::new(); candidates.len()],
            errors: Vec::new(),
            candidates,
            environments: Vec::new(),
            observed: Vec::new(),
            told: Vec::new(),
            noise: Vec::new(),
        };
        for (fold, left_out) in folds.left_out.iter().enumerate() {
            let part = folds.part(fold);
            let paths = Paths::fit(moments, targets, &[part], Some(whole), multipliers, progress)?;
            let responses: Vec<faer::Mat<f64>> =
                paths.weights.iter().map(|weights| Lu::of(weights.view()).inverse()).collect();
            for &e in left_out {
                let told: Vec<usize> = (0..d).filter(|&j| targets[(e, j)]).collect();
                let change: Vec<f64> = moments
                    .mean(e)
                    .iter()
                    .zip(moments.mean(rest))
                    .map(|(now, before)| now - before)
                    .collect();
                for (predicted, response) in scores.predicted.iter_mut().zip(&responses) {
                    predicted.push(effects(response, &told, &change));
                }
                let noise = |j: usize| moments.error_of_mean(e, j) + moments.error_of_mean(rest, j);
                scores.noise.push((0..d).map(noise).sum::<f64>() / d as f64);
                scores.environments.push(e);
                scores.observed.push(change);
                scores.told.push(told);
            }
        }
        let all = 0..scores.environments.len();
        scores.errors = scores
            .predicted
            .iter()
            .map(|predicted| all.clone().map(|k| scores.error(k, &predicted[k])).collect())
            .collect();
        Ok(scores)
    }

    /// The logarithm of the mean squared error over the variables that nobody was told of, and the noise of what happened.
    fn error(&self, k: usize, predicted: &[f64]) -> f64 {
        let (told, observed) = (&self.told[k], &self.observed[k]);
        let others = (0..observed.len()).filter(|j| !told.contains(j));
        let (sum, count) = others
            .map(|j| (predicted[j] - observed[j]).powi(2))
            .filter(|square| !square.is_nan())
            .fold((0.0, 0usize), |(sum, count), square| (sum + square, count + 1));
        let mean = if count == 0 { 0.0 } else { sum / count as f64 };
        (mean + self.noise[k]).max(f64::MIN_POSITIVE).ln()
    }

    /// A candidate's score over some of the environments.
    fn score(&self, candidate: usize, environments: &[usize]) -> f64 {
        environments.iter().map(|&k| self.errors[candidate][k]).sum::<f64>() / environments.len() as f64
    }

    /// The weights by some of the environments: they fall with the scores, the faster the more there are.
    pub fn weights(&self, environments: &[usize]) -> Vec<f64> {
        let count = environments.len() as f64;
        let scores: Vec<f64> = (0..self.candidates.len()).map(|c| self.score(c, environments)).collect();
        let best = scores.iter().copied().fold(f64::INFINITY, f64::min);
        let mut weights: Vec<f64> =
            scores.iter().map(|score| (-0.5 * count * (score - best)).exp()).map(finite).collect();
        normalise(&mut weights);
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]).then(a.cmp(&b)));
        for (place, &c) in order.iter().enumerate() {
            if place > 0 && (place >= MOST_MEMBERS || weights[c] < LEAST_WEIGHT) {
                weights[c] = 0.0;
            }
        }
        normalise(&mut weights);
        weights
    }

    /// What is to be expected of an intervention that nobody has seen: for each one that was left out, by weights that the others
    /// speak for.
    pub fn outlook(&self) -> Outlook {
        let all: Vec<usize> = (0..self.environments.len()).collect();
        let none = self
            .candidates
            .iter()
            .position(|candidate| candidate.method == Method::Nothing)
            .expect("no effect is a candidate");
        let gains: Vec<f64> = all
            .iter()
            .map(|&k| {
                let others: Vec<usize> = all.iter().copied().filter(|&other| other != k).collect();
                let weights = if others.is_empty() { self.weights(&all) } else { self.weights(&others) };
                self.error(k, &self.averaged(k, &weights)) - self.errors[none][k]
            })
            .collect();
        let (mean, error) = super::super::tune::mean_and_error(&gains);
        Outlook { ratio: mean.exp(), interval: ((mean - 2.0 * error).exp(), (mean + 2.0 * error).exp()) }
    }

    fn averaged(&self, k: usize, weights: &[f64]) -> Vec<f64> {
        let mut sum = vec![0.0; self.observed[k].len()];
        for (predicted, weight) in self.predicted.iter().zip(weights).filter(|(_, weight)| **weight > 0.0) {
            sum.iter_mut().zip(&predicted[k]).for_each(|(sum, value)| *sum += weight * value);
        }
        sum
    }
}

fn finite(weight: f64) -> f64 {
    if weight.is_finite() { weight } else { 0.0 }
}

fn normalise(weights: &mut [f64]) {
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
}

/// Changes of all means that go with those of the targets: the shifts that bring these about bring about the others.
pub(super) fn effects(response: &faer::Mat<f64>, targets: &[usize], change: &[f64]) -> Vec<f64> {
    let d = response.nrows();
    let own = Matrix::from_fn(targets.len(), targets.len(), |r, c| response[(targets[r], targets[c])]);
    let mut shifts = faer::Mat::from_fn(targets.len(), 1, |r, _| change[targets[r]]);
    Lu::of(own.view()).solve_in_place(shifts.as_mut());
    (0..d)
        .map(|i| targets.iter().enumerate().map(|(c, &j)| response[(i, j)] * shifts[(c, 0)]).sum())
        .collect()
}
