//! `skds evaluate`: how well does a model predict interventions that it has not seen?

#[cfg(feature = "serve")]
mod remote;

use super::command::Command;
use super::data::CellArgs;
use super::device::DeviceArgs;
use super::{print_report, progress::ProgressDisplay};
use crate::data::Dataset;
use crate::evaluate::{check_test_data, evaluate, evaluation_progress};
use crate::model::Model;
use crate::predict::Origin;
use crate::sample::{Method, SampleSettings};
use crate::{Progress, Result};
use std::path::PathBuf;
use std::sync::Arc;

/// Predict interventions that the model has not seen, and compare with the test data
///
/// For each test environment, the model gets the names and means of the variables that are intervened on. It finds the shifts
/// of the drift that reproduce these means and draws as many samples as the environment has rows. The report compares them
/// with the data by mse (error of the means), w2 (exact squared 2-Wasserstein distance) and sinkhorn (debiased entropic
/// distance).
///
/// With --from, the command also predicts from observed rows. It takes the rows of the first environment without targets
/// and moves them by what the model says changes, so that the targets have the given means. The report then adds two floors
/// that need no model. 'no effect' moves the targets alone. 'additive' moves a combination of targets by the sum of the
/// mean changes observed under each target alone, where the data of --from has these.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  skds evaluate model.safetensors test.npz --from train.npz
  skds evaluate model.safetensors test.npz
  skds evaluate model.safetensors test.csv --targets targets.csv --json
  skds evaluate model.safetensors new-screen.h5ad --from screen.h5ad")]
pub(super) struct Args {
    /// The model file
    model: PathBuf,
    /// The test samples, with the targets of every environment: .npz, .csv or .h5ad
    test: PathBuf,
    /// The intervention targets of .csv data: one row per environment, one 0/1 column per variable
    #[arg(long, value_name = "FILE")]
    targets: Option<PathBuf>,
    /// The training data: also predict from its observed rows, and compare with floors that need no model
    #[arg(long, value_name = "TRAIN")]
    from: Option<PathBuf>,
    /// The intervention targets of --from, for .csv data
    #[arg(long, value_name = "FILE", requires = "from")]
    from_targets: Option<PathBuf>,
    /// How to sample: auto (exact for linear models, otherwise euler), exact or euler
    #[arg(long, default_value = "auto")]
    method: Method,
    /// Keep simulated samples at or above 0, as for counts and concentrations
    #[arg(long)]
    nonnegative: bool,
    /// Seed of all random choices
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cells: CellArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

impl Command for Args {
    fn run(&self) -> Result<()> {
        run(self)
    }

    fn looks_for_gpus(&self) -> bool {
        self.device.may_be_gpu()
    }

    #[cfg(feature = "serve")]
    fn run_remote(&self, remote: &super::remote::Remote) -> Result<()> {
        remote::run(self, remote)
    }
}

fn run(args: &Args) -> Result<()> {
    let model = Model::read(&args.model)?;
    let test = test(args, &model)?;
    let train = train(args, &model)?;
    let settings =
        SampleSettings { method: args.method, nonnegative: args.nonnegative, ..SampleSettings::default() };
    let sampler = args.device.sampler(settings.method_for(&model)?)?;
    let progress = Arc::new(Progress::default());
    let display = ProgressDisplay::new("parts", progress.clone(), evaluation_progress(train.is_some()));
    let report = evaluate(&sampler, &model, &test, train.as_ref(), &settings, args.seed, &progress)?;
    drop(display);
    print_report(args.json, &report, || report.to_text())
}

/// The test data, which has targets everywhere.
fn test(args: &Args, model: &Model) -> Result<Dataset> {
    args.cells.check(&[Some(&args.test), args.from.as_deref()])?;
    let test = args.cells.read_test(&args.test, args.targets.as_deref(), model)?;
    check_test_data(model, &test)?;
    Ok(test)
}

/// The data of --from, which has rows to start from.
fn train(args: &Args, model: &Model) -> Result<Option<Dataset>> {
    let Some(path) = &args.from else { return Ok(None) };
    let train = args.cells.read_start(path, args.from_targets.as_deref(), model)?;
    Origin::of(model, &train)?;
    Ok(Some(train))
}
