//! Which GPUs there are, what they are, and which one a request means.

use crate::{Error, Result};

#[cfg(feature = "gpu")]
const NONE_FOUND: &str = "no GPU found, expected a Vulkan driver (on Debian, mesa-vulkan-drivers has one in software): use the CPU engine";
#[cfg(not(feature = "gpu"))]
const NONE_FOUND: &str =
    "the device is 'gpu', expected 'cpu': this build of skds has no GPU support (feature `gpu`)";

/// A GPU that can run the engine's shaders. A build without the feature `gpu` has none.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// Its position in lists.
    pub index: usize,
    name: String,
    kind: GpuKind,
    backend: String,
    driver: String,
    limits: Limits,
    has_timestamps: bool,
    pub(super) adapter: Adapter,
}

#[cfg(feature = "gpu")]
type Adapter = wgpu::Adapter;
/// What no value has, so there is no [`Gpu`].
#[cfg(not(feature = "gpu"))]
#[derive(Clone, Debug)]
pub(super) struct Adapter(std::convert::Infallible);

#[cfg(not(feature = "gpu"))]
impl Adapter {
    pub(super) fn never(&self) -> ! {
        match self.0 {}
    }
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
    /// A program that acts as a GPU: for tests.
    Software,
    /// The driver does not say.
    Unknown,
}

/// What a device allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that one binding may span.
    pub binding_bytes: u64,
    /// Bytes of a buffer.
    pub buffer_bytes: u64,
    /// Storage buffers that a shader may bind.
    pub storage_buffers: u32,
    /// Bytes that the threads of a workgroup share.
    pub shared_bytes: u32,
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
        &self.name
    }

    /// What kind of device it is.
    pub fn kind(&self) -> GpuKind {
        self.kind
    }

    /// Vulkan, Metal or DirectX.
    pub fn backend(&self) -> &str {
        &self.backend
    }

    /// The driver with its version.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// What the device allows.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether it can time its own work.
    pub fn has_timestamps(&self) -> bool {
        self.has_timestamps
    }
}

/// Every GPU that can run the engine's shaders, in a fixed order. Empty where there is no driver.
#[cfg(feature = "gpu")]
pub fn list() -> Vec<Gpu> {
    use wgpu::{Backends, Instance, InstanceDescriptor};

    // Without GL, on purpose: its adapters claim more than their compute shaders can do.
    let backends = Backends::VULKAN | Backends::METAL | Backends::DX12;
    let instance =
        Instance::new(InstanceDescriptor { backends, ..InstanceDescriptor::new_without_display_handle() });
    let mut adapters = pollster::block_on(instance.enumerate_adapters(backends));
    adapters.retain(|adapter| {
        let compute = wgpu::DownlevelFlags::COMPUTE_SHADERS;
        adapter.get_downlevel_capabilities().flags.contains(compute)
            && adapter.limits().max_storage_buffers_per_shader_stage >= 8
    });
    adapters.into_iter().enumerate().map(|(index, adapter)| Gpu::of(index, adapter)).collect()
}

/// Every GPU that can run the engine's shaders: none in a build without the feature `gpu`.
#[cfg(not(feature = "gpu"))]
pub fn list() -> Vec<Gpu> {
    Vec::new()
}

#[cfg(feature = "gpu")]
impl Gpu {
    fn of(index: usize, adapter: Adapter) -> Self {
        use wgpu::DeviceType;

        let (info, limits) = (adapter.get_info(), adapter.limits());
        Gpu {
            index,
            name: info.name,
            kind: match info.device_type {
                DeviceType::DiscreteGpu => GpuKind::Discrete,
                DeviceType::IntegratedGpu => GpuKind::Integrated,
                DeviceType::VirtualGpu => GpuKind::Virtual,
                DeviceType::Cpu => GpuKind::Software,
                DeviceType::Other => GpuKind::Unknown,
            },
            backend: info.backend.to_string(),
            driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
            limits: Limits {
                binding_bytes: limits.max_storage_buffer_binding_size,
                buffer_bytes: limits.max_buffer_size,
                storage_buffers: limits.max_storage_buffers_per_shader_stage,
                shared_bytes: limits.max_compute_workgroup_storage_size,
            },
            has_timestamps: adapter.features().contains(wgpu::Features::TIMESTAMP_QUERY),
            adapter,
        }
    }
}

/// The GPU that `auto` takes: the first of the best kind, never a software one.
pub fn best(gpus: &[Gpu]) -> Option<&Gpu> {
    gpus.iter().filter(|gpu| gpu.kind().rank().is_some()).min_by_key(|gpu| (gpu.kind().rank(), gpu.index))
}

/// The GPU that `gpu` means: the best one, or a software one if there is no other.
pub fn any(gpus: &[Gpu]) -> Result<&Gpu> {
    best(gpus).or_else(|| gpus.first()).ok_or_else(|| Error::invalid(NONE_FOUND))
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
