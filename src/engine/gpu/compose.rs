//! Composes a stage's WGSL: generated declarations, then the stage's file with every `#use` replaced by the part
//! that the choice calls for. A part that is used twice comes once, at its first place.

use super::shared::{self, Block, Environment, Job, Source, Training, Walk};
use super::stages::{self, Axis, Slot, Stage, Told};
use crate::kernel::KernelKind;
use crate::model::Activation;
use crate::objective::{Estimator, Kds, Objective, PairTerm, Skds};
use crate::{Error, Result};

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
}

/// A composed shader.
#[derive(Clone, Debug, PartialEq)]
pub struct Composed {
    /// The stage's name and the choices it depends on, as `pairs.skds.rbf.diagonal`.
    pub label: String,
    /// WGSL with the entry point `main`.
    pub source: String,
    /// Bindings 1, 2, … in order; binding 0 is the uniform.
    pub slots: Vec<Slot>,
}

/// The parts that `#use` can name, and the stages' files.
macro_rules! parts {
    ($($name:literal),+ $(,)?) => {
        const PARTS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../shaders/", $name, ".wgsl")))),+];
    };
}

parts!(
    "kernel/rbf",
    "kernel/imq_plus",
    "objective/pair",
    "objective/skds",
    "objective/kds",
    "activation/identity",
    "activation/sigmoid",
    "activation/tanh",
    "activation/relu",
    "diffusion/diagonal",
    "diffusion/full",
    "diffusion/rows",
    "grid",
    "rows",
    "tree",
    "sums",
    "product",
    "product_rows",
    "product_columns",
    "adjoint_common",
    "adjoint_pairs",
    "adjoint_sums",
    "outer_pairs",
    "outer_sums",
    "diffusion_diagonal",
    "diffusion_full",
    "traces",
    "drift",
    "spread",
    "tilt",
    "pairs",
    "all_pairs",
    "turn",
    "adjoint",
    "backward",
    "outer",
    "reduce",
    "symmetric",
    "noise",
    "finish",
    "draw",
    "norms",
    "penalty",
    "finite",
    "adam",
    "euler",
);

/// Where the sums of `all_pairs` lie in a row's record: S_b first. For a Gaussian profile c_z and c_m are multiples
/// of c_b, so one sum serves for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumLayout {
    /// How many sums there are.
    pub count: u32,
    /// Place of R_r.
    pub r: u32,
    /// Place of R_w.
    pub w: u32,
    /// Place of R_z.
    pub z: u32,
    /// Place of R_m.
    pub m: u32,
}

impl SumLayout {
    /// The layout that an objective and a kernel call for. Places that do not exist are 0 and never read.
    pub fn of(objective: Objective, kernel: KernelKind) -> Self {
        match (objective, kernel.traits().gaussian) {
            (Objective::Skds, true) => SumLayout { count: 2, r: 0, w: 0, z: 1, m: 1 },
            (Objective::Skds, false) => SumLayout { count: 3, r: 0, w: 0, z: 1, m: 2 },
            (Objective::Kds, true) => SumLayout { count: 4, r: 2, w: 3, z: 1, m: 1 },
            (Objective::Kds, false) => SumLayout { count: 5, r: 3, w: 4, z: 1, m: 2 },
        }
    }
}

/// Columns that pass by a workgroup of stage `all_pairs` at a time.
pub const PAIR_COLUMNS: u32 = 16;

/// Rows that a workgroup of stage `all_pairs` keeps: two per thread where there are two sums only.
pub fn pair_rows(objective: Objective, kernel: KernelKind) -> u32 {
    if SumLayout::of(objective, kernel).count == 2 { 32 } else { 16 }
}

/// (whether quadratic, tilt share) of an objective.
fn traits_of_objective(objective: Objective) -> (bool, f64) {
    match objective {
        Objective::Skds => (Skds::QUADRATIC, Skds::TILT_SHARE),
        Objective::Kds => (Kds::QUADRATIC, Kds::TILT_SHARE),
    }
}

/// The text of a part.
fn part(name: &str) -> Result<&'static str> {
    PARTS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text).ok_or_else(|| {
        let known: Vec<_> = PARTS.iter().map(|(name, _)| *name).collect();
        Error::invalid(format!("unknown shader part '{name}', expected one of {}", known.join(", ")))
    })
}

impl Choice {
    /// The part that a name stands for: a choice's, or itself.
    fn resolve(&self, name: &str) -> String {
        let chosen = match name {
            "kernel" if self.kernel.traits().gaussian => "kernel/rbf",
            "kernel" => "kernel/imq_plus",
            "pair" => "objective/pair",
            "objective" => return format!("objective/{}", self.objective),
            "activation" => {
                return format!("activation/{}", self.activation.map_or("identity", Activation::name));
            }
            "diffusion" if self.full => "diffusion/full",
            "diffusion" => "diffusion/diagonal",
            "diffusion_rows" => "diffusion/rows",
            "adjoint_source" if self.estimator == Estimator::Linear => "adjoint_pairs",
            "adjoint_source" => "adjoint_sums",
            "outer_source" if self.estimator == Estimator::Linear => "outer_pairs",
            "outer_source" => "outer_sums",
            other => other,
        };
        chosen.to_owned()
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
            };
            label.push('.');
            label.push_str(name);
        }
        label
    }

    /// Constants along a stage's axes: a shader that uses one of another axis does not compile.
    fn constants(&self, stage: &Stage) -> String {
        let mut text = String::new();
        let flag = |text: &mut String, name: &str, value: bool| {
            text.push_str(&format!("const {name}: bool = {value};\n"));
        };
        let kernel = self.kernel.traits();
        let (quadratic, share) = traits_of_objective(self.objective);
        let has = |axis| stage.axes.contains(&axis);
        if has(Axis::Kernel) {
            flag(&mut text, "TILTED", kernel.tilted);
            flag(&mut text, "LINEAR", kernel.linear);
            flag(&mut text, "GAUSSIAN", kernel.gaussian);
        }
        if has(Axis::Objective) {
            flag(&mut text, "QUADRATIC", quadratic);
        }
        if has(Axis::Estimator) {
            flag(&mut text, "ALL_PAIRS", self.estimator != Estimator::Linear);
            flag(&mut text, "DISTINCT", self.estimator == Estimator::U);
        }
        if has(Axis::Model) {
            flag(&mut text, "MLP", self.activation.is_some());
        }
        if has(Axis::Diffusion) {
            flag(&mut text, "FULL", self.full);
        }
        if has(Axis::Objective) {
            text.push_str(&format!("const TILT_SHARE: f32 = {share:?};\n"));
        }
        if has(Axis::Objective) && has(Axis::Kernel) {
            let sums = SumLayout::of(self.objective, self.kernel);
            // KDS keeps three arrays of rows in shared memory: half as deep, it stays within 16 KiB.
            let chunk = if quadratic { 2 } else { 4 };
            let pair_rows = pair_rows(self.objective, self.kernel);
            let tile_pairs = pair_rows * PAIR_COLUMNS;
            flag(&mut text, "TWO", pair_rows == 32);
            let parts = match (self.estimator, quadratic) {
                (Estimator::Linear, _) => 1,
                (_, false) => 3,
                (_, true) => 4,
            };
            for (name, value) in [
                ("SUMS", sums.count),
                ("SUM_R", sums.r),
                ("SUM_W", sums.w),
                ("SUM_Z", sums.z),
                ("SUM_M", sums.m),
                ("CHUNK", chunk),
                ("PAIR_ROWS", pair_rows),
                ("ROWS_QUADS", pair_rows * chunk),
                ("COLUMNS_QUADS", PAIR_COLUMNS * chunk),
                // Shared arrays that a variant does without shrink to one element.
                ("B_ROWS", if quadratic { pair_rows * chunk } else { 1 }),
                ("B_COLUMNS", if quadratic { PAIR_COLUMNS * chunk } else { 1 }),
                ("A_ROWS", if quadratic && self.full { pair_rows * chunk } else { 1 }),
                ("A_COLUMNS", if quadratic && self.full { PAIR_COLUMNS * chunk } else { 1 }),
                ("TILE_PAIRS", tile_pairs),
                ("RW_PAIRS", if quadratic { tile_pairs } else { 1 }),
                ("ZM_PAIRS", if kernel.gaussian { 1 } else { tile_pairs }),
                ("SECOND_DOTS", if quadratic || kernel.linear { 256 } else { 1 }),
                ("THIRD_DOTS", if quadratic && kernel.linear { 256 } else { 1 }),
                ("OUTER_PARTS", parts),
            ] {
                text.push_str(&format!("const {name}: u32 = {value}u;\n"));
            }
        }
        text
    }

    /// The stage's source with every `#use` replaced.
    fn expand(&self, name: &str, seen: &mut Vec<String>) -> Result<String> {
        let name = self.resolve(name);
        if seen.contains(&name) {
            return Ok(String::new());
        }
        let mut text = String::new();
        let source = part(&name)?;
        seen.push(name);
        for line in source.lines() {
            match line.strip_prefix("#use ") {
                Some(used) => text.push_str(&self.expand(used.trim(), seen)?),
                None => {
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
        Ok(text)
    }

    /// Composes `stage`.
    pub fn compose(&self, stage: &Stage) -> Result<Composed> {
        let body = self.expand(stage.name, &mut Vec::new())?;
        let named = identifiers(&body);
        let slots: Vec<Slot> =
            Slot::ALL.into_iter().filter(|slot| named.contains(&slot.declaration().0)).collect();
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
        let (declaration, uniform) = match stage.told {
            Told::Job => (Job::wgsl(), "Job"),
            Told::Training => (Training::wgsl(), "Training"),
            Told::Walk => (Walk::wgsl(), "Walk"),
        };
        source.push_str(&declaration);
        source.push_str(&format!("@group(0) @binding(0) var<uniform> job: {uniform};\n"));
        for (at, slot) in slots.iter().enumerate() {
            let (name, element, shape) = slot.declaration();
            let access = if stage.writes.contains(slot) { "read_write" } else { "read" };
            let binding = at + 1;
            source.push_str(&format!(
                "@group(0) @binding({binding}) var<storage, {access}> {name}: array<{element}>; // {shape}\n"
            ));
        }
        source.push_str(&body);
        Ok(Composed { label: self.label(stage), source, slots })
    }
}

/// Identifiers of WGSL text outside comments that are not fields of something.
fn identifiers(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in source.lines() {
        let code = line.split("//").next().unwrap_or("");
        let mut rest = code;
        while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_') {
            let field = rest[..start].ends_with('.');
            let word = &rest[start..];
            let end = word.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(word.len());
            if !field && !found.contains(&&word[..end]) {
                found.push(&word[..end]);
            }
            rest = &word[end..];
        }
    }
    found
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
                        let choice = Choice { objective, kernel, estimator, activation, full };
                        for stage in stages::ALL {
                            // A stage of the other estimator's has no such variant.
                            let linear = estimator == Estimator::Linear;
                            if linear && matches!(stage.name, "all_pairs" | "turn") {
                                continue;
                            }
                            let composed = choice.compose(stage)?;
                            if !all.iter().any(|(_, known)| known.label == composed.label) {
                                all.push((stage, composed));
                            }
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
    };

    #[test]
    fn parts_are_chosen_and_come_once() {
        let composed = CHOICE.compose(&stages::ADJOINT).unwrap();
        assert_eq!(composed.label, "adjoint.kds.imq-plus.u.tanh.full");
        assert_eq!(composed.source.matches("fn activate(").count(), 1);
        assert!(composed.source.contains("2.0 * sigmoid") || composed.source.contains("tanh z"));
        assert!(composed.source.contains("const FULL: bool = true;"));
        assert!(!composed.source.contains("#use"));
        assert!(composed.slots.contains(&Slot::Sums) && !composed.slots.contains(&Slot::Environments));
    }

    #[test]
    fn an_unknown_part_is_an_error_that_lists_the_known() {
        let sentence = CHOICE.expand("kernel/laplace", &mut Vec::new()).unwrap_err().to_string();
        assert!(sentence.contains("unknown shader part 'kernel/laplace'"), "{sentence}");
        assert!(sentence.contains("kernel/rbf"), "{sentence}");
    }

    #[test]
    fn comments_and_fields_are_no_identifiers() {
        let found = identifiers("let a = job.work; // sums\nx[b] = 1.0;");
        assert_eq!(found, ["let", "a", "job", "x", "b"]);
    }
}
