//! Bootstrap intervals: the same fit to resampled rows, many times.

use super::choose::{Candidate, FitContext};
use super::stabilize::stabilized_weights;
use super::tuning::resampled;
use super::{MARGIN, PreparedFit, Tuning, bounds};
use crate::data::Dataset;
use crate::engine::LossSpec;
use crate::model::{Intervals, LawKind, Member, Parameters, Penalty, PenaltyKind};
use crate::objective::Estimator;
use crate::solve::moments::Tolerance;
use crate::solve::{Design, ExactSolver, ExactSpec, fits_at_once};
use crate::{Error, Progress, Result};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// Resamples differ from each other by far more than this tolerance.
const REFITTED: Tolerance = Tolerance { violation: 1e-6, steps: 20_000 };
/// The share of resamples within an interval.
const LEVEL: f64 = 0.95;

impl PreparedFit {
    /// 95 % intervals of every parameter, from `count` fits to rows drawn with replacement from each environment. They use the
    /// settings, or the average of settings, of the fit to all rows. `progress` counts fits.
    pub fn bootstrap(&self, tuning: Option<&Tuning>, count: usize, progress: &Progress) -> Result<Intervals> {
        if let Some(rival) = self.recipe.solver.rival() {
            return Err(Error::invalid(format!(
                "resamples are given with the method {}, expected a diffusion for them",
                rival.kind()
            )));
        }
        let d = self.data.dim();
        let features = self.design.features(d);
        bounds::check_resamples(count, (d * (features + self.data.environments())) as f64)?;
        let fit = |k: usize| {
            let mut rng = ChaCha8Rng::seed_from_u64(self.recipe.seed);
            rng.set_stream(1 + k as u64);
            let data = resampled(&self.data, &mut rng)?.0;
            let fit = self.refit(&data, tuning, progress)?;
            progress.add(1)?;
            Ok(fit)
        };
        let at_once = fits_at_once(d, features);
        let mut fits: Vec<Parameters<f64>> = Vec::with_capacity(count);
        while fits.len() < count {
            let next = fits.len()..count.min(fits.len().saturating_add(at_once));
            fits.extend(next.into_par_iter().with_max_len(1).map(fit).collect::<Result<Vec<_>>>()?);
        }
        let (mut low, mut high) = (fits[0].clone(), fits[0].clone());
        let cut = ((1.0 - LEVEL) / 2.0 * (count - 1) as f64).round() as usize;
        let all: Vec<_> = fits.iter().map(Parameters::tensors).collect();
        let ends = low.tensors_mut().into_iter().zip(high.tensors_mut());
        for (t, ((_, low), (_, high))) in ends.enumerate() {
            for at in 0..low.len() {
                let mut values: Vec<f64> = all.iter().map(|tensors| tensors[t].values[at]).collect();
                values.sort_by(f64::total_cmp);
                (low[at], high[at]) = (values[cut], values[count - 1 - cut]);
            }
        }
        Ok(Intervals { level: LEVEL, low, high })
    }

    /// The same fit to other rows, in the data's units. If the fit averages several settings, so does this one.
    fn refit(&self, data: &Dataset, tuning: Option<&Tuning>, progress: &Progress) -> Result<Parameters<f64>> {
        // A row that was drawn twice makes a pair with itself, which only the `v` form may contain.
        let estimator = Estimator::V;
        let parts: Vec<(f64, Candidate)> = match (tuning, self.moments_candidate()) {
            (Some(tuning), _) => tuning.shares(),
            (None, Some(candidate)) => vec![(1.0, candidate)],
            (None, None) => Vec::new(),
        };
        if parts.is_empty() {
            let loss = LossSpec { estimator, ..self.spec.loss };
            let (solution, _) = self.minimum(None, data, loss, progress)?;
            return self.finished(solution.parameters, LawKind::Diffusion);
        }
        if let (Design::Basis { .. }, Some((_, candidate))) = (&self.design, parts.first()) {
            let kernel = self.recipe.kernel.with_bandwidth(candidate.bandwidth.unwrap_or(1.0))?;
            let penalty = Some(Penalty::new(PenaltyKind::Ingoing, candidate.lambda));
            let spec = ExactSpec { kernel, estimator, penalty, learn_scale: self.recipe.learn_scale };
            let (targets, design, known) = (&self.targets, &self.design, self.multipliers());
            let exact = ExactSolver::prepare(None, data, targets, design, known, spec, progress)?;
            return self.finished(exact.solve()?.parameters, LawKind::Diffusion);
        }
        let context = FitContext { pairs: estimator, ..self.context(None) };
        let candidates: Vec<Candidate> = parts.iter().map(|(_, candidate)| *candidate).collect();
        let fits = context.fits(data, &candidates, REFITTED, progress)?;
        let members = parts
            .iter()
            .zip(fits)
            .map(|((weight, candidate), fit)| {
                let law = candidate.method.law();
                Ok(Member { weight: *weight, law, parameters: self.finished(fit.parameters, law)? })
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Member::average(&members))
    }

    /// Stabilized if the settings ask for it, and in the data's units.
    fn finished(&self, mut parameters: Parameters<f64>, law: LawKind) -> Result<Parameters<f64>> {
        // Other drifts are not made stable.
        if law == LawKind::Diffusion
            && self.recipe.stabilize
            && let Ok(weights) = parameters.drift.linear_weights_mut()
        {
            *weights = stabilized_weights(weights, MARGIN)?;
        }
        self.in_data_units(&parameters)
    }
}
