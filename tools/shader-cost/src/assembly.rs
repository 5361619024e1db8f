//! What the inner loop of a product costs, counted in the driver's assembly.

use std::collections::HashMap;

/// The loop of a shader that has the most multiply-adds, if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InnerLoop {
    /// Vector instructions that multiply and add.
    pub multiply_adds: u64,
    /// All other vector instructions: addresses, checks, copies.
    pub others: u64,
    /// Bytes that a thread reads from shared memory.
    pub shared_bytes: u64,
}

/// Counts the innermost of the loops with the most multiply-adds: from a label to the last jump back to it.
pub fn inner_loop(assembly: &str) -> Option<InnerLoop> {
    // Behind the semicolon is the encoding.
    let lines: Vec<&str> = assembly.lines().map(|line| line.split(';').next().unwrap_or("").trim()).collect();
    let labels: HashMap<&str, usize> =
        lines.iter().enumerate().filter_map(|(at, line)| Some((line.strip_suffix(':')?, at))).collect();
    let jump = |(at, line): (usize, &&str)| {
        let (instruction, target) = line.split_once(char::is_whitespace)?;
        let is_jump = instruction == "s_branch" || instruction.starts_with("s_cbranch");
        let start = *labels.get(target.trim()).filter(|_| is_jump)?;
        (start < at).then(|| count(&lines[start..at]))
    };
    let loops = lines.iter().enumerate().filter_map(jump).filter(|found| found.multiply_adds > 0);
    // An outer loop has what its inner loop has and more around it.
    loops.min_by_key(|found| (std::cmp::Reverse(found.multiply_adds), found.others))
}

fn count(lines: &[&str]) -> InnerLoop {
    let mut found = InnerLoop::default();
    for line in lines {
        let name = line.split_whitespace().next().unwrap_or("");
        if is_multiply_add(name) {
            found.multiply_adds += 1;
        } else if name.starts_with("v_") {
            found.others += 1;
        } else if let Some(read) = name.strip_prefix("ds_read") {
            // Two addresses, as in ds_read2st64_b64, read twice.
            let times = 1 + u64::from(read.starts_with('2'));
            let bits = read.rsplit_once("_b").and_then(|(_, bits)| bits.parse::<u64>().ok()).unwrap_or(0);
            found.shared_bytes += times * bits / 8;
        }
    }
    found
}

fn is_multiply_add(name: &str) -> bool {
    let Some(name) = name.strip_prefix("v_") else { return false };
    ["fma", "fmac", "fmaak", "fmamk", "mad", "mac"]
        .iter()
        .any(|kind| name.strip_prefix(kind).is_some_and(|rest| rest == "_f32" || rest.starts_with("_f32_")))
}
