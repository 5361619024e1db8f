//! `skds convexity` as a person runs it.

use crate::common::random_data;
use std::process::{Command, Output};

fn skds(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds")).arg("convexity").args(args).output().unwrap()
}

#[test]
fn the_table_the_picture_and_the_refusals() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.npz");
    random_data(1, &[200, 90], 3).write(&path).unwrap();
    let (data, plot) = (path.to_str().unwrap(), folder.path().join("convexity.svg"));
    let plot_name = plot.to_str().unwrap();
    let output = skds(&[data, "--plot", plot_name, "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let sizes = report["sizes"].as_array().unwrap();
    let rows: Vec<u64> = sizes.iter().map(|size| size["rows"].as_u64().unwrap()).collect();
    assert_eq!(rows, [50, 100, 200]);
    for size in sizes {
        let epsilon = |k: usize| size["estimates"][k]["epsilon"].as_f64().unwrap();
        let largest = size["estimates"][2]["largest"].as_f64().unwrap();
        // linear, u, v.
        assert!(epsilon(0) > 0.0 && epsilon(1) > 0.0 && epsilon(2) < 1e-12 * largest, "{size}");
        assert!(size["proposition_11"]["epsilon"].as_f64().unwrap() > epsilon(0));
    }
    assert!(std::fs::read_to_string(&plot).unwrap().contains("Proposition 11"));
    let printed = String::from_utf8(skds(&[data, "--kernel", "imq-plus", "--env", "1"]).stdout).unwrap();
    assert!(printed.contains("imq-plus kernel") && printed.contains("      90  linear"), "{printed}");

    for (args, piece) in [
        (&[data, "--env", "2"][..], "expected a number below 2"),
        (&[data, "--plot", "a.pdf"], "ends in .svg or .png"),
        (&[data, "--bandwidth", "-1"], "above 0"),
        (&["nowhere.npz"], "cannot read nowhere.npz"),
    ] {
        let output = skds(args);
        let sentence = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{sentence}");
        assert!(sentence.contains(piece), "{sentence}");
    }
}
