//! `skds sample` as a person runs it: samples, files, and one clear sentence for every wrong input.

use skds::Matrix;
use skds::data::{Dataset, Standardization};
use skds::model::{Activation, Drift, Model, Noise, Parameters};
use std::path::Path;
use std::process::{Command, Output};

fn skds(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds")).arg("sample").args(args).output().unwrap()
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = skds(&[args, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Fails with this exit code, nothing on standard output, and one sentence that contains every given piece.
fn refused(code: i32, args: &[&str], pieces: &[&str]) {
    let output = skds(args);
    let sentence = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {sentence}");
    assert!(output.stdout.is_empty(), "{args:?}");
    assert!(sentence.starts_with("error: ") && !sentence.contains("panicked"), "{sentence}");
    for piece in pieces {
        assert!(sentence.contains(piece), "{args:?} should say '{piece}': {sentence}");
    }
}

/// dX = W X dt + dB in standard units, with one environment that shifts `γ`.
fn linear(decay: f64) -> Model {
    let parameters = Parameters {
        drift: Drift::Linear { weights: Matrix::from_rows(2, 2, vec![-1.0, 0.0, 0.5, decay]) },
        biases: vec![0.0; 2],
        noise: Noise::Diagonal { log_noise: vec![0.5 * 2.0f64.ln(); 2] },
        shift: Some(Matrix::from_rows(2, 2, vec![0.0, 0.0, 0.0, 3.0])),
        log_scale: None,
    };
    Model {
        names: vec!["gene a".into(), "γ".into()],
        standardization: Some(Standardization { mean: vec![10.0, 0.0], scale: vec![2.0, 1.0] }),
        ..Model::new(parameters)
    }
}

fn mlp() -> Model {
    let entry = |i: usize, j: usize| ((3 * i + 5 * j) % 7) as f64 / 7.0 - 0.4;
    Model::new(Parameters {
        drift: Drift::Mlp {
            activation: Activation::Tanh,
            hidden_weights: Matrix::from_fn(6, 3, entry),
            hidden_biases: Matrix::from_fn(3, 2, entry),
            output_weights: Matrix::from_fn(3, 2, entry),
        },
        biases: vec![0.2, 0.0, -0.3],
        noise: Noise::Diagonal { log_noise: vec![-0.5; 3] },
        shift: None,
        log_scale: None,
    })
}

fn write(folder: &Path, name: &str, model: &Model) -> String {
    let path = folder.join(name);
    model.write(&path).unwrap();
    path.display().to_string()
}

fn number(report: &serde_json::Value, variable: usize, what: &str) -> f64 {
    report["variables"][variable][what].as_f64().unwrap()
}

#[test]
fn the_report_and_the_table_describe_the_law() {
    let folder = tempfile::tempdir().unwrap();
    let model = write(folder.path(), "model.safetensors", &linear(-1.0));
    // In standard units `gene a` is N(0, 1).
    let report = json(&[&model, "-n", "40000"]);
    assert_eq!(
        (&report["n"], &report["method"], &report["seed"]),
        (&40_000.into(), &"exact".into(), &0.into())
    );
    assert_eq!(report["variables"][1]["name"], "γ");
    assert!(
        (number(&report, 0, "mean") - 10.0).abs() < 0.06 && (number(&report, 0, "sd") - 2.0).abs() < 0.06
    );
    assert!(report["seconds"].as_f64().unwrap() > 0.0);
    let euler = json(&[&model, "-n", "20000", "--method", "euler", "--thin", "200", "--burn-in", "500"]);
    assert_eq!(euler["method"], "euler");
    for j in 0..2 {
        for what in ["mean", "sd"] {
            assert!((number(&euler, j, what) - number(&report, j, what)).abs() < 0.15);
        }
    }
    let output = skds(&[&model]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("1000 samples of 2 variables, method exact on cpu, "), "{text}");
    assert!(text.contains("variable  ") && text.contains("gene a  ") && text.contains("\nγ  "), "{text}");
    assert!(output.stderr.is_empty());
}

#[test]
fn interventions_move_what_they_name() {
    let folder = tempfile::tempdir().unwrap();
    let model = write(folder.path(), "model.safetensors", &linear(-1.0));
    let run = |args: &[&str]| json(&[&[model.as_str(), "-n", "20000"], args].concat());
    let (plain, env) = (run(&[]), run(&["--env", "1"]));
    assert!((number(&env, 1, "mean") - number(&plain, 1, "mean") - 3.0).abs() < 1e-9);
    assert!((number(&env, 0, "mean") - number(&plain, 0, "mean")).abs() < 1e-9);
    // On top of the environment; in standard units, so twice as much in the data's.
    let both = run(&["--env", "1", "--shift", "γ=-3", "--shift", "gene a=1"]);
    assert!((number(&both, 0, "mean") - number(&plain, 0, "mean") - 2.0).abs() < 1e-9);
    assert!((number(&both, 1, "mean") - number(&plain, 1, "mean") - 0.5).abs() < 1e-9);
    let scaled = run(&["--scale", "gene a=3"]);
    assert!((number(&scaled, 0, "sd") / number(&plain, 0, "sd") - 3.0).abs() < 1e-9);
    assert_eq!(run(&["--env", "0"])["variables"], plain["variables"]);
}

#[test]
fn files_read_back_and_hold_the_same_bytes_for_the_same_seed() {
    let folder = tempfile::tempdir().unwrap();
    for (name, model) in [("linear", linear(-1.0)), ("mlp", mlp())] {
        let file = write(folder.path(), &format!("{name}.safetensors"), &model);
        let mut read = Vec::new();
        for extension in ["npz", "csv"] {
            let out = folder.path().join(format!("{name}.{extension}"));
            let run = |seed: &str| {
                let args =
                    [&file, "-n", "300", "-o", out.to_str().unwrap(), "--seed", seed, "--burn-in", "200"];
                let output = skds(&args);
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                let text = String::from_utf8(output.stdout).unwrap();
                assert!(text.ends_with(&format!("written to {}\n", out.display())), "{text}");
                std::fs::read(&out).unwrap()
            };
            let other = run("2");
            let first = run("1");
            assert!(first == run("1") && first != other);
            let data = Dataset::read(&out, None).unwrap();
            assert_eq!(data.names(), model.names);
            assert_eq!((data.samples().rows(), data.environments()), (300, 1));
            read.push(data.samples().clone());
        }
        assert_eq!(read[0], read[1]);
    }
}

#[test]
fn nonnegative_is_meant_in_the_units_of_the_data() {
    let folder = tempfile::tempdir().unwrap();
    let model = write(folder.path(), "model.safetensors", &linear(-1.0));
    let out = folder.path().join("out.npz");
    let report = json(&[&model, "-n", "500", "--nonnegative", "-o", out.to_str().unwrap()]);
    assert_eq!(report["method"], "euler");
    assert_eq!(report["output"], out.to_str().unwrap());
    let samples = Dataset::read(&out, None).unwrap().samples().clone();
    assert!(samples.as_slice().iter().all(|x| *x >= 0.0));
    assert!((0..500).any(|i| samples[(i, 1)] == 0.0) && (0..500).all(|i| samples[(i, 0)] > 0.0));
}

#[test]
fn wrong_input_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let model = &write(folder.path(), "model.safetensors", &linear(-1.0));
    let network = &write(folder.path(), "mlp.safetensors", &mlp());
    let text = &folder.path().join("out.txt").display().to_string();
    let nowhere = &folder.path().join("absent/out.npz").display().to_string();
    for (args, pieces) in [
        (vec!["absent.safetensors"], vec!["cannot read absent.safetensors"]),
        (vec![model, "--shift", "x=1"], vec!["unknown variable 'x', expected one of gene a, γ"]),
        (vec![model, "--scale", "x=1"], vec!["unknown variable 'x'"]),
        (vec![model, "--shift", "γ"], vec!["found --shift γ, expected NAME=V"]),
        (vec![model, "--shift", "γ=a"], vec!["found --shift γ=a, expected NAME=V"]),
        (vec![model, "--shift", "γ=nan"], vec!["a shift is NaN, expected a finite number"]),
        (vec![model, "--shift", "γ=1", "--shift", "γ=2"], vec!["'γ' twice"]),
        (vec![model, "--scale", "γ=0"], vec!["a scale is 0, expected a finite number above 0"]),
        (vec![model, "--scale", "γ=-1"], vec!["a scale is -1"]),
        (vec![model, "--env", "2"], vec!["environment 2 is unknown, expected a number below 2"]),
        (vec![model, "--env", "-1"], vec!["-1"]),
        (vec![network, "--env", "1"], vec!["environment 1 is unknown, expected a number below 1"]),
        (vec![model, "-n", "0"], vec!["found -n 0, expected at least 2"]),
        (vec![model, "-n", "1"], vec!["found -n 1"]),
        (vec![model, "-n", "-5"], vec!["-5"]),
        (vec![model, "-n", "99999999999999999"], vec!["GiB of memory, expected at most 16"]),
        (vec![model, "--dt", "0"], vec!["dt is 0, expected a finite number above 0"]),
        (vec![model, "--dt", "-1"], vec!["dt is -1"]),
        (vec![model, "--thin", "0"], vec!["thin is 0"]),
        (vec![model, "--chains", "0"], vec!["chains is 0"]),
        (vec![model, "--method", "best"], vec!["unknown method 'best', expected one of auto, exact, euler"]),
        (vec![network, "--method", "exact"], vec!["the drift not linear, expected a linear drift"]),
        (vec![model, "--method", "exact", "--nonnegative"], vec!["only the method euler"]),
        (vec![model, "-o", text], vec!["out.txt: has the extension .txt, expected .npz or .csv"]),
        (vec![model, "-o", nowhere], vec!["expected a folder that exists"]),
    ] {
        refused(2, &args, &pieces);
    }
}

#[test]
fn a_model_without_a_stationary_law_fails_as_a_computation() {
    let folder = tempfile::tempdir().unwrap();
    let model = write(folder.path(), "model.safetensors", &linear(0.25));
    let out = folder.path().join("out.npz");
    let output = out.to_str().unwrap();
    refused(
        1,
        &[&model, "-o", output],
        &["not stable", "spectral abscissa", "is 0.250000, expected it below 0"],
    );
    let long = ["--method", "euler", "--burn-in", "20000", "-n", "10"];
    refused(1, &[&[model.as_str(), "-o", output], &long[..]].concat(), &["ran away", "variable 1 of chain"]);
    assert!(!out.exists());
}
