//! `skds graph` as a person runs it: the table, the files, the picture, and a sentence for every wrong input.

use skds::Matrix;
use skds::data::Standardization;
use skds::model::{Activation, Drift, Model};
use std::path::Path;
use std::process::{Command, Output};

fn skds(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds")).args(args).output().unwrap()
}

fn succeeded(args: &[&str]) -> String {
    let output = skds(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs with bad input: exit code 2, nothing on standard output, one line that contains every given piece.
fn refused(args: &[&str], pieces: &[&str]) {
    let output = skds(args);
    let sentence = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {sentence}");
    assert!(output.stdout.is_empty(), "{args:?}");
    assert!(sentence.starts_with("error: ") && !sentence.contains("panicked"), "{sentence}");
    for piece in pieces {
        assert!(sentence.contains(piece), "{args:?} should say '{piece}': {sentence}");
    }
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

const NAMES: [&str; 3] = ["a\"b", "<x>", "ä,ö"];

/// Three variables with awkward names and four effects.
fn small(folder: &Path) -> String {
    let mut parameters = crate::common::random_parameters(1, 3, 1, None, false);
    let weights = Matrix::from_rows(3, 3, vec![-1.0, 0.5, 0.0, -2.0, -1.0, 0.25, 1e-7, 0.0, -1.0]);
    parameters.drift = Drift::linear(weights);
    let model = Model { names: NAMES.map(String::from).to_vec(), ..Model::new(parameters) };
    let path = path(folder, "small.safetensors");
    model.save(Path::new(&path)).unwrap();
    path
}

/// Six variables, thirty effects, in standard units.
fn mlp(folder: &Path) -> String {
    let mut model = Model::new(crate::common::random_parameters(2, 6, 1, Some(Activation::Tanh), false));
    model.standardization = Some(Standardization { mean: vec![0.0; 6], scale: vec![2.0; 6] });
    let path = path(folder, "mlp.safetensors");
    model.save(Path::new(&path)).unwrap();
    path
}

#[test]
fn the_table_is_sorted_and_says_what_it_leaves_out() {
    let folder = tempfile::tempdir().unwrap();
    let model = small(folder.path());
    let expected = "linear model, 3 variables, 4 effects, original units

source  target   strength
a\"b     <x>       -2.0000
<x>     a\"b       +0.5000
ä,ö     <x>       +0.2500
a\"b     ä,ö     +1.000e-7

all 4 effects
";
    assert_eq!(succeeded(&["graph", &model]), expected);
    let text = succeeded(&["graph", &model, "--threshold", "0.25", "--top", "2"]);
    assert!(
        text.ends_with("\n\nthe strongest 2 of 3 effects of at least 0.25 in size; see --top\n"),
        "{text}"
    );
    let text = succeeded(&["graph", &model, "--threshold", "5"]);
    assert!(text.ends_with("original units\n\nno effects of at least 5 in size\n"), "{text}");

    let model = mlp(folder.path());
    let text = succeeded(&["graph", &model]);
    assert!(text.starts_with("mlp model, 6 variables, 30 effects, standard units\n"), "{text}");
    assert!(text.ends_with("the strongest 20 of 30 effects; see --top\n"), "{text}");
    assert_eq!(text.lines().count(), 25);
    assert_eq!(succeeded(&["graph", &model, "--top", "30"]).lines().count(), 35);
}

#[test]
fn json_has_every_selected_effect() {
    let folder = tempfile::tempdir().unwrap();
    let report = |args: &[&str]| -> serde_json::Value { serde_json::from_str(&succeeded(args)).unwrap() };
    let all = report(&["graph", &mlp(folder.path()), "--json"]);
    assert_eq!(
        (&all["model"], &all["standardized"], &all["total"]),
        (&"mlp".into(), &true.into(), &30.into())
    );
    assert_eq!(all["variables"].as_array().unwrap().len(), 6);
    let strengths: Vec<f64> =
        all["effects"].as_array().unwrap().iter().map(|e| e["strength"].as_f64().unwrap().abs()).collect();
    assert_eq!(strengths.len(), 30);
    assert!(strengths.is_sorted_by(|a, b| a >= b));
    let some = report(&["graph", &small(folder.path()), "--threshold", "1", "--json"]);
    let expected = serde_json::json!([{ "source": NAMES[0], "target": NAMES[1], "strength": -2.0 }]);
    assert_eq!((&some["effects"], &some["total"], &some["threshold"]), (&expected, &4.into(), &1.0.into()));
}

#[test]
fn files_hold_the_selection_and_are_the_same_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let model = small(folder.path());
    for (name, pieces) in [
        ("graph.csv", &["source,target,strength\n\"a\"\"b\",<x>,-2.0\n", "\"ä,ö\",<x>,0.25\n"][..]),
        ("graph.graphml", &["a&quot;b", "&lt;x&gt;", "ä,ö", "<edge source=\"n0\" target=\"n1\">"]),
        ("graph.dot", &["n0 [label=\"a\\\"b\"]", "label=\"<x>\"", "n0 -> n1 [strength=\"-2.0\""]),
        ("effects.svg", &["a&quot;b", "&lt;x&gt;", "ä,ö", "\nsource\n", "\ntarget\n", "\n−2\n"]),
    ] {
        let write = |file: &str| {
            let file = path(folder.path(), file);
            let option = if name.ends_with("svg") { "--heatmap" } else { "--output" };
            let text = succeeded(&["graph", &model, "--threshold", "0.1", option, &file]);
            assert!(text.contains(&file), "{text}");
            std::fs::read_to_string(file).unwrap()
        };
        let text = write(name);
        for piece in pieces {
            assert!(text.contains(piece), "{name}: {piece} in {text}");
        }
        assert!(!text.contains("e-7") && !text.contains("0000001"), "{text}");
        assert_eq!(text, write(&format!("again.{name}")));
    }
    // Files have all effects where the table has 20.
    let csv = path(folder.path(), "all.csv");
    let text = succeeded(&["graph", &mlp(folder.path()), "-o", &csv]);
    assert!(text.contains("the strongest 20 of 30") && text.contains("30 effects written to"), "{text}");
    assert_eq!(csv::Reader::from_path(csv).unwrap().records().count(), 30);
}

#[test]
fn models_without_effects_are_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let model = path(folder.path(), "one.safetensors");
    crate::common::random_parameters(1, 1, 1, None, false).write(Path::new(&model)).unwrap();
    let (svg, dot) = (path(folder.path(), "one.svg"), path(folder.path(), "one.dot"));
    let text = succeeded(&["graph", &model, "--heatmap", &svg, "-o", &dot]);
    assert!(
        text.starts_with("linear model, 1 variables, 0 effects, original units\n\nno effects\n"),
        "{text}"
    );
    assert!(Path::new(&svg).exists() && Path::new(&dot).exists());
}

#[test]
fn wrong_input_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let model = small(folder.path());
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    let before = files();
    for bad in ["-1", "NaN", "inf", "much"] {
        refused(&["graph", &model, "--threshold", bad], &[&format!("'{bad}'"), "at least 0"]);
    }
    for bad in ["0", "-3", "1.5", "all"] {
        refused(&["graph", &model, "--top", bad], &[&format!("'{bad}'"), "at least 1"]);
    }
    refused(&["graph", "nowhere.safetensors"], &["cannot read nowhere.safetensors", "No such file"]);
    refused(&["graph"], &["MODEL"]);
    let known = &["expected one of .csv, .graphml, .dot"];
    refused(&["graph", &model, "-o", &path(folder.path(), "graph.gml")], known);
    refused(&["graph", &model, "-o", &path(folder.path(), "graph")], known);
    refused(
        &["graph", &model, "--heatmap", &path(folder.path(), "graph.pdf")],
        &["graph.pdf", "ends in .svg or .png"],
    );
    // The picture's name is looked at before the graph is written.
    let (csv, pdf) = (path(folder.path(), "graph.csv"), path(folder.path(), "graph.pdf"));
    refused(&["graph", &model, "-o", &csv, "--heatmap", &pdf], &["ends in .svg or .png"]);
    for (option, name) in [("-o", "no/such/graph.csv"), ("--heatmap", "no/such/graph.svg")] {
        refused(&["graph", &model, option, &path(folder.path(), name)], &["cannot write", name]);
    }
    assert_eq!(files(), before);
    let text = path(folder.path(), "text.safetensors");
    std::fs::write(&text, "not a model").unwrap();
    refused(&["graph", &text], &["text.safetensors", "safetensors file"]);
}

#[test]
fn help_has_examples() {
    let text = succeeded(&["graph", "--help"]);
    assert!(text.contains("Examples:") && text.contains("--threshold 0.1 -o effects.graphml"), "{text}");
}
