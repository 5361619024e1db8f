//! Limits of a fit's numbers: of each by itself, and of the memory that they need together with the data. They are checked before
//! anything is allocated.

use super::{DriftForm, PenaltyStrength, Recipe};
use crate::bounds::{room, within};
use crate::{Error, Result};

/// Rows per environment and step.
const MOST_ROWS: usize = 1 << 20;
/// Hidden units per variable.
const MOST_HIDDEN: usize = 4096;
/// Characters of the functions that make up the squared noise.
const LONGEST_DIFFUSION: usize = 10_000;
/// Fewer resamples have no middle 95 %.
const LEAST_RESAMPLES: usize = 20;
/// The most resamples for intervals.
const MOST_RESAMPLES: usize = 100_000;

/// Checks each number of a recipe by itself.
pub(super) fn check(recipe: &Recipe) -> Result<()> {
    if let Some(PenaltyStrength { lambda, .. }) = recipe.solver.strength()
        && !(lambda >= 0.0 && lambda.is_finite())
    {
        return Err(Error::invalid(format!("lambda is {lambda}, expected a finite number of at least 0")));
    }
    if let Some(adam) = recipe.solver.adam() {
        adam.optimiser.standard().with_learning_rate(adam.learning_rate).check()?;
        within("steps", adam.steps as usize, 1, u32::MAX as usize)?;
        within("batch", adam.batch, 2, MOST_ROWS)?;
    }
    match &recipe.form {
        DriftForm::Linear => Ok(()),
        DriftForm::Mlp { hidden, .. } => within("hidden", *hidden, 1, MOST_HIDDEN),
        DriftForm::Basis { diffusion, .. } => match diffusion.len() {
            length if length > LONGEST_DIFFUSION => Err(Error::invalid(format!(
                "diffusion has {length} letters, expected at most {LONGEST_DIFFUSION}"
            ))),
            _ => Ok(()),
        },
    }
}

/// Checks the number of resamples for intervals of `parameters` parameters. All fits are kept in memory.
pub(crate) fn check_resamples(count: usize, parameters: f64) -> Result<()> {
    within("bootstrap", count, LEAST_RESAMPLES, MOST_RESAMPLES)?;
    room(8.0 * count as f64 * parameters, || format!("{count} resamples of {parameters:.0} parameters"))
}

/// Checks that training fits into memory: the parameters with gradient, moments and a copy for checkpoints, and the batch with
/// its intermediate results.
pub(super) fn check_training(recipe: &Recipe, dim: usize, environments: usize) -> Result<()> {
    let Some(adam) = recipe.solver.adam() else { return Ok(()) };
    let width = match recipe.form {
        DriftForm::Mlp { hidden, .. } => dim as f64 * hidden as f64,
        _ => dim as f64,
    };
    let rows = adam.batch as f64 * environments as f64;
    room(32.0 * dim as f64 * width + 4.0 * rows * (8.0 * dim as f64 + 2.0 * width), || {
        format!(
            "batches of {} rows in {environments} environments with {dim} variables and {width:.0} units",
            adam.batch
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::Settings;

    #[test]
    fn what_would_not_fit_is_refused_in_a_sentence() {
        for (settings, piece) in [
            (Settings { batch: Some(1_000_000_000_000), ..Settings::default() }, "batch is 1000000000000"),
            (
                Settings {
                    model: Some(crate::fit::ModelKind::Mlp),
                    hidden: Some(usize::MAX),
                    ..Settings::default()
                },
                "hidden is",
            ),
            (
                Settings {
                    model: Some(crate::fit::ModelKind::Basis),
                    diffusion: Some("1,".repeat(400_000)),
                    ..Settings::default()
                },
                "diffusion has 800000 letters",
            ),
        ] {
            let sentence = settings.settle().unwrap_err().to_string();
            assert!(sentence.contains(piece), "{sentence}");
        }
        let many = check_resamples(100_000_000_000, 400.0).unwrap_err().to_string();
        assert!(many.contains("expected at most 100000"), "{many}");
        assert!(check_resamples(19, 1.0).is_err() && check_resamples(200, 400.0).is_ok());
        let wide = check_resamples(100_000, 1e6).unwrap_err().to_string();
        assert!(wide.contains("need 745 GiB of memory, expected at most 16"), "{wide}");
        let large = Settings { batch: Some(1 << 20), envs_per_step: None, ..Settings::default() };
        let recipe = large.settle().unwrap();
        assert!(check_training(&recipe, 20, 1).is_ok());
        assert!(check_training(&recipe, 2000, 10).is_err());
    }
}
