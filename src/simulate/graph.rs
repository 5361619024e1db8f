//! Random causal graphs.

use super::Settings;
use crate::named::named;
use crate::{Error, Matrix, Result};
use rand::seq::SliceRandom;
use rand::{Rng, RngExt};

/// The model of a random graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphKind {
    /// Erdős–Rényi: every ordered pair has an edge with the same probability.
    Er,
    /// Scale-free, by preferential attachment (Barabási and Albert).
    Sf,
    /// A stochastic block model: more edges within blocks than between them.
    Sbm,
}

named!(GraphKind, "graph", { Er => "er", Sf => "sf", Sbm => "sbm" });

/// The largest probability of an edge.
const LARGEST: f64 = 0.99;

/// A random graph, d × d: whether variable i acts on variable j, at (j, i).
pub(super) fn draw(settings: &Settings, acyclic: bool, rng: &mut impl Rng) -> Result<Matrix<bool>> {
    let Settings { graph: kind, dim: d, edges, blocks, between, .. } = *settings;
    if edges == 0 || edges >= d {
        return Err(Error::invalid(format!(
            "found {edges} edges per variable for {d} variables, expected at least 1 and fewer than there are variables"
        )));
    }
    let plain = match kind {
        GraphKind::Er => by_pair(d, edges, acyclic, |_, _| 1.0, rng),
        GraphKind::Sbm => {
            let block = |i: usize| i * blocks / d;
            by_pair(d, edges, acyclic, |i, j| if block(i) == block(j) { 1.0 } else { between }, rng)
        }
        GraphKind::Sf => attached(d, edges, acyclic, rng),
    };
    let mut order: Vec<usize> = (0..d).collect();
    order.shuffle(rng);
    Ok(Matrix::from_fn(d, d, |j, i| plain[(order[j], order[i])]))
}

/// Every ordered pair, or every pair once, with a probability in proportion to `weight` and d · `edges` edges expected.
fn by_pair(
    d: usize,
    edges: usize,
    acyclic: bool,
    weight: impl Fn(usize, usize) -> f64,
    rng: &mut impl Rng,
) -> Matrix<bool> {
    let may = |j: usize, i: usize| if acyclic { i < j } else { i != j };
    let total: f64 = (0..d)
        .flat_map(|j| (0..d).map(move |i| (j, i)))
        .filter(|&(j, i)| may(j, i))
        .map(|(j, i)| weight(i, j))
        .sum();
    Matrix::from_fn(d, d, |j, i| {
        // Drawn for every pair, so that the random numbers do not depend on which pairs may have an edge.
        let chance: f64 = rng.random_range(0.0..1.0);
        may(j, i) && chance < ((d * edges) as f64 * weight(i, j) / total).min(LARGEST)
    })
}

/// Variable after variable is tied to `edges` earlier ones, with probabilities in proportion to their degrees plus 1.
fn attached(d: usize, edges: usize, acyclic: bool, rng: &mut impl Rng) -> Matrix<bool> {
    let mut graph = Matrix::full(d, d, false);
    let mut degrees = vec![0usize; d];
    for new in 1..d {
        let mut open: Vec<usize> = (0..new).collect();
        for _ in 0..edges.min(new) {
            let total: usize = open.iter().map(|&i| degrees[i] + 1).sum();
            let mut at = rng.random_range(0..total);
            let place = open
                .iter()
                .position(|&i| {
                    let here = degrees[i] + 1;
                    let found = at < here;
                    at = at.saturating_sub(here);
                    found
                })
                .expect("a number below the sum falls on one of its parts");
            let old = open.swap_remove(place);
            // The new variable acts on the old one, or the other way round if cycles are allowed.
            let turned = !acyclic && rng.random_bool(0.5);
            let (source, target) = if turned { (old, new) } else { (new, old) };
            graph[(target, source)] = true;
            degrees[old] += 1;
            degrees[new] += 1;
        }
    }
    graph
}

/// The variables in causal order, causes first; none if there is a cycle.
pub fn causal_order(graph: &Matrix<bool>) -> Option<Vec<usize>> {
    let d = graph.rows();
    let mut order = Vec::with_capacity(d);
    let mut placed = vec![false; d];
    while order.len() < d {
        let next = (0..d).find(|&j| !placed[j] && (0..d).all(|i| !graph[(j, i)] || placed[i]))?;
        placed[next] = true;
        order.push(next);
    }
    Some(order)
}

/// Which variables a change of `source` reaches, including itself.
pub fn descendants(graph: &Matrix<bool>, source: usize) -> Vec<bool> {
    let d = graph.rows();
    let mut reached = vec![false; d];
    reached[source] = true;
    let mut open = vec![source];
    while let Some(i) = open.pop() {
        for j in (0..d).filter(|&j| graph[(j, i)]) {
            if !reached[j] {
                reached[j] = true;
                open.push(j);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn settings(graph: GraphKind, dim: usize, edges: usize) -> Settings {
        Settings { graph, dim, edges, ..Settings::default() }
    }

    fn all(kind: GraphKind, acyclic: bool, d: usize, count: u64) -> Vec<Matrix<bool>> {
        (0..count)
            .map(|seed| draw(&settings(kind, d, 3), acyclic, &mut ChaCha8Rng::seed_from_u64(seed)).unwrap())
            .collect()
    }

    fn edges(graph: &Matrix<bool>) -> usize {
        graph.as_slice().iter().filter(|edge| **edge).count()
    }

    #[test]
    fn densities_are_those_asked_for() {
        for acyclic in [false, true] {
            for kind in [GraphKind::Er, GraphKind::Sbm] {
                let graphs = all(kind, acyclic, 50, 400);
                let mean = graphs.iter().map(edges).sum::<usize>() as f64 / 400.0;
                // The standard error of the mean is about 0.6.
                assert!((mean - 150.0).abs() < 2.5, "{kind} {acyclic}: {mean}");
            }
            // Every variable but the first three is tied to three: 1 + 2 + 17 · 3.
            assert!(all(GraphKind::Sf, acyclic, 20, 20).iter().all(|graph| edges(graph) == 54));
        }
    }

    #[test]
    fn graphs_are_acyclic_if_asked_and_never_have_loops() {
        for &kind in GraphKind::ALL {
            let cyclic = all(kind, false, 20, 30);
            assert!(cyclic.iter().any(|graph| causal_order(graph).is_none()), "{kind}");
            assert!(cyclic.iter().all(|graph| (0..20).all(|j| !graph[(j, j)])), "{kind}");
            for graph in all(kind, true, 20, 30) {
                let order = causal_order(&graph).expect("acyclic");
                let place = |v: usize| order.iter().position(|u| *u == v).unwrap();
                for (j, i) in (0..20).flat_map(|j| (0..20).map(move |i| (j, i))) {
                    assert!(!graph[(j, i)] || place(i) < place(j));
                }
            }
        }
    }

    #[test]
    fn degrees_of_a_scale_free_graph_have_a_heavy_tail() {
        let largest = |kind: GraphKind| {
            let degree =
                |graph: &Matrix<bool>, j: usize| (0..200).filter(|&i| graph[(j, i)] || graph[(i, j)]).count();
            let most = |graph: &Matrix<bool>| (0..200).map(|j| degree(graph, j)).max().unwrap();
            all(kind, false, 200, 10).iter().map(most).sum::<usize>() as f64 / 10.0
        };
        // Poisson degrees of mean 6 reach 13 or 14 among 200; preferential attachment reaches far more.
        assert!(largest(GraphKind::Er) < 17.0, "{}", largest(GraphKind::Er));
        assert!(largest(GraphKind::Sf) > 25.0, "{}", largest(GraphKind::Sf));
    }

    #[test]
    fn blocks_are_denser_within() {
        // Order is shuffled, so look at clustering: ties among those who share a partner.
        let closed = |kind: GraphKind| {
            let mut counts = (0usize, 0usize);
            for graph in all(kind, false, 100, 10) {
                let tied = |i: usize, j: usize| graph[(i, j)] || graph[(j, i)];
                for i in 0..100 {
                    let partners: Vec<usize> = (0..100).filter(|&j| tied(i, j)).collect();
                    for (a, &j) in partners.iter().enumerate() {
                        for &k in &partners[..a] {
                            counts = (counts.0 + usize::from(tied(j, k)), counts.1 + 1);
                        }
                    }
                }
            }
            counts.0 as f64 / counts.1 as f64
        };
        assert!(closed(GraphKind::Sbm) > 1.8 * closed(GraphKind::Er));
    }

    #[test]
    fn descendants_are_those_reached() {
        // 0 → 1 → 2, 3 alone.
        let mut graph = Matrix::full(4, 4, false);
        (graph[(1, 0)], graph[(2, 1)]) = (true, true);
        assert_eq!(descendants(&graph, 0), [true, true, true, false]);
        assert_eq!(descendants(&graph, 2), [false, false, true, false]);
        assert!(draw(&settings(GraphKind::Er, 3, 3), false, &mut ChaCha8Rng::seed_from_u64(0)).is_err());
    }
}
