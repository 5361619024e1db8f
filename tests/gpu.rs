//! The GPU engine against automatic differentiation and the f64 CPU engine, on whatever Vulkan device there is;
//! where there is none the tests fail and say how to get one.

mod common;

use common::{golden_cases, relative_error, tensors};
use skds::engine::gpu::{GpuEngine, adapters};
use skds::engine::{Engine, Loss};
use skds::model::Parameters;

/// Of the largest entry: float32 with divisions and exponentials that may be a few units off.
const TOLERANCE: f64 = 5e-4;

fn engine() -> GpuEngine {
    let gpus = adapters::list();
    let gpu = adapters::any(&gpus)
        .expect("these tests need a Vulkan device: on Debian, apt-get install mesa-vulkan-drivers libvulkan1");
    GpuEngine::new(gpu)
}

#[test]
fn golden_cases_match_automatic_differentiation() {
    let engine = engine();
    let mut worst = (0.0f64, String::new());
    let mut bad = Vec::new();
    for case in golden_cases() {
        let parameters: Parameters<f32> = case.parameters().cast();
        let mut gradient = parameters.zeros_like();
        let mut loss = Engine::<f32>::load(&engine, &case.data(), &case.spec).unwrap();
        let value = loss.evaluate(&parameters, Some(&mut gradient)).unwrap();
        let alone = Loss::<f32>::evaluate(loss.as_mut(), &parameters, None).unwrap();
        assert_eq!(value, alone, "{}", case.name);
        let mut found = tensors(&gradient);
        found.push(("loss".into(), vec![value]));
        for (name, expected) in case.expected() {
            let (_, values) = found.iter().find(|(n, _)| *n == name).unwrap();
            let error = relative_error(values, &expected);
            if error > worst.0 { worst = (error, format!("{} {name}", case.name)); }
            if !(error <= TOLERANCE) { bad.push(format!("{} {name}: {error:e}", case.name)); }
        }
    }
    println!("worst {worst:?}");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
