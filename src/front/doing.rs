//! What is done to a system, by the names of its variables.

use crate::Result;
use crate::model::Model;
use crate::predict::Treatment;
use std::collections::BTreeMap;

/// An intervention, by the names of variables.
///
/// ```
/// use skds::prelude::*;
///
/// let both = Do::set("urchin", 3.5).and(Do::shift("kelp", -1.0));
/// assert_ne!(both, Do::nothing());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct Do {
    environment: Option<usize>,
    shifts: BTreeMap<String, f64>,
    scales: BTreeMap<String, f64>,
    means: BTreeMap<String, f64>,
}

impl Do {
    /// Leaves the system as it is.
    pub fn nothing() -> Self {
        Do::default()
    }

    /// Pushes a variable until its mean is `mean`, in the data's units. The model finds the push, a shift of the drift.
    pub fn set(variable: impl Into<String>, mean: f64) -> Self {
        Do { means: BTreeMap::from([(variable.into(), mean)]), ..Do::default() }
    }

    /// Adds `by` to the drift of a variable.
    pub fn shift(variable: impl Into<String>, by: f64) -> Self {
        Do { shifts: BTreeMap::from([(variable.into(), by)]), ..Do::default() }
    }

    /// Multiplies the noise of a variable by `factor`.
    pub fn scale(variable: impl Into<String>, factor: f64) -> Self {
        Do { scales: BTreeMap::from([(variable.into(), factor)]), ..Do::default() }
    }

    /// Repeats the intervention that the fit found for an environment of the training data.
    pub fn environment(number: usize) -> Self {
        Do { environment: Some(number), ..Do::default() }
    }

    /// Both at once. Where both say the same thing about the same variable, `other` counts.
    pub fn and(mut self, other: Do) -> Self {
        self.environment = other.environment.or(self.environment);
        self.shifts.extend(other.shifts);
        self.scales.extend(other.scales);
        self.means.extend(other.means);
        self
    }

    pub(super) fn treatment(&self, model: &Model) -> Result<Treatment> {
        Treatment::named(model, self.environment, &self.shifts, &self.scales, &self.means)
    }
}
