//! Exact fits. SKDS of a model that is linear in its parameters is convex (the paper's Corollary 9 and Example 10). With diagonal
//! noise and all pairs it separates into one small quadratic per variable, whose coefficients come from one pass over the data.
//!
//! ```text
//! Dataset ──Statistics::of──▶ C, D, E per environment ──Coordinate──▶ Q, c per variable ──lasso or groups──▶ Solution
//! ```
//!
//! The objective is that of training on all pairs: the mean of SKDS over environments, plus the penalty. Every minimum is
//! verified: [`Solution::violation`] is the amount by which it misses its optimality conditions.

#[cfg(test)]
mod basis_tests;
mod convexity;
mod coordinate;
mod design;
mod exact;
mod groups;
#[cfg(test)]
mod known_tests;
mod lasso;
mod layout;
pub(crate) mod moments;
mod quadratic;
mod statistics;
#[cfg(test)]
pub(super) mod tests;

pub(crate) use convexity::{ConvexityBound, Spectrum, convexity_bound, spectra};
pub use design::Design;
pub use exact::ExactSolver;
pub use moments::Tolerance;
pub use quadratic::{ProductMethod, Quadratic, QuadraticSpec};
pub use statistics::Statistics;

use crate::kernel::Kernel;
use crate::model::{Parameters, Penalty, PenaltyKind};
use crate::objective::Estimator;
use crate::{Error, Result};
use exact::shifted;

/// The most memory, in bytes, for the problems of all variables, if a penalty couples them.
const MOST_BYTES: f64 = 8.0 * (1u64 << 30) as f64;

/// The objective of an exact fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExactSpec {
    /// The kernel with its bandwidth.
    pub kernel: Kernel,
    /// `u` or `v`.
    pub estimator: Estimator,
    /// The penalty that is added to the loss.
    pub penalty: Option<Penalty>,
    /// Whether interventions may also change the noise of their targets.
    pub learn_scale: bool,
}

/// The minimum of an exact fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// The parameters at the minimum.
    pub parameters: Parameters<f64>,
    /// The loss at the minimum, without the penalty.
    pub loss: f64,
    /// The penalty at the minimum.
    pub penalty: f64,
    /// The amount by which the optimality conditions are missed, relative to the largest slope at 0.
    pub violation: f64,
}

/// Memory in bytes of a fit's problems, full and reduced: of all variables at once if the penalty couples them, otherwise of one
/// variable per thread.
pub(crate) fn bytes_of_fit(d: usize, features: usize, kind: PenaltyKind) -> f64 {
    let variables = if kind == PenaltyKind::Ingoing { rayon::current_num_threads() } else { d };
    2.0 * 8.0 * variables as f64 * (features as f64).powi(2)
}

/// How many fits with a penalty that couples variables may run at the same time, by their memory.
pub(crate) fn fits_at_once(d: usize, features: usize) -> usize {
    let room = (MOST_BYTES / bytes_of_fit(d, features, PenaltyKind::Both)) as usize;
    if room < rayon::current_num_threads() { room.max(1) } else { usize::MAX }
}

/// Whether the direct solver, [`ExactSolver`], has enough memory for a penalty. [`Quadratic`] needs less.
pub(crate) fn has_room(d: usize, design: &Design, kind: PenaltyKind) -> bool {
    check_room(d, design.features(d), kind).is_ok()
}

/// Whether the problems of all variables fit into memory at once.
pub(crate) fn check_room(d: usize, features: usize, kind: PenaltyKind) -> Result<()> {
    let bytes = bytes_of_fit(d, features, kind);
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    let gib = |bytes: f64| bytes / (1u64 << 30) as f64;
    Err(Error::invalid(format!(
        "the penalty {kind} couples {d} variables, for which the exact solver needs {:.0} GiB, expected at most {:.0}: use \
         the ingoing penalty, or the solver adam",
        gib(bytes),
        gib(MOST_BYTES)
    )))
}
