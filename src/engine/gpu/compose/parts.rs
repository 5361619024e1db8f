//! The files in `shaders/` except those of kernels, which the list of kernels names.

use crate::{Error, Result};

/// The parts that `#use` can name, and the stages' files.
macro_rules! parts {
    ($($name:literal),+ $(,)?) => {
        const PARTS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../shaders/", $name, ".wgsl")))),+];
    };
}

parts!(
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
    "gradient",
    "noted",
    "unpadded",
    "backward_split",
    "backward_whole",
    "reduce_split",
    "reduce_whole",
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
    "adam",
    "euler",
);

/// The text of a part.
pub(super) fn part(name: &str) -> Result<&'static str> {
    PARTS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text).ok_or_else(|| {
        let known: Vec<_> = PARTS.iter().map(|(name, _)| *name).collect();
        Error::invalid(format!("unknown shader part '{name}', expected one of {}", known.join(", ")))
    })
}
