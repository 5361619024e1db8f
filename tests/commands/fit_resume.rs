//! `--resume` goes on with the same fit or not at all, and nothing unfinished is overwritten without a word.

use crate::common::random_data;
use skds::Matrix;
use skds::data::Dataset;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A fit that stops at step 2 by itself, and leaves a checkpoint.
const STOPPING: [&str; 6] = ["--steps", "100", "--batch", "32", "--learning-rate", "1e25"];

fn fit(data: &Path, model: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds"))
        .arg("fit")
        .args([data, Path::new("-o"), model])
        .args(STOPPING)
        .args(more)
        .args(["--device", "cpu"])
        .output()
        .unwrap()
}

fn refusal(output: &Output) -> String {
    let sentence = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(2), "{sentence}");
    sentence
}

struct Stopped {
    folder: tempfile::TempDir,
    data: Dataset,
    checkpoint: PathBuf,
    model: PathBuf,
}

impl Stopped {
    fn new() -> Stopped {
        let folder = tempfile::tempdir().unwrap();
        let targets = Matrix::from_fn(2, 3, |e, j| e == 1 && j == 0);
        let data = random_data(60, &[100, 100], 3).with_targets(targets).unwrap();
        let model = folder.path().join("model.safetensors");
        let checkpoint = folder.path().join("model.checkpoint.safetensors");
        let stopped = Stopped { data, checkpoint, model, folder };
        assert_eq!(fit(&stopped.write(&stopped.data), &stopped.model, &[]).status.code(), Some(1));
        assert!(stopped.checkpoint.exists());
        stopped
    }

    fn write(&self, data: &Dataset) -> PathBuf {
        let path = self.folder.path().join("data.npz");
        data.write(&path).unwrap();
        path
    }

    fn resumed_with(&self, data: &Dataset) -> String {
        refusal(&fit(&self.write(data), &self.model, &["--resume"]))
    }
}

#[test]
fn other_data_is_refused_with_both_sides_named() {
    let stopped = Stopped::new();
    let (x, data) = (stopped.data.samples().clone(), &stopped.data);
    let with = |entry: &dyn Fn(usize, usize) -> f64, target: usize| {
        let part = |first: usize| Matrix::from_fn(100, 3, |i, j| entry(first + i, j));
        let targets = Matrix::from_fn(2, 3, |e, j| e == 1 && j == target);
        Dataset::from_environments(vec![part(0), part(100)]).unwrap().with_targets(targets).unwrap()
    };
    // Other targets.
    let sentence = stopped.resumed_with(&with(&|i, j| x[(i, j)], 2));
    assert!(sentence.contains("targets of environment 1: found x0, expected x2"), "{sentence}");
    // Permuted columns, and another order of rows: the same shape and the same sum.
    let sentence = stopped.resumed_with(&with(&|i, j| x[(i, 2 - j)], 0));
    assert!(sentence.contains("samples, or their order: found SHA-256 "), "{sentence}");
    let sentence = stopped.resumed_with(&with(&|i, j| x[(if i < 100 { 99 - i } else { i }, j)], 0));
    assert!(sentence.contains("samples, or their order: found SHA-256 "), "{sentence}");
    // Other names.
    let names = ["a", "x1", "x2"].map(String::from).to_vec();
    let sentence = stopped.resumed_with(&data.clone().with_names(names).unwrap());
    assert!(sentence.contains("variable 0: found 'x0', expected 'a'"), "{sentence}");
    // The same data goes on, and stops where it stopped.
    let output = fit(&stopped.write(data), &stopped.model, &["--resume"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn other_settings_are_refused_with_both_sides_named() {
    let stopped = Stopped::new();
    let data = stopped.write(&stopped.data);
    let sentence = refusal(&fit(&data, &stopped.model, &["--resume", "--lambda", "0.2"]));
    assert!(sentence.contains("other settings: found lambda = 0.1, expected 0.2"), "{sentence}");
}

#[test]
fn a_flipped_bit_is_refused() {
    let stopped = Stopped::new();
    let data = stopped.write(&stopped.data);
    let whole = std::fs::read(&stopped.checkpoint).unwrap();
    let header = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    // Low bits of numbers all over the file, which still read as finite numbers.
    for at in [8 + header, 8 + header + (whole.len() - 8 - header) / 2 / 4 * 4, whole.len() - 4] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(&stopped.checkpoint, damaged).unwrap();
        let sentence = refusal(&fit(&data, &stopped.model, &["--resume"]));
        assert!(sentence.contains("is damaged: its content has the checksum"), "{at}: {sentence}");
    }
}

#[test]
fn an_unfinished_fit_is_not_overwritten_without_a_word() {
    let stopped = Stopped::new();
    let data = stopped.write(&stopped.data);
    let before = std::fs::read(&stopped.checkpoint).unwrap();
    let sentence = refusal(&fit(&data, &stopped.model, &[]));
    assert!(sentence.contains("holds a fit that stopped at step 1"), "{sentence}");
    assert!(sentence.contains("--resume") && sentence.contains("--restart"), "{sentence}");
    assert_eq!(std::fs::read(&stopped.checkpoint).unwrap(), before);
    // Told to, it begins anew.
    assert_eq!(fit(&data, &stopped.model, &["--restart"]).status.code(), Some(1));
}

#[test]
fn to_begin_anew_chooses_no_solver() {
    let stopped = Stopped::new();
    let data = stopped.write(&stopped.data);
    let output = Command::new(env!("CARGO_BIN_EXE_skds"))
        .arg("fit")
        .args([&data, Path::new("-o"), &stopped.model])
        .args(["--restart", "--bandwidth", "2", "--lambda", "0.1"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("exact minimum"), "{said}");
}
