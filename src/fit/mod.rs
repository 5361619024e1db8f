//! From data to a model: by the exact solver ([`crate::solve`]) where the loss is convex, otherwise by Algorithm 1 of the
//! paper, steps of Adam on batches.
//!
//! [`PreparedFit::new`] decides what to do from data and [`Settings`]. [`PreparedFit::solve`] computes an exact fit, and
//! [`PreparedFit::train`] takes the steps of Adam on any device and reports to a [`TrainingObserver`]. A step depends only on the
//! state and its own number, so a fit that continues from a [`Checkpoint`] ends with the same bytes as one that was never
//! interrupted.

mod bootstrap;
mod bounds;
mod checkpoint;
mod choice_runs;
mod choices;
mod choose;
mod edges;
mod exact;
mod fingerprint;
mod kept;
mod knowledge;
mod loss;
mod prepared;
mod recipe;
mod rival;
mod select;
mod settings;
mod settle;
#[cfg(test)]
mod settle_tests;
mod stabilize;
mod start;
mod support;
mod training;
mod tuning;

pub use crate::rival::RivalKind;
pub(crate) use bounds::check_resamples;
pub use checkpoint::{Checkpoint, Record};
use choice_runs::ChoiceRun;
pub use choice_runs::ChoiceRuns;
pub use choices::{
    EnvironmentsPerStep, EstimatorChoice, KernelChoice, ModelKind, PenaltyChoice, SolverChoice, TargetChoice,
};
pub(crate) use choose::considers_pairs;
pub use choose::{KeepRuns, Method};
pub use edges::{Edge, EdgeKind};
pub use exact::ExactFit;
pub use fingerprint::Fingerprint;
pub use kept::{KeptFiles, Unfinished};
pub use knowledge::{FORBIDDEN, Knowledge, REQUIRED};
pub use loss::{LossSettings, ModelLoss};
pub use prepared::PreparedFit;
pub use recipe::{
    AdamRecipe, CandidateSet, DriftForm, FixedSettings, PenaltyStrength, Recipe, RivalRecipe, Solver,
    TrainingChoice,
};
pub use settings::Settings;
pub(crate) use stabilize::MARGIN;
pub use stabilize::{Stability, WidestVariable};
pub use support::{Evidence, Support, VariableSupport};
pub use training::{RaisedPenalty, TrainingObserver, TrainingOutcome, TrainingSchedule, Unobserved};
pub(crate) use tuning::ENOUGH_INTERVENTIONS;
pub use tuning::{ExpectedError, ScoredSetting, Tuning};

use crate::data::Dataset;
use crate::model::Model;
use crate::{Progress, Result};

/// Fits a model to data on the CPU. This is [`PreparedFit`] in one call.
///
/// ```
/// use skds::data::Dataset;
/// use skds::fit::{Settings, fit};
/// use skds::Matrix;
///
/// let samples = Matrix::from_fn(64, 2, |i, j| ((7 * i + 3 * j) as f64).sin());
/// let data = Dataset::from_environments(vec![samples])?;
/// let (model, stability) = fit(&data, &Settings { steps: Some(50), batch: Some(32), ..Settings::default() })?;
/// assert_eq!(model.dim(), 2);
/// assert!(stability.stable);
/// # Ok::<(), skds::Error>(())
/// ```
pub fn fit(data: &Dataset, settings: &Settings) -> Result<(Model, Stability)> {
    let mut problem = PreparedFit::new(data, settings)?;
    let Some(&AdamRecipe { steps, .. }) = problem.recipe.solver.adam() else {
        let fit = problem.solve(None, &Progress::default())?;
        return Ok((fit.model, fit.stability));
    };
    let none_kept = ChoiceRuns::new(&problem);
    if let Some((chosen, _)) = problem.choose(None, none_kept, &Progress::default(), &|_| Ok(()))? {
        problem = chosen;
    }
    let schedule = TrainingSchedule { report_every: steps, save_every: steps };
    let outcome = problem.train(None, None, schedule, &mut Unobserved)?;
    problem.model(&outcome.state)
}
