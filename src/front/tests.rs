use super::{Do, Fit, Options};
use crate::data::Dataset;
use crate::fit::Unfinished;
use crate::fit::{Edge, EdgeKind, SolverChoice};
use crate::model::{Drift, Model, Noise, Parameters};
use crate::{Error, Matrix, Progress};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// x0 drives x1: dX = W X dt + dB.
fn chain() -> Model {
    Model::new(Parameters {
        drift: Drift::linear(Matrix::from_rows(2, 2, vec![-1.0, 0.0, 0.5, -1.0])),
        biases: vec![0.0; 2],
        noise: Noise::Diagonal { log_noise: vec![0.0; 2] },
        shift: None,
        log_scale: None,
    })
}

/// The chain at rest, and with x0 pushed.
fn data() -> Dataset {
    let draw = |action: &Do, seed| {
        chain().sample_with(400, action, &Options::new().seed(seed)).unwrap().rows().clone()
    };
    Dataset::from_environments(vec![draw(&Do::nothing(), 1), draw(&Do::shift("x0", 2.0), 2)])
        .unwrap()
        .with_targets(Matrix::from_rows(2, 2, vec![false, false, true, false]))
        .unwrap()
}

#[test]
fn a_prediction_moves_observed_rows_by_what_the_model_says() {
    let data = Dataset::from_environments(vec![Matrix::from_rows(2, 2, vec![0.0, 0.0, 2.0, 4.0])]).unwrap();
    let prediction = chain().predict(&data, &Do::set("x0", 3.0)).unwrap();
    for (found, expected) in prediction.rows().as_slice().iter().zip([2.0, 1.0, 4.0, 5.0]) {
        assert!((found - expected).abs() < 1e-12, "{prediction:?}");
    }
    assert!((prediction.mean("x1").unwrap() - 3.0).abs() < 1e-12);
    assert!((prediction.change("x0").unwrap() - 2.0).abs() < 1e-12);
    assert_eq!(prediction.means().len(), 2);
    let (low, high) = prediction.interval("x1", 0.5).unwrap();
    assert!((low - 2.0).abs() < 1e-12 && (high - 4.0).abs() < 1e-12, "{low} {high}");
    for share in [0.0, 1.0, f64::NAN] {
        assert!(prediction.interval("x1", share).unwrap_err().to_string().contains("between 0 and 1"));
    }
    let sentence = prediction.mean("x2").unwrap_err().to_string();
    assert_eq!(sentence, "unknown variable 'x2', expected one of x0, x1");
}

#[test]
fn samples_follow_the_law_and_the_seed() {
    let both = Do::shift("x0", 1.0).and(Do::scale("x1", 2.0));
    let options = Options::new().seed(3);
    let samples = chain().sample_with(20_000, &both, &options).unwrap();
    assert_eq!(samples, chain().sample_with(20_000, &both, &options).unwrap());
    assert_ne!(samples, chain().sample_with(20_000, &both, &Options::new().seed(4)).unwrap());
    // The mean solves W m + shift = 0.
    assert!((samples.mean("x0").unwrap() - 1.0).abs() < 0.03);
    assert!((samples.mean("x1").unwrap() - 0.5).abs() < 0.05);
    assert!(samples.change("x0").unwrap_err().to_string().contains("did not start from observed rows"));
    let stopped = Arc::new(Progress::default());
    stopped.stop();
    let result = chain().sample_with(10, &Do::nothing(), &Options::new().progress(stopped));
    assert!(matches!(result, Err(Error::Stopped)), "{result:?}");
}

#[test]
fn a_fit_reads_as_it_is_meant_and_is_the_same_as_the_command_lines() {
    let data = data();
    let fitted = Fit::new().lambda(0.01).bandwidth(3.0).bootstrap(20).fit(&data).unwrap();
    assert!(fitted.intervals.is_some() && fitted.tuning.is_none() && !fitted.findings().is_empty());
    let effect = fitted.effects().unwrap().effects()[0];
    assert_eq!((effect.source, effect.target), (0, 1));
    let never = Edge { source: "x0".into(), target: "x1".into(), kind: EdgeKind::Forbidden, weight: None };
    let without = Fit::new().lambda(0.01).edges([never]).fit(&data).unwrap().into_model();
    assert!(without.effects().unwrap().effects().iter().all(|effect| effect.source == 1));
    let test = Dataset::from_environments(vec![data.environment(1)])
        .unwrap()
        .with_targets(Matrix::from_rows(1, 2, vec![true, false]))
        .unwrap();
    let evaluation = fitted.evaluate_with(&test, Some(&data), &Options::new()).unwrap();
    assert!(evaluation.median.w2.is_finite() && evaluation.floors.is_some());
    assert_eq!(fitted.evaluate(&test).unwrap().median, evaluation.median);
}

#[test]
fn files_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    chain().save(at("model.safetensors")).unwrap();
    assert_eq!(Model::read(at("model.safetensors")).unwrap().parameters, chain().parameters);
    let samples = chain().sample(30, &Do::nothing()).unwrap();
    samples.save(at("samples.npz")).unwrap();
    let read = crate::data::Dataset::read(at("samples.npz")).unwrap();
    assert_eq!(read.samples(), samples.rows());
}

#[test]
fn progress_is_told_and_a_listener_can_stop_a_fit() {
    let heard = Arc::new(AtomicU64::new(0));
    let listener = {
        let heard = heard.clone();
        move |at: &super::FitProgress<'_>| {
            assert!(at.done <= at.total);
            heard.fetch_add(1, Ordering::Relaxed);
        }
    };
    Fit::new().lambda(0.1).on_progress(listener.clone()).fit(&data()).unwrap();
    assert!(heard.load(Ordering::Relaxed) >= 1);
    let steps = || Fit::new().solver(SolverChoice::Adam).steps(400).batch(64);
    heard.store(0, Ordering::Relaxed);
    steps().on_progress(listener).fit(&data()).unwrap();
    assert_eq!(heard.load(Ordering::Relaxed), 200);
    let result = steps()
        .on_progress(|at| {
            if at.done == 4 {
                at.stop()
            }
        })
        .fit(&data());
    assert!(matches!(result, Err(Error::Stopped)));
    let sentence = steps().bootstrap(3).fit(&data()).unwrap_err().to_string();
    assert_eq!(sentence, "resamples are given with the solver adam, expected an exact solver");
}

#[test]
fn a_fit_stops_when_somebody_else_asks_for_it() {
    // Between two reports, too: a training looks at every step.
    let asked = Arc::new(Progress::default());
    asked.stop();
    let steps = Fit::new().solver(SolverChoice::Adam).steps(2_000_000_000).batch(8);
    assert!(matches!(steps.stop_with(asked.clone()).fit(&data()), Err(Error::Stopped)));
    let resumed = Fit::new().lambda(0.1).keep_beside("model.safetensors", Unfinished::Resume);
    let sentence = resumed.fit(&data()).unwrap_err().to_string();
    assert!(sentence.contains("an exact solver, which keeps no checkpoints"), "{sentence}");
}
