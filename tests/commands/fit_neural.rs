//! `skds fit --model mlp`: settings are chosen by left-out interventions, and an interrupted choice goes on.

use serde_json::Value;
use skds::model::Model;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

struct Fit {
    folder: tempfile::TempDir,
    train: PathBuf,
}

impl Fit {
    /// Data of a small system with interventions on four variables.
    fn new() -> Fit {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("system");
        let made = Command::new(env!("CARGO_BIN_EXE_skds"))
            .args([
                "simulate",
                "sde",
                "--dim",
                "5",
                "--rows",
                "200",
                "--train-envs",
                "4",
                "--test-envs",
                "1",
                "--seed",
                "2",
                "-o",
            ])
            .arg(&out)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Fit { train: out.join("train.npz"), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, model: &Path, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skds"));
        command.arg("fit").arg(&self.train).arg("-o").arg(model);
        command
            .args(["--model", "mlp", "--hidden", "4", "--steps", "900", "--batch", "64", "--device", "cpu"]);
        command.args(more);
        command
    }

    fn run(&self, model: &Path, more: &[&str]) -> Output {
        self.command(model, more).output().unwrap()
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn passes(output: &Output) -> &str {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Asks a process to stop as Ctrl-C does.
fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn settings_are_chosen_by_predictions_and_the_report_says_which() {
    let fit = Fit::new();
    let model = fit.path("model.safetensors");
    let report = fit.run(&model, &[]);
    let report = passes(&report);
    assert!(
        report.contains("Of 14 settings, ") && report.contains("predicts the 4 left-out interventions best"),
        "{report}"
    );
    assert!(report.contains("times the squared error of predicting no effect"), "{report}");
    let table = std::fs::read_to_string(fit.path("model.tuning.csv")).unwrap();
    assert_eq!(table.lines().count(), 1 + 14);
    assert!(fit.path("model.tuning.svg").exists() && fit.path("model.log.jsonl").exists());
    assert!(!fit.path("model.choice.json").exists());
    // The model holds what was chosen as settings, with which the fit is the same.
    let fitted = Model::read(&model).unwrap();
    let setting = |name: &str| match &fitted.settings[name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (h, lambda, objective, kernel) =
        (setting("bandwidth"), setting("lambda"), setting("objective"), setting("kernel"));
    let row = format!("{objective},{h},both,{lambda},");
    assert!(table.lines().any(|line| line.starts_with(&row) && line.ends_with(",1")), "{row}\n{table}");
    let fixed = fit.path("fixed.safetensors");
    let given = ["--bandwidth", &h, "--lambda", &lambda, "--objective", &objective, "--kernel", &kernel];
    passes(&fit.run(&fixed, &given));
    assert_eq!(std::fs::read(&fixed).unwrap(), std::fs::read(&model).unwrap());
}

#[test]
fn an_interrupted_choice_goes_on_to_the_same_bytes() {
    let fit = Fit::new();
    let (whole, model) = (fit.path("whole.safetensors"), fit.path("model.safetensors"));
    passes(&fit.run(&whole, &[]));
    let runs = fit.path("model.choice.json");
    let child = fit.command(&model, &[]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while !runs.exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing was kept within a minute");
        std::thread::sleep(Duration::from_millis(1));
    }
    interrupt(&child);
    let stopped = child.wait_with_output().unwrap();
    assert!(passes(&stopped).contains("Stopped while choosing settings, after "), "{stopped:?}");
    assert!(runs.exists() && !model.exists());
    // It is not started over by accident.
    let refused = fit.run(&model, &[]);
    assert_eq!(refused.status.code(), Some(2));
    let sentence = text(&refused.stderr);
    assert!(
        sentence.contains("holds a fit that stopped while it chose settings, expected no checkpoint"),
        "{sentence}"
    );
    let other = fit.run(&model, &["--resume", "--seed", "8"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("was written with other settings: found seed = 0"), "{other:?}");
    passes(&fit.run(&model, &["--resume"]));
    assert_eq!(std::fs::read(&model).unwrap(), std::fs::read(&whole).unwrap());
    assert!(!runs.exists());
}

#[test]
fn the_report_for_programs_has_the_choice() {
    let fit = Fit::new();
    let output = fit.run(&fit.path("model.safetensors"), &["--json"]);
    let lines: Vec<Value> = passes(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let report = lines.last().unwrap();
    assert_eq!(report["tuning"]["interventions"], 4);
    assert_eq!(report["tuning"]["cells"].as_array().unwrap().len(), 14);
    assert!(report["lambda"].is_number() && report["complete"] == true, "{report}");
}
