//! Constants and structs that host and shaders share. Rust owns them: the WGSL declarations are generated from here,
//! so the two sides cannot drift apart.

use crate::engine::draw;
use encase::ShaderType;

/// Rows per block. Every environment is padded to whole blocks, so a block lies in one environment.
pub const ROW_BLOCK: u32 = 64;
/// Rows and columns of a tile of a matrix product.
pub const TILE: u32 = 64;
/// The same where there are enough tiles to keep a device busy.
pub const WIDE_TILE: u32 = 128;
/// Rows of a workgroup where a row has many threads: `draw`, `tilt`, `pairs`. A block of rows makes eight workgroups.
pub const GROUP_ROWS: u32 = 8;
/// Depth of a tile of a matrix product.
pub const DEPTH: u32 = 16;
/// Workgroups per row of a folded dispatch: what every device allows in one dimension.
pub const FOLD: u32 = 65_535;
/// Partial sums of the loss per environment that the host adds up.
pub const LOSS_LANES: u32 = 16;
/// Quads at the head of a row's record in `work`: (ω, τ, rest, ∂/∂rest), (c_b, c_r, c_z, c_y), (c_w, c_m, 0, 0).
pub const RECORD_NUMBERS: u32 = 3;

/// Declares a struct for both sides.
macro_rules! shared_struct {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])* $field:ident: $ty:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, ShaderType)]
        pub struct $name {
            $($(#[doc = $doc])* pub $field: $ty),+
        }

        impl $name {
            /// The WGSL declaration.
            pub fn wgsl() -> String {
                let mut text = String::from(concat!("struct ", stringify!($name), " {\n"));
                $(text.push_str(concat!("    ", stringify!($field), ": ", stringify!($ty), ",\n"));)+
                text.push_str("}\n");
                text
            }
        }
    };
}

shared_struct! {
    /// A block of rows and its environment.
    Block {
        /// The environment.
        environment: u32,
        /// The environment's first block.
        first_block: u32,
        /// The environment's samples.
        rows: u32,
        /// 1 / (E · pairs).
        weight: f32,
    }
}

shared_struct! {
    /// An environment's place among the blocks.
    Environment {
        /// Its first block.
        first_block: u32,
        /// How many blocks it has.
        blocks: u32,
        /// Its samples.
        rows: u32,
        /// 1 / (E · pairs).
        weight: f32,
    }
}

shared_struct! {
    /// The numbers of a dispatch. Offsets and strides count quads (vec4).
    Job {
        /// Workgroups that have work; a folded dispatch has a few more.
        groups: u32,
        /// The span's first block.
        first_block: u32,
        /// The span's rows.
        rows: u32,
        /// Where `all_pairs` starts within the span.
        first_row: u32,
        /// The first block of the span that the columns of `all_pairs` come from.
        other_block: u32,
        /// Its rows.
        other_rows: u32,
        /// Whether sums go on from an earlier dispatch.
        accumulate: u32,
        /// What `all_pairs` weighs b̃ of a column by, for kernels that are not Gaussian: 0 the kernel, 1 −½φ', 2 −½φ''.
        weigh: u32,
        /// Into how many parts a sum over rows is cut.
        splits: u32,
        /// Tiles of 16 quads across.
        column_tiles: u32,
        /// `finish`: tiles of 16 quads over the MLP's outer layers.
        unit_tiles: u32,
        /// `reduce`: workgroups that add up the weights' splits.
        weight_groups: u32,
        /// d.
        dim: u32,
        /// Quads of a row of d numbers.
        stride: u32,
        /// Rows of the weights, with padding: unit by unit, in each the variables rounded up to whole quads.
        units: u32,
        /// Quads of a row of units.
        unit_stride: u32,
        /// h; 0 for the linear model.
        hidden: u32,
        /// E.
        environments: u32,
        /// d rounded up to DEPTH.
        padded_dim: u32,
        /// Quads of a row's record in `work`.
        work_stride: u32,
        /// b, then b̃.
        at_b: u32,
        /// ∂/∂b.
        at_bar: u32,
        /// The MLP's activations, then the derivatives with respect to their arguments.
        at_hidden: u32,
        /// a (x − centre) (full diffusion).
        at_spread: u32,
        /// Rows whose outer products with the samples give ∂/∂a (full diffusion).
        at_left: u32,
        /// Quads of an environment's record in `diffusion`.
        diffusion_stride: u32,
        /// (tr a, tr a²) in it.
        at_traces: u32,
        /// Quads of a block's record in `columns` and an environment's in `totals`.
        columns_stride: u32,
        /// Where in `columns` the terms of `pairs` lie.
        at_terms: u32,
        /// Σ ∂/∂b in a record of `columns`.
        at_bar_sum: u32,
        /// Σ ∂/∂α.
        at_alpha_sum: u32,
        /// Σ ∂/∂b · b.
        at_euler_sum: u32,
        /// Σ for the MLP's output weights.
        at_output_sum: u32,
        /// Σ for the MLP's hidden biases.
        at_hidden_sum: u32,
        /// Quads of a row's record in `sums`.
        sums_stride: u32,
        /// Places in `parameters` and `gradient`.
        at_weights: u32,
        /// MLP.
        at_hidden_biases: u32,
        /// MLP.
        at_output: u32,
        /// Biases.
        at_biases: u32,
        /// Noise.
        at_noise: u32,
        /// Shifts.
        at_shift: u32,
        /// Log-scales.
        at_scale: u32,
        /// η of a Gaussian profile.
        decay: f32,
        /// What R_z lacks where another sum serves for it.
        z_factor: f32,
        /// What R_m lacks.
        m_factor: f32,
    }
}

shared_struct! {
    /// Where an environment's rows lie among the resident samples.
    Source {
        /// Its first row.
        first_row: u32,
        /// Its rows.
        rows: u32,
    }
}

shared_struct! {
    /// The numbers of a training stage.
    Training {
        /// Workgroups that have work.
        groups: u32,
        /// Quads of parameters.
        quads: u32,
        /// d.
        dim: u32,
        /// Quads of a row of d numbers.
        stride: u32,
        /// Units per variable: 1, or h.
        units_per_variable: u32,
        /// Where the penalised weights begin.
        at_weights: u32,
        /// What the penalty of single effects is multiplied with: 0, 1 or d.
        ingoing: f32,
        /// Whether all effects of a variable together are penalised.
        outgoing: u32,
        /// λ/d².
        strength: f32,
        /// Whether effects have multipliers other than 1.
        weighted: u32,
        /// Adam's step size.
        learning_rate: f32,
        /// Adam's decay of the mean.
        beta1: f32,
        /// Adam's decay of the mean square.
        beta2: f32,
        /// Adam's ε.
        epsilon: f32,
        /// The lower half of the seed of draws.
        seed_low: u32,
        /// Its upper half.
        seed_high: u32,
        /// The first block of the span to fill.
        first_block: u32,
        /// Environments drawn per step.
        slots: u32,
        /// Blocks of each of them.
        slot_blocks: u32,
        /// Rows of each of them.
        batch_rows: u32,
        /// E.
        environments: u32,
    }
}

shared_struct! {
    /// The numbers of a step of a simulation.
    Walk {
        /// Workgroups that have work.
        groups: u32,
        /// The span's first block.
        first_block: u32,
        /// d.
        dim: u32,
        /// Quads of a row of d numbers.
        stride: u32,
        /// Quads of a chain's record in `work`.
        work_stride: u32,
        /// b in it.
        at_b: u32,
        /// z in it (full diffusion).
        at_bar: u32,
        /// Noise in `parameters`.
        at_noise: u32,
        /// Log-scales in `parameters`.
        at_scale: u32,
        /// Steps so far, this one included; 0 draws where chains start.
        step: u32,
        /// The length of a step in time.
        dt: f32,
        /// Its root.
        root_dt: f32,
    }
}

/// The constants that every shader may use.
pub fn constants() -> String {
    declarations(&[("ROW_BLOCK", ROW_BLOCK), ("GROUP_ROWS", GROUP_ROWS), ("DEPTH", DEPTH), ("FOLD", FOLD)])
}

/// The constants of the permutation that draws batches.
pub fn permutation() -> String {
    declarations(&[("ROUNDS", draw::ROUNDS), ("LEAST_BITS", draw::LEAST_BITS)])
}

/// Numbers as WGSL declares them.
pub(super) fn declarations(numbers: &[(&str, u32)]) -> String {
    numbers.iter().map(|(name, value)| format!("const {name}: u32 = {value}u;\n")).collect()
}
