//! A fit by the exact solver, with its settings given or chosen.

use super::select::{self, Search};
use super::tune::{self, Grid, Tuning};
use super::{Form, Knowledge, Problem, Recipe, Solver, Stability, TargetChoice};
use crate::engine::cpu::CpuEngine;
use crate::engine::gpu::GpuEngine;
use crate::engine::{Engine, LossSpec};
use crate::model::{Model, Penalty};
use crate::objective::Estimator;
use crate::solve::{Exact, Spec};
use crate::{Error, Progress, Result};
use serde_json::json;

/// A minimum by more than this is none.
const LARGEST_VIOLATION: f64 = 1e-6;

/// What the exact solver found.
#[derive(Clone, Debug)]
pub struct ExactFit {
    /// The model, made stable.
    pub model: Model,
    /// How stable it was.
    pub stability: Stability,
    /// The loss on all pairs, without the penalty, before it was made stable.
    pub loss: f64,
    /// The penalty there.
    pub penalty: f64,
    /// By how much optimality conditions are missed, relative to the largest slope at 0.
    pub violation: f64,
    /// What the loss averages over: `v` also where the `u` form was not convex.
    pub estimator: Estimator,
    /// Whether that was so.
    pub fell_back: bool,
    /// How the settings were chosen.
    pub tuning: Option<Tuning>,
}

impl Problem {
    /// Fits that [`solve`](Self::solve) will make: what its progress counts up to.
    pub fn solves(&self) -> u64 {
        let kernel = self.recipe.kernel;
        match &self.recipe.solver {
            Solver::Tuned { .. } if self.is_basis() => {
                select::fits_of(kernel, &self.targets, self.knows_targets())
            }
            Solver::Tuned { .. } => tune::fits_of(kernel, &self.targets, self.knows_targets()),
            Solver::Exact { .. } | Solver::Adam { .. } => 1,
        }
    }

    fn is_basis(&self) -> bool {
        matches!(self.recipe.form, Form::Basis { .. })
    }

    fn knows_targets(&self) -> bool {
        self.recipe.targets == TargetChoice::Known
    }

    /// The exact minimum, or the average of minima that tuning finds; with the pass over pairs on `gpu`, if there is one.
    /// `progress` counts fits.
    pub fn solve(&self, gpu: Option<&GpuEngine>, progress: &Progress) -> Result<ExactFit> {
        match &self.recipe.solver {
            Solver::Tuned { .. } => self.solve_tuned(gpu, progress),
            Solver::Exact { .. } => self.solve_once(gpu, progress),
            Solver::Adam { .. } => {
                Err(Error::invalid("the solver is adam, expected the exact one to solve with"))
            }
        }
    }

    fn solve_once(&self, gpu: Option<&GpuEngine>, progress: &Progress) -> Result<ExactFit> {
        let LossSpec { kernel, estimator, .. } = self.spec.loss;
        let spec =
            Spec { kernel, estimator, penalty: self.spec.penalty, learn_scale: self.recipe.learn_scale };
        let known = self.multipliers();
        let exact = Exact::on(gpu, &self.data, &self.targets, &self.design, known, spec, progress)?;
        let solution = exact.solve()?;
        if solution.violation > LARGEST_VIOLATION {
            return Err(Error::NonFinite(format!(
                "the fit misses its optimality conditions by {:.1e}, expected at most {LARGEST_VIOLATION:.0e}: try a larger lambda",
                solution.violation
            )));
        }
        let estimator = if exact.fell_back { Estimator::V } else { estimator };
        let loss = LossSpec { estimator, ..self.spec.loss };
        let (model, stability) = self.finish(solution.parameters, self.recipe.to_settings(), &loss)?;
        Ok(ExactFit {
            model,
            stability,
            loss: solution.loss,
            penalty: solution.penalty,
            violation: solution.violation,
            estimator,
            fell_back: exact.fell_back,
            tuning: None,
        })
    }

    fn solve_tuned(&self, gpu: Option<&GpuEngine>, progress: &Progress) -> Result<ExactFit> {
        let Recipe { kernel, learn_scale, seed, .. } = self.recipe;
        let known = self.knows_targets();
        let tuning = match self.is_basis() {
            true => {
                let LossSpec { kernel: any, estimator, .. } = self.spec.loss;
                let spec = Spec { kernel: any, estimator, penalty: None, learn_scale };
                let (data, targets, design) = (&self.data, &self.targets, &self.design);
                let multipliers = self.multipliers();
                Search { data, targets, known, design, multipliers, kernel, spec, seed, progress }.run(gpu)?
            }
            false => {
                let mut grid = Grid::new(&self.data, kernel, self.spec.loss.estimator, learn_scale, seed)?;
                grid.multipliers = self.multipliers();
                tune::tune(&self.data, &self.targets, known, &grid, gpu, seed, progress)?
            }
        };
        let cell = &tuning.cells[tuning.leading];
        let estimator = if tuning.fell_back { Estimator::V } else { self.spec.loss.estimator };
        let spec = LossSpec { kernel: tuning.kernel, estimator, ..self.spec.loss };
        let penalty = Penalty { kind: cell.penalty, lambda: cell.lambda };
        let (loss, penalty) = match &tuning.own_loss {
            Some(own) => *own,
            None => (
                CpuEngine.load(&self.data, &spec)?.evaluate(&tuning.parameters, None)?,
                penalty.weighted_value(
                    &tuning.parameters,
                    self.knowledge.as_ref().map(Knowledge::charges).as_ref(),
                ),
            ),
        };
        let (mut model, stability) =
            self.finish(tuning.parameters.clone(), self.recipe.to_settings(), &spec)?;
        // Not settings: given as such they would fix what was chosen.
        let chosen =
            json!({ "bandwidth": cell.bandwidth, "penalty": cell.penalty.name(), "lambda": cell.lambda });
        model.settings.insert("chosen".into(), chosen);
        Ok(ExactFit {
            model,
            stability,
            loss,
            penalty,
            violation: tuning.violation,
            estimator,
            fell_back: tuning.fell_back,
            tuning: Some(tuning),
        })
    }
}
