//! `skds --server`: the same commands, the same files.

use crate::server::Server;
use crate::small_data;
use std::path::Path;
use std::process::{Command, Output};

fn skds(server: Option<&str>, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skds"));
    if let Some(url) = server {
        command.args(["--server", url]);
    }
    command.args(args).output().unwrap()
}

#[test]
fn commands_leave_the_same_files_as_without_a_service() {
    let folder = tempfile::tempdir().unwrap();
    small_data(folder.path());
    let server = Server::start(&folder.path().join("service"), &[]);
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let both = |name: &str, args: &[&str], output: &str, ending: &str, files: &[&str]| {
        let mut texts = Vec::new();
        for (side, url) in [("here", None), ("there", Some(server.url.as_str()))] {
            let out = at(&format!("{name}-{side}{ending}"));
            let found = skds(url, &[args, &[output, &out]].concat());
            assert!(found.status.success(), "{name} {side}: {}", String::from_utf8_lossy(&found.stderr));
            texts.push(String::from_utf8(found.stdout).unwrap());
        }
        for file in files {
            let read = |side: &str| std::fs::read(at(&format!("{name}-{side}{file}"))).unwrap();
            assert!(read("here") == read("there"), "{name}{file} differs");
        }
        texts
    };
    let (train, test) = (at("train.npz"), at("test.npz"));
    let exact = ["fit", &train];
    both("exact", &exact, "-o", ".safetensors", &[".safetensors", ".tuning.csv", ".tuning.svg"]);
    let adam = ["fit", &train, "--solver", "adam", "--steps", "300", "--batch", "64"];
    both("adam", &adam, "-o", ".safetensors", &[".safetensors", ".log.jsonl", ".loss.svg"]);
    // The service gets what the file holds.
    let edges = at("edges.csv");
    std::fs::write(
        &edges,
        "source,target,kind,weight\nx0,x1,candidate,2\nx2,x1,required,\nx3,x4,candidate,\n",
    )
    .unwrap();
    let known = ["fit", &train, "--edges", &edges];
    let texts = both("known", &known, "-o", ".safetensors", &[".safetensors"]);
    assert!(texts.iter().all(|text| text.contains("supported by an intervention on them")), "{texts:?}");
    let model = at("exact-here.safetensors");
    let sample = ["sample", &model, "-n", "50", "--shift", "x1=0.5", "--seed", "4"];
    both("samples", &sample, "-o", ".npz", &[".npz"]);
    both("table", &sample, "-o", ".csv", &[".csv"]);
    let moved = ["sample", &model, "--from", &train, "--set", "x1=0.5", "-n", "50", "--seed", "4"];
    both("moved", &moved, "-o", ".npz", &[".npz"]);
    both("fixed", &["fit", &train, "--lambda", "0.1"], "-o", ".safetensors", &[".safetensors"]);
    let fixed = at("fixed-here.safetensors");
    let loss = ["loss", &train, "--params", &fixed, "--bandwidth", "2", "--device", "cpu"];
    both("loss", &loss, "--grad", ".safetensors", &[".safetensors"]);
    let sizes = ["--dim", "4", "--rows", "30", "--train-envs", "2", "--test-envs", "2", "--edges", "1"];
    let simulate = [&["simulate", "scm"][..], &sizes].concat();
    both("system", &simulate, "-o", "", &["/train.npz", "/test.npz", "/truth.npz", "/manifest.json"]);

    let evaluate = |url: Option<&str>| skds(url, &["evaluate", &model, &test]).stdout;
    assert_eq!(evaluate(None), evaluate(Some(&server.url)));
    assert!(!evaluate(None).is_empty());
    let anchored = |url: Option<&str>| skds(url, &["evaluate", &model, &test, "--from", &train]).stdout;
    assert_eq!(anchored(None), anchored(Some(&server.url)));
    assert!(String::from_utf8_lossy(&anchored(None)).contains("anchored at the data"));
}

#[test]
fn methods_and_chosen_neural_drifts_are_the_same_too() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("service"), &[]);
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let sizes = ["--dim", "4", "--rows", "150", "--train-envs", "3", "--test-envs", "1", "--edges", "1"];
    let made = skds(None, &[&["simulate", "sde", "-o", &at("system")], &sizes[..]].concat());
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let train = at("system/train.npz");
    let neural = ["--model", "mlp", "--hidden", "3", "--steps", "300", "--batch", "50"];
    for (name, args, files) in [
        ("gies", &["--method", "gies"][..], &["safetensors"][..]),
        ("dcdi", &["--method", "dcdi", "--steps", "1500", "--seed", "5"], &["safetensors"]),
        ("mlp", &neural, &["safetensors", "tuning.csv", "tuning.svg", "log.jsonl", "loss.svg"]),
    ] {
        for (side, url) in [("here", None), ("there", Some(server.url.as_str()))] {
            let out = at(&format!("{name}-{side}.safetensors"));
            let found = skds(url, &[&["fit", &train, "-o", &out], args].concat());
            assert!(found.status.success(), "{name} {side}: {}", String::from_utf8_lossy(&found.stderr));
            let said = String::from_utf8_lossy(&found.stdout);
            assert!(name != "mlp" || said.contains("left-out interventions best"), "{side}: {said}");
        }
        for file in files {
            let read = |side: &str| std::fs::read(at(&format!("{name}-{side}.{file}"))).unwrap();
            assert!(read("here") == read("there"), "{name}.{file} differs");
        }
    }
    assert!(!Path::new(&at("mlp-there.choice.json")).exists());
}

#[test]
fn what_a_service_refuses_or_does_not_have_is_said() {
    let folder = tempfile::tempdir().unwrap();
    small_data(folder.path());
    let server = Server::start(&folder.path().join("service"), &["--max-variables", "3"]);
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let refused = |url: &str, args: &[&str], piece: &str| {
        let output = skds(Some(url), args);
        let sentence = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(sentence.contains(piece), "{sentence}");
        assert_eq!(output.status.code(), Some(2), "{sentence}");
    };
    let (train, out) = (at("train.npz"), at("out.safetensors"));
    refused(&server.url, &["fit", &train, "-o", &out], "is 5, expected at most 3");
    let wrong = at("wrong.csv");
    std::fs::write(&wrong, "source,target,kind\nx0,rain,required\n").unwrap();
    let known = ["fit", &train, "-o", &out, "--edges", &wrong];
    refused(&server.url, &known, "wrong.csv: line 2: unknown variable 'rain'");
    refused(&server.url, &["fit", "nowhere.npz", "-o", &out], "cannot read nowhere.npz");
    refused(&server.url, &["devices"], "does not run on a server");
    refused("http://127.0.0.1:9", &["fit", &train, "-o", &out], "does not answer");
    refused("over there", &["fit", &train, "-o", &out], "expected an address like http://");
    assert!(!Path::new(&out).exists());
}
