//! The options of every command that computes.

use crate::engine::gpu::{DEFAULT_BUDGET, GpuEngine};
use crate::engine::{Device, Engine, Precision};
use crate::sample::{Method, Sampler};
use crate::{Error, Result};

/// Where to compute.
#[derive(clap::Args)]
#[command(next_help_heading = "Device")]
pub(super) struct DeviceArgs {
    /// The device: auto, cpu, gpu, or an index or part of a name from 'skds devices'
    ///
    /// 'auto' takes a hardware GPU if there is one, otherwise the CPU.
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    pub device: Device,
    /// Limit on GPU memory, in GiB
    #[arg(long, value_name = "GIB", default_value_t = (DEFAULT_BUDGET >> 30) as f64, allow_hyphen_values = true)]
    pub gpu_memory: f64,
}

impl DeviceArgs {
    fn memory(&self) -> Result<u64> {
        if !(self.gpu_memory > 0.0 && self.gpu_memory < 1e6) {
            return Err(Error::invalid(format!(
                "--gpu-memory is {}, expected a number of GiB above 0",
                self.gpu_memory
            )));
        }
        Ok((self.gpu_memory * f64::from(1 << 30)) as u64)
    }

    /// Whether choosing the device means looking for GPUs.
    pub(super) fn may_be_gpu(&self) -> bool {
        self.device != Device::Cpu
    }

    /// The engine.
    pub(super) fn engine<T: Precision>(&self) -> Result<Box<dyn Engine<T>>> {
        self.device.engine(self.memory()?)
    }

    /// The GPU engine, or none for the CPU.
    pub(super) fn gpu_or_cpu(&self) -> Result<Option<GpuEngine>> {
        self.device.gpu::<f32>(self.memory()?)
    }

    /// What draws samples: only simulations can use a GPU, so otherwise none is looked for.
    pub(super) fn sampler(&self, method: Method) -> Result<Sampler> {
        Ok(match method {
            Method::Exact => Sampler::cpu(),
            Method::Auto | Method::Euler => Sampler::with_gpu(self.gpu_or_cpu()?),
        })
    }

    /// The GPU engine; an error if the device is none.
    pub(super) fn gpu(&self) -> Result<GpuEngine> {
        self.gpu_or_cpu()?
            .ok_or_else(|| Error::invalid(format!("the device '{}' is the CPU, expected a GPU", self.device)))
    }
}
