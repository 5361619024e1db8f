//! Directed acyclic graphs, and the reversal of covered arcs.

use super::independence::Independence;
use super::nodes::Nodes;

/// A directed acyclic graph: the parents of each node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Dag {
    parents: Vec<Nodes>,
    arcs: usize,
}

impl Dag {
    pub(super) fn new(parents: Vec<Nodes>) -> Self {
        let arcs = parents.iter().map(Nodes::len).sum();
        Dag { parents, arcs }
    }

    /// The number of arcs.
    pub(super) fn len(&self) -> usize {
        self.arcs
    }

    /// The parents of every node.
    pub(super) fn parents(&self) -> &[Nodes] {
        &self.parents
    }

    /// The arcs i → j, by j and then by i.
    pub(super) fn arcs(&self) -> impl Iterator<Item = (usize, usize)> {
        self.parents.iter().enumerate().flat_map(|(j, parents)| parents.iter().map(move |i| (i, j)))
    }

    /// The nodes that have an arc from or to i.
    pub(super) fn neighbours(&self, i: usize) -> Nodes {
        let children = (0..self.parents.len()).filter(|&j| self.parents[j].contains(i));
        children.fold(self.parents[i], Nodes::with)
    }

    /// Whether i → j is covered: j has the parents of i, and i itself.
    pub(super) fn is_covered(&self, i: usize, j: usize) -> bool {
        self.parents[i] == self.parents[j].without(i)
    }

    /// The graph with j → i for a covered arc i → j, without arcs from their common parents that the tests find superfluous.
    pub(super) fn reversed(&self, i: usize, j: usize, tests: &mut Independence) -> Dag {
        let common = self.parents[i];
        let (mut of_i, mut of_j) = (common.with(j), common);
        for parent in common.iter() {
            let rest = common.without(parent);
            if tests.holds(i, parent, rest.with(j)) {
                of_i = of_i.without(parent);
            }
            if tests.holds(j, parent, rest) {
                of_j = of_j.without(parent);
            }
        }
        let mut parents = self.parents.clone();
        (parents[i], parents[j]) = (of_i, of_j);
        Dag::new(parents)
    }
}
