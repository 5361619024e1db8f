//! Composes a stage's WGSL: generated declarations, then the stage's file. Two kinds of lines in a file are for the
//! composer:
//!
//! - `#use NAME` is replaced by the part that the choice calls for. A part that is used twice comes once, at its first
//!   place.
//! - `#bind x, work` declares the buffers that this file's text names. A shader has the bindings of all its parts.

mod constants;
mod parts;

pub use constants::{PAIR_COLUMNS, SumLayout, pair_rows};

use super::shared::{self, Block, Environment, Job, Source, TILE, Training, WIDE_TILE, Walk};
use super::stages::{self, Axis, Slot, Stage, Uniform};
use crate::kernel::KernelKind;
use crate::model::Activation;
use crate::objective::{Estimator, Objective};
use crate::{Error, Result};
use parts::part;
use std::collections::BTreeSet;

/// What shader source is composed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// SKDS or KDS.
    pub objective: Objective,
    /// The kernel, without its bandwidth.
    pub kernel: KernelKind,
    /// The pairs.
    pub estimator: Estimator,
    /// None: the linear model.
    pub activation: Option<Activation>,
    /// Whether the diffusion is a full matrix.
    pub full: bool,
    /// Whether products take tiles of 128 × 128 instead of 64 × 64.
    pub wide: bool,
    /// Whether the sum over rows that ∂/∂W is comes in several parts.
    pub split: bool,
}

/// A composed shader.
#[derive(Clone, Debug, PartialEq)]
pub struct Composed {
    /// The stage's name and the choices it depends on, as `pairs.skds.rbf.diagonal`.
    pub label: String,
    /// WGSL with the entry point `main`.
    pub source: String,
    /// The buffers of bindings 1, 2, … in order; binding 0 is the uniform.
    pub slots: Vec<Slot>,
    /// Invocations of a workgroup.
    pub threads: u32,
}

/// A stage's source with every part in its place.
#[derive(Default)]
struct Expansion {
    text: String,
    /// The parts that it has, by the names that `#use` gives them.
    parts: BTreeSet<String>,
    slots: BTreeSet<Slot>,
}

impl Choice {
    /// Rows, and columns, of a product's tile.
    pub fn tile_rows(&self) -> u32 {
        if self.wide { WIDE_TILE } else { TILE }
    }

    /// The name and the text of the part that `#use` means.
    fn part(&self, name: &str) -> Result<(String, String)> {
        let chosen = match name {
            "kernel" => {
                let (name, text) = self.kernel.shader();
                return Ok((name.into(), text.into()));
            }
            "permutation" => return Ok((name.into(), shared::permutation())),
            "tile" => return Ok((name.into(), self.tile())),
            "pair" => "objective/pair",
            "objective" => &format!("objective/{}", self.objective),
            "activation" => &format!("activation/{}", self.activation.map_or("identity", Activation::name)),
            "diffusion" if self.full => "diffusion/full",
            "diffusion" => "diffusion/diagonal",
            "diffusion_rows" => "diffusion/rows",
            "adjoint_source" if self.estimator == Estimator::Linear => "adjoint_pairs",
            "adjoint_source" => "adjoint_sums",
            "backward_sink" if self.split => "backward_split",
            "backward_sink" => "backward_whole",
            "reduce_source" if self.split => "reduce_split",
            "reduce_source" => "reduce_whole",
            "outer_source" if self.estimator == Estimator::Linear => "outer_pairs",
            "outer_source" => "outer_sums",
            other => other,
        };
        Ok((chosen.to_owned(), part(chosen)?.to_owned()))
    }

    /// The names of the choices along a stage's axes.
    fn label(&self, stage: &Stage) -> String {
        let mut label = stage.name.to_owned();
        for axis in stage.axes {
            let name = match axis {
                Axis::Objective => self.objective.name(),
                Axis::Kernel => self.kernel.name(),
                Axis::Estimator => self.estimator.name(),
                Axis::Model => self.activation.map_or("affine", Activation::name),
                Axis::Diffusion if self.full => "full",
                Axis::Diffusion => "diagonal",
                Axis::Tile if self.wide => "wide",
                Axis::Tile => "narrow",
                Axis::Split if self.split => "split",
                Axis::Split => "whole",
            };
            label.push('.');
            label.push_str(name);
        }
        label
    }

    /// Adds a part with all that it uses.
    fn expand(&self, name: &str, into: &mut Expansion) -> Result<()> {
        let (name, source) = self.part(name)?;
        if !into.parts.insert(name.clone()) {
            return Ok(());
        }
        for line in source.lines() {
            if let Some(used) = line.strip_prefix("#use ") {
                self.expand(used.trim(), into)?;
            } else if let Some(bound) = line.strip_prefix("#bind ") {
                for buffer in bound.split(',') {
                    into.slots.insert(Slot::named(buffer.trim())?);
                }
            } else if line.starts_with('#') {
                return Err(Error::invalid(format!(
                    "shader part '{name}' has the line '{line}', expected '#use NAME' or '#bind BUFFER, …'"
                )));
            } else {
                into.text.push_str(line);
                into.text.push('\n');
            }
        }
        Ok(())
    }

    /// Composes `stage`.
    pub fn compose(&self, stage: &Stage) -> Result<Composed> {
        if self.wide && !stage.axes.contains(&Axis::Tile) {
            return Choice { wide: false, ..*self }.compose(stage);
        }
        let mut body = Expansion::default();
        self.expand(stage.name, &mut body)?;
        let slots: Vec<Slot> = body.slots.into_iter().collect();
        let mut source = format!("// {}: composed, do not edit.\n", self.label(stage));
        source.push_str(&shared::constants());
        source.push_str(&self.constants(stage));
        for slot in &slots {
            match slot {
                Slot::Blocks => source.push_str(&Block::wgsl()),
                Slot::Environments => source.push_str(&Environment::wgsl()),
                Slot::Sources => source.push_str(&Source::wgsl()),
                _ => {}
            }
        }
        source.push_str(&match stage.uniform {
            Uniform::Job => Job::wgsl(),
            Uniform::Training => Training::wgsl(),
            Uniform::Walk => Walk::wgsl(),
        });
        let uniform = stage.uniform.name();
        source.push_str(&format!("@group(0) @binding(0) var<uniform> job: {uniform};\n"));
        for (at, slot) in slots.iter().enumerate() {
            let (name, element, shape) = slot.declaration();
            let access = if stage.writes.contains(slot) { "read_write" } else { "read" };
            let binding = at + 1;
            source.push_str(&format!(
                "@group(0) @binding({binding}) var<storage, {access}> {name}: array<{element}>; // {shape}\n"
            ));
        }
        source.push_str(&body.text);
        let threads = if self.wide { 2 * stage.threads } else { stage.threads };
        Ok(Composed { label: self.label(stage), source, slots, threads })
    }
}

/// Adds the shaders of a choice that are not known yet.
fn add_stages(choice: &Choice, all: &mut Vec<(&'static Stage, Composed)>) -> Result<()> {
    for stage in stages::ALL {
        // A stage of the other estimator's has no such variant.
        let linear = choice.estimator == Estimator::Linear;
        if linear && matches!(stage.name, "all_pairs" | "turn") {
            continue;
        }
        let composed = choice.compose(stage)?;
        if !all.iter().any(|(_, known)| known.label == composed.label) {
            all.push((stage, composed));
        }
    }
    Ok(())
}

/// Every distinct shader there is, over all choices.
pub fn every_shader() -> Result<Vec<(&'static Stage, Composed)>> {
    let mut all: Vec<(&'static Stage, Composed)> = Vec::new();
    let activations = std::iter::once(None).chain(Activation::ALL.iter().copied().map(Some));
    for activation in activations {
        for full in [false, true] {
            for &objective in Objective::ALL {
                for &kernel in KernelKind::ALL {
                    for &estimator in Estimator::ALL {
                        // Where there are enough wide tiles, nothing is split.
                        for (wide, split) in [(false, false), (false, true), (true, false)] {
                            let choice =
                                Choice { objective, kernel, estimator, activation, full, wide, split };
                            add_stages(&choice, &mut all)?;
                        }
                    }
                }
            }
        }
    }
    all.sort_by(|a, b| a.1.label.cmp(&b.1.label));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHOICE: Choice = Choice {
        objective: Objective::Kds,
        kernel: KernelKind::ImqPlus,
        estimator: Estimator::U,
        activation: Some(Activation::Tanh),
        full: true,
        wide: false,
        split: false,
    };

    #[test]
    fn unknown_parts_and_buffers_are_errors_that_list_the_known() {
        let sentence = CHOICE.expand("objective/stein", &mut Expansion::default()).unwrap_err().to_string();
        assert!(sentence.contains("unknown shader part 'objective/stein'"), "{sentence}");
        assert!(sentence.contains("objective/skds"), "{sentence}");
        let sentence = Slot::named("wrok").unwrap_err().to_string();
        assert!(sentence.contains("unknown buffer 'wrok'") && sentence.contains("work_other"), "{sentence}");
    }

    #[test]
    fn bindings_are_those_that_the_parts_declare() {
        // Its own are `work` and `columns`; the others come with the parts that this choice takes.
        let composed = CHOICE.compose(&stages::ADJOINT).unwrap();
        let expected =
            [Slot::X, Slot::Work, Slot::Parameters, Slot::Centres, Slot::Blocks, Slot::Columns, Slot::Sums];
        assert_eq!(composed.slots, expected);
        let diagonal = Choice { full: false, ..CHOICE }.compose(&stages::ADJOINT).unwrap();
        assert!(diagonal.slots.contains(&Slot::Diffusion) && !composed.slots.contains(&Slot::Diffusion));
        let pairs = Choice { estimator: Estimator::Linear, ..CHOICE }.compose(&stages::ADJOINT).unwrap();
        assert!(!pairs.slots.contains(&Slot::Sums));
    }
}
