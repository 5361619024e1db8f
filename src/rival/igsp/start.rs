//! Permutations to start from, and the sparsest graph in the order of a permutation.

use super::dag::Dag;
use super::independence::Independence;
use super::nodes::Nodes;
use crate::{Matrix, Progress, Result};
use rand::{Rng, RngExt};

/// The graph in which an earlier node of the order is a parent of a later one if they depend on each other given all other
/// nodes before the later.
pub(super) fn sparsest_graph(order: &[usize], tests: &Independence, progress: &Progress) -> Result<Dag> {
    let mut parents = vec![Nodes::default(); order.len()];
    for last in 1..order.len() {
        progress.check()?;
        let dependent = tests.dependent_pairs(&order[..=last]);
        parents[order[last]] = Nodes::of((0..last).filter(|&k| dependent[(last, k)]).map(|k| order[k]));
    }
    Ok(Dag::new(parents))
}

/// A permutation by minimum degree: takes away a node with the fewest neighbours, connects them with each other, and so on;
/// the node taken first comes last. Draws among nodes with equally many neighbours.
pub(super) fn minimum_degree_order(dependent: &Matrix<bool>, rng: &mut impl Rng) -> Vec<usize> {
    let d = dependent.rows();
    let mut neighbours: Vec<Nodes> =
        (0..d).map(|i| Nodes::of((0..d).filter(|&j| dependent[(i, j)] || dependent[(j, i)]))).collect();
    let mut left: Vec<usize> = (0..d).collect();
    let mut order = Vec::with_capacity(d);
    while !left.is_empty() {
        let least = left.iter().map(|&i| neighbours[i].len()).min().unwrap_or(0);
        let candidates: Vec<usize> =
            (0..left.len()).filter(|&at| neighbours[left[at]].len() == least).collect();
        let node = left.remove(candidates[rng.random_range(0..candidates.len())]);
        let around = neighbours[node];
        for i in around.iter() {
            around.iter().filter(|&j| j != i).for_each(|j| neighbours[i] = neighbours[i].with(j));
            neighbours[i] = neighbours[i].without(node);
        }
        order.push(node);
    }
    order.reverse();
    order
}
