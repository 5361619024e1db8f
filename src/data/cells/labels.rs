//! What the labels of cells say: controls, single perturbations and combinations.

use super::source::Origin;
use super::{CellPreparation, CellRole, counted, listed};
use crate::{Error, Result};
use std::collections::{BTreeMap, HashMap, HashSet};

/// How controls are usually called, in lower case without spaces, hyphens and underscores.
const USUAL_CONTROLS: [&str; 8] =
    ["control", "ctrl", "nt", "nontargeting", "nontarget", "negativecontrol", "negctrl", "unperturbed"];
/// What usually separates the genes of a combination.
const USUAL_SEPARATOR: &str = "+";

/// The label of every cell, taken apart.
pub(super) struct Labels {
    /// The cells of each combination of parts, by the sorted parts; controls have none.
    groups: BTreeMap<Vec<String>, Vec<usize>>,
    /// Cells without a label.
    unlabelled: usize,
    column: String,
}

/// The cells of an environment.
pub(super) struct Perturbation {
    /// Its genes, joined by `+`; `control` for controls.
    pub label: String,
    /// The genes it acts on, by their columns in the file; none for controls.
    pub genes: Vec<usize>,
    /// In the order of the file.
    pub cells: Vec<usize>,
}

impl Labels {
    pub(super) fn of(
        labels: Vec<String>,
        genes: &[String],
        prepared: &CellPreparation,
        role: &CellRole<'_>,
        origin: &Origin,
    ) -> Result<Labels> {
        let separator = prepared.separator.as_deref().unwrap_or(USUAL_SEPARATOR);
        if separator.is_empty() {
            return Err(Error::invalid(
                "the separator is empty, expected the text between the genes of a combination",
            ));
        }
        let is_control = |part: &str| match &prepared.control {
            Some(control) => part == control,
            None => is_usual_control(part),
        };
        let mut groups: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
        let genes: HashSet<&str> = genes.iter().map(String::as_str).collect();
        let parts = |label: &String| parts(label, separator, &genes, &is_control);
        let (mut unlabelled, mut known) = (0, HashMap::<String, Option<Vec<String>>>::new());
        for (cell, label) in labels.into_iter().enumerate() {
            let Some(parts) = known.entry(label).or_insert_with_key(parts) else {
                unlabelled += 1;
                continue;
            };
            match groups.get_mut(parts) {
                Some(cells) => cells.push(cell),
                None => drop(groups.insert(parts.clone(), vec![cell])),
            }
        }
        let column = origin.column.clone();
        if role.has_controls() && !groups.contains_key(&Vec::new()) {
            let expected = match &prepared.control {
                Some(control) => format!("some with the control label '{control:.60}'"),
                None => "some with a usual label of controls, such as 'control', 'NT' or 'non-targeting': give theirs".into(),
            };
            let found: Vec<String> = groups.keys().map(|parts| parts.join(separator)).collect();
            return Err(origin.error(format!(
                "{column:.60} has no control cells: found the labels {}, expected {expected}",
                listed(found.iter().map(String::as_str), found.len())
            )));
        }
        if !role.has_controls() {
            groups.remove(&Vec::new());
        }
        Ok(Labels { groups, unlabelled, column })
    }

    /// Controls, and the perturbations whose genes were all measured and that have at least so many cells. `notes` receives what is left out
    /// and why. The error is a problem of the file.
    pub(super) fn usable(
        self,
        genes: &[String],
        least: usize,
        role: &CellRole<'_>,
        notes: &mut Vec<String>,
    ) -> std::result::Result<Vec<Perturbation>, String> {
        let column_of: HashMap<&str, usize> =
            genes.iter().enumerate().rev().map(|(j, gene)| (gene.as_str(), j)).collect();
        let (mut usable, mut unmeasured, mut few) = (Vec::new(), Vec::new(), Vec::new());
        for (parts, cells) in self.groups {
            let label = if parts.is_empty() { "control".into() } else { parts.join("+") };
            let columns: Option<Vec<usize>> =
                parts.iter().map(|part| column_of.get(part.as_str()).copied()).collect();
            match columns {
                None => unmeasured.push((label, cells.len())),
                Some(_) if cells.len() < least && !parts.is_empty() => few.push((label, cells.len())),
                Some(_) if cells.len() < least => {
                    return Err(format!(
                        "{:.60} has {} control cells, expected at least {least}",
                        self.column,
                        cells.len()
                    ));
                }
                Some(genes) => usable.push(Perturbation { label, genes, cells }),
            }
        }
        left_out(&unmeasured, "genes that were not measured", notes);
        left_out(&few, &format!("fewer than {least} cells"), notes);
        if self.unlabelled > 0 {
            notes.push(format!(
                "Left out {} without a label in {}.",
                counted(self.unlabelled, "cell"),
                self.column
            ));
        }
        let (needed, beside) = match role {
            CellRole::Fit => (2, ", expected one beside the controls"),
            CellRole::Start(..) => (1, ""),
            CellRole::Test(..) => (1, ", expected one to predict"),
        };
        match usable.len() < needed {
            true => Err(format!(
                "{:.60} has no perturbation with at least {least} cells whose genes were measured{beside}{}",
                self.column,
                why(&unmeasured, &few)
            )),
            false => Ok(usable),
        }
    }
}

/// Says which perturbations are left out, how many cells they have, and why.
fn left_out(what: &[(String, usize)], why: &str, notes: &mut Vec<String>) {
    if !what.is_empty() {
        let cells: usize = what.iter().map(|(_, cells)| cells).sum();
        let names = with_counts(what);
        notes.push(format!(
            "Left out {} with {} ({why}): {names}.",
            counted(what.len(), "perturbation"),
            counted(cells, "cell")
        ));
    }
}

/// Labels with their numbers of cells.
fn with_counts(what: &[(String, usize)]) -> String {
    let counts: Vec<String> = what.iter().map(|(label, cells)| format!("{label:.60} ({cells})")).collect();
    listed(counts.iter().map(String::as_str), counts.len())
}

/// What the labels of unusable perturbations are, and how many cells the small ones have.
fn why(unmeasured: &[(String, usize)], few: &[(String, usize)]) -> String {
    let mut reasons = String::new();
    if !unmeasured.is_empty() {
        let names = listed(unmeasured.iter().map(|(label, _)| label.as_str()), unmeasured.len());
        reasons.push_str(&format!("; not measured: {names}"));
    }
    if !few.is_empty() {
        reasons.push_str(&format!("; too few cells: {}", with_counts(few)));
    }
    reasons
}

/// The parts of a label without controls, sorted, each once; none if it says nothing. The name of a gene is one part, even
/// with the separator in it.
fn parts(
    label: &str,
    separator: &str,
    genes: &HashSet<&str>,
    is_control: &impl Fn(&str) -> bool,
) -> Option<Vec<String>> {
    if is_control(label) {
        return Some(Vec::new());
    }
    if genes.contains(label) {
        return Some(vec![label.to_owned()]);
    }
    let mut parts: Vec<&str> =
        label.split(separator).map(str::trim).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        return None;
    }
    parts.retain(|part| !is_control(part));
    parts.sort_unstable();
    parts.dedup();
    Some(parts.into_iter().map(str::to_owned).collect())
}

fn is_usual_control(part: &str) -> bool {
    let plain: String =
        part.chars().filter(|c| !matches!(c, ' ' | '-' | '_')).flat_map(char::to_lowercase).collect();
    USUAL_CONTROLS.contains(&plain.as_str())
}
