//! The shaders in a browser: Chromium's compiler, which is stricter than naga, takes all of them at WebGPU's default
//! limits, and on its software device they compute what the CPU computes.

use crate::chromium::Browser;
use crate::common::{evaluate, random_data, random_parameters, relative_error, tensors};
use serde_json::{Value, json};
use skds::data::Dataset;
use skds::engine::LossSpec;
use skds::engine::gpu::compose::{Composed, every_shader};
use skds::engine::gpu::plan::{Bounds, DispatchPlan};
use skds::engine::gpu::shared::LOSS_LANES;
use skds::engine::gpu::stages::Slot;
use skds::engine::gpu::{Form, pack};
use skds::kernel::KernelKind;
use skds::model::{Activation, Parameters};
use skds::objective::{Estimator, Objective};
use std::collections::HashMap;

/// Of the largest entry, as for other devices.
const TOLERANCE: f64 = 5e-4;

/// A browser whose page has the functions of `browser.js` and an open device.
struct Page {
    browser: Browser,
    _file: tempfile::NamedTempFile,
}

impl Page {
    fn open() -> Page {
        // A file is a secure context, which WebGPU asks for, and needs no server.
        let file = tempfile::Builder::new().suffix(".html").tempfile().unwrap();
        std::fs::write(file.path(), "<!doctype html><title>WebGPU</title>").unwrap();
        let mut browser = Browser::with_webgpu();
        browser.load("Page.navigate", json!({ "url": format!("file://{}", file.path().display()) }));
        browser.evaluate(include_str!("browser.js"));
        browser.evaluate("openDevice()");
        Page { browser, _file: file }
    }

    fn call(&mut self, function: &str, argument: &Value) -> Value {
        self.browser.evaluate(&format!("{function}({argument})"))
    }

    /// What the browser finds wrong with each of a few shaders; some are to be made into pipelines, too.
    fn errors(&mut self, shaders: &[(&str, bool)]) -> Vec<String> {
        let described: Vec<Value> =
            shaders.iter().map(|(code, pipeline)| json!({ "code": code, "pipeline": pipeline })).collect();
        let answer = self.call("compile", &json!(described));
        let lists: Vec<Vec<String>> = serde_json::from_value(answer).unwrap();
        assert_eq!(lists.len(), shaders.len());
        lists.iter().map(|errors| errors.join("; ")).collect()
    }
}

#[test]
fn a_browser_compiles_every_shader() {
    let mut page = Page::open();
    let all = every_shader().unwrap();
    let mut refused = Vec::new();
    // The longest shader of each stage becomes a pipeline. That the others keep within the limits, naga shows in `shaders`.
    let mut longest: HashMap<&str, usize> = HashMap::new();
    for (stage, composed) in &all {
        let length = longest.entry(stage.name).or_default();
        *length = composed.source.len().max(*length);
    }
    for some in all.chunks(8) {
        let shaders: Vec<(&str, bool)> = some
            .iter()
            .map(|(stage, composed)| (composed.source.as_str(), composed.source.len() == longest[stage.name]))
            .collect();
        let errors = page.errors(&shaders);
        refused.extend(
            some.iter()
                .zip(errors)
                .filter(|(_, error)| !error.is_empty())
                .map(|((_, composed), error)| format!("{}: {error}", composed.label)),
        );
    }
    assert!(refused.is_empty(), "{} of {} refused\n{}", refused.len(), all.len(), refused.join("\n"));
    // What naga takes and browsers refuse is noticed: a loop around a barrier whose bound a private variable holds, and
    // more shared memory than every device has.
    let looping = "var<private> count: u32; var<workgroup> shared_numbers: array<f32, 64>;
        @group(0) @binding(0) var<storage, read_write> numbers: array<f32>;
        @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) thread: u32) {
            count = u32(numbers[0]);
            for (var at = 0u; at < count; at++) { shared_numbers[thread] = numbers[at]; workgroupBarrier(); }
            numbers[thread] = shared_numbers[63u - thread];
        }";
    let large = looping.replace("array<f32, 64>", "array<f32, 4097>").replace("at < count", "at < 4u");
    let small = large.replace("4097", "64");
    let errors = page.errors(&[(looping, false), (&large, true), (&small, true)]);
    assert!(errors[0].contains("uniform control flow"), "{errors:?}");
    assert!(!errors[1].is_empty() && errors[2].is_empty(), "{errors:?}");
}

/// Loss and gradient by the dispatches of the plan, each shader as `edit` leaves it.
fn in_browser(
    page: &mut Page,
    data: &Dataset,
    spec: &LossSpec,
    parameters: &Parameters<f32>,
    edit: impl Fn(&mut Composed),
) -> (f64, Parameters<f32>) {
    let form = Form::of(parameters, data.environments()).unwrap();
    let rows: Vec<usize> = (0..data.environments()).map(|e| data.rows(e).len()).collect();
    // Some products in wide tiles, some in narrow ones.
    let bounds = Bounds { wide_tiles: 4, ..Bounds::new(Bounds::PORTABLE_BINDING, 1 << 30) };
    let plan = DispatchPlan::new(&rows, &form, spec, &bounds, 0).unwrap();
    let [span] = plan.spans[..] else { panic!("expected one span, found {}", plan.spans.len()) };
    let words = |bytes: &[u8]| -> Vec<u32> { bytemuck::pod_collect_to_vec(bytes) };
    let content = |slot: Slot| match slot {
        Slot::X => words(bytemuck::cast_slice(&pack::samples(data, &plan, span))),
        Slot::Parameters => words(bytemuck::cast_slice(&pack::parameters(parameters, &form))),
        Slot::Centres => words(bytemuck::cast_slice(&pack::centres(data, &form, spec))),
        Slot::Blocks => words(&storage_bytes(&plan.blocks)),
        Slot::Environments => words(&storage_bytes(&plan.environments)),
        _ => Vec::new(),
    };
    let mut sizes = plan.sizes.shared().to_vec();
    // One span: the columns of all pairs come from the rows' own buffers.
    sizes.extend([
        (Slot::X, span.blocks * plan.sizes.x_block),
        (Slot::Work, span.blocks * plan.sizes.work_block),
    ]);
    let buffers: Vec<Value> = sizes
        .into_iter()
        .map(|(slot, bytes)| json!({ "name": slot.declaration().0, "bytes": bytes, "words": content(slot) }))
        .collect();
    let name_of = |slot: &Slot| match slot {
        Slot::XOther => Slot::X.declaration().0,
        Slot::WorkOther => Slot::Work.declaration().0,
        slot => slot.declaration().0,
    };
    let (mut shaders, mut dispatches) = (Vec::new(), Vec::new());
    for dispatch in &plan.gradient {
        let mut composed = dispatch.choice.compose(dispatch.stage).unwrap();
        edit(&mut composed);
        let mut uniform = encase::UniformBuffer::new(Vec::new());
        uniform.write(&dispatch.job).unwrap();
        let [x, y] = dispatch.workgroups();
        dispatches.push(json!({
            "shader": shaders.len(),
            "uniform": words(&uniform.into_inner()),
            "bound": composed.slots.iter().map(name_of).collect::<Vec<_>>(),
            "workgroups": [x, y],
        }));
        shaders.push(composed.source);
    }
    let run = json!({ "buffers": buffers, "shaders": shaders, "dispatches": dispatches, "read": ["losses", "gradient"] });
    let answer: Vec<Vec<u32>> = serde_json::from_value(page.call("run", &run)).unwrap();
    let numbers = |words: &[u32]| words.iter().map(|bits| f32::from_bits(*bits)).collect::<Vec<_>>();
    let lanes = &numbers(&answer[0])[..data.environments() * LOSS_LANES as usize];
    let loss = lanes.iter().map(|lane| f64::from(*lane)).sum::<f64>() / data.environments() as f64;
    let mut gradient = parameters.zeros_like();
    pack::unpack(&numbers(&answer[1]), &form, &mut gradient);
    (loss, gradient)
}

fn storage_bytes<S: encase::ShaderType + encase::ShaderSize + encase::internal::WriteInto>(
    items: &[S],
) -> Vec<u8> {
    let mut buffer = encase::StorageBuffer::new(Vec::new());
    buffer.write(items).unwrap();
    buffer.into_inner()
}

/// The largest error of the loss and of any tensor of the gradient against the CPU in f64.
fn error_in_browser(
    page: &mut Page,
    (d, spec, activation, full): (usize, LossSpec, Option<Activation>, bool),
    edit: impl Fn(&mut Composed),
) -> f64 {
    let data = random_data(60, &[75, 66], d);
    let parameters: Parameters<f32> = random_parameters(61, d, 2, activation, full).cast();
    let (expected, slopes) = evaluate::<f64>(&data, &spec, &parameters.cast()).unwrap();
    let (found, gradient) = in_browser(page, &data, &spec, &parameters, edit);
    let mut worst = (found - expected).abs() / expected.abs().max(1e-3);
    for ((_, found), (_, expected)) in tensors(&gradient).into_iter().zip(tensors(&slopes)) {
        let error = relative_error(&found, &expected);
        // A NaN must not hide behind `max`.
        worst = if error.is_nan() { f64::INFINITY } else { worst.max(error) };
    }
    worst
}

/// Whole evaluations, from samples and parameters to the gradient, by every stage that a loss has.
#[test]
fn a_browser_computes_the_same_numbers() {
    use Estimator::{Linear, U, V};
    use KernelKind::{ImqPlus, Rbf, TiltedRbf};
    use Objective::{Kds, Skds};
    let sigmoid = Some(Activation::Sigmoid);
    let spec = |objective, kind: KernelKind, estimator| LossSpec {
        objective,
        kernel: kind.with_bandwidth(3.0).unwrap(),
        estimator,
    };
    let cases = [
        (9, spec(Skds, Rbf, Linear), None, false),
        (70, spec(Kds, TiltedRbf, Linear), sigmoid, false),
        (13, spec(Skds, TiltedRbf, U), None, false),
        (21, spec(Kds, ImqPlus, V), Some(Activation::Tanh), false),
        (10, spec(Kds, TiltedRbf, U), None, true),
    ];
    let mut page = Page::open();
    for case in cases {
        let error = error_in_browser(&mut page, case, |_| ());
        assert!(error <= TOLERANCE, "{case:?}: {error:e}");
    }
    // The comparison can fail: shaders that are slightly wrong are noticed.
    for (case, stage, from, to) in [
        (cases[0], "drift", "low.y", "low.x"),
        (cases[0], "backward", "high.w", "high.z"),
        (cases[0], "pairs", "0.25 *", "0.26 *"),
        (cases[3], "all_pairs", "fma(vec4<f32>(b0), b,", "fma(vec4<f32>(1.01 * b0), b,"),
    ] {
        let error = error_in_browser(&mut page, case, |composed| {
            if composed.label.split('.').next() == Some(stage) {
                assert!(composed.source.contains(from), "{from}");
                composed.source = composed.source.replace(from, to);
            }
        });
        assert!(error > TOLERANCE, "{stage}: {from} → {to} went unnoticed: {error:e}");
    }
}
