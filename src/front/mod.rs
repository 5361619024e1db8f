//! The front door: read, fit, predict, save.
//!
//! [`Fit`] takes settings and data to a [`Fitted`] model. A [`Model`] has a verb for each task:
//! [`effects`](Model::effects), [`predict`](Model::predict), [`sample`](Model::sample),
//! [`evaluate`](Model::evaluate), [`save`](Model::save) and [`read`](Model::read). [`Do`] says what is done to the
//! system, [`Prediction`] holds what the model expects to happen.
//!
//! | file | holds |
//! |---|---|
//! | `fit` | [`Fit`] and [`Fitted`] |
//! | `doing` | [`Do`] |
//! | `verbs` | what a [`Model`] can be asked for, and the [`Options`] of a question |
//! | `prediction` | [`Prediction`] |
//! | `pictures` | models and fits as SVG |

mod doing;
mod fit;
#[cfg(feature = "plot")]
mod pictures;
mod prediction;
#[cfg(test)]
mod tests;
mod verbs;

pub use doing::Do;
pub use fit::{Fit, FitProgress, Fitted};
pub use prediction::Prediction;
pub use verbs::Options;

#[cfg(doc)]
use crate::model::Model;
