//! The GPU engine of a build without the feature `gpu`: its types exist and have no values, so that everything which takes
//! an optional GPU compiles unchanged and never finds one.

use super::pair_sums::{PairColumns, PairSums};
use super::{Engine, Loss, LossSpec, StageTime, Standing, State, Training, TrainingSpec};
use crate::data::Dataset;
use crate::kernel::Kernel;
use crate::model::Parameters;
use crate::objective::Estimator;
use crate::{Matrix, Progress, Result, Scalar};
use adapters::Gpu;
use std::convert::Infallible;

pub use super::adapters;

/// The most memory that the engine takes, unless [`GpuEngine::with_budget`] sets another.
pub const DEFAULT_BUDGET: u64 = 4 << 30;

/// There are none.
pub struct GpuEngine(Infallible);

/// There are none.
pub struct GpuLoss(Infallible);

/// There are none.
pub struct GpuTraining(Infallible);

/// There are none.
pub struct GpuWalk(Infallible);

/// Functions of a type without values: nothing can call them.
macro_rules! uncallable {
    ($($visibility:vis fn $name:ident $(<$t:ident: $bound:ident>)? ($self:ident: $me:ty $(, $argument:ty)*) -> $result:ty;)+) => {
        $(
            /// Nothing can call this.
            $visibility fn $name $(<$t: $bound>)? ($self: $me $(, _: $argument)*) -> $result {
                match $self.0 {}
            }
        )+
    };
}

impl GpuEngine {
    /// The arithmetic of shaders.
    pub const PRECISION: &str = "f32";

    /// Nothing can call this: there is no GPU.
    pub fn new(gpu: &Gpu) -> Self {
        gpu.adapter.never()
    }

    uncallable! {
        pub fn with_budget(self: Self, u64) -> Self;
        pub(crate) fn again(self: &Self) -> Self;
        pub(crate) fn can_simulate(self: &Self, &Parameters<f64>) -> bool;
        pub fn copy_rate(self: &Self, u64) -> Result<f64>;
        pub fn load_gpu(self: &Self, &Dataset, &LossSpec) -> Result<GpuLoss>;
        pub fn train(self: &Self, &Dataset, &TrainingSpec, &Parameters<f32>, &Parameters<f32>) -> Result<GpuTraining>;
        pub fn walk<T: Scalar>(self: &Self, &Parameters<T>, &[usize], &[u64], f64, Option<&[f64]>) -> Result<GpuWalk>;
        pub(crate) fn pair_sums(self: &Self, &Dataset, Kernel, Estimator, &[PairColumns<'_>], &Progress) -> Result<Vec<PairSums>>;
    }
}

impl<T: Scalar> Engine<T> for GpuEngine {
    uncallable! {
        fn device(self: &Self) -> String;
        fn load(self: &Self, &Dataset, &LossSpec) -> Result<Box<dyn Loss<T>>>;
    }
}

impl GpuLoss {
    uncallable! {
        pub fn profile<T: Scalar>(self: &mut Self, &Parameters<T>) -> Result<Vec<StageTime>>;
    }
}

impl GpuWalk {
    uncallable! {
        pub fn walk(self: &mut Self, usize, &Progress) -> Result<()>;
        pub fn chains(self: &Self) -> Result<Vec<Matrix<f64>>>;
        pub(crate) fn set_parameters(self: &mut Self, &Parameters<f64>) -> Result<()>;
    }
}

impl GpuTraining {
    uncallable! {
        pub fn weighing(self: Self, &Matrix<f64>) -> Result<Self>;
    }
}

impl Training for GpuTraining {
    uncallable! {
        fn step(self: &mut Self) -> Result<()>;
        fn standing(self: &mut Self) -> Result<Standing>;
        fn state(self: &mut Self) -> Result<State>;
        fn restore(self: &mut Self, &State) -> Result<()>;
    }
}
