//! Which device computes.

use super::Engine;
use super::cpu::{CpuEngine, Precision};
use super::gpu::GpuEngine;
use super::gpu::adapters::{self, Gpu};
use crate::{Error, Result, Scalar};

/// A device as people name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// A real GPU if there is one, otherwise the CPU engine.
    #[default]
    Auto,
    /// The CPU engine.
    Cpu,
    /// The best GPU; a software one only if there is no other.
    Gpu,
    /// The GPU with this index or with this text in its name.
    Named(String),
}

/// The device that a [`Device`] means on this machine.
#[derive(Clone, Copy, Debug)]
pub enum Chosen<'a> {
    /// The CPU engine.
    Cpu,
    /// A GPU.
    Gpu(&'a Gpu),
}

impl Device {
    /// Which of `gpus`, or the CPU engine, this means.
    pub fn choose<'a>(&self, gpus: &'a [Gpu]) -> Result<Chosen<'a>> {
        Ok(match self {
            Device::Auto => adapters::best(gpus).map_or(Chosen::Cpu, Chosen::Gpu),
            Device::Cpu => Chosen::Cpu,
            Device::Gpu => Chosen::Gpu(adapters::any(gpus)?),
            Device::Named(name) => Chosen::Gpu(adapters::named(gpus, name)?),
        })
    }

    /// The engine that computes on this device. A GPU takes at most `memory` bytes.
    pub fn engine<T: Precision>(&self, memory: u64) -> Result<Box<dyn Engine<T>>> {
        Ok(match self.gpu::<T>(memory)? {
            Some(engine) => Box::new(engine),
            None => Box::new(CpuEngine),
        })
    }

    /// The GPU engine, if this device is a GPU. In f64, which GPUs lack, `auto` means the CPU.
    pub fn gpu<T: Scalar>(&self, memory: u64) -> Result<Option<GpuEngine>> {
        let auto_without_gpu = *self == Device::Auto && T::NAME != GpuEngine::PRECISION;
        if *self == Device::Cpu || auto_without_gpu {
            return Ok(None);
        }
        let gpus = adapters::list();
        Ok(match self.choose(&gpus)? {
            Chosen::Cpu => None,
            Chosen::Gpu(gpu) => Some(GpuEngine::new(gpu).with_budget(memory)),
        })
    }
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Device::Auto => "auto",
            Device::Cpu => "cpu",
            Device::Gpu => "gpu",
            Device::Named(name) => name,
        })
    }
}

impl std::str::FromStr for Device {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Ok(match name.trim() {
            "" => {
                return Err(Error::invalid(
                    "the device is empty, expected auto, cpu, gpu, an index or a name",
                ));
            }
            "auto" => Device::Auto,
            "cpu" => Device::Cpu,
            "gpu" => Device::Gpu,
            other => Device::Named(other.to_owned()),
        })
    }
}
