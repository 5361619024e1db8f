//! `skds evaluate` as a person runs it: scores, and one clear sentence for every wrong input.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use skds::Matrix;
use skds::data::{Dataset, Standardization};
use skds::model::{Activation, Drift, MlpDrift, Model, Noise, Parameters};
use skds::sample::Gaussian;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn skds(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds")).arg("evaluate").args(args).output().unwrap()
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = skds(&[args, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn weights() -> Matrix<f64> {
    Matrix::from_rows(3, 3, vec![-1.0, 0.4, 0.0, 0.4, -1.0, -0.3, 0.0, -0.3, -1.0])
}

fn names() -> Vec<String> {
    ["a", "b", "c"].map(String::from).to_vec()
}

/// The truth, as a model in units of its own.
fn truth(standardization: Option<Standardization>) -> Model {
    let parameters = Parameters {
        drift: Drift::linear(weights()),
        biases: vec![0.3, 0.0, -0.2],
        noise: Noise::Diagonal { log_noise: vec![-0.3; 3] },
        shift: None,
        log_scale: None,
    };
    Model { names: names(), standardization, ..Model::new(parameters) }
}

/// Environments of the truth with `b` and then `c` pushed.
fn test_data() -> Dataset {
    let a = Matrix::from_fn(3, 3, |i, j| if i == j { (-0.6f64).exp() } else { 0.0 });
    let environments = [(1, 2.0), (2, -3.0)]
        .map(|(j, by)| {
            let mut biases = vec![0.3, 0.0, -0.2];
            biases[j] += by;
            let law = Gaussian::stationary(&weights(), &biases, &a).unwrap();
            law.draw(300, &mut ChaCha8Rng::seed_from_u64(j as u64)).unwrap()
        })
        .to_vec();
    let targets = Matrix::from_fn(2, 3, |e, j| j == e + 1);
    Dataset::from_environments(environments)
        .unwrap()
        .with_targets(targets)
        .unwrap()
        .with_names(names())
        .unwrap()
}

/// The truth at rest, and with each variable pushed alone; the observational environment comes last.
fn train_data() -> Dataset {
    let a = Matrix::from_fn(3, 3, |i, j| if i == j { (-0.6f64).exp() } else { 0.0 });
    let environments = (0..4)
        .map(|e| {
            let mut biases = vec![0.3, 0.0, -0.2];
            if e < 3 {
                biases[e] += 1.5;
            }
            let law = Gaussian::stationary(&weights(), &biases, &a).unwrap();
            law.draw(400, &mut ChaCha8Rng::seed_from_u64(10 + e as u64)).unwrap()
        })
        .collect();
    let targets = Matrix::from_fn(4, 3, |e, j| e == j);
    let data = Dataset::from_environments(environments).unwrap();
    data.with_targets(targets).unwrap().with_names(names()).unwrap()
}

struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Files { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn model(&self, model: &Model) -> String {
        let path = self.path("model.safetensors");
        model.save(&path).unwrap();
        text(&path)
    }

    fn data(&self, data: &Dataset) -> String {
        let path = self.path("test.npz");
        data.write(&path).unwrap();
        text(&path)
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_truth_predicts_itself_and_an_independent_model_does_not() {
    let files = Files::new();
    let test = files.data(&test_data());
    let report = json(&[&files.model(&truth(None)), &test, "--device", "cpu"]);
    assert_eq!((report["environments"].as_u64(), report["unstable"].as_u64()), (Some(2), Some(0)));
    let (mse, w2) = (report["median"]["mse"].as_f64().unwrap(), report["median"]["w2"].as_f64().unwrap());
    assert!(mse < 0.02 && w2 < 0.5, "{report}");
    // The shifts are those that were made, but for the error of 300 samples.
    let shift = |e: usize| report["predictions"][e]["shifts"][0].as_f64().unwrap();
    assert!((shift(0) - 2.0).abs() < 0.3 && (shift(1) + 3.0).abs() < 0.3, "{report}");
    assert_eq!(report["predictions"][0]["targets"][0], "b");

    let mut independent = truth(None);
    let identity = Matrix::from_fn(3, 3, |i, j| if i == j { -1.0 } else { 0.0 });
    independent.parameters.drift = Drift::linear(identity);
    let worse = json(&[&files.model(&independent), &test, "--device", "cpu"]);
    assert!(worse["median"]["mse"].as_f64().unwrap() > 5.0 * mse, "{worse}");

    // As text, with the same seed: the same bytes twice.
    let args = [files.model(&truth(None)), test];
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (one, two) = (skds(&args), skds(&args));
    assert_eq!(one.stdout, two.stdout);
    let printed = String::from_utf8(one.stdout).unwrap();
    assert!(printed.contains("median") && printed.contains("0 of 2 predictions are unstable"), "{printed}");
}

#[test]
fn moved_rows_stand_beside_the_law_and_two_floors() {
    let files = Files::new();
    let (model, test) = (files.model(&truth(None)), files.data(&test_data()));
    let train = text(&files.path("train.npz"));
    train_data().write(Path::new(&train)).unwrap();
    let plain = json(&[&model, &test]);
    let report = json(&[&model, &test, "--from", &train]);
    // What was there stays as it is.
    assert!(plain.get("anchored").is_none() && plain.get("floors").is_none(), "{plain}");
    for (key, value) in plain.as_object().unwrap() {
        assert_eq!(&report[key], value, "{key}");
    }
    // The truth moves the rows as they moved, but for the error of 300 and 400 samples.
    let median = |what: &serde_json::Value, name: &str| what["median"][name].as_f64().unwrap();
    assert!(median(&report["anchored"], "mse") < 0.02 && median(&report["anchored"], "w2") < 0.5, "{report}");
    assert!(median(&report["anchored"], "sinkhorn") < 0.3, "{report}");

    // Nothing moves but the targets: by hand.
    let (test_rows, rest) = (test_data(), train_data().environment(3));
    let none: Vec<f64> = (0..2)
        .map(|e| {
            let truth = test_rows.means(e);
            let means = train_data().means(3);
            (0..3).filter(|j| *j != e + 1).map(|j| (truth[j] - means[j]).powi(2)).sum::<f64>() / 3.0
        })
        .collect();
    let found = |name: &str, e: usize| report["floors"][name]["scores"][e]["mse"].as_f64().unwrap();
    for e in 0..2 {
        assert!((found("none", e) - none[e]).abs() < 1e-9, "{report}");
    }
    assert!(median(&report["floors"]["none"], "w2") > 2.0 * median(&report["anchored"], "w2"), "{report}");
    let mut moved = rest.clone();
    let by = test_rows.means(0)[1] - train_data().means(3)[1];
    (0..400).for_each(|i| moved[(i, 1)] += by);
    let first = Matrix::from_rows(300, 3, moved.rows_slice(0..300).to_vec());
    let w2 = skds::metric::wasserstein2(&first, &test_rows.environment(0)).unwrap();
    assert!((report["floors"]["none"]["scores"][0]["w2"].as_f64().unwrap() - w2).abs() < 1e-9);
    // No test environment is a combination.
    assert!(report["floors"]["additive"].is_null(), "{report}");

    let printed = String::from_utf8(skds(&[&model, &test, "--from", &train]).stdout).unwrap();
    for piece in ["samples of the law", "anchored at the data", "floor: no effect"] {
        assert!(printed.contains(piece), "{printed}");
    }
    assert!(!printed.contains("floor: additive"), "{printed}");
}

#[test]
fn single_interventions_that_were_seen_add_up_to_a_combination() {
    let files = Files::new();
    let (model, train) = (files.model(&truth(None)), text(&files.path("train.npz")));
    // By hand: at rest, a alone, b alone; then a and b together, b alone, and b with c, which was never alone.
    let environment =
        |means: [f64; 3]| Matrix::from_fn(4, 3, |i, j| means[j] + if (i + j) % 2 == 0 { 0.5 } else { -0.5 });
    let with = |means: &[[f64; 3]], targets: &[[bool; 3]]| {
        let data = Dataset::from_environments(means.iter().map(|m| environment(*m)).collect()).unwrap();
        let targets = Matrix::from_fn(targets.len(), 3, |e, j| targets[e][j]);
        data.with_targets(targets).unwrap().with_names(names()).unwrap()
    };
    let seen = [[0.0, 1.0, 2.0], [1.0, 1.5, 2.0], [0.0, 3.0, 1.0]];
    let (a, b) = ([true, false, false], [false, true, false]);
    with(&seen, &[[false; 3], a, b]).write(Path::new(&train)).unwrap();
    let tested = [[2.0, 3.0, 1.5], [0.0, 2.0, 2.0], [0.0, 0.0, 0.0]];
    let test = files.data(&with(&tested, &[[true, true, false], b, [false, true, true]]));
    let report = json(&[&model, &test, "--from", &train]);
    let additive = &report["floors"]["additive"];
    // (0, 1, 2) + (1, 0.5, 0) + (0, 2, −1) = (1, 3.5, 1) against (2, 3, 1.5): mse (1 + 0.25 + 0.25) / 3.
    assert!((additive["median"]["mse"].as_f64().unwrap() - 0.5).abs() < 1e-12, "{report}");
    assert!((additive["median"]["w2"].as_f64().unwrap() - 1.5).abs() < 1e-12, "{report}");
    assert!(additive["median"]["sinkhorn"].is_number() && additive["environments"] == 1, "{report}");
    assert!(additive["scores"][1].is_null() && additive["scores"][2].is_null(), "{report}");
    let printed = String::from_utf8(skds(&[&model, &test, "--from", &train]).stdout).unwrap();
    assert!(printed.contains("floor: additive") && printed.contains("over 1 of 3 environments"), "{printed}");
}

#[test]
fn the_search_and_the_gpu_agree_with_the_closed_form() {
    let files = Files::new();
    let test = files.data(&test_data());
    let model = files.model(&truth(None));
    let exact = json(&[&model, &test, "--device", "cpu"]);
    for device in ["cpu", "gpu"] {
        let searched = json(&[&model, &test, "--method", "euler", "--device", device]);
        for e in 0..2 {
            let shift = |report: &serde_json::Value| report["predictions"][e]["shifts"][0].as_f64().unwrap();
            assert!((shift(&exact) - shift(&searched)).abs() < 0.15, "{device} {exact} {searched}");
        }
        assert!(searched["median"]["w2"].as_f64().unwrap() < 0.5, "{device} {searched}");
    }
}

#[test]
fn unstable_predictions_are_counted() {
    let files = Files::new();
    let test = files.data(&test_data());
    let mut unstable = truth(None);
    unstable.parameters.drift =
        Drift::linear(Matrix::from_rows(3, 3, vec![-1.0, 2.0, 0.0, 2.0, -1.0, 0.0, 0.0, 0.0, -1.0]));
    let output = skds(&[&files.model(&unstable), &test]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("2 of 2 predictions are unstable"), "{printed}");
}

#[test]
fn distances_are_in_the_models_units() {
    let files = Files::new();
    let test = files.data(&test_data());
    let plain = json(&[&files.model(&truth(None)), &test, "--device", "cpu"]);
    // The same law told in tenths: b' = W x' + biases / 0.1 with σ / 0.1.
    let mut scaled = truth(Some(Standardization { mean: vec![0.0; 3], scale: vec![0.1; 3] }));
    scaled.parameters.biases.iter_mut().for_each(|b| *b *= 10.0);
    let Noise::Diagonal { log_noise } = &mut scaled.parameters.noise else { unreachable!() };
    log_noise.iter_mut().for_each(|l| *l += 10f64.ln());
    let tenths = json(&[&files.model(&scaled), &test, "--device", "cpu"]);
    let w2 = |report: &serde_json::Value| report["median"]["w2"].as_f64().unwrap();
    assert!((w2(&tenths) / w2(&plain) - 100.0).abs() < 1e-6 * 100.0, "{} {}", w2(&tenths), w2(&plain));
}

#[test]
fn wrong_inputs_get_one_sentence() {
    let files = Files::new();
    let (test, model) = (files.data(&test_data()), files.model(&truth(None)));
    let refused = |args: &[&str], pieces: &[&str]| {
        let output = skds(args);
        let sentence = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {sentence}");
        assert!(output.stdout.is_empty() && !sentence.contains("panicked"), "{args:?}: {sentence}");
        for piece in pieces {
            assert!(sentence.contains(piece), "{args:?} should say '{piece}': {sentence}");
        }
    };
    refused(&["nowhere.safetensors", &test], &["cannot read nowhere.safetensors"]);
    refused(&[&model, "nowhere.npz"], &["cannot read nowhere.npz"]);
    refused(&[&test, &test], &["test.npz"]);
    refused(&[&model, &model], &["model.safetensors"]);
    refused(&[&model, &test, "--method", "exactly"], &["exactly", "auto"]);
    refused(&[&model, &test, "--method", "euler", "--device", "no such card"], &["no such card"]);
    refused(&[&model, &test, "--method", "exact", "--nonnegative"], &["nonnegative"]);

    let train = text(&files.path("train.npz"));
    test_data().write(Path::new(&train)).unwrap();
    let from = |path: &str, pieces: &[&str]| refused(&[&model, &test, "--from", path], pieces);
    from("nowhere.npz", &["cannot read nowhere.npz"]);
    from(
        &train,
        &["all 2 environments of the data to start from have targets, expected one without targets"],
    );
    train_data()
        .with_names(["a", "b", "z"].map(String::from).to_vec())
        .unwrap()
        .write(Path::new(&train))
        .unwrap();
    from(&train, &["variable 2 of the data to start from is 'z', expected 'c'"]);

    // Other variables, fewer variables, an environment without a target, NaN.
    let write = |name: &str, text: &str| {
        std::fs::write(files.path(name), text).unwrap();
        files.path(name).to_str().unwrap().to_owned()
    };
    let csv = write("other.csv", "env,a,b,z\n0,1,2,3\n0,2,1,0\n");
    let targets = write("targets.csv", "a,b,z\n1,0,0\n");
    refused(&[&model, &csv, "--targets", &targets], &["variable 2 of the test data is 'z'", "expected 'c'"]);
    let fewer = write("fewer.csv", "env,a,b\n0,1,2\n0,2,1\n");
    let few = write("few.csv", "a,b\n1,0\n");
    refused(&[&model, &fewer, "--targets", &few], &["2 variables, expected 3"]);
    let good = write("good.csv", "env,a,b,c\n0,1,2,3\n0,2,1,0\n");
    refused(&[&model, &good], &["test environment 0 has no target"]);
    let unknown = write("unknown.csv", "a,b,insulin\n1,0,0\n");
    refused(&[&model, &good, "--targets", &unknown], &["insulin"]);
    let nan = write("nan.csv", "env,a,b,c\n0,1,NaN,3\n0,2,1,0\n");
    refused(&[&model, &nan], &["NaN"]);
    let ragged = write("ragged.csv", "env,a,b,c\n0,1,2\n0,2,1,0\n");
    refused(&[&model, &ragged], &["ragged.csv"]);

    // An MLP has no exact law.
    let mut network = truth(None);
    network.parameters.drift = Drift::Mlp(MlpDrift {
        activation: Activation::Tanh,
        hidden_weights: Matrix::full(3, 3, 0.1),
        hidden_biases: Matrix::full(3, 1, 0.0),
        output_weights: Matrix::full(3, 1, 0.1),
    });
    let network = files.model(&network);
    refused(&[&network, &test, "--method", "exact"], &["the drift is not linear"]);
}
