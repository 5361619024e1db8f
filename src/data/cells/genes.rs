//! Which genes become variables.

use super::counts::Scale;
use super::labels::Perturbation;
use super::source::{CellMatrix, Origin};
use super::{CellRole, CellSettings, counted, listed};
use crate::numeric::statistics::median;
use crate::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Bins of mean expression in which genes are compared, at most.
const BINS: usize = 20;
/// Genes of a bin, at least: fewer have no median to compare with.
const LEAST_IN_BIN: usize = 10;

/// Which genes become variables: the union of some sets.
///
/// As text, sets are joined by `+`: `targets+hvg:50`. In JSON, it is such a text, or a list of sets and names of genes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneChoice {
    sets: Vec<GeneSet>,
}

/// A set of genes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum GeneSet {
    /// All.
    All,
    /// Those that perturbations act on.
    Targets,
    /// The most variable ones beside other genes of similar mean.
    Variable(usize),
    /// Those that a file names, one per line.
    File(PathBuf),
    /// One, by its name.
    Named(String),
}

impl Default for GeneChoice {
    fn default() -> Self {
        GeneChoice { sets: vec![GeneSet::Targets, GeneSet::Variable(50)] }
    }
}

impl FromStr for GeneChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(GeneChoice { sets: text.split('+').map(GeneSet::parse).collect::<Result<_>>()? })
    }
}

impl GeneSet {
    fn parse(part: &str) -> Result<GeneSet> {
        match part {
            "all" => Ok(GeneSet::All),
            "targets" => Ok(GeneSet::Targets),
            part => match (part.strip_prefix("hvg:"), part.strip_prefix("file:")) {
                (Some(count), _) => match count.parse() {
                    Ok(count) if count > 0 => Ok(GeneSet::Variable(count)),
                    _ => Err(Error::invalid(format!(
                        "the genes are '{part:.60}', expected hvg: and a number above 0"
                    ))),
                },
                (_, Some(path)) if !path.is_empty() => Ok(GeneSet::File(path.into())),
                _ => Err(Error::invalid(format!(
                    "the genes are '{part:.60}', expected all, targets, hvg:K or file:PATH, joined by +"
                ))),
            },
        }
    }
}

impl Serialize for GeneChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GeneChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Text(String),
            List(Vec<String>),
        }
        let set = |part: String| match part.split_once(':') {
            Some(("hvg" | "file", _)) => GeneSet::parse(&part),
            _ if part == "all" || part == "targets" => GeneSet::parse(&part),
            _ => Ok(GeneSet::Named(part)),
        };
        let choice = match Given::deserialize(deserializer)? {
            Given::Text(text) => text.parse(),
            Given::List(parts) => {
                parts.into_iter().map(set).collect::<Result<_>>().map(|sets| GeneChoice { sets })
            }
        };
        choice.map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for GeneChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, set) in self.sets.iter().enumerate() {
            let plus = if k == 0 { "" } else { "+" };
            match set {
                GeneSet::All => write!(f, "{plus}all")?,
                GeneSet::Targets => write!(f, "{plus}targets")?,
                GeneSet::Variable(count) => write!(f, "{plus}hvg:{count}")?,
                GeneSet::File(path) => write!(f, "{plus}file:{}", path.display())?,
                GeneSet::Named(name) => write!(f, "{plus}{name}")?,
            }
        }
        Ok(())
    }
}

/// The chosen genes.
pub(super) struct Selection {
    /// Their columns: ascending for a fit, in the model's order for a model.
    pub columns: Vec<usize>,
}

impl Selection {
    pub(super) fn of(
        settings: &CellSettings,
        role: &CellRole<'_>,
        matrix: &CellMatrix<'_>,
        scale: &Scale,
        genes: &[String],
        perturbations: &[Perturbation],
        origin: &Origin,
    ) -> Result<Selection> {
        if let Some(names) = role.names() {
            if settings.genes.is_some() {
                return Err(Error::invalid(
                    "genes are given for cells of a model, expected none: the model has its variables",
                ));
            }
            let columns = columns_of(names.iter().map(String::as_str), genes).map_err(|unknown| {
                origin.error(format!("has no genes {unknown}, expected all variables of the model"))
            })?;
            return Ok(Selection { columns });
        }
        let choice = settings.genes.clone().unwrap_or_default();
        let mut columns = BTreeSet::new();
        for set in &choice.sets {
            match set {
                GeneSet::All => columns.extend(0..genes.len()),
                GeneSet::Targets => {
                    columns.extend(perturbations.iter().flat_map(|perturbation| &perturbation.genes))
                }
                GeneSet::Variable(count) => columns.extend(most_variable(*count, matrix, scale)?),
                GeneSet::File(path) => columns.extend(listed_in(path, genes)?),
                GeneSet::Named(name) => {
                    let found = columns_of([name.as_str()].into_iter(), genes);
                    columns.extend(found.map_err(|unknown| {
                        origin.error(format!("has no gene {unknown}, which is given as a variable"))
                    })?);
                }
            }
        }
        match columns.is_empty() {
            true => Err(origin.error(format!("no genes are chosen by '{choice}', expected at least one"))),
            false => Ok(Selection { columns: columns.into_iter().collect() }),
        }
    }

    /// The perturbations whose genes are all variables; `notes` receives the others. The error is a problem of the file.
    pub(super) fn with_variables(
        &self,
        perturbations: Vec<Perturbation>,
        genes: &[String],
        role: &CellRole<'_>,
        notes: &mut Vec<String>,
    ) -> std::result::Result<Vec<Perturbation>, String> {
        let variables: HashSet<usize> = self.columns.iter().copied().collect();
        let is_usable =
            |perturbation: &Perturbation| perturbation.genes.iter().all(|gene| variables.contains(gene));
        let (kept, others): (Vec<_>, Vec<_>) = perturbations.into_iter().partition(is_usable);
        if !others.is_empty() {
            let cells: usize = others.iter().map(|perturbation| perturbation.cells.len()).sum();
            let missing: BTreeSet<usize> = others
                .iter()
                .flat_map(|perturbation| &perturbation.genes)
                .copied()
                .filter(|gene| !variables.contains(gene))
                .collect();
            let names = listed(missing.iter().map(|&gene| genes[gene].as_str()), missing.len());
            let why = match role {
                CellRole::Fit => "genes that were not chosen",
                _ => "genes that are not variables of the model",
            };
            notes.push(format!(
                "Left out {} with {} ({why}): {names}.",
                counted(others.len(), "perturbation"),
                counted(cells, "cell")
            ));
        }
        let needed = if *role == CellRole::Fit { 2 } else { 1 };
        match kept.len() < needed {
            true if *role == CellRole::Fit => Err(
                "has no perturbation left whose genes are variables, expected at least one: choose the genes of targets, too".into(),
            ),
            true => Err("has no perturbation of variables of the model, expected at least one".into()),
            false => Ok(kept),
        }
    }
}

/// The columns of some genes, in their order; the unknown ones as an error.
fn columns_of<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
    genes: &[String],
) -> std::result::Result<Vec<usize>, String> {
    let column_of: HashMap<&str, usize> =
        genes.iter().enumerate().rev().map(|(j, gene)| (gene.as_str(), j)).collect();
    let unknown: Vec<&str> = names.clone().filter(|name| !column_of.contains_key(name)).collect();
    match unknown.is_empty() {
        true => Ok(names.map(|name| column_of[name]).collect()),
        false => Err(listed(unknown.iter().copied(), unknown.len())),
    }
}

/// The columns of the genes that a file names.
fn listed_in(path: &Path, genes: &[String]) -> Result<Vec<usize>> {
    let text = crate::files::input::text(path)?;
    let names = text.lines().map(str::trim).filter(|line| !line.is_empty());
    columns_of(names, genes).map_err(|unknown| {
        Error::file(
            path,
            format!("names genes that var does not have: {unknown}, expected genes of the file"),
        )
    })
}

/// The genes with the largest variance beside the median variance of genes with a similar mean.
fn most_variable(count: usize, matrix: &CellMatrix<'_>, scale: &Scale) -> Result<Vec<usize>> {
    let (cells, genes) = (matrix.cells() as f64, matrix.genes());
    let (mut sums, mut squares) = (vec![0.0; genes], vec![0.0; genes]);
    matrix.visit(|cell, gene, value| {
        let value = scale.apply(cell, value);
        sums[gene] += value;
        squares[gene] += value * value;
    })?;
    let means: Vec<f64> = sums.iter().map(|sum| sum / cells).collect();
    let variances: Vec<f64> =
        squares.iter().zip(&means).map(|(square, mean)| (square / cells - mean * mean).max(0.0)).collect();
    // Bins of as many genes each, by mean.
    let mut order: Vec<usize> = (0..genes).filter(|&j| variances[j] > 0.0).collect();
    order.sort_by(|&a, &b| means[a].total_cmp(&means[b]).then(a.cmp(&b)));
    let mut scores: Vec<(f64, usize)> = Vec::new();
    let (n, bins) = (order.len(), (order.len() / LEAST_IN_BIN).clamp(1, BINS));
    for b in 0..bins {
        let bin = &order[b * n / bins..(b + 1) * n / bins];
        let middle = median(&bin.iter().map(|&j| variances[j]).collect::<Vec<_>>());
        scores.extend(bin.iter().map(|&j| (variances[j] / middle, j)));
    }
    scores.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    Ok(scores.into_iter().take(count).map(|(_, j)| j).collect())
}
