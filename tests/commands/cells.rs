//! Single cells from `.h5ad` files: fitted, evaluated, sampled, and what to try next.

use serde_json::Value;
use skds::data::Dataset;
use skds::model::Model;
use std::path::Path;
use std::process::{Command, Output};

const SCREEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/h5ad/csr-gzip-categorical.h5ad");

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds")).args(args).output().unwrap()
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// What a command printed, if it went well.
fn passes(args: &[&str]) -> (String, String) {
    let output = run(args);
    let (out, err) = text(&output);
    assert!(output.status.success(), "{args:?}: {err}");
    (out, err)
}

/// The sentence of a command that was refused.
fn refused(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output).0);
    text(&output).1
}

fn fitted(folder: &Path) -> String {
    let model = folder.join("model.safetensors").display().to_string();
    let (_, err) = passes(&[
        "fit",
        SCREEN,
        "--perturbation",
        "obs:perturbation",
        "--control",
        "NT",
        "--genes",
        "all",
        "-o",
        &model,
    ]);
    for note in [
        "26 controls, and 3 perturbations",
        "1 perturbation with 7 cells (genes that were not measured): 'Q (7)'",
    ] {
        assert!(err.contains(note), "{err}");
    }
    model
}

#[test]
fn a_screen_is_fitted_and_the_model_remembers_its_cells() {
    let folder = tempfile::tempdir().unwrap();
    let path = fitted(folder.path());
    let cells = Model::read(&path).unwrap().cells.unwrap();
    assert_eq!((cells.perturbation.as_deref(), cells.control.as_deref()), (Some("perturbation"), Some("NT")));
    assert!(cells.depth.unwrap() > 1.0);
    // The library gives the same bytes.
    let settings = skds::data::cells::CellSettings {
        perturbation: Some("perturbation".into()),
        control: Some("NT".into()),
        genes: Some("all".parse().unwrap()),
        ..Default::default()
    };
    let data = Dataset::read_cells(SCREEN, &settings).unwrap().data;
    let again = folder.path().join("again.safetensors");
    skds::Fit::new().fit(&data).unwrap().save(&again).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&again).unwrap());
    // As JSON, the notes are a line of their own.
    let (out, _) = passes(&[
        "fit",
        SCREEN,
        "--perturbation",
        "perturbation",
        "--genes",
        "targets",
        "--json",
        "-o",
        again.to_str().unwrap(),
    ]);
    let first: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert_eq!(first["data"], SCREEN);
    assert!(first["notes"].as_array().unwrap().len() >= 3, "{first}");
}

#[test]
fn other_cells_are_prepared_like_those_of_the_fit_without_another_word() {
    let folder = tempfile::tempdir().unwrap();
    let model = fitted(folder.path());
    let (out, _) = passes(&["evaluate", &model, SCREEN, "--from", SCREEN, "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    // A, A+B and B; controls are left out, and only the combination has an additive prediction.
    assert_eq!(report["environments"], 3);
    assert_eq!(report["floors"]["additive"]["environments"], 1);
    // Predictions for the cells that the fit saw: the model's own means of the targets.
    let moved = folder.path().join("moved.h5ad").display().to_string();
    let (out, _) = passes(&[
        "sample",
        &model,
        "--from",
        SCREEN,
        "--perturb",
        "A",
        "--perturb",
        "B+A",
        "-o",
        &moved,
        "--json",
    ]);
    let report: Value = serde_json::from_str(&out).unwrap();
    let predictions = report["predictions"].as_array().unwrap();
    assert_eq!((predictions.len(), report["rows"].as_u64()), (2, Some(26)));
    for prediction in predictions {
        for level in prediction["levels"].as_array().unwrap() {
            let variables = prediction["variables"].as_array().unwrap();
            let found = variables.iter().find(|variable| variable["name"] == level["name"]).unwrap();
            let (mean, wanted) = (found["mean"].as_f64().unwrap(), level["mean"].as_f64().unwrap());
            assert!((mean - wanted).abs() < 1e-9 && level["observed"] == true, "{prediction}");
        }
    }
    // What was written is read again: one perturbation per prediction.
    let settings =
        skds::data::cells::CellSettings { perturbation: Some("perturbation".into()), ..Default::default() };
    let names = Model::read(&model).unwrap().names;
    let role = skds::data::cells::CellRole::Test(&names, None);
    assert_eq!(Dataset::read_cells_for(&moved, &settings, &role).unwrap().labels, ["A", "A+B"]);
    // One that sets a mean has the label of its target.
    passes(&["sample", &model, "--from", SCREEN, "--set", "C=2", "-o", &moved]);
    assert_eq!(Dataset::read_cells_for(&moved, &settings, &role).unwrap().labels, ["C"]);
}

#[test]
fn suggestions_are_what_nobody_made() {
    let folder = tempfile::tempdir().unwrap();
    let model = fitted(folder.path());
    let asked = |more: &[&str]| -> Value {
        let (out, _) =
            passes(&[&["suggest", &model, "--from", SCREEN, "--refits", "4", "--json"], more].concat());
        serde_json::from_str(&out).unwrap()
    };
    let singles = asked(&[]);
    assert_eq!(singles["candidates"], 4);
    let targets: Vec<&Value> =
        singles["suggestions"].as_array().unwrap().iter().map(|found| &found["targets"][0]).collect();
    assert!(targets.iter().all(|target| **target != "A" && **target != "B"), "{targets:?}");
    // All pairs but A+B.
    assert_eq!(asked(&["--pairs"])["candidates"], 4 + 14);
    let there = asked(&["--towards", "D=0.5", "--towards", "E=1", "--top", "2"]);
    assert_eq!(there["suggestions"].as_array().unwrap().len(), 2);
    let (out, _) = passes(&["suggest", &model, "--from", SCREEN, "--refits", "3", "--top", "2"]);
    assert!(out.contains("The best 2 of 4 perturbations") && out.contains("(assumed)"), "{out}");
    for (more, piece) in [
        (&["--towards", "Z=1"][..], "unknown variable 'Z', expected one of A"),
        (&["--towards", "D"], "expected NAME=V"),
        (&["--refits", "1"], "1 refits are asked for, expected 2 to"),
        (&["--top", "0"], "0 suggestions are asked for"),
        (&["--separator", ""], "the separator is empty"),
    ] {
        let sentence = refused(&[&["suggest", &model, "--from", SCREEN], more].concat());
        assert!(sentence.contains(piece), "{sentence}");
    }
}

#[test]
fn wrong_cells_get_a_sentence_and_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let model = at("model.safetensors");
    let table = at("table.npz");
    crate::common::random_data(3, &[40], 6).write(&table).unwrap();
    for (args, piece) in [
        (vec![SCREEN], "no column of perturbations is given"),
        (vec![SCREEN, "--perturbation", "guide"], "obs has no column 'guide', expected one of"),
        (vec![SCREEN, "--perturbation", "perturbation", "--control", "mock"], "found the labels 'A'"),
        (
            vec![SCREEN, "--perturbation", "perturbation", "--layer", "raw"],
            "has no layer 'raw', expected one of 'doubled'",
        ),
        (vec![SCREEN, "--perturbation", "perturbation", "--genes", "hvg:0"], "a number above 0"),
        (
            vec![SCREEN, "--perturbation", "perturbation", "--normalize", "log2"],
            "expected one of auto, log1p, none",
        ),
        (
            vec![SCREEN, "--perturbation", "perturbation", "--targets", &table],
            "the labels of cells say what was perturbed",
        ),
        (vec![SCREEN, "--perturbation", "perturbation", "--min-cells", "26"], "too few cells: 'A (22)'"),
        (vec![&table, "--layer", "raw"], "--layer is given with"),
        (vec![&table, "--genes", "all"], "--genes is given with"),
        (vec!["no.h5ad", "--perturbation", "perturbation"], "cannot read no.h5ad"),
    ] {
        let sentence = refused(&[&["fit"], &args[..], &["-o", &model]].concat());
        assert!(sentence.contains(piece), "{sentence}");
        assert!(!Path::new(&model).exists(), "{args:?}");
    }
    let model = fitted(folder.path());
    for (args, piece) in [
        (vec!["sample", &model, "--from", SCREEN, "--perturb", "Q"], "unknown variable 'Q'"),
        (vec!["sample", &model, "--perturb", "A"], "--from"),
        (vec!["sample", &model, "--from", SCREEN, "--perturb", "A", "--set", "B=1"], "cannot be used with"),
        (vec!["sample", &model, "--layer", "raw"], "--layer is given without data"),
        (vec!["evaluate", &model, &table, "--control", "NT"], "--control is given with"),
    ] {
        let sentence = refused(&args);
        assert!(sentence.contains(piece), "{sentence}");
    }
}
