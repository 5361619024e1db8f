//! A fit by the exact solver, with its settings given or chosen.

use super::select::{self, Search};
use super::tune::{self, Grid, Tuning};
use super::{ModelKind, Problem, Settings, SolverChoice, Stability, TargetChoice};
use crate::engine::cpu::CpuEngine;
use crate::engine::gpu::GpuEngine;
use crate::engine::{Engine, LossSpec};
use crate::kernel::Bandwidth;
use crate::model::{Model, Penalty};
use crate::objective::Estimator;
use crate::solve::{Exact, Spec};
use crate::{Error, Progress, Result};

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
    pub fn solves(&self) -> Result<u64> {
        Ok(match self.settings.is_tuned()? {
            true if self.is_basis() => {
                select::fits_of(self.settings.kernel, &self.targets, self.knows_targets())
            }
            true => tune::fits_of(self.settings.kernel, &self.targets, self.knows_targets()),
            false => 1,
        })
    }

    fn is_basis(&self) -> bool {
        self.settings.model == ModelKind::Basis
    }

    fn knows_targets(&self) -> bool {
        self.settings.targets == TargetChoice::Known
    }

    /// The exact minimum, or the average of minima that tuning finds; with the pass over pairs on `gpu`, if there is one.
    /// `progress` counts fits.
    pub fn solve(&self, gpu: Option<&GpuEngine>, progress: &Progress) -> Result<ExactFit> {
        match self.settings.is_tuned()? {
            true => self.solve_tuned(gpu, progress),
            false => self.solve_once(gpu, progress),
        }
    }

    fn solve_once(&self, gpu: Option<&GpuEngine>, progress: &Progress) -> Result<ExactFit> {
        let LossSpec { kernel, estimator, .. } = self.spec.loss;
        let spec =
            Spec { kernel, estimator, penalty: self.spec.penalty, learn_scale: self.settings.learn_scale };
        let exact = Exact::on(gpu, &self.data, &self.targets, &self.design, spec, progress)?;
        let solution = exact.solve()?;
        if solution.violation > LARGEST_VIOLATION {
            return Err(Error::NonFinite(format!(
                "the fit misses its optimality conditions by {:.1e}, expected at most {LARGEST_VIOLATION:.0e}: try a larger --lambda",
                solution.violation
            )));
        }
        let estimator = if exact.fell_back { Estimator::V } else { estimator };
        let settings = Settings { solver: SolverChoice::Exact, tune: Some(false), ..self.settings.clone() };
        let (model, stability) =
            self.finish(solution.parameters, &settings, &LossSpec { estimator, ..self.spec.loss })?;
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
        let Settings { kernel, learn_scale, seed, .. } = self.settings;
        let known = self.knows_targets();
        let tuning = match self.is_basis() {
            true => {
                let LossSpec { kernel: any, estimator, .. } = self.spec.loss;
                let spec = Spec { kernel: any, estimator, penalty: None, learn_scale };
                let (data, targets, design) = (&self.data, &self.targets, &self.design);
                Search { data, targets, known, design, kernel, spec, seed, progress }.run(gpu)?
            }
            false => {
                let grid = Grid::new(&self.data, kernel, self.spec.loss.estimator, learn_scale, seed)?;
                tune::tune(&self.data, &self.targets, known, &grid, gpu, seed, progress)?
            }
        };
        let cell = &tuning.cells[tuning.leading];
        let settings = Settings {
            solver: SolverChoice::Exact,
            tune: Some(true),
            bandwidth: cell.bandwidth.map_or(Bandwidth::Auto, Bandwidth::Value),
            penalty: cell.penalty.name().parse()?,
            lambda: cell.lambda,
            ..self.settings.clone()
        };
        let estimator = if tuning.fell_back { Estimator::V } else { self.spec.loss.estimator };
        let spec = LossSpec { kernel: tuning.kernel, estimator, ..self.spec.loss };
        let penalty = Penalty { kind: cell.penalty, lambda: cell.lambda };
        let (loss, penalty) = match &tuning.own_loss {
            Some(own) => *own,
            None => (
                CpuEngine.load(&self.data, &spec)?.evaluate(&tuning.parameters, None)?,
                penalty.value(&tuning.parameters),
            ),
        };
        let (model, stability) = self.finish(tuning.parameters.clone(), &settings, &spec)?;
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
