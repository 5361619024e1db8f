//! The candidates, and their fits to all environments or to some.

use crate::model::PenaltyKind;
use crate::named::named;
use crate::solve::moments::{Kds, Lasso, Moments, Pool, Structural, Tolerance, no_effects};
use crate::{Matrix, Progress, Result};

/// Penalties of fits by moments, descending.
const KDS: [f64; 6] = [1.0, 0.3, 0.1, 0.03, 0.01, 0.003];
/// Penalties of structural equations, descending.
const STRUCTURAL: [f64; 3] = [0.1, 0.03, 0.003];
/// Good enough to be compared.
const COMPARED: Tolerance = Tolerance { violation: 1e-5, steps: 3000 };

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

/// A way to fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::fit) struct Candidate {
    pub method: Method,
    /// The penalty; 0 where there is none.
    pub lambda: f64,
}

/// Fits of all candidates to the same environments.
pub(in crate::fit) struct Paths {
    /// W of each candidate.
    pub weights: Vec<Matrix<f64>>,
    /// By which the curvature of fits to fewer environments is known.
    curvature: f64,
}

impl Candidate {
    /// All of them, in the order of [`Paths::weights`].
    pub fn all() -> Vec<Candidate> {
        let path = |method: Method, lambdas: &[f64]| -> Vec<Candidate> {
            lambdas.iter().map(|&lambda| Candidate { method, lambda }).collect()
        };
        let mut all = path(Method::Kds, &KDS);
        all.extend(path(Method::Structural, &STRUCTURAL));
        all.push(Candidate { method: Method::Nothing, lambda: 0.0 });
        all
    }
}

impl Paths {
    /// Fits all candidates to all environments but those of a part; from the fits to all, if there are any. `progress` counts
    /// fits.
    pub fn fit(
        moments: &Moments,
        targets: &Matrix<bool>,
        left_out: &[usize],
        from: Option<&Paths>,
        multipliers: Option<&Matrix<f64>>,
        progress: &Progress,
    ) -> Result<Paths> {
        let pool = Pool::new(moments, targets, left_out, false)?;
        let mut kds = Kds::new(&pool, from.map(|from| 1.1 * from.curvature));
        let mut structural = Structural::new(&pool);
        let mut weights: Vec<Matrix<f64>> = Vec::new();
        for (k, candidate) in Candidate::all().into_iter().enumerate() {
            let lasso = Lasso { kind: PenaltyKind::Ingoing, lambda: candidate.lambda, multipliers };
            // Down the path, never from the fit to all: where the loss is flat, a fit stays near where it began, and would know
            // what it has not seen.
            let same = k > 0 && Candidate::all()[k - 1].method == candidate.method;
            let before = if same { weights.last() } else { None };
            let found = match candidate.method {
                Method::Kds => kds.fit(&lasso, before, COMPARED, progress)?.weights,
                Method::Structural => structural.fit(&lasso, before, COMPARED, progress)?.weights,
                Method::Nothing => no_effects(moments.dim()),
            };
            weights.push(found);
            progress.add(1)?;
        }
        Ok(Paths { weights, curvature: kds.curvature() })
    }
}
