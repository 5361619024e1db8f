//! The room for the GPU engine: the stages of [`crate::engine`] as compute shaders from `shaders/`.
//!
//! It will implement [`Engine<f32>`](crate::engine::Engine) and share everything but the arithmetic with the
//! CPU engine: data, kernels, objectives, estimators, models and the parameter files.
