//! Memory and work of a fit, estimated before anything is read.

use super::FitRequest;
use crate::fit::{AdamRecipe, DriftForm, EnvironmentsPerStep, RivalKind, Solver, considers_pairs};
use crate::model::PenaltyKind;
use crate::model::basis::FeatureChoice;
use crate::objective::Objective;
use crate::serve::domain::estimate::{Estimate, Sizes};
use crate::solve::{bytes_of_fit, fits_at_once};

/// Memory and work of a fit.
pub(super) fn estimate(request: &FitRequest, sizes: &Sizes) -> Estimate {
    let d = sizes.d;
    // What cannot be settled is refused by the service's check, not by its size.
    let Ok(recipe) = request.settings.settle() else { return Estimate::default() };
    // A number per pair of variables, for as many passes as are kept at once.
    let known = if request.edges.is_empty() { 0.0 } else { 64.0 * d * d };
    if let Solver::Rival(rival) = &recipe.solver {
        let operations = match rival.kind() {
            RivalKind::Llc | RivalKind::Gies | RivalKind::Igsp => {
                4.0 * sizes.rows * d * d + 500.0 * d.powi(4)
            }
            // Some 150 000 steps of 64 rows, and 100 passes over all rows, by networks of each variable.
            RivalKind::Dcdi => 150_000.0 * 64.0 * 40.0 * d * d,
            RivalKind::Nodags => 100.0 * sizes.rows * 100.0 * d * d,
        };
        return Estimate { bytes: 4.0 * sizes.samples() + 2e8, operations };
    }
    if let Solver::Adam { adam: AdamRecipe { steps, batch, envs_per_step, choice, .. }, .. } = &recipe.solver
    {
        let width = match recipe.form {
            DriftForm::Mlp { hidden, .. } => d * hidden as f64,
            DriftForm::Linear | DriftForm::Basis { .. } => d,
        };
        let environments = match envs_per_step {
            EnvironmentsPerStep::All => sizes.environments.len(),
            EnvironmentsPerStep::Some(count) => (*count).min(sizes.environments.len()),
        };
        let rows = *batch as f64 * environments as f64;
        // Parameters, gradient, both moments, and a copy of all for checkpoints; rows of a batch with what is computed
        // of them. A step takes 50 µs at least.
        let bytes = sizes.samples() + known + 32.0 * d * width + 4.0 * rows * (8.0 * d + 2.0 * width);
        let once = f64::from(*steps) * (4.0 * rows * d * width).max(5e6);
        // Forty to eighty trainings of half the steps, as many at once as there are threads, each with its own copy of the data.
        let (copies, trainings) =
            if choice.is_some() { (rayon::current_num_threads() as f64, 41.0) } else { (0.0, 1.0) };
        return Estimate { bytes: bytes * (1.0 + copies), operations: (trainings * once).min(once + 3e14) };
    }
    let features = match &recipe.form {
        DriftForm::Basis { features: FeatureChoice::Polynomial(degree), .. } => {
            (1..=(*degree).min(64)).map(|k| d.powi(k as i32)).sum()
        }
        DriftForm::Basis { features: FeatureChoice::Rbf(count), .. } => d * (1.0 + *count as f64),
        DriftForm::Basis { features: FeatureChoice::File(_), .. }
        | DriftForm::Linear
        | DriftForm::Mlp { .. } => d,
    };
    // Functions that squared noises are made of.
    let noises = match &recipe.form {
        DriftForm::Basis { diffusion, .. } => diffusion.split(',').count() as f64,
        DriftForm::Linear | DriftForm::Mlp { .. } => 0.0,
    };
    let features = features + noises;
    // The problems of the variables for as many fits as run at once, and the functions of the data.
    let tuned = matches!(recipe.solver, Solver::Tuned { .. } | Solver::Chosen { .. });
    let several = tuned || request.bootstrap.is_some();
    let given = recipe.solver.strength().and_then(|strength| strength.penalty.kind());
    let kind = given.unwrap_or(PenaltyKind::Ingoing);
    let (variables, width) = (d as usize, features as usize);
    let at_once = if several { fits_at_once(variables, width) } else { 1 };
    let at_once = at_once.min(rayon::current_num_threads()) as f64;
    let problems = bytes_of_fit(variables, width, kind) * at_once;
    // Fits by moments make no pass over pairs, and beside them SKDS is left out where it takes long.
    let by_pairs = match &recipe.solver {
        Solver::Moments(_) | Solver::Structural(_) => false,
        Solver::Chosen { candidates, .. } => {
            considers_pairs(*candidates, sizes.d as usize, sizes.all_pairs())
        }
        _ => true,
    };
    if !by_pairs {
        return by_moments(request, sizes, tuned);
    }
    // Bandwidths, penalties at each, as many folds as environments, at most ten; penalty paths take about d³ per variable.
    let folds = 1.0 + (sizes.environments.len() as f64).min(if d == features { 10.0 } else { f64::INFINITY });
    let (passes, fits) = if tuned { (5.0, 60.0 * folds) } else { (1.0, 1.0) };
    let times = 1.0 + request.bootstrap.unwrap_or(0) as f64;
    // KDS over pairs: a hundred or two gradients.
    let kds = matches!(recipe.solver, Solver::Exact { .. }) && recipe.objective == Objective::Kds;
    let passes = if kds { 200.0 } else { passes };
    let once = passes * 12.0 * sizes.all_pairs() * features + fits * 4.0 * d * features.powi(3);
    // Every resample's drift, noise, and shift and scale in each environment are kept until all are there.
    let kept = d * (features + 2.0 + 2.0 * sizes.environments.len() as f64);
    let kept = 8.0 * request.bootstrap.unwrap_or(0) as f64 * kept;
    let bytes = sizes.samples() + known + problems + 32.0 * sizes.rows * features + kept;
    Estimate { bytes, operations: times * once }
}

/// A fit by moments: covariances of ten groups of environments, of those that are fitted to for as many fits as run at once, and
/// some hundreds of steps of d³ for each of up to ten candidates.
fn by_moments(request: &FitRequest, sizes: &Sizes, chosen: bool) -> Estimate {
    let (d, threads) = (sizes.d, rayon::current_num_threads() as f64);
    let environments = sizes.environments.len() as f64;
    let resamples = request.bootstrap.unwrap_or(0) as f64;
    let kept = 8.0 * resamples * d * (d + 2.0 + 2.0 * environments);
    let bytes = 2.0 * sizes.samples() + 8.0 * d * (d + environments) * (12.0 + 12.0 * threads) + kept;
    let fits = if chosen { 10.0 * 11.0 } else { 1.0 } + 5.0 * resamples;
    let operations = (1.0 + resamples) * 2.0 * sizes.rows * d * d + fits * 100.0 * 4.0 * d.powi(3);
    Estimate { bytes, operations }
}
