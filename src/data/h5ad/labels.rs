//! What the labels of cells say: controls, single perturbations and combinations.

use super::store::Store;
use super::{CellSettings, listed};
use crate::{Error, Result};
use std::collections::{BTreeMap, HashMap};

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
    pub(super) fn read(store: &Store, settings: &CellSettings, cells: usize) -> Result<Labels> {
        let Some(given) = &settings.perturbation else {
            let columns = store.members("obs")?;
            let (list, count) = (columns.iter().map(String::as_str), columns.len());
            return Err(Error::invalid(format!(
                "no column of perturbations is given for {}, expected one of {}",
                store.name(),
                listed(list, count)
            )));
        };
        let column = given.strip_prefix("obs:").unwrap_or(given).to_owned();
        let labels = store.column("obs", &column)?;
        if labels.len() != cells {
            return Err(store.error(format!(
                "obs/{column:.60} has {} rows, expected {cells} as in the matrix",
                labels.len()
            )));
        }
        let separator = settings.separator.as_deref().unwrap_or(USUAL_SEPARATOR);
        if separator.is_empty() {
            return Err(Error::invalid(
                "the separator is empty, expected the text between the genes of a combination",
            ));
        }
        let is_control = |part: &str| match &settings.control {
            Some(control) => part == control,
            None => is_usual_control(part),
        };
        let mut groups: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
        let (mut unlabelled, mut known) = (0, HashMap::<String, Vec<String>>::new());
        for (cell, label) in labels.into_iter().enumerate() {
            if label.is_empty() {
                unlabelled += 1;
                continue;
            }
            let parts = known.entry(label).or_insert_with_key(|label| parts(label, separator, &is_control));
            match groups.get_mut(parts) {
                Some(cells) => cells.push(cell),
                None => drop(groups.insert(parts.clone(), vec![cell])),
            }
        }
        if !groups.contains_key(&Vec::new()) {
            let expected = match &settings.control {
                Some(control) => format!("some with the control label '{control:.60}'"),
                None => "some with a usual label of controls, such as 'control', 'NT' or 'non-targeting': give theirs".into(),
            };
            let found: Vec<String> = groups.keys().map(|parts| parts.join(separator)).collect();
            return Err(store.error(format!(
                "obs/{column:.60} has no control cells: found the labels {}, expected {expected}",
                listed(found.iter().map(String::as_str), found.len())
            )));
        }
        Ok(Labels { groups, unlabelled, column })
    }

    /// Controls, and the perturbations whose genes were all measured and that have at least so many cells. `notes` receives what is left out
    /// and why. The error is a problem of the file.
    pub(super) fn usable(
        self,
        genes: &[String],
        least: usize,
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
                        "obs/{:.60} has {} control cells, expected at least {least}",
                        self.column,
                        cells.len()
                    ));
                }
                Some(genes) => usable.push(Perturbation { label, genes, cells }),
            }
        }
        let mut left_out = |what: &[(String, usize)], why: &str| {
            if !what.is_empty() {
                let cells: usize = what.iter().map(|(_, cells)| cells).sum();
                let names = listed(what.iter().map(|(label, _)| label.as_str()), what.len());
                notes.push(format!(
                    "Left out {} perturbations with {cells} cells, because {why}: {names}.",
                    what.len()
                ));
            }
        };
        left_out(&unmeasured, "they name genes that were not measured");
        left_out(&few, &format!("they have fewer than {least} cells"));
        if self.unlabelled > 0 {
            notes.push(format!("Left out {} cells without a label in obs/{}.", self.unlabelled, self.column));
        }
        match usable.len() {
            0 | 1 => Err(format!(
                "obs/{:.60} has no perturbation with at least {least} cells whose genes were measured, expected one beside the controls",
                self.column
            )),
            _ => Ok(usable),
        }
    }
}

/// The parts of a label without controls, sorted, each once.
fn parts(label: &str, separator: &str, is_control: &impl Fn(&str) -> bool) -> Vec<String> {
    if is_control(label) {
        return Vec::new();
    }
    let parts = label.split(separator).map(str::trim).filter(|part| !part.is_empty() && !is_control(part));
    let mut parts: Vec<String> = parts.map(str::to_owned).collect();
    parts.sort();
    parts.dedup();
    parts
}

fn is_usual_control(part: &str) -> bool {
    let plain: String =
        part.chars().filter(|c| !matches!(c, ' ' | '-' | '_')).flat_map(char::to_lowercase).collect();
    USUAL_CONTROLS.contains(&plain.as_str())
}
