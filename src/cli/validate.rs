//! `skds validate`: can this device be trusted? Compares it with the f64 CPU engine.

use super::command::Command;
use super::device::DeviceArgs;
use super::{print_report, progress::ProgressDisplay};
use crate::engine::Engine;
use crate::engine::validate::{Comparison, FULL_SHAPES, MODELS, QUICK_SHAPES, TOLERANCE, cases, compare};
use crate::kernel::KernelKind;
use crate::objective::{Estimator, Objective};
use crate::{Error, Progress, Result};
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

/// Check a device against the CPU engine in double precision
///
/// Run this on a new GPU before you rely on it. The command compares losses and gradients for every kernel, estimator and
/// model. It exits with 1 if any of them differs too much.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  # A check of a few seconds
  skds validate --quick --device gpu

  # All shapes; takes minutes on a software adapter
  skds validate --device 0")]
pub(super) struct Args {
    /// Check small shapes only, in seconds
    #[arg(long)]
    quick: bool,
    /// Seed of the random samples and parameters
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

/// What is printed.
#[derive(Serialize)]
struct Report {
    device: String,
    precision: &'static str,
    tolerance: f64,
    comparisons: usize,
    worst: f64,
    passed: bool,
    seconds: f64,
    rows: Vec<Row>,
}

/// The worst errors of one loss, by model.
#[derive(Serialize)]
struct Row {
    objective: &'static str,
    kernel: &'static str,
    estimator: &'static str,
    errors: Vec<f64>,
    passed: bool,
}

impl Command for Args {
    fn run(&self) -> Result<()> {
        run(self)
    }

    fn looks_for_gpus(&self) -> bool {
        self.device.may_be_gpu()
    }
}

fn run(args: &Args) -> Result<()> {
    let start = Instant::now();
    let engine: Box<dyn Engine<f32>> = args.device.engine()?;
    let all = cases(if args.quick { QUICK_SHAPES } else { FULL_SHAPES });
    let progress = Arc::new(Progress::default());
    let watch = ProgressDisplay::new("comparisons", progress.clone(), all.len() as u64);
    let mut found = Vec::new();
    for case in all {
        found.push(compare(engine.as_ref(), case, args.seed)?);
        progress.add(1)?;
    }
    drop(watch);
    let report = Report::new(engine.device(), &found, start.elapsed().as_secs_f64());
    print_report(args.json, &report, || report.to_text())?;
    match found.iter().find(|one| !one.passes()) {
        None => Ok(()),
        Some(Comparison { spec, model, shape, worst, error }) => Err(Error::Mismatch(format!(
            "{} differs from the f64 CPU engine: {worst} of {} {} {} with a {} model of {} variables by {error:.1e}, expected at most {TOLERANCE:.0e}",
            report.device,
            spec.objective,
            spec.kernel.kind(),
            spec.estimator,
            model.name,
            shape.1
        ))),
    }
}

impl Report {
    fn new(device: String, found: &[Comparison], seconds: f64) -> Self {
        // NaN counts as the worst there is.
        let worse = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
        let mut rows = Vec::new();
        for &objective in Objective::ALL {
            for &kernel in KernelKind::ALL {
                for &estimator in Estimator::ALL {
                    let of = |one: &&Comparison| {
                        one.spec.objective == objective
                            && one.spec.kernel.kind() == kernel
                            && one.spec.estimator == estimator
                    };
                    let errors = MODELS
                        .iter()
                        .map(|model| {
                            let errors = found.iter().filter(of).filter(|one| one.model == *model);
                            errors.fold(0.0, |worst, one| worse(worst, one.error))
                        })
                        .collect();
                    rows.push(Row {
                        objective: objective.name(),
                        kernel: kernel.name(),
                        estimator: estimator.name(),
                        errors,
                        passed: found.iter().filter(of).all(Comparison::passes),
                    });
                }
            }
        }
        Report {
            device,
            precision: "f32",
            tolerance: TOLERANCE,
            comparisons: found.len(),
            worst: found.iter().fold(0.0, |worst, one| worse(worst, one.error)),
            passed: found.iter().all(Comparison::passes),
            seconds,
            rows,
        }
    }

    fn to_text(&self) -> String {
        let heads = ["linear", "lin full", "sigmoid", "tanh", "relu", "sig full"];
        let mut lines = vec![
            format!("{} in f32 against the CPU in f64: largest error of loss and gradients", self.device),
            format!("relative to each one's largest entry; tolerance {:.0e}\n", self.tolerance),
            format!("{:<22}{}", "", heads.map(|head| format!("{head:>9}")).concat()),
        ];
        for row in &self.rows {
            let errors: String = row.errors.iter().map(|error| format!("{error:>9.1e}")).collect();
            let verdict = if row.passed { "" } else { "  FAILS" };
            let name = format!("{} {} {}", row.objective, row.kernel, row.estimator);
            lines.push(format!("{name:<22}{errors}{verdict}"));
        }
        lines.push(format!(
            "\n{}: {} comparisons, worst {:.1e}, tolerance {:.0e}, {:.1} s",
            if self.passed { "passed" } else { "FAILED" },
            self.comparisons,
            self.worst,
            self.tolerance,
            self.seconds
        ));
        lines.join("\n")
    }
}
