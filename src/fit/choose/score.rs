//! How well candidates predict the left-out environments, and their weights in the model.

use super::paths::PenaltyPath;
use super::{Candidate, FitContext, Folds, Method};
use crate::fit::tuning::{ExpectedError, ScoredSetting, Tuning};
use crate::model::PenaltyKind;
use crate::numeric::dense::Lu;
use crate::numeric::statistics::mean_and_error;
use crate::solve::moments::{Moments, Pool};
use crate::{Matrix, Progress, Result};
use rayon::prelude::*;

/// The least weight of a member. Candidates with less are dropped.
const LEAST_WEIGHT: f64 = 0.05;
/// A path ends when its next candidate is not expected to reach this weight relative to the best one.
const HOPELESS: f64 = 0.02;
/// With at most this many variables, and each intervention left out by itself, paths are followed to their end.
const MOST_FOR_WHOLE_PATHS: usize = 100;
/// How much faster than before a path may improve.
const HOPE: f64 = 3.0;
/// The most members.
const MOST_MEMBERS: usize = 8;

/// Predictions of left-out environments, and their errors.
pub(in crate::fit) struct Scores {
    pub candidates: Vec<Candidate>,
    /// The environments that were left out, in order.
    pub environments: Vec<usize>,
    /// The changes of means that each candidate predicts for each environment; empty if its path ended earlier.
    predicted: Vec<Vec<Vec<f64>>>,
    /// The observed changes of means.
    observed: Vec<Vec<f64>>,
    /// The targets of each left-out environment.
    targets: Vec<Vec<usize>>,
    /// The sampling variance of an observed change, averaged over variables.
    noise: Vec<f64>,
    /// Logarithms of errors, candidate by environment; empty if the candidate's path ended earlier.
    pub errors: Vec<Vec<f64>>,
    rule: Rule,
}

/// What becomes of the scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The model averages the candidates that predict about equally well.
    Average,
    /// The model is the best candidate that has effects.
    Best,
}

impl Scores {
    /// Fits the candidates by moments without each fold: all folds at one penalty, then at the next, until the path is exhausted.
    /// `progress` counts candidates of folds.
    pub(crate) fn by_moments(
        context: &FitContext<'_>,
        moments: &Moments,
        folds: &Folds,
        candidates: Vec<Candidate>,
        progress: &Progress,
    ) -> Result<Scores> {
        let mut scores = Scores::unscored(moments, context.targets, folds, candidates, Rule::Average);
        let pools: Vec<Pool<'_>> = (0..folds.left_out.len())
            .into_par_iter()
            .map(|fold| Pool::new(moments, context.targets, &folds.parts_of(fold), context.learn_scale))
            .collect::<Result<_>>()?;
        // With few interventions, scores may rise before they fall; with few variables, whole paths are cheap.
        let may_end =
            scores.environments.len() > folds.left_out.len() || moments.dim() > MOST_FOR_WHOLE_PATHS;
        // No effect comes first, so that paths far behind it end early.
        for method in [Method::Nothing, Method::Kds, Method::Structural] {
            let of_method: Vec<usize> =
                (0..scores.candidates.len()).filter(|&c| scores.candidates[c].method == method).collect();
            let mut paths: Vec<PenaltyPath<'_>> =
                pools.par_iter().map(|pool| PenaltyPath::new(method, pool)).collect();
            let mut past = Vec::new();
            for (step, &c) in of_method.iter().enumerate() {
                let lambda = scores.candidates[c].lambda;
                let predicted: Vec<Vec<Vec<f64>>> = paths
                    .par_iter_mut()
                    .zip(&folds.left_out)
                    .map(|(path, left_out)| {
                        path.step(context, lambda, progress)?;
                        progress.add(1)?;
                        Ok(scores.predict(&path.weights, left_out))
                    })
                    .collect::<Result<_>>()?;
                scores.record(c, predicted.concat());
                past.extend(scores.score(c, &scores.all()));
                let best = scores.best_score(&scores.all());
                let left = of_method.len() - step - 1;
                if may_end && is_exhausted(&past, best, scores.environments.len(), left) {
                    progress.add((left * pools.len()) as u64)?;
                    break;
                }
            }
        }
        Ok(scores)
    }

    /// The observed changes, before any prediction.
    pub(super) fn unscored(
        moments: &Moments,
        targets: &Matrix<bool>,
        folds: &Folds,
        candidates: Vec<Candidate>,
        rule: Rule,
    ) -> Scores {
        let d = moments.dim();
        let rest = (0..targets.rows()).find(|&e| !targets.row(e).contains(&true)).unwrap_or(0);
        let environments = folds.left_out.concat();
        let difference = |e: usize| -> Vec<f64> {
            moments.mean(e).iter().zip(moments.mean(rest)).map(|(now, before)| now - before).collect()
        };
        let noise = |e: usize, j: usize| moments.error_of_mean(e, j) + moments.error_of_mean(rest, j);
        Scores {
            predicted: vec![Vec::new(); candidates.len()],
            errors: vec![Vec::new(); candidates.len()],
            candidates,
            observed: environments.iter().map(|&e| difference(e)).collect(),
            targets: environments.iter().map(|&e| (0..d).filter(|&j| targets[(e, j)]).collect()).collect(),
            noise: environments
                .iter()
                .map(|&e| (0..d).map(|j| noise(e, j)).sum::<f64>() / d as f64)
                .collect(),
            environments,
            rule,
        }
    }

    /// The targets of the k-th left-out environment and the changes of their means.
    pub(super) fn given(&self, k: usize) -> (Vec<usize>, Vec<f64>) {
        (self.targets[k].clone(), self.targets[k].iter().map(|&j| self.observed[k][j]).collect())
    }

    /// The changes of means that W predicts for the environments of a fold.
    fn predict(&self, weights: &Matrix<f64>, left_out: &[usize]) -> Vec<Vec<f64>> {
        let lu = Lu::of(weights.view());
        let place = |e: &usize| self.environments.iter().position(|other| other == e);
        left_out
            .iter()
            .map(|e| {
                let k = place(e).expect("folds are what is scored");
                effects(&lu, &self.targets[k], &self.observed[k])
            })
            .collect()
    }

    /// Adds candidates by their W without each fold: fold by candidate.
    pub(crate) fn add(&mut self, folds: &Folds, candidates: Vec<Candidate>, weights: &[Vec<Matrix<f64>>]) {
        for (c, candidate) in candidates.into_iter().enumerate() {
            let of_fold =
                |(left_out, weights): (&Vec<usize>, &Vec<Matrix<f64>>)| self.predict(&weights[c], left_out);
            let predicted: Vec<Vec<f64>> = folds.left_out.iter().zip(weights).flat_map(of_fold).collect();
            self.candidates.push(candidate);
            self.errors.push(Vec::new());
            self.predicted.push(Vec::new());
            self.record(self.candidates.len() - 1, predicted);
        }
    }

    /// Records a candidate's predictions and their errors.
    pub(super) fn record(&mut self, candidate: usize, predicted: Vec<Vec<f64>>) {
        self.errors[candidate] = predicted.iter().enumerate().map(|(k, p)| self.error(k, p)).collect();
        self.predicted[candidate] = predicted;
    }

    fn all(&self) -> Vec<usize> {
        (0..self.environments.len()).collect()
    }

    /// The logarithm of the mean squared error over the variables that are not targets, and of the sampling noise.
    fn error(&self, k: usize, predicted: &[f64]) -> f64 {
        let (targets, observed) = (&self.targets[k], &self.observed[k]);
        let others = (0..observed.len()).filter(|j| !targets.contains(j));
        let (sum, count) = others
            .map(|j| (predicted[j] - observed[j]).powi(2))
            .fold((0.0, 0usize), |(sum, count), square| (sum + square, count + 1));
        let mean = if count == 0 { 0.0 } else { sum / count as f64 };
        let error = (mean + self.noise[k]).max(f64::MIN_POSITIVE).ln();
        // Singular equations predict nothing.
        if mean.is_nan() { f64::INFINITY } else { error }
    }

    /// A candidate's score over some of the environments, by index; none if its path ended earlier.
    pub(crate) fn score(&self, candidate: usize, environments: &[usize]) -> Option<f64> {
        let errors = &self.errors[candidate];
        if errors.is_empty() || environments.is_empty() {
            return None;
        }
        Some(environments.iter().map(|&k| errors[k]).sum::<f64>() / environments.len() as f64)
    }

    fn best_score(&self, environments: &[usize]) -> f64 {
        let scores = (0..self.candidates.len()).filter_map(|c| self.score(c, environments));
        scores.fold(f64::INFINITY, f64::min)
    }

    /// The weights of candidates by their scores on some of the environments.
    pub(crate) fn weights(&self, environments: &[usize]) -> Vec<f64> {
        let scores: Vec<Option<f64>> =
            (0..self.candidates.len()).map(|c| self.score(c, environments)).collect();
        match self.rule {
            Rule::Average => candidate_weights(&self.candidates, &scores, environments.len()),
            Rule::Best => {
                let above = |c: &usize| scores[*c].unwrap_or(f64::INFINITY);
                let with_effects =
                    (0..scores.len()).filter(|&c| self.candidates[c].method != Method::Nothing);
                let best = with_effects.min_by(|a, b| above(a).total_cmp(&above(b)));
                (0..scores.len()).map(|c| f64::from(u8::from(Some(c) == best))).collect()
            }
        }
    }

    /// The table of all candidates, and the error to expect.
    pub(crate) fn tuning(&self, folds: usize, penalty: PenaltyKind) -> Tuning {
        let weights = self.weights(&self.all());
        let (none, _) = mean_and_error(&self.errors[self.no_effect()]);
        let mut settings = scored_settings(&self.candidates, &self.errors, &weights, penalty);
        for setting in &mut settings {
            setting.ratio = setting.score.map(|score| (score - none).exp());
        }
        Tuning {
            held_out: "environments",
            folds,
            interventions: self.environments.len(),
            leading: leading(&settings),
            settings,
            expected_error: Some(self.expected_error()),
            remarks: Vec::new(),
        }
    }

    /// The candidate without effects.
    fn no_effect(&self) -> usize {
        let is = |candidate: &Candidate| candidate.method == Method::Nothing;
        self.candidates.iter().position(is).expect("no effect is a candidate")
    }

    /// The error to expect on a new intervention: each left-out one is predicted with the weights that the others give.
    pub(crate) fn expected_error(&self) -> ExpectedError {
        let (all, none) = (self.all(), self.no_effect());
        let gains: Vec<f64> = all
            .iter()
            .map(|&k| {
                let others: Vec<usize> = all.iter().copied().filter(|&other| other != k).collect();
                let weights = if others.is_empty() { self.weights(&all) } else { self.weights(&others) };
                self.error(k, &self.average_prediction(k, &weights)) - self.errors[none][k]
            })
            .collect();
        let (mean, error) = mean_and_error(&gains);
        ExpectedError { ratio: mean.exp(), low: (mean - 2.0 * error).exp(), high: (mean + 2.0 * error).exp() }
    }

    fn average_prediction(&self, k: usize, weights: &[f64]) -> Vec<f64> {
        let mut sum = vec![0.0; self.observed[k].len()];
        for (predicted, weight) in self.predicted.iter().zip(weights).filter(|(_, weight)| **weight > 0.0) {
            sum.iter_mut().zip(&predicted[k]).for_each(|(sum, value)| *sum += weight * value);
        }
        sum
    }
}

/// The weights of candidates. They fall exponentially with score times the number of held-out parts.
pub(super) fn candidate_weights(candidates: &[Candidate], scores: &[Option<f64>], count: usize) -> Vec<f64> {
    let best = scores.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let mut methods: Vec<Method> = candidates.iter().map(|candidate| candidate.method).collect();
    methods.retain(|method| *method != Method::Nothing);
    let among_others = methods.iter().any(|method| *method != methods[0]);
    let prior = |method: Method| if among_others { method.prior() } else { 1.0 };
    let mut weights: Vec<f64> = candidates
        .iter()
        .zip(scores)
        .map(|(candidate, score)| match score {
            Some(score) if score.is_finite() => prior(candidate.method) * weight(score - best, count),
            _ => 0.0,
        })
        .collect();
    if weights.iter().all(|weight| *weight == 0.0) {
        // No candidate has predicted anything.
        let nothing = candidates.iter().position(|candidate| candidate.method == Method::Nothing);
        weights[nothing.expect("no effect is a candidate")] = 1.0;
    }
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

/// Every candidate with its scores and its weight.
pub(super) fn scored_settings(
    candidates: &[Candidate],
    scores: &[Vec<f64>],
    weights: &[f64],
    penalty: PenaltyKind,
) -> Vec<ScoredSetting> {
    let setting = |((candidate, scores), weight): ((&Candidate, &Vec<f64>), &f64)| {
        let (score, error) = match scores.is_empty() {
            true => (None, None),
            false => {
                let (score, error) = mean_and_error(scores);
                (Some(score), Some(error))
            }
        };
        ScoredSetting {
            method: candidate.method,
            bandwidth: candidate.bandwidth,
            penalty,
            lambda: candidate.lambda,
            score,
            error,
            ratio: None,
            weight: *weight,
            scores: scores.clone(),
        }
    };
    candidates.iter().zip(scores).zip(weights).map(setting).collect()
}

/// The setting with the largest weight.
pub(super) fn leading(settings: &[ScoredSetting]) -> usize {
    (0..settings.len()).fold(0, |best, c| if settings[c].weight > settings[best].weight { c } else { best })
}

/// The weight of a candidate whose score is `above` the best one.
fn weight(above: f64, environments: usize) -> f64 {
    (-(environments as f64) * above).exp()
}

/// Whether a path is exhausted: its next candidates are expected to have no weight relative to the best of all. The extrapolation
/// assumes one more step of the same size if the score rises, and several times the last step for each candidate that is `left`
/// if it falls.
fn is_exhausted(path: &[f64], best: f64, environments: usize, left: usize) -> bool {
    let [.., before, last] = path else { return false };
    let step = last - before;
    let expected = if step < 0.0 { last + HOPE * step * left as f64 } else { last + step };
    // Two infinite scores have no difference. Scores have errors, so the square root of the weight is compared.
    expected.is_nan() || weight(expected - best, environments).sqrt() < HOPELESS
}

fn normalise(weights: &mut [f64]) {
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
}

/// The changes of all means that go with given changes of the targets' means, under shifts of the targets' drift.
pub(super) fn effects(weights: &Lu, targets: &[usize], change: &[f64]) -> Vec<f64> {
    let (d, count) = (change.len(), targets.len());
    let mut response = faer::Mat::from_fn(d, count, |i, c| f64::from(u8::from(i == targets[c])));
    weights.solve_on_one_thread(response.as_mut());
    let own = Matrix::from_fn(count, count, |r, c| response[(targets[r], c)]);
    let mut shifts = faer::Mat::from_fn(count, 1, |r, _| change[targets[r]]);
    Lu::of(own.view()).solve_on_one_thread(shifts.as_mut());
    (0..d).map(|i| (0..count).map(|c| response[(i, c)] * shifts[(c, 0)]).sum()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::CandidateSet;

    /// Scores of candidates 0, 1 and of no effect, each with the same error of two environments; the others were not fitted.
    fn scores(first: [f64; 2], second: [f64; 2], none: [f64; 2]) -> Scores {
        let candidates = Candidate::by_moments(CandidateSet::All, true);
        let mut errors = vec![Vec::new(); candidates.len()];
        (errors[0], errors[1]) = (first.to_vec(), second.to_vec());
        *errors.last_mut().unwrap() = none.to_vec();
        let predicted = |error: &Vec<f64>| error.iter().map(|e| vec![0.0, e.exp().sqrt()]).collect();
        Scores {
            predicted: errors.iter().map(predicted).collect(),
            errors,
            candidates,
            environments: vec![1, 2],
            observed: vec![vec![1.0, 0.0]; 2],
            targets: vec![vec![0]; 2],
            noise: vec![0.0; 2],
            rule: Rule::Average,
        }
    }

    #[test]
    fn the_best_candidate_with_effects_can_be_all_of_the_model() {
        let all = Scores { rule: Rule::Best, ..scores([-1.0, -1.0], [-1.5, -0.7], [-9.0, -9.0]) };
        assert_eq!(all.weights(&[0, 1])[..2], [0.0, 1.0]);
        assert_eq!(all.weights(&[1])[..2], [1.0, 0.0]);
        // The first environment is predicted by what is best for the second, and the other way round.
        assert!((all.expected_error().ratio.ln() - 8.15).abs() < 1e-9);
    }

    #[test]
    fn weights_fall_with_scores() {
        let all = scores([-1.0, -1.0], [-0.5, -0.5], [1.0, 1.0]);
        let weights = all.weights(&[0, 1]);
        // exp(−2 · 0.5) beside 1; no effect has exp(−4), less than a twentieth of the sum, and goes.
        let second = (-1.0f64).exp();
        assert!((weights[0] - 1.0 / (1.0 + second)).abs() < 1e-12);
        assert!((weights[1] - second / (1.0 + second)).abs() < 1e-12);
        assert!(weights[2..].iter().all(|weight| *weight == 0.0));
        assert_eq!(all.score(2, &[0, 1]), None);
        // A candidate with an infinite score has no weight. Without environments, only no effect has one.
        let lost = scores([f64::INFINITY; 2], [0.0, 0.0], [0.0, 0.0]);
        assert_eq!(lost.weights(&[0, 1])[..2], [0.0, 0.5]);
        assert_eq!(lost.weights(&[]).last(), Some(&1.0));
    }

    #[test]
    fn the_outlook_is_of_weights_that_have_not_seen_an_intervention() {
        // By the second environment alone no effect is best, by the first alone the first candidate.
        let all = scores([-20.0, 2.0], [40.0, 40.0], [0.0, 0.0]);
        let expected = all.expected_error();
        // Left out, the first is predicted by both, of which no effect has the weight 1/(1 + e⁻¹); the second by the candidate.
        let share = 1.0 / (1.0 + (-2.0f64).exp());
        let first = 2.0 * (share + (1.0 - share) * (-10.0f64).exp()).ln();
        assert!((expected.ratio.ln() - 0.5 * (first + 2.0)).abs() < 1e-3, "{}", expected.ratio.ln());
        assert!(expected.low < expected.ratio && expected.ratio < expected.high);
        // Where nothing is better than no effect, that is what is expected.
        assert_eq!(scores([40.0, 40.0], [40.0, 40.0], [0.0, 0.0]).expected_error().ratio, 1.0);
    }

    #[test]
    fn paths_end_where_there_is_no_hope() {
        // exp(−10/2 · 0.9) < 0.02 < exp(−10/2 · 0.7).
        assert!(is_exhausted(&[0.45, 0.675], 0.0, 10, 3));
        assert!(!is_exhausted(&[0.35, 0.525], 0.0, 10, 3));
        // Downwards by 0.5, three times as fast and twice more: 2 is within reach, 5 is not.
        assert!(!is_exhausted(&[2.5, 2.0], 0.0, 10, 2));
        assert!(is_exhausted(&[5.5, 5.0], 0.0, 10, 2));
        assert!(!is_exhausted(&[9.0], 0.0, 10, 5));
        assert!(is_exhausted(&[f64::INFINITY, f64::INFINITY], 0.0, 10, 5));
    }
}
