//! Lines that the inner loops of products hold: what they cost beside their multiply-adds.

use crate::assembly::InnerLoop;
use crate::report::Verdict;

/// The most that the shaders of a label, or of a prefix of it, may cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    prefix: String,
    /// Vector instructions other than multiply-adds, per multiply-add.
    others: f64,
    /// Bytes read from shared memory per multiply-add.
    bytes: f64,
}

/// Reads lines `label-prefix: instructions bytes`; `#` begins a comment line.
pub fn parse(text: &str) -> Result<Vec<Held>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parse = |line: &str| {
        let (prefix, numbers) = line.split_once(':')?;
        let mut numbers = numbers.split_whitespace().map(|number| number.parse::<f64>().ok());
        let (others, bytes, None) = (numbers.next()??, numbers.next()??, numbers.next()) else { return None };
        Some(Held { prefix: prefix.trim().into(), others, bytes })
    };
    let expected = "held.txt: expected \"label-prefix: instructions bytes\", found";
    lines.map(|line| parse(line).ok_or(format!("{expected} {line:?}"))).collect()
}

/// Compares inner loops with the lines they hold, adds what is above one to the failures, and returns a table of the worst
/// loop of each line. A line without a shader fails too: it would hold nothing.
pub fn judge(loops: &[(String, Option<InnerLoop>)], held: &[Held], verdict: &mut Verdict) -> String {
    let mut table = String::from(
        "inner loops of products: vector instructions beside multiply-adds, bytes of shared memory per multiply-add\n",
    );
    for Held { prefix, others, bytes } in held {
        let covered =
            loops.iter().filter(|(label, _)| format!("{label}.").starts_with(&format!("{prefix}.")));
        let mut worst: Option<(&str, InnerLoop)> = None;
        for (label, found) in covered {
            let Some(found) = found else {
                verdict.failures.push(format!("{label}: no loop with multiply-adds was found"));
                continue;
            };
            let (per, read) = (ratio(found.others, found), ratio(found.shared_bytes, found));
            if per > *others || read > *bytes {
                verdict.failures.push(format!(
                    "{label}: {per:.3} instructions and {read:.3} bytes per multiply-add, held are {others} and {bytes}"
                ));
            }
            if worst.is_none_or(|(_, worst)| per > ratio(worst.others, &worst)) {
                worst = Some((label.as_str(), *found));
            }
        }
        match worst {
            Some((label, found)) => {
                let (per, read) = (ratio(found.others, &found), ratio(found.shared_bytes, &found));
                let counts = format!("{} beside {} ({per:.3})", found.others, found.multiply_adds);
                table += &format!("{label:<28}  {counts:>22}  {read:.2} bytes  held: {others} and {bytes}\n");
            }
            None => verdict.failures.push(format!("held.txt: no shader's label begins with {prefix:?}")),
        }
    }
    table
}

fn ratio(count: u64, found: &InnerLoop) -> f64 {
    count as f64 / found.multiply_adds as f64
}
