//! Which model to believe: every candidate is judged by interventions that it has not seen.
//!
//! Candidates are fits by moments (KDS), SKDS, structural equations, and no effect at all, each over a path of penalties.
//! Environments with interventions are left out, in groups if there are many; what is left is fitted to, and the means of what was
//! left out are predicted from the means of its targets. A candidate's score is the mean logarithm of its squared errors.
//! Candidates that predict about equally well share the model: their weights fall with their scores, and their predicted effects
//! are averaged.

mod candidate;
mod choice;
mod fits;
mod folds;
mod paths;
mod rows;
mod score;
#[cfg(test)]
mod tests;

pub(super) use candidate::Candidate;
pub use candidate::Method;
pub(super) use choice::Choice;
pub(crate) use choice::considers_pairs;
pub(super) use fits::{Common, Fit};
pub(super) use folds::Folds;
pub(super) use score::Scores;
