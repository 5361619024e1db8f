//! `skds sample`: draws from the stationary law of a model, as it is or under an intervention, or moves observed rows.

#[cfg(feature = "serve")]
pub(super) mod remote;

use super::device::DeviceArgs;
use super::{print_report, progress::Watch};
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

/// Draw samples from the stationary law of a model, or move observed rows as it says.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  # Mean and standard deviation of every variable, from 1000 samples
  skds sample model.safetensors

  # A file that 'skds loss' reads
  skds sample model.safetensors -n 5000 -o samples.npz --seed 1

  # Under the fitted intervention of training environment 2
  skds sample model.safetensors --env 2 -o samples.csv

  # What if something pushed gene1 up and doubled the noise of gene2?
  skds sample model.safetensors --shift gene1=1.5 --scale gene2=2

  # What if gene1 had the mean 2.5 and gene3 the mean 0?
  skds sample model.safetensors --set gene1=2.5 --set gene3=0

  # Where do the rows that were observed go? Their law is kept, only the model's effects are added
  skds sample model.safetensors --from train.npz --set gene1=2.5 -o moved.npz

  # By simulation with a shorter step, as gene expression: never below 0
  skds sample model.safetensors --method euler --dt 0.002 --nonnegative")]
pub(super) struct Args {
    /// The model: a safetensors file
    model: PathBuf,
    /// How many samples, at least 2. With --from so many of its rows, drawn without replacement
    /// [default: 1000, with --from all rows]
    #[arg(short, long = "samples", value_name = "N")]
    n: Option<usize>,
    /// Start from data instead of the model's law: the rows of the first environment without targets, moved by what the
    /// model says changes between rest and the intervention
    #[arg(long, value_name = "DATA")]
    from: Option<PathBuf>,
    /// The targets file of --from, for csv data
    #[arg(long, value_name = "FILE", requires = "from")]
    from_targets: Option<PathBuf>,
    /// Write the samples to this .npz or .csv file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Under the fitted intervention of this training environment, counted from 0
    #[arg(long, value_name = "K")]
    env: Option<usize>,
    /// Add V to the drift of variable NAME, on top of --env: in the data's units per unit of time. Repeatable
    #[arg(long, value_name = "NAME=V")]
    shift: Vec<String>,
    /// Bring the mean of variable NAME to V, in the data's units, by a shift that is found. Repeatable
    #[arg(long, value_name = "NAME=V")]
    set: Vec<String>,
    /// Multiply the noise of variable NAME by V, on top of --env. Repeatable
    #[arg(long, value_name = "NAME=V")]
    scale: Vec<String>,
    /// exact: independent draws from the linear model's Gaussian law. euler: simulation, for every model.
    /// auto: exact where it applies
    #[arg(long, default_value = "auto")]
    method: Method,
    /// Simulation: the length of a step in time
    #[arg(long, default_value_t = EulerSettings::default().dt, allow_hyphen_values = true)]
    dt: f64,
    /// Simulation: steps of every chain before its first sample
    #[arg(long, value_name = "STEPS", default_value_t = EulerSettings::default().burn_in)]
    burn_in: usize,
    /// Simulation: steps between two samples of a chain. Fewer are faster, and the samples of a chain more alike
    #[arg(long, value_name = "STEPS", default_value_t = EulerSettings::default().thin)]
    thin: usize,
    /// Simulation: chains side by side [default: one per sample, at most 1024, or 8192 on a GPU]
    #[arg(long, value_name = "N")]
    chains: Option<usize>,
    /// Simulation: hold every variable at or above 0, in the units of the data, after every step
    #[arg(long)]
    nonnegative: bool,
    #[command(flatten)]
    pub(super) device: DeviceArgs,
    /// Seed of every random choice
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
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

pub(super) fn run(args: &Args) -> Result<()> {
    let model = Model::read(&args.model)?;
    if let Some(path) = &args.output {
        DataFormat::of(path, &model.names)?;
    }
    let treatment = treatment(args, &model)?;
    let euler = EulerSettings { dt: args.dt, burn_in: args.burn_in, thin: args.thin, chains: args.chains };
    euler.check()?;
    let settings = SampleSettings { method: args.method, euler, nonnegative: args.nonnegative };
    let method = settings.method_for(&model)?;
    let start_from = start_from(args, &model)?;
    let sampler = args.device.sampler(method)?;
    let start = Instant::now();
    let progress = Arc::new(Progress::default());
    let counted = start_from.counted(&sampler, &treatment, &settings);
    let watch =
        (method == Method::Euler && counted > 0).then(|| Watch::new("steps", progress.clone(), counted));
    let samples = predicted(&sampler, &model, &start_from, &treatment, &settings, args.seed, &progress)?;
    drop(watch);
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
        Dataset::from_environments(vec![samples])?.with_names(model.names)?.write(path)?;
    }
    print_report(args.json, &report, || report.to_text(args.output.as_deref()))
}

fn treatment(args: &Args, model: &Model) -> Result<Treatment> {
    let shift = assignments("--shift", &args.shift)?;
    let scale = assignments("--scale", &args.scale)?;
    Treatment::named(model, args.env, &shift, &scale, &assignments("--set", &args.set)?)
}

fn start_from(args: &Args, model: &Model) -> Result<Start> {
    if let Some(n) = args.n.filter(|n| *n < 2) {
        return Err(Error::invalid(format!("found -n {n}, expected at least 2 samples")));
    }
    let Some(path) = &args.from else { return Ok(Start::Law(args.n.unwrap_or(SAMPLES))) };
    let data = Dataset::read_files(path, args.from_targets.as_deref())?;
    Ok(Start::Data(Origin::of(model, &data)?.draw(args.n, args.seed)?))
}

fn from(args: &Args, start: &Start) -> Option<From> {
    match (&args.from, start) {
        (Some(data), Start::Data(origin)) => {
            Some(From { data: data.clone(), environment: origin.environment })
        }
        _ => None,
    }
}

/// The names and numbers of every NAME=V; a variable may be named once.
fn assignments(option: &str, texts: &[String]) -> Result<BTreeMap<String, f64>> {
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
        let shown = variables.iter().take(TABLE_ROWS);
        let width = shown.clone().map(|v| v.name.chars().count()).max().unwrap_or(0).max("variable".len());
        let mut lines =
            vec![first, String::new(), format!("{:<width$}  {:>12}  {:>12}", "variable", "mean", "sd")];
        lines.extend(
            shown.map(|Variable { name, mean, sd }| format!("{name:<width$}  {mean:>12.6}  {sd:>12.6}")),
        );
        if variables.len() > TABLE_ROWS {
            lines.push(format!("… and {} more, all with --json", variables.len() - TABLE_ROWS));
        }
        lines.join("\n")
    }
}
