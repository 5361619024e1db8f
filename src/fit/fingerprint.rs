//! The fingerprint of a fit's data and known edges: everything that the result depends on besides the settings.

use super::Knowledge;
use crate::Matrix;
use crate::data::Dataset;
use crate::files::hash;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Identifies the data of a fit (rows in their order, environments, names and targets) and its known edges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The rows of each environment.
    rows: Vec<usize>,
    /// The variables' names, in order.
    names: Vec<String>,
    /// The numbers of the variables that each environment intervenes on.
    targets: Vec<Vec<usize>>,
    /// SHA-256 of all samples, row by row, as little-endian f64.
    samples: String,
    /// The known edges, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    edges: Vec<String>,
}

impl Fingerprint {
    /// The fingerprint of data whose environments intervene on these targets, and of known edges.
    pub fn of(data: &Dataset, targets: &Matrix<bool>, knowledge: Option<&Knowledge>) -> Fingerprint {
        let mut samples = Sha256::new();
        for value in data.samples().as_slice() {
            samples.update(value.to_le_bytes());
        }
        Fingerprint {
            rows: (0..data.environments()).map(|e| data.rows(e).len()).collect(),
            names: data.names().to_vec(),
            targets: (0..targets.rows())
                .map(|e| (0..targets.cols()).filter(|&j| targets[(e, j)]).collect())
                .collect(),
            samples: hash::hex(samples),
            edges: knowledge.map_or_else(Vec::new, Knowledge::to_lines),
        }
    }

    /// An error that names the first difference between `found` and `expected`.
    pub fn check(found: &Fingerprint, expected: &Fingerprint) -> std::result::Result<(), String> {
        let quoted = |name: &String| format!("'{name}'");
        difference("variable", &found.names, &expected.names, quoted)?;
        difference("rows of environment", &found.rows, &expected.rows, usize::to_string)?;
        // Both have the same names here.
        difference("targets of environment", &found.targets, &expected.targets, |targets| {
            let name = |j: &usize| expected.names.get(*j).map_or("?", String::as_str);
            let names: Vec<&str> = targets.iter().map(name).collect();
            if names.is_empty() { "no variable".into() } else { names.join(", ") }
        })?;
        if found.samples != expected.samples {
            return Err(format!(
                "samples, or their order: found SHA-256 {}…, expected {}…",
                hash::short(&found.samples),
                hash::short(&expected.samples)
            ));
        }
        difference("edge", &found.edges, &expected.edges, String::clone)
    }
}

/// The first place at which two lists differ, as an error.
fn difference<T: PartialEq>(
    what: &str,
    found: &[T],
    expected: &[T],
    show: impl Fn(&T) -> String,
) -> std::result::Result<(), String> {
    let count = found.len().max(expected.len());
    match (0..count).find(|&k| found.get(k) != expected.get(k)) {
        None => Ok(()),
        Some(k) => {
            let text = |list: &[T]| list.get(k).map_or("none".into(), &show);
            Err(format!("{what} {k}: found {}, expected {}", text(found), text(expected)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::{Edge, EdgeKind};

    #[test]
    fn everything_that_a_fit_depends_on_tells_data_apart() {
        let x = || Matrix::from_fn(6, 2, |i, j| (3 * i + 5 * j) as f64);
        let own = |samples: Matrix<f64>| Dataset::from_environments(vec![samples]).unwrap();
        let data = own(x());
        let none = Matrix::full(1, 2, false);
        let first = Fingerprint::of(&data, &none, None);
        assert_eq!(Fingerprint::check(&first, &Fingerprint::of(&own(x()), &none, None)), Ok(()));
        // The same sum in another order.
        let swapped = own(Matrix::from_fn(6, 2, |i, j| x()[(5 - i, j)]));
        let other = Fingerprint::check(&first, &Fingerprint::of(&swapped, &none, None)).unwrap_err();
        assert!(other.starts_with("samples, or their order: found SHA-256 "), "{other}");
        let target = Matrix::from_rows(1, 2, vec![false, true]);
        let other = Fingerprint::check(&first, &Fingerprint::of(&data, &target, None)).unwrap_err();
        assert_eq!(other, "targets of environment 0: found no variable, expected x1");
        let renamed = Fingerprint { names: vec!["x0".into(), "b".into()], ..first.clone() };
        let other = Fingerprint::check(&first, &renamed).unwrap_err();
        assert_eq!(other, "variable 1: found 'x1', expected 'b'");
        let cut = Fingerprint { rows: vec![3, 3], ..first.clone() };
        let other = Fingerprint::check(&first, &cut).unwrap_err();
        assert_eq!(other, "rows of environment 0: found 6, expected 3");
        let known = |kind: EdgeKind| {
            let edge = Edge { source: "x0".into(), target: "x1".into(), kind, weight: None };
            let knowledge = Knowledge::new(data.names(), vec![edge]).unwrap();
            Fingerprint::of(&data, &none, Some(&knowledge))
        };
        let other = Fingerprint::check(&first, &known(EdgeKind::Required)).unwrap_err();
        assert_eq!(other, "edge 0: found none, expected 'x0' -> 'x1' required");
        let other = Fingerprint::check(&known(EdgeKind::Forbidden), &known(EdgeKind::Required)).unwrap_err();
        assert_eq!(other, "edge 0: found 'x0' -> 'x1' forbidden, expected 'x0' -> 'x1' required");
        // Fits without edges leave the text that they always left.
        assert!(!serde_json::to_string(&first).unwrap().contains("edges"));
    }
}
