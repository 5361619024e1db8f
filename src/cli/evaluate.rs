//! `skds evaluate`: how well does a model predict interventions that it has not seen?

use super::device::DeviceArgs;
use super::remote::{self, Remote};
use super::{print_report, progress::Watch};
use crate::data::Dataset;
use crate::evaluate::{Evaluation, PREDICTED, check_test_data, predict};
use crate::model::Model;
use crate::sample::{Method, SampleSettings};
use crate::serve::{EvaluateRequest, Request};
use crate::{Progress, Result};
use std::path::PathBuf;
use std::sync::Arc;

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

pub(super) fn run(args: &Args) -> Result<()> {
    let model = Model::read(&args.model)?;
    let test = Dataset::read(&args.test, args.targets.as_deref())?;
    check_test_data(&model, &test)?;
    let settings =
        SampleSettings { method: args.method, nonnegative: args.nonnegative, ..SampleSettings::default() };
    let sampler = args.device.sampler(settings.method_for(&model)?)?;
    let progress = Arc::new(Progress::default());
    let watch = Watch::new("parts", progress.clone(), PREDICTED);
    let predictions = predict(&sampler, &model, &test, &settings, args.seed, &progress)?;
    drop(watch);
    let report = Evaluation::new(predictions);
    print_report(args.json, &report, || report.to_text())
}

/// The same predictions by a service.
pub(super) fn run_remote(args: &Args, remote: &Remote) -> Result<()> {
    let request = Request::Evaluate(EvaluateRequest {
        model: remote::id(remote.upload_model(&args.model)?)?,
        dataset: remote::id(remote.upload_dataset(&args.test, args.targets.as_deref())?)?,
        method: args.method,
        nonnegative: args.nonnegative,
        seed: args.seed,
        device: remote::device(&args.device.device),
    });
    let job = remote.run(&request, args.json)?;
    print_report(args.json, &job.result["evaluation"], || job.result["summary"].as_str().unwrap_or("").into())
}
