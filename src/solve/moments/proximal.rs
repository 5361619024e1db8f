//! Minimises a smooth function of W with a lasso: accelerated proximal gradient steps with restarts, on the support.
//!
//! Most effects of a penalised fit are 0. Steps are taken on the support alone; then the slopes of all entries say whether
//! others should join it. The conditions of a minimum are checked on all of them.

use super::stack::SparsityPattern;
use super::{MomentFit, largest_effect};
use crate::model::PenaltyKind;
use crate::{Matrix, Progress, Result};

/// Steps between checks of the optimality conditions.
const CHECK: u32 = 10;
/// The tolerance on the support, relative to the tolerance on all entries.
const TIGHTER: f64 = 0.5;
/// Rounds of entries that join the support.
const ROUNDS: usize = 60;
/// Products by which the largest curvature is found, and the margin that it gets.
const POWERS: usize = 20;
const CURVATURE_MARGIN: f64 = 1.05;

/// The penalty on effects between different variables, times d², for a loss that is not divided by d².
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lasso<'a> {
    /// The groups.
    pub kind: PenaltyKind,
    /// λ.
    pub lambda: f64,
    /// Multipliers of λ for single effects, row j and column i for the effect of i on j: 0 for effects without a penalty, ∞ for
    /// forbidden effects.
    pub multipliers: Option<&'a Matrix<f64>>,
}

/// The tolerance of a fit.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// The largest violation of the optimality conditions, relative to the largest slope without effects.
    pub violation: f64,
    /// The most steps.
    pub steps: u32,
}

impl Lasso<'_> {
    fn multiplier(&self, j: usize, i: usize) -> f64 {
        self.multipliers.map_or(1.0, |multipliers| multipliers[(j, i)])
    }

    pub(super) fn allows(&self, j: usize, i: usize) -> bool {
        self.multiplier(j, i).is_finite()
    }

    /// The weight of a single effect.
    pub(super) fn single(&self, j: usize, i: usize) -> f64 {
        match self.kind {
            PenaltyKind::Outgoing => 0.0,
            PenaltyKind::Ingoing | PenaltyKind::Both => self.lambda * self.multiplier(j, i),
        }
    }

    /// The weight of all effects of a variable together.
    fn group(&self) -> f64 {
        if self.kind == PenaltyKind::Ingoing { 0.0 } else { self.lambda }
    }

    /// Norms of each variable's effects, without those that cost nothing.
    fn norms(&self, support: &SparsityPattern, values: &[f64], norms: &mut Vec<f64>) {
        norms.clear();
        norms.resize(support.starts.len() - 1, 0.0);
        for ((j, i), value) in support.entries().zip(values) {
            if self.multiplier(j, i) > 0.0 {
                norms[i] += value * value;
            }
        }
        norms.iter_mut().for_each(|norm| *norm = norm.sqrt());
    }

    pub(super) fn value(&self, support: &SparsityPattern, values: &[f64]) -> f64 {
        let single: f64 =
            support.entries().zip(values).map(|((j, i), value)| self.single(j, i) * value.abs()).sum();
        if self.group() == 0.0 {
            return single;
        }
        let mut norms = Vec::new();
        self.norms(support, values, &mut norms);
        single + self.group() * norms.iter().sum::<f64>()
    }

    /// The proximal map of the penalty: first for single effects, then for groups.
    fn pay(&self, support: &SparsityPattern, step: f64, values: &mut [f64]) {
        for ((j, i), value) in support.entries().zip(values.iter_mut()) {
            let cost = step * self.single(j, i);
            *value = value.signum() * (value.abs() - cost).max(0.0);
        }
        if self.group() == 0.0 {
            return;
        }
        let mut norms = Vec::new();
        self.norms(support, values, &mut norms);
        let cost = step * self.group();
        let factor = |norm: f64| if norm > cost { 1.0 - cost / norm } else { 0.0 };
        for ((j, i), value) in support.entries().zip(values) {
            if self.multiplier(j, i) > 0.0 {
                *value *= factor(norms[i]);
            }
        }
    }

    /// The result of a proximal step of this length.
    pub(super) fn step(
        &self,
        support: &SparsityPattern,
        values: &[f64],
        slopes: &[f64],
        length: f64,
    ) -> Vec<f64> {
        let mut moved: Vec<f64> =
            values.iter().zip(slopes).map(|(value, slope)| value - length * slope).collect();
        self.pay(support, length, &mut moved);
        moved
    }

    /// The amount by which a point misses the optimality conditions, in units of slopes.
    pub(super) fn violation(
        &self,
        support: &SparsityPattern,
        values: &[f64],
        slopes: &[f64],
        curvature: f64,
    ) -> f64 {
        let moved = self.step(support, values, slopes, 1.0 / curvature);
        let far = moved.iter().zip(values).map(|(moved, value)| (moved - value).abs()).fold(0.0, f64::max);
        far * curvature
    }
}

/// A convex function of W, differentiable.
pub(super) trait Smooth {
    fn dim(&self) -> usize;

    /// The value where W is −I but for a support's entries; the slopes at these.
    fn slopes(&mut self, support: &SparsityPattern, values: &[f64], out: &mut [f64]) -> f64;

    /// The slopes at all entries.
    fn all_slopes(&mut self, support: &SparsityPattern, values: &[f64]) -> Matrix<f64>;
}

/// A function with what its minima for several penalties share.
pub(super) struct ProximalGradient<S> {
    pub smooth: S,
    /// The largest curvature, once it is known.
    curvature: Option<f64>,
    /// The largest slope without effects.
    steepest: f64,
}

impl<S: Smooth> ProximalGradient<S> {
    pub(super) fn new(mut smooth: S) -> Self {
        let none = SparsityPattern::new(smooth.dim(), |_, _| false);
        let steepest = largest_effect(&smooth.all_slopes(&none, &[]));
        ProximalGradient { smooth, curvature: None, steepest }
    }

    /// The largest slope without effects.
    pub(super) fn steepest(&self) -> f64 {
        self.steepest
    }

    /// The largest curvature: by how much slopes change with W.
    fn curvature(&mut self) -> f64 {
        if let Some(curvature) = self.curvature {
            return curvature;
        }
        let d = self.smooth.dim();
        let all = SparsityPattern::new(d, |_, _| true);
        let still = all.of(&self.smooth.all_slopes(&all, &vec![0.0; all.len()]));
        // A start for the power iteration that is no eigenvector.
        let mut v: Vec<f64> = (0..all.len()).map(|k| ((k * 2_654_435_761) % 1000) as f64 - 499.5).collect();
        let norm = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
        let mut largest = 0.0f64;
        for _ in 0..POWERS {
            let length = norm(&v);
            if length == 0.0 || !length.is_finite() {
                break;
            }
            v.iter_mut().for_each(|x| *x /= length);
            let slopes = self.smooth.all_slopes(&all, &v);
            v = all.of(&slopes).iter().zip(&still).map(|(slope, still)| slope - still).collect();
            largest = norm(&v);
        }
        let curvature = (CURVATURE_MARGIN * largest).max(f64::MIN_POSITIVE);
        self.curvature = Some(curvature);
        curvature
    }

    /// The minimum with a penalty, from `start` on.
    pub(super) fn minimise(
        &mut self,
        lasso: &Lasso<'_>,
        start: &Matrix<f64>,
        tolerance: Tolerance,
        progress: &Progress,
    ) -> Result<MomentFit> {
        let d = self.smooth.dim();
        let allowed = SparsityPattern::new(d, |j, i| lasso.allows(j, i));
        let grouped = lasso.kind != PenaltyKind::Ingoing;
        let mut support = match grouped {
            // A variable's effects form a group.
            true => allowed.clone(),
            false => SparsityPattern::new(d, |j, i| lasso.allows(j, i) && start[(j, i)] != 0.0),
        };
        let mut weights = start.clone();
        let scale = self.steepest.max(f64::MIN_POSITIVE);
        let mut left = tolerance.steps;
        for round in 0.. {
            let mut values = support.of(&weights);
            let slopes = self.smooth.all_slopes(&support, &values);
            let joins = |j: usize, i: usize| {
                lasso.allows(j, i) && (weights[(j, i)] != 0.0 || slopes[(j, i)].abs() > lasso.single(j, i))
            };
            // The slopes at all entries measure the distance from the minimum.
            let all_slopes = allowed.of(&slopes);
            let all_values = allowed.of(&weights);
            let curvature = self.curvature();
            let missed = lasso.violation(&allowed, &all_values, &all_slopes, curvature) / scale;
            if missed <= tolerance.violation || left == 0 || round == ROUNDS {
                let mut out = vec![0.0; support.len()];
                let loss = self.smooth.slopes(&support, &values, &mut out);
                let of_mean = 1.0 / (d * d) as f64;
                return Ok(MomentFit {
                    penalty: of_mean * lasso.value(&support, &values),
                    loss: of_mean * loss,
                    weights,
                    violation: missed,
                });
            }
            if !grouped {
                support = SparsityPattern::new(d, joins);
                values = support.of(&weights);
            }
            self.descend(lasso, &support, &mut values, TIGHTER * tolerance.violation, &mut left, progress)?;
            weights = support.weights(&values);
        }
        unreachable!("rounds end")
    }

    /// Steps on a support until its conditions hold.
    fn descend(
        &mut self,
        lasso: &Lasso<'_>,
        support: &SparsityPattern,
        values: &mut Vec<f64>,
        tolerance: f64,
        left: &mut u32,
        progress: &Progress,
    ) -> Result<()> {
        let scale = self.steepest.max(f64::MIN_POSITIVE);
        let mut curvature = self.curvature();
        let mut slopes = vec![0.0; values.len()];
        let (mut ahead, mut momentum) = (values.clone(), 1.0f64);
        let (mut best, mut best_values, mut failures) = (f64::INFINITY, values.clone(), 0);
        for step in 0.. {
            if step % CHECK == 0 {
                progress.check()?;
                let value = self.smooth.slopes(support, values, &mut slopes) + lasso.value(support, values);
                let missed = lasso.violation(support, values, &slopes, curvature) / scale;
                if value.is_nan() || value > best + 1e-12 * best.abs() {
                    // Momentum led upwards: restart without it. If that does not help, the steps are too long for the curvature.
                    failures += 1;
                    if failures > 1 {
                        curvature *= 2.0;
                        self.curvature = Some(curvature);
                    }
                    values.clone_from(&best_values);
                    ahead.clone_from(values);
                    momentum = 1.0;
                } else {
                    (best, failures) = (value, 0);
                    best_values.clone_from(values);
                }
                if missed <= tolerance || *left == 0 {
                    return Ok(());
                }
            }
            *left = left.saturating_sub(1);
            self.smooth.slopes(support, &ahead, &mut slopes);
            let mut next: Vec<f64> =
                ahead.iter().zip(&slopes).map(|(value, slope)| value - slope / curvature).collect();
            lasso.pay(support, 1.0 / curvature, &mut next);
            let turned: f64 = next
                .iter()
                .zip(&*values)
                .zip(&ahead)
                .map(|((next, value), ahead)| (next - value) * (ahead - next))
                .sum();
            let after =
                if turned > 0.0 { 1.0 } else { 0.5 * (1.0 + (1.0 + 4.0 * momentum * momentum).sqrt()) };
            let share = (momentum - 1.0) / after;
            for ((ahead, next), value) in ahead.iter_mut().zip(&next).zip(&*values) {
                *ahead = next + share * (next - value);
            }
            (*values, momentum) = (next, after);
        }
        Ok(())
    }
}
