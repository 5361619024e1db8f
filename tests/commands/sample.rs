//! `skds sample` as a person runs it: samples, files, and one clear sentence for every wrong input.

use skds::Matrix;
use skds::data::{Dataset, Standardization};
use skds::model::{Activation, Drift, MlpDrift, Model, Noise, Parameters};
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
        drift: Drift::linear(Matrix::from_rows(2, 2, vec![-1.0, 0.0, 0.5, decay])),
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
        drift: Drift::Mlp(MlpDrift {
            activation: Activation::Tanh,
            hidden_weights: Matrix::from_fn(6, 3, entry),
            hidden_biases: Matrix::from_fn(3, 2, entry),
            output_weights: Matrix::from_fn(3, 2, entry),
        }),
        biases: vec![0.2, 0.0, -0.3],
        noise: Noise::Diagonal { log_noise: vec![-0.5; 3] },
        shift: None,
        log_scale: None,
    })
}

fn write(folder: &Path, name: &str, model: &Model) -> String {
    let path = folder.join(name);
    model.save(&path).unwrap();
    path.display().to_string()
}

/// Rows that no Gaussian has; the observational environment comes second.
fn observed() -> Dataset {
    let value = |i: usize, j: usize| ((i * (j + 3)) as f64).sin().powi(3) + 10.0 * (1 - j) as f64;
    let environments = vec![Matrix::from_fn(20, 2, value), Matrix::from_fn(50, 2, value)];
    Dataset::from_environments(environments)
        .unwrap()
        .with_targets(Matrix::from_fn(2, 2, |e, j| e == 0 && j == 0))
        .unwrap()
        .with_names(linear(-1.0).names)
        .unwrap()
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
            let data = Dataset::read(&out).unwrap();
            assert_eq!(data.names(), model.names);
            assert_eq!((data.samples().rows(), data.environments()), (300, 1));
            read.push(data.samples().clone());
        }
        assert_eq!(read[0], read[1]);
    }
}

#[test]
fn observed_rows_are_moved_by_what_the_model_says_changes() {
    let folder = tempfile::tempdir().unwrap();
    let model = write(folder.path(), "model.safetensors", &linear(-1.0));
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (data, out) = (at("train.npz"), at("out.npz"));
    observed().write(Path::new(&data)).unwrap();
    let rows = observed().environment(1);
    let moved = |args: &[&str]| {
        let report = json(&[&[model.as_str(), "--from", &data, "-o", &out], args].concat());
        assert_eq!(report["from"]["environment"], 1);
        assert_eq!(report["n"], Dataset::read(&out).unwrap().samples().rows());
        Dataset::read(&out).unwrap().samples().clone()
    };
    // All rows, in their order; `gene a` moves by 2 in the data's units, `γ` by half of 1 in standard ones.
    let shifted = moved(&["--shift", "gene a=1"]);
    assert_eq!(shifted.rows(), 50);
    for i in 0..50 {
        assert!((shifted[(i, 0)] - rows[(i, 0)] - 2.0).abs() < 1e-9, "row {i}");
        assert!((shifted[(i, 1)] - rows[(i, 1)] - 0.5).abs() < 1e-9, "row {i}");
    }
    assert_eq!(moved(&[]), rows);
    // Several at once, one of them by where its mean shall be.
    let mean = |rows: &Matrix<f64>, j: usize| (0..50).map(|i| rows[(i, j)]).sum::<f64>() / 50.0;
    let both = moved(&["--set", "gene a=25", "--shift", "γ=-2"]);
    let change = 25.0 - mean(&rows, 0);
    assert!((mean(&both, 0) - 25.0).abs() < 1e-9);
    assert!((mean(&both, 1) - mean(&rows, 1) + 2.0 - change / 4.0).abs() < 1e-9);
    let both = moved(&["--set", "gene a=1", "--set", "γ=-2", "--scale", "γ=3"]);
    assert!((mean(&both, 0) - 1.0).abs() < 1e-9 && (mean(&both, 1) + 2.0).abs() < 1e-9);
    // Fewer rows, by the seed.
    let few = moved(&["-n", "10", "--seed", "1"]);
    assert_eq!((few.rows(), few == moved(&["-n", "10", "--seed", "1"])), (10, true));
    assert!(few != moved(&["-n", "10", "--seed", "2"]));
    assert!((0..10).all(|i| (0..50).any(|k| rows.row(k) == few.row(i))));

    // From csv with its targets, as text.
    let (csv, targets) = (at("train.csv"), at("targets.csv"));
    std::fs::write(&csv, "env,gene a,γ\n0,1,2\n0,2,1\n1,5,6\n1,7,8\n").unwrap();
    std::fs::write(&targets, "gene a,γ\n1,0\n0,0\n").unwrap();
    let output = skds(&[&model, "--from", &csv, "--from-targets", &targets, "--set", "γ=9"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with(&format!("2 rows of {csv}, environment 1, moved, method exact")), "{text}");
    assert!(text.contains("6.000000") && text.contains("9.000000"), "{text}");
}

#[test]
fn set_brings_the_means_of_the_law_where_they_are_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let model = write(folder.path(), "model.safetensors", &linear(-1.0));
    let network = write(folder.path(), "mlp.safetensors", &mlp());
    let report = json(&[&model, "-n", "40000", "--env", "1", "--set", "gene a=14", "--set", "γ=-1"]);
    assert!((number(&report, 0, "mean") - 14.0).abs() < 0.06, "{report}");
    assert!((number(&report, 1, "mean") + 1.0).abs() < 0.06, "{report}");
    let report = json(&[&network, "-n", "1000", "--set", "x1=1.5", "--device", "cpu"]);
    assert!((number(&report, 1, "mean") - 1.5).abs() < 0.1, "{report}");
}

#[test]
fn nonnegative_is_meant_in_the_units_of_the_data() {
    let folder = tempfile::tempdir().unwrap();
    let model = write(folder.path(), "model.safetensors", &linear(-1.0));
    let out = folder.path().join("out.npz");
    let report = json(&[&model, "-n", "500", "--nonnegative", "-o", out.to_str().unwrap()]);
    assert_eq!(report["method"], "euler");
    assert_eq!(report["output"], out.to_str().unwrap());
    let samples = Dataset::read(&out).unwrap().samples().clone();
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
    let data = &folder.path().join("data.npz").display().to_string();
    observed().write(Path::new(data)).unwrap();
    let aimed = &folder.path().join("aimed.npz").display().to_string();
    observed().with_targets(Matrix::full(2, 2, true)).unwrap().write(Path::new(aimed)).unwrap();
    let other = &folder.path().join("other.npz").display().to_string();
    let renamed = observed().with_names(vec!["gene a".into(), "g".into()]).unwrap();
    renamed.write(Path::new(other)).unwrap();
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
        (vec![network, "--method", "exact"], vec!["the drift is not linear, expected a linear drift"]),
        (vec![model, "--method", "exact", "--nonnegative"], vec!["expected the method euler"]),
        (vec![model, "--set", "x=1"], vec!["unknown variable 'x'"]),
        (vec![model, "--set", "γ"], vec!["found --set γ, expected NAME=V"]),
        (vec![model, "--set", "γ=inf"], vec!["the mean for 'γ' is inf, expected a finite number"]),
        (vec![model, "--set", "γ=1", "--set", "γ=2"], vec!["'γ' twice"]),
        (
            vec![model, "--set", "γ=1", "--shift", "γ=2"],
            vec!["both a shift and a mean for 'γ'", "expected one"],
        ),
        (vec![model, "--from", "absent.npz"], vec!["cannot read absent.npz"]),
        (vec![model, "--from", aimed], vec!["all 2 environments", "have targets, expected one without"]),
        (vec![model, "--from", other], vec!["variable 1 of the data to start from is 'g', expected 'γ'"]),
        (vec![network, "--from", data], vec!["has 2 variables, expected 3"]),
        (vec![model, "--from", data, "-n", "51"], vec!["asked for 51 samples", "50 rows, expected at most"]),
        (vec![model, "--from", data, "-n", "1"], vec!["found -n 1"]),
        (vec![model, "--from-targets", data], vec!["--from <DATA>"]),
        (vec![model, "-o", text], vec!["out.txt: has the extension .txt, expected .npz, .csv or .h5ad"]),
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
