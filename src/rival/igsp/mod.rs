//! IGSP: a linear acyclic graph by a greedy search over permutations, with tests of independence and invariance.
//!
//! Wang, Solus, Yang and Uhler (2017), "Permutation-based causal inference algorithms with interventional data", and Yang,
//! Katcoff and Uhler (2018), "Characterizing and learning equivalence classes of causal DAGs under interventions". This
//! module follows the package of the published comparison, graphical-model-learning (`igsp`) with conditional-independence,
//! also where the package differs from the papers.
//!
//! **Tests.** Independence is tested in the observational rows alone, all environments without targets together: Fisher's z
//! of partial correlations. Invariance compares a variable in the observational rows and in those of one set of targets
//! (environments with the same targets count as one): an F test of the means, or of the coefficients of a regression, and
//! an F test of the residual variances, both two-sided, each at half the level α. Both kinds have the same α as published.
//!
//! **Start.** Each run draws a permutation by minimum degree from the graph of pairs that depend on each other given all other
//! variables, and makes each variable's parents those of its predecessors that it depends on given all its other
//! predecessors. The package makes these tests one-sided at the level α, which is two-sided at 2 α.
//!
//! **Search.** A covered arc i → j may be reversed unless an intervention on i alone changes the distribution of j. After a
//! reversal the arcs from common parents are tested and may go. A run moves on to a graph with fewer arcs if there is one;
//! otherwise to one with as many, at most `depth` in a row. Of graphs with as many arcs it keeps the one with the fewest
//! arcs that may be reversed and contradict an intervention: acting on i does not change j, or acting on j changes i. The
//! best run has the fewest arcs, then the fewest contradictions, and is the first of those. As in the package, a dead end
//! does not list the ways of the graph before it again, so most runs end after few graphs. `graphs` bounds the others; the
//! package has no bound.
//!
//! **Several targets.** If some environment acts on several variables, an arc i → j contradicts by the definition of the second
//! paper: given some set of neighbours of j, no environment that acts on i and not on j changes j; or some environment that
//! acts on j and not on i changes i given every set of its neighbours. (The package's code has both conditions the wrong way
//! round, against its documentation. The published comparison has one target per environment and is not affected.) At most
//! 1024 sets are tested, the smallest first.
//!
//! **Parameters.** [`dag_equations`]: least squares over the environments that do not act on a variable, without intercepts.
//!
//! Tests that are undefined accept: of a constant, of a variable of which the conditioning set leaves nothing, or with too
//! few rows. Two samples without any variance are the same if their means are.
//!
//! | setting | SDE-ER | SDE-SF | SCM-ER | SCM-SF | SERGIO-ER | SERGIO-SF |
//! |---|---|---|---|---|---|---|
//! | α | 0.003 | 0.03 | 0.001 | 0.003 | 0.03 | 0.001 |
//!
//! Runs 5 and depth 4 are the package's own.

mod dag;
mod independence;
mod invariance;
mod inverse;
mod nodes;
mod parameters;
mod search;
mod special;
mod start;
#[cfg(test)]
mod tests;

pub(crate) use parameters::dag_equations;

use super::LinearEquations;
use crate::bounds::within;
use crate::data::Dataset;
use crate::{Error, Progress, Result};
use independence::Independence;
use invariance::{Invariance, Moments};
use nodes::Nodes;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use search::{Evidence, Found, Limits};
use serde::{Deserialize, Serialize};
use start::{minimum_degree_order, sparsest_graph};

/// The settings of IGSP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct IgspSettings {
    /// The level of the tests of conditional independence.
    pub alpha: f64,
    /// The level of the tests of invariance; none for that of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invariance_alpha: Option<f64>,
    /// Runs from different permutations.
    pub runs: usize,
    /// The most reversals in a row that do not remove an arc.
    pub depth: usize,
    /// The most graphs that a run visits.
    pub graphs: u64,
}

impl Default for IgspSettings {
    fn default() -> Self {
        IgspSettings { alpha: 0.003, invariance_alpha: None, runs: 5, depth: 4, graphs: 10_000 }
    }
}

impl IgspSettings {
    /// Checks every setting alone.
    pub(crate) fn check(&self) -> Result<()> {
        let levels = [("alpha", Some(self.alpha)), ("invariance_alpha", self.invariance_alpha)];
        for (name, level) in levels {
            if let Some(level) = level.filter(|level| !(*level > 0.0 && *level < 1.0)) {
                let problem = format!("the {name} is {level}, expected a number between 0 and 1");
                return Err(Error::invalid(problem));
            }
        }
        within("the number of runs", self.runs, 1, 10_000)?;
        within("the depth", self.depth, 0, 10_000)?;
        if self.graphs == 0 {
            return Err(Error::invalid("the number of graphs is 0, expected at least 1"));
        }
        Ok(())
    }

    /// The units of progress of a fit: one per run.
    pub(crate) fn work(&self, _data: &Dataset) -> u64 {
        self.runs as u64
    }
}

/// Fits IGSP to standardised data, of which at least one environment intervenes on nothing.
pub(crate) fn fit(
    data: &Dataset,
    settings: &IgspSettings,
    seed: u64,
    progress: &Progress,
) -> Result<LinearEquations> {
    settings.check()?;
    let mut evidence = evidence(data, settings)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let limits = Limits { depth: settings.depth, graphs: settings.graphs };
    let all: Vec<usize> = (0..data.dim()).collect();
    let dependent = evidence.independence.dependent_pairs(&all);
    let mut best: Option<Found> = None;
    for _ in 0..settings.runs {
        let order = minimum_degree_order(&dependent, &mut rng);
        let start = sparsest_graph(&order, &evidence.independence, progress)?;
        let found = evidence.search(start, &limits, &mut |next| next.shuffle(&mut rng), progress)?;
        let rank = |found: &Found| (found.dag.len(), found.contradicting);
        if best.as_ref().is_none_or(|best| rank(&found) < rank(best)) {
            best = Some(found);
        }
        progress.add(1)?;
    }
    let parents = best.map_or(vec![Vec::new(); data.dim()], |found| {
        found.dag.parents().iter().map(|parents| parents.iter().collect()).collect()
    });
    let equations = dag_equations(data, &parents);
    let numbers = equations.effects.as_slice().iter().chain(&equations.variances);
    if let Some(number) = numbers.into_iter().find(|number| !number.is_finite()) {
        return Err(Error::NonFinite(format!(
            "IGSP found the coefficient {number}, expected finite ones: the values of the data are too large"
        )));
    }
    progress.set(settings.work(data))?;
    Ok(equations)
}

/// The tests of a dataset. Environments with the same targets count as one.
fn evidence(data: &Dataset, settings: &IgspSettings) -> Result<Evidence> {
    let d = data.dim();
    within("the number of variables", d, 1, nodes::MOST)?;
    let of_environment = |e: usize| Nodes::of((0..d).filter(|&j| data.targets()[(e, j)]));
    let mut targets: Vec<Nodes> = (0..data.environments()).map(of_environment).collect();
    let moments = |of: Nodes| {
        let environments = (0..data.environments()).filter(|&e| of_environment(e) == of);
        Moments::of(environments.flat_map(|e| data.rows(e)).map(|row| data.samples().row(row)), d)
    };
    if !targets.contains(&Nodes::default()) {
        let problem =
            "found targets in every environment, expected one without targets: IGSP tests independence there";
        return Err(Error::invalid(problem));
    }
    targets.sort();
    targets.dedup();
    targets.retain(|of| *of != Nodes::default());
    let observed = moments(Nodes::default());
    let independence = Independence::new(&observed.covariance(), observed.rows, settings.alpha);
    let contexts = targets.iter().map(|&of| moments(of)).collect();
    let alpha = settings.invariance_alpha.unwrap_or(settings.alpha);
    Ok(Evidence { independence, invariance: Invariance::new(observed, contexts, alpha), targets })
}
