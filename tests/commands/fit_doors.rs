//! One setting has one meaning: as a flag, in a TOML file, in a plan.

use crate::common::random_data;
use skds::Matrix;
use std::path::Path;
use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds")).args(args).output().unwrap()
}

fn data(folder: &Path) -> String {
    let targets = Matrix::from_fn(4, 3, |e, j| e > 0 && j == e - 1);
    let path = folder.join("train.npz");
    random_data(9, &[80, 60, 60, 60], 3).with_targets(targets).unwrap().write(&path).unwrap();
    path.display().to_string()
}

#[test]
fn a_flag_and_a_line_of_toml_mean_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let data = data(folder.path());
    let place = |name: &str| folder.path().join(name).display().to_string();
    for (flags, toml, solver) in [
        (&["--lambda", "0.1"][..], "lambda = 0.1", "exact minimum over"),
        (&["--bandwidth", "auto"], "bandwidth = \"auto\"", "exact minimum over"),
        (&["--penalty", "both"], "penalty = \"both\"", "exact minimum over"),
        (&["--steps", "20000", "--batch", "8"], "steps = 20000\nbatch = 8", "20000 steps on cpu"),
        (
            &["--learning-rate", "0.001", "--batch", "8"],
            "learning_rate = 0.001\nbatch = 8",
            "20000 steps on cpu",
        ),
        (&["--seed", "5"], "seed = 5", "chosen by how well it predicts"),
        (&["--objective", "kds", "--lambda", "0.3"], "objective = \"kds\"\nlambda = 0.3", "KDS by moments"),
        (&["--law", "structural"], "law = \"structural\"", "chosen by how well it predicts"),
    ] {
        let (first, second, config) =
            (place("flags.safetensors"), place("toml.safetensors"), place("fit.toml"));
        std::fs::write(&config, toml).unwrap();
        let common = ["--device", "cpu"];
        let by_flags = run(&[&["fit", data.as_str(), "-o", &first], flags, &common].concat());
        let by_file =
            run(&[&["fit", data.as_str(), "-o", &second, "--config", &config], &common[..]].concat());
        for output in [by_flags, by_file] {
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success(), "{toml}: {}", String::from_utf8_lossy(&output.stderr));
            assert!(text.contains(solver), "{toml}: {text}");
        }
        assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap(), "{toml}");
    }
}

#[test]
fn a_plan_takes_settings_as_the_command_line_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    let plan = |settings: &str| {
        format!(
            "datasets = 1\n[[system]]\nname = \"S\"\nsettings = {{ system = \"sde\" }}\n\
             [[method]]\nname = \"M\"\nkind = \"fit\"\nsettings = {{ {settings} }}\n"
        )
    };
    std::fs::write(&path, plan("solver = \"exact\", steps = 20000")).unwrap();
    let out = folder.path().join("out");
    let output = run(&["experiment", "run", path.to_str().unwrap(), "-o", out.to_str().unwrap()]);
    let sentence = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{sentence}");
    assert!(sentence.contains("steps is given with the exact solver"), "{sentence}");
}
