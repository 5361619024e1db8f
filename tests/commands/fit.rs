//! `skds fit` as a person runs it: results, resuming, refusals.

use crate::common::random_data;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use skds::Matrix;
use skds::fit::Checkpoint;
use skds::model::{Drift, MlpDrift, Model};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skds"));
    command.arg("fit").args(args).args(["--device", "cpu"]);
    command
}

fn fit(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Three environments, the second and third with one target each.
fn data(folder: &Path) -> String {
    let targets = Matrix::from_fn(3, 4, |e, j| e > 0 && j == e);
    let data = random_data(60, &[300, 200, 200], 4).with_targets(targets).unwrap();
    let path = folder.join("train.npz");
    data.write(&path).unwrap();
    path.display().to_string()
}

fn name(folder: &Path, name: &str) -> (PathBuf, String) {
    let path = folder.join(name);
    (path.clone(), path.display().to_string())
}

#[test]
fn a_fit_writes_a_model_a_log_and_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let data = data(folder.path());
    let (path, model) = name(folder.path(), "model.safetensors");
    let output = fit(&[&data, "-o", &model, "--steps", "400", "--batch", "64", "--seed", "3"]);
    let report = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(report.contains("400 steps on cpu") && report.contains("The model is stable"), "{report}");
    let fitted = Model::read(&path).unwrap();
    let weights = fitted.parameters.drift.linear_weights().unwrap();
    let shift = fitted.parameters.shift.as_ref().unwrap();
    for j in 0..4 {
        assert_eq!(weights[(j, j)], -1.0);
        for e in 0..3 {
            assert_eq!(shift[(e, j)] != 0.0, e > 0 && j == e, "shift {e} {j}");
        }
    }
    assert_eq!(fitted.settings["steps"], 400);
    assert_eq!(fitted.settings["kernel"], "tilted-rbf");
    assert!(fitted.settings["bandwidth"].as_str().unwrap().parse::<f64>().unwrap() > 0.0);
    let log = std::fs::read_to_string(folder.path().join("model.log.jsonl")).unwrap();
    let records: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.last().unwrap()["step"], 400);
    let first = records.iter().take(20).map(|r| r["loss"].as_f64().unwrap()).sum::<f64>();
    let last = records.iter().rev().take(20).map(|r| r["loss"].as_f64().unwrap()).sum::<f64>();
    assert!(last < first, "the loss did not fall: {first} {last}");
    assert!(std::fs::read_to_string(folder.path().join("model.loss.svg")).unwrap().contains("<svg"));
    assert!(!folder.path().join("model.checkpoint.safetensors").exists());
    // The same command gives the same bytes.
    let (again, other) = name(folder.path(), "again.safetensors");
    assert!(fit(&[&data, "-o", &other, "--steps", "400", "--batch", "64", "--seed", "3"]).status.success());
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&again).unwrap());
}

#[test]
fn a_killed_fit_goes_on_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let data = data(folder.path());
    let (whole, whole_name) = name(folder.path(), "whole.safetensors");
    let (path, model) = name(folder.path(), "model.safetensors");
    let settings = ["--steps", "30000", "--batch", "128", "--checkpoint-every", "500", "--learn-scale"];
    let args =
        |model: &str| [&[data.clone(), "-o".into(), model.into()][..], &settings.map(String::from)].concat();
    let run = |model: &str, more: &[&str]| {
        let args = args(model);
        let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
        args.extend(more);
        command(&args)
    };
    assert!(run(&whole_name, &[]).output().unwrap().status.success());
    let checkpoint = folder.path().join("model.checkpoint.safetensors");
    let reached = || Checkpoint::read(&checkpoint).map(|checkpoint| checkpoint.state.steps);
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (mut steps, mut continued) = (0, 0);
    for round in 0..50 {
        let more: &[&str] = if checkpoint.exists() { &["--resume"] } else { &[] };
        let mut child = run(&model, more).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Some are killed at any moment, some as soon as they have come further, however slow the machine is.
        std::thread::sleep(Duration::from_millis(rng.random_range(1..150)));
        let further = || reached().is_ok_and(|now| now > steps);
        while round % 5 == 0 && !further() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if path.exists() {
            // It came to its end: once more from the start.
            assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&whole).unwrap());
            std::fs::remove_file(&path).unwrap();
            let _ = std::fs::remove_file(&checkpoint);
            steps = 0;
        } else if checkpoint.exists() {
            // Whatever the moment, the checkpoint is whole and nothing that it had is lost.
            let now = reached().unwrap();
            assert!(now >= steps, "{now} after {steps}");
            continued += usize::from(steps > 0 && now > steps);
            steps = now;
        } else {
            assert_eq!(steps, 0, "a checkpoint was lost");
        }
    }
    assert!(continued > 0, "no kill came after a checkpoint that another fit had continued from");
    let more: &[&str] = if checkpoint.exists() { &["--resume"] } else { &[] };
    let output = run(&model, more).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&whole).unwrap());
    let log = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(log("model.log.jsonl"), log("whole.log.jsonl"));
}

#[test]
fn settings_come_from_a_file_and_flags_win() {
    let folder = tempfile::tempdir().unwrap();
    let data = data(folder.path());
    let (path, model) = name(folder.path(), "model.safetensors");
    let (config, config_name) = name(folder.path(), "fit.toml");
    std::fs::write(
        &config,
        "model = \"mlp\"\nhidden = 3\nsteps = 50\nbatch = 32\nenvs_per_step = \"all\"\nstandardize = true\n",
    )
    .unwrap();
    let output = fit(&[&data, "-o", &model, "--config", &config_name, "--steps", "20", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let last: serde_json::Value = serde_json::from_str(text(&output.stdout).lines().last().unwrap()).unwrap();
    assert_eq!(last["steps"], 20);
    let fitted = Model::read(&path).unwrap();
    assert!(
        matches!(&fitted.parameters.drift, Drift::Mlp(MlpDrift { hidden_biases, .. }) if hidden_biases.cols() == 3)
    );
    assert!(fitted.reference.is_some() && fitted.standardization.is_none());
    assert_eq!(fitted.settings["steps"], 20);
}

#[test]
fn unknown_targets_may_be_anywhere_but_in_the_first_environment() {
    let folder = tempfile::tempdir().unwrap();
    let data = data(folder.path());
    let (path, model) = name(folder.path(), "model.safetensors");
    let output = fit(&[&data, "-o", &model, "--targets", "unknown", "--steps", "30", "--batch", "32"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shift = Model::read(&path).unwrap().parameters.shift.unwrap();
    assert!(shift.row(0).iter().all(|s| *s == 0.0));
    assert!(shift.row(1).iter().chain(shift.row(2)).all(|s| *s != 0.0));
}

#[test]
fn what_is_not_finite_ends_with_code_1_and_leaves_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let data = data(folder.path());
    let (path, model) = name(folder.path(), "model.safetensors");
    let output = fit(&[&data, "-o", &model, "--steps", "100", "--batch", "32", "--learning-rate", "1e25"]);
    let sentence = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{sentence}");
    assert!(
        sentence.contains("step 2: the loss of environment") && sentence.contains("--learning-rate"),
        "{sentence}"
    );
    assert!(!path.exists() && folder.path().join("model.checkpoint.safetensors").exists());
}

#[test]
fn wrong_input_gets_one_sentence_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = data(folder.path());
    let (_, model) = name(folder.path(), "model.safetensors");
    let (_, csv) = name(folder.path(), "model.csv");
    let (_, nowhere) = name(folder.path(), "no/such/folder.safetensors");
    for (args, piece) in [
        (vec!["missing.npz", "-o", &model], "cannot read missing.npz"),
        (vec![&data, "-o", &csv], "expected: .safetensors"),
        (vec![&data, "-o", &nowhere], "cannot write"),
        (vec![&data, "-o", &model, "--steps", "0"], "steps is 0, expected at least 1"),
        (vec![&data, "-o", &model, "--batch", "1"], "batch is 1, expected at least 2"),
        (vec![&data, "-o", &model, "--lambda", "-1"], "lambda is -1, expected"),
        (vec![&data, "-o", &model, "--learning-rate", "NaN"], "the learning rate is NaN"),
        (
            vec![&data, "-o", &model, "--envs-per-step", "4"],
            "environments per step is 4, expected at most the data's 3",
        ),
        (vec![&data, "-o", &model, "--envs-per-step", "none"], "expected 'all' or a number above 0"),
        (vec![&data, "-o", &model, "--kernel", "laplace"], "unknown kernel 'laplace'"),
        (vec![&data, "-o", &model, "--config", "missing.toml"], "cannot read missing.toml"),
        (
            vec![&data, "-o", &model, "--resume"],
            "does not exist, expected the checkpoint of an unfinished fit",
        ),
        (vec![&data, "-o", &model, "--checkpoint-every", "0"], "--checkpoint-every is 0"),
    ] {
        let args: Vec<&str> = args.into_iter().map(|a| a as &str).collect();
        let output = fit(&args);
        let sentence = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {sentence}");
        assert!(sentence.starts_with("error: ") && sentence.contains(piece), "{args:?}: {sentence}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    // A checkpoint of other settings or other data is refused.
    let interrupted = ["--steps", "100", "--batch", "32", "--learning-rate", "1e25"];
    fit(&[&[data.as_str(), "-o", &model][..], &interrupted].concat());
    let output = fit(&[&data, "-o", &model, "--steps", "100", "--batch", "32", "--resume"]);
    assert!(text(&output.stderr).contains("other settings: found learning_rate"), "{}", text(&output.stderr));
}
