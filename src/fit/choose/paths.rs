//! Down a path of penalties.

use super::{Common, Method};
use crate::solve::moments::{Kds, Lasso, Pool, Structural, Tolerance, no_effects};
use crate::{Matrix, Progress, Result};

/// Good enough to be compared: slopes may miss their penalty by this share of it, or by a share of the largest slope. What that
/// changes of W is a fraction of what the penalty takes away from it.
const OF_PENALTY: f64 = 0.05;
const OF_STEEPEST: f64 = 1e-5;
const MOST_STEPS: u32 = 1000;

/// One method on its way down its path of penalties.
///
/// It goes on from where it is, and from nowhere else: where the loss is flat a fit stays near where it began, and one that began
/// at a fit to all environments would know what it has not seen.
pub(super) struct Path<'a> {
    solver: Solver<'a>,
    /// Where it is.
    pub weights: Matrix<f64>,
}

enum Solver<'a> {
    Kds(Kds<'a>),
    Structural(Structural<'a>),
    /// No effects, or a fit that is not made here.
    Nothing,
}

impl<'a> Path<'a> {
    pub fn new(method: Method, pool: &'a Pool<'a>) -> Path<'a> {
        let solver = match method {
            Method::Kds => Solver::Kds(Kds::new(pool)),
            Method::Structural => Solver::Structural(Structural::new(pool)),
            Method::Nothing | Method::Skds => Solver::Nothing,
        };
        Path { solver, weights: no_effects(pool.dim()) }
    }

    /// On to the next penalty.
    pub fn step(&mut self, common: &Common<'_>, lambda: f64, progress: &Progress) -> Result<()> {
        let lasso = Lasso { kind: common.penalty, lambda, multipliers: common.multipliers };
        let tolerance = |steepest: f64| Tolerance {
            violation: OF_STEEPEST.max(OF_PENALTY * lambda / steepest.max(f64::MIN_POSITIVE)),
            steps: MOST_STEPS,
        };
        let from = Some(&self.weights);
        match &mut self.solver {
            Solver::Kds(kds) => {
                let tolerance = tolerance(kds.steepest());
                self.weights = kds.fit(&lasso, from, tolerance, progress)?.weights;
            }
            Solver::Structural(structural) => {
                let tolerance = tolerance(structural.steepest());
                self.weights = structural.fit(&lasso, from, tolerance, progress)?.weights;
            }
            Solver::Nothing => {}
        }
        Ok(())
    }
}
