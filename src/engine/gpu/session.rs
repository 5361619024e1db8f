//! One problem on one device: buffers, bound dispatches, and a run of them.

use super::compose::{Choice, Composed};
use super::context::{Context, Pipeline};
use super::form::Form;
use super::pack;
use super::plan::{Bounds, Dispatch, Plan};
use super::shared::{Block, Job, LOSS_LANES, ROW_BLOCK};
use super::stages::{Slot, Stage};
use crate::data::Dataset;
use crate::engine::{LossSpec, StageTime};
use crate::model::Parameters;
use crate::{Error, Progress, Result, Scalar};
use encase::{ShaderSize, ShaderType, StorageBuffer, UniformBuffer};
use glam::Vec4;
use std::collections::HashMap;
use std::sync::Arc;
use wgpu::{Buffer, BufferUsages};

/// A dispatch with everything it needs.
#[derive(Clone)]
pub(super) struct Bound {
    pub pipeline: Arc<Pipeline>,
    pub group: Arc<wgpu::BindGroup>,
    /// Of what it is told in the uniform buffer.
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

/// A problem on a device.
pub(super) struct Session {
    pub context: Arc<Context>,
    pub form: Form,
    pub plan: Plan,
    dispatch_flops: f64,
    rows: Vec<Rows>,
    shared: HashMap<Slot, Buffer>,
    staging: Buffer,
    jobs: Option<Buffer>,
    value: Vec<Bound>,
    gradient: Vec<Bound>,
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
    pub fn new(
        context: Arc<Context>,
        rows: &[usize],
        spec: &LossSpec,
        form: Form,
        bounds: &Bounds,
        more_bytes: u64,
        edits: &[Edit],
    ) -> Result<Self> {
        let plan = Plan::new(rows, &form, spec, bounds, more_bytes)?;
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
        for (slot, size) in [
            (Slot::Parameters, sizes.parameters),
            (Slot::Gradient, sizes.parameters),
            (Slot::Diffusion, sizes.diffusion),
            (Slot::Centres, sizes.centres),
            (Slot::Blocks, sizes.blocks),
            (Slot::Environments, sizes.environments),
            (Slot::Columns, sizes.columns),
            (Slot::Totals, sizes.totals),
            (Slot::Sums, sizes.sums),
            (Slot::Partials, sizes.partials),
            (Slot::ABar, sizes.a_bar),
            (Slot::Symmetric, sizes.a_bar),
            (Slot::Losses, sizes.losses),
        ] {
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
        session.bind(spec)?;
        Ok(session)
    }

    /// The source of a stage, with the edits that tests ask for.
    pub fn compose(&self, choice: &Choice, stage: &Stage) -> Result<Composed> {
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

    /// Compiles and binds every dispatch, and uploads what each is told.
    fn bind(&mut self, spec: &LossSpec) -> Result<()> {
        let choice = self.form.choice(spec);
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
        // A stage may have thousands of dispatches: its source is composed, and its buffers are bound, once.
        let mut stages: HashMap<&str, (Composed, Arc<Pipeline>)> = HashMap::new();
        let mut groups: HashMap<(&str, usize, usize), Arc<wgpu::BindGroup>> = HashMap::new();
        let mut next = 0u32;
        let mut bound = [Vec::new(), Vec::new()];
        for (list, bound) in lists.iter().zip(&mut bound) {
            for dispatch in list {
                let name = dispatch.stage.name;
                if !stages.contains_key(name) {
                    let composed = self.compose(&choice, dispatch.stage)?;
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
                let told = uniform_bytes(&dispatch.job);
                let offset = next * slot_bytes;
                bytes[offset as usize..offset as usize + told.len()].copy_from_slice(&told);
                next += 1;
                bound.push(Bound {
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

    /// Tells every dispatch of a value what to weigh b̃ by: see [`Job::weigh`].
    pub fn weigh_by(&self, weigh: u32) -> Result<()> {
        let Some(jobs) = &self.jobs else { return Ok(()) };
        for (dispatch, bound) in self.plan.value.iter().zip(&self.value) {
            let told = uniform_bytes(&Job { weigh, ..dispatch.job });
            self.context.write(jobs, u64::from(bound.offset), &told)?;
        }
        Ok(())
    }

    /// Uploads what rows have instead of b̃: `rows(e, i)` is the ω and the numbers, one per variable, of sample i of
    /// environment e.
    pub fn write_rows(&self, spec: &LossSpec, rows: impl Fn(usize, usize) -> (f64, Vec<f32>)) -> Result<()> {
        let job = self.form.job(spec);
        for (span, buffers) in self.plan.spans.iter().zip(&self.rows) {
            let mut packed = vec![Vec4::ZERO; span.rows() as usize * job.work_stride as usize];
            for row in 0..span.rows() as usize {
                let Some((e, i)) = self.plan.sample_at(*span, row) else { continue };
                let (omega, values) = rows(e, i);
                let record = &mut packed[row * job.work_stride as usize..];
                record[0].x = omega as f32;
                let quads = pack::rows(values.into_iter(), self.form.dim);
                record[job.at_b as usize..][..quads.len()].copy_from_slice(&quads);
            }
            self.context.write(&buffers.work, 0, bytemuck::cast_slice(&packed))?;
        }
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
    pub fn buffer_of(&self, slot: Slot, span: usize) -> &Buffer {
        match slot {
            Slot::X => &self.rows[span].x,
            Slot::Work => &self.rows[span].work,
            shared => &self.shared[&shared],
        }
    }

    /// Uploads samples: those of `data`, which must have the rows that the session was made for.
    pub fn write_samples(&self, data: &Dataset, spec: &LossSpec) -> Result<()> {
        let d = data.dim();
        let block = ROW_BLOCK as usize;
        for (span, rows) in self.plan.spans.iter().zip(&self.rows) {
            let mut packed: Vec<Vec4> = Vec::with_capacity((span.rows() * self.form.stride()) as usize);
            for at in span.first_block..span.first_block + span.blocks {
                let Block { environment, first_block, rows, .. } = self.plan.blocks[at as usize];
                let first = (at as usize - first_block as usize) * block;
                let last = (first + block).min(rows as usize);
                let start = data.rows(environment as usize).start;
                let values = (start + first..start + last).flat_map(|i| data.samples().row(i));
                packed.extend(pack::rows(values.map(|v| *v as f32), d));
                let full = (at - span.first_block + 1) * u64::from(ROW_BLOCK) * self.form.stride();
                packed.resize(full as usize, Vec4::ZERO);
            }
            self.context.write(&rows.x, 0, bytemuck::cast_slice(&packed))?;
        }
        self.write_centres(data, spec)
    }

    /// Uploads a point within each environment's samples.
    pub fn write_centres(&self, data: &Dataset, spec: &LossSpec) -> Result<()> {
        let d = data.dim();
        // A tilted kernel with a full diffusion needs a x itself; otherwise a point among the samples serves better.
        let at_origin = self.form.full && spec.kernel.kind().traits().tilted;
        let centre = |e: usize| if at_origin { vec![0.0; d] } else { data.means(e) };
        let packed = pack::rows((0..data.environments()).flat_map(centre).map(|v| v as f32), d);
        self.context.write(&self.shared[&Slot::Centres], 0, bytemuck::cast_slice(&packed))
    }

    /// Uploads parameters unless the device has them already.
    pub fn write_parameters<T: Scalar>(&mut self, parameters: &Parameters<T>) -> Result<()> {
        let packed = pack::parameters(parameters, &self.form);
        if packed != self.uploaded {
            self.uploaded.clear();
            self.context.write(&self.shared[&Slot::Parameters], 0, bytemuck::cast_slice(&packed))?;
            self.uploaded = packed;
        }
        Ok(())
    }

    /// Forgets what the device holds: something else has changed its parameters.
    pub fn forget_parameters(&mut self) {
        self.uploaded.clear();
    }

    /// The dispatches of some stages on a span's rows.
    pub fn dispatches_of(&self, span: usize, stages: &[&str]) -> Vec<Bound> {
        let wanted = |bound: &&Bound| bound.span == span && stages.contains(&bound.stage);
        self.value.iter().filter(wanted).cloned().collect()
    }

    /// Floating-point operations after which a submission shall end.
    pub fn dispatch_flops(&self) -> f64 {
        self.dispatch_flops
    }

    /// Runs all dispatches and leaves losses, and the gradient if asked for, on the device.
    pub fn run(&self, gradient: bool, progress: &Progress) -> Result<()> {
        self.run_between(&[], gradient, &[], progress)
    }

    /// The same between other dispatches, in as few submissions as a watchdog allows.
    pub fn run_between(
        &self,
        before: &[Bound],
        gradient: bool,
        after: &[Bound],
        progress: &Progress,
    ) -> Result<()> {
        progress.set(0)?;
        self.poison(gradient);
        let list = if gradient { &self.gradient } else { &self.value };
        self.submit(&before.iter().chain(list).chain(after).collect::<Vec<_>>(), progress)
    }

    /// Submits dispatches in order, in as few submissions as a watchdog allows; counts pairs that are done.
    pub fn submit(&self, list: &[&Bound], progress: &Progress) -> Result<()> {
        let mut first = 0;
        let mut waiting: Option<u64> = None;
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
            self.context.submit(commands)?;
            if let Some(pairs) = waiting {
                // At most two submissions wait in the queue; what is done is shown.
                self.context.wait()?;
                progress.add(pairs)?;
            }
            waiting = Some(part.iter().map(|bound| bound.pairs).sum());
            first = last;
        }
        Ok(())
    }

    /// The partial losses as f64 per environment, and the packed gradient if asked for.
    pub fn read(&self, gradient: bool) -> Result<(Vec<f64>, Vec<f32>)> {
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

    /// Runs everything once with a timestamp around every dispatch.
    pub fn profile(&self) -> Result<Vec<StageTime>> {
        let device = &self.context.device;
        if !device.features().contains(wgpu::Features::TIMESTAMP_QUERY) {
            return Err(Error::invalid(format!(
                "{} has no timestamps, expected a device that can time the stages of its work",
                self.context.name()
            )));
        }
        let mut times: Vec<StageTime> = Vec::new();
        let storage = BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC;
        let resolved = self.context.buffer("timestamps", 16, storage)?;
        let staging =
            self.context.buffer("timestamps", 16, BufferUsages::COPY_DST | BufferUsages::MAP_READ)?;
        let queries = device.create_query_set(&wgpu::QuerySetDescriptor {
            label: None,
            ty: wgpu::QueryType::Timestamp,
            count: 2,
        });
        for bound in &self.gradient {
            let commands = self.context.record(|encoder| {
                let writes = wgpu::ComputePassTimestampWrites {
                    query_set: &queries,
                    beginning_of_pass_write_index: Some(0),
                    end_of_pass_write_index: Some(1),
                };
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                    label: None,
                    timestamp_writes: Some(writes),
                });
                bound.record(&mut pass);
                drop(pass);
                encoder.resolve_query_set(&queries, 0..2, &resolved, 0);
                encoder.copy_buffer_to_buffer(&resolved, 0, &staging, 0, 16);
                1
            })?;
            self.context.submit(commands)?;
            let ticks: Vec<u64> = bytemuck::pod_collect_to_vec(&self.context.read(&staging, 16)?);
            let period = f64::from(self.context.queue.get_timestamp_period()) * 1e-9;
            let seconds = ticks[1].saturating_sub(ticks[0]) as f64 * period;
            match times.iter_mut().find(|time| time.stage == bound.stage) {
                Some(time) => {
                    time.dispatches += 1;
                    time.seconds += seconds;
                    time.flops += bound.flops;
                }
                None => {
                    times.push(StageTime { stage: bound.stage, dispatches: 1, seconds, flops: bound.flops })
                }
            }
        }
        Ok(times)
    }
}

impl Bound {
    pub fn record(&self, pass: &mut wgpu::ComputePass<'_>) {
        self.record_at(pass, self.offset);
    }

    /// Told by another part of its uniform buffer.
    pub fn record_at(&self, pass: &mut wgpu::ComputePass<'_>, offset: u32) {
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
