//! `skds fit --method`: rival methods are fitted, saved, drawn and evaluated like any model.

use crate::common::random_data;
use skds::Matrix;
use skds::data::Dataset;
use skds::model::{LawKind, Model};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn skds(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds")).args(args).output().unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn refused(args: &[&str]) -> String {
    let output = skds(args);
    let sentence = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{sentence}");
    assert!(!Path::new(args.last().unwrap()).exists(), "{args:?}");
    sentence
}

/// Data of a linear system with interventions on three of its variables, and on the others.
fn systems(folder: &Path) -> (PathBuf, PathBuf) {
    let out = folder.join("system");
    let settings = ["--dim", "5", "--rows", "300", "--train-envs", "3", "--test-envs", "2", "--edges", "2"];
    said(&skds(&[&["simulate", "scm", "--seed", "4", "-o", out.to_str().unwrap()], &settings[..]].concat()));
    (out.join("train.npz"), out.join("test.npz"))
}

#[test]
fn every_method_is_a_model_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let (train, test) = systems(folder.path());
    let (train, test) = (train.to_str().unwrap(), test.to_str().unwrap());
    for (method, label, more) in [
        ("llc", "LLC (llc)", &["--lambda", "0.1"][..]),
        ("gies", "GIES (gies)", &[]),
        ("igsp", "IGSP (igsp)", &["--alpha", "0.01"]),
        ("dcdi", "DCDI-G (dcdi)", &["--steps", "3000", "--layers", "2"]),
        ("nodags", "NODAGS (nodags)", &["--epochs", "5"]),
    ] {
        let path = folder.path().join(format!("{method}.safetensors"));
        let fit = |path: &Path| {
            let args = ["fit", train, "--method", method, "--seed", "3", "-o", path.to_str().unwrap()];
            said(&skds(&[&args[..], more].concat()))
        };
        let report = fit(&path);
        assert!(report.starts_with(label), "{report}");
        assert!(
            report.contains("The effects of 3 of 5 variables are supported by an intervention"),
            "{report}"
        );
        let model = Model::read(&path).unwrap();
        assert_eq!((model.law, model.settings["method"].as_str()), (LawKind::Structural, Some(method)));
        // The same seed gives the same bytes.
        let again = folder.path().join("again.safetensors");
        fit(&again);
        assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&again).unwrap(), "{method}");
        let file = path.to_str().unwrap();
        let effects = said(&skds(&["graph", file, "--json"]));
        assert!(effects.contains("\"source\""), "{method}: {effects}");
        let evaluation = said(&skds(&["evaluate", file, test, "--from", train]));
        assert!(evaluation.contains("0 of 2 predictions are unstable"), "{method}: {evaluation}");
        assert!(evaluation.contains("floor: no effect") && evaluation.contains("anchored"), "{evaluation}");
        let drawn = said(&skds(&["sample", file, "--set", "x0=2", "-n", "2000"]));
        let mean = drawn.lines().find(|line| line.starts_with("x0")).unwrap();
        let mean: f64 = mean.split_whitespace().nth(1).unwrap().parse().unwrap();
        // The spread of a variable is a few units: standard errors of 2000 samples.
        assert!((mean - 2.0).abs() < 0.3, "{method}: {drawn}");
    }
}

#[test]
fn a_file_of_settings_names_a_method_too() {
    let folder = tempfile::tempdir().unwrap();
    let (train, _) = systems(folder.path());
    let config = folder.path().join("fit.toml");
    std::fs::write(&config, "method = \"igsp\"\nalpha = 0.01\n").unwrap();
    let write = |name: &str, args: &[&str]| {
        let path = folder.path().join(name);
        said(&skds(&[&["fit", train.to_str().unwrap(), "-o", path.to_str().unwrap()], args].concat()));
        std::fs::read(path).unwrap()
    };
    let by_file = write("a.safetensors", &["--config", config.to_str().unwrap()]);
    assert_eq!(by_file, write("b.safetensors", &["--method", "igsp", "--alpha", "0.01"]));
}

#[test]
fn what_a_method_does_not_know_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (train, _) = systems(folder.path());
    let model = folder.path().join("model.safetensors");
    let edges = folder.path().join("edges.csv");
    std::fs::write(&edges, "source,target,kind\nx0,x1,forbidden\n").unwrap();
    let edges = edges.to_str().unwrap();
    let fit = |more: &[&str]| {
        refused(&[&["fit", train.to_str().unwrap()], more, &["-o", model.to_str().unwrap()]].concat())
    };
    for (args, piece) in [
        (&["--method", "gies", "--bandwidth", "3"][..], "bandwidth is given with the method gies"),
        (
            &["--method", "gies", "--layers", "2"],
            "layers is given with the method gies, expected only lambda for it",
        ),
        (&["--method", "igsp", "--alpha", "2"], "alpha is 2"),
        (&["--method", "llc", "--lambda", "-1"], "lambda is -1"),
        (&["--method", "dcdi", "--steps", "1"], "steps is 1"),
        (&["--method", "nodags", "--epochs", "0"], "epochs is 0"),
        (&["--alpha", "0.1"], "alpha is given without a method"),
        (&["--method", "gies", "--bootstrap", "30"], "--bootstrap is given with --method"),
        (&["--method", "gies", "--edges", edges], "known edges are given with the method gies"),
        (&["--method", "gies", "--targets", "unknown"], "targets are unknown with the method gies"),
        (&["--method", "pc"], "'pc'"),
    ] {
        let sentence = fit(args);
        assert!(sentence.contains(piece), "{args:?}: {sentence}");
    }
}

#[test]
fn data_without_interventions_give_a_model_or_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let data: Dataset = random_data(9, &[80], 3).with_targets(Matrix::full(1, 3, false)).unwrap();
    let train = folder.path().join("train.npz");
    data.write(&train).unwrap();
    for method in ["llc", "gies", "igsp", "dcdi", "nodags"] {
        let model = folder.path().join(format!("{method}.safetensors"));
        let mut args =
            vec!["fit", train.to_str().unwrap(), "--method", method, "-o", model.to_str().unwrap()];
        match method {
            "dcdi" => args.extend(["--steps", "1000"]),
            "nodags" => args.extend(["--epochs", "2"]),
            _ => {}
        }
        let output = skds(&args);
        let sentence = String::from_utf8(output.stderr).unwrap();
        match output.status.code() {
            Some(0) => assert!(Model::read(&model).is_ok(), "{method}"),
            Some(2) => assert!(sentence.contains("expected") && !model.exists(), "{method}: {sentence}"),
            other => panic!("{method}: {other:?} {sentence}"),
        }
    }
}
