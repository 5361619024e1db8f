//! The command line: every command in a process of its own.

#[path = "../common/mod.rs"]
mod common;

mod bench;
mod bounds;
mod cells;
mod choice;
mod completions;
mod convexity;
mod devices;
mod documents;
mod evaluate;
mod experiment;
mod fit;
mod fit_doors;
mod fit_edges;
mod fit_exact;
mod fit_methods;
mod fit_neural;
mod fit_resume;
mod fit_units;
mod graph;
mod loss;
mod loss_settings;
mod sample;
mod simulate;
mod stderr;
