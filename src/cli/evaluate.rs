//! `skds evaluate`: how well does a model predict interventions that it has not seen?

#[cfg(feature = "serve")]
pub(super) mod remote;

use super::device::DeviceArgs;
use super::{print_report, progress::Watch};
use crate::data::Dataset;
use crate::evaluate::{check_test_data, evaluate, evaluation_progress};
use crate::model::Model;
use crate::predict::Origin;
use crate::sample::{Method, SampleSettings};
use crate::{Progress, Result};
use std::path::PathBuf;
use std::sync::Arc;

/// Predict unseen interventions and compare with what happened.
#[derive(clap::Args)]
#[command(
    after_help = "For each test environment the model is told which variables are intervened on and their means. It finds
the shifts of the drift that reproduce those means, draws as many samples as the environment has, and
compares: mse (of means), w2 (exact squared 2-Wasserstein distance), sinkhorn (entropic, debiased).

With --from the rows of the first environment without targets are moved by what the model says changes, so
that the targets' means are those it was told, and compared too. Beside them stand two floors: 'no effect'
moves the targets alone; 'additive' moves a combination of targets by the sum of the changes of means that
were observed under each target alone, where the data of --from has these.

Examples:
  skds evaluate model.safetensors test.npz --from train.npz
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
    /// The training data: predict from its observed rows too, and compare with floors that need no model
    #[arg(long, value_name = "TRAIN")]
    from: Option<PathBuf>,
    /// The targets file of --from, for csv data
    #[arg(long, value_name = "FILE", requires = "from")]
    from_targets: Option<PathBuf>,
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
    let test = Dataset::read_files(&args.test, args.targets.as_deref())?;
    check_test_data(&model, &test)?;
    let train = train(args, &model)?;
    let settings =
        SampleSettings { method: args.method, nonnegative: args.nonnegative, ..SampleSettings::default() };
    let sampler = args.device.sampler(settings.method_for(&model)?)?;
    let progress = Arc::new(Progress::default());
    let watch = Watch::new("parts", progress.clone(), evaluation_progress(train.is_some()));
    let report = evaluate(&sampler, &model, &test, train.as_ref(), &settings, args.seed, &progress)?;
    drop(watch);
    print_report(args.json, &report, || report.to_text())
}

/// The data of --from, which has rows to start from.
fn train(args: &Args, model: &Model) -> Result<Option<Dataset>> {
    let Some(path) = &args.from else { return Ok(None) };
    let train = Dataset::read_files(path, args.from_targets.as_deref())?;
    Origin::of(model, &train)?;
    Ok(Some(train))
}
