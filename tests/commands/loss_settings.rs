//! `skds loss` of a fitted model: by the settings and in the units of its fit, unless options say otherwise.

use crate::common::random_data;
use serde_json::Value;
use skds::Matrix;
use skds::data::{Dataset, Standardization};
use skds::model::{Model, Parameters};
use std::path::Path;
use std::process::{Command, Output};

fn skds(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds")).args(args).output().unwrap()
}

fn printed(args: &[&str]) -> String {
    let output = skds(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(args: &[&str]) -> Value {
    let text = printed(&[args, &["--json"]].concat());
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

/// Data far from standard units.
fn data(folder: &Path) -> Dataset {
    let targets = Matrix::from_fn(3, 3, |e, j| e > 0 && j == e - 1);
    let standard = random_data(11, &[70, 60, 60], 3);
    let environments = (0..3).map(|e| {
        let rows = standard.environment(e);
        Matrix::from_fn(rows.rows(), 3, |i, j| 40.0 + [0.1, 5.0, 30.0][j] * rows[(i, j)])
    });
    let data = Dataset::from_environments(environments.collect()).unwrap().with_targets(targets).unwrap();
    data.write(folder.join("train.npz")).unwrap();
    data
}

#[test]
fn the_loss_of_a_fitted_model_is_that_of_its_fit() {
    let folder = tempfile::tempdir().unwrap();
    data(folder.path());
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (train, path) = (at("train.npz"), at("model.safetensors"));
    let settings = ["--lambda", "0.05", "--kernel", "imq-plus", "--estimator", "v", "--no-stabilize"];
    let fit = json(&[&["fit", &train, "-o", &path, "--device", "cpu"], &settings[..]].concat());
    let loss = ["loss", &train, "--params", &path, "--precision", "f64", "--device", "cpu"];
    let found = json(&loss);
    let (found_loss, expected) = (found["loss"].as_f64().unwrap(), fit["loss"].as_f64().unwrap());
    assert!((found_loss - expected).abs() <= 1e-9 * (1.0 + expected.abs()), "{found_loss} {expected}");
    assert_eq!(found["kernel"], "imq-plus");
    assert_eq!(found["estimator"], "v");
    assert_eq!(found["standardized"], true);
    assert_eq!(found["from_model"], serde_json::json!(["objective", "kernel", "bandwidth", "estimator"]));
    let text = printed(&loss);
    assert!(
        text.contains("\n  settings   objective, kernel, bandwidth and estimator from the model's fit\n"),
        "{text}"
    );
    assert!(text.contains("\n  units      standard deviations, as in the model's fit\n"), "{text}");
}

#[test]
fn an_option_wins_over_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let data = data(folder.path());
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (train, path) = (at("train.npz"), at("model.safetensors"));
    printed(&["fit", &train, "-o", &path, "--bandwidth", "1.5", "--lambda", "0.05", "--device", "cpu"]);
    let loss = ["loss", &train, "--params", &path, "--precision", "f64", "--device", "cpu"];
    let with = |more: &[&str]| json(&[&loss[..], more].concat());
    let found = with(&["--objective", "kds", "--bandwidth", "2"]);
    assert_eq!((found["objective"].as_str(), found["bandwidth"].as_f64()), (Some("kds"), Some(2.0)));
    assert_eq!(found["from_model"], serde_json::json!(["kernel", "estimator"]));
    let all = ["--objective", "skds", "--kernel", "rbf", "--bandwidth", "2", "--estimator", "u"];
    let found = with(&all);
    assert!(found.get("from_model").is_none(), "{found}");
    // The same by hand: parameters without a history, and data in standard units.
    let model = Model::read(Path::new(&path)).unwrap();
    let units = Standardization::of(&data);
    units.apply(&data).write(folder.path().join("standard.npz")).unwrap();
    model.in_standard_units().parameters.write(&folder.path().join("bare.safetensors")).unwrap();
    let (standard, bare) = (at("standard.npz"), at("bare.safetensors"));
    let by_hand = |data: &str, parameters: &str, more: &[&str]| {
        let common = ["loss", data, "--params", parameters, "--precision", "f64", "--device", "cpu"];
        json(&[&common[..], more].concat())
    };
    let close = |a: &Value, b: &Value| {
        let (a, b) = (a["loss"].as_f64().unwrap(), b["loss"].as_f64().unwrap());
        assert!((a - b).abs() <= 1e-9 * (1.0 + b.abs()), "{a} {b}");
    };
    let expected = by_hand(&standard, &bare, &all);
    assert!(expected.get("standardized").is_none());
    close(&found, &expected);
    // On the numbers as they are, by the parameters as they are, as for parameters alone.
    let own = at("own.safetensors");
    model.parameters.write(Path::new(&own)).unwrap();
    let as_is = with(&[&all[..], &["--no-standardize"]].concat());
    close(&as_is, &by_hand(&train, &own, &all));
    assert_ne!(as_is["loss"], found["loss"]);
}

#[test]
fn the_gradient_is_by_the_parameters_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    data(folder.path());
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (train, path, grad) = (at("train.npz"), at("model.safetensors"), at("gradient.safetensors"));
    printed(&["fit", &train, "-o", &path, "--lambda", "0.05", "--device", "cpu"]);
    let loss = |path: &str| {
        let args = ["loss", &train, "--params", path, "--precision", "f64", "--device", "cpu"];
        json(&[&args[..], &["--grad", &grad]].concat())["loss"].as_f64().unwrap()
    };
    loss(&path);
    let gradient = Parameters::read(Path::new(&grad)).unwrap();
    let model = Model::read(Path::new(&path)).unwrap();
    let moved = |j: usize, by: f64| {
        let mut moved = model.clone();
        moved.parameters.biases[j] += by;
        let path = at("moved.safetensors");
        moved.save(Path::new(&path)).unwrap();
        loss(&path)
    };
    for (j, step) in [(0, 1e-5), (2, 1e-2)] {
        let slope = (moved(j, step) - moved(j, -step)) / (2.0 * step);
        let found = gradient.biases[j];
        assert!((found - slope).abs() <= 1e-5 * (slope.abs() + found.abs()) + 1e-9, "{j}: {found} {slope}");
    }
}
