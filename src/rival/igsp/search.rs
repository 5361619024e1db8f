//! The search among permutations, which are graphs with arcs reversed.

use super::dag::Dag;
use super::independence::Independence;
use super::invariance::Invariance;
use super::nodes::Nodes;
use crate::{Progress, Result};
use std::collections::HashSet;

/// The most conditioning sets per arc and condition, the smallest first: all those of 10 neighbours.
const MOST_SETS: usize = 1 << 10;

/// The tests, and which variables each context intervenes on.
pub(super) struct Evidence {
    pub independence: Independence,
    pub invariance: Invariance,
    /// Distinct and not empty.
    pub targets: Vec<Nodes>,
}

/// How far a run searches.
pub(super) struct Limits {
    /// Reversals in a row that do not remove an arc.
    pub depth: usize,
    /// Graphs to visit.
    pub graphs: u64,
}

/// The best graph of a run.
pub(super) struct Found {
    pub dag: Dag,
    pub contradicting: usize,
    /// The number of graphs visited.
    pub visited: u64,
}

impl Evidence {
    /// The context that intervenes on i alone.
    fn context_of(&self, i: usize) -> Option<usize> {
        self.targets.iter().position(|targets| *targets == Nodes::of([i]))
    }

    /// Whether a covered arc i → j may be reversed: not if an intervention on i alone changes j.
    fn may_reverse(&mut self, i: usize, j: usize) -> bool {
        self.context_of(i).is_none_or(|context| self.invariance.holds(j, context, Nodes::default()))
    }

    /// The number of arcs that contradict the interventions.
    fn contradicting(&mut self, dag: &Dag, progress: &Progress) -> Result<usize> {
        let single = self.targets.iter().all(|targets| targets.len() == 1);
        let mut count = 0;
        for (i, j) in dag.arcs() {
            progress.check()?;
            let contradicts = self.may_reverse(i, j)
                && if single { self.contradicts_alone(i, j) } else { self.contradicts(dag, i, j) };
            count += usize::from(contradicts);
        }
        Ok(count)
    }

    /// With single targets: intervening on i does not change j, or intervening on j changes i.
    fn contradicts_alone(&mut self, i: usize, j: usize) -> bool {
        let none = Nodes::default();
        self.context_of(i).is_some_and(|context| self.invariance.holds(j, context, none))
            || self.context_of(j).is_some_and(|context| !self.invariance.holds(i, context, none))
    }

    /// With several targets per context: given some set of neighbours of j, no context that acts on i and not on j changes
    /// j; or some context that acts on j and not on i changes i given every set of neighbours of i.
    fn contradicts(&mut self, dag: &Dag, i: usize, j: usize) -> bool {
        let apart = |targets: &[Nodes], on: usize, off: usize| -> Vec<usize> {
            let acts = |c: &usize| targets[*c].contains(on) && !targets[*c].contains(off);
            (0..targets.len()).filter(acts).collect()
        };
        let (on_i, on_j) = (apart(&self.targets, i, j), apart(&self.targets, j, i));
        let unchanged =
            |tests: &mut Invariance, given: Nodes| on_i.iter().all(|&context| tests.holds(j, context, given));
        if !on_i.is_empty()
            && subsets(dag.neighbours(j).without(i)).any(|given| unchanged(&mut self.invariance, given))
        {
            return true;
        }
        let around = dag.neighbours(i).without(j);
        on_j.iter().any(|&context| subsets(around).all(|given| !self.invariance.holds(i, context, given)))
    }

    /// Walks from a graph over reversals, always on to fewer arcs if there is a way, and otherwise along graphs with as many.
    ///
    /// `arrange` puts the graphs that a graph leads to in some order, the first choice last. As in the package, a walk goes
    /// back only from a dead end, and then on from where it was before: see the module's doc.
    pub(super) fn search(
        &mut self,
        start: Dag,
        limits: &Limits,
        arrange: &mut impl FnMut(&mut Vec<Dag>),
        progress: &Progress,
    ) -> Result<Found> {
        let mut current = start;
        let mut best = Found {
            contradicting: self.contradicting(&current, progress)?,
            dag: current.clone(),
            visited: 1,
        };
        let (mut seen, mut trace) = (HashSet::new(), Vec::new());
        let mut next = self.leads_to(&current, &seen, arrange, progress)?;
        while best.visited < limits.graphs {
            seen.insert(current.clone());
            if let Some(at) = next.iter().rposition(|dag| dag.len() < current.len()) {
                seen.clear();
                trace.clear();
                current = next.swap_remove(at);
                best.contradicting = self.contradicting(&current, progress)?;
                best.dag = current.clone();
            } else if let Some(dag) = if trace.len() == limits.depth { None } else { next.pop() } {
                trace.push(std::mem::replace(&mut current, dag));
                let contradicting = self.contradicting(&current, progress)?;
                if contradicting < best.contradicting {
                    (best.dag, best.contradicting) = (current.clone(), contradicting);
                }
            } else if let Some(before) = trace.pop() {
                current = before;
                continue;
            } else {
                break;
            }
            best.visited += 1;
            next = self.leads_to(&current, &seen, arrange, progress)?;
        }
        Ok(best)
    }

    /// The graphs after one reversal that were not seen yet.
    fn leads_to(
        &mut self,
        dag: &Dag,
        seen: &HashSet<Dag>,
        arrange: &mut impl FnMut(&mut Vec<Dag>),
        progress: &Progress,
    ) -> Result<Vec<Dag>> {
        let mut next = Vec::new();
        for (i, j) in dag.arcs() {
            if dag.is_covered(i, j) && self.may_reverse(i, j) {
                progress.check()?;
                let reversed = dag.reversed(i, j, &mut self.independence);
                if !seen.contains(&reversed) {
                    next.push(reversed);
                }
            }
        }
        arrange(&mut next);
        Ok(next)
    }
}

/// The subsets of a set by size, up to a number.
fn subsets(set: Nodes) -> impl Iterator<Item = Nodes> {
    let members: Vec<usize> = set.iter().collect();
    let mut places: Option<Vec<usize>> = Some(Vec::new());
    std::iter::from_fn(move || {
        let current = places.take()?;
        let subset = Nodes::of(current.iter().map(|&at| members[at]));
        places = following(current, members.len());
        Some(subset)
    })
    .take(MOST_SETS)
}

/// The next combination of places below `count`: of the same size, or else the first of one more.
fn following(mut places: Vec<usize>, count: usize) -> Option<Vec<usize>> {
    let size = places.len();
    match (0..size).rev().find(|&at| places[at] < count - size + at) {
        Some(at) => {
            let first = places[at] + 1;
            places.iter_mut().skip(at).zip(first..).for_each(|(place, value)| *place = value);
            Some(places)
        }
        None => (size < count).then(|| (0..=size).collect()),
    }
}
