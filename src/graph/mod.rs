//! The causal graph of a fitted model: the effects of variables on each other, as a list, a matrix and files.
//!
//! ```
//! use skds::graph::Graph;
//! use skds::model::{Drift, Model, Noise, Parameters};
//! use skds::Matrix;
//!
//! // x0 drives x1 with weight 0.5.
//! let model = Model::new(Parameters {
//!     drift: Drift::linear(Matrix::from_rows(2, 2, vec![-1.0, 0.0, 0.5, -1.0])),
//!     biases: vec![0.0; 2],
//!     noise: Noise::Diagonal { log_noise: vec![0.0; 2] },
//!     shift: None,
//!     log_scale: None,
//! });
//! let graph = Graph::of(&model)?;
//! assert_eq!(graph.effects().len(), 1);
//! let effect = graph.effects()[0];
//! assert_eq!((effect.source, effect.target, effect.strength), (0, 1, 0.5));
//! # Ok::<(), skds::Error>(())
//! ```

mod effects;
mod export;

pub use effects::{Effect, Graph};
pub use export::Format;
