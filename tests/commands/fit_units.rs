//! `skds fit` in whatever units the data comes: the same effects, and constant columns named.

use crate::common::normal;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use skds::Matrix;
use skds::data::Dataset;
use std::path::Path;
use std::process::Command;

fn skds(args: &[&str]) -> serde_json::Value {
    let output = Command::new(env!("CARGO_BIN_EXE_skds")).args(args).arg("--json").output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// 500 rows of two variables with correlation 0.9.
fn pair() -> Matrix<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let rows: Vec<f64> = (0..500)
        .flat_map(|_| {
            let (a, b) = (normal(&mut rng), normal(&mut rng));
            [a, 0.9 * a + 0.19f64.sqrt() * b]
        })
        .collect();
    Matrix::from_rows(500, 2, rows)
}

/// The effects of the default fit by their target, in the data's units and in standard ones.
fn effects(folder: &Path, samples: Matrix<f64>) -> Vec<[f64; 2]> {
    let (data, model) = (folder.join("data.npz"), folder.join("model.safetensors"));
    Dataset::from_environments(vec![samples]).unwrap().write(&data).unwrap();
    let (data, model) = (data.to_str().unwrap(), model.to_str().unwrap());
    skds(&["fit", data, "-o", model]);
    let graph = skds(&["graph", model]);
    let mut found: Vec<(String, [f64; 2])> = graph["effects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|effect| {
            let number = |key: &str| effect[key].as_f64().unwrap();
            (effect["target"].as_str().unwrap().to_owned(), [number("strength"), number("standard")])
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.into_iter().map(|(_, strengths)| strengths).collect()
}

#[test]
fn the_default_finds_the_same_effects_whatever_the_units() {
    let folder = tempfile::tempdir().unwrap();
    let x = pair();
    let expected = effects(folder.path(), x.clone());
    assert_eq!(expected.len(), 2, "{expected:?}");
    assert!(expected.iter().all(|[strength, _]| *strength > 0.3), "{expected:?}");
    for (shift, scales) in [(5.0, [1.0, 1.0]), (10.0, [1.0, 1.0]), (0.0, [1e-3, 1e-3]), (1e4, [2.0, 1e3])] {
        let moved = Matrix::from_fn(500, 2, |i, j| shift + scales[j] * x[(i, j)]);
        let found = effects(folder.path(), moved);
        assert_eq!(found.len(), 2, "{shift} {scales:?}: {found:?}");
        for (target, ([strength, standard], [before, same])) in found.iter().zip(&expected).enumerate() {
            let unit = scales[target] / scales[1 - target];
            assert!((standard - same).abs() < 1e-6, "{shift} {scales:?}: {found:?}, expected {expected:?}");
            assert!((strength - unit * before).abs() < 1e-6 * unit, "{shift} {scales:?}: {found:?}");
        }
    }
}

#[test]
fn a_constant_column_is_named_and_not_divided_by() {
    let folder = tempfile::tempdir().unwrap();
    let x = pair();
    let data = folder.path().join("data.csv");
    let mut text = String::from("env,a,flat,b\n");
    for i in 0..x.rows() {
        text.push_str(&format!("0,{},7.25,{}\n", x[(i, 0)], x[(i, 1)]));
    }
    std::fs::write(&data, text).unwrap();
    let (data, model) = (data.to_str().unwrap(), folder.path().join("model.safetensors"));
    let model = model.to_str().unwrap();
    for options in [&[][..], &["--lambda", "0.1"], &["--steps", "50", "--batch", "64"]] {
        let args = [&["fit", data, "-o", model, "--device", "cpu"], options].concat();
        let output = Command::new(env!("CARGO_BIN_EXE_skds")).args(&args).output().unwrap();
        let answer = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(answer.contains("'flat' is constant in the first environment"), "{options:?}: {answer}");
        let graph = skds(&["graph", model]);
        for effect in graph["effects"].as_array().unwrap() {
            assert!(effect["strength"].as_f64().unwrap().is_finite());
        }
    }
}
