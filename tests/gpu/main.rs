//! The GPU engine, on whatever Vulkan device there is; a software one serves.

#[path = "../common/chromium.rs"]
mod chromium;
#[path = "../common/mod.rs"]
mod common;

mod browser;
mod interpret;
mod losses;
mod orchestration;
mod plan;
mod quadratic;
mod sampling;
mod shaders;
mod statistics;
mod training;
