//! Perturbations that the data does not have.

use crate::data::Dataset;
use std::collections::HashSet;

/// The sets of targets that the data has.
fn made(data: &Dataset) -> HashSet<Vec<usize>> {
    let targets = |e: usize| (0..data.dim()).filter(|&j| data.targets()[(e, j)]).collect();
    (0..data.environments()).map(targets).collect()
}

/// All variables, and whether nobody has perturbed each alone.
pub(super) fn singles(data: &Dataset) -> Vec<(Vec<usize>, bool)> {
    let made = made(data);
    (0..data.dim()).map(|j| vec![j]).map(|targets| (targets.clone(), !made.contains(&targets))).collect()
}

/// All pairs of some variables that nobody has made.
pub(super) fn pairs(data: &Dataset, variables: &[usize]) -> Vec<Vec<usize>> {
    let made = made(data);
    let mut sorted = variables.to_vec();
    sorted.sort_unstable();
    let all = sorted.iter().enumerate().flat_map(|(k, &a)| sorted[k + 1..].iter().map(move |&b| vec![a, b]));
    all.filter(|targets| !made.contains(targets)).collect()
}
