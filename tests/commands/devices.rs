//! `skds devices`, `skds validate` and `--device` as a person runs them, with a Vulkan driver and without.

use crate::common::golden_dir;
use skds::kernel::KernelKind;
use std::process::{Command, Output};

fn skds(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds")).args(args).output().unwrap()
}

/// The same on a machine with no Vulkan driver at all.
fn without_vulkan(args: &[&str]) -> Output {
    let nowhere = "/nonexistent.json";
    Command::new(env!("CARGO_BIN_EXE_skds"))
        .args(args)
        .envs([("VK_ICD_FILENAMES", nowhere), ("VK_DRIVER_FILES", nowhere)])
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn devices_are_listed_with_what_auto_takes() {
    let report = json(&skds(&["devices", "--json"]));
    let gpus = report["gpus"].as_array().unwrap();
    assert!(!gpus.is_empty(), "no Vulkan device: apt-get install mesa-vulkan-drivers libvulkan1");
    for gpu in gpus {
        assert!(gpu["max_binding_bytes"].as_u64().unwrap() >= 128 << 20);
        assert!(gpu["max_storage_buffers"].as_u64().unwrap() >= 8);
        assert!(!gpu["name"].as_str().unwrap().is_empty() && !gpu["driver"].as_str().unwrap().is_empty());
    }
    // A software adapter is never taken by itself.
    let real = gpus.iter().find(|gpu| gpu["kind"] != "software");
    assert_eq!(report["auto"] == "cpu", real.is_none());
    let output = skds(&["devices"]);
    let listed = text(&output.stdout);
    assert!(listed.starts_with("cpu "), "{listed}");
    assert!(listed.contains(gpus[0]["name"].as_str().unwrap()), "{listed}");
    assert!(listed.contains("auto takes "), "{listed}");
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn without_a_driver_the_truth_is_told_and_the_cpu_serves() {
    let output = without_vulkan(&["devices"]);
    let listed = text(&output.stdout);
    assert!(output.status.success());
    assert!(
        listed.contains("auto takes cpu: no GPU with a Vulkan, Metal or DirectX 12 driver was found"),
        "{listed}"
    );
    assert!(json(&without_vulkan(&["devices", "--json"]))["gpus"].as_array().unwrap().is_empty());
    let name = golden_dir().join("001-skds-rbf-linear-u");
    let (data, params) =
        (format!("{}.npz", name.display()), format!("{}.params.safetensors", name.display()));
    let report = json(&without_vulkan(&["loss", &data, "--params", &params, "--json"]));
    assert_eq!(report["device"], "cpu");
    for (device, sentence) in [
        (
            "gpu",
            "error: no GPU found, expected a Vulkan driver (on Debian, mesa-vulkan-drivers has one in software): use the CPU engine (--device cpu)\n",
        ),
        ("0", "error: unknown device '0', expected one of auto, cpu\n"),
    ] {
        for args in [
            vec!["loss", &data, "--params", &params, "--device", device],
            vec!["validate", "--device", device],
        ] {
            let output = without_vulkan(&args);
            assert_eq!(output.status.code(), Some(2), "{args:?}");
            assert_eq!(text(&output.stderr), sentence, "{args:?}");
            assert!(output.stdout.is_empty());
        }
    }
}

#[test]
fn wrong_devices_and_options_get_one_sentence() {
    let name = golden_dir().join("001-skds-rbf-linear-u");
    let (data, params) =
        (format!("{}.npz", name.display()), format!("{}.params.safetensors", name.display()));
    for (more, piece) in [
        (vec!["--device", "voodoo"], "unknown device 'voodoo', expected one of auto, cpu, gpu, 0 ("),
        (vec!["--device", "99"], "unknown device '99'"),
        (vec!["--device", "gpu", "--precision", "f64"], "precision is f64, expected f32 on a GPU"),
        (vec!["--device", "gpu", "--gpu-memory", "0.00001"], "expected at most its budget of 10737 bytes"),
        (vec!["--gpu-memory", "-1"], "--gpu-memory is -1, expected a number of GiB above 0"),
        (vec!["--device", "cpu", "--profile"], "the device 'cpu' is the CPU, expected a GPU"),
    ] {
        let mut args = vec!["loss", &data, "--params", &params];
        args.extend(&more);
        let output = skds(&args);
        let sentence = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {sentence}");
        assert!(sentence.starts_with("error: ") && sentence.lines().count() == 1, "{sentence}");
        assert!(sentence.contains(piece), "{sentence}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn validation_passes_and_says_by_how_much() {
    let report = json(&skds(&["validate", "--quick", "--device", "gpu", "--json"]));
    assert_eq!(report["passed"], true);
    // Each loss, kernel and pairs, for six models at three shapes.
    let rows = 2 * KernelKind::ALL.len() * 3;
    let comparisons = 6 * 3 * rows;
    assert_eq!(report["comparisons"], comparisons);
    assert_eq!(report["rows"].as_array().unwrap().len(), rows);
    let worst = report["worst"].as_f64().unwrap();
    assert!(worst > 0.0 && worst <= 5e-4, "{worst}");
    let output = skds(&["validate", "--quick", "--device", "cpu"]);
    let table = text(&output.stdout);
    assert!(output.status.success(), "{table}");
    assert!(
        table.contains("kds imq-plus v") && table.contains(&format!("passed: {comparisons} comparisons")),
        "{table}"
    );
}

#[test]
fn a_profile_names_every_stage() {
    let name = golden_dir().join("001-skds-rbf-linear-u");
    let (data, params) =
        (format!("{}.npz", name.display()), format!("{}.params.safetensors", name.display()));
    let report = json(&skds(&["loss", &data, "--params", &params, "--device", "gpu", "--profile", "--json"]));
    let stages: Vec<_> =
        report["stages"].as_array().unwrap().iter().map(|s| s["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["diffusion_diagonal", "drift", "pairs", "adjoint", "backward", "reduce", "finish"]);
}
