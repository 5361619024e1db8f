//! The default: candidates judged by left-out interventions, averaged where they predict alike; and what becomes of such models.

use serde_json::Value;
use skds::data::Dataset;
use skds::model::{LawKind, Model};
use std::path::Path;
use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds")).args(args).output().unwrap()
}

fn well(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(args: &[&str]) -> Value {
    let text = well(&[args, &["--json"]].concat());
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

/// A system with feedback: 6 variables, interventions on 4 to learn from, on 2 others to predict.
fn system(folder: &Path, kind: &str, seed: &str) -> [String; 3] {
    let at = |name: &str| folder.join(name).display().to_string();
    let sizes = ["--dim", "6", "--edges", "2", "--rows", "400", "--train-envs", "4", "--test-envs", "2"];
    let place = at(kind);
    well(&[&["simulate", kind, "-o", place.as_str(), "--seed", seed][..], &sizes].concat());
    [format!("{place}/train.npz"), format!("{place}/test.npz"), at("model.safetensors")]
}

#[test]
fn the_default_predicts_and_says_how_far_to_trust_it() {
    let folder = tempfile::tempdir().unwrap();
    let [train, test, model] = system(folder.path(), "sde", "3");
    let report = json(&["fit", &train, "-o", &model]);
    let tuning = &report["tuning"];
    assert_eq!((tuning["interventions"].as_u64(), tuning["folds"].as_u64()), (Some(4), Some(4)));
    let cells = tuning["cells"].as_array().unwrap();
    let none = cells.iter().find(|cell| cell["method"] == "none").unwrap();
    assert_eq!(none["ratio"].as_f64(), Some(1.0));
    let best = cells.iter().filter_map(|cell| cell["ratio"].as_f64()).fold(f64::INFINITY, f64::min);
    let outlook = &tuning["outlook"];
    let number = |key: &str| outlook[key].as_f64().unwrap();
    assert!(number("low") <= number("ratio") && number("ratio") <= number("high"));
    assert!(best < 0.6, "{best}");
    let scores = json(&["evaluate", &model, &test, "--from", &train]);
    let mse = |of: &Value| of["median"]["mse"].as_f64().unwrap();
    let (anchored, floor) = (mse(&scores["anchored"]), mse(&scores["floors"]["none"]));
    assert!(anchored < 0.7 * floor, "{anchored} {floor}");
}

#[test]
fn ensembles_are_sampled_drawn_and_given_intervals_but_have_no_loss() {
    let folder = tempfile::tempdir().unwrap();
    let [train, test, path] = system(folder.path(), "sde", "3");
    json(&["fit", &train, "-o", &path, "--bootstrap", "20"]);
    let model = Model::read(Path::new(&path)).unwrap();
    assert!(model.members.len() > 1, "this system is one where several predict alike");
    let weights: f64 = model.members.iter().map(|member| member.weight).sum();
    assert!((weights - 1.0).abs() < 1e-12);
    assert_eq!(model.settings["chosen"].as_array().unwrap().len(), model.members.len());

    let graph = json(&["graph", &path]);
    assert_eq!(graph["members"].as_u64(), Some(model.members.len() as u64));
    let weights = model.parameters.drift.linear_weights().unwrap();
    for effect in graph["effects"].as_array().unwrap() {
        let [with, all] = [0, 1].map(|k| effect["members"][k].as_u64().unwrap());
        assert!(with >= 1 && with <= all && all == model.members.len() as u64);
        let place = |key: &str| model.variable(effect[key].as_str().unwrap()).unwrap();
        let strength = weights[(place("target"), place("source"))];
        assert_eq!(effect["strength"].as_f64(), Some(strength));
        let [low, high] = [0, 1].map(|k| effect["interval"][k].as_f64().unwrap());
        assert!(low <= high);
    }
    assert!(well(&["graph", &path]).contains(" of "));

    // The mean that is set is met, by samples of the law and by rows that are moved.
    let out = folder.path().join("moved.npz").display().to_string();
    well(&["sample", &path, "--from", &train, "--set", "x1=2", "-o", &out]);
    let moved = Dataset::read(&out).unwrap();
    assert!((moved.means(0)[1] - 2.0).abs() < 1e-9);
    let set = json(&["sample", &path, "--set", "x1=2", "-n", "4000"]);
    assert!((set["variables"][1]["mean"].as_f64().unwrap() - 2.0).abs() < 0.1);
    let raised = json(&["sample", &path, "--nonnegative", "-n", "100"]);
    assert!(raised["variables"].as_array().unwrap().iter().all(|v| v["mean"].as_f64().unwrap() >= 0.0));
    json(&["evaluate", &path, &test]);

    for (args, piece) in [
        (&["loss", &train, "--params", &path][..], "fits, expected a single one"),
        (&["sample", &path, "--method", "euler"], "an average of several"),
    ] {
        let output = run(args);
        let sentence = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{sentence}");
        assert!(sentence.contains(piece), "{sentence}");
    }
}

#[test]
fn structural_equations_have_their_own_law() {
    let folder = tempfile::tempdir().unwrap();
    let [train, test, path] = system(folder.path(), "scm", "5");
    let printed = well(&["fit", &train, "-o", &path, "--law", "structural", "--lambda", "0.01"]);
    assert!(printed.starts_with("structural equations, linear model, ingoing penalty 0.01"), "{printed}");
    assert!(!printed.contains("spectral abscissa"), "{printed}");
    let model = Model::read(Path::new(&path)).unwrap();
    assert_eq!((model.law, model.members.len()), (LawKind::Structural, 0));
    assert!(well(&["graph", &path]).starts_with("linear model of structural equations"));
    // Its law has the variances of the data, which a diffusion with the same drift does not have.
    let data = Dataset::read(Path::new(&train)).unwrap();
    let drawn = json(&["sample", &path, "-n", "20000"]);
    let rest = data.environment(0);
    for j in 0..6 {
        let deviation = drawn["variables"][j]["sd"].as_f64().unwrap();
        let mean = data.means(0)[j];
        let squares: f64 = (0..rest.rows()).map(|i| (rest[(i, j)] - mean).powi(2)).sum();
        let observed = (squares / rest.rows() as f64).sqrt();
        assert!((deviation / observed - 1.0).abs() < 0.2, "x{j}: {deviation} {observed}");
    }
    let scores = json(&["evaluate", &path, &test, "--from", &train]);
    assert!(scores["anchored"]["median"]["mse"].as_f64().unwrap().is_finite());
    let refused = run(&["sample", &path, "--method", "euler"]);
    assert!(String::from_utf8(refused.stderr).unwrap().contains("consists of structural equations"));
}

#[test]
fn what_is_given_is_all_that_is_considered_beside_no_effect() {
    let folder = tempfile::tempdir().unwrap();
    let [train, _, path] = system(folder.path(), "sde", "3");
    for (options, methods) in [
        (&["--objective", "kds"][..], &["kds", "none"][..]),
        (&["--objective", "skds"], &["skds", "none"]),
        (&["--law", "structural"], &["structural", "none"]),
        (&["--law", "diffusion"], &["kds", "skds", "none"]),
        (&["--learn-scale"], &["kds", "skds", "none"]),
    ] {
        let report = json(&[&["fit", &train, "-o", &path], options].concat());
        let cells = report["tuning"]["cells"].as_array().unwrap();
        let found: std::collections::BTreeSet<&str> =
            cells.iter().map(|cell| cell["method"].as_str().unwrap()).collect();
        assert_eq!(found, methods.iter().copied().collect(), "{options:?}");
    }
}

#[test]
fn with_unknown_targets_rows_are_held_out_and_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let [train, _, path] = system(folder.path(), "sde", "3");
    let printed = well(&["fit", &train, "-o", &path, "--targets", "unknown"]);
    assert!(
        printed.contains(
            "Warning: No interventions are known; testing predictions of interventions takes at least 3"
        ),
        "{printed}"
    );
    assert!(printed.contains("not what an intervention does"), "{printed}");
}

#[test]
fn noise_has_no_effects() {
    let folder = tempfile::tempdir().unwrap();
    // Independent variables; an intervention moves its target and nothing else.
    let mut state = 7u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut environment = |e: usize| {
        let moved = |j: usize| if e > 0 && j == e - 1 { 3.0 } else { 0.0 };
        skds::Matrix::from_fn(300, 5, |_, j| moved(j) + (0..12).map(|_| uniform()).sum::<f64>() - 6.0)
    };
    let data = Dataset::from_environments((0..6).map(&mut environment).collect()).unwrap();
    let targets = skds::Matrix::from_fn(6, 5, |e, j| e > 0 && j == e - 1);
    let train = folder.path().join("noise.npz");
    data.with_targets(targets).unwrap().write(&train).unwrap();
    let (train, path) =
        (train.display().to_string(), folder.path().join("m.safetensors").display().to_string());
    let report = json(&["fit", &train, "-o", &path]);
    let none = report["tuning"]["cells"].as_array().unwrap().iter().find(|cell| cell["method"] == "none");
    assert!(none.unwrap()["weight"].as_f64().unwrap() > 0.1, "{none:?}");
    assert!(report["tuning"]["outlook"]["high"].as_f64().unwrap() > 0.9);
}
