//! Fits of candidates to all environments of a dataset.

use super::{Candidate, Method};
use crate::data::Dataset;
use crate::engine::gpu::GpuEngine;
use crate::kernel::KernelKind;
use crate::model::{Parameters, PenaltyKind};
use crate::objective::Estimator;
use crate::solve::moments::{Kds, Lasso, MomentFit, Moments, Pool, Structural, Tolerance, no_effects};
use crate::solve::{Design, ExactSolver, ExactSpec, Solution};
use crate::{Matrix, Progress, Result};

/// The tolerance of intermediate fits on a path.
const ON_THE_WAY: Tolerance = Tolerance { violation: 1e-4, steps: 1000 };

/// What all candidates share.
#[derive(Clone, Copy)]
pub(in crate::fit) struct FitContext<'a> {
    pub targets: &'a Matrix<bool>,
    /// Multipliers of the effects' penalties, if there is prior knowledge.
    pub multipliers: Option<&'a Matrix<f64>>,
    /// What is penalised.
    pub penalty: PenaltyKind,
    pub learn_scale: bool,
    /// The kernel of SKDS.
    pub kernel: KernelKind,
    pub pairs: Estimator,
    pub gpu: Option<&'a GpuEngine>,
}

/// A candidate's fit, in the data's units, whether it is stable or not.
#[derive(Clone)]
pub(in crate::fit) struct CandidateFit {
    pub candidate: Candidate,
    pub parameters: Parameters<f64>,
    pub loss: f64,
    pub penalty: f64,
    pub violation: f64,
}

impl FitContext<'_> {
    /// The pass over pairs at a bandwidth.
    pub(crate) fn exact(
        &self,
        data: &Dataset,
        bandwidth: Option<f64>,
        progress: &Progress,
    ) -> Result<ExactSolver> {
        let kernel = self.kernel.with_bandwidth(bandwidth.unwrap_or(1.0))?;
        let spec = ExactSpec { kernel, estimator: self.pairs, penalty: None, learn_scale: self.learn_scale };
        ExactSolver::prepare(self.gpu, data, self.targets, &Design::Linear, self.multipliers, spec, progress)
    }

    /// The part of the moments that each environment belongs to: the same for all, unless each has its own noise.
    fn parts(&self) -> Vec<usize> {
        let all = 0..self.targets.rows();
        if self.learn_scale { all.collect() } else { vec![0; all.len()] }
    }

    /// Fits candidates to all data, in order of falling penalties for each method and bandwidth.
    pub(crate) fn fits(
        &self,
        data: &Dataset,
        candidates: &[Candidate],
        tolerance: Tolerance,
        progress: &Progress,
    ) -> Result<Vec<CandidateFit>> {
        let moments = Moments::of(data, &self.parts(), progress)?;
        let pool = Pool::new(&moments, self.targets, &[], self.learn_scale)?;
        let mut fitter =
            Fitter { context: self, data, pool: &pool, kds: None, structural: None, exact: None, last: None };
        candidates.iter().map(|&candidate| fitter.fit(candidate, tolerance, progress)).collect()
    }
}

/// Fits candidates in turn, each starting from the last. It creates each solver when first needed, because that takes products of
/// d × d matrices.
struct Fitter<'a> {
    context: &'a FitContext<'a>,
    data: &'a Dataset,
    pool: &'a Pool<'a>,
    kds: Option<Kds<'a>>,
    structural: Option<Structural<'a>>,
    /// The pass over pairs at the last bandwidth.
    exact: Option<(Option<f64>, ExactSolver)>,
    /// The method, penalty and W of the last fit, if it was by moments.
    last: Option<(Method, f64, Matrix<f64>)>,
}

impl<'a> Fitter<'a> {
    fn fit(
        &mut self,
        candidate: Candidate,
        tolerance: Tolerance,
        progress: &Progress,
    ) -> Result<CandidateFit> {
        let last = self.last.take();
        match candidate.method {
            Method::Kds | Method::Structural => self.by_moments(candidate, last, tolerance, progress),
            Method::Nothing => {
                let none = no_effects(self.data.dim());
                let parameters = self.kds().parameters(&none);
                Ok(CandidateFit { candidate, parameters, loss: 0.0, penalty: 0.0, violation: 0.0 })
            }
            Method::Skds => self.by_pairs(candidate, progress),
        }
    }

    fn kds(&mut self) -> &mut Kds<'a> {
        let pool = self.pool;
        self.kds.get_or_insert_with(|| Kds::new(pool))
    }

    fn structural(&mut self) -> &mut Structural<'a> {
        let pool = self.pool;
        self.structural.get_or_insert_with(|| Structural::new(pool))
    }

    /// Follows the method's path of penalties down to the candidate's, from the last fit if that is on the path.
    fn by_moments(
        &mut self,
        candidate: Candidate,
        last: Option<(Method, f64, Matrix<f64>)>,
        tolerance: Tolerance,
        progress: &Progress,
    ) -> Result<CandidateFit> {
        let Candidate { method, lambda, .. } = candidate;
        let known = last.filter(|(other, above, _)| *other == method && *above > lambda);
        let (above, mut from) = known.map_or((f64::INFINITY, None), |(_, l, weights)| (l, Some(weights)));
        // Larger penalties first, as when the candidate was scored: likelihoods have several maxima, and it is faster.
        let way = method.path().iter().copied().filter(|l| *l < above && *l > lambda);
        for lambda in way {
            from = Some(self.step(method, lambda, from.as_ref(), ON_THE_WAY, progress)?.weights);
        }
        let MomentFit { weights, loss, penalty, violation } =
            self.step(method, lambda, from.as_ref(), tolerance, progress)?;
        let parameters = match method {
            Method::Structural => self.structural().parameters(&weights),
            _ => self.kds().parameters(&weights),
        };
        self.last = Some((method, lambda, weights));
        Ok(CandidateFit { candidate, parameters, loss, penalty, violation })
    }

    /// The fit by moments at one penalty.
    fn step(
        &mut self,
        method: Method,
        lambda: f64,
        from: Option<&Matrix<f64>>,
        tolerance: Tolerance,
        progress: &Progress,
    ) -> Result<MomentFit> {
        let FitContext { penalty: kind, multipliers, .. } = *self.context;
        let lasso = Lasso { kind, lambda, multipliers };
        match method {
            Method::Structural => self.structural().fit(&lasso, from, tolerance, progress),
            _ => self.kds().fit(&lasso, from, tolerance, progress),
        }
    }

    fn by_pairs(&mut self, candidate: Candidate, progress: &Progress) -> Result<CandidateFit> {
        let Candidate { bandwidth, lambda, .. } = candidate;
        let exact = match self.exact.take() {
            Some((last, exact)) if last == bandwidth => exact,
            _ => self.context.exact(self.data, bandwidth, progress)?,
        };
        let all: Vec<usize> = (0..self.data.environments()).collect();
        let solution = exact.path(&all, self.context.penalty, &[lambda])?.remove(0);
        self.exact = Some((bandwidth, exact));
        let Solution { parameters, loss, penalty, violation } = solution;
        Ok(CandidateFit { candidate, parameters, loss, penalty, violation })
    }
}
