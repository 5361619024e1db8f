//! The GPU engine: every stage as a WGSL shader (`shaders/`), on any device that wgpu reaches.
//!
//! [`plan`] decides every dispatch before anything is allocated, [`compose`] makes the source of each stage,
//! `session` holds the buffers and runs the plan, `context` is the open device. Environments are evaluated together:
//! rows are padded to blocks of [`shared::ROW_BLOCK`], a block knows its environment, and one set of dispatches
//! serves them all. The arithmetic is f32; sums have a fixed order, so the same device gives the same bits twice.

pub mod compose;
mod context;
mod form;
pub mod pack;
pub mod plan;
mod session;
pub mod shared;
pub mod stages;
mod statistics;
mod training;
mod walk;

pub use super::adapters;
pub use context::Traffic;
pub use form::Form;
pub use training::GpuTraining;
pub use walk::GpuWalk;

use crate::data::Dataset;
use crate::engine::{Engine, Loss, LossSpec, StageTime};
use crate::model::Parameters;
use crate::{Error, Progress, Result, Scalar};
use adapters::Gpu;
use context::Context;
use plan::Bounds;
use session::{Edit, Session};
use std::sync::{Arc, Mutex};

/// The most memory that the engine takes, unless [`GpuEngine::with_budget`] sets another.
pub const DEFAULT_BUDGET: u64 = 4 << 30;

/// Evaluates on one GPU. The first use opens the device, and the next use after a loss opens it again.
pub struct GpuEngine {
    gpu: Gpu,
    limits: wgpu::Limits,
    bounds: Bounds,
    context: Mutex<Option<Arc<Context>>>,
    edits: Vec<Edit>,
}

impl GpuEngine {
    /// The arithmetic of shaders.
    pub const PRECISION: &str = "f32";

    /// An engine on `gpu` with everything the device allows.
    pub fn new(gpu: &Gpu) -> Self {
        let limits = gpu.adapter.limits();
        let binding = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size);
        GpuEngine {
            gpu: gpu.clone(),
            limits,
            bounds: Bounds::new(binding, DEFAULT_BUDGET),
            context: Mutex::default(),
            edits: Vec::new(),
        }
    }

    /// Takes at most this many bytes of memory.
    pub fn with_budget(mut self, bytes: u64) -> Self {
        self.bounds.budget_bytes = bytes;
        self
    }

    /// Opens the device with no more than every device has: bindings of 128 MiB, 8 storage buffers.
    pub fn with_portable_limits(mut self) -> Self {
        self.limits = wgpu::Limits::defaults();
        self.bounds.binding_bytes = Bounds::PORTABLE_BINDING;
        self
    }

    /// Plans within these bounds, which must not exceed what the device allows.
    pub fn with_bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Replaces text in the source of a stage. For tests: a wrong shader must be noticed.
    #[doc(hidden)]
    pub fn with_edit(mut self, stage: &'static str, from: &str, to: &str) -> Self {
        self.edits.push(Edit { stage, from: from.into(), to: to.into() });
        self
    }

    /// Another handle of the same open device.
    pub(crate) fn again(&self) -> GpuEngine {
        let held = self.context.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        GpuEngine {
            gpu: self.gpu.clone(),
            limits: self.limits.clone(),
            bounds: self.bounds,
            context: Mutex::new(held),
            edits: self.edits.clone(),
        }
    }

    /// What plans respect.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The open device; a lost one is replaced.
    fn context(&self) -> Result<Arc<Context>> {
        let mut held = self.context.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match held.as_ref() {
            Some(context) if context.is_alive() => Ok(context.clone()),
            _ => {
                let context = Arc::new(Context::open(&self.gpu, self.limits.clone())?);
                *held = Some(context.clone());
                Ok(context)
            }
        }
    }

    /// Takes the device away, as a driver reset does. Evaluations under way fail, and the next [`Engine::load`] opens the
    /// device again.
    pub fn destroy_device(&self) {
        if let Some(context) = self.context.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).as_ref() {
            context.destroy();
        }
    }

    /// Bytes per second, read and written, of copies between buffers of so many bytes: the fastest of a few.
    pub fn copy_rate(&self, bytes: u64) -> Result<f64> {
        const COPIES: u64 = 8;
        let context = self.context()?;
        let [from, to] = [context.storage("copied", bytes)?, context.storage("copy", bytes)?];
        let mut fastest: f64 = 0.0;
        for _ in 0..5 {
            let commands = context.record(|encoder| {
                (0..COPIES).for_each(|_| encoder.copy_buffer_to_buffer(&from, 0, &to, 0, bytes));
                0
            })?;
            let start = std::time::Instant::now();
            context.submit(commands)?;
            context.wait()?;
            fastest = fastest.max((2 * COPIES * bytes) as f64 / start.elapsed().as_secs_f64());
        }
        Ok(fastest)
    }

    /// Prepares to evaluate `spec` on `data`.
    pub fn load_gpu(&self, data: &Dataset, spec: &LossSpec) -> Result<GpuLoss> {
        Ok(GpuLoss {
            context: self.context()?,
            bounds: self.bounds,
            data: data.clone(),
            spec: *spec,
            edits: self.edits.clone(),
            session: None,
            environment_losses: vec![0.0; data.environments()],
            progress: Arc::default(),
        })
    }
}

impl<T: Scalar> Engine<T> for GpuEngine {
    fn device(&self) -> String {
        self.gpu.name().to_owned()
    }

    fn load(&self, data: &Dataset, spec: &LossSpec) -> Result<Box<dyn Loss<T>>> {
        if T::NAME != Self::PRECISION {
            return Err(Error::invalid(format!(
                "precision is {}, expected f32 on a GPU: use the CPU engine for {}",
                T::NAME,
                T::NAME
            )));
        }
        Ok(Box::new(self.load_gpu(data, spec)?))
    }
}

/// The loss on one dataset on a GPU. The first parameters determine the buffers; parameters of another form replace
/// them.
pub struct GpuLoss {
    context: Arc<Context>,
    bounds: Bounds,
    data: Dataset,
    spec: LossSpec,
    edits: Vec<Edit>,
    session: Option<Session>,
    environment_losses: Vec<f64>,
    progress: Arc<Progress>,
}

impl GpuLoss {
    /// The session for parameters of this form, with the parameters on the device.
    fn session<T: Scalar>(&mut self, parameters: &Parameters<T>) -> Result<&mut Session> {
        parameters.check_fits(self.data.dim(), self.data.environments())?;
        let form = Form::of(parameters, self.data.environments())?;
        if self.session.as_ref().is_none_or(|session| session.form != form) {
            self.session = None;
            let context = self.context.clone();
            let rows: Vec<usize> = (0..self.data.environments()).map(|e| self.data.rows(e).len()).collect();
            let session = Session::new(context, &rows, &self.spec, form, &self.bounds, 0, &self.edits)?;
            session.write_samples(&self.data, &self.spec)?;
            self.session = Some(session);
        }
        let session = self.session.as_mut().expect("made above");
        session.write_parameters(parameters)?;
        Ok(session)
    }

    /// Dispatches, submissions and bytes since the device was opened.
    pub fn traffic(&self) -> Traffic {
        self.context.traffic()
    }

    /// Replaces the samples by others with the same number of rows per environment.
    pub fn write_samples(&mut self, data: &Dataset) -> Result<()> {
        let shape = |data: &Dataset| (data.dim(), data.offsets().to_vec());
        if shape(data) != shape(&self.data) {
            return Err(Error::invalid(format!(
                "the batch has {} variables and {} rows in {} environments, expected {}, {} and {} with the same rows in each",
                data.dim(),
                data.samples().rows(),
                data.environments(),
                self.data.dim(),
                self.data.samples().rows(),
                self.data.environments()
            )));
        }
        self.data = data.clone();
        match &self.session {
            Some(session) => session.write_samples(data, &self.spec),
            None => Ok(()),
        }
    }

    /// The time of each stage of one evaluation with gradient, by the device's own clock.
    pub fn profile<T: Scalar>(&mut self, parameters: &Parameters<T>) -> Result<Vec<StageTime>> {
        self.session(parameters)?.profile()
    }

    /// Bytes that all buffers take.
    pub fn bytes(&self) -> u64 {
        self.session.as_ref().map_or(0, |session| session.plan.bytes())
    }
}

impl<T: Scalar> Loss<T> for GpuLoss {
    fn evaluate(&mut self, parameters: &Parameters<T>, gradient: Option<&mut Parameters<T>>) -> Result<f64> {
        if let Some(gradient) = &gradient {
            gradient.check_shape_of(parameters)?;
        }
        let progress = self.progress.clone();
        let session = self.session(parameters)?;
        session.run(gradient.is_some(), &progress)?;
        let (losses, packed) = session.read(gradient.is_some())?;
        let form = session.form;
        progress.set(Loss::<T>::pairs(self))?;
        self.environment_losses = losses;
        check_losses(&self.environment_losses)?;
        if let Some(gradient) = gradient {
            if let Some(at) = packed.iter().position(|v| !v.is_finite()) {
                let (name, entry) = pack::name_of(parameters, &form, at).unwrap_or(("padding", at));
                return Err(Error::NonFinite(format!(
                    "the gradient of {name} is {} at entry {entry}, expected finite numbers",
                    packed[at]
                )));
            }
            pack::unpack(&packed, &form, gradient);
        }
        Ok(self.environment_losses.iter().sum::<f64>() / self.environment_losses.len() as f64)
    }

    fn environment_losses(&self) -> &[f64] {
        &self.environment_losses
    }

    fn pairs(&self) -> u64 {
        (0..self.data.environments()).map(|e| self.spec.estimator.pairs(self.data.rows(e).len())).sum()
    }

    fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }
}

fn check_losses(losses: &[f64]) -> Result<()> {
    match losses.iter().position(|loss| !loss.is_finite()) {
        None => Ok(()),
        Some(e) => Err(Error::NonFinite(format!(
            "the loss of environment {e} is {}, expected a finite number: are the parameters or samples too large for f32?",
            losses[e]
        ))),
    }
}
