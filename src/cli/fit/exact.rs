//! The part of `skds fit` that the exact solver does.

use super::args::Args;
use crate::cli::advice::with_options;
use crate::cli::print_report;
use crate::cli::progress::ProgressDisplay;
use crate::engine::Engine;
use crate::engine::gpu::GpuEngine;
use crate::fit::{ExactFit, PreparedFit, Stability, Support, Tuning};
use crate::{Progress, Result, report};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// What is printed.
#[derive(Serialize)]
struct Report<'a> {
    model: &'a Path,
    solver: &'static str,
    device: String,
    loss: Option<f64>,
    penalty: Option<f64>,
    violation: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimator: Option<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    u_form_is_not_convex: bool,
    bandwidth: Option<f64>,
    lambda: Option<f64>,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    bootstrap: Option<usize>,
    #[serde(flatten)]
    stability: Stability,
    support: Support,
    #[serde(skip_serializing_if = "Option::is_none")]
    tuning: Option<&'a Tuning>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    constant: &'a [String],
}

pub(super) fn run(args: &Args, prepared: &PreparedFit, gpu: Option<&GpuEngine>) -> Result<()> {
    let (path, json, bootstrap) = (&args.output.file, args.output.json, args.choice.bootstrap);
    let start = Instant::now();
    let progress = Arc::new(Progress::default());
    let display = if json { ProgressDisplay::json } else { ProgressDisplay::new };
    let units = if prepared.recipe.solver.rival().is_some() { "parts" } else { "fits" };
    let shown = display(units, progress.clone(), prepared.fit_count());
    let mut fit = prepared.solve(gpu, &progress)?;
    drop(shown);
    let seconds = start.elapsed().as_secs_f64();
    if let Some(count) = bootstrap {
        let progress = Arc::new(Progress::default());
        let shown = display("resamples", progress.clone(), count as u64);
        fit.model.intervals = Some(Box::new(prepared.bootstrap(fit.tuning.as_ref(), count, &progress)?));
        drop(shown);
    }
    report::write_exact(&fit, path)?;
    let leading = fit.tuning.as_ref().map(|tuning| &tuning.settings[tuning.leading]);
    let answer = Report {
        model: path,
        solver: prepared.recipe.solver.rival().map_or("exact", |rival| rival.kind().name()),
        device: gpu.map_or_else(|| "cpu".into(), Engine::<f32>::device),
        loss: fit.loss,
        penalty: fit.penalty,
        violation: fit.violation,
        estimator: fit.estimator.map(|estimator| estimator.name()),
        u_form_is_not_convex: fit.fell_back,
        bandwidth: match leading {
            Some(cell) => cell.bandwidth,
            None => prepared.recipe.solver.fixed().and(prepared.spec.loss.kernel.bandwidth()),
        },
        lambda: match leading {
            Some(cell) => Some(cell.lambda),
            None => prepared.recipe.solver.strength().map(|strength| strength.lambda),
        },
        seconds,
        bootstrap,
        stability: fit.stability.clone(),
        support: prepared.support(&fit.model),
        tuning: fit.tuning.as_ref(),
        constant: prepared.constant_variables(),
    };
    print_report(json, &answer, || to_text(&answer, prepared, &fit))
}

fn to_text(report: &Report<'_>, prepared: &PreparedFit, fit: &ExactFit) -> String {
    let mut lines = vec![fit.title(prepared)];
    let mut say = |line: String| lines.push(format!("  {line}"));
    fit.findings(prepared, &report.support).iter().for_each(|finding| say(with_options(finding)));
    fit.computation(prepared, &report.device, report.seconds).into_iter().for_each(&mut say);
    if let Some(count) = report.bootstrap {
        say(format!(
            "The model has 95 % intervals from {count} resamples of the rows. 'skds graph' shows them."
        ));
    }
    say(format!("The model is in {}.", report.model.display()));
    lines.join("\n")
}
