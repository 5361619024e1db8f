//! What a family of drifts cannot do is an error with its name: every public operation is asked of a model of given functions,
//! and of models whose drift and noise do not belong together.

use skds::engine::cpu::CpuTraining;
use skds::engine::{Adam, CpuEngine, Engine, LossSpec, TrainingSpec};
use skds::kernel::Kernel;
use skds::model::{Basis, BasisDrift, Member, MlpDrift, Penalty, PenaltyKind};
use skds::predict::{TargetMeans, laws_of, match_means};
use skds::prelude::*;
use skds::sample::{EulerSettings, Intervention, Sampler};
use std::sync::Arc;

const SPEC: LossSpec = LossSpec {
    objective: Objective::Skds,
    kernel: Kernel::Rbf { bandwidth: 1.0 },
    estimator: Estimator::Linear,
};

fn data() -> Dataset {
    let wave = |e: f64| Matrix::from_fn(40, 2, |i, j| e + (0.7 * i as f64 + 2.0 * j as f64).sin());
    let targets = Matrix::from_fn(2, 2, |e, j| e == 1 && j == 0);
    Dataset::from_environments(vec![wave(0.0), wave(0.3)]).unwrap().with_targets(targets).unwrap()
}

/// b_j = −x_j with a noise of 0.25.
fn of_functions() -> Parameters<f64> {
    let basis = Basis::new(&"polynomial:1".parse().unwrap(), "1", &data()).unwrap();
    let coefficients =
        Matrix::from_fn(2, basis.features(), |j, p| if basis.is_own(p, j) { -1.0 } else { 0.0 });
    Parameters {
        drift: BasisDrift { basis: Arc::new(basis), coefficients }.into(),
        biases: vec![0.0; 2],
        noise: Noise::Basis { amounts: Matrix::full(2, 1, 0.25) },
        shift: Some(Matrix::full(2, 2, 0.0)),
        log_scale: None,
    }
}

fn diagonal() -> Noise<f64> {
    Noise::Diagonal { log_noise: vec![0.0; 2] }
}

fn linear() -> Drift<f64> {
    Drift::linear(Matrix::from_rows(2, 2, vec![-1.0, 0.0, 0.5, -1.0]))
}

#[track_caller]
fn refused<V>(outcome: Result<V>, piece: &str) {
    match outcome {
        Ok(_) => panic!("this was expected to be refused"),
        Err(error) => assert!(error.to_string().contains(piece), "no `{piece}` in: {error}"),
    }
}

fn short() -> SampleSettings {
    let euler = EulerSettings { burn_in: 20, thin: 2, ..EulerSettings::default() };
    SampleSettings { euler, ..SampleSettings::default() }
}

#[test]
fn a_model_of_functions_does_what_it_can() {
    let (data, model) = (data(), Model::new(of_functions()));
    let parameters = &model.parameters;
    assert_eq!((parameters.dim(), parameters.environments(), parameters.drift.name()), (2, Some(2), "basis"));
    assert!(!parameters.drift.is_linear() && parameters.drift.effects_in_deviations());
    let names: Vec<_> = parameters.tensors().iter().map(|tensor| tensor.name).collect();
    assert_eq!(names, ["coefficients", "biases", "amounts", "shift"]);
    assert!(parameters.zeros_like().tensors_mut().iter().all(|(_, values)| values.iter().all(|v| *v == 0.0)));
    assert_eq!(parameters.cast::<f32>().cast::<f64>().biases, parameters.biases);
    let mut fixed = parameters.clone();
    fixed.impose_fixed(data.targets());
    fixed.mask_fixed(data.targets());
    assert_eq!(fixed.drift, parameters.drift);
    // Files, effects, diffusion, samples, laws, predictions.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    model.save(&path).unwrap();
    assert_eq!(Model::read(&path).unwrap().parameters, model.parameters);
    assert!(Graph::of(&model).unwrap().effects().is_empty());
    let none = Intervention::none(2);
    assert_eq!(none.diffusion(parameters).unwrap()[(0, 0)], 0.25);
    assert_eq!(short().method_for(&model).unwrap(), Method::Euler);
    let sampler = Sampler::cpu();
    let laws = laws_of(&sampler, &model, &[&none], &short(), 0, &Progress::default()).unwrap();
    assert!(laws[0].is_ok());
    assert_eq!(*model.in_standard_units(), model);
    model.check_has_loss().unwrap();
    let wanted = [TargetMeans { targets: vec![0], means: vec![0.2] }];
    match_means(&sampler, &model, &wanted, &short(), 0, &Progress::default()).unwrap().remove(0).unwrap();
}

#[test]
fn what_a_model_of_functions_cannot_do_is_an_error() {
    let (data, model) = (data(), Model::new(of_functions()));
    let parameters = &model.parameters;
    refused(parameters.check_fits(2, 2), "the drift basis, which has no loss");
    refused(parameters.drift.linear_weights(), "the drift is basis, expected a linear one");
    refused(parameters.noise.log_noise(), "made of given functions");
    refused(parameters.noise.matrix(), "made of given functions");
    let units = skds::data::Standardization { mean: vec![1.0; 2], scale: vec![2.0; 2] };
    refused(parameters.in_units_of(&units, None), "functions of variables in other units");
    for &kind in PenaltyKind::ALL {
        let penalty = Penalty::new(kind, 1.0);
        refused(penalty.value(parameters), "the drift basis, which has no weights");
        refused(penalty.weighted_value(parameters, Some(&Matrix::full(2, 2, 1.0))), "the drift basis");
        refused(penalty.add_gradient(parameters, &mut parameters.zeros_like()), "the drift basis");
    }
    let mut loss = CpuEngine.load(&data, &SPEC).unwrap();
    refused(loss.evaluate(parameters, None), "the drift basis, which has no loss");
    refused(loss.evaluate(parameters, Some(&mut parameters.zeros_like())), "the drift basis");
    let single = parameters.cast::<f32>();
    let training =
        TrainingSpec { loss: SPEC, penalty: None, optimiser: Adam::default().into(), batches: None };
    refused(CpuTraining::new(&data, training, &single, &single), "the drift basis, which has no loss");
    let exact = SampleSettings { method: Method::Exact, ..short() };
    refused(exact.method_for(&model), "the drift is not linear");
    // Averages are of linear models.
    let member = Member { weight: 0.5, law: LawKind::Diffusion, parameters: of_functions() };
    let average = Model { members: vec![member.clone(), member], ..model.clone() };
    let none = Intervention::none(2);
    let laws = laws_of(&Sampler::cpu(), &average, &[&none], &short(), 0, &Progress::default());
    refused(laws, "expected a linear one");
}

#[test]
fn a_drift_and_a_noise_that_do_not_belong_together_are_refused() {
    let functions = of_functions();
    let drift_alone = Parameters { noise: diagonal(), ..functions.clone() };
    let noise_alone = Parameters { drift: linear(), ..functions };
    let folder = tempfile::tempdir().unwrap();
    for parameters in [drift_alone, noise_alone.clone()] {
        let model = Model::new(parameters);
        let piece = "drift and noise is made of given functions";
        refused(model.parameters.check_fits(2, 2), piece);
        refused(model.save(folder.path().join("never.safetensors")), piece);
        refused(Graph::of(&model), piece);
        refused(CpuEngine.load(&data(), &SPEC).unwrap().evaluate(&model.parameters, None), piece);
        let none = Intervention::none(2);
        refused(laws_of(&Sampler::cpu(), &model, &[&none], &short(), 0, &Progress::default()), piece);
        refused(skds::sample::stationary_samples(&model, &none, 10, &short(), 0), piece);
    }
    refused(Intervention::none(2).diffusion(&noise_alone), "the drift linear, which has no noise");
}

#[test]
fn a_gradient_of_another_form_is_refused() {
    let mlp = MlpDrift {
        activation: Activation::Tanh,
        hidden_weights: Matrix::full(4, 2, 0.1),
        hidden_biases: Matrix::full(2, 2, 0.0),
        output_weights: Matrix::full(2, 2, 0.1),
    };
    let of = |drift: Drift<f64>, noise: Noise<f64>| Parameters {
        drift,
        biases: vec![0.0; 2],
        noise,
        shift: None,
        log_scale: None,
    };
    let (linear, mlp) = (of(linear(), diagonal()), of(mlp.into(), diagonal()));
    let full = of(linear.drift.clone(), Noise::Full { noise: Matrix::full(2, 2, 1.0) });
    let mut loss = CpuEngine.load(&data(), &SPEC).unwrap();
    for (parameters, other) in [(&linear, &mlp), (&mlp, &linear), (&linear, &full), (&full, &linear)] {
        refused(loss.evaluate(parameters, Some(&mut other.zeros_like())), "expected");
        loss.evaluate(parameters, Some(&mut parameters.zeros_like())).unwrap();
    }
    let penalty = Penalty::new(PenaltyKind::Both, 1.0);
    refused(penalty.add_gradient(&linear, &mut mlp.zeros_like()), "8 weights, expected 4");
}
