//! NODAGS-Flow: contractive networks with feedback, by maximum likelihood under surgical interventions
//! (Sethuraman, Lopez, Mohan, Fekri, Biancalani and Hütter, 2023).
//!
//! # The model
//!
//! x = f(x) + ε with independent Gaussian ε of standard deviations σ, both learnt. All f_j share one network with L hidden layers
//! as wide as there are variables, no biases, and a ReLU after every layer, but each sees x through a mask of its own:
//!
//! ```text
//! f_j(x) = γ(V γ(W_L ⋯ γ(W_1 (m_j ∘ x))))_j,     P(m_ji = 1) = sigmoid(logit_ji),  m_jj = 0
//! ```
//!
//! An environment that intervenes on the variables I replaces their equations. With U the projection to the others and J the
//! Jacobian of f, the log-density of a row is log |det(I − U J)| + Σ_{j∉I} log N(x_j; f_j(x), σ_j²). The loss is minus its mean over
//! the batch, with new masks for each row, plus λ Σ_{i≠j} sigmoid(logit_ji).
//!
//! # How it is trained
//!
//! Adam takes batches of consecutive rows, environment after environment, in the same order in each epoch. `logdet` estimates the
//! log-determinant, and `gradient` derives the loss in closed form. After each step, a layer whose spectral norm exceeds its limit is
//! scaled back (1 for W, `lipschitz` for V); the norm is that of some power iterations, which continue from those of the last
//! step. The gradient does not pass through the scaling.
//!
//! # What follows the published code, and what does not
//!
//! - The output layer has a ReLU too, so no f_j is below 0. `relu_output = false` leaves it out. There are no biases or means.
//! - The limits bound the norm of the shared network, but not that of f: each f_j takes its own mask, and the norm can grow up to √d
//!   times. Nothing corrects this in the published code either; on the paper's systems the largest norm of a fitted J at the data
//!   was 0.8. An iteration for the fixed point should give up if it does not settle.
//! - The published prediction draws new masks at each of ten iterations, and reports the edges with a probability above ½. The
//!   result here has one mask for good: these edges, or with `edges = "expected"` every input times its probability.
//! - After training, exact spectral norms replace the estimates, which are never too large.
//! - Log noise scales stay above −10. The published code has no limit.
//! - Terms of the power series that have expectation 0 are left out (see `logdet`).
//!
//! Batches are cut into groups of rows, each with its own stream of random numbers, so that threads do not change the result.

mod gradient;
#[cfg(test)]
mod gradient_tests;
#[cfg(test)]
mod likelihood;
mod logdet;
mod settings;
mod shape;
#[cfg(test)]
mod systems;
#[cfg(test)]
mod tests;
mod train;

pub(crate) use settings::NodagsSettings;

use super::NetworkEquations;
use crate::data::Dataset;
use crate::numeric::tasks;
use crate::{Progress, Result};
use train::Trainer;

/// Fits the equations to standardised data. Fails with [`Error::NonFinite`](crate::Error::NonFinite) if training diverges.
pub(crate) fn fit(
    data: &Dataset,
    settings: &NodagsSettings,
    seed: u64,
    progress: &Progress,
) -> Result<NetworkEquations> {
    settings.check()?;
    settings.check_size(data.dim())?;
    progress.check()?;
    let mut trainer = Trainer::new(data.dim(), settings, seed);
    tasks::enter(usize::MAX, || trainer.run(data, progress))?;
    trainer.finish()?;
    progress.set(settings.work(data))?;
    Ok(trainer.shape.equations(&trainer.parameters, settings))
}
