//! The part of `skds fit` that the exact solver does.

use super::print_report;
use super::progress::Watch;
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

pub(super) fn run(
    problem: &PreparedFit,
    gpu: Option<&GpuEngine>,
    path: &Path,
    bootstrap: Option<usize>,
    json: bool,
) -> Result<()> {
    let start = Instant::now();
    let progress = Arc::new(Progress::default());
    let watch = if json { Watch::json } else { Watch::new };
    let shown = watch("fits", progress.clone(), problem.fit_count());
    let mut fit = problem.solve(gpu, &progress)?;
    drop(shown);
    let seconds = start.elapsed().as_secs_f64();
    if let Some(count) = bootstrap {
        let progress = Arc::new(Progress::default());
        let shown = watch("resamples", progress.clone(), count as u64);
        fit.model.intervals = Some(Box::new(problem.bootstrap(fit.tuning.as_ref(), count, &progress)?));
        drop(shown);
    }
    report::write_exact(&fit, path)?;
    let leading = fit.tuning.as_ref().map(|tuning| &tuning.settings[tuning.leading]);
    let answer = Report {
        model: path,
        solver: "exact",
        device: gpu.map_or_else(|| "cpu".into(), Engine::<f32>::device),
        loss: fit.loss,
        penalty: fit.penalty,
        violation: fit.violation,
        estimator: fit.estimator.map(|estimator| estimator.name()),
        u_form_is_not_convex: fit.fell_back,
        bandwidth: match leading {
            Some(cell) => cell.bandwidth,
            None => problem.recipe.solver.fixed().and(problem.spec.loss.kernel.bandwidth()),
        },
        lambda: match leading {
            Some(cell) => Some(cell.lambda),
            None => problem.recipe.solver.strength().map(|strength| strength.lambda),
        },
        seconds,
        bootstrap,
        stability: fit.stability.clone(),
        support: problem.support(&fit.model),
        tuning: fit.tuning.as_ref(),
        constant: problem.constant_variables(),
    };
    print_report(json, &answer, || to_text(&answer, problem, &fit))
}

fn to_text(report: &Report<'_>, problem: &PreparedFit, fit: &ExactFit) -> String {
    let mut lines = vec![fit.title(problem)];
    let mut say = |line: String| lines.push(format!("  {line}"));
    fit.findings(problem, &report.support).into_iter().for_each(&mut say);
    fit.computation(problem, &report.device, report.seconds).into_iter().for_each(&mut say);
    if let Some(count) = report.bootstrap {
        say(format!(
            "The model has 95 % intervals from {count} resamples of the rows. 'skds graph' shows them."
        ));
    }
    say(format!("The model is in {}.", report.model.display()));
    lines.join("\n")
}
