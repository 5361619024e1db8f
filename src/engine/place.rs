//! Where something is computed: the CPU engine or one of the GPUs.

use super::Chosen;
use super::cpu::CpuEngine;
use super::gpu::GpuEngine;
use super::gpu::adapters::{Gpu, GpuKind};
use super::{Engine, Loss, LossSpec};
use crate::Result;
use crate::data::Dataset;

/// Where something is computed.
pub enum Place {
    /// The CPU engine.
    Cpu,
    /// A GPU. Reports label one in software, because its times say nothing about a GPU.
    Gpu(Box<Gpu>),
}

impl Place {
    /// The place of a chosen device.
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
    pub fn load(&self, data: &Dataset, spec: &LossSpec) -> Result<Box<dyn Loss<f32>>> {
        match self.gpu() {
            Some(engine) => Engine::<f32>::load(&engine, data, spec),
            None => CpuEngine.load(data, spec),
        }
    }
}
