//! The moves of the search: each adds, removes or turns one arrow in some DAG of a class and leads to the class of the result.
//!
//! For a pair u, v with u → v after (or before) the move, a set C of neighbors of v names the DAGs that it is done in: those
//! where, of the neighbors of v, just C (and u, if it is one) have arrows to v. N is short for ne(v) ∩ ad(u).
//!
//! | move | C is a clique of neighbors of v and |
//! |---|---|
//! | insert u → v | N ⊆ C; all paths from v to u meet C |
//! | delete u → v or u — v | C ⊆ N |
//! | turn u ← v | N ⊆ C; all paths from v to u but v → u meet C ∪ ne(u) |
//! | turn u — v | u ∉ C ⊄ N; C ∩ N separates C \ N and N \ C among the neighbors of v |
//!
//! These are the conditions of the propositions in section 4 of Hauser and Bühlmann (2012). The tests compare them with all
//! moves of all DAGs of up to five variables.

use super::essential::directed;
use super::graph::Graph;
use super::score::Score;
use super::set::Set;
use super::settings::Phase;
use super::upper::UpperBounds;
use crate::{Progress, Result};
use std::cell::Cell;

/// Gains within this distance are equal: rounding does not decide between moves.
const TIE: f64 = 1e-7;

/// One move.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Move {
    /// What the move does.
    pub phase: Phase,
    /// u.
    pub source: usize,
    /// v.
    pub target: usize,
    /// C.
    pub clique: Set,
    /// How much it raises the score.
    pub gain: f64,
}

impl Move {
    /// A DAG of the class that the move leads to.
    pub(crate) fn apply(&self, graph: &Graph) -> Graph {
        let (u, v) = (self.source, self.target);
        let is_line = graph.neighbors(v).contains(u);
        let mut first: Vec<usize> = self.clique.iter().collect();
        match self.phase {
            Phase::Backward if is_line => first.extend([u, v]),
            Phase::Turning if is_line => first.extend([v, u]),
            _ => first.push(v),
        }
        // Where v → u turns, u has no arrows from its own neighbors.
        let mut dag = directed(graph, &[first, vec![u]]);
        match self.phase {
            Phase::Backward => dag.clear(u, v),
            Phase::Forward | Phase::Turning => dag.set_arrow(u, v),
        }
        dag
    }
}

/// Calls `visit` with every valid move of a phase that is wanted for its gain, in a fixed order.
///
/// The gain is quick to know; only wanted moves are tested for their paths. Pairs whose bound is not wanted are left out.
fn enumerate(
    graph: &Graph,
    phase: Phase,
    score: &mut Score,
    bounds: &mut UpperBounds,
    progress: &Progress,
    mut visit: impl FnMut(Move),
    wanted: impl Fn(f64) -> bool,
) -> Result<()> {
    let d = graph.dim();
    for v in 0..d {
        progress.check()?;
        for u in (0..d).filter(|&u| u != v) {
            if bounds.get(graph, phase, (u, v)).is_some_and(|bound| !wanted(bound)) {
                continue;
            }
            let (adjacent, neighbors) = (graph.adjacent(u), graph.neighbors(v));
            let is_line = neighbors.contains(u);
            let common = neighbors.intersection(&adjacent);
            let apart = neighbors.difference(&adjacent).without(u);
            let (base, candidates) = match phase {
                Phase::Forward if !adjacent.contains(v) => (common.clone(), apart),
                // Both directions of a line remove the same.
                Phase::Backward if graph.parents(v).contains(u) || (is_line && u < v) => {
                    (Set::empty(d), common.clone())
                }
                Phase::Turning if graph.parents(u).contains(v) => (common.clone(), apart),
                Phase::Turning if is_line && !apart.is_empty() => (Set::empty(d), neighbors.without(u)),
                _ => {
                    bounds.set(phase, (u, v), f64::NEG_INFINITY);
                    continue;
                }
            };
            let mut bound = f64::NEG_INFINITY;
            each_clique(graph, base, candidates, &mut |clique| {
                progress.check()?;
                if phase == Phase::Turning && is_line && clique.is_within(&common) {
                    return Ok(());
                }
                let gain = gain(graph, phase, (u, v), clique, score)?;
                bound = bound.max(gain);
                if wanted(gain) && is_open(graph, phase, (u, v), clique, &common) {
                    visit(Move { phase, source: u, target: v, clique: clique.clone(), gain });
                }
                Ok(())
            })?;
            bounds.set(phase, (u, v), bound);
        }
    }
    Ok(())
}

/// If `base` is a clique, calls `visit` with it and with every clique of it and some of the candidates.
fn each_clique(
    graph: &Graph,
    base: Set,
    candidates: Set,
    visit: &mut impl FnMut(&Set) -> Result<()>,
) -> Result<()> {
    if !graph.is_clique(&base) {
        return Ok(());
    }
    visit(&base)?;
    let mut left = candidates.clone();
    for i in candidates.iter() {
        left.remove(i);
        each_clique(graph, base.with(i), left.intersection(&graph.adjacent(i)), visit)?;
    }
    Ok(())
}

/// How much a move changes the score.
fn gain(graph: &Graph, phase: Phase, (u, v): (usize, usize), clique: &Set, score: &mut Score) -> Result<f64> {
    let parents = graph.parents(v).union(clique);
    let (without, with) = (parents.without(u), parents.with(u));
    let difference = score.local(v, &with)? - score.local(v, &without)?;
    Ok(match phase {
        Phase::Forward => difference,
        Phase::Backward => -difference,
        Phase::Turning => {
            // Of C, the neighbors of u have arrows to u as well; there are none if v → u.
            let parents = graph.parents(u).union(&clique.intersection(graph.neighbors(u)));
            difference + score.local(u, &parents.without(v))? - score.local(u, &parents.with(v))?
        }
    })
}

/// The conditions of a move on paths.
fn is_open(graph: &Graph, phase: Phase, (u, v): (usize, usize), clique: &Set, common: &Set) -> bool {
    match phase {
        Phase::Forward => !graph.has_detour(v, u, clique),
        Phase::Backward => true,
        Phase::Turning if graph.neighbors(v).contains(u) => {
            let within = graph.neighbors(v).without(u).difference(&clique.intersection(common));
            let reached = graph.joined(&clique.difference(common), &within);
            !reached.meets(&common.difference(clique))
        }
        Phase::Turning => !graph.has_detour(v, u, &clique.union(graph.neighbors(u))),
    }
}

/// The first of the best moves of a phase that gain more than `least`.
pub(crate) fn best_move(
    graph: &Graph,
    phase: Phase,
    score: &mut Score,
    least: f64,
    bounds: &mut UpperBounds,
    progress: &Progress,
) -> Result<Option<Move>> {
    let (mut best, bar) = (None, Cell::new(least));
    let visit = |found: Move| {
        bar.set(found.gain + TIE);
        best = Some(found);
    };
    enumerate(graph, phase, score, bounds, progress, visit, |gain| gain > bar.get())?;
    Ok(best)
}

/// Every valid move of a phase.
#[cfg(test)]
pub(crate) fn all_moves(graph: &Graph, phase: Phase, score: &mut Score) -> Result<Vec<Move>> {
    let mut moves = Vec::new();
    let bounds = &mut UpperBounds::new(graph.dim());
    enumerate(graph, phase, score, bounds, &Progress::default(), |found| moves.push(found), |_| true)?;
    Ok(moves)
}
