//! What an evaluation on a GPU costs, what it refuses, and how it fails.

use crate::common::{
    all_specs, evaluate, gpu_engine, random_data, random_parameters, relative_error, tensors,
};
use skds::data::Dataset;
use skds::engine::gpu::plan::{Bounds, fold};
use skds::engine::gpu::{GpuEngine, GpuLoss, Traffic, adapters};
use skds::engine::{Device, Engine, Loss, LossSpec};
use skds::kernel::KernelKind;
use skds::model::{Activation, Parameters};
use skds::objective::{Estimator, Objective};
use skds::{DeviceFailure, Error};

fn rbf(objective: Objective, estimator: Estimator) -> LossSpec {
    LossSpec { objective, kernel: KernelKind::Rbf.with_bandwidth(3.0).unwrap(), estimator }
}

fn run(loss: &mut GpuLoss, parameters: &Parameters<f32>, gradient: bool) -> (f64, Traffic) {
    let before = loss.traffic();
    let mut slopes = parameters.zeros_like();
    let value = loss.evaluate(parameters, gradient.then_some(&mut slopes)).unwrap();
    let after = loss.traffic();
    let spent = Traffic {
        dispatches: after.dispatches - before.dispatches,
        submissions: after.submissions - before.submissions,
        uploaded: after.uploaded - before.uploaded,
        read_back: after.read_back - before.read_back,
        idle: after.idle - before.idle,
    };
    (value, spent)
}

/// 11 environments × 512 rows: one set of dispatches for all environments.
#[test]
fn eleven_environments_take_at_most_eight_dispatches_and_few_bytes() {
    let engine = gpu_engine();
    let (d, e) = (20, 11);
    let data = random_data(30, &[512; 11], d);
    let next = random_data(31, &[512; 11], d);
    for activation in [None, Some(Activation::Sigmoid)] {
        let parameters: Parameters<f32> = random_parameters(32, d, e, activation, false).cast();
        for spec in all_specs(4.0) {
            // All pairs of all environments take a software device long: KDS stands for them once.
            if spec.estimator == Estimator::V || (spec.estimator == Estimator::U && activation.is_some()) {
                continue;
            }
            let mut loss = engine.load_gpu(&data, &spec).unwrap();
            run(&mut loss, &parameters, true);
            // The parameters are there, the data is there: nothing is uploaded.
            let (_, spent) = run(&mut loss, &parameters, true);
            assert!(spent.dispatches <= 8, "{spec:?} {activation:?}: {} dispatches", spent.dispatches);
            assert_eq!(spent.uploaded, 0, "{spec:?}");
            let (_, spent) = run(&mut loss, &parameters, false);
            assert_eq!(spent.uploaded, 0, "{spec:?}");
            assert!(spent.read_back <= 64 * e as u64, "{spec:?}: {} bytes read", spent.read_back);
            // A new batch: its rows of vec4 and a centre per environment, nothing else.
            let before = loss.traffic();
            loss.write_samples(&next).unwrap();
            let rows = (512 * e * d.next_multiple_of(4) * 4) as u64;
            let centres = (e * d.next_multiple_of(4) * 4) as u64;
            assert_eq!(loss.traffic().uploaded - before.uploaded, rows + centres);
            let (value, spent) = run(&mut loss, &parameters, true);
            assert_eq!(spent.uploaded, 0);
            let (expected, _) = evaluate::<f64>(&next, &spec, &parameters.cast()).unwrap();
            assert!(
                (value - expected).abs() <= 5e-4 * expected.abs().max(1e-3),
                "{spec:?} {value} {expected}"
            );
            // New parameters: they are uploaded, and they alone.
            let mut other = parameters.clone();
            other.biases[3] += 0.5;
            let (_, spent) = run(&mut loss, &other, false);
            let numbers: usize = other.tensors().iter().map(|t| t.values.len()).sum();
            assert!(spent.uploaded >= 4 * numbers as u64 && spent.uploaded <= 8 * numbers as u64);
        }
    }
}

/// While the host waits for one submission, the device has the next.
#[test]
fn two_submissions_are_under_way() {
    let engine = gpu_engine();
    let engine = engine.with_bounds(Bounds { dispatch_flops: 1e6, ..gpu_engine().bounds() });
    let data = random_data(38, &[200], 6);
    let parameters: Parameters<f32> = random_parameters(39, 6, 1, None, false).cast();
    let mut loss = engine.load_gpu(&data, &rbf(Objective::Skds, Estimator::U)).unwrap();
    run(&mut loss, &parameters, true);
    let (_, spent) = run(&mut loss, &parameters, true);
    assert!(spent.submissions > 4, "{spent:?}");
    assert_eq!(spent.idle, 1, "{spent:?}");
}

#[test]
fn a_batch_of_another_shape_is_refused() {
    let engine = gpu_engine();
    let mut loss =
        engine.load_gpu(&random_data(1, &[4, 6], 3), &rbf(Objective::Skds, Estimator::Linear)).unwrap();
    let sentence = loss.write_samples(&random_data(1, &[6, 4], 3)).unwrap_err().to_string();
    assert!(sentence.contains("expected 3, 10 and 2 with the same rows"), "{sentence}");
}

/// The limits of the weakest device that WebGPU allows.
#[test]
fn portable_limits_suffice() {
    let engine = gpu_engine().with_portable_limits();
    assert_eq!(engine.bounds().binding_bytes, 128 << 20);
    let data = random_data(33, &[150, 65], 37);
    for full in [false, true] {
        let parameters: Parameters<f32> = random_parameters(34, 37, 2, Some(Activation::Tanh), full).cast();
        for spec in all_specs(6.0) {
            let mut gradient = parameters.zeros_like();
            let mut loss = Engine::<f32>::load(&engine, &data, &spec).unwrap();
            let value = loss.evaluate(&parameters, Some(&mut gradient)).unwrap();
            let (expected, slopes) = evaluate::<f64>(&data, &spec, &parameters.cast()).unwrap();
            assert!((value - expected).abs() <= 5e-4 * expected.abs().max(1e-3), "{spec:?}");
            for ((name, found), (_, expected)) in tensors(&gradient).into_iter().zip(tensors(&slopes)) {
                assert!(relative_error(&found, &expected) <= 5e-4, "{spec:?} {name}");
            }
        }
    }
}

#[test]
fn dispatches_past_65535_workgroups_are_folded() {
    assert_eq!(fold(1), [1, 1]);
    assert_eq!(fold(65_535), [65_535, 1]);
    assert_eq!(fold(65_536), [65_535, 2]);
    assert_eq!(fold(1_000_000), [65_535, 16]);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_allocated() {
    let data = random_data(35, &[1000], 50);
    let parameters: Parameters<f32> = random_parameters(36, 50, 1, None, false).cast();
    let spec = rbf(Objective::Skds, Estimator::U);
    let refusal = |engine: GpuEngine| {
        let mut loss = engine.load_gpu(&data, &spec).unwrap();
        let before = loss.traffic();
        let problem = loss.evaluate(&parameters, None).unwrap_err();
        assert_eq!(loss.traffic(), before, "something was done");
        assert_eq!(loss.bytes(), 0);
        problem.to_string()
    };
    let sentence = refusal(gpu_engine().with_budget(100_000));
    assert!(sentence.contains("needs 2.6 MiB"), "{sentence}");
    assert!(sentence.contains("expected at most its budget of 100000 bytes"), "{sentence}");
    let engine = gpu_engine();
    let bounds = Bounds { binding_bytes: 4096, ..engine.bounds() };
    let sentence = refusal(engine.with_bounds(bounds));
    assert!(sentence.contains("in one binding, expected at most the device's 4096 bytes"), "{sentence}");
}

fn small() -> (Dataset, Parameters<f32>) {
    (random_data(37, &[40, 31], 6), random_parameters(38, 6, 2, None, false).cast())
}

#[test]
fn a_lost_device_is_an_error_and_a_new_one_goes_on() {
    let engine = gpu_engine();
    let (data, parameters) = small();
    let spec = rbf(Objective::Kds, Estimator::U);
    let mut loss = Engine::<f32>::load(&engine, &data, &spec).unwrap();
    let before = loss.evaluate(&parameters, None).unwrap();
    engine.destroy_device();
    for _ in 0..2 {
        match loss.evaluate(&parameters, None).unwrap_err() {
            Error::Device { device, failure: DeviceFailure::Lost(_) } => {
                assert_eq!(device, Engine::<f32>::device(&engine));
            }
            other => panic!("{other:?}"),
        }
    }
    let mut again = Engine::<f32>::load(&engine, &data, &spec).unwrap();
    assert_eq!(again.evaluate(&parameters, None).unwrap(), before);
}

#[test]
fn a_shader_that_does_not_compile_is_an_error_with_the_adapters_name() {
    let (data, parameters) = small();
    let engine = gpu_engine().with_edit("pairs", "let r = px - py;", "let r = px - nonsense;");
    let mut loss = engine.load_gpu(&data, &rbf(Objective::Skds, Estimator::Linear)).unwrap();
    match loss.evaluate(&parameters, None).unwrap_err() {
        Error::Device { device, failure: DeviceFailure::Shader(problem) } => {
            assert_eq!(device, Engine::<f32>::device(&engine));
            assert!(problem.contains("nonsense"), "{problem}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn infinite_results_are_errors_that_name_what_is_infinite() {
    let (data, mut parameters) = small();
    let engine = gpu_engine();
    parameters.biases[2] = 1e30;
    for estimator in [Estimator::Linear, Estimator::U] {
        let mut loss = engine.load_gpu(&data, &rbf(Objective::Skds, estimator)).unwrap();
        let mut gradient = parameters.zeros_like();
        let problem = loss.evaluate(&parameters, Some(&mut gradient)).unwrap_err();
        assert!(matches!(problem, Error::NonFinite(_)), "{problem}");
        assert!(problem.to_string().contains("environment 0"), "{problem}");
    }
    // A loss that is fine and a gradient that is not.
    let engine = gpu_engine().with_edit(
        "finish",
        "put_gradient(job.at_biases + k, bias_sum)",
        "put_gradient(job.at_biases + k, exp(bias_sum * 0.0 + 200.0))",
    );
    let (data, parameters) = small();
    let mut loss = engine.load_gpu(&data, &rbf(Objective::Skds, Estimator::Linear)).unwrap();
    let problem = loss.evaluate(&parameters, Some(&mut parameters.zeros_like())).unwrap_err().to_string();
    assert!(problem.contains("the gradient of biases is") && problem.contains("at entry 0"), "{problem}");
}

#[test]
fn f64_on_a_gpu_is_refused() {
    let (data, _) = small();
    let problem =
        Engine::<f64>::load(&gpu_engine(), &data, &rbf(Objective::Skds, Estimator::U)).err().unwrap();
    assert_eq!(problem.to_string(), "precision is f64, expected f32 on a GPU: use the CPU engine for f64");
}

#[test]
fn devices_are_found_by_index_and_name_and_unknown_ones_list_the_known() {
    let gpus = adapters::list();
    let first = gpus
        .first()
        .expect("these tests need a Vulkan device: apt-get install mesa-vulkan-drivers libvulkan1");
    assert_eq!(adapters::named(&gpus, "0").unwrap().name(), first.name());
    let part = first.name()[1..5].to_uppercase();
    assert_eq!(adapters::named(&gpus, &part).unwrap().name(), first.name());
    for unknown in ["99", "no such card"] {
        let sentence = adapters::named(&gpus, unknown).unwrap_err().to_string();
        assert!(sentence.contains("auto, cpu, gpu, 0 ("), "{sentence}");
    }
    let sentence = adapters::named(&[], "0").unwrap_err().to_string();
    assert_eq!(sentence, "unknown device '0', expected one of auto, cpu");
    assert!(adapters::any(&[]).unwrap_err().to_string().contains("mesa-vulkan-drivers"));
    assert!(adapters::best(&[]).is_none());
    assert_eq!("GPU 3".parse::<Device>().unwrap(), Device::Named("GPU 3".into()));
    assert!("".parse::<Device>().is_err());
}

#[test]
fn stages_are_timed_where_the_device_can() {
    let (data, parameters) = small();
    let engine = gpu_engine();
    let mut loss = engine.load_gpu(&data, &rbf(Objective::Skds, Estimator::Linear)).unwrap();
    let gpus = adapters::list();
    match loss.profile(&parameters) {
        Ok(stages) => {
            let names: Vec<_> = stages.iter().map(|s| s.stage).collect();
            let expected =
                ["diffusion_diagonal", "drift", "pairs", "adjoint", "backward", "reduce", "finish"];
            assert_eq!(names, expected);
            assert!(stages.iter().all(|s| s.dispatches == 1 && s.seconds >= 0.0 && s.flops > 0.0));
        }
        Err(problem) => {
            assert!(!adapters::any(&gpus).unwrap().has_timestamps(), "{problem}");
        }
    }
}
