//! Fits along a path of falling penalties.

use super::{FitContext, Method};
use crate::solve::moments::{Kds, Lasso, Pool, Structural, Tolerance, no_effects};
use crate::{Matrix, Progress, Result};

/// The tolerance of fits that are only compared: slopes may miss the penalty by this share of it, or by a share of the largest
/// slope. That changes W by a fraction of what the penalty does.
const OF_PENALTY: f64 = 0.05;
const OF_STEEPEST: f64 = 1e-5;
const MOST_STEPS: u32 = 1000;

/// One method on its path of penalties.
///
/// Each fit starts from the last one on the path, never from a fit to all environments: where the loss is flat, a fit stays near
/// its start, so such a start would leak information about the left-out environments.
pub(super) struct PenaltyPath<'a> {
    solver: PathSolver<'a>,
    /// W at the current penalty.
    pub weights: Matrix<f64>,
}

enum PathSolver<'a> {
    Kds(Kds<'a>),
    Structural(Structural<'a>),
    /// No effects, or a method that is fitted elsewhere.
    Nothing,
}

impl<'a> PenaltyPath<'a> {
    pub(super) fn new(method: Method, pool: &'a Pool<'a>) -> PenaltyPath<'a> {
        let solver = match method {
            Method::Kds => PathSolver::Kds(Kds::new(pool)),
            Method::Structural => PathSolver::Structural(Structural::new(pool)),
            Method::Nothing | Method::Skds => PathSolver::Nothing,
        };
        PenaltyPath { solver, weights: no_effects(pool.dim()) }
    }

    /// Fits at the next penalty.
    pub(super) fn step(&mut self, context: &FitContext<'_>, lambda: f64, progress: &Progress) -> Result<()> {
        let lasso = Lasso { kind: context.penalty, lambda, multipliers: context.multipliers };
        let tolerance = |steepest: f64| Tolerance {
            violation: OF_STEEPEST.max(OF_PENALTY * lambda / steepest.max(f64::MIN_POSITIVE)),
            steps: MOST_STEPS,
        };
        let from = Some(&self.weights);
        match &mut self.solver {
            PathSolver::Kds(kds) => {
                let tolerance = tolerance(kds.steepest());
                self.weights = kds.fit(&lasso, from, tolerance, progress)?.weights;
            }
            PathSolver::Structural(structural) => {
                let tolerance = tolerance(structural.steepest());
                self.weights = structural.fit(&lasso, from, tolerance, progress)?.weights;
            }
            PathSolver::Nothing => {}
        }
        Ok(())
    }
}
