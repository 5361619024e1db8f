//! What was accepted must be usable: described, written and read again, evaluation_progress, sampled. Failing is allowed, breaking is not.

use crate::doors;
use skds::data::{Dataset, Standardization};
use skds::engine::cpu::CpuEngine;
use skds::engine::{Engine, LossSpec, Precision};
use skds::experiment::{ExperimentPlan, Shard};
use skds::graph::Graph;
use skds::kernel::{Bandwidth, KernelKind};
use skds::model::{Basis, Drift, Model, Noise, Parameters};
use skds::objective::{Estimator, Objective};
use skds::sample::{EulerSettings, Intervention, SampleSettings, stationary_samples};
use skds::{Error, Matrix};
use std::path::Path;

/// Variables, rows and environments up to which losses are evaluated and laws sampled.
const SMALL: usize = 64;

fn loss<T: Precision>(data: &Dataset, parameters: &Parameters<T>, estimator: Estimator) {
    let kernel = KernelKind::TiltedRbf.with_bandwidth(1.5).unwrap();
    let spec = LossSpec { objective: Objective::Skds, kernel, estimator };
    let Ok(mut loss) = Engine::<T>::load(&CpuEngine, data, &spec) else { return };
    let mut gradient = parameters.zeros_like();
    match loss.evaluate(parameters, Some(&mut gradient)) {
        Ok(value) => assert!(value.is_finite(), "a loss is {value}"),
        Err(Error::Mismatch(problem) | Error::Failed(problem)) => panic!("{problem}"),
        Err(_) => {}
    }
}

/// dX = −X dt + dB
fn plain(d: usize) -> Parameters<f64> {
    Parameters {
        drift: Drift::linear(Matrix::from_fn(d, d, |j, i| if i == j { -1.0 } else { 0.0 })),
        biases: vec![0.0; d],
        noise: Noise::Diagonal { log_noise: vec![0.0; d] },
        shift: None,
        log_scale: None,
    }
}

pub fn dataset(data: &Dataset, folder: &Path) {
    let (d, rows) = (data.dim(), data.samples().rows());
    assert_eq!((0..data.environments()).map(|e| data.rows(e).len()).sum::<usize>(), rows);
    assert!(data.samples().as_slice().iter().all(|x| x.is_finite()));
    assert_eq!((data.names().len(), data.targets().rows()), (d, data.environments()));
    if d > SMALL || rows > SMALL {
        return;
    }
    (0..data.environments()).for_each(|e| drop(data.means(e)));
    let _ = Bandwidth::Auto.resolve(data, 0);
    Standardization::of(data).apply(data);
    loss::<f32>(data, &plain(d).cast(), Estimator::Linear);
    loss::<f64>(data, &plain(d), Estimator::U);
    let path = folder.join("again.npz");
    // Names that an array of texts cannot hold are refused by the writer.
    if data.write(&path).is_ok() {
        let again = doors::dataset(&path, None).unwrap();
        assert_eq!((again.samples(), again.names()), (data.samples(), data.names()));
        assert_eq!(again.targets(), data.targets());
    }
}

pub fn parameters(parameters: &Parameters<f64>, folder: &Path) {
    let path = folder.join("again.safetensors");
    // Functions may be of variables whose names only a model has.
    if parameters.drift.name() != "basis" {
        parameters.write(&path).unwrap();
        assert_eq!(doors::parameters(&path).unwrap(), *parameters);
    }
}

pub fn model(model: &Model, folder: &Path) {
    let path = folder.join("again.safetensors");
    model.save(&path).unwrap();
    let again = doors::model(&path).unwrap();
    assert_eq!(
        (&again.parameters, &again.names, &again.targets),
        (&model.parameters, &model.names, &model.targets)
    );
    let d = model.dim();
    let _ = Graph::of(model);
    if d > SMALL {
        return;
    }
    let euler = EulerSettings { dt: 0.01, burn_in: 4, thin: 1, chains: Some(2) };
    let settings = SampleSettings { euler, ..SampleSettings::default() };
    let environments = model.parameters.environments().unwrap_or(1);
    let mut interventions = vec![Intervention::none(d)];
    interventions
        .extend((0..environments.min(3)).filter_map(|e| Intervention::of_environment(model, e).ok()));
    for intervention in &interventions {
        if let Ok(samples) = stationary_samples(model, intervention, 4, &settings, 1) {
            assert_eq!((samples.rows(), samples.cols()), (4, d));
        }
    }
    if (1..=SMALL).contains(&environments) {
        let samples = |e: usize| Matrix::from_fn(4, d, |i, j| ((5 * i + 3 * j + e) as f64).cos());
        let mut data = Dataset::from_environments((0..environments).map(samples).collect()).unwrap();
        if let Ok(named) = data.clone().with_names(model.names.clone()) {
            data = named;
        }
        model.check_variables(&data, "the data").unwrap();
        if let Some(units) = &model.standardization {
            data = units.apply(&data);
        }
        loss::<f64>(&data, &model.parameters, Estimator::V);
        loss::<f32>(&data, &model.parameters.cast(), Estimator::Linear);
    }
}

pub fn basis(basis: &Basis, data: &Dataset) {
    let found = basis.features_of(data.samples());
    assert!(found.as_slice().iter().all(|value| value.is_finite()), "a function of the data is not finite");
    basis.diffusion_of(data.samples());
    let far = [[0.0; 3], [1e300, -1e300, 1e-300], [-1.0; 3]];
    let sum: f64 = far.iter().flat_map(|x| (0..basis.features()).map(|p| basis.feature_at(p, x))).sum();
    std::hint::black_box(sum);
    (0..basis.features()).for_each(|p| assert!(basis.variables(p).iter().all(|j| *j < 3)));
}

pub fn plan(plan: &ExperimentPlan) {
    for system in &plan.systems {
        plan.methods_for(system);
    }
    if plan.datasets <= 10_000 && plan.systems.len() <= 100 {
        let places = plan.places(Shard { number: 1, of: 1 });
        assert_eq!(places.len() as u64, plan.datasets * plan.systems.len() as u64);
    }
}

pub fn estimate((bytes, operations): (f64, f64)) {
    assert!(bytes.is_finite() && bytes >= 0.0, "a job of {bytes} bytes was accepted");
    assert!(operations >= 0.0, "a job of {operations} operations was accepted");
}
