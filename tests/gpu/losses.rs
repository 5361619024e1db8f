//! The GPU engine against automatic differentiation and the f64 CPU engine, on whatever Vulkan device there is;
//! where there is none the tests fail and say how to get one.

use crate::common::{
    SHAPES, all_specs, evaluate, golden_cases, gpu_engine, random_data, random_parameters, relative_error,
    tensors,
};
use skds::Matrix;
use skds::data::Dataset;
use skds::engine::gpu::GpuEngine;
use skds::engine::gpu::plan::Bounds;
use skds::engine::{Engine, LossSpec};
use skds::kernel::KernelKind;
use skds::model::{Activation, Parameters};
use skds::objective::{Estimator, Objective};

/// Of the largest entry: float32 with divisions and exponentials that may be a few units off.
const TOLERANCE: f64 = 5e-4;

/// NaN is not within anything.
fn within(error: f64) -> bool {
    error <= TOLERANCE
}

/// Loss and gradient by the GPU engine.
fn on_gpu(
    engine: &GpuEngine,
    data: &Dataset,
    spec: &LossSpec,
    parameters: &Parameters<f32>,
) -> (f64, Parameters<f32>) {
    let mut gradient = parameters.zeros_like();
    let mut loss = Engine::<f32>::load(engine, data, spec).unwrap();
    let value = loss.evaluate(parameters, Some(&mut gradient)).unwrap();
    (value, gradient)
}

/// Everything in which the GPU differs from the f64 CPU engine by more than the tolerance.
fn differences(
    engine: &GpuEngine,
    data: &Dataset,
    spec: &LossSpec,
    activation: Option<Activation>,
    full: bool,
) -> Vec<String> {
    let exact = random_parameters(9, data.dim(), data.environments(), activation, full);
    let parameters: Parameters<f32> = exact.cast();
    let (expected, slopes) = evaluate::<f64>(data, spec, &parameters.cast()).unwrap();
    let (found, gradient) = on_gpu(engine, data, spec, &parameters);
    let mut bad = Vec::new();
    let (n, e) = (data.samples().rows(), data.environments());
    let at = format!("d={} n={n} environments={e} {spec:?} {activation:?} full={full}", data.dim());
    if !within((found - expected).abs() / expected.abs().max(1e-3)) {
        bad.push(format!("{at}: loss {found}, expected {expected}"));
    }
    for ((name, found), (_, expected)) in tensors(&gradient).into_iter().zip(tensors(&slopes)) {
        let error = relative_error(&found, &expected);
        if !within(error) {
            bad.push(format!("{at} {name}: {error:e}"));
        }
    }
    bad
}

fn expect_none(bad: Vec<String>) {
    assert!(bad.is_empty(), "{} differences\n{}", bad.len(), bad.join("\n"));
}

#[test]
fn golden_cases_match_automatic_differentiation() {
    let engine = gpu_engine();
    let mut bad = Vec::new();
    for case in golden_cases() {
        let parameters: Parameters<f32> = case.parameters().cast();
        let mut gradient = parameters.zeros_like();
        let mut loss = Engine::<f32>::load(&engine, &case.data(), &case.spec).unwrap();
        let value = loss.evaluate(&parameters, Some(&mut gradient)).unwrap();
        assert_eq!(value, loss.evaluate(&parameters, None).unwrap(), "{}", case.name);
        let mut found = tensors(&gradient);
        found.push(("loss".into(), vec![value]));
        for (name, expected) in case.expected() {
            let (_, values) = found.iter().find(|(n, _)| *n == name).unwrap();
            let error = relative_error(values, &expected);
            if !within(error) {
                bad.push(format!("{} {name}: {error:e}", case.name));
            }
        }
    }
    expect_none(bad);
}

#[test]
fn edge_shapes_match_the_cpu() {
    let engine = gpu_engine();
    let mut bad = Vec::new();
    for (sizes, d) in
        [(vec![2], 1), (vec![3], 1), (vec![2, 2], 2), (vec![5, 2, 3], 1), (vec![2], 9), (vec![65, 64], 7)]
    {
        let data = random_data(10, &sizes, d);
        for (_, activation, full) in SHAPES {
            for spec in all_specs(1.5) {
                bad.extend(differences(&engine, &data, &spec, activation, full));
            }
        }
    }
    expect_none(bad);
}

#[test]
fn shapes_past_every_tile_match_the_cpu() {
    let engine = gpu_engine();
    let mut bad = Vec::new();
    for (sizes, d) in [(vec![301, 130, 67], 33), (vec![129], 70)] {
        let data = random_data(11, &sizes, d);
        for (_, activation, full) in [SHAPES[0], SHAPES[1], SHAPES[2], SHAPES[5]] {
            for spec in all_specs((d as f64).sqrt()) {
                bad.extend(differences(&engine, &data, &spec, activation, full));
            }
        }
    }
    expect_none(bad);
}

/// d up to 300 and n up to 3000, neither a multiple of any tile; a software device would take minutes for all of them
/// at once, so each shape meets a few losses and every loss a few shapes.
#[test]
fn large_shapes_match_the_cpu() {
    let engine = gpu_engine();
    let mut bad = Vec::new();
    let spec = |objective, kind: KernelKind, d: usize, estimator| LossSpec {
        objective,
        kernel: kind.with_bandwidth((d as f64).sqrt()).unwrap(),
        estimator,
    };
    use Estimator::{Linear, U, V};
    use KernelKind::{ImqPlus, Rbf, TiltedRbf};
    use Objective::{Kds, Skds};
    let sigmoid = Some(Activation::Sigmoid);
    for (sizes, d, objective, kind, estimator, activation, full) in [
        (vec![2999], 299, Skds, Rbf, Linear, None, false),
        (vec![1501, 1498], 299, Kds, ImqPlus, Linear, None, false),
        (vec![700, 33], 299, Skds, TiltedRbf, Linear, None, true),
        (vec![601, 410], 150, Kds, TiltedRbf, Linear, sigmoid, false),
        (vec![2999], 17, Skds, Rbf, U, None, false),
        (vec![1203, 799], 11, Kds, ImqPlus, V, None, false),
        (vec![433], 299, Skds, ImqPlus, U, None, false),
        (vec![250, 171], 201, Kds, Rbf, V, sigmoid, false),
        (vec![333], 131, Kds, TiltedRbf, U, None, true),
    ] {
        let data = random_data(12, &sizes, d);
        let spec = spec(objective, kind, d, estimator);
        bad.extend(differences(&engine, &data, &spec, activation, full));
    }
    expect_none(bad);
}

/// Bindings so small that rows fall into many spans, and dispatches so short that all pairs are cut up too.
#[test]
fn many_spans_and_short_dispatches_match_the_cpu() {
    let engine = gpu_engine();
    let bounds = Bounds { binding_bytes: 96 << 10, dispatch_flops: 3e6, busy_groups: 16, ..engine.bounds() };
    let engine = engine.with_bounds(bounds);
    let data = random_data(13, &[301, 2, 130, 67], 21);
    let mut bad = Vec::new();
    for (_, activation, full) in [SHAPES[0], SHAPES[1], SHAPES[2], SHAPES[5]] {
        for spec in all_specs(4.0) {
            bad.extend(differences(&engine, &data, &spec, activation, full));
        }
    }
    expect_none(bad);
}

/// Products in tiles of 128 × 128, which problems of this size are too small for.
#[test]
fn wide_tiles_match_the_cpu() {
    let engine = gpu_engine();
    let engine = engine.with_bounds(Bounds { wide_tiles: 1, ..gpu_engine().bounds() });
    let spans =
        gpu_engine().with_bounds(Bounds { wide_tiles: 1, binding_bytes: 96 << 10, ..gpu_engine().bounds() });
    let mut bad = Vec::new();
    for (sizes, d) in
        [(vec![2], 1), (vec![301, 130, 67], 33), (vec![129], 70), (vec![65, 200], 131), (vec![90], 16)]
    {
        let data = random_data(17, &sizes, d);
        for (_, activation, full) in [SHAPES[0], SHAPES[1], SHAPES[2]] {
            for estimator in [Estimator::Linear, Estimator::U] {
                let kernel = KernelKind::Rbf.with_bandwidth((d as f64).sqrt()).unwrap();
                let spec = LossSpec { objective: Objective::Skds, kernel, estimator };
                bad.extend(differences(&engine, &data, &spec, activation, full));
                if d == 33 {
                    bad.extend(differences(&spans, &data, &spec, activation, full));
                }
            }
        }
    }
    expect_none(bad);
}

#[test]
fn far_from_the_origin_distances_do_not_cancel() {
    let engine = gpu_engine();
    let near = random_data(12, &[150], 5);
    let far =
        Dataset::from_environments(vec![near.samples().map(|v| f64::from((v + 1000.0) as f32))]).unwrap();
    for &objective in Objective::ALL {
        for &estimator in Estimator::ALL {
            for full in [false, true] {
                let kernel = KernelKind::Rbf.with_bandwidth(2.0).unwrap();
                let spec = LossSpec { objective, kernel, estimator };
                let mut parameters = random_parameters(13, 5, 1, Some(Activation::Tanh), full);
                parameters.biases.fill(1000.0);
                let parameters: Parameters<f32> = parameters.cast();
                let (exact, _) = evaluate::<f64>(&far, &spec, &parameters.cast()).unwrap();
                let (rounded, _) = on_gpu(&engine, &far, &spec, &parameters);
                assert!((exact - rounded).abs() <= 2e-3 * exact.abs(), "{spec:?} {full} {exact} {rounded}");
            }
        }
    }
}

/// 33 000 environments of two rows: more than 65 535 workgroups in `all_pairs`, so its dispatch is folded.
#[test]
fn more_than_65535_workgroups_match_the_cpu() {
    let engine = gpu_engine();
    // As many samples, but all around the origin, and the same in f32 and f64.
    let rows = random_data(14, &[66_000], 1).samples().map(|v| f64::from(v as f32));
    let environment = |e: usize| Matrix::from_rows(2, 1, rows.as_slice()[2 * e..2 * e + 2].to_vec());
    let data = Dataset::from_environments((0..33_000).map(environment).collect()).unwrap();
    let kernel = KernelKind::Rbf.with_bandwidth(1.0).unwrap();
    let spec = LossSpec { objective: Objective::Skds, kernel, estimator: Estimator::U };
    expect_none(differences(&engine, &data, &spec, None, false));
}

/// A wrong shader is noticed: the comparisons above can fail.
#[test]
fn perturbed_shaders_are_noticed() {
    let data = random_data(15, &[37, 20], 9);
    let spec = |objective, kind: KernelKind, estimator| LossSpec {
        objective,
        kernel: kind.with_bandwidth(3.0).unwrap(),
        estimator,
    };
    use Estimator::{Linear, U};
    use KernelKind::{ImqPlus, Rbf, TiltedRbf};
    use Objective::{Kds, Skds};
    let sigmoid = Some(Activation::Sigmoid);
    for (stage, from, to, spec, activation, full) in [
        (
            "diffusion_diagonal",
            "exp(2.0 * noise)",
            "exp(2.002 * noise)",
            spec(Skds, Rbf, Linear),
            None,
            false,
        ),
        (
            "diffusion_full",
            "scale * unpadded",
            "1.002 * scale * unpadded",
            spec(Skds, Rbf, Linear),
            None,
            true,
        ),
        (
            "traces",
            "squares += dot(a, a)",
            "squares += 1.01 * dot(a, a)",
            spec(Skds, Rbf, Linear),
            None,
            true,
        ),
        ("drift", "low.y", "low.x", spec(Skds, Rbf, Linear), None, false),
        ("drift", "/ (1.0 + small)", "/ (1.01 + small)", spec(Skds, Rbf, Linear), sigmoid, false),
        ("spread", "return x[", "return 1.01 * x[", spec(Kds, Rbf, Linear), None, true),
        ("tilt", "sqrt(tau)", "tau", spec(Skds, TiltedRbf, Linear), None, false),
        ("pairs", "0.25 *", "0.26 *", spec(Skds, Rbf, Linear), None, false),
        ("pairs", "exp(minus * rho)", "exp(1.01 * minus * rho)", spec(Kds, Rbf, Linear), None, false),
        ("all_pairs", "-7.0 * p3", "-6.0 * p3", spec(Kds, ImqPlus, U), None, false),
        ("all_pairs", "row0, row1) + offset", "row0, row1) + 1u", spec(Skds, Rbf, U), None, false),
        ("turn", "job.z_factor *", "1.01 * job.z_factor *", spec(Skds, Rbf, U), None, true),
        ("adjoint", "bar *= two", "bar *= 1.01 * two", spec(Kds, TiltedRbf, U), None, false),
        (
            "adjoint",
            "value * (1.0 - value)",
            "value * (1.01 - value)",
            spec(Skds, Rbf, Linear),
            sigmoid,
            false,
        ),
        ("backward", "high.w", "high.z", spec(Skds, Rbf, Linear), None, false),
        (
            "outer",
            "return work[(row + lane)",
            "return 1.01 * work[(row + lane)",
            spec(Kds, Rbf, Linear),
            None,
            true,
        ),
        (
            "reduce",
            "min(chunk + 512u, count)",
            "min(chunk + 1u, count - 1u)",
            spec(Skds, Rbf, Linear),
            None,
            false,
        ),
        ("symmetric", "4.0 * trace_bars.z", "4.1 * trace_bars.z", spec(Skds, Rbf, Linear), None, true),
        ("noise", "return parameters[at", "return 1.01 * parameters[at", spec(Skds, Rbf, Linear), None, true),
        ("finish", "2.0 * alpha * traces.z", "2.1 * alpha * traces.z", spec(Skds, Rbf, Linear), None, false),
    ] {
        assert_eq!(
            differences(&gpu_engine(), &data, &spec, activation, full),
            Vec::<String>::new(),
            "{stage}"
        );
        let engine = gpu_engine().with_edit(stage, from, to);
        let found = differences(&engine, &data, &spec, activation, full);
        assert!(!found.is_empty(), "{stage}: {from} → {to} went unnoticed");
    }
}

/// The same device gives the same bits, on the same engine and on a new one.
#[test]
fn twice_the_same_run_gives_the_same_bytes() {
    let data = random_data(16, &[203, 130], 35);
    for (_, activation, full) in [SHAPES[0], SHAPES[1], SHAPES[2]] {
        let parameters: Parameters<f32> = random_parameters(19, 35, 2, activation, full).cast();
        for spec in all_specs(6.0) {
            let engine = gpu_engine();
            let runs = [&engine, &engine, &gpu_engine()].map(|engine| {
                let (loss, gradient) = on_gpu(engine, &data, &spec, &parameters);
                let bits: Vec<u32> =
                    gradient.tensors().iter().flat_map(|t| t.values.iter().map(|v| v.to_bits())).collect();
                (loss.to_bits(), bits)
            });
            assert!(runs[0] == runs[1] && runs[1] == runs[2], "{spec:?}");
        }
    }
}

/// Equal terms are the worst case of a sum: every addition rounds the same way. Long sums are therefore cut into runs, so
/// that over a million columns the error stays where it is here.
#[test]
fn long_sums_over_pairs_are_cut_into_short_ones() {
    let n = 4096;
    let data = Dataset::from_environments(vec![Matrix::full(n, 1, 0.0)]).unwrap();
    let mut parameters = random_parameters(20, 1, 1, None, false);
    for (name, values) in parameters.tensors_mut() {
        // b is 0.1 everywhere, and there is next to no noise.
        values.fill(f64::from(match name {
            "biases" => 0.1f32,
            "log_noise" => -4.0,
            _ => 0.0,
        }));
    }
    let kernel = KernelKind::Rbf.with_bandwidth(1.0).unwrap();
    let spec = LossSpec { objective: Objective::Skds, kernel, estimator: Estimator::V };
    let (expected, _) = evaluate::<f64>(&data, &spec, &parameters).unwrap();
    // One part: a small problem's columns are cut for the device's sake already.
    let bounds = Bounds { busy_groups: 1, ..gpu_engine().bounds() };
    let error = |engine: &GpuEngine| {
        let (found, _) = on_gpu(engine, &data, &spec, &parameters.cast());
        (found - expected).abs() / expected
    };
    let engine = gpu_engine().with_bounds(bounds);
    assert!(error(&engine) < 1e-5, "{}", error(&engine));
    let whole = engine.with_edit("all_pairs", "const RUN: u32 = 32u;", "const RUN: u32 = 1000000u;");
    assert!(error(&whole) > 2e-5, "{}", error(&whole));
}
