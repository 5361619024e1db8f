//! Prior knowledge of the graph: effects that are required, forbidden, or the only candidates.
//!
//! A list of [`Edge`]s (from a csv file or a request) and the names of the variables become a [`Knowledge`], which has one
//! multiplier of the penalty for each effect. Every solver accepts these multipliers.

use super::edges::{Edge, EdgeKind, read, shown};
use crate::model::{InputWeightsMut, Parameters};
use crate::{Error, Matrix, Result, Scalar};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// The multiplier of an effect that is held at 0.
pub const FORBIDDEN: f64 = f64::INFINITY;
/// The multiplier of an effect that is not penalised.
pub const REQUIRED: f64 = 0.0;
/// Where each effect is first listed, by target and source.
pub(crate) type Mentions = BTreeMap<(usize, usize), usize>;

/// Prior knowledge of the effects between some variables.
#[derive(Clone, Debug, PartialEq)]
pub struct Knowledge {
    names: Vec<String>,
    edges: Vec<Edge>,
    multipliers: Matrix<f64>,
}

impl Knowledge {
    /// From a list of edges between variables of these names. An edge may be listed twice if both entries agree.
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

    /// Checks a list of edges, and returns the first mention of each effect, by target and source.
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

    /// Reads a csv file with the columns `source`, `target`, `kind` and optionally `weight`.
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

    /// Every known edge once, ordered by target and source.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// d × d: row j, column i multiplies the penalty of the effect of i on j. [`FORBIDDEN`] (infinity) holds the effect at 0, and
    /// [`REQUIRED`] (0) leaves it without a penalty. The diagonal is 1 and has no meaning.
    pub fn multipliers(&self) -> &Matrix<f64> {
        &self.multipliers
    }

    /// The multipliers with 0 for forbidden effects, whose penalty would otherwise be 0 times infinity.
    pub(super) fn finite_multipliers(&self) -> Matrix<f64> {
        let charge = |value: f64| if value == FORBIDDEN { 0.0 } else { value };
        Matrix::from_fn(self.names.len(), self.names.len(), |j, i| charge(self.multipliers[(j, i)]))
    }

    /// Sets every weight of a forbidden effect to 0. In a neural model these are the weights from the source into the target's
    /// network.
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

    /// Every edge as a line of text, for the fingerprint of a fit.
    pub(super) fn to_lines(&self) -> Vec<String> {
        self.edges.iter().map(|edge| format!("{} {}", edge.arrow(), edge.claimed())).collect()
    }
}

/// The first mention of every effect; an error if a mention is invalid or contradicts the first.
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

/// The first few names, for a message.
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
        assert_eq!(known.finite_multipliers().as_slice(), [1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
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
