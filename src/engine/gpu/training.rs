//! A training step that stays on the device: a batch, the evaluation, the penalty, a check for NaN, one Adam update. The
//! host reads results only when it is asked for them.

use super::context::Context;
use super::form::Form;
use super::plan::{DispatchPlan, Ends, fold};
use super::session::{BoundDispatch, Session, storage_bytes, uniform_bytes};
use super::shared::{LOSS_LANES, ROW_BLOCK, Source, Training};
use super::stages::{self, Slot, Stage};
use super::{GpuEngine, Traffic, pack};
use crate::data::Dataset;
use crate::engine::optimiser::{OptimiserKind, ShaderRates};
use crate::engine::training::check_multipliers;
use crate::engine::{Batches, LossSpec, Standing, State, Training as Trains, TrainingSpec};
use crate::model::{Parameters, PenaltyKind};
use crate::{Error, Matrix, Progress, Result};
use encase::ShaderSize;
use std::collections::HashMap;
use std::sync::Arc;
use wgpu::{Buffer, BufferUsages};

/// What [`Slot::State`] holds where nothing was noted.
const NONE: u32 = u32::MAX;

/// Training on a GPU. Samples, parameters and moments stay on the device between steps.
pub struct GpuTraining {
    session: Session,
    spec: LossSpec,
    /// Shapes and names, for reports.
    like: Parameters<f32>,
    /// The dispatches that draw a batch.
    before: Vec<BoundDispatch>,
    /// The dispatches that end a step.
    after: Vec<BoundDispatch>,
    buffers: HashMap<Slot, Buffer>,
    /// What all stages share of their uniforms.
    numbers: Training,
    staging: Buffer,
    progress: Progress,
}

impl GpuEngine {
    /// Starts training from `parameters` on batches of `data`, or on all of it at every step. `free` has 1 where a
    /// parameter may change and 0 where it is fixed.
    pub fn train(
        &self,
        data: &Dataset,
        spec: &TrainingSpec,
        parameters: &Parameters<f32>,
        free: &Parameters<f32>,
    ) -> Result<GpuTraining> {
        parameters.check_fits(data.dim(), data.environments())?;
        // Before anything is allocated.
        spec.optimiser.on_gpu()?;
        let form = Form::of(parameters, data.environments())?;
        let rows: Vec<usize> = match spec.batches {
            Some(batches) => vec![batches.rows; batches.environments],
            None => (0..data.environments()).map(|e| data.rows(e).len()).collect(),
        };
        let resident =
            if spec.batches.is_some() { data.samples().rows() as u64 * form.stride() * 16 } else { 0 };
        if resident > self.bounds.binding_bytes {
            return Err(Error::invalid(format!(
                "the samples need {} on the GPU, expected at most {} in one binding: use the CPU engine",
                crate::bounds::bytes(resident),
                crate::bounds::bytes(self.bounds.binding_bytes)
            )));
        }
        // Moments and multipliers are three times the parameters more, and they are read back for checkpoints; a mask has
        // a bit per parameter.
        let parameter_bytes = form.places().1 * 16;
        let more = resident + 6 * parameter_bytes + DispatchPlan::free_bytes(parameter_bytes);
        let session =
            Session::new(self.context()?, &rows, &spec.loss, form, &self.bounds, more, &self.edits)?;
        GpuTraining::new(session, data, spec, parameters, free)
    }
}

impl GpuTraining {
    fn new(
        mut session: Session,
        data: &Dataset,
        spec: &TrainingSpec,
        parameters: &Parameters<f32>,
        free: &Parameters<f32>,
    ) -> Result<Self> {
        let TrainingSpec { loss, penalty, batches, .. } = *spec;
        match batches {
            Some(_) => session.write_centres(data, &loss)?,
            None => session.write_samples(data, &loss)?,
        }
        session.write_parameters(parameters)?;
        // From now on the device's parameters are its own.
        session.forget_parameters();
        let (context, form, sizes) = (session.context.clone(), session.form, session.plan.sizes);
        let buffers = allocate(&context, &session, data, free, batches.is_some())?;
        let read = (sizes.losses + DispatchPlan::penalty_bytes()).max(3 * sizes.parameters) + 16;
        let staging =
            context.buffer("training staging", read, BufferUsages::COPY_DST | BufferUsages::MAP_READ)?;
        let ingoing = penalty.map_or(Ok(0.0), |penalty| penalty.ingoing_factor(parameters))?;
        let numbers = numbers_of(&form, sizes.parameters, spec, &spec.optimiser.on_gpu()?, ingoing as f32);
        let mut training = GpuTraining {
            session,
            spec: loss,
            like: parameters.clone(),
            before: Vec::new(),
            after: Vec::new(),
            buffers,
            numbers,
            staging,
            progress: Progress::default(),
        };
        if batches.is_some() {
            for span in 0..training.session.plan.spans.len() {
                let first_block = training.session.plan.spans[span].first_block as u32;
                let groups = training.session.plan.draw_groups(span);
                let numbers = Training { groups, first_block, ..numbers };
                let bound = training.bind(&stages::DRAW, &numbers, span)?;
                training.before.push(bound);
            }
        }
        training.after = training.ending()?;
        Ok(training)
    }

    /// The dispatches that end a step.
    fn ending(&self) -> Result<Vec<BoundDispatch>> {
        let ends = Ends { outgoing: self.numbers.outgoing != 0, weighted: self.numbers.weighted != 0 };
        let stages = self.session.plan.endings(&self.session.form, ends);
        stages
            .iter()
            .map(|ending| self.bind(ending.stage, &Training { groups: ending.groups, ..self.numbers }, 0))
            .collect()
    }

    /// A dispatch of `stage` with a uniform of its own.
    fn bind(&self, stage: &'static Stage, numbers: &Training, span: usize) -> Result<BoundDispatch> {
        let context = &self.session.context;
        let composed = self.session.compose(&self.session.form.choice(&self.spec), stage)?;
        let pipeline = context.pipeline(stage, &composed)?;
        let size = Training::SHADER_SIZE.get();
        let uniform = context.buffer("training", size, BufferUsages::UNIFORM | BufferUsages::COPY_DST)?;
        context.write(&uniform, 0, &uniform_bytes(numbers))?;
        let buffers: Vec<&Buffer> = composed
            .slots
            .iter()
            .map(|slot| self.buffers.get(slot).unwrap_or_else(|| self.session.buffer_of(*slot, span)))
            .collect();
        let group = Arc::new(context.bind(&pipeline.layout, &uniform, Training::SHADER_SIZE, &buffers)?);
        let workgroups = fold(numbers.groups);
        Ok(BoundDispatch {
            pipeline,
            group,
            offset: 0,
            workgroups,
            span,
            stage: stage.name,
            flops: 0.0,
            pairs: 0,
        })
    }

    /// The same training with effects multiplied in the penalty: row j, column i of finite `multipliers` belongs to the effect
    /// of i on j.
    pub fn weighing(mut self, multipliers: &Matrix<f64>) -> Result<Self> {
        check_multipliers(multipliers, self.session.form.dim)?;
        let packed = pack::rows(multipliers.as_slice().iter().map(|value| *value as f32), multipliers.cols());
        let context = &self.session.context;
        let buffer = context.storage(Slot::Multipliers.declaration().0, packed.len() as u64 * 16)?;
        context.write(&buffer, 0, bytemuck::cast_slice(&packed))?;
        self.buffers.insert(Slot::Multipliers, buffer);
        self.numbers.weighted = 1;
        self.after = self.ending()?;
        Ok(self)
    }

    /// Waits until all steps so far are done.
    pub fn wait(&self) -> Result<()> {
        self.session.context.wait()
    }

    /// Dispatches, submissions and bytes since the device was opened.
    pub fn traffic(&self) -> Traffic {
        self.session.context.traffic()
    }
}

impl Trains for GpuTraining {
    /// Nothing is uploaded and nothing is read back.
    fn step(&mut self) -> Result<()> {
        self.session.run_between(&self.before, true, &self.after, &self.progress)
    }

    fn standing(&mut self) -> Result<Standing> {
        let session = &self.session;
        let sizes = session.plan.sizes;
        let penalties = DispatchPlan::penalty_bytes();
        let sources = [
            (session.buffer_of(Slot::Losses, 0), sizes.losses),
            (&self.buffers[&Slot::Penalties], penalties),
            (session.buffer_of(Slot::State, 0), 16),
        ];
        let bytes = session.context.read_back(&sources, &self.staging)?;
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

    fn state(&mut self) -> Result<State> {
        let size = self.session.plan.sizes.parameters;
        let parameters = self.session.buffer_of(Slot::Parameters, 0);
        let sources = [
            (parameters, size),
            (&self.buffers[&Slot::Moments], 2 * size),
            (self.session.buffer_of(Slot::State, 0), 16),
        ];
        let bytes = self.session.context.read_back(&sources, &self.staging)?;
        let (packed, state) = bytes.split_at(3 * size as usize);
        let packed: Vec<f32> = bytemuck::pod_collect_to_vec(packed);
        let state: Vec<u32> = bytemuck::pod_collect_to_vec(state);
        let (parameters, moments) = packed.split_at(size as usize / 4);
        let unpack = |quads: &[f32]| {
            let mut tensors = self.like.clone();
            pack::unpack(quads, &self.session.form, &mut tensors);
            tensors
        };
        // Mean and square of a quad lie side by side.
        let every_other = |from: usize| {
            moments.chunks_exact(4).skip(from).step_by(2).flatten().copied().collect::<Vec<_>>()
        };
        let noted = state[1] != NONE || state[2] != NONE;
        Ok(State {
            // A step that came to nothing was counted.
            steps: state[0] - u32::from(noted),
            parameters: unpack(parameters),
            moments: vec![unpack(&every_other(0)), unpack(&every_other(1))],
        })
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        let form = self.session.form;
        let [mean, square] = &state.moments[..] else {
            return state.check_optimiser(OptimiserKind::Adam);
        };
        let (mean, square) = (pack::parameters(mean, &form), pack::parameters(square, &form));
        let moments: Vec<_> = mean.iter().zip(&square).flat_map(|(mean, square)| [*mean, *square]).collect();
        self.session.write_parameters(&state.parameters)?;
        self.session.forget_parameters();
        let context = &self.session.context;
        context.write(&self.buffers[&Slot::Moments], 0, bytemuck::cast_slice(&moments))?;
        let counters = [state.steps, NONE, NONE, 0];
        context.write(self.session.buffer_of(Slot::State, 0), 0, bytemuck::cast_slice(&counters))
    }
}

/// The buffers that only training needs.
fn allocate(
    context: &Context,
    session: &Session,
    data: &Dataset,
    free: &Parameters<f32>,
    resident: bool,
) -> Result<HashMap<Slot, Buffer>> {
    let (form, sizes) = (session.form, session.plan.sizes);
    let rows = if resident { data.samples().rows() as u64 } else { 0 };
    let mut buffers = HashMap::new();
    for (slot, size) in [
        (Slot::Moments, 2 * sizes.parameters),
        (Slot::Free, DispatchPlan::free_bytes(sizes.parameters)),
        // As many as there are effects once there are any.
        (Slot::Multipliers, 16),
        (Slot::Norms, form.stride() * 16),
        (Slot::Penalties, DispatchPlan::penalty_bytes()),
        (Slot::Samples, rows * form.stride() * 16),
        (Slot::Sources, form.environments as u64 * Source::SHADER_SIZE.get()),
    ] {
        buffers.insert(slot, context.storage(slot.declaration().0, size)?);
    }
    let free = pack::bits(&pack::parameters(free, &form));
    context.write(&buffers[&Slot::Free], 0, bytemuck::cast_slice(&free))?;
    context.write(session.buffer_of(Slot::State, 0), 0, bytemuck::cast_slice(&[0u32, NONE, NONE, 0]))?;
    if resident {
        let packed = pack::rows(data.samples().as_slice().iter().map(|v| *v as f32), data.dim());
        context.write(&buffers[&Slot::Samples], 0, bytemuck::cast_slice(&packed))?;
        let sources: Vec<Source> = (0..data.environments())
            .map(|e| Source { first_row: data.rows(e).start as u32, rows: data.rows(e).len() as u32 })
            .collect();
        context.write(&buffers[&Slot::Sources], 0, &storage_bytes(&sources))?;
    }
    Ok(buffers)
}

/// The numbers that all training stages share.
fn numbers_of(
    form: &Form,
    parameter_bytes: u64,
    spec: &TrainingSpec,
    rates: &ShaderRates,
    ingoing: f32,
) -> Training {
    let TrainingSpec { penalty, batches, .. } = *spec;
    let d = form.dim as f64;
    let kind = penalty.map(|penalty| penalty.kind);
    let mut numbers = Training {
        quads: (parameter_bytes / 16) as u32,
        dim: form.dim as u32,
        stride: form.stride() as u32,
        units_per_variable: form.units_per_variable() as u32,
        at_weights: form.places().0.weights as u32,
        ingoing,
        outgoing: u32::from(matches!(kind, Some(PenaltyKind::Outgoing | PenaltyKind::Both))),
        strength: penalty.map_or(0.0, |penalty| (penalty.lambda / (d * d)) as f32),
        learning_rate: rates.learning_rate,
        beta1: rates.beta1,
        beta2: rates.beta2,
        epsilon: rates.epsilon,
        environments: form.environments as u32,
        ..Training::default()
    };
    if let Some(Batches { seed, rows, environments }) = batches {
        (numbers.seed_low, numbers.seed_high) = (seed as u32, (seed >> 32) as u32);
        numbers.slots = environments as u32;
        numbers.batch_rows = rows as u32;
        numbers.slot_blocks = (rows as u32).div_ceil(ROW_BLOCK);
    }
    numbers
}
