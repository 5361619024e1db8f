//! What people know of the graph before a fit: effects that are required, forbidden, or the only candidates.
//!
//! A list of [`Edge`]s (a csv file, or part of a request) and the variables' names become a [`Knowledge`]: one multiplier of
//! the penalty per effect, which every solver takes.

use crate::files::input;
use crate::model::{InputWeightsMut, Parameters};
use crate::named::by_name;
use crate::named::named;
use crate::{Error, Matrix, Result, Scalar};
use csv::{Position, ReaderBuilder, StringRecord, Trim};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// The multiplier of an effect that is held at 0.
pub const FORBIDDEN: f64 = f64::INFINITY;
/// The multiplier of an effect that is not penalised.
pub const REQUIRED: f64 = 0.0;
/// Weights above 0: beyond, solvers would lose their digits.
const WEIGHTS: (f64, f64) = (1e-6, 1e6);
/// Letters of a name or cell in a sentence.
const SHOWN: usize = 60;
/// The columns of a file.
const COLUMNS: [&str; 4] = ["source", "target", "kind", "weight"];

/// What is known of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeKind {
    /// It is not penalised.
    Required,
    /// It is held at 0.
    Forbidden,
    /// It may be there. If any effect is a candidate, those that are not listed are forbidden.
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
    /// What a candidate's penalty is multiplied with; 1 if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
}

/// Where each effect is first listed, by target and source.
pub(crate) type Mentions = BTreeMap<(usize, usize), usize>;

/// What is known of all effects between some variables.
#[derive(Clone, Debug, PartialEq)]
pub struct Knowledge {
    names: Vec<String>,
    edges: Vec<Edge>,
    multipliers: Matrix<f64>,
}

impl Knowledge {
    /// From a list of edges between variables of these names. An edge may be listed twice if it is so in the same way.
    ///
    /// ```
    /// use skds::fit::{Edge, EdgeKind, Knowledge};
    ///
    /// let names = ["rain".to_string(), "harvest".to_string()];
    /// let backwards = Edge {
    ///     source: "harvest".into(),
    ///     target: "rain".into(),
    ///     kind: EdgeKind::Forbidden,
    ///     weight: None,
    /// };
    /// let known = Knowledge::new(&names, vec![backwards])?;
    /// // Row: target, column: source.
    /// assert_eq!(known.multipliers()[(0, 1)], f64::INFINITY);
    /// assert_eq!(known.multipliers()[(1, 0)], 1.0);
    /// # Ok::<(), skds::Error>(())
    /// ```
    pub fn new(names: &[String], edges: Vec<Edge>) -> Result<Knowledge> {
        let first = Knowledge::check(names, &edges)?;
        Ok(Knowledge::of(names, &edges, first))
    }

    /// Checks a list of edges without making anything of it but the first mention of each effect, by target and source.
    pub(crate) fn check(names: &[String], edges: &[Edge]) -> Result<Mentions> {
        let pairs = names.len().saturating_mul(names.len());
        if edges.len() > pairs {
            return Err(Error::invalid(format!(
                "found {} edges, expected at most {pairs} between {} variables",
                edges.len(),
                names.len()
            )));
        }
        mentions(names, edges, |k| format!("edge {}", k + 1)).map_err(Error::invalid)
    }

    /// From a csv file with the columns `source`, `target`, `kind` and optionally `weight`.
    pub fn read(path: &Path, names: &[String]) -> Result<Knowledge> {
        let (edges, lines) = read(path)?;
        let first = mentions(names, &edges, |k| format!("line {}", lines[k]))
            .map_err(|problem| Error::file(path, problem))?;
        Ok(Knowledge::of(names, &edges, first))
    }

    fn of(names: &[String], edges: &[Edge], first: Mentions) -> Knowledge {
        let d = names.len();
        let only_listed = edges.iter().any(|edge| edge.kind == EdgeKind::Candidate);
        let unlisted = if only_listed { FORBIDDEN } else { 1.0 };
        let mut multipliers = Matrix::from_fn(d, d, |j, i| if i == j { 1.0 } else { unlisted });
        for (&at, &k) in &first {
            multipliers[at] = edges[k].claim().1;
        }
        let edges = first.into_values().map(|k| edges[k].clone()).collect();
        Knowledge { names: names.to_vec(), edges, multipliers }
    }

    /// The variables' names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What is known, every edge once, by target and source.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// d × d: row j, column i is what the penalty of the effect of i on j is multiplied with. [`FORBIDDEN`], infinity, means
    /// that the effect is held at 0, and [`REQUIRED`], 0, that it is not penalised. On the diagonal it is 1 and means nothing.
    pub fn multipliers(&self) -> &Matrix<f64> {
        &self.multipliers
    }

    /// The multipliers with 0 for what is forbidden: there is nothing there to be penalised, and 0 times infinity is no number.
    pub(super) fn charges(&self) -> Matrix<f64> {
        let charge = |value: f64| if value == FORBIDDEN { 0.0 } else { value };
        Matrix::from_fn(self.names.len(), self.names.len(), |j, i| charge(self.multipliers[(j, i)]))
    }

    /// Sets every weight of a forbidden effect to 0: the input weights of the source into the target's network.
    pub(super) fn clear_forbidden<T: Scalar>(&self, parameters: &mut Parameters<T>) -> Result<()> {
        let Some(InputWeightsMut { weights, units, .. }) = parameters.drift.arrays_mut().inputs_mut() else {
            return Err(parameters.drift.without("weights between variables to hold at 0"));
        };
        for unit in 0..weights.rows() {
            let known = self.multipliers.row(unit / units);
            let row = weights.row_mut(unit).iter_mut().zip(known);
            row.filter(|(_, known)| **known == FORBIDDEN).for_each(|(weight, _)| *weight = T::ZERO);
        }
        Ok(())
    }

    /// Every edge as a line of text: what fits that differ in them are told apart by.
    pub(super) fn to_lines(&self) -> Vec<String> {
        self.edges.iter().map(|edge| format!("{} {}", edge.arrow(), edge.claimed())).collect()
    }
}

impl Edge {
    /// What it says: its kind, and the multiplier of the penalty.
    fn claim(&self) -> (EdgeKind, f64) {
        let multiplier = match self.kind {
            EdgeKind::Required => REQUIRED,
            EdgeKind::Forbidden => FORBIDDEN,
            EdgeKind::Candidate => self.weight.unwrap_or(1.0),
        };
        (self.kind, multiplier)
    }

    /// The same in words.
    fn claimed(&self) -> String {
        match self.weight.filter(|weight| self.kind == EdgeKind::Candidate && *weight != 1.0) {
            Some(weight) => format!("{} with weight {weight}", self.kind),
            None => self.kind.to_string(),
        }
    }

    fn arrow(&self) -> String {
        format!("'{}' -> '{}'", shown(&self.source), shown(&self.target))
    }

    fn check_weight(&self) -> std::result::Result<(), String> {
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

/// The first mention of every effect; an error if a mention says nothing sensible, or something else than the first.
fn mentions(
    names: &[String],
    edges: &[Edge],
    place: impl Fn(usize) -> String,
) -> std::result::Result<Mentions, String> {
    let positions: HashMap<&str, usize> =
        names.iter().enumerate().map(|(j, name)| (name.as_str(), j)).collect();
    let mut first = Mentions::new();
    for (k, edge) in edges.iter().enumerate() {
        let at = |problem: String| format!("{}: {problem}", place(k));
        let find = |name: &str| {
            positions.get(name).copied().ok_or_else(|| {
                at(format!("unknown variable '{}', expected one of {}", shown(name), listed(names)))
            })
        };
        let (source, target) = (find(&edge.source)?, find(&edge.target)?);
        if source == target {
            let name = shown(&edge.source);
            return Err(at(format!("the edge is from '{name}' to itself, expected two different variables")));
        }
        edge.check_weight().map_err(at)?;
        let before = *first.entry((target, source)).or_insert(k);
        if edges[before].claim() != edge.claim() {
            let (now, then) = (edge.claimed(), edges[before].claimed());
            return Err(at(format!(
                "{} is {now} here and {then} in {}, expected the same in both",
                edge.arrow(),
                place(before)
            )));
        }
    }
    Ok(first)
}

/// The edges of a file and their lines.
fn read(path: &Path) -> Result<(Vec<Edge>, Vec<u64>)> {
    let text = input::text(path)?;
    let fail = |line: u64, problem: String| Error::file(path, format!("line {line}: {problem}"));
    let mut reader =
        ReaderBuilder::new().flexible(true).trim(Trim::All).has_headers(false).from_reader(text.as_bytes());
    let mut record = StringRecord::new();
    // The columns of the file, as numbers in COLUMNS.
    let mut columns: Vec<usize> = Vec::new();
    let (mut edges, mut lines) = (Vec::new(), Vec::new());
    // A text of valid UTF-8 with rows of any length has no errors.
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

/// The line of a record. The csv crate's positions lie before the blank lines that it skips.
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
    // A last cell that is empty may be left out with its comma.
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

/// The beginning of a text, for a sentence.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

/// The first few names, for a sentence.
fn listed(names: &[String]) -> String {
    const LISTED: usize = 20;
    let first = names.iter().take(LISTED).map(|name| shown(name));
    first.chain((names.len() > LISTED).then(|| "…".into())).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["a", "b", "c"].map(String::from).to_vec()
    }

    fn parsed(text: &str) -> Result<Knowledge> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("edges.csv");
        std::fs::write(&path, text).unwrap();
        Knowledge::read(&path, &names())
    }

    #[test]
    fn kinds_and_weights_become_multipliers() {
        let inf = FORBIDDEN;
        let known = parsed("source,target,kind\na,b,required\nb,a,forbidden\n").unwrap();
        assert_eq!(known.multipliers().as_slice(), [1.0, inf, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        assert_eq!(known.charges().as_slice(), [1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        assert_eq!(known.to_lines(), ["'b' -> 'a' forbidden", "'a' -> 'b' required"]);
        // Any candidate forbids what is not listed. Columns in any order, blank lines, quotes and repetitions are no harm.
        let text = "kind,weight,target,source\n\ncandidate,2,b,\"a\"\nrequired,,c,b\ncandidate,2.0,b,a\ncandidate,,a,c\n";
        let known = parsed(text).unwrap();
        assert_eq!(known.multipliers().as_slice(), [1.0, inf, 1.0, 2.0, 1.0, inf, inf, 0.0, 1.0]);
        assert_eq!(known.edges().len(), 3);
        // A candidate of weight 0 is not penalised, and the last cell may be missing.
        let known = parsed("source,target,kind,weight\na,b,candidate,0\nb,a,candidate\n").unwrap();
        assert_eq!((known.multipliers()[(1, 0)], known.multipliers()[(0, 1)]), (0.0, 1.0));
    }

    #[test]
    fn contradictions_are_refused_with_the_line_and_both_sides() {
        let with = |rows: &str| format!("source,target,kind,weight\n{rows}\n");
        for (text, piece) in [
            (
                with("a,b,required,\n\nc,a,forbidden,\na,b,forbidden,"),
                "line 5: 'a' -> 'b' is forbidden here and required in line 2, expected the same in both",
            ),
            (
                with("a,b,candidate,\na,b,required,"),
                "line 3: 'a' -> 'b' is required here and candidate in line 2",
            ),
            (
                with("a,b,candidate,\na,b,candidate,2"),
                "line 3: 'a' -> 'b' is candidate with weight 2 here and candidate in line 2",
            ),
            (with("b,b,required,"), "line 2: the edge is from 'b' to itself"),
            (with("a,b,required,\na,z,required,"), "line 3: unknown variable 'z', expected one of a, b, c"),
            (
                with("a,b,maybe,"),
                "line 2: unknown kind 'maybe', expected one of required, forbidden, candidate",
            ),
            (with("a,b,candidate,heavy"), "line 2: the weight is 'heavy', expected a number"),
            (with("a,b,candidate,-1"), "line 2: the weight is -1, expected 0 or a number from 1e-6 to 1e6"),
            (with("a,b,candidate,inf"), "line 2: the weight is inf"),
            (with("a,b,candidate,nan"), "line 2: the weight is NaN"),
            (
                with("a,b,forbidden,2"),
                "line 2: 'a' -> 'b' is forbidden and has the weight 2, expected no weight",
            ),
            (
                with("a,b,required,2"),
                "line 2: 'a' -> 'b' is required and has the weight 2, expected no weight",
            ),
            (with("a,b"), "line 2: found 2 cells, expected 4 like the header"),
            (with(""), "has a header but no rows"),
            (String::new(), "is empty, expected a header"),
            ("source,target\na,b".into(), "line 1: has no column 'kind'"),
            (
                "a,b,required\n".into(),
                "line 1: unknown column 'a', expected the columns source, target, kind",
            ),
            ("source,target,kind,kind\n".into(), "line 1: the column 'kind' appears twice"),
        ] {
            let sentence = parsed(&text).unwrap_err().to_string();
            assert!(sentence.contains(&format!("edges.csv: {piece}")), "{text}: {sentence}");
        }
    }

    #[test]
    fn lists_are_bounded_and_name_the_edge() {
        let edge = |source: &str| Edge {
            source: source.into(),
            target: "b".into(),
            kind: EdgeKind::Forbidden,
            weight: None,
        };
        let sentence = Knowledge::new(&names(), vec![edge("a"), edge("z")]).unwrap_err().to_string();
        assert!(sentence.starts_with("edge 2: unknown variable 'z'"), "{sentence}");
        let sentence = Knowledge::new(&names(), vec![edge("a"); 10]).unwrap_err().to_string();
        assert_eq!(sentence, "found 10 edges, expected at most 9 between 3 variables");
        let json = r#"{"source": "a", "target": "b", "kind": "maybe"}"#;
        let sentence = serde_json::from_str::<Edge>(json).unwrap_err().to_string();
        assert!(sentence.contains("unknown kind 'maybe'"), "{sentence}");
        assert!(Knowledge::new(&names(), vec![]).unwrap().multipliers().as_slice().iter().all(|m| *m == 1.0));
    }
}
