//! Chooses a linear model by how well each candidate predicts interventions that it has not seen.
//!
//! Candidates are fits by moments (KDS), SKDS, structural equations, and no effect at all, each over a path of penalties.
//! Environments with interventions are left out, in groups if there are many. Each candidate is fitted to the rest, and predicts
//! the means of the left-out environments from the means of their targets. A candidate's score is the mean logarithm of its
//! squared errors. The model averages the candidates that predict about equally well: their weights fall with their scores.

mod candidate;
mod choice;
mod fits;
mod folds;
mod paths;
mod rows;
mod score;
#[cfg(test)]
mod tests;
mod trained;

pub(super) use candidate::Candidate;
pub use candidate::Method;
pub(super) use choice::ModelChoice;
pub(crate) use choice::considers_pairs;
pub(super) use fits::{CandidateFit, FitContext};
pub(super) use folds::Folds;
pub(super) use score::Scores;
pub use trained::KeepRuns;
pub(super) use trained::TrainedChoice;
