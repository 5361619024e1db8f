//! Every stage: its name (shader file, pipeline label, CPU twin), what it is composed of and what it writes.

/// A buffer that shaders see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Slot {
    /// Samples of the span.
    X,
    /// Records of the span's rows.
    Work,
    /// Samples of the span that columns come from.
    XOther,
    /// Records of that span's rows.
    WorkOther,
    /// All parameters.
    Parameters,
    /// a of each environment, and its traces.
    Diffusion,
    /// A point within each environment's samples.
    Centres,
    /// What each block belongs to.
    Blocks,
    /// Where each environment's blocks are.
    Environments,
    /// Sums over the rows of a block.
    Columns,
    /// Sums over the blocks of an environment.
    Totals,
    /// Sums over all pairs of a row.
    Sums,
    /// Splits of ∂/∂W.
    Partials,
    /// ∂/∂a of each environment.
    ABar,
    /// ∂/∂a + (∂/∂a)ᵀ of each environment.
    Symmetric,
    /// The gradient of every parameter.
    Gradient,
    /// Partial sums of each environment's loss.
    Losses,
    /// Adam's mean and mean square of each parameter.
    Moments,
    /// 1 for a free parameter, 0 for a fixed one.
    Free,
    /// Steps taken, first bad entry of the gradient, first bad partial loss, whether training stands.
    State,
    /// What the penalty's effects are multiplied with.
    Multipliers,
    /// Norms of the outgoing groups.
    Norms,
    /// Partial sums of the penalty.
    Penalties,
    /// All samples, which batches are drawn from.
    Samples,
    /// Where each environment's samples are.
    Sources,
    /// The least value of each variable in a simulation.
    Floors,
    /// The seed of each environment's random numbers in a simulation.
    Seeds,
}

impl Slot {
    /// Every slot, in the order of bindings.
    pub const ALL: [Slot; 27] = [
        Slot::X,
        Slot::Work,
        Slot::XOther,
        Slot::WorkOther,
        Slot::Parameters,
        Slot::Diffusion,
        Slot::Centres,
        Slot::Blocks,
        Slot::Environments,
        Slot::Columns,
        Slot::Totals,
        Slot::Sums,
        Slot::Partials,
        Slot::ABar,
        Slot::Symmetric,
        Slot::Gradient,
        Slot::Losses,
        Slot::Moments,
        Slot::Free,
        Slot::State,
        Slot::Multipliers,
        Slot::Norms,
        Slot::Penalties,
        Slot::Samples,
        Slot::Sources,
        Slot::Floors,
        Slot::Seeds,
    ];

    /// Name, element and shape in WGSL.
    pub fn declaration(self) -> (&'static str, &'static str, &'static str) {
        const QUAD: &str = "vec4<f32>";
        match self {
            Slot::X => ("x", QUAD, "(rows of the span, stride)"),
            Slot::Work => ("work", QUAD, "(rows of the span, work_stride)"),
            Slot::XOther => ("x_other", QUAD, "(rows of the other span, stride)"),
            Slot::WorkOther => ("work_other", QUAD, "(rows of the other span, work_stride)"),
            Slot::Parameters => ("parameters", QUAD, "weights, …, scales at the places that job names"),
            Slot::Diffusion => ("diffusion", QUAD, "(environments, diffusion_stride)"),
            Slot::Centres => ("centres", QUAD, "(environments, stride)"),
            Slot::Blocks => ("blocks", "Block", "(blocks)"),
            Slot::Environments => ("environments", "Environment", "(environments)"),
            Slot::Columns => ("columns", QUAD, "(blocks, columns_stride)"),
            Slot::Totals => ("totals", QUAD, "(environments, columns_stride)"),
            Slot::Sums => ("sums", QUAD, "(splits, rows of the span, sums_stride)"),
            Slot::Partials => ("partials", QUAD, "(splits, units, stride)"),
            Slot::ABar => ("a_bar", QUAD, "(environments, dim, stride)"),
            Slot::Symmetric => ("symmetric", QUAD, "(environments, dim, stride)"),
            Slot::Gradient => ("gradient", QUAD, "like parameters"),
            Slot::Losses => ("losses", "f32", "(environments, 16)"),
            Slot::Moments => ("moments", QUAD, "(quads of parameters, 2)"),
            Slot::Free => ("free", QUAD, "like parameters"),
            Slot::State => ("state", "atomic<u32>", "(4)"),
            Slot::Multipliers => ("multipliers", QUAD, "(dim, stride)"),
            Slot::Norms => ("norms", QUAD, "(stride)"),
            Slot::Penalties => ("penalties", "f32", "(workgroups)"),
            Slot::Samples => ("samples", QUAD, "(rows of all environments, stride)"),
            Slot::Sources => ("sources", "Source", "(environments)"),
            Slot::Floors => ("floors", QUAD, "(stride)"),
            Slot::Seeds => ("seeds", "vec2<u32>", "(environments)"),
        }
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
}

/// One stage.
#[derive(Debug)]
pub struct Stage {
    /// Shader file, pipeline label and name in reports.
    pub name: &'static str,
    /// What its source is composed by.
    pub axes: &'static [Axis],
    /// The buffers it writes; those that its source names otherwise are read.
    pub writes: &'static [Slot],
    /// Threads of a workgroup.
    pub threads: u32,
    /// The uniform it is told its work by.
    pub told: Told,
}

/// Which uniform a stage has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// [`super::shared::Job`].
    Job,
    /// [`super::shared::Training`].
    Training,
    /// [`super::shared::Walk`].
    Walk,
}

macro_rules! stages {
    ($($(#[doc = $doc:literal])* $constant:ident = $name:literal [$($axis:ident)*] writes [$($slot:ident)*] by $threads:literal $told:ident;)+) => {
        $($(#[doc = $doc])* pub static $constant: Stage = Stage {
            name: $name,
            axes: &[$(Axis::$axis),*],
            writes: &[$(Slot::$slot),*],
            threads: $threads,
            told: Told::$told,
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
    DRIFT = "drift" [Model] writes [Work] by 128 Job;
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
    BACKWARD = "backward" [Model] writes [Partials] by 128 Job;
    /// ∂/∂a.
    OUTER = "outer" [Objective Kernel Estimator] writes [ABar] by 128 Job;
    /// Sums over blocks and splits.
    REDUCE = "reduce" [Estimator] writes [Totals Gradient Losses] by 256 Job;
    /// ∂/∂a + its transpose, ∂/∂log_scale.
    SYMMETRIC = "symmetric" [] writes [Symmetric Gradient] by 256 Job;
    /// ∂/∂noise.
    NOISE = "noise" [] writes [Gradient] by 128 Job;
    /// The rest of the gradient.
    FINISH = "finish" [Diffusion] writes [Gradient Losses] by 256 Job;
    /// The batch of a step.
    DRAW = "draw" [] writes [X Blocks Environments State] by 256 Training;
    /// Norms of outgoing groups.
    NORMS = "norms" [] writes [Norms] by 256 Training;
    /// The penalty's value and subgradient.
    PENALTY = "penalty" [] writes [Gradient Penalties] by 256 Training;
    /// Counts the step and looks for NaN and infinity.
    FINITE = "finite" [] writes [State] by 256 Training;
    /// One Adam update.
    ADAM = "adam" [] writes [Parameters Moments State] by 256 Training;
    /// One step of every chain of a simulation.
    EULER = "euler" [Diffusion] writes [X Work] by 256 Walk;
}
