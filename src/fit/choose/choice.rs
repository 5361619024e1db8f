//! From data to a weighted set of fitted candidates.

use super::score::{candidate_weights, leading, scored_settings};
use super::{Candidate, CandidateFit, FitContext, Folds, Scores, rows};
use crate::data::Dataset;
use crate::fit::CandidateSet;
use crate::fit::tuning::{ENOUGH_INTERVENTIONS, Tuning, bandwidth_multiples, interventions_to_leave_out};
use crate::kernel::Bandwidth;
use crate::numeric::statistics::mean_and_error;
use crate::solve::moments::{Moments, Tolerance};
use crate::{Matrix, Progress, Result};
use rayon::prelude::*;

/// The bandwidths of SKDS if other methods compete, in median distances.
const FEW: [f64; 2] = [0.525, 1.225];
/// With more variables, SKDS would take longer than all other methods together.
const MOST_FOR_PAIRS: usize = 200;
/// The same for pairs of rows, times variables: some ten seconds on a laptop.
const MOST_PAIRS: f64 = 2e10;
/// The tolerance for members of the model.
const KEPT: Tolerance = Tolerance { violation: 1e-7, steps: 20_000 };
/// The tolerance for fits that are only compared.
const COMPARED: Tolerance = Tolerance { violation: 1e-5, steps: 3000 };

/// A choice among linear models.
pub(in crate::fit) struct ModelChoice<'a> {
    pub data: &'a Dataset,
    pub context: FitContext<'a>,
    pub candidate_set: CandidateSet,
    /// Whether the targets are known. Interventions with unknown targets cannot be left out.
    pub known: bool,
    pub seed: u64,
}

/// Whether SKDS is considered for `d` variables and so many pairs of rows.
pub(crate) fn considers_pairs(set: CandidateSet, d: usize, pairs: f64) -> bool {
    match set {
        CandidateSet::Skds => true,
        CandidateSet::Kds | CandidateSet::Structural => false,
        CandidateSet::All | CandidateSet::Diffusions => d <= MOST_FOR_PAIRS && pairs * d as f64 <= MOST_PAIRS,
    }
}

/// The result of a choice.
pub(in crate::fit) struct ChosenModel {
    pub tuning: Tuning,
    /// The fits that the model averages, with weights that add up to 1.
    pub members: Vec<(f64, CandidateFit)>,
}

impl ModelChoice<'_> {
    fn by_moments(&self) -> Vec<Candidate> {
        Candidate::by_moments(self.candidate_set, !self.context.learn_scale)
    }

    /// Pairs of rows in the same environment.
    fn pairs(&self) -> f64 {
        (0..self.data.environments()).map(|e| (self.data.rows(e).len() as f64).powi(2)).sum()
    }

    /// Bandwidths of SKDS, in median distances; empty if it is not considered.
    fn bandwidth_multiples(&self) -> &'static [f64] {
        let all = bandwidth_multiples(self.context.kernel);
        match self.candidate_set {
            set if !considers_pairs(set, self.data.dim(), self.pairs()) => &[],
            CandidateSet::Skds => all,
            _ => &FEW[..all.len().min(FEW.len())],
        }
    }

    fn left_out(&self) -> Vec<usize> {
        interventions_to_leave_out(self.context.targets, self.known)
    }

    fn folds(&self) -> Folds {
        let mut folds = Folds::of(self.context.targets);
        if self.context.learn_scale {
            // Each environment has its own noise.
            folds.separate();
        }
        folds
    }

    /// How many fits [`run`](Self::run) will make. Its progress counts up to this.
    pub(crate) fn fits(&self) -> u64 {
        let bandwidths = vec![None; self.bandwidth_multiples().len()];
        let candidates = self.by_moments().len() + Candidate::by_pairs(1, &bandwidths).len();
        let folds = match self.left_out().len() >= ENOUGH_INTERVENTIONS {
            true => self.folds().left_out.len(),
            false => rows::SAMPLES,
        };
        (candidates * folds + 1) as u64
    }

    /// Which methods were not considered, and why.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let pairs = matches!(self.candidate_set, CandidateSet::All | CandidateSet::Diffusions);
        if pairs && self.bandwidth_multiples().is_empty() {
            let much = match self.data.dim() > MOST_FOR_PAIRS {
                true => format!("more than {MOST_FOR_PAIRS} variables"),
                false => format!("{} rows of {} variables", self.data.samples().rows(), self.data.dim()),
            };
            remarks.push(format!(
                "SKDS was not considered, because it is slow for {much}. To fit it alone, set the objective skds."
            ));
        }
        if self.candidate_set == CandidateSet::All && self.context.learn_scale {
            remarks.push(
                "Structural equations were not considered, because they cannot learn scales (learn_scale)."
                    .into(),
            );
        }
        remarks
    }

    /// Scores every candidate, and fits those with a weight to all data.
    pub(crate) fn run(&self, progress: &Progress) -> Result<ChosenModel> {
        let bandwidths: Vec<Option<f64>> = match self.bandwidth_multiples() {
            [] => Vec::new(),
            _ if !self.context.kernel.has_bandwidth() => vec![None],
            bandwidth_multiples => {
                let median = Bandwidth::Auto.resolve(self.data, self.seed)?;
                bandwidth_multiples.iter().map(|factor| Some(factor * median)).collect()
            }
        };
        let by_pairs = Candidate::by_pairs(self.data.dim(), &bandwidths);
        let tuning = match self.left_out().len() >= ENOUGH_INTERVENTIONS {
            true => self.by_interventions(&bandwidths, by_pairs, progress)?,
            false => self.by_rows(by_pairs, progress)?,
        };
        let (weights, candidates): (Vec<f64>, Vec<Candidate>) = tuning.shares().into_iter().unzip();
        let fits = self.context.fits(self.data, &candidates, KEPT, progress)?;
        progress.add(1)?;
        Ok(ChosenModel { tuning, members: weights.into_iter().zip(fits).collect() })
    }

    fn by_interventions(
        &self,
        bandwidths: &[Option<f64>],
        by_pairs: Vec<Candidate>,
        progress: &Progress,
    ) -> Result<Tuning> {
        let folds = self.folds();
        let moments = Moments::of(self.data, &folds.parts, progress)?;
        let mut scores = Scores::by_moments(&self.context, &moments, &folds, self.by_moments(), progress)?;
        if !by_pairs.is_empty() {
            let weights = self.paths_of_pairs(bandwidths, &by_pairs, &folds, progress)?;
            scores.add(&folds, by_pairs, &weights);
        }
        Ok(Tuning { remarks: self.remarks(), ..scores.tuning(folds.left_out.len(), self.context.penalty) })
    }

    /// The SKDS fits of W without each fold: fold by candidate.
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
            let exact = self.context.exact(self.data, h, progress)?;
            let lambdas: Vec<f64> =
                candidates.iter().filter(|c| c.bandwidth == h).map(|c| c.lambda).collect();
            let paths: Vec<Vec<Matrix<f64>>> = folds
                .left_out
                .par_iter()
                .with_max_len(1)
                .map(|left_out| {
                    let others: Vec<usize> = all.iter().copied().filter(|e| !left_out.contains(e)).collect();
                    let solutions = exact.path(&others, self.context.penalty, &lambdas)?;
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
        let scores = rows::scores(&self.context, self.data, &candidates, COMPARED, self.seed, progress)?;
        let means: Vec<Option<f64>> = scores.iter().map(|scores| Some(mean_and_error(scores).0)).collect();
        let weights = candidate_weights(&candidates, &means, rows::SAMPLES);
        let settings = scored_settings(&candidates, &scores, &weights, self.context.penalty);
        Ok(Tuning {
            held_out: "rows",
            folds: rows::SAMPLES,
            interventions: self.left_out().len(),
            leading: leading(&settings),
            settings,
            expected_error: None,
            remarks: self.remarks(),
        })
    }
}
