//! Graphs of arrows a → b and lines a — b.

use super::set::Set;

/// A graph with at most one arrow or line between two variables. Without lines and cycles it is a DAG.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Graph {
    parents: Vec<Set>,
    children: Vec<Set>,
    neighbors: Vec<Set>,
}

impl Graph {
    /// A graph without arrows and lines.
    pub(crate) fn empty(dim: usize) -> Self {
        let none = vec![Set::empty(dim); dim];
        Graph { parents: none.clone(), children: none.clone(), neighbors: none }
    }

    /// The number of variables.
    pub(crate) fn dim(&self) -> usize {
        self.parents.len()
    }

    /// Draws a → b in place of what is between a and b.
    pub(crate) fn set_arrow(&mut self, a: usize, b: usize) {
        self.clear(a, b);
        self.children[a].insert(b);
        self.parents[b].insert(a);
    }

    /// Draws a — b in place of what is between a and b.
    pub(crate) fn set_line(&mut self, a: usize, b: usize) {
        self.clear(a, b);
        self.neighbors[a].insert(b);
        self.neighbors[b].insert(a);
    }

    /// Leaves nothing between a and b.
    pub(crate) fn clear(&mut self, a: usize, b: usize) {
        for (i, j) in [(a, b), (b, a)] {
            self.parents[i].remove(j);
            self.children[i].remove(j);
            self.neighbors[i].remove(j);
        }
    }

    /// pa(i): the variables with an arrow to i.
    pub(crate) fn parents(&self, i: usize) -> &Set {
        &self.parents[i]
    }

    /// The variables with an arrow from i.
    pub(crate) fn children(&self, i: usize) -> &Set {
        &self.children[i]
    }

    /// ne(i): the variables with a line to i.
    pub(crate) fn neighbors(&self, i: usize) -> &Set {
        &self.neighbors[i]
    }

    /// ad(i): the variables with an arrow or a line to or from i.
    pub(crate) fn adjacent(&self, i: usize) -> Set {
        self.parents[i].union(&self.children[i]).union(&self.neighbors[i])
    }

    /// Whether variable i has the same arrows and lines in both graphs.
    pub(crate) fn joins_alike(&self, other: &Graph, i: usize) -> bool {
        self.parents[i] == other.parents[i]
            && self.children[i] == other.children[i]
            && self.neighbors[i] == other.neighbors[i]
    }

    /// All arrows (a, b), ascending.
    pub(crate) fn arrows(&self) -> Vec<(usize, usize)> {
        (0..self.dim()).flat_map(|a| self.children[a].iter().map(move |b| (a, b))).collect()
    }

    /// All lines (a, b) with a < b, ascending.
    #[cfg(test)]
    pub(crate) fn lines(&self) -> Vec<(usize, usize)> {
        let of = |a: usize| self.neighbors[a].iter().filter(move |&b| a < b).map(move |b| (a, b));
        (0..self.dim()).flat_map(of).collect()
    }

    /// Whether any two of the variables are adjacent.
    pub(crate) fn is_clique(&self, set: &Set) -> bool {
        set.iter().all(|i| set.without(i).is_within(&self.adjacent(i)))
    }

    /// T(i): the variables that lines connect with i, and i.
    pub(crate) fn component(&self, i: usize) -> Set {
        let all = Set::of(self.dim(), 0..self.dim());
        self.joined(&Set::of(self.dim(), [i]), &all)
    }

    /// The variables that lines connect with those of `from` without leaving `within`, and `from`.
    pub(crate) fn joined(&self, from: &Set, within: &Set) -> Set {
        let mut seen = from.clone();
        let mut waiting: Vec<usize> = from.iter().collect();
        while let Some(i) = waiting.pop() {
            let new = self.neighbors[i].intersection(within).difference(&seen);
            waiting.extend(new.iter());
            seen = seen.union(&new);
        }
        seen
    }

    /// Whether a path along arrows and lines leads from `from` over at least one other variable to `to` and avoids `barred`.
    pub(crate) fn has_detour(&self, from: usize, to: usize, barred: &Set) -> bool {
        let next = |i: usize| self.children[i].union(&self.neighbors[i]);
        let mut seen = barred.with(from);
        let first = next(from).difference(&seen).without(to);
        let mut waiting: Vec<usize> = first.iter().collect();
        seen = seen.union(&first);
        while let Some(i) = waiting.pop() {
            let after = next(i);
            if after.contains(to) {
                return true;
            }
            let new = after.difference(&seen);
            waiting.extend(new.iter());
            seen = seen.union(&new);
        }
        false
    }
}
