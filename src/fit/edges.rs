//! Edges, which state what is known of single effects, and the csv files that list them.

use super::knowledge::{FORBIDDEN, REQUIRED};
use crate::files::input;
use crate::named::by_name;
use crate::named::named;
use crate::{Error, Result};
use csv::{Position, ReaderBuilder, StringRecord, Trim};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The range of weights above 0. Solvers would lose precision outside it.
const WEIGHTS: (f64, f64) = (1e-6, 1e6);
/// The most characters of a name or cell that a message shows.
const SHOWN: usize = 60;
/// The columns of an edge file.
const COLUMNS: [&str; 4] = ["source", "target", "kind", "weight"];

/// What is known of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeKind {
    /// It is not penalised.
    Required,
    /// It is held at 0.
    Forbidden,
    /// It may exist. If any effect is a candidate, effects that are not listed are forbidden.
    Candidate,
}

named!(EdgeKind, "kind", { Required => "required", Forbidden => "forbidden", Candidate => "candidate" });

/// What is known of the effect of one variable on another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// The variable that acts.
    pub source: String,
    /// The variable whose drift it changes.
    pub target: String,
    /// What is known.
    #[serde(with = "by_name")]
    pub kind: EdgeKind,
    /// The multiplier of a candidate's penalty; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
}

impl Edge {
    /// Its kind, and the multiplier of the penalty.
    pub(super) fn claim(&self) -> (EdgeKind, f64) {
        let multiplier = match self.kind {
            EdgeKind::Required => REQUIRED,
            EdgeKind::Forbidden => FORBIDDEN,
            EdgeKind::Candidate => self.weight.unwrap_or(1.0),
        };
        (self.kind, multiplier)
    }

    /// The same in words.
    pub(super) fn claimed(&self) -> String {
        match self.weight.filter(|weight| self.kind == EdgeKind::Candidate && *weight != 1.0) {
            Some(weight) => format!("{} with weight {weight}", self.kind),
            None => self.kind.to_string(),
        }
    }

    pub(super) fn arrow(&self) -> String {
        format!("'{}' -> '{}'", shown(&self.source), shown(&self.target))
    }

    pub(super) fn check_weight(&self) -> std::result::Result<(), String> {
        let Some(weight) = self.weight else { return Ok(()) };
        let (least, most) = WEIGHTS;
        match self.kind {
            EdgeKind::Forbidden => {
                Err(format!("{} is forbidden and has the weight {weight}, expected no weight", self.arrow()))
            }
            _ if !(weight == 0.0 || (least..=most).contains(&weight)) => {
                Err(format!("the weight is {weight}, expected 0 or a number from {least:e} to {most:e}"))
            }
            EdgeKind::Required if weight != REQUIRED => Err(format!(
                "{} is required and has the weight {weight}, expected no weight: a required effect is not penalised",
                self.arrow()
            )),
            EdgeKind::Required | EdgeKind::Candidate => Ok(()),
        }
    }
}

/// The edges of a file and their lines.
pub(super) fn read(path: &Path) -> Result<(Vec<Edge>, Vec<u64>)> {
    let text = input::text(path)?;
    let fail = |line: u64, problem: String| Error::file(path, format!("line {line}: {problem}"));
    let mut reader =
        ReaderBuilder::new().flexible(true).trim(Trim::All).has_headers(false).from_reader(text.as_bytes());
    let mut record = StringRecord::new();
    // The file's columns, as indices into COLUMNS.
    let mut columns: Vec<usize> = Vec::new();
    let (mut edges, mut lines) = (Vec::new(), Vec::new());
    // Valid UTF-8 with rows of any length cannot fail here.
    while reader.read_record(&mut record).map_err(|error| Error::file(path, error.to_string()))? {
        let line = record.position().map_or(1, |position| line_of(&text, position));
        if columns.is_empty() {
            columns = header(&record).map_err(|problem| fail(line, problem))?;
            continue;
        }
        let edge = edge(&record, &columns).map_err(|problem| fail(line, problem))?;
        edges.push(edge);
        lines.push(line);
    }
    match (columns.is_empty(), edges.is_empty()) {
        (true, _) => Err(Error::file(path, "is empty, expected a header with source, target and kind")),
        (_, true) => Err(Error::file(path, "has a header but no rows, expected at least one edge")),
        _ => Ok((edges, lines)),
    }
}

/// The line of a record. The position in the csv crate lies before the blank lines that it skips.
fn line_of(text: &str, position: &Position) -> u64 {
    let rest = text.as_bytes().get(position.byte() as usize..).unwrap_or_default();
    let blank = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
    position.line() + blank.filter(|byte| **byte == b'\n').count() as u64
}

fn header(record: &StringRecord) -> std::result::Result<Vec<usize>, String> {
    let expected = "expected the columns source, target, kind and optionally weight";
    let mut columns = Vec::new();
    for cell in record {
        match COLUMNS.iter().position(|column| *column == cell) {
            Some(column) if columns.contains(&column) => {
                return Err(format!("the column '{cell}' appears twice, {expected}"));
            }
            Some(column) => columns.push(column),
            None => return Err(format!("unknown column '{}', {expected}", shown(cell))),
        }
    }
    match (0..3).find(|column| !columns.contains(column)) {
        Some(missing) => Err(format!("has no column '{}', {expected}", COLUMNS[missing])),
        None => Ok(columns),
    }
}

fn edge(record: &StringRecord, columns: &[usize]) -> std::result::Result<Edge, String> {
    // An empty last cell may be left out together with its comma.
    let left_out = columns.len() == 4 && columns[3] == 3 && record.len() == 3;
    if record.len() != columns.len() && !left_out {
        return Err(format!("found {} cells, expected {} like the header", record.len(), columns.len()));
    }
    let cell = |column: usize| {
        let place = columns.iter().position(|found| *found == column);
        place.and_then(|place| record.get(place)).unwrap_or("")
    };
    let kind = cell(2);
    let known = || EdgeKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
    let kind =
        kind.parse().map_err(|_| format!("unknown kind '{}', expected one of {}", shown(kind), known()))?;
    let weight = match cell(3) {
        "" => None,
        text => Some(
            text.parse::<f64>()
                .map_err(|_| format!("the weight is '{}', expected a number of at least 0", shown(text)))?,
        ),
    };
    Ok(Edge { source: cell(0).into(), target: cell(1).into(), kind, weight })
}

/// The beginning of a text, for a message.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}
