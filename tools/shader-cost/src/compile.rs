//! From WGSL to SPIR-V as wgpu 30 does it on a real RDNA2 GPU under radv.

use naga::back::{pipeline_constants::process_overrides, spv};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga::{AddressSpace, EntryPoint, Module, ResourceBinding, ShaderStage};

/// One entry point, ready for the driver.
pub struct Kernel {
    pub entry: String,
    pub spirv: Vec<u32>,
    /// Where the buffers it uses are bound, and whether they are uniform ones.
    pub buffers: Vec<(ResourceBinding, bool)>,
    /// Size in bytes of its immediates (push constants).
    pub immediates: u32,
}

/// Compiles every entry point of `source`; `robust_buffers` says whether the device checks buffer bounds.
pub fn kernels(source: &str, robust_buffers: bool) -> Result<Vec<Kernel>, String> {
    let module = naga::front::wgsl::parse_str(source).map_err(|e| e.emit_to_string(source))?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::all())
        .validate(&module)
        .map_err(|e| e.emit_to_string(source))?;
    if module.entry_points.is_empty() {
        return Err("no entry point".into());
    }
    module.entry_points.iter().map(|entry| kernel(&module, &info, entry, robust_buffers)).collect()
}

/// The settings of wgpu-hal 30's `vulkan/adapter.rs` with all runtime checks on, wgpu's default. A real
/// radv device has `robustBufferAccess2`, so the hardware checks buffer bounds and naga does not; naga
/// clamps only indices into arrays in registers and workgroup memory. The driver zeroes workgroup memory,
/// as Vulkan 1.3 promises. Loop bounding and integer division checks are on in naga's defaults, and so is
/// `fake_missing_bindings`, which keeps the numbers in the WGSL.
fn options(robust_buffers: bool) -> spv::Options<'static> {
    spv::Options {
        lang_version: (1, 6),
        flags: spv::WriterFlags::empty(),
        bounds_check_policies: BoundsCheckPolicies {
            index: BoundsCheckPolicy::Restrict,
            buffer: if robust_buffers { BoundsCheckPolicy::Unchecked } else { BoundsCheckPolicy::Restrict },
            image_load: BoundsCheckPolicy::Unchecked,
            binding_array: BoundsCheckPolicy::Unchecked,
        },
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::Native,
        ..Default::default()
    }
}

fn kernel(module: &Module, info: &ModuleInfo, entry: &EntryPoint, robust: bool) -> Result<Kernel, String> {
    let name = entry.name.clone();
    if entry.stage != ShaderStage::Compute {
        return Err(format!("{name} is not a compute shader"));
    }
    let (module, info) = process_overrides(module, info, Some((entry.stage, &name)), &Default::default())
        .map_err(|e| format!("{name}: {e}"))?;
    let pipeline = spv::PipelineOptions { shader_stage: entry.stage, entry_point: name.clone() };
    let spirv = spv::write_vec(&module, &info, &options(robust), Some(&pipeline))
        .map_err(|e| format!("{name}: {e}"))?;

    let index = module.entry_points.iter().position(|e| e.name == name);
    let uses = info.get_entry_point(index.expect("processing keeps the entry point"));
    let (mut buffers, mut immediates) = (Vec::new(), 0);
    for (_, variable) in module.global_variables.iter().filter(|(v, _)| !uses[*v].is_empty()) {
        match (variable.space, variable.binding) {
            (AddressSpace::Uniform, Some(binding)) => buffers.push((binding, true)),
            (AddressSpace::Storage { .. }, Some(binding)) => buffers.push((binding, false)),
            (AddressSpace::Immediate, _) => {
                immediates = module.types[variable.ty].inner.size(module.to_ctx()).next_multiple_of(4);
            }
            (_, Some(_)) => return Err(format!("{name}: only buffers can be bound")),
            _ => {}
        }
    }
    Ok(Kernel { entry: name, spirv, buffers, immediates })
}
