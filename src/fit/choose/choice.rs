//! From data to the candidates that share the model.

use super::score::weigh;
use super::{Candidate, Common, Fit, Folds, Method, Scores, rows};
use crate::data::Dataset;
use crate::fit::CandidateSet;
use crate::fit::tuning::{ENOUGH_INTERVENTIONS, ScoredSetting, Tuning, intervened, multiples};
use crate::kernel::Bandwidth;
use crate::model::PenaltyKind;
use crate::numeric::statistics::mean_and_error;
use crate::solve::moments::{Moments, Tolerance};
use crate::{Matrix, Progress, Result};
use rayon::prelude::*;

/// The bandwidths of SKDS beside other methods, in median distances.
const FEW: [f64; 2] = [0.525, 1.225];
/// More variables than these, and SKDS would take longer than everything else together.
const MOST_FOR_PAIRS: usize = 200;
/// Members of the model are fitted to this.
const KEPT: Tolerance = Tolerance { violation: 1e-7, steps: 20_000 };
/// Fits to samples of rows are good enough to be compared.
const COMPARED: Tolerance = Tolerance { violation: 1e-5, steps: 3000 };

/// What a choice is made of.
pub(in crate::fit) struct Choice<'a> {
    pub data: &'a Dataset,
    pub common: Common<'a>,
    pub candidate_set: CandidateSet,
    /// Whether targets are known: unknown ones cannot be told.
    pub known: bool,
    pub seed: u64,
}

/// Whether SKDS is considered for so many variables.
pub(crate) fn considers_pairs(set: CandidateSet, d: usize) -> bool {
    match set {
        CandidateSet::Skds => true,
        CandidateSet::Kds | CandidateSet::Structural => false,
        CandidateSet::All | CandidateSet::Diffusions => d <= MOST_FOR_PAIRS,
    }
}

/// What came of it.
pub(in crate::fit) struct Chosen {
    pub tuning: Tuning,
    /// The fits that share the model, each with its weight; they add up to 1.
    pub members: Vec<(f64, Fit)>,
}

impl Choice<'_> {
    fn by_moments(&self) -> Vec<Candidate> {
        Candidate::by_moments(self.candidate_set, !self.common.learn_scale)
    }

    /// Bandwidths of SKDS, in median distances; none if it is not considered.
    fn multiples(&self) -> &'static [f64] {
        let all = multiples(self.common.kernel);
        match self.candidate_set {
            set if !considers_pairs(set, self.data.dim()) => &[],
            CandidateSet::Skds => all,
            _ => &FEW[..all.len().min(FEW.len())],
        }
    }

    fn left_out(&self) -> Vec<usize> {
        intervened(self.common.targets, self.known)
    }

    fn folds(&self) -> Folds {
        let mut folds = Folds::of(self.common.targets);
        if self.common.learn_scale {
            // Each environment has noises of its own.
            folds.separate();
        }
        folds
    }

    /// How many fits [`run`](Self::run) will make: what its progress counts up to.
    pub fn fits(&self) -> u64 {
        let bandwidths = vec![None; self.multiples().len()];
        let candidates = self.by_moments().len() + Candidate::by_pairs(1, &bandwidths).len();
        let folds = match self.left_out().len() >= ENOUGH_INTERVENTIONS {
            true => self.folds().left_out.len(),
            false => rows::SAMPLES,
        };
        (candidates * folds + 1) as u64
    }

    /// What was not considered, and why.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let pairs = matches!(self.candidate_set, CandidateSet::All | CandidateSet::Diffusions);
        if pairs && self.multiples().is_empty() {
            remarks.push(format!(
                "SKDS was not considered, because it is slow for more than {MOST_FOR_PAIRS} variables. To fit it alone, set the objective skds."
            ));
        }
        if self.candidate_set == CandidateSet::All && self.common.learn_scale {
            remarks.push(
                "Structural equations were not considered, because they cannot learn scales (learn_scale)."
                    .into(),
            );
        }
        remarks
    }

    /// Scores every candidate, and fits those that share the model to all of the data.
    pub fn run(&self, progress: &Progress) -> Result<Chosen> {
        let bandwidths: Vec<Option<f64>> = match self.multiples() {
            [] => Vec::new(),
            _ if !self.common.kernel.has_bandwidth() => vec![None],
            multiples => {
                let median = Bandwidth::Auto.resolve(self.data, self.seed)?;
                multiples.iter().map(|factor| Some(factor * median)).collect()
            }
        };
        let by_pairs = Candidate::by_pairs(self.data.dim(), &bandwidths);
        let tuning = match self.left_out().len() >= ENOUGH_INTERVENTIONS {
            true => self.by_interventions(&bandwidths, by_pairs, progress)?,
            false => self.by_rows(by_pairs, progress)?,
        };
        let (weights, candidates): (Vec<f64>, Vec<Candidate>) = tuning.shares().into_iter().unzip();
        let fits = self.common.fits(self.data, &candidates, KEPT, progress)?;
        progress.add(1)?;
        Ok(Chosen { tuning, members: weights.into_iter().zip(fits).collect() })
    }

    fn by_interventions(
        &self,
        bandwidths: &[Option<f64>],
        by_pairs: Vec<Candidate>,
        progress: &Progress,
    ) -> Result<Tuning> {
        let folds = self.folds();
        let moments = Moments::of(self.data, &folds.parts, progress)?;
        let mut scores = Scores::of(&self.common, &moments, &folds, self.by_moments(), progress)?;
        if !by_pairs.is_empty() {
            let weights = self.paths_of_pairs(bandwidths, &by_pairs, &folds, progress)?;
            scores.add(&folds, by_pairs, &weights);
        }
        let all: Vec<usize> = (0..scores.environments.len()).collect();
        let weights = scores.weights(&all);
        let none = scores.candidates.iter().position(|candidate| candidate.method == Method::Nothing);
        let none = none.map(|c| mean_and_error(&scores.errors[c]).0);
        let mut cells = cells(&scores.candidates, &scores.errors, &weights, self.common.penalty);
        for cell in &mut cells {
            cell.ratio = none.zip(cell.score).map(|(none, score)| (score - none).exp());
        }
        Ok(Tuning {
            held_out: "environments",
            folds: folds.left_out.len(),
            interventions: self.left_out().len(),
            leading: leading(&cells),
            cells,
            expected_error: Some(scores.expected_error()),
            remarks: self.remarks(),
        })
    }

    /// W of SKDS without each fold: fold by candidate.
    fn paths_of_pairs(
        &self,
        bandwidths: &[Option<f64>],
        candidates: &[Candidate],
        folds: &Folds,
        progress: &Progress,
    ) -> Result<Vec<Vec<Matrix<f64>>>> {
        let all: Vec<usize> = (0..self.data.environments()).collect();
        let mut weights: Vec<Vec<Matrix<f64>>> = vec![Vec::new(); folds.left_out.len()];
        for &h in bandwidths {
            let exact = self.common.exact(self.data, h, progress)?;
            let lambdas: Vec<f64> =
                candidates.iter().filter(|c| c.bandwidth == h).map(|c| c.lambda).collect();
            let paths: Vec<Vec<Matrix<f64>>> = folds
                .left_out
                .par_iter()
                .with_max_len(1)
                .map(|left_out| {
                    let others: Vec<usize> = all.iter().copied().filter(|e| !left_out.contains(e)).collect();
                    let solutions = exact.path(&others, self.common.penalty, &lambdas)?;
                    progress.add(solutions.len() as u64)?;
                    solutions
                        .iter()
                        .map(|solution| solution.parameters.drift.linear_weights().cloned())
                        .collect()
                })
                .collect::<Result<_>>()?;
            weights.iter_mut().zip(paths).for_each(|(all, path)| all.extend(path));
        }
        Ok(weights)
    }

    fn by_rows(&self, by_pairs: Vec<Candidate>, progress: &Progress) -> Result<Tuning> {
        let mut candidates = self.by_moments();
        candidates.extend(by_pairs);
        let scores = rows::scores(&self.common, self.data, &candidates, COMPARED, self.seed, progress)?;
        let means: Vec<Option<f64>> = scores.iter().map(|scores| Some(mean_and_error(scores).0)).collect();
        let weights = weigh(&candidates, &means, rows::SAMPLES);
        let cells = cells(&candidates, &scores, &weights, self.common.penalty);
        Ok(Tuning {
            held_out: "rows",
            folds: rows::SAMPLES,
            interventions: self.left_out().len(),
            leading: leading(&cells),
            cells,
            expected_error: None,
            remarks: self.remarks(),
        })
    }
}

fn cells(
    candidates: &[Candidate],
    scores: &[Vec<f64>],
    weights: &[f64],
    penalty: PenaltyKind,
) -> Vec<ScoredSetting> {
    let cell = |((candidate, scores), weight): ((&Candidate, &Vec<f64>), &f64)| {
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
    candidates.iter().zip(scores).zip(weights).map(cell).collect()
}

/// The cell with the largest weight.
fn leading(cells: &[ScoredSetting]) -> usize {
    (0..cells.len()).fold(0, |best, c| if cells[c].weight > cells[best].weight { c } else { best })
}
