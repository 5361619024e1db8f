//! What every engine offers: the loss of a model on a dataset, and its gradient.
//!
//! An engine takes the data once ([`Engine::load`]) and then evaluates the loss for any parameters
//! ([`Loss::evaluate`]) without further allocation. Every engine has these stages, in this order and under these names:
//!
//! | stage | from → to |
//! |---|---|
//! | `drift` | samples, parameters → b at every sample, shifts included |
//! | `tilt` | b → b̃ and ζ (tilted kernels only) |
//! | `pairs` | `linear` estimator: pair terms → loss, ∂/∂b̃, ∂/∂a |
//! | `all_pairs` | `u` and `v`: the same over all pairs, tile by tile |
//! | `backward` | ∂/∂b, ∂/∂a → gradient of every parameter |

pub mod adapters;
pub mod cpu;
mod device;
mod draw;
#[cfg(feature = "gpu")]
pub mod gpu;
#[cfg(not(feature = "gpu"))]
#[path = "no_gpu.rs"]
pub mod gpu;
pub(crate) mod optimiser;
pub(crate) mod pair_sums;
mod place;
mod training;
pub mod validate;

pub use cpu::{CpuEngine, Precision};
pub use device::{Chosen, Device};
pub use draw::Batches;
pub use optimiser::{Adam, Optimiser, OptimiserKind};
pub use place::Place;
pub use training::{Standing, State, Training, TrainingSpec};

use crate::data::Dataset;
use crate::kernel::Kernel;
use crate::model::Parameters;
use crate::objective::{Estimator, Objective};
use crate::{Progress, Result, Scalar};

/// Which loss to evaluate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossSpec {
    /// SKDS or KDS.
    pub objective: Objective,
    /// The kernel with its bandwidth.
    pub kernel: Kernel,
    /// The pairs to average over.
    pub estimator: Estimator,
}

/// Time that a stage took on the device, over all its dispatches.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct StageTime {
    /// The stage's name.
    pub stage: &'static str,
    /// Its dispatches.
    pub dispatches: u64,
    /// Seconds by the device's clock.
    pub seconds: f64,
    /// Floating-point operations, roughly.
    pub flops: f64,
}

/// A device that evaluates losses in precision `T`.
pub trait Engine<T: Scalar> {
    /// The device's name in reports.
    fn device(&self) -> String;

    /// Prepares to evaluate `spec` on `data`.
    fn load(&self, data: &Dataset, spec: &LossSpec) -> Result<Box<dyn Loss<T>>>;
}

/// The loss on one dataset, ready to evaluate.
pub trait Loss<T: Scalar>: Send {
    /// The mean of the environments' losses; with `gradient`, its derivative with respect to every parameter too.
    ///
    /// `gradient` must have the shape of `parameters` ([`Parameters::zeros_like`]) and is overwritten.
    fn evaluate(&mut self, parameters: &Parameters<T>, gradient: Option<&mut Parameters<T>>) -> Result<f64>;

    /// The loss of each environment at the last evaluation.
    fn environment_losses(&self) -> &[f64];

    /// The number of pairs one evaluation visits, over all environments.
    fn pairs(&self) -> u64;

    /// Counts from 0 to [`pairs`](Self::pairs) during an evaluation over all pairs. It can stop the evaluation.
    fn progress(&self) -> std::sync::Arc<Progress>;
}
