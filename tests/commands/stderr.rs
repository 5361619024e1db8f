//! Standard error may be full or closed: commands end as they would have otherwise.
#![cfg(target_os = "linux")]

use crate::common::golden_dir;
use std::fs::OpenOptions;
use std::process::{Command, Stdio};

/// The exit code, with every byte for standard error refused.
fn code(args: &[&str]) -> Option<i32> {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_skds"))
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::from(full))
        .output()
        .unwrap();
    output.status.code()
}

#[test]
fn a_full_standard_error_changes_no_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let data = golden_dir().join("001-skds-rbf-linear-u.npz").display().to_string();
    // Reports of steps, warnings and refusals are all lines on standard error.
    let model = at("model.safetensors");
    let steps = ["--solver", "adam", "--steps", "20", "--batch", "8"];
    assert_eq!(code(&[&["fit", &data, "-o", &model, "--device", "cpu"], &steps[..]].concat()), Some(0));
    assert!(std::path::Path::new(&model).exists());
    assert_eq!(code(&["loss", "nowhere.npz", "--params", &model]), Some(2));
    assert_eq!(code(&["loss", &data, "--params", &model, "--no-such-option"]), Some(2));
    assert_eq!(code(&["sample", &model, "-n", "0"]), Some(2));
    let plan = at("plan.toml");
    let text = "datasets = 1\n[[system]]\nname = \"A\"\nsettings = { dim = 4, rows = 20, train_envs = 1, test_envs = 1, edges = 1 }\n\
                [[method]]\nname = \"m\"\nkind = \"diagonal\"\n";
    std::fs::write(&plan, text).unwrap();
    let out = at("out");
    assert_eq!(code(&["experiment", "run", &plan, "-o", &out]), Some(0));
    // A damaged cell is warned of.
    let cell = std::fs::read_dir(folder.path().join("out/cells")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(cell, "{").unwrap();
    assert_eq!(code(&["experiment", "run", &plan, "-o", &out]), Some(0));
}
