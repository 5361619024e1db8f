//! The GPU engine of a build without the feature `gpu`: its types exist and have no values, so that everything which takes an
//! optional GPU compiles unchanged and never finds one.

use super::pair_sums::{PairColumns, PairSums};
use super::{Engine, Loss, LossSpec, StageTime, Standing, State, Training, TrainingSpec};
use crate::data::Dataset;
use crate::kernel::Kernel;
use crate::model::Parameters;
use crate::objective::Estimator;
use crate::{Matrix, Progress, Result, Scalar};
use adapters::Gpu;
use std::convert::Infallible;

/// Memory that the engine takes at most unless told otherwise.
pub const DEFAULT_BUDGET: u64 = 4 << 30;

/// There are none.
pub struct GpuEngine(Infallible);

/// There are none.
pub struct GpuLoss(Infallible);

/// There are none.
pub struct GpuTraining(Infallible);

/// There are none.
pub struct GpuWalk(Infallible);

impl GpuEngine {
    /// The arithmetic of shaders.
    pub const PRECISION: &str = "f32";

    /// Never called: there is no `gpu`.
    pub fn new(gpu: &Gpu) -> Self {
        match gpu.none {}
    }

    /// Never called.
    pub fn with_budget(self, _: u64) -> Self {
        match self.0 {}
    }

    pub(crate) fn again(&self) -> GpuEngine {
        match self.0 {}
    }

    /// Never called.
    pub fn copy_rate(&self, _: u64) -> Result<f64> {
        match self.0 {}
    }

    /// Never called.
    pub fn load_gpu(&self, _: &Dataset, _: &LossSpec) -> Result<GpuLoss> {
        match self.0 {}
    }

    /// Never called.
    pub fn train(
        &self,
        _: &Dataset,
        _: &TrainingSpec,
        _: &Parameters<f32>,
        _: &Parameters<f32>,
    ) -> Result<GpuTraining> {
        match self.0 {}
    }

    pub(crate) fn can_simulate(&self, _: &Parameters<f64>) -> bool {
        match self.0 {}
    }

    /// Never called.
    pub fn walk<T: Scalar>(
        &self,
        _: &Parameters<T>,
        _: &[usize],
        _: &[u64],
        _: f64,
        _: Option<&[f64]>,
    ) -> Result<GpuWalk> {
        match self.0 {}
    }

    pub(crate) fn pair_sums(
        &self,
        _: &Dataset,
        _: Kernel,
        _: Estimator,
        _: &[PairColumns<'_>],
        _: &Progress,
    ) -> Result<Vec<PairSums>> {
        match self.0 {}
    }
}

impl<T: Scalar> Engine<T> for GpuEngine {
    fn device(&self) -> String {
        match self.0 {}
    }

    fn load(&self, _: &Dataset, _: &LossSpec) -> Result<Box<dyn Loss<T>>> {
        match self.0 {}
    }
}

impl GpuLoss {
    /// Never called.
    pub fn profile<T: Scalar>(&mut self, _: &Parameters<T>) -> Result<Vec<StageTime>> {
        match self.0 {}
    }
}

impl GpuWalk {
    /// Never called.
    pub fn walk(&mut self, _: usize, _: &Progress) -> Result<()> {
        match self.0 {}
    }

    /// Never called.
    pub fn chains(&self) -> Result<Vec<Matrix<f64>>> {
        match self.0 {}
    }
}

impl GpuTraining {
    /// Never called.
    pub fn weighing(self, _: &Matrix<f64>) -> Result<Self> {
        match self.0 {}
    }
}

impl Training for GpuTraining {
    fn step(&mut self) -> Result<()> {
        match self.0 {}
    }

    fn standing(&mut self) -> Result<Standing> {
        match self.0 {}
    }

    fn state(&mut self) -> Result<State> {
        match self.0 {}
    }

    fn restore(&mut self, _: &State) -> Result<()> {
        match self.0 {}
    }
}

/// Which GPUs there are: none.
pub mod adapters {
    use crate::{Error, Result};
    use std::convert::Infallible;

    /// There are none.
    #[derive(Clone, Debug)]
    pub struct Gpu {
        /// Its position in lists.
        pub index: usize,
        pub(super) none: Infallible,
    }

    /// What kind of device computes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum GpuKind {
        /// A program that pretends to be a GPU: for tests.
        Software,
    }

    /// What a device allows.
    pub struct Limits {
        /// Bytes of a binding.
        pub max_storage_buffer_binding_size: u64,
        /// Bytes of a buffer.
        pub max_buffer_size: u64,
        /// Storage buffers of a stage.
        pub max_storage_buffers_per_shader_stage: u32,
        /// Bytes that a workgroup shares.
        pub max_compute_workgroup_storage_size: u32,
    }

    impl GpuKind {
        /// For people.
        pub fn name(self) -> &'static str {
            "software"
        }
    }

    impl Gpu {
        /// Never called.
        pub fn name(&self) -> &str {
            match self.none {}
        }

        /// Never called.
        pub fn kind(&self) -> GpuKind {
            match self.none {}
        }

        /// Never called.
        pub fn backend(&self) -> String {
            match self.none {}
        }

        /// Never called.
        pub fn driver(&self) -> String {
            match self.none {}
        }

        /// Never called.
        pub fn limits(&self) -> Limits {
            match self.none {}
        }

        /// Never called.
        pub fn has_timestamps(&self) -> bool {
            match self.none {}
        }
    }

    /// None.
    pub fn list() -> Vec<Gpu> {
        Vec::new()
    }

    /// None.
    pub fn best(_: &[Gpu]) -> Option<&Gpu> {
        None
    }

    /// An error: there is none.
    pub fn any(_: &[Gpu]) -> Result<&Gpu> {
        Err(Error::invalid(
            "the device is 'gpu', expected 'cpu': this build of skds has no GPU support (feature `gpu`)",
        ))
    }

    /// An error: there is none.
    pub fn named<'a>(_: &'a [Gpu], name: &str) -> Result<&'a Gpu> {
        Err(Error::invalid(format!(
            "unknown device '{name}', expected 'cpu': this build of skds has no GPU support (feature `gpu`)"
        )))
    }
}
