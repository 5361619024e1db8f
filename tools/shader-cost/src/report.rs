//! The rows, the table and the verdict: plain functions of what the compiler reported.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

/// Each statistic by its name in radv and its head in the table.
const COLUMNS: [(&str, &str); 11] = [
    ("Subgroup size", "wave"),
    ("VGPRs", "VGPRs"),
    ("SGPRs", "SGPRs"),
    ("Spilled VGPRs", "spilled V"),
    ("Spilled SGPRs", "spilled S"),
    ("Scratch size", "scratch"),
    ("LDS size", "LDS"),
    ("Subgroups per SIMD", "occupancy"),
    ("Instructions", "instructions"),
    ("Latency", "latency"),
    ("Inverse Throughput", "inv. throughput"),
];

/// The columns that must be zero.
const SPILLS: [&str; 3] = ["Spilled VGPRs", "Spilled SGPRs", "Scratch size"];

/// The subgroups one SIMD of an RDNA2 GPU can hold, and for how many of them a shader must leave room.
const SUBGROUPS: u64 = 16;
const ENOUGH_SUBGROUPS: u64 = 8;

/// What one entry point of one shader costs.
#[derive(Debug)]
pub struct Row {
    label: String,
    entry: String,
    costs: Vec<u64>,
}

impl Row {
    /// Picks the columns out of radv's statistics; one that is missing is an error, not a zero. For RDNA
    /// radv counts "Subgroups per SIMD" as if they had 32 lanes each, so those of 64 lanes count twice
    /// (`radv_get_max_waves` in Mesa): the row holds their real number.
    pub fn new(label: &str, entry: &str, statistics: &[(String, u64)]) -> Result<Self, String> {
        let find = |name| statistics.iter().find(|(n, _)| n == name).map(|(_, value)| *value);
        let cost = |name| match name {
            "Subgroups per SIMD" => Some((find(name)? * 32 / find("Subgroup size")?.max(32)).min(SUBGROUPS)),
            _ => find(name),
        };
        let costs = COLUMNS.map(|(name, _)| cost(name).ok_or(format!("this Mesa does not report {name:?}")));
        let costs = costs.into_iter().collect::<Result<_, _>>()?;
        Ok(Self { label: label.into(), entry: entry.into(), costs })
    }

    fn cost(&self, name: &str) -> u64 {
        self.costs[COLUMNS.iter().position(|(n, _)| *n == name).expect("a column")]
    }

    fn occupancy(&self) -> u64 {
        self.cost("Subgroups per SIMD")
    }

    fn spills(&self) -> bool {
        SPILLS.iter().any(|name| self.cost(name) > 0)
    }
}

/// Shaders allowed to run at low occupancy, by a prefix of their label, and why.
pub struct Exception {
    prefix: String,
    reason: String,
}

/// Reads lines `label-prefix: reason`; `#` begins a comment line.
pub fn parse_exceptions(text: &str) -> Result<Vec<Exception>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parse = |line: &str| {
        let (prefix, reason) = line.split_once(':')?;
        let (prefix, reason) = (prefix.trim().to_string(), reason.trim().to_string());
        (!prefix.is_empty() && !reason.is_empty()).then_some(Exception { prefix, reason })
    };
    let expected = "exceptions.txt: expected \"label-prefix: reason\", found";
    lines.map(|line| parse(line).ok_or(format!("{expected} {line:?}"))).collect()
}

/// What is wrong, what is excused, and which exceptions are no longer needed.
#[derive(Debug, Default, PartialEq)]
pub struct Verdict {
    pub failures: Vec<String>,
    pub excused: Vec<String>,
    pub notes: Vec<String>,
}

/// Judges the rows; spills and scratch memory always fail, low occupancy unless excepted. Of several
/// exceptions the one with the longest prefix counts; a prefix covers whole parts of a label.
pub fn judge(rows: &[Row], exceptions: &[Exception]) -> Verdict {
    let mut verdict = Verdict::default();
    let mut excused = vec![Vec::new(); exceptions.len()];
    for row in rows {
        let name = format!("{} ({})", row.label, row.entry);
        if row.spills() {
            let [vgprs, sgprs, scratch] = SPILLS.map(|name| row.cost(name));
            let spilled = format!("spills {vgprs} VGPRs and {sgprs} SGPRs, uses {scratch} bytes of scratch");
            verdict.failures.push(format!("{name}: {spilled}"));
        }
        let occupancy = row.occupancy();
        if occupancy < ENOUGH_SUBGROUPS {
            let covers = |e: &Exception| format!("{}.", row.label).starts_with(&format!("{}.", e.prefix));
            let covering = (0..exceptions.len()).filter(|&index| covers(&exceptions[index]));
            match covering.max_by_key(|&index| exceptions[index].prefix.len()) {
                Some(index) => excused[index].push(occupancy),
                None => verdict
                    .failures
                    .push(format!("{name}: only {occupancy} of {SUBGROUPS} subgroups per SIMD")),
            }
        }
    }
    for (Exception { prefix, reason }, found) in exceptions.iter().zip(excused) {
        match found.iter().min() {
            Some(least) => verdict.excused.push(format!(
                "{prefix} ({} entry points, down to {least} of {SUBGROUPS} subgroups per SIMD): {reason}",
                found.len()
            )),
            None => verdict.notes.push(format!("no shader needs the exception {prefix:?} any more")),
        }
    }
    verdict
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.excused.iter().try_for_each(|line| writeln!(f, "excused: {line}"))?;
        self.notes.iter().try_for_each(|line| writeln!(f, "note: {line}"))?;
        self.failures.iter().try_for_each(|line| writeln!(f, "FAILED: {line}"))?;
        match self.failures.len() {
            0 => writeln!(f, "verdict: good"),
            count => writeln!(f, "verdict: bad ({count} failed)"),
        }
    }
}

/// The worst row of each stage: one that spills, then the least occupancy, then the most work.
pub fn worst_per_stage(rows: &[Row]) -> Vec<&Row> {
    let badness = |row: &Row| (row.spills(), Reverse(row.occupancy()), row.cost("Inverse Throughput"));
    let mut worst: BTreeMap<&str, &Row> = BTreeMap::new();
    for row in rows {
        let known = worst.entry(row.label.split('.').next().unwrap_or_default()).or_insert(row);
        if badness(row) > badness(known) {
            *known = row;
        }
    }
    worst.into_values().collect()
}

/// An aligned table: names to the left, numbers to the right.
pub fn table(rows: &[&Row]) -> String {
    let heads = ["shader", "entry"].into_iter().chain(COLUMNS.map(|(_, head)| head)).map(String::from);
    let mut lines: Vec<Vec<String>> = vec![heads.collect()];
    for row in rows {
        let numbers = row.costs.iter().map(u64::to_string);
        lines.push([row.label.clone(), row.entry.clone()].into_iter().chain(numbers).collect());
    }
    let widest = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let cell = |line: &Vec<String>, column: usize| match (&line[column], widest(column)) {
        (name, width) if column < 2 => format!("{name:<width$}"),
        (number, width) => format!("{number:>width$}"),
    };
    let format_line =
        |line| (0..COLUMNS.len() + 2).map(|c| cell(line, c)).collect::<Vec<_>>().join("  ") + "\n";
    lines.iter().map(format_line).collect()
}

/// One JSON object per line, with radv's names in lower case and underscores.
pub fn json_lines(rows: &[&Row]) -> String {
    let number = |((name, _), value): (&(&str, _), &u64)| {
        format!(",\"{}\":{value}", name.to_lowercase().replace(' ', "_"))
    };
    let line = |row: &&Row| {
        let numbers: String = COLUMNS.iter().zip(&row.costs).map(number).collect();
        format!("{{\"label\":{},\"entry\":{}{numbers}}}\n", json_string(&row.label), json_string(&row.entry))
    };
    rows.iter().map(line).collect()
}

fn json_string(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}
