//! The candidates, and their fits to all environments or to some.

use crate::model::PenaltyKind;
use crate::named::named;
use crate::solve::moments::{Kds, Lasso, Moments, Pool, Structural, Tolerance, no_effects};
use crate::{Matrix, Progress, Result};

/// Penalties of fits by moments, descending.
const KDS: [f64; 6] = [1.0, 0.3, 0.1, 0.03, 0.01, 0.003];
/// Penalties of structural equations, descending.
const STRUCTURAL: [f64; 3] = [0.1, 0.03, 0.003];
/// Good enough to be compared: slopes may miss their penalty by this share of it, or by a share of the largest slope. What that
/// changes of W is a fraction of what the penalty takes away from it.
const OF_PENALTY: f64 = 0.05;
const OF_STEEPEST: f64 = 1e-5;
const MOST_STEPS: u32 = 1000;

/// How a candidate is fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// KDS by moments.
    Kds,
    /// Structural equations.
    Structural,
    /// No effects.
    Nothing,
}

named!(Method, "method", { Kds => "kds", Structural => "structural", Nothing => "none" });

impl Method {
    /// The penalties of its path, descending.
    pub(super) fn path(self) -> &'static [f64] {
        match self {
            Method::Kds => &KDS,
            Method::Structural => &STRUCTURAL,
            Method::Nothing => &[0.0],
        }
    }
}

/// A way to fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::fit) struct Candidate {
    pub method: Method,
    /// The penalty; 0 where there is none.
    pub lambda: f64,
}

impl Candidate {
    /// All of them: path after path, each from strong penalties to weak ones.
    pub fn all() -> Vec<Candidate> {
        [Method::Kds, Method::Structural, Method::Nothing]
            .into_iter()
            .flat_map(|method| method.path().iter().map(move |&lambda| Candidate { method, lambda }))
            .collect()
    }
}

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
    Nothing,
}

impl<'a> Path<'a> {
    pub fn new(method: Method, pool: &'a Pool<'a>) -> Path<'a> {
        let solver = match method {
            Method::Kds => Solver::Kds(Kds::new(pool, None)),
            Method::Structural => Solver::Structural(Structural::new(pool)),
            Method::Nothing => Solver::Nothing,
        };
        Path { solver, weights: no_effects(pool.dim()) }
    }

    /// On to the next penalty.
    pub fn step(
        &mut self,
        lambda: f64,
        multipliers: Option<&Matrix<f64>>,
        progress: &Progress,
    ) -> Result<()> {
        let lasso = Lasso { kind: PenaltyKind::Ingoing, lambda, multipliers };
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

/// Fits to all environments.
pub(in crate::fit) struct Paths {
    /// W of each candidate that was wanted.
    pub weights: Vec<Option<Matrix<f64>>>,
}

impl Paths {
    /// Fits candidates to all environments, those that have a weight; `progress` counts all.
    pub fn fit(
        moments: &Moments,
        targets: &Matrix<bool>,
        shares: &[f64],
        multipliers: Option<&Matrix<f64>>,
        progress: &Progress,
    ) -> Result<Paths> {
        let pool = Pool::new(moments, targets, &[], false)?;
        let all = Candidate::all();
        let down = |method: Method| -> Result<Vec<Option<Matrix<f64>>>> {
            let wanted: Vec<bool> = all
                .iter()
                .zip(shares)
                .filter(|(candidate, _)| candidate.method == method)
                .map(|(_, share)| *share > 0.0)
                .collect();
            let steps = wanted.iter().rposition(|wanted| *wanted).map_or(0, |last| last + 1);
            let mut found = Vec::with_capacity(wanted.len());
            if steps > 0 {
                let mut path = Path::new(method, &pool);
                for (&lambda, wanted) in method.path().iter().zip(&wanted).take(steps) {
                    path.step(lambda, multipliers, progress)?;
                    found.push(wanted.then(|| path.weights.clone()));
                    progress.add(1)?;
                }
            }
            progress.add((wanted.len() - steps) as u64)?;
            found.resize(wanted.len(), None);
            Ok(found)
        };
        let (kds, structural) = rayon::join(|| down(Method::Kds), || down(Method::Structural));
        let weights = [kds?, structural?, down(Method::Nothing)?].concat();
        Ok(Paths { weights })
    }
}
