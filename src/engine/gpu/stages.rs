//! Every stage: its name (shader file, pipeline label, CPU twin), what it is composed of and what it writes.

use crate::{Error, Result};

macro_rules! slots {
    ($($(#[doc = $doc:literal])* $slot:ident = $name:literal: $element:literal, $shape:literal;)+) => {
        /// A buffer that shaders see. The order is that of bindings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Slot {
            $($(#[doc = $doc])* $slot,)+
        }

        impl Slot {
            /// Every slot, in the order of bindings.
            pub const ALL: &[Slot] = &[$(Slot::$slot),+];

            /// Name, element and shape in WGSL.
            pub fn declaration(self) -> (&'static str, &'static str, &'static str) {
                match self {
                    $(Slot::$slot => ($name, $element, $shape),)+
                }
            }
        }
    };
}

slots! {
    /// Samples of the span.
    X = "x": "vec4<f32>", "(rows of the span, stride)";
    /// Records of the span's rows.
    Work = "work": "vec4<f32>", "(rows of the span, work_stride)";
    /// Samples of the span that columns come from.
    XOther = "x_other": "vec4<f32>", "(rows of the other span, stride)";
    /// Records of that span's rows.
    WorkOther = "work_other": "vec4<f32>", "(rows of the other span, work_stride)";
    /// All parameters.
    Parameters = "parameters": "vec4<f32>", "weights, …, scales at the places that job names";
    /// a of each environment, and its traces.
    Diffusion = "diffusion": "vec4<f32>", "(environments, diffusion_stride)";
    /// A point within each environment's samples.
    Centres = "centres": "vec4<f32>", "(environments, stride)";
    /// What each block belongs to.
    Blocks = "blocks": "Block", "(blocks)";
    /// Where each environment's blocks are.
    Environments = "environments": "Environment", "(environments)";
    /// Sums over the rows of a block.
    Columns = "columns": "vec4<f32>", "(blocks, columns_stride), then terms of pairs (blocks, 8)";
    /// Sums over the blocks of an environment.
    Totals = "totals": "vec4<f32>", "(environments, columns_stride)";
    /// Sums over all pairs of a row.
    Sums = "sums": "vec4<f32>", "(splits, rows of the span, sums_stride)";
    /// Splits of ∂/∂W.
    Partials = "partials": "vec4<f32>", "(splits, units, stride)";
    /// ∂/∂a of each environment.
    ABar = "a_bar": "vec4<f32>", "(environments, dim, stride)";
    /// ∂/∂a + (∂/∂a)ᵀ of each environment.
    Symmetric = "symmetric": "vec4<f32>", "(environments, dim, stride)";
    /// The gradient of every parameter.
    Gradient = "gradient": "vec4<f32>", "like parameters";
    /// Partial sums of each environment's loss.
    Losses = "losses": "f32", "(environments, 16)";
    /// Adam's mean and mean square of each parameter.
    Moments = "moments": "vec4<f32>", "(quads of parameters, 2)";
    /// A bit per parameter: 1 for a free one, 0 for a fixed one.
    Free = "free": "u32", "(quads of parameters / 8)";
    /// Steps taken, first bad entry of the gradient, first bad partial loss, whether training has stopped.
    State = "state": "atomic<u32>", "(4)";
    /// What the penalty's effects are multiplied with.
    Multipliers = "multipliers": "vec4<f32>", "(dim, stride)";
    /// Norms of the outgoing groups.
    Norms = "norms": "vec4<f32>", "(stride)";
    /// Partial sums of the penalty.
    Penalties = "penalties": "f32", "(workgroups)";
    /// All samples, which batches are drawn from.
    Samples = "samples": "vec4<f32>", "(rows of all environments, stride)";
    /// Where each environment's samples are.
    Sources = "sources": "Source", "(environments)";
    /// The least value of each variable in a simulation.
    Floors = "floors": "vec4<f32>", "(stride)";
    /// The seed of each environment's random numbers in a simulation.
    Seeds = "seeds": "vec2<u32>", "(environments)";
}

impl Slot {
    /// The slot with this name in WGSL.
    pub fn named(name: &str) -> Result<Slot> {
        Slot::ALL.iter().copied().find(|slot| slot.declaration().0 == name).ok_or_else(|| {
            let known: Vec<_> = Slot::ALL.iter().map(|slot| slot.declaration().0).collect();
            Error::invalid(format!("unknown buffer '{name}', expected one of {}", known.join(", ")))
        })
    }
}

/// A choice that a stage depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// SKDS or KDS.
    Objective,
    /// The kernel.
    Kernel,
    /// The pairs.
    Estimator,
    /// Linear or MLP with its activation.
    Model,
    /// Diagonal or full.
    Diffusion,
    /// The size of a product's tiles.
    Tile,
    /// Whether ∂/∂W comes in parts.
    Split,
}

/// One stage.
#[derive(Debug)]
pub struct Stage {
    /// Shader file, pipeline label and name in reports.
    pub name: &'static str,
    /// What its source is composed by.
    pub axes: &'static [Axis],
    /// The buffers it writes; the others that it binds are read.
    pub writes: &'static [Slot],
    /// Threads of a workgroup; a product with wide tiles has twice as many.
    pub threads: u32,
    /// The uniform with the numbers of a dispatch.
    pub uniform: Uniform,
}

/// Which uniform a stage has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uniform {
    /// [`super::shared::Job`].
    Job,
    /// [`super::shared::Training`].
    Training,
    /// [`super::shared::Walk`].
    Walk,
}

impl Uniform {
    /// The name of its struct in WGSL.
    pub fn name(self) -> &'static str {
        match self {
            Uniform::Job => "Job",
            Uniform::Training => "Training",
            Uniform::Walk => "Walk",
        }
    }
}

macro_rules! stages {
    ($($(#[doc = $doc:literal])* $constant:ident = $name:literal [$($axis:ident)*] writes [$($slot:ident)*] by $threads:literal $uniform:ident;)+) => {
        $($(#[doc = $doc])* pub static $constant: Stage = Stage {
            name: $name,
            axes: &[$(Axis::$axis),*],
            writes: &[$(Slot::$slot),*],
            threads: $threads,
            uniform: Uniform::$uniform,
        };)+

        /// Every stage.
        pub static ALL: &[&Stage] = &[$(&$constant),+];
    };
}

stages! {
    /// α and traces.
    DIFFUSION_DIAGONAL = "diffusion_diagonal" [] writes [Diffusion] by 256 Job;
    /// a = σσᵀ.
    DIFFUSION_FULL = "diffusion_full" [] writes [Diffusion] by 128 Job;
    /// Traces of a full a.
    TRACES = "traces" [] writes [Diffusion] by 256 Job;
    /// b, or the MLP's activations.
    DRIFT = "drift" [Tile Model] writes [Work] by 128 Job;
    /// a x of every sample.
    SPREAD = "spread" [] writes [Work] by 128 Job;
    /// b̃ and rest.
    TILT = "tilt" [Objective Kernel Model Diffusion] writes [Work] by 256 Job;
    /// Pair terms and coefficients.
    PAIRS = "pairs" [Objective Kernel Diffusion] writes [Work Columns] by 256 Job;
    /// Sums over all pairs.
    ALL_PAIRS = "all_pairs" [Objective Kernel Estimator Diffusion] writes [Sums] by 256 Job;
    /// a R_z.
    TURN = "turn" [Objective Kernel] writes [Work] by 128 Job;
    /// ∂/∂b and sums over rows.
    ADJOINT = "adjoint" [Objective Kernel Estimator Model Diffusion] writes [Work Columns] by 256 Job;
    /// ∂/∂W.
    BACKWARD = "backward" [Tile Split Model] writes [Partials Gradient State] by 128 Job;
    /// ∂/∂a.
    OUTER = "outer" [Objective Kernel Estimator] writes [ABar] by 128 Job;
    /// Sums over blocks and splits.
    REDUCE = "reduce" [Split Estimator] writes [Totals Gradient Losses State] by 256 Job;
    /// ∂/∂a + its transpose, ∂/∂log_scale.
    SYMMETRIC = "symmetric" [] writes [Symmetric Gradient State] by 256 Job;
    /// ∂/∂noise.
    NOISE = "noise" [] writes [Gradient State] by 128 Job;
    /// The rest of the gradient, and the count of steps.
    FINISH = "finish" [Diffusion] writes [Gradient Losses State] by 256 Job;
    /// The batch of a step.
    DRAW = "draw" [] writes [X Blocks Environments State] by 256 Training;
    /// Norms of outgoing groups.
    NORMS = "norms" [] writes [Norms] by 256 Training;
    /// One Adam update with the penalty.
    ADAM = "adam" [] writes [Parameters Moments State Penalties] by 256 Training;
    /// One step of every chain of a simulation.
    EULER = "euler" [Diffusion] writes [X Work] by 256 Walk;
}
