//! Every composed shader, without a GPU: it is valid WGSL, and its bindings, struct sizes and workgroup sizes are
//! those that the host believes in.

use encase::ShaderType;
use naga::front::wgsl;
use naga::proc::{Alignment, Layouter};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::{AddressSpace, StorageAccess, TypeInner};
use skds::engine::gpu::compose::{Choice, Composed, every_shader};
use skds::engine::gpu::shared::{Block, Environment, Job, Training, Walk};
use skds::engine::gpu::stages::{self, Stage, Told};
use skds::kernel::KernelKind;
use skds::objective::{Estimator, Objective};

/// What every device allows by default.
const STORAGE_BUFFERS: usize = 8;
const SHARED_BYTES: u32 = 16 << 10;

fn parse(composed: &Composed) -> Result<naga::Module, String> {
    let module = wgsl::parse_str(&composed.source)
        .map_err(|e| format!("{}: {}", composed.label, e.emit_to_string(&composed.source)))?;
    Validator::new(ValidationFlags::all(), Capabilities::empty())
        .validate(&module)
        .map_err(|e| format!("{}: {}", composed.label, e.emit_to_string(&composed.source)))?;
    Ok(module)
}

/// Everything that differs between the module and what the host expects of it.
fn differences(stage: &Stage, composed: &Composed) -> Vec<String> {
    let module = match parse(composed) {
        Ok(module) => module,
        Err(problem) => return vec![problem],
    };
    let mut found = Vec::new();
    let mut layouter = Layouter::default();
    layouter.update(module.to_ctx()).expect("a valid module has a layout");
    let entry = &module.entry_points[0];
    if module.entry_points.len() != 1 || entry.name != "main" || entry.workgroup_size != [stage.threads, 1, 1]
    {
        found.push(format!("{}: {} by {:?}", composed.label, entry.name, entry.workgroup_size));
    }
    let sizes = [
        ("Job", Job::min_size().get()),
        ("Training", Training::min_size().get()),
        ("Walk", Walk::min_size().get()),
        ("Block", Block::min_size().get()),
        ("Environment", Environment::min_size().get()),
    ];
    for (handle, ty) in module.types.iter() {
        if let Some((_, expected)) = sizes.iter().find(|(name, _)| ty.name.as_deref() == Some(name)) {
            let size = u64::from(layouter[handle].size);
            if size != *expected {
                found
                    .push(format!("{}: {:?} has {size} bytes, the host {expected}", composed.label, ty.name));
            }
        }
    }
    let mut shared_bytes = 0;
    let mut bound = 0;
    for (_, variable) in module.global_variables.iter() {
        if variable.space == AddressSpace::WorkGroup {
            shared_bytes += Alignment::new(16).unwrap().round_up(layouter[variable.ty].size);
        }
        let Some(binding) = &variable.binding else { continue };
        bound += 1;
        if binding.group != 0 {
            found.push(format!("{}: {:?} in group {}", composed.label, variable.name, binding.group));
        }
        if binding.binding == 0 {
            let told = match stage.told {
                Told::Job => "Job",
                Told::Training => "Training",
                Told::Walk => "Walk",
            };
            let name = module.types[variable.ty].name.as_deref();
            if variable.space != AddressSpace::Uniform || name != Some(told) {
                found.push(format!("{}: binding 0 is {name:?}", composed.label));
            }
            continue;
        }
        let slot = composed.slots[binding.binding as usize - 1];
        let (name, _, _) = slot.declaration();
        let writes = stage.writes.contains(&slot);
        let access = match variable.space {
            AddressSpace::Storage { access } => access,
            _ => StorageAccess::empty(),
        };
        let is_array = matches!(module.types[variable.ty].inner, TypeInner::Array { .. });
        if variable.name.as_deref() != Some(name)
            || access.contains(StorageAccess::STORE) != writes
            || !access.contains(StorageAccess::LOAD)
            || !is_array
        {
            found.push(format!("{}: binding {} is {:?}", composed.label, binding.binding, variable.name));
        }
    }
    if bound != composed.slots.len() + 1 {
        found.push(format!("{}: {bound} bindings, expected {}", composed.label, composed.slots.len() + 1));
    }
    if composed.slots.len() > STORAGE_BUFFERS {
        found.push(format!("{}: {} storage buffers", composed.label, composed.slots.len()));
    }
    if shared_bytes > SHARED_BYTES {
        found.push(format!("{}: {shared_bytes} bytes of shared memory", composed.label));
    }
    found
}

#[test]
fn every_shader_is_valid_and_as_the_host_believes() {
    let all = every_shader().unwrap();
    assert!(all.len() > 100, "{} shaders", all.len());
    let found: Vec<String> = all.iter().flat_map(|(stage, composed)| differences(stage, composed)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_shader_that_differs_is_noticed() {
    let choice = Choice {
        objective: Objective::Skds,
        kernel: KernelKind::Rbf,
        estimator: Estimator::Linear,
        activation: None,
        full: false,
    };
    let stage = &stages::PAIRS;
    let good = choice.compose(stage).unwrap();
    assert!(differences(stage, &good).is_empty());
    for (from, to) in [
        ("@workgroup_size(256)", "@workgroup_size(128)"),
        ("var<storage, read> x:", "var<storage, read_write> x:"),
        ("    groups: u32,\n", "    groups: u32,\n    more: vec4<u32>,\n"),
        ("@binding(2)", "@binding(9)"),
        ("term(phi, dots)", "term(phi)"),
        ("array<vec4<f32>, 256>", "array<vec4<f32>, 2048>"),
    ] {
        assert!(good.source.contains(from), "{from}");
        let bad = Composed { source: good.source.replacen(from, to, 1), ..good.clone() };
        let noticed = std::panic::catch_unwind(|| differences(stage, &bad)).map_or(true, |f| !f.is_empty());
        assert!(noticed, "{from} → {to}");
    }
}
