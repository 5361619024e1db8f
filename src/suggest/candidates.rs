//! Perturbations that the data does not have.

use crate::data::Dataset;
use std::collections::HashSet;

/// The sets of targets that the data has.
fn made(data: &Dataset) -> HashSet<Vec<usize>> {
    let targets = |e: usize| (0..data.dim()).filter(|&j| data.targets()[(e, j)]).collect();
    (0..data.environments()).map(targets).collect()
}

/// All variables that nobody has perturbed alone.
pub(super) fn singles(data: &Dataset) -> Vec<Vec<usize>> {
    let made = made(data);
    (0..data.dim()).map(|j| vec![j]).filter(|targets| !made.contains(targets)).collect()
}

/// All pairs that nobody has made, of the first variables in `best` and of those that were perturbed alone: `most` in all.
pub(super) fn pairs(data: &Dataset, best: &[usize], most: usize) -> Vec<Vec<usize>> {
    let made = made(data);
    let alone = (0..data.dim()).filter(|&j| made.contains(&vec![j]));
    let mut variables = best[..best.len().min(most)].to_vec();
    variables.extend(alone.take(most - variables.len()));
    variables.sort_unstable();
    let all =
        variables.iter().enumerate().flat_map(|(k, &a)| variables[k + 1..].iter().map(move |&b| vec![a, b]));
    all.filter(|targets| !made.contains(targets)).collect()
}
