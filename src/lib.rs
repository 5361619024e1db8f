//! Learn stationary diffusions `dX = b(X)dt + σ(X)dB` from samples, and predict what interventions do.
//!
//! A stationary diffusion is a causal model that allows feedback. Its stationary law describes what we observe;
//! interventions change `b` and `σ`. skds fits such models with two losses, **KDS** and the Stein-type **SKDS** of
//! Bleile, Lumpp and Drton (*Efficient Learning of Stationary Diffusions with Stein-type Discrepancies*), compares
//! several kinds of model by interventions that it leaves out, and says how far to trust the result.
//!
//! # Read, fit, predict, save
//!
//! [`prelude`] holds what most programs need.
//!
//! ```no_run
//! use skds::prelude::*;
//!
//! let data = Dataset::read("train.npz")?;
//! let model = Fit::new().fit(&data)?;
//! model.findings().iter().for_each(|line| println!("{line}"));
//!
//! let prediction = model.predict(&data, &Do::set("x3", 2.0))?;
//! println!("the mean of x5 becomes {:.2}", prediction.mean("x5")?);
//! model.save("model.safetensors")?;
//! # Ok::<(), skds::Error>(())
//! ```
//!
//! # A loss and its gradient
//!
//! An [`Engine`](engine::Engine) takes data once and then evaluates the loss of any parameters.
//!
//! ```
//! use skds::prelude::*;
//!
//! // Four samples of two variables, one environment.
//! let samples = Matrix::from_rows(4, 2, vec![0.1, -0.4, 0.9, 0.2, -0.7, 0.5, 0.3, -0.1]);
//! let data = Dataset::from_environments(vec![samples])?;
//!
//! // dX = −X dt + dB
//! let parameters = Parameters::<f64> {
//!     drift: Drift::linear(Matrix::from_rows(2, 2, vec![-1.0, 0.0, 0.0, -1.0])),
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
//!
//! # The map
//!
//! From top to bottom the modules follow the data: [`data`] → [`kernel`], [`objective`], [`model`] → [`engine`] →
//! [`fit`] → [`sample`], [`predict`], [`evaluate`], [`metric`], [`suggest`], [`graph`]. [`simulate`] makes data to try
//! methods on.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `gpu` | the GPU engine on wgpu |
//! | `plot` | pictures as SVG and PNG |
//! | `cli` | the command `skds`, experiments and benchmarks |
//! | `serve` | the service and its client |
//! | `ndarray` | conversions from and to `ndarray::Array2` |
//!
//! All but `ndarray` are on by default. Without them the crate is the mathematics on the CPU.

// What is public can be reached from outside.
#![warn(unreachable_pub)]
// A build without some features leaves out callers of small helpers, which are not worth a condition each.
#![cfg_attr(
    not(all(feature = "gpu", feature = "plot", feature = "cli", feature = "serve")),
    allow(dead_code, unused_imports, unused_macros)
)]

mod bounds;
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
mod panics;
#[cfg(feature = "plot")]
pub mod plot;
pub mod predict;
pub mod prelude;
#[cfg(feature = "cli")]
mod program;
mod progress;
mod report;
mod rival;
pub mod sample;
pub mod simulate;
mod stderr;
pub mod suggest;

// Not part of the library: public for the program `skds`, its tests and its benches alone.
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod bench;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
#[cfg(feature = "serve")]
#[doc(hidden)]
pub mod client;
#[cfg(feature = "serve")]
#[doc(hidden)]
pub mod serve;
#[doc(hidden)]
pub mod solve;

// The programs of the book compile.
#[cfg(doctest)]
#[doc = include_str!("../docs/library.md")]
mod library_page {}

pub use error::{DeviceFailure, Error, Result};
pub use front::{Do, Fit, FitProgress, Fitted, Options, Prediction};
pub use numeric::{Matrix, Scalar};
pub use progress::Progress;
