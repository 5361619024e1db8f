//! Steps that never leave the device, against the same steps on the host in f64.

use crate::common::{evaluate, gpu_engine, random_data, random_parameters, tensors};
use skds::Matrix;
use skds::data::Dataset;
use skds::engine::cpu::CpuTraining;
use skds::engine::{Adam, Batches, LossSpec, Standing, State, Training, TrainingSpec};
use skds::fit::{
    Edge, EdgeKind, FORBIDDEN, Knowledge, ModelKind, PreparedFit, Settings, SolverChoice, TrainingSchedule,
    Unobserved,
};
use skds::kernel::KernelKind;
use skds::model::{Activation, Drift, IngoingScale, LinearDrift, MlpDrift, Parameters, Penalty, PenaltyKind};
use skds::objective::{Estimator, Objective};

const ADAM: Adam = Adam { learning_rate: 0.01, beta1: 0.9, beta2: 0.999, epsilon: 1e-8 };

fn spec(estimator: Estimator) -> LossSpec {
    LossSpec { objective: Objective::Skds, kernel: KernelKind::Rbf.with_bandwidth(2.5).unwrap(), estimator }
}

/// 1 for free entries, 0 for fixed ones.
fn free(like: &Parameters<f64>, targets: &Matrix<bool>) -> Parameters<f64> {
    let mut free = like.zeros_like();
    for (_, values) in free.tensors_mut() {
        values.fill(1.0);
    }
    free.mask_fixed(targets);
    free
}

/// Adam on the host: returns the loss and penalty before the last step too.
fn host_steps(
    steps: u32,
    data: &Dataset,
    spec: &LossSpec,
    parameters: &mut Parameters<f64>,
    free: &Parameters<f64>,
    (penalty, multipliers): (Option<Penalty>, Option<&Matrix<f64>>),
) -> (f64, f64) {
    let (mut mean, mut square) = (parameters.zeros_like(), parameters.zeros_like());
    let (beta1, beta2) = (ADAM.beta1, ADAM.beta2);
    let mut last = (0.0, 0.0);
    for step in 1..=steps as i32 {
        let (loss, mut gradient) = evaluate::<f64>(data, spec, parameters).unwrap();
        let charged = penalty.map_or(0.0, |penalty| {
            penalty.add_weighted_gradient(parameters, multipliers, &mut gradient).unwrap()
        });
        last = (loss, charged);
        let all = parameters.tensors_mut().into_iter().zip(gradient.tensors()).zip(free.tensors());
        for ((((_, p), g), free), ((_, m), (_, s))) in
            all.zip(mean.tensors_mut().into_iter().zip(square.tensors_mut()))
        {
            for i in 0..p.len() {
                let slope = g.values[i] * free.values[i];
                m[i] = beta1 * m[i] + (1.0 - beta1) * slope;
                s[i] = beta2 * s[i] + (1.0 - beta2) * slope * slope;
                let change =
                    (m[i] / (1.0 - beta1.powi(step))) / ((s[i] / (1.0 - beta2.powi(step))).sqrt() + 1e-8);
                p[i] -= ADAM.learning_rate * free.values[i] * change;
            }
        }
    }
    last
}

#[test]
fn steps_match_the_host_for_every_penalty() {
    let data = random_data(40, &[60, 41], 7);
    let targets = Matrix::from_fn(2, 7, |e, j| e == 1 && j == 3);
    let engine = gpu_engine();
    for activation in [None, Some(Activation::Sigmoid)] {
        for kind in [None, Some(PenaltyKind::Ingoing), Some(PenaltyKind::Outgoing), Some(PenaltyKind::Both)] {
            let penalty = kind.map(|kind| Penalty::new(kind, 0.3));
            let mut parameters = random_parameters(41, 7, 2, activation, false);
            parameters.impose_fixed(&targets);
            // The host starts from what the device starts from.
            let mut parameters: Parameters<f64> = parameters.cast::<f32>().cast();
            let free = free(&parameters, &targets);
            let spec = spec(Estimator::Linear);
            let training = TrainingSpec { loss: spec, penalty, optimiser: ADAM.into(), batches: None };
            let mut training = engine.train(&data, &training, &parameters.cast(), &free.cast()).unwrap();
            let steps = 12;
            (0..steps).for_each(|_| training.step().unwrap());
            let standing = training.standing().unwrap();
            let found: Parameters<f64> = training.state().unwrap().parameters.cast();
            let start = parameters.clone();
            let (value, penalty_value) =
                host_steps(steps, &data, &spec, &mut parameters, &free, (penalty, None));
            assert_eq!(standing.steps, steps);
            assert!((standing.loss - value).abs() <= 2e-3 * value.abs().max(1e-2), "{standing:?} {value}");
            let error = (standing.penalty - penalty_value).abs();
            assert!(error <= 1e-4 * penalty_value, "{kind:?} {standing:?} {penalty_value}");
            // A step moves an entry by up to the learning rate: compare with how far steps lead.
            let reach = ADAM.learning_rate * f64::from(steps);
            let mut moved = 0.0f64;
            for (((name, found), (_, expected)), (_, start)) in
                tensors(&found).into_iter().zip(tensors(&parameters)).zip(tensors(&start))
            {
                for i in 0..found.len() {
                    let difference = (found[i] - expected[i]).abs();
                    assert!(difference <= 0.01 * reach, "{activation:?} {kind:?} {name} {i}: {difference}");
                    moved = moved.max((found[i] - start[i]).abs());
                }
            }
            assert!(moved > 0.5 * reach, "nothing moved");
            let mut imposed = found.clone();
            imposed.impose_fixed(&targets);
            assert_eq!(imposed, found, "fixed entries moved");
        }
    }
}

/// Effects of no, half, single and triple penalty, on both devices.
#[test]
fn multiplied_penalties_match_the_host() {
    let data = random_data(50, &[60, 41], 7);
    let targets = Matrix::full(2, 7, false);
    let multipliers = Matrix::from_fn(7, 7, |j, i| [0.0, 0.5, 1.0, 3.0][(3 * j + i) % 4]);
    let engine = gpu_engine();
    for activation in [None, Some(Activation::Sigmoid)] {
        for &kind in PenaltyKind::ALL {
            let penalty = Some(Penalty::new(kind, 2.0));
            let mut parameters = random_parameters(51, 7, 2, activation, false);
            parameters.impose_fixed(&targets);
            let mut parameters: Parameters<f64> = parameters.cast::<f32>().cast();
            let free = free(&parameters, &targets);
            let (start, mask) = (parameters.cast(), free.cast());
            let spec = spec(Estimator::Linear);
            let training = TrainingSpec { loss: spec, penalty, optimiser: ADAM.into(), batches: None };
            let on_gpu = engine.train(&data, &training, &start, &mask).unwrap().weighing(&multipliers);
            let on_cpu = CpuTraining::new(&data, training, &start, &mask).unwrap();
            let on_cpu = on_cpu.weighing(multipliers.clone());
            let (mut on_gpu, mut on_cpu) = (on_gpu.unwrap(), on_cpu.unwrap());
            let steps = 12;
            let mut plain = parameters.clone();
            let known = (penalty, Some(&multipliers));
            let (_, expected) = host_steps(steps, &data, &spec, &mut parameters, &free, known);
            host_steps(steps, &data, &spec, &mut plain, &free, (penalty, None));
            let reach = ADAM.learning_rate * f64::from(steps);
            let apart = |a: &Parameters<f64>| {
                let pairs = tensors(a).into_iter().zip(tensors(&parameters));
                let differences = pairs.flat_map(|((_, a), (_, b))| {
                    a.into_iter().zip(b).map(|(a, b)| (a - b).abs()).collect::<Vec<_>>()
                });
                differences.fold(0.0f64, f64::max)
            };
            let devices: [&mut dyn Training; 2] = [&mut on_gpu, &mut on_cpu];
            for training in devices {
                (0..steps).for_each(|_| training.step().unwrap());
                let standing = training.standing().unwrap();
                assert!(
                    (standing.penalty - expected).abs() <= 1e-4 * expected,
                    "{kind} {standing:?} {expected}"
                );
                let found: Parameters<f64> = training.state().unwrap().parameters.cast();
                assert!(apart(&found) <= 0.01 * reach, "{activation:?} {kind}: {}", apart(&found));
            }
            assert!(apart(&plain) > 0.2 * reach, "{activation:?} {kind}: multipliers make no difference");
        }
    }
    let parameters = random_parameters(51, 7, 2, None, false);
    let training =
        TrainingSpec { loss: spec(Estimator::Linear), penalty: None, optimiser: ADAM.into(), batches: None };
    let infinite = Matrix::full(7, 7, f64::INFINITY);
    let on_cpu = CpuTraining::new(&data, training, &parameters.cast(), &everything(&parameters)).unwrap();
    assert!(on_cpu.weighing(infinite.clone()).is_err());
    let on_gpu = engine.train(&data, &training, &parameters.cast(), &everything(&parameters)).unwrap();
    assert!(on_gpu.weighing(&infinite).is_err());
}

#[test]
fn forbidden_effects_stay_at_exactly_0_on_both_devices() {
    let data = random_data(52, &[120, 90], 5);
    let edge = |source: &str, target: &str, kind: EdgeKind, weight: Option<f64>| Edge {
        source: source.into(),
        target: target.into(),
        kind,
        weight,
    };
    let forbidding = vec![
        edge("x1", "x0", EdgeKind::Forbidden, None),
        edge("x3", "x4", EdgeKind::Forbidden, None),
        edge("x4", "x3", EdgeKind::Required, None),
    ];
    let listing = vec![
        edge("x1", "x0", EdgeKind::Candidate, Some(2.0)),
        edge("x2", "x4", EdgeKind::Required, None),
        edge("x0", "x3", EdgeKind::Candidate, None),
    ];
    let engine = gpu_engine();
    for model in [ModelKind::Linear, ModelKind::Mlp] {
        for edges in [&forbidding, &listing] {
            let known = Knowledge::new(data.names(), edges.clone()).unwrap();
            let multipliers = known.multipliers().clone();
            let settings = Settings {
                model: Some(model),
                hidden: (model == ModelKind::Mlp).then_some(3),
                solver: Some(SolverChoice::Adam),
                steps: Some(60),
                batch: Some(32),
                learning_rate: Some(0.01),
                ..Settings::default()
            };
            let problem = PreparedFit::with_knowledge(&data, &settings, known).unwrap();
            let schedule = TrainingSchedule { report_every: 60, save_every: 60 };
            let run = |gpu| problem.train(gpu, None, schedule, &mut Unobserved).unwrap().state;
            let (on_gpu, on_cpu) = (run(Some(&engine)), run(None));
            for state in [&on_gpu, &on_cpu] {
                let (model, _) = problem.model(state).unwrap();
                let (weights, units) = match &model.parameters.drift {
                    Drift::Linear(LinearDrift { weights }) => (weights, 1),
                    Drift::Mlp(MlpDrift { hidden_weights, .. }) => (hidden_weights, 3),
                    other => unreachable!("no training of {}", other.name()),
                };
                for (unit, i) in (0..weights.rows()).flat_map(|unit| (0..5).map(move |i| (unit, i))) {
                    let forbidden = multipliers[(unit / units, i)] == FORBIDDEN;
                    if i != unit / units {
                        assert_eq!(weights[(unit, i)] == 0.0, forbidden, "{unit} {i}");
                    }
                }
            }
            for ((name, a), (_, b)) in tensors(&on_gpu.parameters.cast::<f64>())
                .into_iter()
                .zip(tensors(&on_cpu.parameters.cast::<f64>()))
            {
                assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 0.05), "{name}: {a:?} {b:?}");
            }
        }
    }
}

fn everything(parameters: &Parameters<f64>) -> Parameters<f32> {
    let shift = parameters.shift.as_ref().unwrap();
    let mut free = free(parameters, &Matrix::full(shift.rows(), shift.cols(), true));
    free.impose_fixed(&Matrix::full(shift.rows(), shift.cols(), true));
    for (_, values) in free.tensors_mut() {
        values.fill(1.0);
    }
    free.cast()
}

#[test]
fn a_step_uploads_and_reads_nothing() {
    let data = random_data(42, &[64, 64], 5);
    let parameters = random_parameters(43, 5, 2, None, false);
    let engine = gpu_engine();
    for (batches, dispatches) in
        [(None, 7 + 2), (Some(Batches { seed: 1, rows: 30, environments: 1 }), 8 + 2)]
    {
        let penalty = Some(Penalty::new(PenaltyKind::Both, 0.1));
        let spec = TrainingSpec { loss: spec(Estimator::Linear), penalty, optimiser: ADAM.into(), batches };
        let mut training = engine.train(&data, &spec, &parameters.cast(), &everything(&parameters)).unwrap();
        training.step().unwrap();
        let before = training.traffic();
        training.step().unwrap();
        let after = training.traffic();
        assert_eq!((after.uploaded, after.read_back), (before.uploaded, before.read_back));
        assert_eq!(after.dispatches - before.dispatches, dispatches);
        assert_eq!(after.submissions - before.submissions, 1);
        training.wait().unwrap();
    }
}

#[test]
fn a_step_that_is_not_finite_stops_training_and_keeps_the_state() {
    let data = random_data(44, &[30, 30], 4);
    let parameters = random_parameters(45, 4, 2, None, false);
    // An update so large that the next loss overflows.
    let adam = Adam { learning_rate: 1e25, ..ADAM };
    let spec =
        TrainingSpec { loss: spec(Estimator::U), penalty: None, optimiser: adam.into(), batches: None };
    let engine = gpu_engine();
    let mut on_gpu = engine.train(&data, &spec, &parameters.cast(), &everything(&parameters)).unwrap();
    let mut on_cpu = CpuTraining::new(&data, spec, &parameters.cast(), &everything(&parameters)).unwrap();
    on_gpu.step().unwrap();
    on_cpu.step().unwrap();
    assert_eq!(on_gpu.standing().unwrap().steps, 1);
    let good = (on_gpu.state().unwrap(), on_cpu.state().unwrap());
    for _ in 0..3 {
        on_gpu.step().unwrap();
    }
    let sentence = on_gpu.standing().unwrap_err().to_string();
    assert!(sentence.starts_with("step 2: the loss of environment 0 is not finite"), "{sentence}");
    let sentence = on_cpu.step().unwrap_err().to_string();
    assert!(sentence.starts_with("step 2: the loss of environment 0 is "), "{sentence}");
    assert_eq!((on_gpu.state().unwrap(), on_cpu.state().unwrap()), good);
}

fn run(training: &mut dyn Training, steps: u32) -> Vec<Standing> {
    (0..steps)
        .map(|_| {
            training.step().unwrap();
            training.standing().unwrap()
        })
        .collect()
}

/// The same seed draws the same batches on both: the losses follow each other step for step.
#[test]
fn batches_on_the_device_are_those_of_the_host() {
    let engine = gpu_engine();
    for (sizes, rows, environments, estimator, activation) in [
        (vec![200, 150, 170], 64, 1, Estimator::Linear, None),
        (vec![200, 31, 170, 90], 50, 3, Estimator::Linear, Some(Activation::Sigmoid)),
        (vec![80, 70], 41, 2, Estimator::U, None),
    ] {
        let data = random_data(46, &sizes, 6);
        let parameters = random_parameters(47, 6, sizes.len(), activation, false);
        let batches = Some(Batches { seed: 12_345_678_901, rows, environments });
        // A penalty that is strong enough to hold groups at 0 lets them flicker, differently on every device.
        let ingoing = Some(IngoingScale::Mean);
        let penalty = Some(Penalty { ingoing, ..Penalty::new(PenaltyKind::Both, 0.1) });
        let spec = TrainingSpec { loss: spec(estimator), penalty, optimiser: ADAM.into(), batches };
        let free = everything(&parameters);
        let mut on_gpu = engine.train(&data, &spec, &parameters.cast(), &free).unwrap();
        let mut on_cpu = CpuTraining::new(&data, spec, &parameters.cast(), &free).unwrap();
        for (gpu, cpu) in run(&mut on_gpu, 200).iter().zip(run(&mut on_cpu, 200)) {
            let scale = cpu.loss.abs().max(0.1);
            assert!((gpu.loss - cpu.loss).abs() <= 1e-3 * scale, "{estimator} {gpu:?} {cpu:?}");
            assert!((gpu.penalty - cpu.penalty).abs() <= 1e-3 * cpu.penalty, "{gpu:?} {cpu:?}");
        }
    }
}

/// A training that is taken up again goes on to the same bits.
#[test]
fn a_restored_state_goes_on_to_the_same_bits() {
    let data = random_data(48, &[90, 70, 110], 5);
    let parameters = random_parameters(49, 5, 3, None, false);
    let batches = Some(Batches { seed: 5, rows: 32, environments: 1 });
    let spec = TrainingSpec { loss: spec(Estimator::Linear), penalty: None, optimiser: ADAM.into(), batches };
    let free = everything(&parameters);
    let engine = gpu_engine();
    let start = || -> [Box<dyn Training>; 2] {
        [
            Box::new(engine.train(&data, &spec, &parameters.cast(), &free).unwrap()),
            Box::new(CpuTraining::new(&data, spec, &parameters.cast(), &free).unwrap()),
        ]
    };
    for (mut whole, mut part) in start().into_iter().zip(start()) {
        run(whole.as_mut(), 30);
        run(part.as_mut(), 11);
        let state: State = part.state().unwrap();
        assert_eq!(state.steps, 11);
        // Led astray, then brought back.
        run(part.as_mut(), 3);
        part.restore(&state).unwrap();
        run(part.as_mut(), 19);
        assert_eq!(part.state().unwrap(), whole.state().unwrap());
    }
}
