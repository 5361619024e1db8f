//! Training as every engine offers it: steps of an optimiser on batches, and the state they go on from.

use super::LossSpec;
use super::draw::Batches;
use super::optimiser::{Optimiser, OptimiserKind};
use crate::model::{Parameters, Penalty};
use crate::{Error, Matrix, Result};

/// What training minimises, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainingSpec {
    /// The loss.
    pub loss: LossSpec,
    /// What is added to it.
    pub penalty: Option<Penalty>,
    /// The optimiser.
    pub optimiser: Optimiser,
    /// What each step sees; none means all samples of all environments.
    pub batches: Option<Batches>,
}

/// How training stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Steps taken.
    pub steps: u32,
    /// The loss on the last step's batch, at the parameters before it, without the penalty.
    pub loss: f64,
    /// The penalty there.
    pub penalty: f64,
}

/// Everything that training needs to continue.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Steps taken.
    pub steps: u32,
    /// The parameters.
    pub parameters: Parameters<f32>,
    /// What the optimiser carries from step to step: see [`OptimiserKind::moments`].
    pub moments: Vec<Parameters<f32>>,
}

impl State {
    /// Before the first step.
    pub fn new(parameters: Parameters<f32>, optimiser: OptimiserKind) -> Self {
        let moments = optimiser.moments().iter().map(|_| parameters.zeros_like()).collect();
        State { steps: 0, parameters, moments }
    }

    /// Checks that this is a state of `optimiser`.
    pub(crate) fn check_optimiser(&self, optimiser: OptimiserKind) -> Result<()> {
        let (found, expected) = (self.moments.len(), optimiser.moments().len());
        match found == expected {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "the state has {found} moments, expected {expected} for the optimiser {optimiser}"
            ))),
        }
    }
}

/// Checks what the penalty's effects are multiplied with: one finite number of at least 0 for each.
pub(crate) fn check_multipliers(multipliers: &Matrix<f64>, dim: usize) -> Result<()> {
    let found = [multipliers.rows(), multipliers.cols()];
    if found != [dim, dim] {
        return Err(Error::invalid(format!("multipliers have shape {found:?}, expected {:?}", [dim, dim])));
    }
    match multipliers.as_slice().iter().find(|value| !(**value >= 0.0 && value.is_finite())) {
        Some(value) => {
            Err(Error::invalid(format!("a multiplier is {value}, expected a finite number of at least 0")))
        }
        None => Ok(()),
    }
}

/// A training under way.
pub trait Training {
    /// One step. An engine may notice a NaN later, when it is asked how training stands.
    fn step(&mut self) -> Result<()>;

    /// How training stands. A loss or gradient that was NaN or infinite is an error that names the step, and the
    /// environment or the parameter; the state is then that before the step.
    fn standing(&mut self) -> Result<Standing>;

    /// The state after the last good step.
    fn state(&mut self) -> Result<State>;

    /// Continues from `state`.
    fn restore(&mut self, state: &State) -> Result<()>;
}
