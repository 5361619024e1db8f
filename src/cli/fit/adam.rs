//! The part of `skds fit` that trains with Adam.

use super::args::Args;
use super::choose::{self, Chosen};
use super::display::TrainingDisplay;
use crate::cli::advice::with_options;
use crate::cli::print_report;
use crate::engine::Engine;
use crate::fit::{
    Checkpoint, KeptFiles, PreparedFit, Stability, Support, TrainingOutcome, TrainingSchedule, Tuning,
};
use crate::{Error, Result, report};
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

/// What is printed at the end.
#[derive(Serialize)]
struct Report<'a> {
    model: &'a Path,
    steps: u32,
    complete: bool,
    loss: f64,
    penalty: f64,
    bandwidth: Option<f64>,
    device: String,
    seconds: f64,
    steps_per_second: f64,
    #[serde(flatten)]
    stability: Option<Stability>,
    #[serde(skip_serializing_if = "Option::is_none")]
    support: Option<Support>,
    lambda: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tuning: Option<&'a Tuning>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    constant: &'a [String],
}

pub(super) fn run(args: &Args, prepared: &PreparedFit, steps: u32) -> Result<()> {
    let kept = KeptFiles::beside(&args.output.file);
    let path = kept.checkpoint.clone();
    let goes_on = kept.goes_on(prepared.choice_work()?.is_some(), args.unfinished())?;
    let gpu = args.device.gpu_or_cpu()?;
    let chosen = match choose::run(args, prepared, &kept, gpu.as_ref())? {
        Chosen::Given => None,
        Chosen::Settings(chosen) => Some(*chosen),
        Chosen::Stopped => return Ok(()),
    };
    let (fit, tuning) = chosen.as_ref().map_or((prepared, None), |(fit, tuning)| (fit, Some(tuning)));
    let from = goes_on.then(|| Checkpoint::read_for(&path, fit)).transpose()?;
    let first = from.as_ref().map_or(0, |from| from.state.steps);
    let schedule =
        TrainingSchedule { report_every: (steps / 200).max(1), save_every: args.adam.checkpoint_every };
    let mut display = TrainingDisplay::new(args.output.json, fit, path.clone(), first);
    let start = Instant::now();
    let outcome = fit.train(gpu.as_ref(), from.as_ref(), schedule, &mut display);
    display.finish();
    let outcome = outcome.map_err(|error| with_advice(error, &path))?;
    let seconds = start.elapsed().as_secs_f64();
    let (stability, support) = written(args, fit, tuning, &outcome)?.unzip();
    if outcome.complete {
        kept.remove();
    }
    let last = outcome.log.last();
    let report = Report {
        model: &args.output.file,
        steps: outcome.state.steps,
        complete: outcome.complete,
        loss: last.map_or(f64::NAN, |record| record.loss),
        penalty: last.map_or(f64::NAN, |record| record.penalty),
        bandwidth: fit.spec.loss.kernel.bandwidth(),
        device: gpu.as_ref().map_or_else(|| "cpu".into(), Engine::<f32>::device),
        seconds,
        steps_per_second: f64::from(outcome.state.steps - first) / seconds.max(1e-9),
        stability,
        support,
        lambda: fit.recipe.solver.strength().map(|strength| strength.lambda),
        tuning,
        constant: fit.constant_variables(),
    };
    print_report(args.output.json, &report, || report.to_text(fit, &path))
}

fn with_advice(error: Error, checkpoint: &Path) -> Error {
    match error {
        Error::NonFinite(problem) => Error::NonFinite(format!(
            "{problem}. Try a smaller --learning-rate or a larger --bandwidth; the last good state is in {}",
            checkpoint.display()
        )),
        other => other,
    }
}

/// Writes the files of a complete fit, and says what was found of the model.
fn written(
    args: &Args,
    fit: &PreparedFit,
    tuning: Option<&Tuning>,
    outcome: &TrainingOutcome,
) -> Result<Option<(Stability, Support)>> {
    if !outcome.complete {
        return Ok(None);
    }
    let (model, stability) = report::write_trained(fit, tuning, outcome, &args.output.file)?;
    Ok(Some((stability, fit.support(&model))))
}

impl Report<'_> {
    /// What to know first, then how it went and where it is.
    fn to_text(&self, fit: &PreparedFit, checkpoint: &Path) -> String {
        let recipe = &fit.recipe;
        let bandwidth = self.bandwidth.map_or(String::new(), |h| format!(", bandwidth {h:.4}"));
        let objective = recipe.objective.name().to_uppercase();
        let mut lines =
            vec![format!("{objective} {} model, {} kernel{bandwidth}", recipe.form.kind(), recipe.kernel)];
        let mut say = |line: String| lines.push(format!("  {line}"));
        if !self.complete {
            say(format!(
                "Stopped early, after step {}. Run the command again with --resume to continue from {}.",
                self.steps,
                checkpoint.display()
            ));
        }
        if let Some((stability, support)) = self.stability.as_ref().zip(self.support.as_ref()) {
            fit.findings(self.tuning, stability, support)
                .iter()
                .for_each(|finding| say(with_options(finding)));
        }
        say(format!(
            "Took {} steps on {} in {:.1} s ({:.0} per second).",
            self.steps, self.device, self.seconds, self.steps_per_second
        ));
        say(format!("Loss {:.6e} on the last batch, penalty {:.6e}.", self.loss, self.penalty));
        if self.complete {
            say(format!("The model is in {}.", self.model.display()));
        }
        lines.join("\n")
    }
}
