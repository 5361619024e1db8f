//! `skds loss` as a person runs it: answers, files, and one clear sentence for every wrong input.

use crate::common::{golden_cases, golden_dir, relative_error};
use skds::model::Parameters;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn skds(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds")).args(args).output().unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs with bad input: exit code 2, nothing on standard output, one line that contains every given piece.
fn refused(args: &[&str], pieces: &[&str]) {
    let output = skds(args);
    let sentence = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {sentence}");
    assert!(output.stdout.is_empty(), "{args:?}");
    let first = sentence.lines().next().unwrap_or_default();
    assert!(first.starts_with("error: "), "{sentence}");
    assert!(!sentence.contains("panicked"), "{sentence}");
    for piece in pieces {
        assert!(sentence.contains(piece), "{args:?} should say '{piece}': {sentence}");
    }
}

fn golden(name: &str, ending: &str) -> String {
    golden_dir().join(format!("{name}.{ending}")).display().to_string()
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

const NAME: &str = "001-skds-rbf-linear-u";

#[test]
fn losses_and_gradients_of_all_golden_cases() {
    let folder = tempfile::tempdir().unwrap();
    let grad = folder.path().join("gradient.safetensors");
    for case in golden_cases() {
        for (device, precision, tolerance) in
            [("cpu", "f64", 1e-9), ("cpu", "f32", 2e-4), ("gpu", "f32", 5e-4)]
        {
            let bandwidth = case.spec.kernel.bandwidth().unwrap_or(1.0).to_string();
            let (data, params) = (golden(&case.name, "npz"), golden(&case.name, "params.safetensors"));
            let args = [
                "loss",
                &data,
                "--params",
                &params,
                "--objective",
                case.spec.objective.name(),
                "--kernel",
                case.spec.kernel.kind().name(),
                "--bandwidth",
                &bandwidth,
                "--estimator",
                case.spec.estimator.name(),
                "--precision",
                precision,
                "--device",
                device,
                "--grad",
                grad.to_str().unwrap(),
                "--json",
            ];
            let report = json(&skds(&args));
            let loss = report["loss"].as_f64().unwrap();
            assert!(relative_error(&[loss], &[case.loss]) <= tolerance, "{} {loss}", case.name);
            let gradient = Parameters::read(&grad).unwrap();
            for (name, expected) in case.expected().into_iter().filter(|(name, _)| name != "loss") {
                let tensors = crate::common::tensors(&gradient);
                let (_, found) = tensors.iter().find(|(n, _)| *n == name).unwrap();
                assert!(relative_error(found, &expected) <= tolerance, "{} {precision} {name}", case.name);
            }
        }
    }
}

#[test]
fn the_report_says_what_was_computed() {
    let (data, params) = (golden(NAME, "npz"), golden(NAME, "params.safetensors"));
    let report =
        json(&skds(&["loss", &data, "--params", &params, "--estimator", "u", "--repeat", "3", "--json"]));
    assert_eq!(report["objective"], "skds");
    assert_eq!(report["kernel"], "rbf");
    assert_eq!(report["estimator"], "u");
    assert_eq!(report["device"], "cpu");
    assert_eq!(report["precision"], "f32");
    assert!(report["bandwidth"].as_f64().unwrap() > 0.0);
    assert!(report["pairs"].as_u64().unwrap() > 0);
    assert!(report["seconds"].as_f64().unwrap() > 0.0);
    let (median, min) = (report["median_seconds"].as_f64().unwrap(), report["min_seconds"].as_f64().unwrap());
    assert!(median >= min && min > 0.0);
    let text = String::from_utf8(skds(&["loss", &data, "--params", &params]).stdout).unwrap();
    assert!(text.starts_with("SKDS ") && text.contains("linear") && text.contains("environments"), "{text}");
}

#[test]
fn imq_plus_accepts_a_bandwidth_and_ignores_it() {
    let (data, params) = (golden(NAME, "npz"), golden(NAME, "params.safetensors"));
    let loss = |h: &str| {
        let args = ["loss", &data, "--params", &params, "--kernel", "imq-plus", "--bandwidth", h, "--json"];
        let report = json(&skds(&args));
        assert!(report["bandwidth"].is_null());
        report["loss"].as_f64().unwrap()
    };
    assert_eq!(loss("1"), loss("7"));
    assert_eq!(loss("1"), loss("auto"));
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (data, params) = (golden(NAME, "npz"), golden(NAME, "params.safetensors"));
    let gradient = |name: &str, threads: &str| {
        let path = folder.path().join(name);
        let args = ["loss", &data, "--params", &params, "--estimator", "u", "--grad", path.to_str().unwrap()];
        let status = Command::new(env!("CARGO_BIN_EXE_skds"))
            .args(args)
            .env("RAYON_NUM_THREADS", threads)
            .output()
            .unwrap()
            .status;
        assert!(status.success());
        std::fs::read(path).unwrap()
    };
    assert_eq!(gradient("a", "1"), gradient("b", "2"));
}

/// A folder with a good csv dataset, its targets and fitting parameters.
fn csv_folder() -> (tempfile::TempDir, String, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let data = write(folder.path(), "data.csv", "a,b,env\n1,2,0\n0,1,0\n3,1,1\n2,2,1\n");
    let targets = write(folder.path(), "targets.csv", "b,a\n0,0\n1,0\n");
    let params = folder.path().join("params.safetensors");
    crate::common::random_parameters(1, 2, 2, None, false).write(&params).unwrap();
    (folder, data, targets, params.display().to_string())
}

#[test]
fn csv_data_gives_the_loss_of_the_same_npz_data() {
    let (_folder, data, targets, params) = csv_folder();
    let args = [
        "loss",
        &data,
        "--targets",
        &targets,
        "--params",
        &params,
        "--bandwidth",
        "1",
        "--precision",
        "f64",
        "--json",
    ];
    let report = json(&skds(&args));
    let rows = |v: [f64; 4]| skds::Matrix::from_rows(2, 2, v.to_vec());
    let environments = vec![rows([1.0, 2.0, 0.0, 1.0]), rows([3.0, 1.0, 2.0, 2.0])];
    let same = skds::data::Dataset::from_environments(environments).unwrap();
    let spec = crate::common::all_specs(1.0)[0];
    let expected =
        crate::common::value(&same, &spec, &crate::common::random_parameters(1, 2, 2, None, false));
    assert!((report["loss"].as_f64().unwrap() - expected).abs() < 1e-14);
    assert_eq!(report["environments"], 2);
}

#[test]
fn bad_options_are_refused() {
    let (data, params) = (golden(NAME, "npz"), golden(NAME, "params.safetensors"));
    let with = |extra: &[&'static str]| {
        let mut args = vec!["loss", data.as_str(), "--params", params.as_str()];
        args.extend(extra);
        args.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    for (extra, pieces) in [
        (&["--bandwidth", "0"][..], &["'0'", "above 0", "auto"][..]),
        (&["--bandwidth", "-2"], &["'-2'", "above 0"]),
        (&["--bandwidth", "wide"], &["'wide'", "above 0"]),
        (&["--kernel", "laplace"], &["laplace", "tilted-rbf"]),
        (&["--objective", "ksd"], &["ksd", "skds"]),
        (&["--estimator", "w"], &["'w'", "linear"]),
        (&["--precision", "f16"], &["f16", "f64"]),
        (&["--device", "gpu7"], &["gpu7", "cpu"]),
        (&["--repeat", "-1"], &["-1"]),
        (&["--targets", "targets.csv"], &["targets", ".csv"]),
    ] {
        let args = with(extra);
        refused(&args.iter().map(String::as_str).collect::<Vec<_>>(), pieces);
    }
}

#[test]
fn bad_files_are_refused_and_nothing_is_written() {
    let (folder, data, targets, params) = csv_folder();
    let grad = folder.path().join("gradient.safetensors").display().to_string();
    let loss = |data: &str, targets: &str, params: &str, pieces: &[&str]| {
        refused(&["loss", data, "--targets", targets, "--params", params, "--grad", &grad], pieces);
        assert!(!PathBuf::from(&grad).exists());
    };
    let file = |name: &str, text: &str| write(folder.path(), name, text);
    loss("nowhere.csv", &targets, &params, &["nowhere.csv", "No such file"]);
    loss(&data, "nowhere.csv", &params, &["nowhere.csv"]);
    loss(&data, &targets, "nowhere.safetensors", &["nowhere.safetensors"]);
    loss(&file("ragged.csv", "a,b\n1,2\n3\n"), &targets, &params, &["line 3", "1", "2"]);
    loss(&file("text.csv", "a,b\n1,2\n3,x\n"), &targets, &params, &["line 3", "\"x\"", "b"]);
    loss(&file("nan.csv", "a,b\n1,2\nNaN,4\n"), &targets, &params, &["line 3", "a", "NaN"]);
    loss(&file("empty.csv", ""), &targets, &params, &["empty.csv"]);
    loss(
        &file("short.csv", "a,b,env\n1,2,0\n1,2,0\n1,2,1\n"),
        &targets,
        &params,
        &["environment 1", "1", "2"],
    );
    loss(&file("env.csv", "a,b,env\n1,2,0\n1,2,0\n1,2,7\n"), &targets, &params, &["7"]);
    loss(&data, &file("wrong.csv", "a,c\n0,0\n0,1\n"), &params, &["c"]);
    loss(&data, &file("two.csv", "a,b\n0,0\n0,2\n"), &params, &["2", "0", "1"]);
    loss(&data, &targets, &data, &["data.csv"]);
    let other = folder.path().join("other.safetensors");
    crate::common::random_parameters(1, 3, 2, None, false).write(&other).unwrap();
    loss(&data, &targets, other.to_str().unwrap(), &["3", "2"]);
    refused(&["loss", &file("fake.npz", "not a zip"), "--params", &params], &["fake.npz", "npz"]);
    refused(&["loss", &file("data.txt", "a"), "--params", &params], &["data.txt", ".npz", ".csv"]);
    // A good input, but nowhere to write to.
    let nowhere = folder.path().join("no/such/folder/g.safetensors").display().to_string();
    refused(
        &["loss", &data, "--targets", &targets, "--params", &params, "--grad", &nowhere],
        &["cannot write"],
    );
}

#[test]
fn a_loss_that_overflows_is_an_error_with_exit_code_1() {
    let (folder, data, targets, _) = csv_folder();
    let mut huge = crate::common::random_parameters(1, 2, 2, None, false);
    huge.biases.fill(1e30);
    let params = folder.path().join("huge.safetensors");
    huge.write(&params).unwrap();
    let output = skds(&[
        "loss",
        &data,
        "--targets",
        &targets,
        "--params",
        params.to_str().unwrap(),
        "--bandwidth",
        "1",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let sentence = String::from_utf8(output.stderr).unwrap();
    assert!(sentence.contains("environment 0") && sentence.contains("f32"), "{sentence}");
}

#[test]
fn the_data_must_have_the_models_variables() {
    let (folder, data, targets, params) = csv_folder();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let parameters = crate::common::random_parameters(1, 2, 2, None, false);
    let mut model = skds::model::Model::new(parameters);
    (model.names, model.named) = (vec!["a".into(), "b".into()], true);
    model.save(Path::new(&at("named.safetensors"))).unwrap();
    let loss = |data: &str, params: &str| {
        let args = ["loss", data, "--targets", &targets, "--params", params, "--bandwidth", "1", "--json"];
        json(&skds(&args))["loss"].as_f64().unwrap()
    };
    // Parameters without names are about any variables.
    assert_eq!(loss(&data, &at("named.safetensors")), loss(&data, &params));
    let permuted = write(folder.path(), "permuted.csv", "b,a,env\n2,1,0\n1,0,0\n1,3,1\n2,2,1\n");
    assert_ne!(loss(&permuted, &params), loss(&data, &params));
    refused(
        &["loss", &permuted, "--targets", &targets, "--params", &at("named.safetensors")],
        &["variable 0 of the data is 'b', expected 'a' like the model"],
    );
    // What a model is called by must tell its variables apart.
    for (names, piece) in
        [("[\"a\",\"a\"]", "the name `a` appears twice"), ("[\"a\",\"\"]", "variable 1 is empty")]
    {
        let bytes = std::fs::read(at("named.safetensors")).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        header["__metadata__"]["names"] = names.into();
        // As another program would write it: without a checksum.
        header["__metadata__"].as_object_mut().unwrap().remove("checksum");
        let text = header.to_string();
        let file = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &bytes[8 + length..]].concat();
        std::fs::write(at("wrong.safetensors"), file).unwrap();
        refused(&["loss", &data, "--targets", &targets, "--params", &at("wrong.safetensors")], &[piece]);
    }
}

#[test]
fn help_has_examples() {
    for args in [&["--help"][..], &["loss", "--help"]] {
        let text = String::from_utf8(skds(args).stdout).unwrap();
        assert!(text.contains("Examples:"), "{text}");
    }
}
