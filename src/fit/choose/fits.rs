//! Fits of candidates to all environments of a dataset.

use super::{Candidate, Method};
use crate::data::Dataset;
use crate::engine::gpu::GpuEngine;
use crate::kernel::KernelKind;
use crate::model::{Parameters, PenaltyKind};
use crate::objective::Estimator;
use crate::solve::moments::{Fitted, Kds, Lasso, Moments, Pool, Structural, Tolerance, no_effects};
use crate::solve::{Design, Exact, Spec};
use crate::{Matrix, Progress, Result};

/// Fits on the way to another need not be exact.
const ON_THE_WAY: Tolerance = Tolerance { violation: 1e-4, steps: 1000 };

/// What all candidates have in common.
#[derive(Clone, Copy)]
pub(in crate::fit) struct Common<'a> {
    pub targets: &'a Matrix<bool>,
    /// What penalties of effects are multiplied with, if anything is known of them.
    pub multipliers: Option<&'a Matrix<f64>>,
    /// What is penalised.
    pub penalty: PenaltyKind,
    pub learn_scale: bool,
    /// Of SKDS.
    pub kernel: KernelKind,
    pub pairs: Estimator,
    pub gpu: Option<&'a GpuEngine>,
}

/// A candidate's fit, in the data's units, whether it is stable or not.
#[derive(Clone)]
pub(in crate::fit) struct Fit {
    pub candidate: Candidate,
    pub parameters: Parameters<f64>,
    pub loss: f64,
    pub penalty: f64,
    pub violation: f64,
}

impl Common<'_> {
    /// The pass over pairs at a bandwidth.
    pub fn exact(&self, data: &Dataset, bandwidth: Option<f64>, progress: &Progress) -> Result<Exact> {
        let kernel = self.kernel.with_bandwidth(bandwidth.unwrap_or(1.0))?;
        let spec = Spec { kernel, estimator: self.pairs, penalty: None, learn_scale: self.learn_scale };
        Exact::on(self.gpu, data, self.targets, &Design::Linear, self.multipliers, spec, progress)
    }

    /// Which part of the moments each environment is: one for all, unless each has noises of its own.
    fn parts(&self) -> Vec<usize> {
        let all = 0..self.targets.rows();
        if self.learn_scale { all.collect() } else { vec![0; all.len()] }
    }

    /// Fits candidates to all of the data, each method's and bandwidth's by falling penalties.
    pub fn fits(
        &self,
        data: &Dataset,
        candidates: &[Candidate],
        tolerance: Tolerance,
        progress: &Progress,
    ) -> Result<Vec<Fit>> {
        let all: Vec<usize> = (0..data.environments()).collect();
        let moments = Moments::of(data, &self.parts(), progress)?;
        let pool = Pool::new(&moments, self.targets, &[], self.learn_scale)?;
        // Each is made when it is first asked for: that takes products of d × d matrices.
        let (mut kds, mut structural) = (None, None);
        let mut exact: Option<(Option<f64>, Exact)> = None;
        let mut before: Option<(Method, f64, Matrix<f64>)> = None;
        let mut fits = Vec::new();
        for &candidate in candidates {
            let Candidate { method, lambda, .. } = candidate;
            let known = before.take().filter(|(other, above, _)| *other == method && *above > lambda);
            let (above, mut from) = known.map_or((f64::INFINITY, None), |(_, l, weights)| (l, Some(weights)));
            // By way of stronger penalties, as when it was judged: likelihoods have several maxima, and it is faster.
            let way = method.path().iter().copied().filter(|l| *l < above && *l > lambda);
            let lasso = |lambda: f64| Lasso { kind: self.penalty, lambda, multipliers: self.multipliers };
            let mut fitted = None;
            for (lambda, tolerance) in way.map(|l| (l, ON_THE_WAY)).chain([(lambda, tolerance)]) {
                let found = match method {
                    Method::Kds => kds.get_or_insert_with(|| Kds::new(&pool)).fit(
                        &lasso(lambda),
                        from.as_ref(),
                        tolerance,
                        progress,
                    )?,
                    Method::Structural => structural.get_or_insert_with(|| Structural::new(&pool)).fit(
                        &lasso(lambda),
                        from.as_ref(),
                        tolerance,
                        progress,
                    )?,
                    Method::Nothing | Method::Skds => break,
                };
                from = Some(found.weights.clone());
                fitted = Some(found);
            }
            let fit = match method {
                Method::Kds | Method::Structural => {
                    let Fitted { weights, loss, penalty, violation } =
                        fitted.expect("every path has a last penalty");
                    let parameters = match method {
                        Method::Kds => kds.get_or_insert_with(|| Kds::new(&pool)).parameters(&weights),
                        _ => structural.get_or_insert_with(|| Structural::new(&pool)).parameters(&weights),
                    };
                    before = Some((method, lambda, weights));
                    Fit { candidate, parameters, loss, penalty, violation }
                }
                Method::Nothing => {
                    let kds = kds.get_or_insert_with(|| Kds::new(&pool));
                    let parameters = kds.parameters(&no_effects(data.dim()));
                    Fit { candidate, parameters, loss: 0.0, penalty: 0.0, violation: 0.0 }
                }
                Method::Skds => {
                    let h = candidate.bandwidth;
                    if exact.as_ref().is_none_or(|(other, _)| *other != h) {
                        exact = Some((h, self.exact(data, h, progress)?));
                    }
                    let (_, exact) = exact.as_ref().expect("it was just made");
                    let solution = exact.path(&all, self.penalty, &[lambda])?.remove(0);
                    Fit {
                        candidate,
                        parameters: solution.parameters,
                        loss: solution.loss,
                        penalty: solution.penalty,
                        violation: solution.violation,
                    }
                }
            };
            fits.push(fit);
        }
        Ok(fits)
    }
}
