//! Chooses bandwidth and penalty of a model of given functions by cross-validation.
//!
//! The law of such a model has no closed form to predict with, so the score of a fit is the loss on held-out data: SKDS with one
//! kernel for all settings, where each target has its best shift. Variables are weighted by their squared standard deviations.
//! Among the settings with the best bandwidth, the choice is the largest penalty whose score exceeds the best by at most the
//! standard error of their difference.

use super::choose::Method;
use super::tuning::{
    ENOUGH_INTERVENTIONS, ScoredSetting, Tuning, bandwidth_multiples, held_out_rows,
    interventions_to_leave_out,
};
use crate::data::Dataset;
use crate::engine::gpu::GpuEngine;
use crate::kernel::{Bandwidth, Kernel, KernelKind};
use crate::model::PenaltyKind;
use crate::numeric::statistics::mean_and_error;
use crate::solve::{Design, ExactSolver, ExactSpec, Solution};
use crate::{Matrix, Progress, Result};
use rayon::prelude::*;
use std::sync::Arc;

/// Penalties at each bandwidth.
const PENALTIES: usize = 12;
/// The smallest penalty, as a share of the one that removes all effects.
const LEAST_PENALTY: f64 = 1e-4;
/// Parts of the rows if fewer than [`ENOUGH_INTERVENTIONS`] environments can be left out.
const ROW_FOLDS: usize = 5;

/// A search over the settings of a model of given functions.
pub(super) struct BasisSearch<'a> {
    pub data: &'a Dataset,
    pub targets: &'a Matrix<bool>,
    /// Whether the targets are known. Interventions with unknown targets cannot be left out.
    pub known: bool,
    pub design: &'a Design,
    /// Multipliers of the effects' penalties, if there is prior knowledge.
    pub multipliers: Option<&'a Matrix<f64>>,
    pub kernel: KernelKind,
    pub spec: ExactSpec,
    pub seed: u64,
    /// Counts fits.
    pub progress: &'a Progress,
}

/// The result of a search.
pub(super) struct SelectedBasis {
    pub tuning: Tuning,
    pub solution: Solution,
    pub kernel: Kernel,
    /// Whether the `u` form was not convex, so that the fit used the `v` form.
    pub fell_back: bool,
}

/// A fold: data to fit to, and data to score by.
struct Fold {
    fit: Vec<usize>,
    held_out: Vec<usize>,
    /// Rows to fit to, if rows and not environments are held out.
    rows: Option<Dataset>,
    /// The statistics of the held-out part.
    judge: Arc<ExactSolver>,
}

/// How many fits [`BasisSearch::run`] will make.
pub(super) fn fit_count(kernel: KernelKind, targets: &Matrix<bool>, known: bool) -> u64 {
    let folds = match interventions_to_leave_out(targets, known).len() {
        count if count >= ENOUGH_INTERVENTIONS => count,
        _ => ROW_FOLDS,
    };
    (bandwidth_multiples(kernel).len() * PENALTIES * folds + 1) as u64
}

impl BasisSearch<'_> {
    /// The pass over pairs at a bandwidth.
    fn exact_at(&self, gpu: Option<&GpuEngine>, data: &Dataset, bandwidth: f64) -> Result<ExactSolver> {
        let spec = ExactSpec { kernel: self.kernel.with_bandwidth(bandwidth)?, ..self.spec };
        ExactSolver::prepare(gpu, data, self.targets, self.design, self.multipliers, spec, self.progress)
    }

    /// All folds. Their judges have the same bandwidth.
    fn folds(&self, gpu: Option<&GpuEngine>, bandwidth: f64) -> Result<Vec<Fold>> {
        let all: Vec<usize> = (0..self.data.environments()).collect();
        let left_out = interventions_to_leave_out(self.targets, self.known);
        if left_out.len() >= ENOUGH_INTERVENTIONS {
            let judge = Arc::new(self.exact_at(gpu, self.data, bandwidth)?);
            let without = |e: usize| all.iter().copied().filter(|other| *other != e).collect();
            return Ok(left_out
                .into_iter()
                .map(|e| Fold { fit: without(e), held_out: vec![e], rows: None, judge: judge.clone() })
                .collect());
        }
        (0..ROW_FOLDS)
            .into_par_iter()
            .map(|fold| {
                let part = |held_out: bool| {
                    let of = |&e: &usize| {
                        let rows = self.data.rows(e).filter(|i| (i % ROW_FOLDS == fold) == held_out);
                        held_out_rows(self.data, e, &rows.collect::<Vec<_>>())
                    };
                    Dataset::from_environments(all.iter().map(of).collect::<Result<_>>()?)
                };
                let judge = Arc::new(self.exact_at(None, &part(true)?, bandwidth)?);
                Ok(Fold { fit: all.clone(), held_out: all.clone(), rows: Some(part(false)?), judge })
            })
            .collect()
    }

    /// Scores every setting, and fits the chosen one to all data.
    pub(super) fn run(&self, gpu: Option<&GpuEngine>) -> Result<SelectedBasis> {
        let median = Bandwidth::Auto.resolve(self.data, self.seed)?;
        let bandwidths: Vec<f64> =
            bandwidth_multiples(self.kernel).iter().map(|factor| factor * median).collect();
        let exacts: Vec<ExactSolver> =
            bandwidths.iter().map(|&h| self.exact_at(gpu, self.data, h)).collect::<Result<_>>()?;
        let all: Vec<usize> = (0..self.data.environments()).collect();
        let mut top = f64::MIN_POSITIVE;
        for exact in &exacts {
            top = top.max(exact.largest_penalty(&all)?);
        }
        let lambdas: Vec<f64> = (0..PENALTIES)
            .map(|k| rounded(top * LEAST_PENALTY.powf(k as f64 / (PENALTIES - 1) as f64)))
            .collect();
        let path = |exact: &ExactSolver, environments: &[usize], lambdas: &[f64]| -> Result<Vec<Solution>> {
            let fits = exact.path(environments, PenaltyKind::Ingoing, lambdas)?;
            self.progress.add(fits.len() as u64)?;
            Ok(fits)
        };
        let folds = self.folds(gpu, median)?;
        let tasks: Vec<(usize, &Fold)> =
            (0..exacts.len()).flat_map(|h| folds.iter().map(move |fold| (h, fold))).collect();
        let scores: Vec<Vec<f64>> = tasks
            .par_iter()
            .with_max_len(1)
            .map(|&(h, Fold { fit, held_out, rows, judge })| {
                let fits = match rows {
                    None => path(&exacts[h], fit, &lambdas)?,
                    Some(rows) => path(&self.exact_at(None, rows, bandwidths[h])?, fit, &lambdas)?,
                };
                fits.iter().map(|fit| judge.held_out_loss(fit, held_out)).collect()
            })
            .collect::<Result<_>>()?;
        let mut settings: Vec<ScoredSetting> = (0..exacts.len() * PENALTIES)
            .map(|c| {
                let (h, l) = (c / PENALTIES, c % PENALTIES);
                let of_fold = |fold: usize| scores[h * folds.len() + fold][l];
                let scores: Vec<f64> = (0..folds.len()).map(of_fold).collect();
                let (score, error) = mean_and_error(&scores);
                ScoredSetting {
                    method: Method::Skds,
                    bandwidth: self.kernel.has_bandwidth().then_some(bandwidths[h]),
                    penalty: PenaltyKind::Ingoing,
                    lambda: lambdas[l],
                    score: Some(score),
                    error: Some(error),
                    ratio: None,
                    weight: 0.0,
                    scores,
                }
            })
            .collect();
        let leading = largest_adequate_penalty(&settings);
        settings[leading].weight = 1.0;
        let h = leading / PENALTIES;
        let fit = path(&exacts[h], &all, &[settings[leading].lambda])?.remove(0);
        let by_rows = folds[0].rows.is_some();
        let tuning = Tuning {
            held_out: if by_rows { "rows" } else { "environments" },
            folds: folds.len(),
            interventions: interventions_to_leave_out(self.targets, self.known).len(),
            leading,
            settings,
            expected_error: None,
            remarks: Vec::new(),
        };
        let kernel = self.kernel.with_bandwidth(bandwidths[h])?;
        Ok(SelectedBasis { tuning, solution: fit, kernel, fell_back: exacts[h].fell_back })
    }
}

/// The value with three digits, which a person can type.
fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// The largest penalty at the best setting's bandwidth that is not clearly worse than the best.
fn largest_adequate_penalty(settings: &[ScoredSetting]) -> usize {
    let best = (0..settings.len()).fold(0, |best, c| {
        if settings[c].score.unwrap_or(f64::INFINITY) < settings[best].score.unwrap_or(f64::INFINITY) {
            c
        } else {
            best
        }
    });
    let first = best / PENALTIES * PENALTIES;
    (first..=best)
        .find(|&c| {
            let pairs = settings[c].scores.iter().zip(&settings[best].scores);
            let differences: Vec<f64> = pairs.map(|(a, b)| a - b).collect();
            let (mean, error) = mean_and_error(&differences);
            mean <= error
        })
        .unwrap_or(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_penalty_that_is_as_good_is_taken() {
        let setting = |scores: [f64; 3]| ScoredSetting {
            method: Method::Skds,
            bandwidth: Some(1.0),
            penalty: PenaltyKind::Ingoing,
            lambda: 1.0,
            score: Some(mean_and_error(&scores).0),
            error: Some(0.0),
            ratio: None,
            weight: 0.0,
            scores: scores.to_vec(),
        };
        let mut settings = vec![setting([9.0, 9.0, 9.0]); 2 * PENALTIES];
        settings[PENALTIES + 7] = setting([1.0, 1.1, 0.9]);
        assert_eq!(largest_adequate_penalty(&settings), PENALTIES + 7);
        // Worse on average, but not on every part.
        settings[PENALTIES + 5] = setting([1.3, 1.0, 0.9]);
        assert_eq!(largest_adequate_penalty(&settings), PENALTIES + 5);
        // Worse on every part, and at another bandwidth.
        settings[PENALTIES + 4] = setting([1.2, 1.3, 1.1]);
        settings[3] = setting([1.0, 1.1, 0.91]);
        assert_eq!(largest_adequate_penalty(&settings), PENALTIES + 5);
    }
}
