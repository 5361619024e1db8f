//! The files of a fit. The model is written last, so where it exists, all other files do too.

use crate::Result;
use crate::files::output;
use crate::fit::{ExactFit, PreparedFit, ScoredSetting, Stability, TrainingOutcome, Tuning};
use crate::model::Model;
use std::io::Write;
use std::path::Path;

/// Writes the files of a training: the choice of its settings if there was one, the log, a picture of the loss and the model. Returns
/// the model and its stability.
pub(crate) fn write_trained(
    problem: &PreparedFit,
    tuning: Option<&Tuning>,
    outcome: &TrainingOutcome,
    path: &Path,
) -> Result<(Model, Stability)> {
    output::write_atomically(&path.with_extension("log.jsonl"), |writer| {
        for record in &outcome.log {
            serde_json::to_writer(&mut *writer, record)?;
            writer.write_all(b"\n")?;
        }
        Ok(())
    })?;
    #[cfg(feature = "plot")]
    super::picture::loss_curve(problem.recipe.objective, &outcome.log, &path.with_extension("loss.svg"))?;
    write_choice(tuning, path)?;
    let (model, stability) = problem.model(&outcome.state)?;
    model.save(path)?;
    Ok((model, stability))
}

/// Writes the files of an exact fit: the table and the picture of its choice, if there was one, and the model.
pub(crate) fn write_exact(fit: &ExactFit, path: &Path) -> Result<()> {
    write_choice(fit.tuning.as_ref(), path)?;
    fit.model.save(path)
}

/// The table and the picture of a choice, if there was one.
fn write_choice(tuning: Option<&Tuning>, path: &Path) -> Result<()> {
    let Some(tuning) = tuning else { return Ok(()) };
    write_table(tuning, &path.with_extension("tuning.csv"))?;
    #[cfg(feature = "plot")]
    super::picture::tuning(tuning, &path.with_extension("tuning.svg"))?;
    Ok(())
}

/// One row per setting.
fn write_table(tuning: &Tuning, path: &Path) -> Result<()> {
    output::write_atomically(path, |writer| {
        writeln!(writer, "method,bandwidth,penalty,lambda,score,error,ratio,weight")?;
        let text = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        for ScoredSetting { method, bandwidth, penalty, lambda, score, error, ratio, weight, .. } in
            &tuning.settings
        {
            let (bandwidth, score, error, ratio) =
                (text(*bandwidth), text(*score), text(*error), text(*ratio));
            writeln!(writer, "{method},{bandwidth},{penalty},{lambda},{score},{error},{ratio},{weight}")?;
        }
        Ok(())
    })
}
