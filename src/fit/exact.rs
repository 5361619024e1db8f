//! Exact fits, with given or chosen settings.

use super::choose::{Candidate, CandidateFit, FitContext, Method, ModelChoice};
use super::select::{self, BasisSearch, SelectedBasis};
use super::{PenaltyStrength, PreparedFit, Recipe, Solver, Stability, TargetChoice, Tuning};
use crate::data::Dataset;
use crate::engine::LossSpec;
use crate::engine::gpu::GpuEngine;
use crate::model::{LawKind, Member, Model, PenaltyKind};
use crate::objective::{Estimator, Objective};
use crate::solve::moments::Tolerance;
use crate::solve::{ExactSolver, ExactSpec, Quadratic, QuadraticSpec, Solution, has_room};
use crate::{Error, Progress, Result};
use serde_json::json;

/// A fit that misses its optimality conditions by more is an error.
const LARGEST_VIOLATION: f64 = 1e-6;
/// The same where slopes have single precision.
const LARGEST_IN_F32: f64 = 1e-3;
/// The tolerance of a fit by products with a quadratic form.
const BY_PRODUCTS: Tolerance = Tolerance { violation: 1e-8, steps: 20_000 };
const BY_PRODUCTS_IN_F32: Tolerance = Tolerance { violation: 1e-4, steps: 2000 };
/// The tolerance of a fit by moments.
const BY_MOMENTS: Tolerance = Tolerance { violation: 1e-9, steps: 50_000 };

/// The result of an exact fit.
#[derive(Clone, Debug)]
pub struct ExactFit {
    /// The model, made stable.
    pub model: Model,
    /// How stable it was.
    pub stability: Stability,
    /// The loss without the penalty, before the model was made stable; none for an average of models.
    pub loss: Option<f64>,
    /// The penalty of the same parameters.
    pub penalty: Option<f64>,
    /// By how much optimality conditions are missed at most, relative to the largest slope at 0.
    pub violation: f64,
    /// Which pairs the loss averages over; none for a fit by moments. It is `v` if the `u` form was not convex.
    pub estimator: Option<Estimator>,
    /// Whether the `u` form was asked for and not convex, so that the fit used the `v` form.
    pub fell_back: bool,
    /// How the settings were chosen.
    pub tuning: Option<Tuning>,
}

impl PreparedFit {
    /// How many fits [`solve`](Self::solve) will make, or the work of a rival method in its own units. Its progress counts up to this.
    pub fn fit_count(&self) -> u64 {
        match &self.recipe.solver {
            Solver::Tuned { .. } => {
                select::fit_count(self.recipe.kernel, &self.targets, self.knows_targets())
            }
            Solver::Chosen { .. } => self.model_choice(None).map_or(1, |choice| choice.fits()),
            Solver::Rival(rival) => rival.work(&self.data),
            _ => 1,
        }
    }

    fn knows_targets(&self) -> bool {
        self.recipe.targets == TargetChoice::Known
    }

    /// Computes the exact fit, or chooses among many. Passes over pairs run on `gpu`, if there is one. `progress` counts fits.
    pub fn solve(&self, gpu: Option<&GpuEngine>, progress: &Progress) -> Result<ExactFit> {
        match &self.recipe.solver {
            Solver::Tuned { .. } => self.solve_tuned(gpu, progress),
            Solver::Exact { .. } => self.solve_once(gpu, progress),
            Solver::Moments(_) | Solver::Structural(_) => self.solve_by_moments(progress),
            Solver::Chosen { .. } => self.solve_chosen(gpu, progress),
            Solver::Rival(rival) => self.solve_rival(rival, progress),
            Solver::Adam { .. } => {
                Err(Error::invalid("the solver is adam, expected the exact one to solve with"))
            }
        }
    }

    /// What all candidates of a linear fit share.
    pub(super) fn context<'a>(&'a self, gpu: Option<&'a GpuEngine>) -> FitContext<'a> {
        let given = self.recipe.solver.strength().and_then(|strength| strength.penalty.kind());
        FitContext {
            targets: &self.targets,
            multipliers: self.multipliers(),
            penalty: given.unwrap_or(PenaltyKind::Ingoing),
            learn_scale: self.recipe.learn_scale,
            kernel: self.recipe.kernel,
            pairs: self.recipe.solver.pairs(),
            gpu,
        }
    }

    fn model_choice<'a>(&'a self, gpu: Option<&'a GpuEngine>) -> Option<ModelChoice<'a>> {
        let Solver::Chosen { candidates: candidate_set, .. } = self.recipe.solver else { return None };
        let (context, known, seed) = (self.context(gpu), self.knows_targets(), self.recipe.seed);
        Some(ModelChoice { data: &self.data, context, candidate_set, known, seed })
    }

    /// The candidate of a fit by moments with given settings.
    pub(super) fn moments_candidate(&self) -> Option<Candidate> {
        let method = match &self.recipe.solver {
            Solver::Moments(_) => Method::Kds,
            Solver::Structural(_) => Method::Structural,
            _ => return None,
        };
        let penalty = self.recipe.solver.strength().as_ref().and_then(PenaltyStrength::penalty);
        Some(Candidate { method, bandwidth: None, lambda: penalty.map_or(0.0, |penalty| penalty.lambda) })
    }

    fn solve_once(&self, gpu: Option<&GpuEngine>, progress: &Progress) -> Result<ExactFit> {
        let spec = self.spec.loss;
        let (solution, fell_back) = self.minimum(gpu, &self.data, spec, progress)?;
        let reached = if self.is_in_f32(gpu) { LARGEST_IN_F32 } else { LARGEST_VIOLATION };
        check_violation(solution.violation, reached)?;
        progress.add(1)?;
        let estimator = if fell_back { Estimator::V } else { spec.estimator };
        let (model, stability) = self.finish(solution.parameters, &LossSpec { estimator, ..spec })?;
        Ok(ExactFit {
            model,
            stability,
            loss: Some(solution.loss),
            penalty: Some(solution.penalty),
            violation: solution.violation,
            estimator: Some(estimator),
            fell_back,
            tuning: None,
        })
    }

    /// Whether products with the quadratic form of the loss have single precision.
    fn is_in_f32(&self, gpu: Option<&GpuEngine>) -> bool {
        gpu.is_some() && self.spec.loss.objective == Objective::Kds
    }

    /// The minimum of a loss over all pairs with the penalty of the settings, and whether the fit fell back to the `v` form. The
    /// direct solver finds it if it has enough memory; otherwise products with the quadratic form do.
    pub(super) fn minimum(
        &self,
        gpu: Option<&GpuEngine>,
        data: &Dataset,
        loss: LossSpec,
        progress: &Progress,
    ) -> Result<(Solution, bool)> {
        let (targets, design, multipliers) = (&self.targets, &self.design, self.multipliers());
        let (penalty, learn_scale) = (self.spec.penalty, self.recipe.learn_scale);
        let kind = penalty.map_or(PenaltyKind::Ingoing, |penalty| penalty.kind);
        if loss.objective == Objective::Skds && has_room(data.dim(), design, kind) {
            let spec = ExactSpec { kernel: loss.kernel, estimator: loss.estimator, penalty, learn_scale };
            let exact = ExactSolver::prepare(gpu, data, targets, design, multipliers, spec, progress)?;
            return Ok((exact.solve()?, exact.fell_back));
        }
        let spec = QuadraticSpec { loss, learn_scale, multipliers, fits: 1, products: None };
        let mut quadratic = Quadratic::new(gpu, data, targets, design, spec, progress)?;
        let tolerance = if self.is_in_f32(gpu) { BY_PRODUCTS_IN_F32 } else { BY_PRODUCTS };
        Ok((quadratic.fit(penalty, None, tolerance, progress)?, quadratic.fell_back))
    }

    fn solve_tuned(&self, gpu: Option<&GpuEngine>, progress: &Progress) -> Result<ExactFit> {
        let Recipe { kernel, learn_scale, seed, .. } = self.recipe;
        let known = self.knows_targets();
        let LossSpec { kernel: any, estimator, .. } = self.spec.loss;
        let spec = ExactSpec { kernel: any, estimator, penalty: None, learn_scale };
        let (data, targets, design) = (&self.data, &self.targets, &self.design);
        let multipliers = self.multipliers();
        let search = BasisSearch { data, targets, known, design, multipliers, kernel, spec, seed, progress };
        let SelectedBasis { tuning, solution, kernel, fell_back } = search.run(gpu)?;
        let cell = &tuning.settings[tuning.leading];
        let estimator = if fell_back { Estimator::V } else { estimator };
        let spec = LossSpec { kernel, estimator, ..self.spec.loss };
        let (mut model, stability) = self.finish(solution.parameters, &spec)?;
        // These are not settings: as settings they would fix what the fit chose.
        let chosen =
            json!({ "bandwidth": cell.bandwidth, "penalty": cell.penalty.name(), "lambda": cell.lambda });
        model.settings.insert("chosen".into(), chosen);
        Ok(ExactFit {
            model,
            stability,
            loss: Some(solution.loss),
            penalty: Some(solution.penalty),
            violation: solution.violation,
            estimator: Some(estimator),
            fell_back,
            tuning: Some(tuning),
        })
    }

    fn solve_by_moments(&self, progress: &Progress) -> Result<ExactFit> {
        let candidate = self.moments_candidate().expect("the solver sees moments");
        let fit = self.context(None).fits(&self.data, &[candidate], BY_MOMENTS, progress)?.remove(0);
        progress.add(1)?;
        check_violation(fit.violation, LARGEST_VIOLATION)?;
        self.finish_members(vec![(1.0, fit)], None)
    }

    fn solve_chosen(&self, gpu: Option<&GpuEngine>, progress: &Progress) -> Result<ExactFit> {
        let choice = self.model_choice(gpu).expect("the solver chooses");
        let chosen = choice.run(progress)?;
        self.finish_members(chosen.members, Some(chosen.tuning))
    }

    /// The model of one fit, or the average of several, in the data's units.
    fn finish_members(&self, fits: Vec<(f64, CandidateFit)>, tuning: Option<Tuning>) -> Result<ExactFit> {
        let violation = fits.iter().fold(0.0, |worst: f64, (_, fit)| worst.max(fit.violation));
        let own = match &fits[..] {
            [(_, fit)] if fit.candidate.method != Method::Nothing => Some((fit.loss, fit.penalty)),
            _ => None,
        };
        let chosen: Vec<serde_json::Value> = fits
            .iter()
            .map(|(weight, CandidateFit { candidate: Candidate { method, bandwidth, lambda }, .. })| {
                json!({ "method": method.name(), "bandwidth": bandwidth, "lambda": lambda, "weight": weight })
            })
            .collect();
        let mut stability = Stability::unchanged(None, true);
        let mut members = Vec::new();
        for (weight, CandidateFit { candidate, mut parameters, .. }) in fits {
            let law = candidate.method.law();
            if law == LawKind::Diffusion {
                let weights = parameters.drift.linear_weights_mut()?;
                *weights = stability.check_member(weights, self.recipe.stabilize)?;
            }
            members.push(Member { weight, law, parameters: self.in_data_units(&parameters)? });
        }
        let mut model = match &members[..] {
            [only] => Model { law: only.law, ..Model::new(only.parameters.clone()) },
            _ => Model { members: members.clone(), ..Model::new(Member::average(&members)) },
        };
        self.describe(&mut model);
        if tuning.is_some() {
            model.settings.insert("chosen".into(), chosen.into());
        }
        Ok(ExactFit {
            model,
            stability,
            loss: own.map(|(loss, _)| loss),
            penalty: own.map(|(_, penalty)| penalty),
            violation,
            estimator: None,
            fell_back: false,
            tuning,
        })
    }
}

fn check_violation(violation: f64, largest: f64) -> Result<()> {
    match violation <= largest {
        true => Ok(()),
        false => Err(Error::NonFinite(format!(
            "the fit misses its optimality conditions by {violation:.1e}, expected at most {largest:.0e}: try a larger lambda"
        ))),
    }
}
