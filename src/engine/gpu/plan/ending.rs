//! How a training step ends: its dispatches after the gradient, and the bytes that pass between the device's memory and
//! its units from ∂/∂W on. Buffers as large as the parameters decide them.

use super::{DispatchPlan, QUAD};
use crate::engine::gpu::form::Form;
use crate::engine::gpu::shared::{GROUP_ROWS, ROW_BLOCK};
use crate::engine::gpu::stages::{self, Slot, Stage};

/// Workgroups of the stage that strides over all parameters.
const STRIDING_GROUPS: u32 = 256;
/// Quads of variables that a workgroup of stage `norms` takes.
const NORM_QUADS: u64 = 4;

/// What the end of a step has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Whether all effects of a variable are penalised together.
    pub outgoing: bool,
    /// Whether effects have multipliers other than 1.
    pub weighted: bool,
}

/// A stage at the end of a step.
#[derive(Clone, Debug)]
pub struct Ending {
    /// The stage.
    pub stage: &'static Stage,
    /// Its workgroups.
    pub groups: u32,
    /// Bytes read and written of each buffer.
    pub moved: Vec<(Slot, u64)>,
}

impl Ending {
    /// Bytes of all buffers.
    pub fn bytes(&self) -> u64 {
        self.moved.iter().map(|(_, bytes)| bytes).sum()
    }
}

impl DispatchPlan {
    /// Workgroups that fill a span's part of a batch.
    pub fn draw_groups(&self, span: usize) -> u32 {
        (self.spans[span].blocks * u64::from(ROW_BLOCK / GROUP_ROWS)) as u32
    }

    /// The stages after the gradient, in order.
    pub fn endings(&self, form: &Form, ends: Ends) -> Vec<Ending> {
        let parameters = self.sizes.parameters;
        let weights = form.units() * form.stride() * QUAD;
        let norms = form.stride() * QUAD;
        let multipliers = if ends.weighted { form.dim as u64 * norms } else { 0 };
        let mut list = Vec::new();
        if ends.outgoing {
            let moved = vec![
                (Slot::Parameters, weights),
                (Slot::Multipliers, multipliers * form.units_per_variable() as u64),
                (Slot::Norms, norms),
            ];
            let groups = form.stride().div_ceil(NORM_QUADS) as u32;
            list.push(Ending { stage: &stages::NORMS, groups, moved });
        }
        let moved = vec![
            (Slot::Parameters, 2 * parameters),
            (Slot::Gradient, parameters),
            (Slot::Moments, 4 * parameters),
            (Slot::Free, Self::free_bytes(parameters)),
            (Slot::State, 16),
            (Slot::Multipliers, multipliers),
            (Slot::Norms, if ends.outgoing { norms } else { 0 }),
            (Slot::Penalties, Self::penalty_bytes()),
        ];
        list.push(Ending { stage: &stages::ADAM, groups: STRIDING_GROUPS, moved });
        list
    }

    /// The stages from the writing of ∂/∂W up to the whole gradient, for neighbouring rows and a diagonal diffusion. Of
    /// `backward` only what it writes counts: how often it reads rows is a matter of its tiles.
    pub fn gradient_endings(&self, form: &Form) -> Vec<Ending> {
        let s = &self.sizes;
        let weights = form.units() * form.stride() * QUAD;
        // Later spans add to what earlier ones left.
        let passes = 2 * self.spans.len() as u64 - 1;
        let mut reduce = vec![
            (Slot::Environments, s.environments),
            (Slot::Columns, s.columns),
            (Slot::Totals, s.totals),
            (Slot::Losses, s.losses),
            (Slot::State, 16),
        ];
        let backward = if s.partials > 0 {
            reduce.extend([(Slot::Partials, s.partials), (Slot::Gradient, weights)]);
            vec![(Slot::Partials, passes * s.partials)]
        } else {
            vec![(Slot::Gradient, passes * weights), (Slot::State, 16)]
        };
        let finish = vec![
            (Slot::Diffusion, s.diffusion),
            (Slot::Totals, s.totals),
            (Slot::Losses, s.losses),
            (Slot::Gradient, s.parameters - weights),
            (Slot::State, 16),
        ];
        let groups_of = |stage: &Stage| {
            let of_stage = self.gradient.iter().find(|dispatch| dispatch.stage.name == stage.name);
            of_stage.map_or(0, |dispatch| dispatch.job.groups)
        };
        [(&stages::BACKWARD, backward), (&stages::REDUCE, reduce), (&stages::FINISH, finish)]
            .into_iter()
            .map(|(stage, moved)| Ending { stage, groups: groups_of(stage), moved })
            .collect()
    }

    /// Bytes of a bit for every parameter.
    pub(in crate::engine::gpu) fn free_bytes(parameter_bytes: u64) -> u64 {
        (parameter_bytes / QUAD).div_ceil(8) * 4
    }

    /// Bytes of the partial sums of a penalty.
    pub(in crate::engine::gpu) fn penalty_bytes() -> u64 {
        u64::from(STRIDING_GROUPS) * 4
    }
}
