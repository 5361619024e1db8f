//! Bandwidth and penalty of a model that is made of given functions, chosen by what is held out.
//!
//! There is no law in closed form to predict with, so a fit is judged by the loss itself: SKDS of a held-out part with one
//! kernel for all settings, a target's shift being what suits it best. Variables count by their squared standard
//! deviations. Of the settings with the best bandwidth, the one with the largest penalty is taken that is not worse than the
//! best by more than the standard error of their difference.

use super::choose::Method;
use super::tuning::{ENOUGH_INTERVENTIONS, ScoredSetting, Tuning, enough, intervened, multiples};
use crate::data::Dataset;
use crate::engine::gpu::GpuEngine;
use crate::kernel::{Bandwidth, Kernel, KernelKind};
use crate::model::PenaltyKind;
use crate::numeric::statistics::mean_and_error;
use crate::solve::{Design, Exact, Solution, Spec};
use crate::{Matrix, Progress, Result};
use rayon::prelude::*;
use std::sync::Arc;

/// Penalties at each bandwidth.
const PENALTIES: usize = 12;
/// From the one that leaves nothing down to this part of it.
const LEAST_PENALTY: f64 = 1e-4;
/// Parts that rows are cut into where fewer than [`ENOUGH_INTERVENTIONS`] environments can be left out.
const ROW_FOLDS: usize = 5;

/// What a choice is made of.
pub(super) struct Search<'a> {
    pub data: &'a Dataset,
    pub targets: &'a Matrix<bool>,
    /// Whether targets are known: unknown ones cannot be told.
    pub known: bool,
    pub design: &'a Design,
    /// What penalties of effects are multiplied with, if anything is known of them.
    pub multipliers: Option<&'a Matrix<f64>>,
    pub kernel: KernelKind,
    pub spec: Spec,
    pub seed: u64,
    /// Counts fits.
    pub progress: &'a Progress,
}

/// What came of it.
pub(super) struct Selected {
    pub tuning: Tuning,
    pub solution: Solution,
    pub kernel: Kernel,
    /// Whether the `u` form was not convex and the `v` form took its place.
    pub fell_back: bool,
}

/// A part to fit to and a part to judge by.
struct Fold {
    fit: Vec<usize>,
    held_out: Vec<usize>,
    /// Rows to fit to, if rows and not environments are held out.
    rows: Option<Dataset>,
    /// Knows what is held out.
    judge: Arc<Exact>,
}

/// How many fits [`Search::run`] will make.
pub(super) fn fits_of(kernel: KernelKind, targets: &Matrix<bool>, known: bool) -> u64 {
    let folds = match intervened(targets, known).len() {
        count if count >= ENOUGH_INTERVENTIONS => count,
        _ => ROW_FOLDS,
    };
    (multiples(kernel).len() * PENALTIES * folds + 1) as u64
}

impl Search<'_> {
    /// The pass over pairs at a bandwidth.
    fn pass(&self, gpu: Option<&GpuEngine>, data: &Dataset, bandwidth: f64) -> Result<Exact> {
        let spec = Spec { kernel: self.kernel.with_bandwidth(bandwidth)?, ..self.spec };
        Exact::on(gpu, data, self.targets, self.design, self.multipliers, spec, self.progress)
    }

    /// All folds; their judges have one bandwidth.
    fn folds(&self, gpu: Option<&GpuEngine>, bandwidth: f64) -> Result<Vec<Fold>> {
        let all: Vec<usize> = (0..self.data.environments()).collect();
        let left_out = intervened(self.targets, self.known);
        if left_out.len() >= ENOUGH_INTERVENTIONS {
            let judge = Arc::new(self.pass(gpu, self.data, bandwidth)?);
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
                        enough(self.data, e, &rows.collect::<Vec<_>>())
                    };
                    Dataset::from_environments(all.iter().map(of).collect::<Result<_>>()?)
                };
                let judge = Arc::new(self.pass(None, &part(true)?, bandwidth)?);
                Ok(Fold { fit: all.clone(), held_out: all.clone(), rows: Some(part(false)?), judge })
            })
            .collect()
    }

    /// Scores every setting and fits the one that is taken.
    pub(super) fn run(&self, gpu: Option<&GpuEngine>) -> Result<Selected> {
        let median = Bandwidth::Auto.resolve(self.data, self.seed)?;
        let bandwidths: Vec<f64> = multiples(self.kernel).iter().map(|factor| factor * median).collect();
        let exacts: Vec<Exact> =
            bandwidths.iter().map(|&h| self.pass(gpu, self.data, h)).collect::<Result<_>>()?;
        let all: Vec<usize> = (0..self.data.environments()).collect();
        let mut top = f64::MIN_POSITIVE;
        for exact in &exacts {
            top = top.max(exact.largest_penalty(&all)?);
        }
        let lambdas: Vec<f64> = (0..PENALTIES)
            .map(|k| rounded(top * LEAST_PENALTY.powf(k as f64 / (PENALTIES - 1) as f64)))
            .collect();
        let path = |exact: &Exact, environments: &[usize], lambdas: &[f64]| -> Result<Vec<Solution>> {
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
                    Some(rows) => path(&self.pass(None, rows, bandwidths[h])?, fit, &lambdas)?,
                };
                fits.iter().map(|fit| judge.held_out_loss(fit, held_out)).collect()
            })
            .collect::<Result<_>>()?;
        let mut cells: Vec<ScoredSetting> = (0..exacts.len() * PENALTIES)
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
        let leading = chosen(&cells);
        cells[leading].weight = 1.0;
        let h = leading / PENALTIES;
        let fit = path(&exacts[h], &all, &[cells[leading].lambda])?.remove(0);
        let by_rows = folds[0].rows.is_some();
        let tuning = Tuning {
            held_out: if by_rows { "rows" } else { "environments" },
            folds: folds.len(),
            interventions: intervened(self.targets, self.known).len(),
            leading,
            cells,
            expected_error: None,
            remarks: Vec::new(),
        };
        let kernel = self.kernel.with_bandwidth(bandwidths[h])?;
        Ok(Selected { tuning, solution: fit, kernel, fell_back: exacts[h].fell_back })
    }
}

/// Three digits: a number that can be typed again.
fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// The largest penalty at the best cell's bandwidth that is not clearly worse than the best.
fn chosen(cells: &[ScoredSetting]) -> usize {
    let best = (0..cells.len()).fold(0, |best, c| {
        if cells[c].score.unwrap_or(f64::INFINITY) < cells[best].score.unwrap_or(f64::INFINITY) {
            c
        } else {
            best
        }
    });
    let first = best / PENALTIES * PENALTIES;
    (first..=best)
        .find(|&c| {
            let pairs = cells[c].scores.iter().zip(&cells[best].scores);
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
        let cell = |scores: [f64; 3]| ScoredSetting {
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
        let mut cells = vec![cell([9.0, 9.0, 9.0]); 2 * PENALTIES];
        cells[PENALTIES + 7] = cell([1.0, 1.1, 0.9]);
        assert_eq!(chosen(&cells), PENALTIES + 7);
        // Worse on average, but not on every part.
        cells[PENALTIES + 5] = cell([1.3, 1.0, 0.9]);
        assert_eq!(chosen(&cells), PENALTIES + 5);
        // Worse on every part, and at another bandwidth.
        cells[PENALTIES + 4] = cell([1.2, 1.3, 1.1]);
        cells[3] = cell([1.0, 1.1, 0.91]);
        assert_eq!(chosen(&cells), PENALTIES + 5);
    }
}
