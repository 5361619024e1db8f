//! Settings of the search.

use crate::data::Dataset;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Settings of [`fit`](super::fit): those of the published comparison by default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct GiesSettings {
    /// What each parameter costs in log likelihood. None: ½ log N for N rows, which is BIC.
    pub lambda: Option<f64>,
    /// The phases of the search, in order.
    pub phases: Vec<Phase>,
    /// Whether the phases are repeated until none improves the score.
    pub repeat: bool,
    /// The means that the score allows for.
    pub intercepts: Intercepts,
}

/// What the moves of a phase do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    /// Insert an arrow.
    Forward,
    /// Delete an arrow.
    Backward,
    /// Turn an arrow around.
    Turning,
}

/// The means that the score allows for. The equations of [`fit`](super::fit) have none with any of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Intercepts {
    /// Equations without intercepts, so that shifted means tell about effects: the default of pcalg, and the published
    /// comparison.
    None,
    /// One intercept per variable.
    Pooled,
    /// One intercept per variable and environment, so that only covariances tell about effects: the PyPI package `gies`.
    Environment,
}

impl Default for GiesSettings {
    fn default() -> Self {
        GiesSettings {
            lambda: None,
            phases: vec![Phase::Forward, Phase::Backward, Phase::Turning],
            repeat: true,
            intercepts: Intercepts::None,
        }
    }
}

impl GiesSettings {
    /// Checks every setting by itself.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(lambda) = self.lambda
            && !(lambda.is_finite() && lambda >= 0.0)
        {
            return Err(Error::invalid(format!("the lambda is {lambda}, expected a number of at least 0")));
        }
        if self.phases.is_empty() {
            let expected = "expected at least one of forward, backward and turning";
            return Err(Error::invalid(format!("the list of phases is empty, {expected}")));
        }
        Ok(())
    }

    /// The count that progress ends with: about one per move.
    pub(crate) fn work(&self, data: &Dataset) -> u64 {
        4 * data.dim() as u64
    }
}
