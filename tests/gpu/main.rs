//! The GPU engine, on whatever Vulkan device there is; a software one serves.

#[path = "../common/mod.rs"]
mod common;

mod losses;
mod orchestration;
mod sampling;
mod shaders;
mod statistics;
mod training;
