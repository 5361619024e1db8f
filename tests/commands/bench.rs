//! `skds bench`: its sections, its files, peers that answer, fail or disagree.

use std::path::Path;
use std::process::{Command, Output};

fn skds(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds")).arg("bench").args(args).output().unwrap()
}

fn passes(args: &[&str]) -> String {
    let output = skds(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(args: &[&str], code: i32, piece: &str) {
    let output = skds(args);
    let sentence = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(sentence.contains(piece), "{args:?}: {sentence}");
    assert_eq!(output.status.code(), Some(code), "{sentence}");
}

#[test]
fn the_papers_table_has_every_device_and_software_says_so() {
    let json: serde_json::Value = serde_json::from_str(&passes(&["--quick", "--json"])).unwrap();
    let devices = json["devices"].as_array().unwrap();
    assert_eq!(devices[0]["device"], "cpu");
    assert!(devices.len() >= 2, "no Vulkan device: on Debian, install mesa-vulkan-drivers");
    for device in devices {
        let rows = device["paper"].as_array().unwrap();
        assert_eq!(rows.len(), 3);
        for row in rows {
            assert_eq!((&row["skds"]["n"], &row["kds"]["d"]), (&1000.into(), &20.into()));
            for number in [&row["skds"]["median_ms"], &row["kds"]["min_ms"], &row["ratio"]["median"]] {
                assert!(number.as_f64().unwrap() > 0.0, "{row}");
            }
        }
    }
    assert!(json["machine"]["commit"].is_string() && json["machine"]["threads"].as_u64().unwrap() > 0);
    let text = passes(&["--quick"]);
    assert!(text.contains("KDS/SKDS") && text.contains("117"), "{text}");
    for device in devices.iter().filter(|device| device["software"] == true) {
        let name = device["device"].as_str().unwrap();
        assert!(name.ends_with("[software]"), "{name}");
        assert!(text.contains(&format!("{name} (software: not the speed of a GPU)")), "{text}");
    }
}

#[test]
fn sections_leave_files() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").to_str().unwrap().to_owned();
    let text = passes(&["--quick", "--scaling", "--roofline", "--device", "cpu", "-o", &out]);
    for piece in ["linear, n = 512", "u, d = 20", "GFLOP/s", "GB/s", "bench.json", "bound by"] {
        assert!(text.contains(piece), "{piece}: {text}");
    }
    let read = |name: &str| std::fs::read(Path::new(&out).join(name)).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&read("bench.json")).unwrap();
    assert_eq!(json["devices"][0]["scaling"].as_array().unwrap().len(), 4);
    let csv = String::from_utf8(read("bench.csv")).unwrap();
    let rows = csv.lines().filter(|line| !line.starts_with('#')).count();
    // A header, both losses at 16 sizes, and the five paths of the roofline.
    assert_eq!(rows, 1 + 2 * 16 + 5, "{csv}");
    assert!(read("scaling-cpu.svg").starts_with(b"<svg") && read("scaling-cpu.png").starts_with(b"\x89PNG"));
}

#[test]
fn memory_is_measured_in_a_process_of_its_own() {
    let found: serde_json::Value = serde_json::from_str(&passes(&["--memory-of", "training:200"])).unwrap();
    let number = |name: &str| found[name].as_u64().unwrap();
    assert_eq!(number("state_bytes"), 3 * 4 * (200 * 200 + 400));
    assert!(number("peak_bytes") > number("program_bytes"), "{found}");
    refused(&["--memory-of", "training"], 2, "expected training:D");
}

/// A peer in a few lines of shell: it says hello, agrees to `error`, and takes a millisecond for everything.
#[cfg(unix)]
fn peer(folder: &Path, error: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(format!("peer-{error}"));
    let script = format!(
        r#"#!/bin/sh
echo '{{"jax": "0", "python": "sh", "device": "pretended"}}'
while read -r line; do
    case "$line" in
        *'"load"'*) echo '{{"loss": 0, "error": {error}, "compile_seconds": 0.5}}' ;;
        *'"forget"'*) echo '{{}}' ;;
        *)
            times=$(echo "$line" | sed 's/.*"times":\([0-9]*\).*/\1/')
            seconds=0.001
            while [ "$times" -gt 1 ]; do seconds="$seconds, 0.001"; times=$((times - 1)); done
            echo "{{\"seconds\": [$seconds]}}" ;;
    esac
done
"#
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[cfg(unix)]
#[test]
fn peers_are_timed_only_if_they_agree() {
    let folder = tempfile::tempdir().unwrap();
    let agrees = peer(folder.path(), "1e-6");
    let json = passes(&["--quick", "--peers", "--device", "cpu", "--python", &agrees, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = json["peers"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row["theirs"]["median_ms"] == 1.0), "{rows:?}");
    assert_eq!(json["peers_description"], "JAX 0, Python sh, pretended");
    let disagrees = peer(folder.path(), "0.5");
    refused(
        &["--quick", "--peers", "--device", "cpu", "--python", &disagrees],
        1,
        "times would not be comparable",
    );
}

#[test]
fn wrong_requests_get_one_sentence() {
    refused(&["--quick", "--device", "abacus"], 2, "unknown device 'abacus'");
    refused(&["--quick", "--peers", "--python", "/no/such/python"], 2, "expected a Python with JAX");
    let file = tempfile::NamedTempFile::new().unwrap();
    refused(&["--quick", "-o", file.path().to_str().unwrap()], 2, "is a file, expected a folder");
}
