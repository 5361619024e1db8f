//! Steps that never leave the device, against the same steps on the host in f64.

mod common;

use common::{evaluate, gpu_engine, random_data, random_parameters, tensors};
use skds::Matrix;
use skds::data::Dataset;
use skds::engine::LossSpec;
use skds::engine::gpu::Adam;
use skds::kernel::KernelKind;
use skds::model::{Activation, Parameters, Penalty, PenaltyKind};
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
    penalty: Option<Penalty>,
) -> (f64, f64) {
    let (mut mean, mut square) = (parameters.zeros_like(), parameters.zeros_like());
    let (beta1, beta2) = (f64::from(ADAM.beta1), f64::from(ADAM.beta2));
    let mut last = (0.0, 0.0);
    for step in 1..=steps as i32 {
        let (loss, mut gradient) = evaluate::<f64>(data, spec, parameters).unwrap();
        last = (loss, penalty.map_or(0.0, |penalty| penalty.add_gradient(parameters, &mut gradient)));
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
                p[i] -= f64::from(ADAM.learning_rate) * free.values[i] * change;
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
            let penalty = kind.map(|kind| Penalty { kind, lambda: 0.3 });
            let mut parameters = random_parameters(41, 7, 2, activation, false);
            parameters.impose_fixed(&targets);
            // The host starts from what the device starts from.
            let mut parameters: Parameters<f64> = parameters.cast::<f32>().cast();
            let free = free(&parameters, &targets);
            let spec = spec(Estimator::Linear);
            let mut loss = engine.load_gpu(&data, &spec).unwrap();
            let mut training = loss.train(&parameters, &free, penalty, ADAM).unwrap();
            let steps = 12;
            (0..steps).for_each(|_| training.step().unwrap());
            let standing = training.standing().unwrap();
            let found = training.parameters().unwrap();
            let start = parameters.clone();
            let (value, penalty_value) = host_steps(steps, &data, &spec, &mut parameters, &free, penalty);
            assert_eq!(standing.steps, steps);
            assert!((standing.loss - value).abs() <= 2e-3 * value.abs().max(1e-2), "{standing:?} {value}");
            let error = (standing.penalty - penalty_value).abs();
            assert!(error <= 1e-4 * penalty_value, "{kind:?} {standing:?} {penalty_value}");
            // A step moves an entry by up to the learning rate: compare with how far steps lead.
            let reach = f64::from(ADAM.learning_rate) * f64::from(steps);
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

#[test]
fn a_step_uploads_and_reads_nothing() {
    let data = random_data(42, &[64, 64], 5);
    let parameters = random_parameters(43, 5, 2, None, false);
    let everything = free(&parameters, &Matrix::full(2, 5, true));
    let engine = gpu_engine();
    let mut loss = engine.load_gpu(&data, &spec(Estimator::Linear)).unwrap();
    let before = {
        let penalty = Some(Penalty { kind: PenaltyKind::Both, lambda: 0.1 });
        let mut training = loss.train(&parameters, &everything, penalty, ADAM).unwrap();
        training.step().unwrap();
        let before = training.traffic();
        training.step().unwrap();
        let after = training.traffic();
        assert_eq!((after.uploaded, after.read_back), (before.uploaded, before.read_back));
        assert_eq!(after.dispatches - before.dispatches, 7 + 4);
        after
    };
    // Afterwards the loss is again a function of the parameters that it is given.
    use skds::engine::Loss;
    let value = loss.evaluate(&parameters, None).unwrap();
    let (expected, _) = evaluate::<f64>(&data, &spec(Estimator::Linear), &parameters).unwrap();
    assert!((value - expected).abs() < 1e-3 * expected.abs());
    assert!(loss.traffic().uploaded > before.uploaded);
}

#[test]
fn a_step_that_is_not_finite_stops_training_and_keeps_the_parameters() {
    let data = random_data(44, &[30, 30], 4);
    let parameters = random_parameters(45, 4, 2, None, false);
    let everything = free(&parameters, &Matrix::full(2, 4, true));
    // An update so large that the next loss overflows.
    let adam = Adam { learning_rate: 1e25, ..ADAM };
    let engine = gpu_engine();
    let mut loss = engine.load_gpu(&data, &spec(Estimator::U)).unwrap();
    let mut training = loss.train(&parameters, &everything, None, adam).unwrap();
    training.step().unwrap();
    assert_eq!(training.standing().unwrap().steps, 1);
    let good = training.parameters().unwrap();
    for _ in 0..3 {
        training.step().unwrap();
    }
    let sentence = training.standing().unwrap_err().to_string();
    assert!(sentence.starts_with("step 2: the loss of environment 0 is not finite"), "{sentence}");
    assert_eq!(training.parameters().unwrap(), good);
}
