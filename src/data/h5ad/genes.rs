//! Which genes become variables.

use super::counts::Scale;
use super::labels::Perturbation;
use super::matrix::CellMatrix;
use super::store::Store;
use super::{Problem, listed};
use crate::Error;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Bins of mean expression in which genes are compared.
const BINS: usize = 20;

/// Which genes become variables: the union of some sets.
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
}

impl Default for GeneChoice {
    fn default() -> Self {
        GeneChoice { sets: vec![GeneSet::Targets, GeneSet::Variable(50)] }
    }
}

impl FromStr for GeneChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let set = |part: &str| match part {
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
        };
        Ok(GeneChoice { sets: text.split('+').map(set).collect::<Result<_, Error>>()? })
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
            }
        }
        Ok(())
    }
}

/// The chosen genes.
pub(super) struct Selection {
    /// Their columns, ascending.
    pub columns: Vec<usize>,
}

impl Selection {
    pub(super) fn of(
        choice: &GeneChoice,
        matrix: &CellMatrix<'_>,
        scale: &Scale,
        genes: &[String],
        perturbations: &[Perturbation],
    ) -> Result<Selection, Problem> {
        let mut columns = BTreeSet::new();
        for set in &choice.sets {
            match set {
                GeneSet::All => columns.extend(0..genes.len()),
                GeneSet::Targets => {
                    columns.extend(perturbations.iter().flat_map(|perturbation| &perturbation.genes))
                }
                GeneSet::Variable(count) => columns.extend(most_variable(*count, matrix, scale)?),
                GeneSet::File(path) => columns.extend(named(path, genes)?),
            }
        }
        match columns.is_empty() {
            true => Err(Problem::OfFile(format!("no genes are chosen by '{choice}', expected at least one"))),
            false => Ok(Selection { columns: columns.into_iter().collect() }),
        }
    }

    /// The perturbations whose genes are all variables; `notes` receives the others.
    pub(super) fn with_variables(
        &self,
        perturbations: Vec<Perturbation>,
        genes: &[String],
        notes: &mut Vec<String>,
    ) -> Vec<Perturbation> {
        let is_variable = |gene: &usize| self.columns.binary_search(gene).is_ok();
        let (kept, others): (Vec<_>, Vec<_>) =
            perturbations.into_iter().partition(|perturbation| perturbation.genes.iter().all(is_variable));
        if !others.is_empty() {
            let cells: usize = others.iter().map(|perturbation| perturbation.cells.len()).sum();
            let missing: BTreeSet<usize> = others
                .iter()
                .flat_map(|perturbation| &perturbation.genes)
                .copied()
                .filter(|gene| !is_variable(gene))
                .collect();
            let names = listed(missing.iter().map(|&gene| genes[gene].as_str()), missing.len());
            notes.push(format!(
                "Left out {} perturbations with {cells} cells, because their genes were not chosen: {names}.",
                others.len()
            ));
        }
        kept
    }
}

/// The columns of the genes that a file names.
fn named(path: &std::path::Path, genes: &[String]) -> Result<Vec<usize>, Problem> {
    let text = crate::files::input::text(path)?;
    let column_of: HashMap<&str, usize> =
        genes.iter().enumerate().rev().map(|(j, gene)| (gene.as_str(), j)).collect();
    let names: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let unknown: Vec<&str> = names.iter().copied().filter(|name| !column_of.contains_key(name)).collect();
    match unknown.is_empty() {
        true => Ok(names.iter().map(|name| column_of[name]).collect()),
        false => Err(Problem::Other(Error::file(
            path,
            format!(
                "names genes that var does not have: {}, expected genes of the file",
                listed(unknown.iter().copied(), unknown.len())
            ),
        ))),
    }
}

/// The genes with the largest variance beside the median variance of genes with a similar mean.
fn most_variable(count: usize, matrix: &CellMatrix<'_>, scale: &Scale) -> crate::Result<Vec<usize>> {
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
    for bin in order.chunks(order.len().div_ceil(BINS).max(1)) {
        let mut sorted: Vec<f64> = bin.iter().map(|&j| variances[j]).collect();
        sorted.sort_by(f64::total_cmp);
        let median = sorted[sorted.len() / 2];
        scores.extend(bin.iter().map(|&j| (variances[j] / median, j)));
    }
    scores.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    Ok(scores.into_iter().take(count).map(|(_, j)| j).collect())
}

impl Store {
    /// The file's name in sentences.
    pub(super) fn name(&self) -> String {
        self.path().display().to_string()
    }
}
