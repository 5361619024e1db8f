//! What most programs need: `use skds::prelude::*`.
//!
//! ```no_run
//! use skds::prelude::*;
//!
//! let data = Dataset::read("train.npz")?;
//! let model = Fit::new().fit(&data)?;
//! let prediction = model.predict(&data, &Do::set("KLF1", 2.0))?;
//! let (low, high) = prediction.interval("GATA1", 0.95)?;
//! println!("GATA1: {:.2} ({low:.2} to {high:.2})", prediction.mean("GATA1")?);
//! model.save("model.safetensors")?;
//! # Ok::<(), skds::Error>(())
//! ```

pub use crate::data::Dataset;
pub use crate::engine::{CpuEngine, Device, Engine, Loss, LossSpec};
pub use crate::fit::{
    Edge, EdgeKind, EstimatorChoice, KernelChoice, ModelKind, PenaltyChoice, Settings, SolverChoice,
};
pub use crate::front::{Do, Fit, FitProgress, Fitted, Options, Prediction};
pub use crate::graph::{Effect, Graph};
pub use crate::kernel::Kernel;
pub use crate::model::{
    Activation, BasisDrift, Drift, LawKind, LinearDrift, MlpDrift, Model, Noise, Parameters,
};
pub use crate::objective::{Estimator, Objective};
pub use crate::sample::{Method, SampleSettings};
pub use crate::{Error, Matrix, Progress, Result};
