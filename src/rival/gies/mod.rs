//! GIES, greedy interventional equivalence search (Hauser and Bühlmann 2012, "Characterization and greedy learning of
//! interventional Markov equivalence classes of directed acyclic graphs"), and linear equations of a DAG that it finds.
//!
//! 1. [`search`] moves from class to class of DAGs, from that of the empty graph on. A class is all DAGs that no experiment
//!    on the targets of the data tells apart, and its essential graph stands for it. Each move inserts, deletes or turns one
//!    arrow of a DAG of the class, and is the one that raises the penalized likelihood most. The phases follow each other, and
//!    are repeated until none improves the score.
//! 2. A DAG of the class is drawn with the seed: the variables in random order; again and again the first that can be last
//!    among those left is made so (Dor and Tarsi 1992). Not all DAGs of a class are equally likely.
//! 3. Coefficients and variances are least squares over the rows of the environments that do not act on the variable, without
//!    intercepts.
//!
//! The score depends on second moments of the environments alone: the search does not come back to the rows.

mod essential;
mod graph;
mod moves;
mod score;
mod search;
mod set;
mod settings;
mod statistics;
#[cfg(test)]
mod tests;
mod upper;

pub(crate) use settings::GiesSettings;

use super::LinearEquations;
use super::igsp::dag_equations;
use crate::data::Dataset;
use crate::{Error, Progress, Result};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// Learns a linear acyclic graph.
///
/// `data` are standardized; a variable that an environment acts on has no equation there.
pub(crate) fn fit(
    data: &Dataset,
    settings: &GiesSettings,
    seed: u64,
    progress: &Progress,
) -> Result<LinearEquations> {
    settings.check()?;
    let work = settings.work(data);
    let environments = statistics::Environment::all(data, progress)?;
    let found = search::search(&environments, settings, progress, work)?;
    let mut order: Vec<usize> = (0..data.dim()).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let parents = essential::consistent_extension(&found.graph, &order)
        .ok_or_else(|| Error::Failed("the essential graph of GIES has no DAG".into()))?;
    let equations = dag_equations(data, &parents);
    let all = equations.effects.as_slice().iter().chain(&equations.variances);
    if all.into_iter().any(|value| !value.is_finite()) {
        return Err(Error::NonFinite(
            "the equations are not finite, expected smaller data; standardize them".into(),
        ));
    }
    progress.set(work)?;
    Ok(equations)
}
