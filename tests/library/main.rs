//! The library on the CPU: goldens, derivatives, the paper's properties, shapes, recovery.
//!
//! One program for many files: linking is most of what tests cost to build.

#[path = "../common/mod.rs"]
mod common;

mod basis;
mod documents;
mod families;
mod finite_differences;
mod flags;
mod golden;
mod layers;
mod properties;
mod recovery;
mod rooms;
mod shapes;
mod units;
