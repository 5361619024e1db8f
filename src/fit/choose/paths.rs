//! The candidates, and their fits to all environments or to some.

use super::{Candidate, Common, Method};
use crate::solve::moments::{Kds, Lasso, Moments, Pool, Structural, Tolerance, no_effects};
use crate::{Matrix, Progress, Result};

/// Good enough to be compared.
const COMPARED: Tolerance = Tolerance { violation: 1e-5, steps: 3000 };

/// Fits of all candidates to the same environments.
pub(in crate::fit) struct Paths {
    /// W of each candidate.
    pub weights: Vec<Matrix<f64>>,
}

impl Paths {
    /// Fits all candidates to all environments but those of a part; from the fits to all, if there are any. `progress` counts
    /// fits.
    pub fn fit(
        common: &Common<'_>,
        moments: &Moments,
        candidates: &[Candidate],
        left_out: &[usize],
        progress: &Progress,
    ) -> Result<Paths> {
        let pool = Pool::new(moments, common.targets, left_out, common.learn_scale)?;
        let mut kds = Kds::new(&pool, None);
        let mut structural = Structural::new(&pool);
        let mut weights: Vec<Matrix<f64>> = Vec::new();
        for (k, candidate) in candidates.iter().enumerate() {
            let lasso =
                Lasso { kind: common.penalty, lambda: candidate.lambda, multipliers: common.multipliers };
            // Down the path, never from the fit to all: where the loss is flat, a fit stays near where it began, and would know
            // what it has not seen.
            let same = k > 0 && candidates[k - 1].method == candidate.method;
            let before = if same { weights.last() } else { None };
            let found = match candidate.method {
                Method::Kds => kds.fit(&lasso, before, COMPARED, progress)?.weights,
                Method::Structural => structural.fit(&lasso, before, COMPARED, progress)?.weights,
                Method::Nothing | Method::Skds => no_effects(moments.dim()),
            };
            weights.push(found);
            progress.add(1)?;
        }
        Ok(Paths { weights })
    }
}
