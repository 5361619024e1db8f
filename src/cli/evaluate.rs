//! `skds evaluate`: how well does a model predict interventions that it has not seen?

use super::device::DeviceArgs;
use super::{print_report, progress::Watch};
use crate::Result;
use crate::data::Dataset;
use crate::evaluate::{Prediction, Scores, check_test_data, median, predict};
use crate::model::Model;
use crate::sample::{Method, SampleSettings};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What progress is counted in.
const PARTS: u64 = 1000;

/// Predict unseen interventions and compare with what happened.
#[derive(clap::Args)]
#[command(
    after_help = "For each test environment the model is told which variables are intervened on and their means. It finds
the shifts of the drift that reproduce those means, draws as many samples as the environment has, and
compares: mse (of means), w2 (exact squared 2-Wasserstein distance), sinkhorn (entropic, debiased).

Examples:
  skds evaluate model.safetensors test.npz
  skds evaluate model.safetensors test.csv --targets targets.csv --json"
)]
pub(super) struct Args {
    /// The model: a file of 'skds fit'
    model: PathBuf,
    /// Test samples with the targets of every environment: .npz or .csv
    test: PathBuf,
    /// Intervention targets for csv data: one row per environment, one 0/1 column per variable
    #[arg(long, value_name = "FILE")]
    targets: Option<PathBuf>,
    /// How to sample: auto (exact for linear models), exact or euler
    #[arg(long, default_value = "auto")]
    method: Method,
    /// Keep simulated samples at or above 0, as for counts and concentrations
    #[arg(long)]
    nonnegative: bool,
    #[command(flatten)]
    pub(super) device: DeviceArgs,
    /// Seed of every random choice
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// What is printed.
#[derive(Serialize)]
struct Report {
    environments: usize,
    unstable: usize,
    median: Scores,
    mean: Scores,
    predictions: Vec<Prediction>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let model = Model::read(&args.model)?;
    let test = Dataset::read(&args.test, args.targets.as_deref())?;
    check_test_data(&model, &test)?;
    let settings =
        SampleSettings { method: args.method, nonnegative: args.nonnegative, ..SampleSettings::default() };
    let sampler = args.device.sampler(settings.method_for(&model)?)?;
    let done = Arc::new(AtomicU64::new(0));
    let watch = Watch::new("parts", done.clone(), PARTS);
    let predictions = predict(&sampler, &model, &test, &settings, args.seed, &mut |share| {
        done.store((share * PARTS as f64) as u64, Ordering::Relaxed);
    })?;
    drop(watch);
    let report = Report::new(predictions);
    print_report(args.json, &report, || report.to_text())
}

impl Report {
    fn new(predictions: Vec<Prediction>) -> Self {
        let scores: Vec<Scores> = predictions.iter().filter_map(|p| p.scores).collect();
        let of = |part: fn(&Scores) -> f64| scores.iter().map(part).collect::<Vec<_>>();
        let (mse, w2, sinkhorn) = (of(|s| s.mse), of(|s| s.w2), of(|s| s.sinkhorn));
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        Report {
            environments: predictions.len(),
            unstable: predictions.len() - scores.len(),
            median: Scores { mse: median(&mse), w2: median(&w2), sinkhorn: median(&sinkhorn) },
            mean: Scores { mse: mean(&mse), w2: mean(&w2), sinkhorn: mean(&sinkhorn) },
            predictions,
        }
    }

    fn to_text(&self) -> String {
        let row =
            |name: &str, s: &Scores| format!("{name:<28}{:>12.4}{:>12.4}{:>12.4}", s.mse, s.w2, s.sinkhorn);
        let mut lines =
            vec![format!("{:<28}{:>12}{:>12}{:>12}", "environment, target", "mse", "w2", "sinkhorn")];
        for p in &self.predictions {
            let name = format!("{:<4} {}", p.environment, p.targets.join(", "));
            lines.push(match (&p.scores, &p.unstable) {
                (Some(scores), _) => row(&name, scores),
                (None, reason) => format!("{name:<28}  unstable: {}", reason.as_deref().unwrap_or("")),
            });
        }
        lines.push(row("median", &self.median));
        lines.push(row("mean", &self.mean));
        lines.push(format!("\n{} of {} predictions are unstable", self.unstable, self.environments));
        lines.join("\n")
    }
}
