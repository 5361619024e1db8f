//! The greedy search.

use super::essential::{essential_graph, separated};
use super::graph::Graph;
use super::moves::best_move;
use super::score::Score;
use super::set::Set;
use super::settings::GiesSettings;
use super::statistics::{Environment, Statistics};
use super::upper::UpperBounds;
use crate::{Progress, Result};

/// The least that a move must gain, in units of log likelihood. It is far below what a parameter costs, and above rounding,
/// so that turning ends.
const LEAST_GAIN: f64 = 1e-3;

/// What the search finds.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The essential graph of the class.
    pub graph: Graph,
    /// The score of its DAGs, which tests compare.
    #[cfg_attr(not(test), allow(dead_code))]
    pub score: f64,
}

/// The class of DAGs that the greedy search ends with, from the empty graph on.
///
/// Each phase does its best move until no move raises the score. Progress counts moves, up to `work`.
pub(crate) fn search(
    environments: &[Environment],
    settings: &GiesSettings,
    progress: &Progress,
    work: u64,
) -> Result<Found> {
    let statistics = Statistics::new(environments, settings.intercepts, progress)?;
    let d = statistics.dim();
    let targets: Vec<Set> = environments.iter().map(|e| e.targets.clone()).collect();
    let separated = separated(d, &targets);
    let mut score = Score::new(&statistics, settings.lambda);
    let mut graph = Graph::empty(d);
    let mut total = score.total(&graph)?;
    let (mut moves, mut bounds) = (0, UpperBounds::new(d));
    loop {
        let before = moves;
        for &phase in &settings.phases {
            while let Some(found) = best_move(&graph, phase, &mut score, LEAST_GAIN, &mut bounds, progress)? {
                let dag = found.apply(&graph);
                let next = essential_graph(&dag, &separated);
                bounds.graph_changed(&graph, &next);
                graph = next;
                total = score.total(&dag)?;
                moves += 1;
                progress.set(work.min(moves))?;
            }
        }
        if moves == before || !settings.repeat {
            return Ok(Found { graph, score: total });
        }
    }
}
