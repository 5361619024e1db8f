//! Predictions of interventions: the model's stationary law under them, or how they move observed rows.
//!
//! A model's law may differ from the data's: a Gaussian is not gene expression. An *anchored* prediction moves the observed rows
//! by the change that the model predicts: the optimal transport map between its law without and under the intervention
//! ([`TransportMap`]).
//!
//! | file | answers |
//! |---|---|
//! | `treatment` | what is done: shifts, scales, and means that are brought to given values |
//! | `levels` | which means perturbed variables reach, where nobody says it |
//! | `matching` | which shifts bring means to given values: in closed form, by `steering` a simulation, or by `bracketing` a `root` that many searches share simulations with |
//! | `law` | the mean and covariance of a model under an intervention: all that is asked of a model here |
//! | `transport` | the map between two laws |
//! | `anchor` | the observed rows, and where they go |
//! | `prediction` | samples of the law, or observed rows that are moved |
//!
//! ```
//! use skds::data::Dataset;
//! use skds::model::{Drift, Model, Noise, Parameters};
//! use skds::predict::{Origin, Treatment, TargetMeans, anchored};
//! use skds::sample::{SampleSettings, Sampler};
//! use skds::{Matrix, Progress};
//!
//! // x1 follows x0: dX = W X dt + dB.
//! let model = Model::new(Parameters {
//!     drift: Drift::linear(Matrix::from_rows(2, 2, vec![-1.0, 0.0, 0.5, -1.0])),
//!     biases: vec![0.0; 2],
//!     noise: Noise::Diagonal { log_noise: vec![0.0; 2] },
//!     shift: None,
//!     log_scale: None,
//! });
//! let data = Dataset::from_environments(vec![Matrix::from_rows(2, 2, vec![0.0, 0.0, 2.0, 4.0])])?;
//!
//! // Where do these rows go if the mean of x0 becomes 3?
//! let origin = Origin::of(&model, &data)?;
//! let treatment = Treatment::with_means(&model, TargetMeans { targets: vec![0], means: vec![3.0] });
//! let (sampler, settings) = (Sampler::cpu(), SampleSettings::default());
//! let moved = anchored(&sampler, &model, &origin, &treatment, &settings, 0, &Progress::default())?;
//! for (found, expected) in moved.as_slice().iter().zip([2.0, 1.0, 4.0, 5.0]) {
//!     assert!((found - expected).abs() < 1e-12);
//! }
//! # Ok::<(), skds::Error>(())
//! ```
//!
//! An ensemble's law has the average means and covariances of its members under the same intervention. Observed rows are moved by
//! the average of the members' maps, for which each member finds its own shifts.

mod anchor;
mod bracketing;
mod law;
mod levels;
mod matching;
mod prediction;
mod root;
mod steering;
#[cfg(test)]
mod tests;
mod transport;
mod treatment;

pub use anchor::{Origin, anchored, anchored_each, transport_maps};
pub(crate) use law::law_samples;
pub use law::{Law, laws_of};
pub use levels::{Level, Levels, targets_of_label};
pub(crate) use matching::MATCHING_SAMPLES;
pub(crate) use matching::match_and_draw;
pub use matching::{MATCHING_PROGRESS, TargetMeans, match_means};
pub use prediction::{Start, predicted};
pub(crate) use steering::changes_of_means;
pub use transport::{Deviations, TransportMap};
pub use treatment::{Treatment, interventions_for};
