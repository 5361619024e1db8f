//! Measuring: how long losses, training steps and fits take, beside each other and beside what the machine can do.
//!
//! Everything that is compared runs in one process (or, for [`peers`], side by side) and in turns ([`race`]), so that whatever
//! else the machine does hits all sides alike. Times are medians; the spread is stated, and a comparison that drowns in it is
//! said to. Each section gives [`Record`]s, which become text, JSON, csv and pictures ([`report`]).

pub mod machine;
pub mod memory;
pub mod paper;
pub mod peers;
mod problem;
mod record;
pub mod report;
pub mod roofline;
pub mod scaling;
mod timing;
pub mod training;

pub use machine::Machine;
pub use problem::{Case, problem};
pub use record::Record;
pub use timing::{Contender, Effort, Noise, Ratio, Timing, race};

use crate::Result;
use crate::engine::cpu::CpuEngine;
use crate::engine::gpu::GpuEngine;
use crate::engine::gpu::adapters::{Gpu, GpuKind};
use crate::engine::{Chosen, Engine, Loss};

/// Where something is measured.
pub enum Place {
    /// The CPU engine.
    Cpu,
    /// A GPU; one in software says nothing about speed and is labelled so.
    Gpu(Box<Gpu>),
}

impl Place {
    /// What a device on the command line turned out to be.
    pub fn of(chosen: Chosen<'_>) -> Self {
        match chosen {
            Chosen::Cpu => Place::Cpu,
            Chosen::Gpu(gpu) => Place::Gpu(Box::new(gpu.clone())),
        }
    }

    /// As reports call it.
    pub fn name(&self) -> String {
        match self {
            Place::Cpu => "cpu".into(),
            Place::Gpu(gpu) if gpu.kind() == GpuKind::Software => format!("{} [software]", gpu.name()),
            Place::Gpu(gpu) => gpu.name().into(),
        }
    }

    /// Whether its times say nothing about a GPU.
    pub fn is_software(&self) -> bool {
        matches!(self, Place::Gpu(gpu) if gpu.kind() == GpuKind::Software)
    }

    /// The GPU engine, if it is one.
    pub fn gpu(&self) -> Option<GpuEngine> {
        match self {
            Place::Cpu => None,
            Place::Gpu(gpu) => Some(GpuEngine::new(gpu)),
        }
    }

    /// A loss in f32, ready to evaluate.
    fn load(&self, data: &crate::data::Dataset, case: &Case) -> Result<Box<dyn Loss<f32>>> {
        match self.gpu() {
            Some(engine) => Engine::<f32>::load(&engine, data, &case.spec()?),
            None => CpuEngine.load(data, &case.spec()?),
        }
    }
}

/// A contender that evaluates a loss and its gradient.
fn evaluation(place: &Place, case: Case) -> Result<Contender<'static>> {
    let (data, parameters) = problem(case.n, case.d);
    let mut loss = place.load(&data, &case)?;
    let mut gradient = parameters.zeros_like();
    Ok(Contender::new(case.name(), move || loss.evaluate(&parameters, Some(&mut gradient))))
}
