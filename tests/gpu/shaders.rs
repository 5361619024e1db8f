//! Every composed shader, without a GPU: it is valid WGSL, and its bindings, struct sizes and workgroup sizes are
//! those that the host believes in.

use crate::interpret::evaluate;
use encase::ShaderType;
use naga::front::wgsl;
use naga::proc::{Alignment, Layouter};
use naga::valid::{Capabilities, GlobalUse, ModuleInfo, ValidationFlags, Validator};
use naga::{AddressSpace, StorageAccess, TypeInner};
use skds::engine::gpu::compose::{Choice, Composed, every_shader};
use skds::engine::gpu::shared::{Block, Environment, Job, Training, Walk};
use skds::engine::gpu::stages::{self, Slot, Stage};
use skds::kernel::{Kernel, KernelKind};
use skds::model::Activation;
use skds::objective::{Estimator, Objective};

/// What every device allows by default.
const STORAGE_BUFFERS: usize = 8;
const SHARED_BYTES: u32 = 16 << 10;

fn parse(composed: &Composed) -> Result<(naga::Module, ModuleInfo), String> {
    let module = wgsl::parse_str(&composed.source)
        .map_err(|e| format!("{}: {}", composed.label, e.emit_to_string(&composed.source)))?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::empty())
        .validate(&module)
        .map_err(|e| format!("{}: {}", composed.label, e.emit_to_string(&composed.source)))?;
    Ok((module, info))
}

/// Everything that differs between the module and what the host expects of it.
fn differences(stage: &Stage, composed: &Composed) -> Vec<String> {
    let (module, info) = match parse(composed) {
        Ok(parsed) => parsed,
        Err(problem) => return vec![problem],
    };
    let mut found = Vec::new();
    let mut layouter = Layouter::default();
    layouter.update(module.to_ctx()).expect("a valid module has a layout");
    let entry = &module.entry_points[0];
    if module.entry_points.len() != 1
        || entry.name != "main"
        || entry.workgroup_size != [composed.threads, 1, 1]
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
    for (handle, variable) in module.global_variables.iter() {
        if variable.space == AddressSpace::WorkGroup {
            shared_bytes += Alignment::new(16).unwrap().round_up(layouter[variable.ty].size);
        }
        let Some(binding) = &variable.binding else { continue };
        bound += 1;
        if binding.group != 0 {
            found.push(format!("{}: {:?} in group {}", composed.label, variable.name, binding.group));
        }
        if binding.binding == 0 {
            let name = module.types[variable.ty].name.as_deref();
            if variable.space != AddressSpace::Uniform || name != Some(stage.uniform.name()) {
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
        // What is declared is used, and what is declared to be written is written. Atomics must be bound for writing.
        let use_of = info.get_entry_point(0)[handle];
        let is_written = use_of.contains(GlobalUse::WRITE) || slot == Slot::State;
        if use_of.is_empty() || writes && !is_written {
            found.push(format!("{}: {name} is bound, and its use is {use_of:?}", composed.label));
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
    let choice = Choice { objective: Objective::Skds, ..CHOICE };
    let stage = &stages::PAIRS;
    let good = choice.compose(stage).unwrap();
    assert!(differences(stage, &good).is_empty());
    for (from, to) in [
        ("@workgroup_size(256)", "@workgroup_size(128)"),
        ("var<storage, read> x:", "var<storage, read_write> x:"),
        ("    groups: u32,\n", "    groups: u32,\n    more: vec4<u32>,\n"),
        ("@binding(2)", "@binding(9)"),
        // A buffer that is bound and not used, one that is used and not bound, and one that is bound to be written and is not.
        (
            "var<storage, read> diffusion: array<vec4<f32>>;",
            "var<storage, read> diffusion: array<vec4<f32>>; var<private> columns: array<vec4<f32>, 8>;",
        ),
        ("@group(0) @binding(4) var<storage, read> blocks", "// "),
        (
            "columns[job.at_terms + job.first_block * (ROW_BLOCK / GROUP_ROWS) + group] = first_dots[0];",
            "_ = columns[0];",
        ),
        ("term(phi, dots)", "term(phi)"),
        ("array<vec4<f32>, 256>", "array<vec4<f32>, 2048>"),
    ] {
        assert!(good.source.contains(from), "{from}");
        let bad = Composed { source: good.source.replacen(from, to, 1), ..good.clone() };
        let noticed = std::panic::catch_unwind(|| differences(stage, &bad)).map_or(true, |f| !f.is_empty());
        assert!(noticed, "{from} → {to}");
    }
}

const CHOICE: Choice = Choice {
    objective: Objective::Kds,
    kernel: KernelKind::Rbf,
    estimator: Estimator::Linear,
    activation: None,
    full: false,
    wide: false,
    split: false,
};

/// The largest difference between the shader of one kernel and another kernel's derivatives, relative to these.
fn profile_error(shader: KernelKind, kernel: Kernel) -> f64 {
    let composed = Choice { kernel: shader, ..CHOICE }.compose(&stages::PAIRS).unwrap();
    let (module, _) = parse(&composed).unwrap();
    let mut worst = 0.0f64;
    for rho in [0.0, 0.3, 1.0, 4.0] {
        let job = |name: &str| match name {
            "decay" => kernel.decay(),
            other => panic!("a profile reads job.{other}, expected only job.decay"),
        };
        let found = evaluate(&module, "profile", &[rho], &job);
        let expected = kernel.derivatives(rho);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            worst = worst.max((found - expected).abs() / expected.abs());
        }
    }
    worst
}

#[test]
fn every_kernel_has_the_same_derivatives_in_rust_and_in_its_shader() {
    for &shader in KernelKind::ALL {
        for &kind in KernelKind::ALL {
            let kernel = kind.with_bandwidth(1.3).unwrap();
            let error = profile_error(shader, kernel);
            if shader == kind {
                assert!(error < 1e-12, "{kind}: {error}");
            } else if shader.traits().gaussian != kind.traits().gaussian {
                // The comparison can fail: another kernel's shader does.
                assert!(error > 1e-2, "{shader} for {kind}: {error}");
            }
        }
    }
}

#[test]
fn the_chosen_activation_is_in_the_shader_with_its_slope() {
    let sigmoid = |z: f64| 1.0 / (1.0 + (-z).exp());
    let none = |name: &str| -> f64 { panic!("an activation reads job.{name}") };
    for activation in [None, Some(Activation::Sigmoid), Some(Activation::Tanh), Some(Activation::Relu)] {
        let composed = Choice { activation, ..CHOICE }.compose(&stages::ADJOINT).unwrap();
        let (module, _) = parse(&composed).unwrap();
        // Far out, too, where an exponential of the wrong sign overflows.
        for z in [-500.0, -2.0, -0.3, 0.4, 1.7, 500.0] {
            let expected = |z: f64| match activation {
                None => z,
                Some(Activation::Sigmoid) => sigmoid(z),
                Some(Activation::Tanh) => z.tanh(),
                Some(Activation::Relu) => z.max(0.0),
            };
            let value = evaluate(&module, "activate", &[z], &none)[0];
            assert!((value - expected(z)).abs() < 1e-14, "{activation:?} at {z}: {value}");
            // The slope is a function of the value.
            let slope = evaluate(&module, "slope", &[value], &none)[0];
            let quotient = (expected(z + 1e-6) - expected(z - 1e-6)) / 2e-6;
            assert!((slope - quotient).abs() < 1e-8, "{activation:?} at {z}: {slope} {quotient}");
        }
    }
}

/// The value of a constant of a module, if it is there.
fn constant(module: &naga::Module, name: &str) -> Option<naga::Literal> {
    let (_, constant) =
        module.constants.iter().find(|(_, constant)| constant.name.as_deref() == Some(name))?;
    match module.global_expressions[constant.init] {
        naga::Expression::Literal(literal) => Some(literal),
        _ => None,
    }
}

#[test]
fn constants_are_those_of_the_choice_and_of_the_axes_alone() {
    use naga::Literal::{Bool, U32};
    let choice = Choice { kernel: KernelKind::ImqPlus, estimator: Estimator::U, full: true, ..CHOICE };
    let parsed = |choice: Choice, stage: &Stage| parse(&choice.compose(stage).unwrap()).unwrap().0;
    let module = parsed(choice, &stages::ALL_PAIRS);
    for (name, expected) in [
        ("TILTED", Some(Bool(true))),
        ("LINEAR", Some(Bool(true))),
        ("GAUSSIAN", Some(Bool(false))),
        ("QUADRATIC", Some(Bool(true))),
        ("DISTINCT", Some(Bool(true))),
        ("FULL", Some(Bool(true))),
        ("SUMS", Some(U32(5))),
        ("PAIR_ROWS", Some(U32(16))),
        ("MLP", None),
    ] {
        assert_eq!(constant(&module, name), expected, "{name}");
    }
    let other = Choice { objective: Objective::Skds, kernel: KernelKind::Rbf, full: false, ..choice };
    let module = parsed(Choice { estimator: Estimator::V, ..other }, &stages::ALL_PAIRS);
    for (name, expected) in [
        ("TILTED", Bool(false)),
        ("GAUSSIAN", Bool(true)),
        ("QUADRATIC", Bool(false)),
        ("DISTINCT", Bool(false)),
        ("FULL", Bool(false)),
        ("SUMS", U32(2)),
        ("PAIR_ROWS", U32(32)),
    ] {
        assert_eq!(constant(&module, name), Some(expected), "{name}");
    }
    // The permutation of draws is that of the host.
    let module = parsed(choice, &stages::DRAW);
    assert_eq!([constant(&module, "ROUNDS"), constant(&module, "LEAST_BITS")], [Some(U32(8)), Some(U32(3))]);
    assert_eq!(constant(&module, "FULL"), None);
}
