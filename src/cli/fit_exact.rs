//! The part of `skds fit` that the exact solver does.

use super::print_report;
use super::progress::Watch;
use crate::engine::Engine;
use crate::engine::gpu::GpuEngine;
use crate::fit::{ExactFit, Problem, Stability, Support, Tuning};
use crate::{Progress, Result};
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
    loss: f64,
    penalty: f64,
    violation: f64,
    estimator: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    u_form_is_not_convex: bool,
    bandwidth: Option<f64>,
    lambda: f64,
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
    problem: &Problem,
    gpu: Option<&GpuEngine>,
    path: &Path,
    bootstrap: Option<usize>,
    json: bool,
) -> Result<()> {
    let start = Instant::now();
    let progress = Arc::new(Progress::default());
    let watch = Watch::new("fits", progress.clone(), problem.solves());
    let mut fit = problem.solve(gpu, &progress)?;
    drop(watch);
    let seconds = start.elapsed().as_secs_f64();
    if let Some(count) = bootstrap {
        let progress = Arc::new(Progress::default());
        let watch = Watch::new("resamples", progress.clone(), count as u64);
        fit.model.intervals = Some(Box::new(problem.bootstrap(fit.tuning.as_ref(), count, &progress)?));
        drop(watch);
    }
    fit.write(path)?;
    let leading = fit.tuning.as_ref().map(|tuning| &tuning.cells[tuning.leading]);
    let report = Report {
        model: path,
        solver: "exact",
        device: gpu.map_or_else(|| "cpu".into(), Engine::<f32>::device),
        loss: fit.loss,
        penalty: fit.penalty,
        violation: fit.violation,
        estimator: fit.estimator.name(),
        u_form_is_not_convex: fit.fell_back,
        bandwidth: match leading {
            Some(cell) => cell.bandwidth,
            None => problem.spec.loss.kernel.bandwidth(),
        },
        lambda: match (leading, problem.recipe.solver.fixed()) {
            (Some(cell), _) => cell.lambda,
            (None, fixed) => fixed.map_or(f64::NAN, |fixed| fixed.lambda),
        },
        seconds,
        bootstrap,
        stability: fit.stability.clone(),
        support: problem.support(&fit.model),
        tuning: fit.tuning.as_ref(),
        constant: problem.constant(),
    };
    print_report(json, &report, || to_text(&report, problem, &fit))
}

fn to_text(report: &Report<'_>, problem: &Problem, fit: &ExactFit) -> String {
    let averaged = fit.tuning.as_ref().is_some_and(Tuning::is_average);
    let bandwidth = report.bandwidth.map_or(String::new(), |h| format!(", bandwidth {h:.4}"));
    let mut lines = vec![
        format!("SKDS {} model, {} kernel{bandwidth}", problem.recipe.form.kind(), problem.recipe.kernel),
        format!(
            "  {} over all pairs ({}) on {} in {:.3} s",
            if averaged { "exact minima, averaged," } else { "exact minimum" },
            report.estimator,
            report.device,
            report.seconds
        ),
    ];
    if report.u_form_is_not_convex {
        lines.push(
            "  the u form is not convex on this sample: the v form, which always is, took its place".into(),
        );
    }
    lines.push(format!(
        "  loss {:.6e}, penalty {:.6e}, optimality conditions to {:.0e}",
        report.loss, report.penalty, report.violation
    ));
    if let Some(tuning) = &fit.tuning {
        lines.push(format!("  {}", tuning.explained()));
    }
    lines.push(format!("  {}", report.stability.sentence()));
    let support = report.support.sentences().into_iter();
    lines.extend(support.chain(problem.remark()).map(|remark| format!("  {remark}")));
    if let Some(count) = report.bootstrap {
        lines.push(format!("  95 % intervals from {count} resamples of the rows; see 'skds graph'"));
    }
    lines.push(format!("  written to {}", report.model.display()));
    lines.join("\n")
}
