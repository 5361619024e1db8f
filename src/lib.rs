//! Learn stationary diffusions `dX = b(X)dt + σ(X)dB` from samples.
//!
//! A stationary diffusion is a causal model that allows feedback: its stationary law is what we observe, and
//! interventions change `b` and `σ`. This crate evaluates two losses that measure how far a diffusion is from having
//! the samples' law as its stationary law, and their gradients: **KDS**, and the much cheaper Stein-type **SKDS** of
//! Bleile, Lumpp and Drton, *Efficient Learning of Stationary Diffusions with Stein-type Discrepancies*.
//!
//! From top to bottom the modules are the way of the data: [`data`] → [`kernel`], [`objective`], [`model`] →
//! [`engine`] → [`fit`] → [`sample`], [`predict`], [`evaluate`], [`metric`], [`graph`] → [`plot`], [`cli`]; [`simulate`] makes data, [`mod@bench`] measures, [`serve`] is all of it over HTTP.
//!
//! ```
//! use skds::data::Dataset;
//! use skds::engine::{Engine, LossSpec, cpu::CpuEngine};
//! use skds::kernel::Kernel;
//! use skds::model::{Drift, Noise, Parameters};
//! use skds::objective::{Estimator, Objective};
//! use skds::Matrix;
//!
//! // Four samples of two variables, one environment.
//! let samples = Matrix::from_rows(4, 2, vec![0.1, -0.4, 0.9, 0.2, -0.7, 0.5, 0.3, -0.1]);
//! let data = Dataset::from_environments(vec![samples])?;
//!
//! // dX = −X dt + dB
//! let parameters = Parameters::<f64> {
//!     drift: Drift::Linear { weights: Matrix::from_rows(2, 2, vec![-1.0, 0.0, 0.0, -1.0]) },
//!     biases: vec![0.0; 2],
//!     noise: Noise::Diagonal { log_noise: vec![0.0; 2] },
//!     shift: None,
//!     log_scale: None,
//! };
//!
//! let spec = LossSpec {
//!     objective: Objective::Skds,
//!     kernel: Kernel::Rbf { bandwidth: 1.0 },
//!     estimator: Estimator::V,
//! };
//! let mut loss = CpuEngine.load(&data, &spec)?;
//! let mut gradient = parameters.zeros_like();
//! let value = loss.evaluate(&parameters, Some(&mut gradient))?;
//! assert!(value >= 0.0);
//! assert_eq!(gradient.biases.len(), 2);
//! # Ok::<(), skds::Error>(())
//! ```

// A build without some features leaves out callers of small helpers, which are not worth a condition each.
#![cfg_attr(
    not(all(feature = "gpu", feature = "plot", feature = "cli", feature = "serve")),
    allow(dead_code, unused_imports, unused_macros)
)]

#[cfg(feature = "cli")]
pub mod bench;
mod bounds;
#[cfg(feature = "cli")]
pub mod cli;
pub mod data;
pub mod engine;
mod error;
pub mod evaluate;
#[cfg(feature = "cli")]
pub mod experiment;
mod files;
pub mod fit;
mod front;
pub mod graph;
pub mod kernel;
pub mod metric;
pub mod model;
mod named;
mod numeric;
pub mod objective;
#[cfg(feature = "plot")]
pub mod plot;
pub mod predict;
pub mod prelude;
mod progress;
pub mod report;
pub mod sample;
#[cfg(feature = "serve")]
pub mod serve;
pub mod simulate;
pub mod solve;
mod stderr;

pub use error::{DeviceFailure, Error, Result};
pub use front::{Do, Fit, FitProgress, Fitted, Options, Prediction};
pub use numeric::{Matrix, Scalar};
pub use progress::Progress;
