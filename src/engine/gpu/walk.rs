//! Simulation on the device: chains of several interventions side by side, many steps per submission. The host uploads
//! what interventions change and reads chains when it wants samples of them.

use super::form::Form;
use super::plan::{Span, fold};
use super::session::{BoundDispatch, Session, uniform_bytes};
use super::shared::Walk;
use super::stages::{self, Slot};
use super::{GpuEngine, pack};
use crate::engine::LossSpec;
use crate::kernel::Kernel;
use crate::model::Parameters;
use crate::objective::{Estimator, Objective};
use crate::{Matrix, Progress, Result, Scalar};
use encase::ShaderSize;
use std::sync::Arc;
use wgpu::{Buffer, BufferUsages};

/// The most steps of one submission: each has its own part of a uniform buffer.
const STEPS: u32 = 64;
/// Only the drift of this loss is evaluated, and the kernel that needs the fewest stages serves.
const SPEC: LossSpec = LossSpec {
    objective: Objective::Skds,
    kernel: Kernel::Rbf { bandwidth: 1.0 },
    estimator: Estimator::Linear,
};

/// Chains of Euler–Maruyama on a GPU.
pub struct GpuWalk {
    session: Session,
    /// The stages that find b, by span.
    drift: Vec<Vec<BoundDispatch>>,
    /// The step of each span.
    euler: Vec<BoundDispatch>,
    /// The uniform of each span's step, but for the number of the step.
    walks: Vec<Walk>,
    /// The uniforms of the steps that a submission takes, span by span within a step.
    uniforms: Buffer,
    /// Bytes from one of them to the next.
    uniform_stride: u32,
    staging: Buffer,
    chains: Vec<usize>,
    step: u32,
}

impl GpuEngine {
    /// Whether devices simulate these parameters: their drift and noise have shaders.
    pub(crate) fn can_simulate(&self, parameters: &Parameters<f64>) -> bool {
        Form::of(parameters, 1).is_ok()
    }

    /// Puts `chains[e]` chains of each environment of `parameters` at standard normal points, drawn by `seeds[e]`.
    /// `floor` is the least value of each variable.
    pub fn walk<T: Scalar>(
        &self,
        parameters: &Parameters<T>,
        chains: &[usize],
        seeds: &[u64],
        dt: f64,
        floor: Option<&[f64]>,
    ) -> Result<GpuWalk> {
        parameters.check_fits(parameters.dim(), chains.len())?;
        let form = Form::of(parameters, chains.len())?;
        let mut session = Session::new(self.context()?, chains, &SPEC, form, &self.bounds, 0, &self.edits)?;
        session.write_parameters(parameters)?;
        GpuWalk::new(session, chains, seeds, dt, floor)
    }
}

impl GpuWalk {
    fn new(
        session: Session,
        chains: &[usize],
        seeds: &[u64],
        dt: f64,
        floor: Option<&[f64]>,
    ) -> Result<Self> {
        let context = session.context.clone();
        let spans = session.plan.spans.len();
        let alignment = context.device.limits().min_uniform_buffer_offset_alignment;
        let uniform_stride = (Walk::SHADER_SIZE.get() as u32).next_multiple_of(alignment);
        let bytes = u64::from(uniform_stride) * u64::from(STEPS) * spans as u64;
        let uniforms = context.buffer("walk", bytes, BufferUsages::UNIFORM | BufferUsages::COPY_DST)?;
        let extra =
            [(Slot::Floors, upload_floors(&session, floor)?), (Slot::Seeds, upload_seeds(&session, seeds)?)];
        let drift = (0..spans)
            .map(|span| session.dispatches_of(span, &[stages::DRIFT.name, stages::TILT.name]))
            .collect();
        let read =
            session.plan.spans.iter().map(|span| span.blocks).max().unwrap_or(1) * session.plan.sizes.x_block;
        let staging = context.buffer("chains", read, BufferUsages::COPY_DST | BufferUsages::MAP_READ)?;
        let mut walk = GpuWalk {
            euler: bind_steps(&session, &uniforms, &extra)?,
            walks: uniforms_of_spans(&session, dt),
            session,
            drift,
            uniforms,
            uniform_stride,
            staging,
            chains: chains.to_vec(),
            step: 0,
        };
        walk.submit(1, true)?;
        Ok(walk)
    }

    /// Walks all chains on; `progress` counts steps of all of them.
    pub fn walk(&mut self, steps: usize, progress: &Progress) -> Result<()> {
        let flops: f64 = self.drift.iter().flatten().chain(&self.euler).map(|bound| bound.flops).sum();
        let at_once = ((self.session.dispatch_flops() / flops) as usize).clamp(1, STEPS as usize);
        let chains = self.chains.iter().sum::<usize>() as u64;
        let mut left = steps;
        while left > 0 {
            let count = left.min(at_once);
            self.submit(count as u32, false)?;
            self.session.context.wait()?;
            progress.add(count as u64 * chains)?;
            left -= count;
        }
        Ok(())
    }

    /// Sets the parameters of the steps to come: those of the start with other values.
    pub(crate) fn set_parameters<T: Scalar>(&mut self, parameters: &Parameters<T>) -> Result<()> {
        self.session.write_parameters(parameters)
    }

    /// Submits `count` steps, or the one that draws where chains start.
    fn submit(&mut self, count: u32, start: bool) -> Result<()> {
        let context = self.session.context.clone();
        let spans = self.euler.len() as u32;
        let mut bytes = vec![0u8; (count * spans * self.uniform_stride) as usize];
        for part in 0..count * spans {
            // Step 0 is the start. Past 2³² steps counters would come again: centuries away.
            let step = if start { 0 } else { self.step + 1 + part / spans };
            let uniform = uniform_bytes(&Walk { step, ..self.walks[(part % spans) as usize] });
            let at = (part * self.uniform_stride) as usize;
            bytes[at..at + uniform.len()].copy_from_slice(&uniform);
        }
        context.write(&self.uniforms, 0, &bytes)?;
        let commands = context.record(|encoder| {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            let mut dispatches = 0;
            for part in 0..count * spans {
                let span = (part % spans) as usize;
                if !start {
                    self.drift[span].iter().for_each(|bound| bound.record(&mut pass));
                    dispatches += self.drift[span].len() as u64;
                }
                self.euler[span].record_at(&mut pass, part * self.uniform_stride);
                dispatches += 1;
            }
            dispatches
        })?;
        context.submit(commands)?;
        if !start {
            self.step += count;
        }
        Ok(())
    }

    /// Where the chains of each environment are, one per row.
    pub fn chains(&self) -> Result<Vec<Matrix<f64>>> {
        let (context, plan) = (&self.session.context, &self.session.plan);
        let (d, stride) = (self.session.form.dim, self.session.form.stride() as usize * 4);
        let mut all: Vec<Matrix<f64>> = self.chains.iter().map(|n| Matrix::full(*n, d, 0.0)).collect();
        for (at, span) in plan.spans.iter().enumerate() {
            let size = span.blocks * plan.sizes.x_block;
            let source = self.session.buffer_of(Slot::X, at);
            let bytes = context.read_back(&[(source, size)], &self.staging)?;
            let numbers: Vec<f32> = bytemuck::pod_collect_to_vec(&bytes);
            for (row, values) in numbers.chunks_exact(stride).enumerate() {
                if let Some((e, chain)) = plan.sample_at(*span, row) {
                    let out = all[e].row_mut(chain);
                    out.iter_mut().zip(values).for_each(|(out, value)| *out = f64::from(*value));
                }
            }
        }
        Ok(all)
    }
}

/// The least value of each variable, on the device; without a floor the least number there is.
fn upload_floors(session: &Session, floor: Option<&[f64]>) -> Result<Buffer> {
    let form = session.form;
    let floors = session.context.storage("floors", form.stride() * 16)?;
    let floor = floor.map_or_else(|| vec![f32::MIN; form.dim], |f| f.iter().map(|v| *v as f32).collect());
    let packed = pack::rows(floor.into_iter(), form.dim);
    session.context.write(&floors, 0, bytemuck::cast_slice(&packed))?;
    Ok(floors)
}

/// The seed of each environment, on the device.
fn upload_seeds(session: &Session, seeds: &[u64]) -> Result<Buffer> {
    let halves: Vec<[u32; 2]> = seeds.iter().map(|seed| [*seed as u32, (*seed >> 32) as u32]).collect();
    let seeds = session.context.storage("seeds", 8 * halves.len() as u64)?;
    session.context.write(&seeds, 0, bytemuck::cast_slice(&halves))?;
    Ok(seeds)
}

/// The numbers of a step on each span, but for which step it is.
fn uniforms_of_spans(session: &Session, dt: f64) -> Vec<Walk> {
    let job = session.form.job(&SPEC);
    let of_span = |span: &Span| Walk {
        groups: span.blocks as u32,
        first_block: span.first_block as u32,
        dim: job.dim,
        stride: job.stride,
        work_stride: job.work_stride,
        at_b: job.at_b,
        at_bar: job.at_bar,
        at_noise: job.at_noise,
        at_scale: job.at_scale,
        dt: dt as f32,
        root_dt: dt.sqrt() as f32,
        step: 0,
    };
    session.plan.spans.iter().map(of_span).collect()
}

/// The dispatch of a step on each span, with buffers that only a simulation needs beside those of the session.
fn bind_steps(session: &Session, uniforms: &Buffer, extra: &[(Slot, Buffer)]) -> Result<Vec<BoundDispatch>> {
    let (context, form, stage) = (&session.context, session.form, &stages::EULER);
    let composed = session.compose(&form.choice(&SPEC), stage)?;
    let pipeline = context.pipeline(stage, &composed)?;
    let flops_per_number = if form.full { 2.0 * form.dim as f64 } else { 50.0 };
    let bind = |(at, span): (usize, &Span)| {
        let buffer_of = |slot: &Slot| match extra.iter().find(|(known, _)| known == slot) {
            Some((_, buffer)) => buffer,
            None => session.buffer_of(*slot, at),
        };
        let buffers: Vec<&Buffer> = composed.slots.iter().map(buffer_of).collect();
        let group = context.bind(&pipeline.layout, uniforms, Walk::SHADER_SIZE, &buffers)?;
        Ok(BoundDispatch {
            pipeline: pipeline.clone(),
            group: Arc::new(group),
            offset: 0,
            workgroups: fold(span.blocks as u32),
            span: at,
            stage: stage.name,
            flops: span.rows() as f64 * form.dim as f64 * flops_per_number,
            pairs: 0,
        })
    };
    session.plan.spans.iter().enumerate().map(bind).collect()
}
