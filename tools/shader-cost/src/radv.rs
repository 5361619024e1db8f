//! Mesa's radv driver on its null device: the only module with `unsafe` code.
//!
//! Nothing is destroyed, as it all ends with the process.
#![allow(unsafe_code)]

use crate::compile::Kernel;
use ash::{khr::pipeline_executable_properties, vk};
use std::ffi::CString;

/// The GPU to compile for: RDNA2, as in the Radeon RX 6800.
pub const FAMILY: &str = "navi21";

/// What the driver says of a shader.
pub struct Compiled {
    /// Its statistics by name, and the "Subgroup size" it chose.
    pub statistics: Vec<(String, u64)>,
    /// Its instructions.
    pub assembly: String,
}

/// An open null device.
pub struct Radv {
    pub name: String,
    /// Whether the device checks the bounds of buffers, so that naga need not.
    pub robust_buffers: bool,
    query: pipeline_executable_properties::Device,
    device: ash::Device,
    _entry: ash::Entry,
}

impl Radv {
    /// Opens the device; the environment must name the driver and the family.
    pub fn open() -> Result<Self, String> {
        // SAFETY: loads the system's Vulkan loader, which has no further preconditions.
        let entry = unsafe { ash::Entry::load() }
            .map_err(|e| format!("the Vulkan loader is missing: install libvulkan1 ({e})."))?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: `info` asks for no layers or extensions and outlives the call.
        let instance = unsafe { entry.create_instance(&info, None) }
            .map_err(|e| format!("radv does not start, reinstall mesa-vulkan-drivers: {e}"))?;

        // SAFETY: `instance` is alive, here and in all calls below.
        let devices = unsafe { instance.enumerate_physical_devices() }.unwrap_or_default();
        let name_of = |&physical: &vk::PhysicalDevice| {
            // SAFETY: `physical` comes from this instance.
            let properties = unsafe { instance.get_physical_device_properties(physical) };
            properties.device_name_as_c_str().unwrap_or_default().to_string_lossy().into_owned()
        };
        let physical = devices.into_iter().find(|device| name_of(device).to_lowercase().contains(FAMILY));
        let physical = physical.ok_or(format!("this Mesa has no null device for {FAMILY}; 22.3 has"))?;

        // All the features there are, so that a shader may use any. wgpu enables `robustBufferAccess2` too;
        // it can change the code that radv makes.
        let mut robustness = vk::PhysicalDeviceRobustness2FeaturesEXT::default();
        let mut statistics = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default();
        let mut v11 = vk::PhysicalDeviceVulkan11Features::default();
        let mut v12 = vk::PhysicalDeviceVulkan12Features::default();
        let mut v13 = vk::PhysicalDeviceVulkan13Features::default();
        let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut v11).push_next(&mut v12);
        features = features.push_next(&mut v13).push_next(&mut robustness).push_next(&mut statistics);
        // SAFETY: `physical` comes from this instance; the chain of structs is well formed.
        unsafe { instance.get_physical_device_features2(physical, &mut features) };
        let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        let extensions =
            [pipeline_executable_properties::NAME.as_ptr(), ash::ext::robustness2::NAME.as_ptr()];
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
        let info = info.enabled_extension_names(&extensions).push_next(&mut features);
        // SAFETY: all that `info` points to outlives the call; the features are those just reported.
        let device = unsafe { instance.create_device(physical, &info, None) }
            .map_err(|e| format!("radv's null device does not open: {e}"))?;
        let query = pipeline_executable_properties::Device::new(&instance, &device);
        let robust_buffers = robustness.robust_buffer_access2 == vk::TRUE;
        Ok(Self { name: name_of(&physical), robust_buffers, query, device, _entry: entry })
    }

    /// Compiles `kernel`.
    pub fn compile(&self, kernel: &Kernel) -> Result<Compiled, String> {
        let pipeline = self.pipeline(kernel).map_err(|e| format!("radv does not compile it: {e}"))?;
        let statistics =
            self.statistics(pipeline).map_err(|e| format!("radv has no statistics of it: {e}"))?;
        let assembly = self.assembly(pipeline).map_err(|e| format!("radv does not disassemble it: {e}"))?;
        let assembly = assembly.ok_or("this Mesa does not disassemble what it compiles")?;
        Ok(Compiled { statistics, assembly })
    }

    fn pipeline(&self, kernel: &Kernel) -> Result<vk::Pipeline, vk::Result> {
        let mut groups = Vec::new();
        for group in 0..kernel.buffers.iter().map(|(at, _)| at.group + 1).max().unwrap_or(0) {
            let buffers = kernel.buffers.iter().filter(|(at, _)| at.group == group);
            let bindings: Vec<_> =
                buffers.map(|(at, uniform)| layout_binding(at.binding, *uniform)).collect();
            let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            // SAFETY: the device is alive, here and below; naga checked that no binding occurs twice.
            groups.push(unsafe { self.device.create_descriptor_set_layout(&info, None) }?);
        }
        let compute = vk::ShaderStageFlags::COMPUTE;
        let immediates = [vk::PushConstantRange::default().stage_flags(compute).size(kernel.immediates)];
        let immediates = if kernel.immediates > 0 { &immediates[..] } else { &[] };
        let info =
            vk::PipelineLayoutCreateInfo::default().set_layouts(&groups).push_constant_ranges(immediates);
        // SAFETY: the groups come from this device.
        let layout = unsafe { self.device.create_pipeline_layout(&info, None) }?;
        let info = vk::ShaderModuleCreateInfo::default().code(&kernel.spirv);
        // SAFETY: naga wrote the SPIR-V from a validated module.
        let module = unsafe { self.device.create_shader_module(&info, None) }?;
        let name = CString::new(kernel.entry.as_str()).expect("WGSL names have no zero byte");
        let stage = vk::PipelineShaderStageCreateInfo::default().stage(compute).module(module).name(&name);
        let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
        let info = info.flags(
            vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR
                | vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR,
        );
        // SAFETY: the module has this entry point, and the layout has every buffer it uses.
        let made = unsafe { self.device.create_compute_pipelines(vk::PipelineCache::null(), &[info], None) };
        made.map(|pipelines| pipelines[0]).map_err(|(_, e)| e)
    }

    fn statistics(&self, pipeline: vk::Pipeline) -> Result<Vec<(String, u64)>, vk::Result> {
        let info = vk::PipelineInfoKHR::default().pipeline(pipeline);
        // SAFETY: the pipeline comes from this device.
        let executables = unsafe { self.query.get_pipeline_executable_properties(&info) }?;
        let info = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline);
        // SAFETY: the pipeline was made to keep its statistics, and a compute pipeline has one executable.
        let statistics = unsafe { self.query.get_pipeline_executable_statistics(&info) }?;
        let subgroup = executables.iter().map(|e| ("Subgroup size".into(), e.subgroup_size.into()));
        Ok(statistics.iter().map(named_value).chain(subgroup).collect())
    }

    /// The text of its instructions; none if this Mesa has no disassembler.
    fn assembly(&self, pipeline: vk::Pipeline) -> Result<Option<String>, vk::Result> {
        let info = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline);
        // SAFETY: the pipeline was made to keep its representations, and a compute pipeline has one executable.
        let mut found = unsafe { self.query.get_pipeline_executable_internal_representations(&info) }?;
        let mut texts: Vec<Vec<u8>> = found.iter().map(|found| vec![0; found.data_size]).collect();
        for (found, text) in found.iter_mut().zip(&mut texts) {
            found.p_data = text.as_mut_ptr().cast();
        }
        let mut count = found.len() as u32;
        let read = self.query.fp().get_pipeline_executable_internal_representations_khr;
        // SAFETY: there are `count` structs, and each points to as many bytes as the driver has just asked for.
        unsafe { read(self.device.handle(), &info, &mut count, found.as_mut_ptr()) }.result()?;
        let is_assembly = |found: &vk::PipelineExecutableInternalRepresentationKHR| {
            found.name_as_c_str().is_ok_and(|name| name.to_string_lossy().contains("Assembly"))
        };
        let text = found.iter().zip(texts).find(|(found, _)| is_assembly(found)).map(|(_, text)| text);
        Ok(text.map(|text| String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned()))
    }
}

fn layout_binding(binding: u32, uniform: bool) -> vk::DescriptorSetLayoutBinding<'static> {
    let kinds = [vk::DescriptorType::STORAGE_BUFFER, vk::DescriptorType::UNIFORM_BUFFER];
    let layout = vk::DescriptorSetLayoutBinding::default().binding(binding).descriptor_count(1);
    layout.descriptor_type(kinds[usize::from(uniform)]).stage_flags(vk::ShaderStageFlags::COMPUTE)
}

fn named_value(statistic: &vk::PipelineExecutableStatisticKHR) -> (String, u64) {
    let name = statistic.name_as_c_str().unwrap_or_default().to_string_lossy().into_owned();
    // SAFETY: the union holds 64 plain bits; radv's statistics are all integers of that size.
    (name, unsafe { statistic.value.u64 })
}
