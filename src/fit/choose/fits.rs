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
        let mut kds = Kds::new(&pool, None);
        let mut structural = Structural::new(&pool);
        let mut exact: Option<(Option<f64>, Exact)> = None;
        let (mut fits, mut before): (Vec<Fit>, Option<(Method, Matrix<f64>)>) = (Vec::new(), None);
        for &candidate in candidates {
            let Candidate { method, lambda, .. } = candidate;
            let lasso = Lasso { kind: self.penalty, lambda, multipliers: self.multipliers };
            let from = before.take().filter(|(other, _)| *other == method).map(|(_, weights)| weights);
            let mut of_moments = |Fitted { weights, loss, penalty, violation }: Fitted,
                                  parameters: Parameters<f64>| {
                before = Some((method, weights));
                Fit { candidate, parameters, loss, penalty, violation }
            };
            let fit = match method {
                Method::Kds => {
                    let fitted = kds.fit(&lasso, from.as_ref(), tolerance, progress)?;
                    let parameters = kds.parameters(&fitted.weights);
                    of_moments(fitted, parameters)
                }
                Method::Structural => {
                    let fitted = structural.fit(&lasso, from.as_ref(), tolerance, progress)?;
                    let parameters = structural.parameters(&fitted.weights);
                    of_moments(fitted, parameters)
                }
                Method::Nothing => {
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
