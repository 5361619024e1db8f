//! Tests of the table and the verdict; the driver is not needed.

use crate::assembly::{InnerLoop, inner_loop};
use crate::held;
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

const LOOPS: &str = "BB0:
	v_mov_b32_e32 v0, 0                                         ; 7e000280
BB1:
	v_fma_f32 v0, v1, v2, v3                                    ; d7650001
	s_cbranch_scc1 BB4                                          ; bf84000a
BB2:
	ds_read_b128 v[4:7], v0 offset:16                           ; d8fc0010
	ds_read2st64_b64 v[8:11], v0 offset0:1 offset1:2            ; d8fc0010
	v_fmac_f32_e32 v1, v2, v3                                   ; 56000501
	v_fmac_f32_e32 v1, v2, v3                                   ; 56000501
	v_add_nc_u32_e32 v1, 4, v1                                  ; 4a0202ff
	s_cbranch_scc0 BB2                                          ; bf84000a
BB3:
	v_mul_f32_e32 v1, v2, v3                                    ; 4a0202ff
	s_branch BB1                                                ; bf82fff1
BB4:
	v_fma_f32 v0, v1, v2, v3                                    ; d7650001
	s_branch BB5                                                ; bf82fff1
BB5:
";

#[test]
fn the_loop_with_the_most_multiply_adds_is_counted() {
    // The outer loop: one multiply-add more than the inner one has.
    let outer = InnerLoop { multiply_adds: 3, others: 2, shared_bytes: 32 };
    assert_eq!(inner_loop(LOOPS), Some(outer));
    // Where the outer loop has none of its own, the inner one.
    let inner = InnerLoop { multiply_adds: 2, others: 1, shared_bytes: 32 };
    assert_eq!(inner_loop(&LOOPS.replacen("v_fma_f32", "v_mad_u32", 1)), Some(inner));
    assert_eq!(inner_loop("BB0:\n\tv_fma_f32 v0, v1, v2, v3\n"), None);
}

#[test]
fn loops_above_a_held_line_fail() {
    let found = InnerLoop { multiply_adds: 512, others: 64, shared_bytes: 768 };
    let loops = [("drift.a".to_owned(), Some(found)), ("drift.b".to_owned(), None)];
    let failures = |text: &str, loops| {
        let mut verdict = Verdict::default();
        let table = held::judge(loops, &held::parse(text).unwrap(), &mut verdict);
        (table, verdict.failures)
    };
    let (table, none) = failures("# line\n\ndrift: 0.125 1.5", &loops[..1]);
    assert!(none.is_empty() && table.contains("64 beside 512 (0.125)  1.50 bytes"), "{table} {none:?}");
    let (_, above) = failures("drift: 0.124 1.5", &loops[..1]);
    assert_eq!(
        above,
        ["drift.a: 0.125 instructions and 1.500 bytes per multiply-add, held are 0.124 and 1.5"]
    );
    assert_eq!(failures("drift.a: 0.2 1.4", &loops[..1]).1.len(), 1);
    assert_eq!(failures("drift.b: 1 2", &loops).1[0], "drift.b: no loop with multiply-adds was found");
    let (_, unused) = failures("drif: 1 2", &loops);
    assert_eq!(unused, ["held.txt: no shader's label begins with \"drif\""]);
    assert!(held::parse(include_str!("../held.txt")).is_ok());
    assert!(["drift", "drift: 1", "drift: 1 x", "drift: 1 2 3"].iter().all(|bad| held::parse(bad).is_err()));
}
