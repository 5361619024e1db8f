//! Interventional essential graphs: one graph for all DAGs that no experiment with the given targets tells apart.
//!
//! The essential graph of a DAG has its adjacencies. It has an arrow where all DAGs of the class have this arrow, and a line
//! where they differ. It is a chain graph with chordal components (Hauser and Bühlmann 2012, theorem 18).

use super::graph::Graph;
use super::set::Set;

/// For each variable, those that an environment acts on without it, or that it is acted on without.
///
/// Lines never join such variables: the environment tells the direction.
pub(crate) fn separated(dim: usize, targets: &[Set]) -> Vec<Set> {
    let of = |a: usize| {
        let apart = |b: &usize| targets.iter().any(|t| t.contains(a) != t.contains(*b));
        Set::of(dim, (0..dim).filter(apart))
    };
    (0..dim).map(of).collect()
}

/// The essential graph of a DAG: arrows that are not strongly protected turn to lines until all are.
pub(crate) fn essential_graph(dag: &Graph, separated: &[Set]) -> Graph {
    let mut graph = dag.clone();
    let mut arrows = graph.arrows();
    loop {
        let before = arrows.len();
        arrows.retain(|&(a, b)| {
            let keep = separated[a].contains(b) || is_protected(&graph, a, b);
            if !keep {
                graph.set_line(a, b);
            }
            keep
        });
        if arrows.len() == before {
            return graph;
        }
    }
}

/// Whether other arrows and lines alone keep a → b from turning (definition 14 of the paper, configurations a to d).
fn is_protected(graph: &Graph, a: usize, b: usize) -> bool {
    let (of_a, of_b) = (graph.adjacent(a), graph.adjacent(b));
    let others = graph.parents(b).without(a);
    // c → a, where a line or the other direction would change whether c → a ← b.
    let upstream = !graph.parents(a).difference(&of_b).is_empty();
    // c → b with a → b ← c.
    let collider = !others.difference(&of_a).is_empty();
    // a → c → b, which b → a would close to a cycle.
    let cycle = graph.children(a).meets(&others);
    if upstream || collider || cycle {
        return true;
    }
    // a — c → b and a — d → b with c, d apart: b → a would make c → a ← d.
    let between = graph.neighbors(a).intersection(&others);
    between.iter().any(|c| !between.without(c).is_within(&graph.adjacent(c)))
}

/// The DAG of the class of an essential graph that has, in the component of the last variable of each list, the variables of
/// the list before all others and in the given order. The order of all others is fixed.
///
/// Each list is a clique, or one followed by a variable with the properties that the turning of a line asks for.
pub(crate) fn directed(graph: &Graph, firsts: &[Vec<usize>]) -> Graph {
    let mut dag = graph.clone();
    let mut done = Set::empty(graph.dim());
    let singles = (0..graph.dim()).map(|i| vec![i]);
    for first in firsts.iter().cloned().chain(singles) {
        let Some(&last) = first.last() else { continue };
        if done.contains(last) || graph.neighbors(last).is_empty() {
            continue;
        }
        let component = graph.component(last);
        let order = elimination_order(graph, &component, &first);
        for (at, &a) in order.iter().enumerate() {
            order[at + 1..]
                .iter()
                .filter(|&&b| graph.neighbors(a).contains(b))
                .for_each(|&b| dag.set_arrow(a, b));
        }
        done = done.union(&component);
    }
    dag
}

/// An order of a chordal component in which the earlier neighbors of each variable are a clique: maximum cardinality search.
/// Between equals it takes the first of `first`, then the lowest.
fn elimination_order(graph: &Graph, component: &Set, first: &[usize]) -> Vec<usize> {
    let listed = Set::of(graph.dim(), first.iter().copied());
    let mut left: Vec<(usize, usize)> =
        first.iter().copied().chain(component.difference(&listed).iter()).map(|i| (i, 0)).collect();
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let best = (1..left.len()).fold(0, |best, at| if left[at].1 > left[best].1 { at } else { best });
        let (chosen, _) = left.remove(best);
        left.iter_mut()
            .filter(|(i, _)| graph.neighbors(chosen).contains(*i))
            .for_each(|(_, count)| *count += 1);
        order.push(chosen);
    }
    order
}

/// The parents of each variable in a DAG of the class of an essential graph (Dor and Tarsi 1992): again and again the first
/// variable of `order` that can be last takes the lines that it still has as arrows to it.
///
/// None if there is no such DAG, which does not happen for an essential graph.
pub(crate) fn consistent_extension(graph: &Graph, order: &[usize]) -> Option<Vec<Vec<usize>>> {
    let mut parents: Vec<Set> = (0..graph.dim()).map(|i| graph.parents(i).clone()).collect();
    let mut left = Set::of(graph.dim(), 0..graph.dim());
    while !left.is_empty() {
        let is_last = |i: usize| {
            let around = graph.adjacent(i).intersection(&left);
            let lines = graph.neighbors(i).intersection(&left);
            !graph.children(i).meets(&left)
                && lines.iter().all(|n| around.without(n).is_within(&graph.adjacent(n)))
        };
        let i = order.iter().copied().find(|&i| left.contains(i) && is_last(i))?;
        parents[i] = parents[i].union(&graph.neighbors(i).intersection(&left));
        left.remove(i);
    }
    Some(parents.iter().map(|set| set.iter().collect()).collect())
}
