//! `skds fit` with the exact solver: the minimum, its settings chosen, and refusals.

use crate::common::random_data;
use skds::Matrix;
use skds::data::{Dataset, Standardization};
use skds::engine::{Engine, LossSpec, cpu::CpuEngine};
use skds::kernel::Kernel;
use skds::model::{Model, Penalty, PenaltyKind};
use skds::objective::{Estimator, Objective};
use std::path::Path;
use std::process::{Command, Output};

fn fit(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds")).arg("fit").args(args).args(["--device", "cpu"]).output().unwrap()
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = fit(&[args, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Lines before the last are of work that takes a while.
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

/// Environments of 4 variables, all but the first with a target.
fn data(folder: &Path, environments: usize) -> (Dataset, String) {
    let rows: Vec<usize> = (0..environments).map(|e| 120 + 10 * e).collect();
    let targets = Matrix::from_fn(environments, 4, |e, j| e > 0 && j == (e - 1) % 4);
    let data = random_data(3, &rows, 4).with_targets(targets).unwrap();
    let path = folder.join("data.npz");
    data.write(&path).unwrap();
    (data, path.to_str().unwrap().to_owned())
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_exact_minimum_is_below_what_adam_reaches() {
    let folder = tempfile::tempdir().unwrap();
    let (data, name) = data(folder.path(), 3);
    let path = folder.path().join("exact.safetensors");
    let given = ["--bandwidth", "2", "--penalty", "both", "--lambda", "0.2"];
    let report = json(&[&[&name, "-o", &text(&path)][..], &given].concat());
    assert_eq!((report["solver"].as_str(), report["estimator"].as_str()), (Some("exact"), Some("v")));
    assert!(report["violation"].as_f64().unwrap() < 1e-8, "{report}");
    let objective = |path: &Path| {
        let model = Model::read(path).unwrap();
        let (data, model) = (Standardization::of(&data).apply(&data), model.in_standard_units());
        let spec = LossSpec {
            objective: Objective::Skds,
            kernel: Kernel::TiltedRbf { bandwidth: 2.0 },
            estimator: Estimator::V,
        };
        let loss = CpuEngine.load(&data, &spec).unwrap().evaluate(&model.parameters, None).unwrap();
        loss + Penalty::new(PenaltyKind::Both, 0.2).value(&model.parameters).unwrap()
    };
    let exact = objective(&path);
    assert!((exact - report["loss"].as_f64().unwrap() - report["penalty"].as_f64().unwrap()).abs() < 1e-10);
    for seed in ["1", "2", "3"] {
        let other = folder.path().join("adam.safetensors");
        let adam = [
            "--solver",
            "adam",
            "--estimator",
            "v",
            "--steps",
            "3000",
            "--batch",
            "140",
            "--envs-per-step",
            "all",
        ];
        let rest = ["--learning-rate", "0.01", "--seed", seed];
        let output = fit(&[&[&name, "-o", &text(&other)][..], &given, &adam, &rest].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let reached = objective(&other);
        assert!(exact <= reached && reached < exact + 1e-3, "{exact} {reached}");
    }
    // The same bytes again, and the settings inside.
    let first = std::fs::read(&path).unwrap();
    json(&[&[&name, "-o", &text(&path)][..], &given].concat());
    assert_eq!(std::fs::read(&path).unwrap(), first);
    let model = Model::read(&path).unwrap();
    assert_eq!(
        (model.settings["solver"].as_str(), model.settings["bandwidth"].as_str()),
        (Some("exact"), Some("2"))
    );
}

#[test]
fn a_newcomer_gets_settings_chosen_with_evidence() {
    let folder = tempfile::tempdir().unwrap();
    // Seven environments to leave out, and two: then rows are.
    for (environments, held_out, folds) in [(8, "environments", 7), (3, "rows", 6)] {
        let (_, name) = data(folder.path(), environments);
        let path = folder.path().join("model.safetensors");
        let report = json(&[&name, "-o", &text(&path)]);
        let tuning = &report["tuning"];
        assert_eq!((tuning["held_out"].as_str(), tuning["folds"].as_u64()), (Some(held_out), Some(folds)));
        let cells = tuning["cells"].as_array().unwrap();
        // Six penalties of KDS by moments, three of structural equations, four of SKDS at each of two bandwidths, and none.
        assert_eq!(cells.len(), 18);
        let weights: f64 = cells.iter().map(|cell| cell["weight"].as_f64().unwrap()).sum();
        assert!((weights - 1.0).abs() < 1e-12);
        let of = |method: &str| cells.iter().filter(|cell| cell["method"] == method).count();
        assert_eq!((of("kds"), of("skds"), of("structural"), of("none")), (6, 8, 3, 1));
        // Where rows are held out, nothing is known of what interventions do.
        assert_eq!(tuning["outlook"].is_object(), held_out == "environments");
        assert!(report["stable"].as_bool().unwrap());
        let table = std::fs::read_to_string(folder.path().join("model.tuning.csv")).unwrap();
        assert_eq!(table.lines().count(), 19);
        assert!(table.starts_with("method,bandwidth,penalty,lambda,score,error,ratio,weight\n"));
        let picture = std::fs::read_to_string(folder.path().join("model.tuning.svg")).unwrap();
        assert!(picture.contains("KDS by moments") && picture.contains("over that of no effect"));
        let first = std::fs::read(&path).unwrap();
        let printed = fit(&[&name, "-o", &text(&path)]);
        assert_eq!(std::fs::read(&path).unwrap(), first);
        let printed = String::from_utf8(printed.stdout).unwrap();
        let expected = match held_out {
            "environments" => ["the 7 left-out interventions", "relative to no effect"],
            _ => ["the held-out rows of 6 bootstrap samples", "Warning: Only 2 interventions are known"],
        };
        assert!(expected.iter().all(|piece| printed.contains(piece)), "{printed}");
    }
}

#[test]
fn intervals_hold_the_effects_and_go_into_the_graph() {
    let folder = tempfile::tempdir().unwrap();
    let (_, name) = data(folder.path(), 3);
    let path = folder.path().join("model.safetensors");
    json(&[&name, "-o", &text(&path), "--bandwidth", "2", "--lambda", "0", "--bootstrap", "40"]);
    let model = Model::read(&path).unwrap();
    let intervals = model.intervals.as_ref().unwrap();
    let [weights, low, high] = [&model.parameters, &intervals.low, &intervals.high]
        .map(|parameters| parameters.drift.linear_weights().unwrap());
    let inside = |(i, j): (usize, usize)| low[(i, j)] <= weights[(i, j)] && weights[(i, j)] <= high[(i, j)];
    let places: Vec<(usize, usize)> =
        (0..4).flat_map(|i| (0..4).map(move |j| (i, j))).filter(|(i, j)| i != j).collect();
    assert!(places.iter().filter(|place| inside(**place)).count() >= 10);
    assert!(places.iter().all(|place| low[*place] < high[*place]));
    let csv = folder.path().join("effects.csv");
    let output = Command::new(env!("CARGO_BIN_EXE_skds"))
        .args(["graph", &text(&path), "-o", &text(&csv)])
        .output()
        .unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("interval"));
    assert!(std::fs::read_to_string(csv).unwrap().starts_with("source,target,strength,standard,low,high\n"));
}

#[test]
fn wrong_options_get_one_sentence_and_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (_, name) = data(folder.path(), 3);
    let path = folder.path().join("model.safetensors");
    let out = text(&path);
    for (options, pieces) in [
        (&["--solver", "exact", "--model", "mlp"][..], &["exact", "model linear"][..]),
        (&["--kernel", "quadratic", "--bandwidth", "2"], &["bandwidth is given with the kernel quadratic"]),
        (
            &["--solver", "exact", "--estimator", "linear"],
            &["the estimator linear is given with the exact solver"],
        ),
        (&["--solver", "newton"], &["newton", "exact"]),
        (&["--tune", "--solver", "adam"], &["expected the exact solver"]),
        (&["--bootstrap", "5", "--lambda", "1"], &["bootstrap is 5, expected at least 20"]),
        (&["--bootstrap", "50", "--solver", "adam"], &["expected the exact solver"]),
        (&["--lambda", "-1"], &["lambda is -1"]),
    ] {
        let output = fit(&[&[name.as_str(), "-o", &out], options].concat());
        let sentence = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {sentence}");
        assert!(pieces.iter().all(|piece| sentence.contains(piece)), "{options:?}: {sentence}");
        assert!(!sentence.contains("panicked") && !path.exists());
    }
}

#[test]
fn one_variable_and_duplicated_variables_are_no_trouble_or_say_what_is() {
    let folder = tempfile::tempdir().unwrap();
    let write = |data: &Dataset| {
        let path = folder.path().join("data.npz");
        data.write(&path).unwrap();
        text(&path)
    };
    let out = text(&folder.path().join("model.safetensors"));
    let single = random_data(1, &[60], 1);
    let report = json(&[&write(&single), "-o", &out, "--bandwidth", "1", "--lambda", "0.1"]);
    assert_eq!(report["spectral_abscissa"].as_f64(), Some(-1.0));
    // The second variable is the first: with a penalty the minimum is still one.
    let column = random_data(1, &[60], 1);
    let twice = Matrix::from_fn(60, 2, |i, _| column.samples()[(i, 0)]);
    let twice = Dataset::from_environments(vec![twice]).unwrap();
    let output = fit(&[&write(&twice), "-o", &out, "--bandwidth", "1", "--lambda", "0.1"]);
    let sentence = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() || output.status.code() == Some(1), "{sentence}");
    assert!(!sentence.contains("panicked"), "{sentence}");
    // A constant variable has no noise to speak of, or no standard deviation to divide by.
    let constant = Matrix::from_fn(60, 2, |i, j| if j == 0 { column.samples()[(i, 0)] } else { 3.0 });
    let constant = Dataset::from_environments(vec![constant]).unwrap();
    let output = fit(&[&write(&constant), "-o", &out, "--bandwidth", "1", "--lambda", "0.1"]);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"));
}
