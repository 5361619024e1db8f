//! `skds fit --edges`: what is known of effects, by every solver; and what a fit says its effects rest on.

use crate::common::random_data;
use serde_json::{Value, json};
use skds::Matrix;
use skds::model::{BasisDrift, Drift, MlpDrift, Model};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// Four variables and five environments; x0 and x1 are intervened on, twice each.
    fn new() -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        let targets = Matrix::from_fn(5, 4, |e, j| e > 0 && j == (e - 1) % 2);
        let data = random_data(71, &[150, 120, 120, 120, 120], 4).with_targets(targets).unwrap();
        data.write(place.at("data.npz")).unwrap();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn fit(&self, edges: &str, more: &[&str]) -> Output {
        std::fs::write(self.at("edges.csv"), edges).unwrap();
        Command::new(env!("CARGO_BIN_EXE_skds"))
            .arg("fit")
            .args([&self.at("data.npz"), Path::new("-o"), &self.at("model.safetensors")])
            .args([Path::new("--edges"), &self.at("edges.csv")])
            .args(more)
            .args(["--device", "cpu"])
            .output()
            .unwrap()
    }

    fn model(&self, edges: &str, more: &[&str]) -> Model {
        let output = self.fit(edges, more);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Model::read(self.at("model.safetensors")).unwrap()
    }
}

fn weights(model: &Model) -> &Matrix<f64> {
    (model.parameters.drift.linear_weights().unwrap()) as _
}

const ONE_WAY: &str = "source,target,kind\nx0,x1,forbidden\nx3,x2,forbidden\n";
const LISTED: &str = "source,target,kind,weight\nx0,x1,candidate,0.5\nx2,x3,required,\n";
const ADAM: [&str; 6] = ["--solver", "adam", "--steps", "40", "--batch", "64"];
const GIVEN: [&str; 4] = ["--bandwidth", "2", "--lambda", "0.01"];

#[test]
fn every_solver_keeps_to_the_edges() {
    let place = Place::new();
    for more in [&[][..], &GIVEN, &ADAM, &["--penalty", "ingoing", "--bootstrap", "20"]] {
        let model = place.model(ONE_WAY, more);
        let w = weights(&model);
        assert_eq!((w[(1, 0)], w[(2, 3)]), (0.0, 0.0), "{more:?}");
        assert!(w[(0, 1)] != 0.0 && w[(3, 2)] != 0.0, "{more:?} {w:?}");
        if let Some(intervals) = &model.intervals {
            for side in [&intervals.low, &intervals.high] {
                let weights = side.drift.linear_weights().unwrap();
                assert_eq!(weights[(1, 0)], 0.0);
            }
        }
        let model = place.model(LISTED, more);
        let w = weights(&model);
        for (j, i) in (0..4).flat_map(|j| (0..4).map(move |i| (j, i))).filter(|(j, i)| i != j) {
            let allowed = [(1, 0), (3, 2)].contains(&(j, i));
            assert!(allowed || w[(j, i)] == 0.0, "{more:?} {j} {i}");
        }
        assert!(w[(3, 2)] != 0.0, "{more:?}");
    }
    let model = place.model(ONE_WAY, &["--model", "mlp", "--hidden", "2", "--steps", "40", "--batch", "64"]);
    let Drift::Mlp(MlpDrift { hidden_weights, .. }) = &model.parameters.drift else { panic!() };
    assert!((2..4).all(|unit| hidden_weights[(unit, 0)] == 0.0 && hidden_weights[(unit, 2)] != 0.0));
    // Given functions, tuned: every function of the source.
    let model = place.model(ONE_WAY, &["--model", "basis", "--features", "polynomial:2"]);
    let Drift::Basis(BasisDrift { basis, coefficients }) = &model.parameters.drift else { panic!() };
    for p in (0..basis.features()).filter(|&p| basis.variables(p).contains(&0)) {
        assert_eq!(coefficients[(1, p)], 0.0, "{}", basis.feature(p));
    }
}

/// A penalty that leaves nothing leaves a required effect alone, and as large as without a penalty.
#[test]
fn a_required_effect_is_not_shrunk() {
    let place = Place::new();
    let strong = ["--bandwidth", "2", "--penalty", "both", "--lambda", "1000", "--no-stabilize"];
    let required = "source,target,kind\nx0,x1,required\n";
    let w = weights(&place.model(required, &strong)).clone();
    let others = (0..16).filter(|at| at / 4 != at % 4 && *at != 4);
    assert!(others.clone().all(|at| w.as_slice()[at] == 0.0), "{w:?}");
    let alone = "source,target,kind\nx0,x1,candidate\n";
    let unpenalised = ["--bandwidth", "2", "--penalty", "none", "--no-stabilize"];
    let expected = weights(&place.model(alone, &unpenalised)).clone();
    assert!(w[(1, 0)] != 0.0 && (w[(1, 0)] - expected[(1, 0)]).abs() < 1e-9, "{w:?} {expected:?}");
}

#[test]
fn contradictions_are_one_sentence_and_leave_nothing() {
    let place = Place::new();
    for (edges, piece) in [
        (
            "source,target,kind\nx0,x1,required\nx0,x1,forbidden\n",
            "line 3: 'x0' -> 'x1' is forbidden here and required in line 2",
        ),
        ("source,target,kind\nx0,x0,required\n", "line 2: the edge is from 'x0' to itself"),
        ("source,target,kind\nx0,gene,required\n", "line 2: unknown variable 'gene', expected one of x0, x1"),
        ("source,target,kind\nx0,x1,perhaps\n", "line 2: unknown kind 'perhaps'"),
        ("source,target,kind,weight\nx0,x1,candidate,much\n", "line 2: the weight is 'much'"),
        ("from,to\nx0,x1\n", "line 1: unknown column 'from'"),
    ] {
        for more in [&GIVEN[..], &ADAM] {
            let output = place.fit(edges, more);
            let sentence = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{sentence}");
            assert!(sentence.contains(piece) && sentence.lines().count() == 1, "{sentence}");
            assert!(sentence.contains("edges.csv: "), "{sentence}");
        }
    }
    let names: Vec<_> =
        std::fs::read_dir(place.folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn a_fit_does_not_go_on_with_other_edges() {
    let place = Place::new();
    // It stops at step 2 by itself, and leaves a checkpoint.
    let stopping = ["--steps", "100", "--batch", "32", "--learning-rate", "1e25"];
    assert_eq!(place.fit(ONE_WAY, &stopping).status.code(), Some(1));
    let resumed = |edges: &str| {
        let output = place.fit(edges, &[&stopping[..], &["--resume"]].concat());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, sentence) = resumed("source,target,kind\nx0,x1,required\n");
    assert_eq!(code, Some(2), "{sentence}");
    let piece = "edge 0: found 'x0' -> 'x1' forbidden, expected 'x0' -> 'x1' required";
    assert!(sentence.contains(piece), "{sentence}");
    // The same edges in another order and twice are the same.
    let same = "source,target,kind\nx3,x2,forbidden\nx0,x1,forbidden\nx3,x2,forbidden\n";
    assert_eq!(resumed(same).0, Some(1));
}

#[test]
fn a_fit_says_what_its_effects_rest_on() {
    let place = Place::new();
    // Means differ by environment: x2 and x3 move although nobody intervenes on them.
    let both = "source,target,kind\nx2,x3,required\nx3,x2,required\n";
    for more in [&GIVEN[..], &ADAM] {
        let output = place.fit(both, more);
        let text = String::from_utf8(output.stdout).unwrap();
        let summary = "The effects of 2 of 4 variables are supported by an intervention on them, of 2 by interventions elsewhere";
        assert!(text.contains(summary), "{text}");
        let pairs = "does not identify both effects of x2 <-> x3. Intervene on one variable of a pair";
        assert!(text.contains(pairs), "{text}");
        let output = place.fit(both, &[more, &["--json"]].concat());
        let report: Value =
            serde_json::from_slice(output.stdout.split(|b| *b == b'\n').rfind(|l| !l.is_empty()).unwrap())
                .unwrap();
        let by = |j: usize| report["support"]["variables"][j]["by"].as_str().unwrap();
        assert_eq!((by(0), by(3)), ("intervention", "interventions elsewhere"), "{report}");
        assert_eq!(report["support"]["unidentified_pairs"], json!([["x2", "x3"]]), "{report}");
    }
    // An edge that is known to be none breaks the loop.
    let output = place.fit("source,target,kind\nx2,x3,forbidden\n", &GIVEN);
    assert!(!String::from_utf8(output.stdout).unwrap().contains("does not identify both effects"));
}
