//! A training step that never leaves the device: evaluation, penalty, a look for NaN, one Adam update. The host
//! hears of it when it asks.

use super::context::Pipeline;
use super::session::Session;
use super::shared::{LOSS_LANES, TILE, Training};
use super::stages::{self, Slot, Stage};
use super::{GpuLoss, pack};
use crate::model::{Parameters, Penalty, PenaltyKind};
use crate::{Error, Result, Scalar};
use encase::{ShaderSize, UniformBuffer};
use std::collections::HashMap;
use std::sync::Arc;
use wgpu::{Buffer, BufferUsages};

/// Workgroups of the stages that stride over all parameters.
const STRIDING_GROUPS: u32 = 256;
/// What [`Slot::State`] holds where nothing was noted.
const NONE: u32 = u32::MAX;

/// The settings of Adam (Kingma and Ba).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// The step size.
    pub learning_rate: f32,
    /// Decay of the mean of gradients.
    pub beta1: f32,
    /// Decay of the mean of their squares.
    pub beta2: f32,
    /// What keeps the quotient finite.
    pub epsilon: f32,
}

impl Default for Adam {
    fn default() -> Self {
        Adam { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }
}

/// How training stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Steps taken.
    pub steps: u32,
    /// The mean loss at the parameters before the last step, without the penalty.
    pub loss: f64,
    /// The penalty there.
    pub penalty: f64,
}

/// One bound stage.
struct Bound {
    pipeline: Arc<Pipeline>,
    group: wgpu::BindGroup,
    groups: u32,
}

/// Training on a GPU. Parameters and moments stay on the device between steps.
pub struct GpuTraining<'a, T: Scalar> {
    loss: &'a mut GpuLoss,
    /// Shapes and names, for reports.
    like: Parameters<T>,
    bound: Vec<Bound>,
    buffers: HashMap<Slot, Buffer>,
    staging: Buffer,
}

impl GpuLoss {
    /// Starts training from `parameters`. `free` has 1 where a parameter may change and 0 where it is fixed.
    pub fn train<T: Scalar>(
        &mut self,
        parameters: &Parameters<T>,
        free: &Parameters<T>,
        penalty: Option<Penalty>,
        adam: Adam,
    ) -> Result<GpuTraining<'_, T>> {
        let bounds = self.bounds;
        self.session(parameters)?.check_room_for_training(&bounds)?;
        GpuTraining::new(self, parameters, free, penalty, adam)
    }
}

impl Session {
    /// Moments and masks are three times the parameters more.
    fn check_room_for_training(&self, bounds: &super::plan::Bounds) -> Result<()> {
        let needed = self.plan.bytes() + 4 * self.plan.sizes.parameters;
        if needed > bounds.budget_bytes {
            return Err(Error::invalid(format!(
                "training needs {} on the GPU, expected at most its budget of {}: use fewer rows or variables, or --device cpu",
                super::plan::bytes(needed),
                super::plan::bytes(bounds.budget_bytes)
            )));
        }
        Ok(())
    }
}

impl<'a, T: Scalar> GpuTraining<'a, T> {
    fn new(
        loss: &'a mut GpuLoss,
        parameters: &Parameters<T>,
        free: &Parameters<T>,
        penalty: Option<Penalty>,
        adam: Adam,
    ) -> Result<Self> {
        let session = loss.session.as_mut().expect("made by the caller");
        // From now on the device's parameters are its own.
        session.forget_parameters();
        let (context, form, sizes) = (session.context.clone(), session.form, session.plan.sizes);
        let mut buffers = HashMap::new();
        for (slot, size) in [
            (Slot::Moments, 2 * sizes.parameters),
            (Slot::Free, sizes.parameters),
            (Slot::State, 16),
            (Slot::Norms, form.stride() * 16),
            (Slot::Penalties, u64::from(STRIDING_GROUPS) * 4),
        ] {
            buffers.insert(slot, context.storage(slot.declaration().0, size)?);
        }
        context.write(&buffers[&Slot::Free], 0, bytemuck::cast_slice(&pack::parameters(free, &form)))?;
        context.write(&buffers[&Slot::State], 0, bytemuck::cast_slice(&[0u32, NONE, NONE, 0]))?;
        let read = sizes.losses + u64::from(STRIDING_GROUPS) * 4 + 16 + sizes.parameters;
        let staging =
            context.buffer("training staging", read, BufferUsages::COPY_DST | BufferUsages::MAP_READ)?;

        let d = form.dim as f64;
        let kind = penalty.map(|penalty| penalty.kind);
        let told = Training {
            groups: STRIDING_GROUPS,
            quads: (sizes.parameters / 16) as u32,
            losses: form.environments as u32 * LOSS_LANES,
            dim: form.dim as u32,
            stride: form.stride() as u32,
            units_per_variable: form.units_per_variable() as u32,
            at_weights: form.places().0.weights as u32,
            ingoing: u32::from(matches!(kind, Some(PenaltyKind::Ingoing | PenaltyKind::Both))),
            outgoing: u32::from(matches!(kind, Some(PenaltyKind::Outgoing | PenaltyKind::Both))),
            strength: penalty.map_or(0.0, |penalty| (penalty.lambda / (d * d)) as f32),
            learning_rate: adam.learning_rate,
            beta1: adam.beta1,
            beta2: adam.beta2,
            epsilon: adam.epsilon,
        };
        let column_tiles = told.stride.div_ceil(TILE / 4);
        let mut stages: Vec<(&'static Stage, Training)> = Vec::new();
        if told.outgoing != 0 {
            stages.push((&stages::NORMS, Training { groups: column_tiles, ..told }));
        }
        if kind.is_some() {
            stages.push((&stages::PENALTY, told));
        }
        stages.push((&stages::FINITE, told));
        stages.push((&stages::ADAM, told));
        let choice = form.choice(&loss.spec);
        let mut bound = Vec::new();
        for (stage, told) in stages {
            let session = loss.session.as_ref().expect("made by the caller");
            let composed = session.compose(&choice, stage)?;
            let pipeline = context.pipeline(stage, &composed)?;
            let size = Training::SHADER_SIZE.get();
            let uniform = context.buffer("training", size, BufferUsages::UNIFORM | BufferUsages::COPY_DST)?;
            let mut bytes = UniformBuffer::new(Vec::new());
            bytes.write(&told).expect("a vector takes every struct");
            context.write(&uniform, 0, &bytes.into_inner())?;
            let mut entries =
                vec![wgpu::BindGroupEntry { binding: 0, resource: uniform.as_entire_binding() }];
            for (at, slot) in composed.slots.iter().enumerate() {
                let buffer = buffers.get(slot).unwrap_or_else(|| session.buffer(*slot));
                entries.push(wgpu::BindGroupEntry {
                    binding: at as u32 + 1,
                    resource: buffer.as_entire_binding(),
                });
            }
            let group = context.bind(&pipeline.layout, &entries)?;
            bound.push(Bound { pipeline, group, groups: told.groups });
        }
        Ok(GpuTraining { loss, like: parameters.clone(), bound, buffers, staging })
    }

    fn session(&self) -> &Session {
        self.loss.session.as_ref().expect("training has a session")
    }

    /// One step: nothing is uploaded and nothing is read back.
    pub fn step(&mut self) -> Result<()> {
        let session = self.session();
        session.run(true, &self.loss.progress)?;
        let commands = session.context.record(|encoder| {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            for bound in &self.bound {
                pass.set_pipeline(&bound.pipeline.pipeline);
                pass.set_bind_group(0, &bound.group, &[0]);
                pass.dispatch_workgroups(bound.groups, 1, 1);
            }
            self.bound.len() as u64
        })?;
        session.context.submit(commands)
    }

    /// Waits until all steps so far are done.
    pub fn wait(&self) -> Result<()> {
        self.session().context.wait()
    }

    /// Dispatches, submissions and bytes since the device was opened.
    pub fn traffic(&self) -> super::Traffic {
        self.loss.traffic()
    }

    /// How training stands. A loss or gradient that was NaN or infinite is an error that names the step, and the
    /// environment or the parameter; the parameters are then those before that step.
    pub fn standing(&mut self) -> Result<Standing> {
        let session = self.session();
        let sizes = session.plan.sizes;
        let penalties = u64::from(STRIDING_GROUPS) * 4;
        let commands = session.context.record(|encoder| {
            let mut at = 0;
            let copies = [
                (session.buffer(Slot::Losses), sizes.losses),
                (&self.buffers[&Slot::Penalties], penalties),
                (&self.buffers[&Slot::State], 16),
            ];
            for (source, size) in copies {
                encoder.copy_buffer_to_buffer(source, 0, &self.staging, at, size);
                at += size;
            }
            0
        })?;
        session.context.submit(commands)?;
        let bytes = session.context.read(&self.staging, sizes.losses + penalties + 16)?;
        let (losses, rest) = bytes.split_at(sizes.losses as usize);
        let (penalties, state) = rest.split_at(penalties as usize);
        let losses: Vec<f32> = bytemuck::pod_collect_to_vec(losses);
        let penalties: Vec<f32> = bytemuck::pod_collect_to_vec(penalties);
        let state: Vec<u32> = bytemuck::pod_collect_to_vec(state);
        let step = state[0];
        if state[2] != NONE {
            let e = state[2] / LOSS_LANES;
            return Err(Error::NonFinite(format!(
                "step {step}: the loss of environment {e} is not finite; the parameters are those before that step"
            )));
        }
        if state[1] != NONE {
            let at = state[1] as usize;
            let (name, entry) = pack::name_of(&self.like, &session.form, at).unwrap_or(("padding", at));
            return Err(Error::NonFinite(format!(
                "step {step}: the gradient of {name} is not finite at entry {entry}; the parameters are those before that step"
            )));
        }
        let environments = session.form.environments as f64;
        let sum = |values: &[f32]| values.iter().map(|v| f64::from(*v)).sum::<f64>();
        Ok(Standing { steps: step, loss: sum(&losses) / environments, penalty: sum(&penalties) })
    }

    /// The parameters as they are now.
    pub fn parameters(&mut self) -> Result<Parameters<T>> {
        let session = self.session();
        let size = session.plan.sizes.parameters;
        let commands = session.context.record(|encoder| {
            encoder.copy_buffer_to_buffer(session.buffer(Slot::Parameters), 0, &self.staging, 0, size);
            0
        })?;
        session.context.submit(commands)?;
        let packed: Vec<f32> = bytemuck::pod_collect_to_vec(&session.context.read(&self.staging, size)?);
        let mut parameters = self.like.clone();
        pack::unpack(&packed, &session.form, &mut parameters);
        Ok(parameters)
    }
}
