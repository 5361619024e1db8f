//! Which GPUs there are, what they are, and which one a request means.

use crate::{Error, Result};
use wgpu::{Adapter, AdapterInfo, Backends, DeviceType, Instance, InstanceDescriptor};

/// A GPU that wgpu reaches.
#[derive(Clone, Debug)]
pub struct Gpu {
    pub(super) adapter: Adapter,
    /// Its position in lists.
    pub index: usize,
    info: AdapterInfo,
}

/// What kind of device computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuKind {
    /// A card with memory of its own.
    Discrete,
    /// Part of the processor.
    Integrated,
    /// Given to a virtual machine.
    Virtual,
    /// A program that pretends to be a GPU: for tests.
    Software,
    /// The driver does not say.
    Unknown,
}

impl GpuKind {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            GpuKind::Discrete => "discrete",
            GpuKind::Integrated => "integrated",
            GpuKind::Virtual => "virtual",
            GpuKind::Software => "software",
            GpuKind::Unknown => "unknown",
        }
    }

    /// Preference for automatic choice; a software adapter is never chosen.
    fn rank(self) -> Option<u8> {
        match self {
            GpuKind::Discrete => Some(0),
            GpuKind::Integrated => Some(1),
            GpuKind::Virtual => Some(2),
            GpuKind::Unknown => Some(3),
            GpuKind::Software => None,
        }
    }
}

impl Gpu {
    /// The adapter's name.
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// What kind of device it is.
    pub fn kind(&self) -> GpuKind {
        match self.info.device_type {
            DeviceType::DiscreteGpu => GpuKind::Discrete,
            DeviceType::IntegratedGpu => GpuKind::Integrated,
            DeviceType::VirtualGpu => GpuKind::Virtual,
            DeviceType::Cpu => GpuKind::Software,
            DeviceType::Other => GpuKind::Unknown,
        }
    }

    /// Vulkan, Metal or DirectX.
    pub fn backend(&self) -> String {
        self.info.backend.to_string()
    }

    /// The driver with its version.
    pub fn driver(&self) -> String {
        format!("{} {}", self.info.driver, self.info.driver_info).trim().to_owned()
    }

    /// What the device allows.
    pub fn limits(&self) -> wgpu::Limits {
        self.adapter.limits()
    }

    /// Whether it can time its own work.
    pub fn has_timestamps(&self) -> bool {
        self.adapter.features().contains(wgpu::Features::TIMESTAMP_QUERY)
    }
}

/// Every GPU that can run the engine's shaders, in a fixed order. Empty where there is no driver.
pub fn list() -> Vec<Gpu> {
    // GL is left out on purpose: its adapters pretend to more than their compute shaders can do.
    let backends = Backends::VULKAN | Backends::METAL | Backends::DX12;
    let instance =
        Instance::new(InstanceDescriptor { backends, ..InstanceDescriptor::new_without_display_handle() });
    let mut adapters = pollster::block_on(instance.enumerate_adapters(backends));
    adapters.retain(|adapter| {
        let compute = wgpu::DownlevelFlags::COMPUTE_SHADERS;
        adapter.get_downlevel_capabilities().flags.contains(compute)
            && adapter.limits().max_storage_buffers_per_shader_stage >= 8
    });
    adapters
        .into_iter()
        .enumerate()
        .map(|(index, adapter)| {
            let info = adapter.get_info();
            Gpu { adapter, index, info }
        })
        .collect()
}

/// The GPU that `auto` takes: the first of the best kind, never a software one.
pub fn best(gpus: &[Gpu]) -> Option<&Gpu> {
    gpus.iter().filter(|gpu| gpu.kind().rank().is_some()).min_by_key(|gpu| (gpu.kind().rank(), gpu.index))
}

/// The GPU that `gpu` means: the best one, or a software one if there is no other.
pub fn any(gpus: &[Gpu]) -> Result<&Gpu> {
    best(gpus).or_else(|| gpus.first()).ok_or_else(|| {
        Error::invalid(
            "no GPU found, expected a Vulkan driver (on Debian, mesa-vulkan-drivers has one in software): use the CPU engine",
        )
    })
}

/// The GPU with this index or with this text in its name, in any case.
pub fn named<'a>(gpus: &'a [Gpu], name: &str) -> Result<&'a Gpu> {
    let found = match name.parse::<usize>() {
        Ok(index) => gpus.get(index),
        Err(_) => gpus.iter().find(|gpu| gpu.name().to_lowercase().contains(&name.to_lowercase())),
    };
    found.ok_or_else(|| {
        let mut known = vec!["auto".to_owned(), "cpu".to_owned()];
        if !gpus.is_empty() {
            known.push("gpu".to_owned());
        }
        known.extend(gpus.iter().map(|gpu| format!("{} ({})", gpu.index, gpu.name())));
        Error::invalid(format!("unknown device '{name}', expected one of {}", known.join(", ")))
    })
}
