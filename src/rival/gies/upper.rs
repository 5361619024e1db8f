//! Upper bounds of the gains of moves, which stay valid while nothing changes around them.

use super::graph::Graph;
use super::settings::Phase;

/// For each phase and pair, the largest gain of its moves, whether their paths allow them or not.
///
/// It depends on what u, v and the neighbors of v are joined with, and on nothing else of the graph.
pub(crate) struct UpperBounds {
    /// The number of the current graph, from 1 on.
    now: u64,
    /// The number of the graph in which each variable last got other arrows or lines.
    changed: Vec<u64>,
    /// For phase, u and v: the bound and the number of the graph that it was computed for, or 0.
    known: [Vec<(f64, u64)>; 3],
}

impl UpperBounds {
    /// No bounds yet.
    pub(crate) fn new(dim: usize) -> Self {
        UpperBounds { now: 1, changed: vec![1; dim], known: [(); 3].map(|()| vec![(0.0, 0); dim * dim]) }
    }

    /// The bound for u and v, if there is one for what they are joined with now.
    pub(crate) fn get(&self, graph: &Graph, phase: Phase, (u, v): (usize, usize)) -> Option<f64> {
        let (bound, at) = self.known[phase as usize][u * self.changed.len() + v];
        let same = |i: usize| self.changed[i] <= at;
        (same(u) && same(v) && graph.neighbors(v).iter().all(same)).then_some(bound)
    }

    /// Keeps the bound for u and v in the current graph.
    pub(crate) fn set(&mut self, phase: Phase, (u, v): (usize, usize), bound: f64) {
        self.known[phase as usize][u * self.changed.len() + v] = (bound, self.now);
    }

    /// Notes what a move changed.
    pub(crate) fn graph_changed(&mut self, before: &Graph, after: &Graph) {
        self.now += 1;
        for i in (0..self.changed.len()).filter(|&i| !before.joins_alike(after, i)) {
            self.changed[i] = self.now;
        }
    }
}
