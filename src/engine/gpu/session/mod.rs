//! One loss on one device: buffers, bound dispatches, and a run of them.

mod profile;
mod upload;

use super::compose::{Choice, Composed};
use super::context::{Context, Pipeline, Submission};
use super::form::Form;
use super::plan::{Bounds, Dispatch, DispatchPlan};
use super::shared::{Job, LOSS_LANES};
use super::stages::{Slot, Stage};
use crate::engine::LossSpec;
use crate::{Error, Progress, Result};
use encase::{ShaderSize, ShaderType, StorageBuffer, UniformBuffer};
use glam::Vec4;
use std::collections::HashMap;
use std::sync::Arc;
use wgpu::{Buffer, BufferUsages};

/// A dispatch with everything it needs.
#[derive(Clone)]
pub(super) struct BoundDispatch {
    pub pipeline: Arc<Pipeline>,
    pub group: Arc<wgpu::BindGroup>,
    /// Of its numbers in the uniform buffer.
    pub offset: u32,
    pub workgroups: [u32; 2],
    pub span: usize,
    pub stage: &'static str,
    pub flops: f64,
    pub pairs: u64,
}

/// Buffers of a span.
struct Rows {
    x: Buffer,
    work: Buffer,
}

/// The loss of one form of parameters on a device.
pub(super) struct Session {
    pub context: Arc<Context>,
    pub form: Form,
    pub plan: DispatchPlan,
    dispatch_flops: f64,
    rows: Vec<Rows>,
    shared: HashMap<Slot, Buffer>,
    staging: Buffer,
    jobs: Option<Buffer>,
    value: Vec<BoundDispatch>,
    gradient: Vec<BoundDispatch>,
    /// What `parameters` holds.
    uploaded: Vec<Vec4>,
    edits: Vec<Edit>,
}

/// A change to a stage's source: how tests see that a wrong shader is noticed.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    pub stage: &'static str,
    pub from: String,
    pub to: String,
}

impl Session {
    /// Allocates everything for environments, or places in a batch, of `rows` samples each.
    pub(super) fn new(
        context: Arc<Context>,
        rows: &[usize],
        spec: &LossSpec,
        form: Form,
        bounds: &Bounds,
        more_bytes: u64,
        edits: &[Edit],
    ) -> Result<Self> {
        let plan = DispatchPlan::new(rows, &form, spec, bounds, more_bytes)?;
        let sizes = plan.sizes;
        let spans = plan
            .spans
            .iter()
            .map(|span| {
                Ok(Rows {
                    x: context.storage("x", span.blocks * sizes.x_block)?,
                    work: context.storage("work", span.blocks * sizes.work_block)?,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let mut shared = HashMap::new();
        for (slot, size) in sizes.shared() {
            shared.insert(slot, context.storage(slot.declaration().0, size)?);
        }
        let staging = context.buffer(
            "staging",
            sizes.losses + sizes.parameters,
            BufferUsages::COPY_DST | BufferUsages::MAP_READ,
        )?;
        context.write(&shared[&Slot::Blocks], 0, &storage_bytes(&plan.blocks))?;
        context.write(&shared[&Slot::Environments], 0, &storage_bytes(&plan.environments))?;
        let dispatch_flops = bounds.dispatch_flops;
        let mut session = Session {
            context,
            form,
            plan,
            dispatch_flops,
            rows: spans,
            shared,
            staging,
            jobs: None,
            value: Vec::new(),
            gradient: Vec::new(),
            uploaded: Vec::new(),
            edits: edits.to_vec(),
        };
        session.bind()?;
        Ok(session)
    }

    /// The source of a stage, with the edits that tests ask for.
    pub(super) fn compose(&self, choice: &Choice, stage: &Stage) -> Result<Composed> {
        let mut composed = choice.compose(stage)?;
        for Edit { from, to, .. } in self.edits.iter().filter(|edit| edit.stage == stage.name) {
            if !composed.source.contains(from) {
                return Err(Error::invalid(format!(
                    "'{from}' is not in {}, expected text to edit",
                    composed.label
                )));
            }
            composed.source = composed.source.replace(from, to);
            // Pipelines are kept by label.
            composed.label = format!("{} edited from {from} to {to}", composed.label);
        }
        Ok(composed)
    }

    /// Compiles and binds every dispatch, and uploads its uniform.
    fn bind(&mut self) -> Result<()> {
        let alignment = self.context.device.limits().min_uniform_buffer_offset_alignment;
        let slot_bytes = (Job::SHADER_SIZE.get() as u32).next_multiple_of(alignment);
        let lists = [self.plan.value.clone(), self.plan.gradient.clone()];
        let count = lists[0].len() + lists[1].len();
        let mut bytes = vec![0u8; count * slot_bytes as usize];
        let jobs = self.context.buffer(
            "jobs",
            bytes.len() as u64,
            BufferUsages::UNIFORM | BufferUsages::COPY_DST,
        )?;
        // A stage may have thousands of dispatches, all by one choice: its source is composed, and its buffers are bound,
        // once.
        let mut stages: HashMap<&str, (Composed, Arc<Pipeline>)> = HashMap::new();
        let mut groups: HashMap<(&str, usize, usize), Arc<wgpu::BindGroup>> = HashMap::new();
        let mut next = 0u32;
        let mut bound = [Vec::new(), Vec::new()];
        for (list, bound) in lists.iter().zip(&mut bound) {
            for dispatch in list {
                let name = dispatch.stage.name;
                if !stages.contains_key(name) {
                    let composed = self.compose(&dispatch.choice, dispatch.stage)?;
                    let pipeline = self.context.pipeline(dispatch.stage, &composed)?;
                    stages.insert(name, (composed, pipeline));
                }
                let (composed, pipeline) = &stages[name];
                let key = (name, dispatch.span, dispatch.other);
                let group = match groups.get(&key) {
                    Some(group) => group.clone(),
                    None => {
                        let group = Arc::new(self.bind_group(pipeline, &composed.slots, dispatch, &jobs)?);
                        groups.insert(key, group.clone());
                        group
                    }
                };
                let uniform = uniform_bytes(&dispatch.job);
                let offset = next * slot_bytes;
                bytes[offset as usize..offset as usize + uniform.len()].copy_from_slice(&uniform);
                next += 1;
                bound.push(BoundDispatch {
                    pipeline: pipeline.clone(),
                    group,
                    offset,
                    workgroups: dispatch.workgroups(),
                    span: dispatch.span,
                    stage: name,
                    flops: dispatch.flops,
                    pairs: dispatch.pairs,
                });
            }
        }
        self.context.write(&jobs, 0, &bytes)?;
        self.jobs = Some(jobs);
        let [value, gradient] = bound;
        (self.value, self.gradient) = (value, gradient);
        Ok(())
    }

    fn bind_group(
        &self,
        pipeline: &Pipeline,
        slots: &[Slot],
        dispatch: &Dispatch,
        jobs: &Buffer,
    ) -> Result<wgpu::BindGroup> {
        let buffers: Vec<&Buffer> = slots
            .iter()
            .map(|slot| match slot {
                Slot::XOther => self.buffer_of(Slot::X, dispatch.other),
                Slot::WorkOther => self.buffer_of(Slot::Work, dispatch.other),
                slot => self.buffer_of(*slot, dispatch.span),
            })
            .collect();
        self.context.bind(&pipeline.layout, jobs, Job::SHADER_SIZE, &buffers)
    }

    /// A buffer of a span's rows or one that all spans share.
    pub(super) fn buffer_of(&self, slot: Slot, span: usize) -> &Buffer {
        match slot {
            Slot::X => &self.rows[span].x,
            Slot::Work => &self.rows[span].work,
            shared => &self.shared[&shared],
        }
    }

    /// The dispatches of some stages on a span's rows.
    pub(super) fn dispatches_of(&self, span: usize, stages: &[&str]) -> Vec<BoundDispatch> {
        let wanted = |bound: &&BoundDispatch| bound.span == span && stages.contains(&bound.stage);
        self.value.iter().filter(wanted).cloned().collect()
    }

    /// Floating-point operations after which a submission ends.
    pub(super) fn dispatch_flops(&self) -> f64 {
        self.dispatch_flops
    }

    /// Runs all dispatches and leaves losses, and the gradient if asked for, on the device.
    pub(super) fn run(&self, gradient: bool, progress: &Progress) -> Result<()> {
        self.run_between(&[], gradient, &[], progress)
    }

    /// The same between other dispatches, in as few submissions as a watchdog allows.
    pub(super) fn run_between(
        &self,
        before: &[BoundDispatch],
        gradient: bool,
        after: &[BoundDispatch],
        progress: &Progress,
    ) -> Result<()> {
        progress.set(0)?;
        self.poison(gradient);
        let list = if gradient { &self.gradient } else { &self.value };
        self.submit(&before.iter().chain(list).chain(after).collect::<Vec<_>>(), progress)
    }

    /// Submits dispatches in order, in as few submissions as a watchdog allows; counts pairs that are done.
    pub(super) fn submit(&self, list: &[&BoundDispatch], progress: &Progress) -> Result<()> {
        let mut first = 0;
        let mut before: Option<(Submission, u64)> = None;
        while first < list.len() {
            // A submission ends where its work would get too long for a watchdog.
            let (mut last, mut flops) = (first, 0.0);
            while last < list.len() && (last == first || flops + list[last].flops <= self.dispatch_flops) {
                flops += list[last].flops;
                last += 1;
            }
            let part = &list[first..last];
            let commands = self.context.record(|encoder| {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                part.iter().for_each(|bound| bound.record(&mut pass));
                part.len() as u64
            })?;
            let submission = self.context.submit(commands)?;
            let pairs = part.iter().map(|bound| bound.pairs).sum();
            if let Some((before, pairs)) = before.replace((submission, pairs)) {
                // At most two submissions are under way: this one is there when that before it ends. What is done is shown.
                self.context.wait_for(&before)?;
                progress.add(pairs)?;
            }
            first = last;
        }
        Ok(())
    }

    /// The partial losses as f64 per environment, and the packed gradient if asked for.
    pub(super) fn read(&self, gradient: bool) -> Result<(Vec<f64>, Vec<f32>)> {
        let sizes = self.plan.sizes;
        let mut sources = vec![(&self.shared[&Slot::Losses], sizes.losses)];
        if gradient {
            sources.push((&self.shared[&Slot::Gradient], sizes.parameters));
        }
        let bytes = self.context.read_back(&sources, &self.staging)?;
        let (losses, rest) = bytes.split_at(sizes.losses as usize);
        let lanes: Vec<f32> = bytemuck::pod_collect_to_vec(losses);
        let losses = lanes
            .chunks_exact(LOSS_LANES as usize)
            .map(|lanes| lanes.iter().map(|v| f64::from(*v)).sum())
            .collect();
        Ok((losses, bytemuck::pod_collect_to_vec(rest)))
    }

    /// In debug builds results start as NaN, so that one that was never written cannot pass for a number.
    fn poison(&self, gradient: bool) {
        if cfg!(debug_assertions) {
            let nan = |bytes: u64| vec![f32::NAN; bytes as usize / 4];
            let losses = nan(self.plan.sizes.losses);
            self.context.queue.write_buffer(&self.shared[&Slot::Losses], 0, bytemuck::cast_slice(&losses));
            if gradient {
                // Log-scales of a full diffusion are written number by number, and their padding is read.
                let (places, quads) = self.form.places();
                let end = if self.form.full { places.scale } else { quads };
                let target = &self.shared[&Slot::Gradient];
                self.context.queue.write_buffer(target, 0, bytemuck::cast_slice(&nan(end * 16)));
            }
        }
    }
}

impl BoundDispatch {
    pub(super) fn record(&self, pass: &mut wgpu::ComputePass<'_>) {
        self.record_at(pass, self.offset);
    }

    /// With the uniform at another offset.
    pub(super) fn record_at(&self, pass: &mut wgpu::ComputePass<'_>, offset: u32) {
        pass.set_pipeline(&self.pipeline.pipeline);
        pass.set_bind_group(0, self.group.as_ref(), &[offset]);
        pass.dispatch_workgroups(self.workgroups[0], self.workgroups[1], 1);
    }
}

/// A struct as a uniform buffer holds it.
pub(super) fn uniform_bytes<S: ShaderType + encase::internal::WriteInto>(item: &S) -> Vec<u8> {
    let mut buffer = UniformBuffer::new(Vec::new());
    buffer.write(item).expect("a vector takes every struct");
    buffer.into_inner()
}

/// Structs as a storage buffer holds them.
pub(super) fn storage_bytes<S: ShaderType + ShaderSize + encase::internal::WriteInto>(
    items: &[S],
) -> Vec<u8> {
    let mut buffer = StorageBuffer::new(Vec::new());
    buffer.write(items).expect("a vector takes every struct");
    buffer.into_inner()
}
