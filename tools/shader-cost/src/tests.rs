//! Tests of the table and the verdict; the driver is not needed.

use crate::report::*;

/// A row of radv's statistics, all zero but these.
fn row_of(label: &str, wave: u64, subgroups: u64, scratch: u64) -> Row {
    let given = [("Subgroup size", wave), ("Subgroups per SIMD", subgroups), ("Scratch size", scratch)];
    let zero = ["VGPRs", "SGPRs", "Spilled VGPRs", "Spilled SGPRs", "LDS size", "Instructions", "Latency"];
    let zero = zero.into_iter().chain(["Inverse Throughput"]).map(|name| (name, 0));
    Row::new(label, "main", &zero.chain(given).map(|(n, v)| (n.into(), v)).collect::<Vec<_>>()).unwrap()
}

fn row(label: &str, occupancy: u64, scratch: u64) -> Row {
    row_of(label, 64, 2 * occupancy, scratch)
}

#[test]
fn occupancy_counts_real_subgroups() {
    let rows =
        [row_of("a", 64, 16, 0), row_of("b", 64, 14, 0), row_of("c", 32, 8, 0), row_of("d", 32, 32, 0)];
    assert_eq!(judge(&rows, &[]).failures, ["b (main): only 7 of 16 subgroups per SIMD"]);
    assert!(json_lines(&[&rows[3]]).contains("\"subgroups_per_simd\":16,"));
}

#[test]
fn good_shaders_pass() {
    let verdict = judge(&[row("drift.mlp", 16, 0), row("tilt", 8, 0)], &[]);
    assert_eq!(verdict, Verdict::default());
    assert_eq!(verdict.to_string(), "verdict: good\n");
}

#[test]
fn low_occupancy_fails_unless_excepted() {
    let rows = [row("pairs.skds.rbf", 7, 0), row("pairs.skds", 5, 0), row("pairs.skds2", 7, 0)];
    let verdict = judge(&rows, &parse_exceptions("# why\n\npairs.skds: tiles: large\n").unwrap());
    assert_eq!(verdict.failures, ["pairs.skds2 (main): only 7 of 16 subgroups per SIMD"]);
    let excused = "pairs.skds (2 entry points, down to 5 of 16 subgroups per SIMD): tiles: large";
    assert_eq!((verdict.excused, verdict.notes), (vec![excused.to_string()], vec![]));
}

#[test]
fn scratch_fails_in_spite_of_an_exception() {
    let verdict = judge(&[row("pairs.a", 4, 1024)], &parse_exceptions("pairs: reason").unwrap());
    assert_eq!((verdict.failures.len(), verdict.excused.len()), (1, 1));
    assert!(verdict.failures[0].contains("1024 bytes"));
    assert!(verdict.to_string().ends_with("verdict: bad (1 failed)\n"));
}

#[test]
fn exceptions_no_longer_needed_are_noted() {
    let exceptions = parse_exceptions("pairs: broad\npairs.a: narrow\ntilt: old").unwrap();
    let verdict = judge(&[row("pairs.a.x", 4, 0), row("tilt.a", 8, 0)], &exceptions);
    assert!(verdict.failures.is_empty() && verdict.excused[0].ends_with("narrow"));
    assert!(verdict.notes[0].contains("\"pairs\"") && verdict.notes[1].contains("\"tilt\""));
}

#[test]
fn malformed_exceptions_are_errors() {
    assert!(parse_exceptions(include_str!("../exceptions.txt")).is_ok());
    assert!(["pairs", "pairs:", ": reason"].iter().all(|bad| parse_exceptions(bad).is_err()));
}

#[test]
fn the_worst_row_of_each_stage() {
    let rows = [row("tilt", 9, 0), row("pairs.a", 4, 0), row("pairs.b", 16, 4), row("all_pairs", 3, 0)];
    let text = table(&worst_per_stage(&rows));
    let labels: Vec<_> = text.lines().skip(1).map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(labels, ["all_pairs", "pairs.b", "tilt"]);
}

#[test]
fn the_table_is_aligned() {
    let text = table(&[&row("a", 16, 0), &row("a.longer.label", 8, 123456789)]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{text}");
    assert!(lines[1].starts_with("a               main"), "{text}");
}

#[test]
fn json_is_escaped() {
    let text = json_lines(&[&row("a\"\\\n", 16, 0)]);
    assert!(
        text.starts_with(r#"{"label":"a\"\\\u000a","entry":"main","subgroup_size":64,"vgprs":0,"#),
        "{text}"
    );
    assert!(
        text.ends_with(
            "\"subgroups_per_simd\":16,\"instructions\":0,\"latency\":0,\"inverse_throughput\":0}\n"
        )
    );
}

#[test]
fn a_missing_statistic_is_an_error() {
    assert!(Row::new("a", "main", &[("VGPRs".into(), 8)]).unwrap_err().contains("Subgroup size"));
}
