//! What a model says happens under an intervention, as its stationary law or to rows that were observed.
//!
//! A model's law need not be the data's: a Gaussian is not gene expression. A prediction that is *anchored* at the data
//! takes the observed rows and moves them by what the model says changes, the optimal transport between its law at rest
//! and its law under the intervention ([`TransportMap`]).
//!
//! | file | answers |
//! |---|---|
//! | `treatment` | what is done: shifts, scales, and means that are brought to given values |
//! | `matching` | which shifts bring means to given values, by a `root` that many searches share simulations with |
//! | `law` | the mean and covariance of a model under an intervention: all that is asked of a model here |
//! | `transport` | the map between two laws |
//! | `anchor` | the observed rows, and where they go |
//! | `prediction` | samples of the law, or observed rows that are moved |
//!
//! A new kind of model needs its own branch in [`laws_of`]. One that averages the effects of several models averages
//! their maps in [`transport_maps`], which is where each of them has found its own shifts.

mod anchor;
mod law;
mod matching;
mod prediction;
mod root;
#[cfg(test)]
mod tests;
mod transport;
mod treatment;

pub use anchor::{Origin, anchored, transport_maps};
pub(crate) use law::law_samples;
pub use law::{Law, laws_of};
pub use matching::{MATCHED, Wanted, match_means};
pub(crate) use matching::{MATCHING_SAMPLES, closed_form};
pub use prediction::{Start, predicted};
pub use transport::{Deviations, TransportMap};
pub use treatment::{Treatment, interventions_for};
