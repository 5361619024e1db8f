//! `skds sample`: draws from the stationary law of a model, as it is or under an intervention, or moves observed rows.

mod perturb;
#[cfg(feature = "serve")]
mod remote;

use super::command::Command;
use super::data::CellArgs;
use super::device::DeviceArgs;
use super::{print_report, progress::ProgressDisplay};
use crate::data::{DataFormat, Dataset};
use crate::model::Model;
use crate::predict::{Origin, Start, Treatment, predicted};
use crate::sample::{EulerSettings, Method, SampleSettings};
use crate::{Error, Matrix, Progress, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Variables that the table shows; the report as JSON has all of them.
const TABLE_ROWS: usize = 40;
/// Samples of a law if nothing is said.
const SAMPLES: usize = 1000;

/// Draw samples from the stationary law of a model, or move observed rows as the model predicts
///
/// Without --from, the samples come from the model's own law. With --from, they are the observed rows of the first
/// environment without targets, moved by the difference that the model predicts between no intervention and the one you
/// describe. So they keep the law of the data, and only the effects come from the model.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  # Mean and standard deviation of every variable, from 1000 samples
  skds sample model.safetensors

  # A file that 'skds loss' reads
  skds sample model.safetensors -n 5000 -o samples.npz --seed 1

  # Under the fitted intervention of training environment 2
  skds sample model.safetensors --env 2 -o samples.csv

  # Push gene1 up and double the noise of gene2
  skds sample model.safetensors --shift gene1=1.5 --scale gene2=2

  # Set the mean of gene1 to 2.5 and that of gene3 to 0
  skds sample model.safetensors --set gene1=2.5 --set gene3=0

  # Move observed rows
  skds sample model.safetensors --from train.npz --set gene1=2.5 -o moved.npz

  # Move control cells as if genes were perturbed, as strongly as perturbations in the data
  skds sample model.safetensors --from screen.h5ad --perturb KLF1 --perturb KLF1+CEBPA -o moved.h5ad

  # Simulate gene expression, never below 0, with a shorter step
  skds sample model.safetensors --method euler --dt 0.002 --nonnegative")]
pub(super) struct Args {
    /// The model file
    model: PathBuf,
    /// Number of samples, at least 2 [default: 1000, or all rows with --from]
    ///
    /// With --from, rows are drawn without replacement.
    #[arg(short, long = "samples", value_name = "N")]
    n: Option<usize>,
    /// Write the samples to this .npz, .csv or .h5ad file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Seed of all random choices
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    cells: CellArgs,
    #[command(flatten)]
    intervention: InterventionArgs,
    #[command(flatten)]
    simulation: SimulationArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Observed rows")]
struct DataArgs {
    /// Move the rows of the first environment without targets in this data
    #[arg(long, value_name = "DATA")]
    from: Option<PathBuf>,
    /// The intervention targets of --from, for .csv data
    #[arg(long, value_name = "FILE", requires = "from")]
    from_targets: Option<PathBuf>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Intervention")]
struct InterventionArgs {
    /// Apply the fitted intervention of training environment K, counted from 0
    #[arg(long, value_name = "K")]
    env: Option<usize>,
    /// Add V to the drift of variable NAME, in data units per unit of time; can be repeated
    #[arg(long, value_name = "NAME=V")]
    shift: Vec<String>,
    /// Bring the mean of variable NAME to V, in data units, with a suitable shift; can be repeated
    #[arg(long, value_name = "NAME=V")]
    set: Vec<String>,
    /// Multiply the noise of variable NAME by V; can be repeated
    #[arg(long, value_name = "NAME=V")]
    scale: Vec<String>,
    /// Perturb these variables, joined by +, as strongly as perturbations in the data of --from; can be repeated
    ///
    /// A variable that the data perturbs reaches the mean that it has there. Any other changes as those did: by the
    /// median size, in the direction of most.
    /// Every --perturb gives an environment of its own in the output.
    #[arg(long, value_name = "NAMES", requires = "from", conflicts_with_all = ["env", "shift", "set", "scale"])]
    perturb: Vec<String>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Simulation")]
struct SimulationArgs {
    /// How to sample: exact, euler or auto
    ///
    /// 'exact' draws independent samples from the Gaussian law of a linear model. 'euler' simulates any model. 'auto' is exact
    /// where that is possible.
    #[arg(long, default_value = "auto")]
    method: Method,
    /// Time step
    #[arg(long, default_value_t = EulerSettings::default().dt, allow_hyphen_values = true)]
    dt: f64,
    /// Steps of every chain before its first sample
    #[arg(long, value_name = "STEPS", default_value_t = EulerSettings::default().burn_in)]
    burn_in: usize,
    /// Steps between two samples of a chain; fewer are faster, but make the samples more alike
    #[arg(long, value_name = "STEPS", default_value_t = EulerSettings::default().thin)]
    thin: usize,
    /// Number of parallel chains [default: one per sample, at most 1024, or 8192 on a GPU]
    #[arg(long, value_name = "N")]
    chains: Option<usize>,
    /// Keep every variable at or above 0, in data units, after every step
    #[arg(long)]
    nonnegative: bool,
}

impl SimulationArgs {
    fn settings(&self) -> SampleSettings {
        let SimulationArgs { method, dt, burn_in, thin, chains, nonnegative } = *self;
        SampleSettings { method, euler: EulerSettings { dt, burn_in, thin, chains }, nonnegative }
    }
}

/// What is printed.
#[derive(Serialize)]
struct Report {
    n: usize,
    method: &'static str,
    device: String,
    seed: u64,
    /// The environment whose rows were moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<From>,
    variables: Vec<Variable>,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<PathBuf>,
}

/// Where rows came from.
#[derive(Serialize)]
struct From {
    data: PathBuf,
    environment: usize,
}

/// One variable's samples in two numbers.
#[derive(Serialize)]
struct Variable {
    name: String,
    mean: f64,
    sd: f64,
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
    if let Some(path) = &args.output {
        DataFormat::of(path, &model.names)?;
    }
    check(args)?;
    if let (Some(from), false) = (&args.data.from, args.intervention.perturb.is_empty()) {
        return perturb::run(args, &model, from);
    }
    let treatment = treatment(args, &model)?;
    let settings = args.simulation.settings();
    let method = settings.method_for(&model)?;
    let start_from = start_from(args, &model)?;
    let sampler = args.device.sampler(method)?;
    let start = Instant::now();
    let progress = Arc::new(Progress::default());
    let counted = start_from.counted(&sampler, &treatment, &settings);
    let display = (method == Method::Euler && counted > 0)
        .then(|| ProgressDisplay::new("steps", progress.clone(), counted));
    let samples = predicted(&sampler, &model, &start_from, &treatment, &settings, args.seed, &progress)?;
    drop(display);
    let seconds = start.elapsed().as_secs_f64();
    let report = Report {
        n: samples.rows(),
        method: method.name(),
        device: sampler.device(&model, method),
        seed: args.seed,
        from: from(args, &start_from),
        variables: summary(&samples, &model.names),
        seconds,
        output: args.output.clone(),
    };
    if let Some(path) = &args.output {
        write(samples, &model, &treatment, path)?;
    }
    print_report(args.json, &report, || report.to_text(args.output.as_deref()))
}

/// Writes samples. In an .h5ad file, where every row has a label, it says which variables were moved.
fn write(samples: Matrix<f64>, model: &Model, treatment: &Treatment, path: &Path) -> Result<()> {
    let data = Dataset::from_environments(vec![samples])?.with_names(model.names.clone())?;
    match path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("h5ad")) {
        true => data.with_targets(Matrix::from_fn(1, model.dim(), |_, j| treatment.acts_on(j)))?.write(path),
        false => data.write(path),
    }
}

/// What is wrong with the options alone.
fn check(args: &Args) -> Result<()> {
    if let Some(n) = args.n.filter(|n| *n < 2) {
        return Err(Error::invalid(format!("found -n {n}, expected at least 2 samples")));
    }
    args.cells.check(&[args.data.from.as_deref()])?;
    args.simulation.settings().euler.check()
}

fn treatment(args: &Args, model: &Model) -> Result<Treatment> {
    let shift = assignments("--shift", &args.intervention.shift)?;
    let scale = assignments("--scale", &args.intervention.scale)?;
    Treatment::named(
        model,
        args.intervention.env,
        &shift,
        &scale,
        &assignments("--set", &args.intervention.set)?,
    )
}

fn start_from(args: &Args, model: &Model) -> Result<Start> {
    let Some(path) = &args.data.from else { return Ok(Start::Law(args.n.unwrap_or(SAMPLES))) };
    let data = args.cells.read_start(path, args.data.from_targets.as_deref(), model)?;
    Ok(Start::Data(Origin::of(model, &data)?.draw(args.n, args.seed)?))
}

fn from(args: &Args, start: &Start) -> Option<From> {
    match (&args.data.from, start) {
        (Some(data), Start::Data(origin)) => {
            Some(From { data: data.clone(), environment: origin.environment })
        }
        _ => None,
    }
}

/// The names and numbers of every NAME=V; a variable may be named once.
pub(super) fn assignments(option: &str, texts: &[String]) -> Result<BTreeMap<String, f64>> {
    let mut all = BTreeMap::new();
    for text in texts {
        // Names may contain '=', numbers do not.
        let parsed = text.rsplit_once('=').and_then(|(name, value)| Some((name, value.trim().parse().ok()?)));
        let Some((name, value)) = parsed else {
            return Err(Error::invalid(format!(
                "found {option} {text}, expected NAME=V with the name of a variable and a number"
            )));
        };
        if all.insert(name.to_owned(), value).is_some() {
            return Err(Error::invalid(format!("found {option} for '{name}' twice, expected it once")));
        }
    }
    Ok(all)
}

fn summary(samples: &Matrix<f64>, names: &[String]) -> Vec<Variable> {
    let (n, d) = (samples.rows() as f64, samples.cols());
    // Row by row, as they lie in memory.
    let column_means = |term: &dyn Fn(usize, f64) -> f64, count: f64| {
        let mut sums = vec![0.0; d];
        for row in samples.as_slice().chunks_exact(d) {
            sums.iter_mut().zip(row).enumerate().for_each(|(j, (sum, x))| *sum += term(j, *x));
        }
        sums.iter_mut().for_each(|sum| *sum /= count);
        sums
    };
    let means = column_means(&|_, x| x, n);
    let variances = column_means(&|j, x| (x - means[j]) * (x - means[j]), n - 1.0);
    let variables = names.iter().zip(means.iter().zip(&variances));
    variables
        .map(|(name, (mean, variance))| Variable { name: name.clone(), mean: *mean, sd: variance.sqrt() })
        .collect()
}

impl Report {
    fn to_text(&self, output: Option<&Path>) -> String {
        let Report { n, method, device, seconds, variables, .. } = self;
        let what = match &self.from {
            Some(From { data, environment }) => {
                format!("{n} rows of {}, environment {environment}, moved", data.display())
            }
            None => format!("{n} samples of {} variables", variables.len()),
        };
        let first = format!("{what}, method {method} on {device}, {seconds:.3} s");
        if let Some(path) = output {
            return format!("{first}, written to {}", path.display());
        }
        let mut lines = vec![first, String::new()];
        lines.extend(table(variables));
        lines.join("\n")
    }
}

/// A row per variable.
fn table(variables: &[Variable]) -> Vec<String> {
    let shown = variables.iter().take(TABLE_ROWS);
    let width = shown.clone().map(|v| v.name.chars().count()).max().unwrap_or(0).max("variable".len());
    let mut lines = vec![format!("{:<width$}  {:>12}  {:>12}", "variable", "mean", "sd")];
    lines
        .extend(shown.map(|Variable { name, mean, sd }| format!("{name:<width$}  {mean:>12.6}  {sd:>12.6}")));
    if variables.len() > TABLE_ROWS {
        lines.push(format!("… and {} more, all with --json", variables.len() - TABLE_ROWS));
    }
    lines
}
