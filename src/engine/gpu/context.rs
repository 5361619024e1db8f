//! An open device: buffers, pipelines, submissions and results, with every failure as a typed error and every byte
//! that crosses the bus counted.

use super::compose::Composed;
use super::stages::Stage;
use crate::engine::adapters::Gpu;
use crate::panics::caught;
use crate::{DeviceFailure, Error, Result};
use std::collections::HashMap;
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard};
use wgpu::{BindGroupLayout, Buffer, BufferUsages, CommandBuffer, ComputePipeline};

/// A lock that a panic elsewhere does not poison for us: what it guards is always whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// What evaluations have cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Dispatches.
    pub dispatches: u64,
    /// Submissions to the queue.
    pub submissions: u64,
    /// Bytes written to the device.
    pub uploaded: u64,
    /// Bytes read back.
    pub read_back: u64,
    /// Submissions that found the device idle, because the host had waited for all before them.
    pub idle: u64,
}

/// What was handed to the device, to wait for.
pub(super) struct Submission {
    index: wgpu::SubmissionIndex,
    /// How many there were then, itself included.
    number: u64,
}

/// A pipeline with the layout of its bindings.
#[derive(Clone)]
pub(super) struct Pipeline {
    pub pipeline: ComputePipeline,
    pub layout: BindGroupLayout,
}

/// An open device.
pub(super) struct Context {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    name: String,
    lost: Arc<Mutex<Option<String>>>,
    traffic: Mutex<Traffic>,
    /// How many submissions are known to be done.
    done: Mutex<u64>,
    pipelines: Mutex<HashMap<String, Arc<Pipeline>>>,
}

impl Context {
    /// Opens `gpu` with the given limits.
    pub(super) fn open(gpu: &Gpu, limits: wgpu::Limits) -> Result<Self> {
        let name = gpu.name().to_owned();
        let fail = |problem: String| Error::Device {
            device: name.clone(),
            failure: DeviceFailure::Unavailable(problem),
        };
        let wanted = wgpu::Features::TIMESTAMP_QUERY;
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("skds"),
            required_features: gpu.adapter.features() & wanted,
            required_limits: limits,
            ..Default::default()
        };
        let opened = caught(|| pollster::block_on(gpu.adapter.request_device(&descriptor)));
        let (device, queue) = opened.map_err(&fail)?.map_err(|e| fail(e.to_string()))?;
        let lost = Arc::new(Mutex::new(None));
        let note = lost.clone();
        device.set_device_lost_callback(move |reason, message| {
            let text = if message.is_empty() { format!("{reason:?}") } else { message };
            locked(&note).get_or_insert(text);
        });
        // Errors outside a scope come with the loss of a device; the next call reports it.
        let note = lost.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            locked(&note).get_or_insert(error.to_string());
        }));
        let (traffic, done, pipelines) = Default::default();
        Ok(Context { device, queue, name, lost, traffic, done, pipelines })
    }

    /// The adapter's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What was moved so far.
    pub(super) fn traffic(&self) -> Traffic {
        *locked(&self.traffic)
    }

    fn failure(&self, failure: DeviceFailure) -> Error {
        Error::Device { device: self.name.clone(), failure }
    }

    /// Whether the device can still be used.
    pub(super) fn is_alive(&self) -> bool {
        self.check_alive().is_ok()
    }

    fn check_alive(&self) -> Result<()> {
        match locked(&self.lost).as_ref() {
            Some(reason) => Err(self.failure(DeviceFailure::Lost(reason.clone()))),
            None => Ok(()),
        }
    }

    /// Runs calls to wgpu and turns their failures into errors of this crate. `refused` is the failure to report
    /// if the call itself was found invalid.
    fn guarded<R>(&self, refused: fn(String) -> DeviceFailure, call: impl FnOnce() -> R) -> Result<R> {
        self.check_alive()?;
        let result = caught(|| {
            let internal = self.device.push_error_scope(wgpu::ErrorFilter::Internal);
            let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
            let validation = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
            let value = call();
            let invalid = pollster::block_on(validation.pop());
            let memory = pollster::block_on(memory.pop());
            let internal = pollster::block_on(internal.pop());
            (value, invalid, memory, internal)
        });
        let alive = self.check_alive();
        let (value, invalid, memory, internal) = match result {
            Ok(all) => all,
            Err(message) => {
                alive?;
                return Err(self.failure(DeviceFailure::Lost(message)));
            }
        };
        alive?;
        if let Some(error) = memory {
            return Err(self.failure(DeviceFailure::OutOfMemory(error.to_string())));
        }
        if let Some(error) = invalid.or(internal) {
            return Err(self.failure(refused(error.to_string())));
        }
        Ok(value)
    }

    /// A buffer of at least `size` bytes.
    pub(super) fn buffer(&self, label: &str, size: u64, usage: BufferUsages) -> Result<Buffer> {
        let descriptor = wgpu::BufferDescriptor {
            label: Some(label),
            // An empty binding is not allowed.
            size: size.max(16),
            usage,
            mapped_at_creation: false,
        };
        self.guarded(DeviceFailure::Driver, || self.device.create_buffer(&descriptor))
    }

    /// A buffer that shaders read and write.
    pub(super) fn storage(&self, label: &str, size: u64) -> Result<Buffer> {
        self.buffer(label, size, BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC)
    }

    /// Writes `bytes` at `offset`.
    pub(super) fn write(&self, buffer: &Buffer, offset: u64, bytes: &[u8]) -> Result<()> {
        self.guarded(DeviceFailure::Driver, || self.queue.write_buffer(buffer, offset, bytes))?;
        locked(&self.traffic).uploaded += bytes.len() as u64;
        Ok(())
    }

    /// The pipeline of a composed shader; compiled once.
    pub(super) fn pipeline(&self, stage: &Stage, composed: &Composed) -> Result<Arc<Pipeline>> {
        if let Some(known) = locked(&self.pipelines).get(&composed.label) {
            return Ok(known.clone());
        }
        let buffer = |binding: usize, ty, has_dynamic_offset| wgpu::BindGroupLayoutEntry {
            binding: binding as u32,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset, min_binding_size: None },
            count: None,
        };
        let mut entries = vec![buffer(0, wgpu::BufferBindingType::Uniform, true)];
        for (at, slot) in composed.slots.iter().enumerate() {
            let read_only = !stage.writes.contains(slot);
            entries.push(buffer(at + 1, wgpu::BufferBindingType::Storage { read_only }, false));
        }
        let label = Some(composed.label.as_str());
        let made = self.guarded(DeviceFailure::Shader, || {
            let layout = self
                .device
                .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label, entries: &entries });
            let pipeline_layout = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label,
                bind_group_layouts: &[Some(&layout)],
                immediate_size: 0,
            });
            let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
                label,
                source: wgpu::ShaderSource::Wgsl(composed.source.as_str().into()),
            });
            let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label,
                layout: Some(&pipeline_layout),
                module: &module,
                entry_point: Some("main"),
                compilation_options: Default::default(),
                cache: None,
            });
            Pipeline { pipeline, layout }
        })?;
        let made = Arc::new(made);
        locked(&self.pipelines).insert(composed.label.clone(), made.clone());
        Ok(made)
    }

    /// A bind group: `uniform_size` bytes of a uniform buffer, then the stage's buffers in the order of
    /// their slots.
    pub(super) fn bind(
        &self,
        layout: &BindGroupLayout,
        uniform: &Buffer,
        uniform_size: NonZero<u64>,
        buffers: &[&Buffer],
    ) -> Result<wgpu::BindGroup> {
        let uniform = wgpu::BufferBinding { buffer: uniform, offset: 0, size: Some(uniform_size) };
        let uniform = std::iter::once(wgpu::BindingResource::Buffer(uniform));
        let resources = uniform.chain(buffers.iter().map(|buffer| buffer.as_entire_binding()));
        let entries: Vec<_> = resources
            .enumerate()
            .map(|(at, resource)| wgpu::BindGroupEntry { binding: at as u32, resource })
            .collect();
        self.guarded(DeviceFailure::Driver, || {
            self.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout,
                entries: &entries,
            })
        })
    }

    /// Records commands.
    pub(super) fn record(
        &self,
        fill: impl FnOnce(&mut wgpu::CommandEncoder) -> u64,
    ) -> Result<CommandBuffer> {
        let (commands, dispatches) = self.guarded(DeviceFailure::Driver, || {
            let mut encoder = self.device.create_command_encoder(&Default::default());
            let dispatches = fill(&mut encoder);
            (encoder.finish(), dispatches)
        })?;
        locked(&self.traffic).dispatches += dispatches;
        Ok(commands)
    }

    /// Hands commands to the device.
    pub(super) fn submit(&self, commands: CommandBuffer) -> Result<Submission> {
        let index = self.guarded(DeviceFailure::Driver, || self.queue.submit([commands]))?;
        let mut traffic = locked(&self.traffic);
        traffic.idle += u64::from(*locked(&self.done) == traffic.submissions);
        traffic.submissions += 1;
        Ok(Submission { index, number: traffic.submissions })
    }

    /// Waits until everything submitted is done.
    pub(super) fn wait(&self) -> Result<()> {
        let number = locked(&self.traffic).submissions;
        self.wait_until(wgpu::PollType::wait_indefinitely(), number)
    }

    /// Waits until this and everything submitted before is done.
    pub(super) fn wait_for(&self, submission: &Submission) -> Result<()> {
        let index = Some(submission.index.clone());
        let poll = wgpu::PollType::Wait { submission_index: index, timeout: None };
        self.wait_until(poll, submission.number)
    }

    fn wait_until(&self, poll: wgpu::PollType, number: u64) -> Result<()> {
        self.guarded(DeviceFailure::Driver, || self.device.poll(poll))?
            .map_err(|e| self.failure(DeviceFailure::Driver(e.to_string())))?;
        let mut done = locked(&self.done);
        *done = number.max(*done);
        Ok(())
    }

    /// The first bytes of buffers, one after the other, once everything submitted is done.
    pub(super) fn read_back(&self, sources: &[(&Buffer, u64)], staging: &Buffer) -> Result<Vec<u8>> {
        let commands = self.record(|encoder| {
            let mut at = 0;
            for (source, size) in sources {
                encoder.copy_buffer_to_buffer(source, 0, staging, at, *size);
                at += size;
            }
            0
        })?;
        self.submit(commands)?;
        self.read(staging, sources.iter().map(|(_, size)| size).sum())
    }

    /// The contents of `staging` once everything submitted is done.
    pub(super) fn read(&self, staging: &Buffer, size: u64) -> Result<Vec<u8>> {
        let slice = staging.slice(..size);
        let (sender, receiver) = std::sync::mpsc::channel();
        self.guarded(DeviceFailure::Driver, || {
            slice.map_async(wgpu::MapMode::Read, move |result| {
                let _ = sender.send(result);
            });
        })?;
        self.wait()?;
        let mapped = receiver.recv().map_err(|e| e.to_string()).and_then(|r| r.map_err(|e| e.to_string()));
        mapped.map_err(|problem| self.failure(DeviceFailure::Driver(problem)))?;
        let bytes = self
            .guarded(DeviceFailure::Driver, || slice.get_mapped_range().map(|view| view.to_vec()))?
            .map_err(|e| self.failure(DeviceFailure::Driver(e.to_string())))?;
        self.guarded(DeviceFailure::Driver, || staging.unmap())?;
        locked(&self.traffic).read_back += size;
        Ok(bytes)
    }

    /// Takes the device away, as a driver reset does.
    pub(super) fn destroy(&self) {
        self.device.destroy();
        // The callback comes with the next poll.
        let _ = caught(|| self.device.poll(wgpu::PollType::Poll));
    }
}
