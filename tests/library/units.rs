//! Shifting and scaling columns changes nothing but units: over solvers, objectives, kernels and models.

use crate::common::random_data;
use skds::Matrix;
use skds::data::Dataset;
use skds::fit::{Settings, fit};
use skds::graph::Graph;
use skds::kernel::KernelKind;
use skds::model::Model;
use skds::sample::{Intervention, Method, SampleSettings, stationary_samples};

const MOVED: [f64; 3] = [1000.0, -3.0, 0.02];
const SCALED: [f64; 3] = [1000.0, 1e-3, 7.0];

fn given() -> Dataset {
    let x = random_data(7, &[120, 90], 3);
    // Correlated, so that there are effects to find.
    let mixed = |e: usize| {
        let x = x.environment(e);
        Matrix::from_fn(x.rows(), 3, |i, j| match j {
            0 => x[(i, 0)],
            j => 0.9 * x[(i, j - 1)] + 0.5 * x[(i, j)] + f64::from(u8::from(e == 1 && j == 1)),
        })
    };
    let targets = Matrix::from_fn(2, 3, |e, j| e == 1 && j == 1);
    Dataset::from_environments(vec![mixed(0), mixed(1)]).unwrap().with_targets(targets).unwrap()
}

fn in_other_units(data: &Dataset) -> Dataset {
    let environments = (0..data.environments()).map(|e| {
        let x = data.environment(e);
        Matrix::from_fn(x.rows(), 3, |i, j| MOVED[j] + SCALED[j] * x[(i, j)])
    });
    let moved = Dataset::from_environments(environments.collect()).unwrap();
    moved.with_targets(data.targets().clone()).unwrap()
}

/// The same with an intervention on each variable: enough to leave them out.
fn given_more() -> Dataset {
    let x = random_data(8, &[120, 90, 90, 90], 3);
    let mixed = |e: usize| {
        let x = x.environment(e);
        let own = |i: usize, j: usize| {
            let mean = (0..x.rows()).map(|i| x[(i, j)]).sum::<f64>() / x.rows() as f64;
            x[(i, j)] - mean + 2.0 * f64::from(u8::from(e == j + 1))
        };
        Matrix::from_fn(x.rows(), 3, |i, j| {
            let first = own(i, 0);
            let second = 0.6 * first + own(i, 1);
            [first, second, own(i, 2) - 0.5 * second][j]
        })
    };
    let targets = Matrix::from_fn(4, 3, |e, j| e == j + 1);
    Dataset::from_environments((0..4).map(mixed).collect()).unwrap().with_targets(targets).unwrap()
}

fn near(found: f64, expected: f64, tolerance: f64, what: &str) {
    let error = (found - expected).abs();
    assert!(error <= tolerance * (1.0 + expected.abs()), "{what}: found {found}, expected {expected}");
}

/// The same effects, and the same samples in other units, under the second environment's intervention.
fn same_but_for_units(first: &Model, second: &Model, tolerance: f64, what: &str) {
    assert_eq!((first.law, first.members.len()), (second.law, second.members.len()), "{what}");
    for (a, b) in first.members.iter().zip(&second.members) {
        assert_eq!(a.law, b.law, "{what}");
        near(b.weight, a.weight, tolerance, &format!("{what}: weight of a member"));
    }
    let (a, b) = (Graph::of(first).unwrap(), Graph::of(second).unwrap());
    let (a, b) = (a.standard_matrix(), b.standard_matrix());
    for (at, (a, b)) in a.as_slice().iter().zip(b.as_slice()).enumerate() {
        near(*b, *a, tolerance, &format!("{what}: effect {at}"));
    }
    let euler = skds::sample::EulerSettings { burn_in: 200, thin: 10, ..Default::default() };
    let settings = SampleSettings { method: Method::Auto, euler, ..SampleSettings::default() };
    let draw = |model: &Model| {
        let intervention = Intervention::of_environment(model, 1).unwrap();
        stationary_samples(model, &intervention, 20, &settings, 3).unwrap()
    };
    let (x, y) = (draw(first), draw(second));
    for i in 0..x.rows() {
        for j in 0..3 {
            near(
                (y[(i, j)] - MOVED[j]) / SCALED[j],
                x[(i, j)],
                10.0 * tolerance,
                &format!("{what}: sample {i}, {j}"),
            );
        }
    }
}

fn check(text: &str, tolerance: f64) {
    check_on(given(), text, tolerance);
}

fn check_on(data: Dataset, text: &str, tolerance: f64) {
    let settings: Settings = serde_json::from_str(text).unwrap();
    let (first, _) = fit(&data, &settings).unwrap_or_else(|e| panic!("{text}: {e}"));
    let (second, _) = fit(&in_other_units(&data), &settings).unwrap_or_else(|e| panic!("{text}: {e}"));
    same_but_for_units(&first, &second, tolerance, text);
}

#[test]
fn exact_and_tuned_fits_are_the_same_in_all_units() {
    check("{}", 1e-5);
    for &kernel in KernelKind::ALL {
        check(&format!(r#"{{"kernel": "{kernel}", "lambda": 0.01}}"#), 1e-5);
        check(
            &format!(r#"{{"kernel": "{kernel}", "lambda": 0.01, "estimator": "u", "penalty": "ingoing"}}"#),
            1e-5,
        );
    }
    check(r#"{"lambda": 0.01, "bandwidth": 2, "learn_scale": true}"#, 1e-5);
    check(r#"{"lambda": 0.01, "targets": "unknown"}"#, 1e-5);
}

#[test]
fn fits_by_moments_and_the_choice_are_the_same_in_all_units() {
    for text in [
        "{}",
        r#"{"objective": "skds"}"#,
        r#"{"law": "structural"}"#,
        r#"{"objective": "kds", "lambda": 0.05}"#,
        r#"{"objective": "kds", "lambda": 0.05, "penalty": "both", "learn_scale": true}"#,
        r#"{"law": "structural", "lambda": 0.05}"#,
    ] {
        check_on(given_more(), text, 1e-4);
    }
    let (model, _) = fit(&given_more(), &Settings::default()).unwrap();
    assert!(!model.settings["chosen"].as_array().unwrap().is_empty());
}

#[test]
fn fits_of_given_functions_are_the_same_in_all_units() {
    for features in ["polynomial:1", "polynomial:2", "rbf:3"] {
        check(&format!(r#"{{"model": "basis", "features": "{features}", "lambda": 0.05}}"#), 1e-4);
    }
}

#[test]
fn fits_by_adam_are_the_same_in_all_units() {
    for objective in ["skds", "kds"] {
        for &kernel in KernelKind::ALL {
            for model in ["linear", "mlp"] {
                let text = format!(
                    r#"{{"solver": "adam", "objective": "{objective}", "kernel": "{kernel}", "model": "{model}",
                         "steps": 60, "batch": 32, "learning_rate": 0.01}}"#
                );
                // Adam trains in single precision: rounding of the standardised samples is all that differs.
                check(&text, 2e-3);
            }
        }
    }
}

#[test]
fn a_fit_that_takes_the_data_as_it_is_is_not() {
    let settings = Settings { lambda: Some(0.01), standardize: Some(false), ..Settings::default() };
    let data = given();
    let (first, _) = fit(&data, &settings).unwrap();
    let (second, _) = fit(&in_other_units(&data), &settings).unwrap();
    assert!(first.reference.is_none());
    let sizes = |model: &Model| Graph::of(model).unwrap().effects().len();
    assert_ne!(sizes(&first), sizes(&second));
}
