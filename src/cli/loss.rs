//! `skds loss`: evaluates a loss, and its gradient, for given parameters.

#[cfg(feature = "serve")]
mod remote;

use super::command::Command;
use super::device::DeviceArgs;
use super::{print_report, progress::ProgressDisplay};
use crate::data::Dataset;
use crate::engine::{self, Engine, Loss, LossSpec, StageTime};
use crate::fit::{LossSettings, ModelLoss};
use crate::kernel::{Bandwidth, KernelKind};
use crate::model::{Model, Parameters};
use crate::named::named;
use crate::objective::{Estimator, Objective};
use crate::{Error, Result, Scalar};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

/// Evaluate the loss of a model on data, and its gradient
///
/// Settings that you do not give come from the model's fit: the objective, the kernel, the bandwidth and the estimator, as far
/// as the model file holds them. The report says which did. A model whose fit standardised the data is evaluated in the same
/// units, so bandwidths are in standard deviations.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  # With the settings of the model's fit
  skds loss data.npz --params model.safetensors

  # The gradient of every parameter, in double precision, from all pairs
  skds loss data.npz --params model.safetensors --estimator u --precision f64 --grad gradient.safetensors

  # Data from a table: columns are variables, 'env' is the environment
  skds loss data.csv --targets targets.csv --params model.safetensors --kernel tilted-rbf --bandwidth 7

  # The time of one evaluation
  skds loss data.npz --params model.safetensors --repeat 100 --json

  # On the GPU, with the time of each stage
  skds loss data.npz --params model.safetensors --device gpu --profile")]
pub(super) struct Args {
    /// The samples: an .npz file with x [N,d] and optionally env [N], targets [E,d], names [d], or a .csv file with a header
    data: PathBuf,
    /// The model: a file from 'skds fit', or a safetensors file with the parameters alone
    #[arg(long, value_name = "FILE")]
    params: PathBuf,
    /// The intervention targets of .csv data: one row per environment, one 0/1 column per variable
    #[arg(long, value_name = "FILE")]
    targets: Option<PathBuf>,
    /// Write the gradient of every parameter, under the parameter's name, to this safetensors file
    #[arg(long, value_name = "FILE")]
    grad: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: LossArgs,
    #[command(flatten)]
    computation: ComputationArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Loss")]
struct LossArgs {
    /// The loss: skds or kds [default: the model's, or skds]
    #[arg(long)]
    objective: Option<Objective>,
    /// The kernel: rbf, tilted-rbf or imq-plus [default: the model's, or rbf]
    #[arg(long)]
    kernel: Option<KernelKind>,
    /// Bandwidth of the kernel: a number above 0, or auto [default: the model's, or auto]
    ///
    /// 'auto' is the median distance between samples. The imq-plus kernel has no bandwidth and ignores this option.
    #[arg(long, value_name = "H", allow_hyphen_values = true)]
    bandwidth: Option<Bandwidth>,
    /// The pairs of rows: linear (neighbouring rows), u (all different rows) or v (all) [default: the model's, or linear]
    #[arg(long)]
    estimator: Option<Estimator>,
    /// Evaluate on the numbers as they are, even if the model's fit standardised them
    #[arg(long)]
    no_standardize: bool,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Computation")]
struct ComputationArgs {
    /// Floating-point precision: f32 or f64
    #[arg(long, default_value = "f32")]
    precision: Precision,
    /// Evaluate value and gradient N more times, and report the time of one evaluation
    #[arg(long, value_name = "N")]
    repeat: Option<u32>,
    /// Report the time of each stage of an evaluation with gradient, by the clock of the GPU
    #[arg(long)]
    profile: bool,
    /// Seed of the pairs that the bandwidth 'auto' draws
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

impl LossArgs {
    fn given(&self) -> LossSettings {
        let LossArgs { objective, kernel, bandwidth, estimator, no_standardize: as_is } = *self;
        LossSettings { objective, kernel, bandwidth, estimator, as_is }
    }
}

/// The arithmetic to use.
#[derive(Clone, Copy, Debug)]
enum Precision {
    F32,
    F64,
}

named!(Precision, "precision", { F32 => "f32", F64 => "f64" });

/// What is printed.
#[derive(Serialize)]
struct Report {
    loss: f64,
    objective: &'static str,
    kernel: &'static str,
    bandwidth: Option<f64>,
    estimator: &'static str,
    pairs: u64,
    environments: usize,
    environment_losses: Vec<f64>,
    rows: usize,
    variables: usize,
    device: String,
    precision: &'static str,
    seconds: f64,
    /// The settings that the model's fit gave.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    from_model: Vec<&'static str>,
    /// Whether the data was standardised, as in the model's fit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    standardized: bool,
    #[serde(flatten)]
    repeated: Option<Repeated>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stages: Vec<StageTime>,
}

/// The time of one evaluation with everything loaded and allocated.
#[derive(Serialize)]
struct Repeated {
    repeat: u32,
    median_seconds: f64,
    min_seconds: f64,
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
    let data = Dataset::read_files(&args.data, args.targets.as_deref())?;
    let model = Model::read(&args.params)?;
    model.check_variables(&data, "the data")?;
    let loss = ModelLoss::new(&model, &args.settings.given())?;
    loss.parameters.check_fits(data.dim(), data.environments())?;
    let data = loss.data(&data);
    let spec = loss.spec(&data, args.computation.seed)?;
    match args.computation.precision {
        Precision::F32 => evaluate::<f32>(args, args.device.engine()?.as_ref(), &data, &spec, &loss),
        Precision::F64 => evaluate::<f64>(args, args.device.engine()?.as_ref(), &data, &spec, &loss),
    }
}

fn evaluate<T: engine::Precision>(
    args: &Args,
    engine: &dyn Engine<T>,
    data: &Dataset,
    spec: &LossSpec,
    model: &ModelLoss,
) -> Result<()> {
    let parameters: Parameters<T> = model.parameters.cast();
    let mut gradient =
        (args.grad.is_some() || args.computation.repeat.is_some()).then(|| parameters.zeros_like());
    let mut loss = engine.load(data, spec)?;
    let display = ProgressDisplay::new("pairs", loss.progress(), loss.pairs());
    let start = Instant::now();
    let value = loss.evaluate(&parameters, gradient.as_mut())?;
    let seconds = start.elapsed().as_secs_f64();
    drop(display);
    if let Some(gradient) = &gradient {
        check_finite(gradient)?;
    }
    let environment_losses = loss.environment_losses().to_vec();
    let repeated = match (args.computation.repeat, &mut gradient) {
        (Some(repeat), Some(gradient)) if repeat > 0 => {
            // On a thread of the pool, as in training: entering it is no part of an evaluation.
            Some(rayon::scope(|_| time_repeats(repeat, loss.as_mut(), &parameters, gradient))?)
        }
        _ => None,
    };
    let stages = match args.computation.profile {
        true => args.device.gpu()?.load_gpu(data, spec)?.profile(&parameters)?,
        false => Vec::new(),
    };
    if let (Some(path), Some(gradient)) = (&args.grad, gradient) {
        model.gradient(gradient)?.write(path)?;
    }
    let report = Report {
        loss: value,
        objective: spec.objective.name(),
        kernel: spec.kernel.kind().name(),
        bandwidth: spec.kernel.bandwidth(),
        estimator: spec.estimator.name(),
        pairs: loss.pairs(),
        environments: data.environments(),
        environment_losses,
        rows: data.samples().rows(),
        variables: data.dim(),
        device: engine.device(),
        precision: T::NAME,
        seconds,
        from_model: model.from_model.clone(),
        standardized: model.is_standardized(),
        repeated,
        stages,
    };
    print_report(args.json, &report, || report.to_text(args.grad.as_deref()))
}

/// Evaluates once to warm up and `repeat` times more.
fn time_repeats<T: engine::Precision>(
    repeat: u32,
    loss: &mut dyn Loss<T>,
    parameters: &Parameters<T>,
    gradient: &mut Parameters<T>,
) -> Result<Repeated> {
    loss.evaluate(parameters, Some(gradient))?;
    let mut times = Vec::new();
    for _ in 0..repeat {
        let start = Instant::now();
        loss.evaluate(parameters, Some(gradient))?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let (low, high) = (times[(times.len() - 1) / 2], times[times.len() / 2]);
    Ok(Repeated { repeat, median_seconds: 0.5 * (low + high), min_seconds: times[0] })
}

/// A gradient with a NaN in it is never written.
fn check_finite<T: Scalar>(gradient: &Parameters<T>) -> Result<()> {
    for tensor in gradient.tensors() {
        if let Some(at) = tensor.values.iter().position(|v| !Scalar::is_finite(*v)) {
            return Err(Error::NonFinite(format!(
                "the gradient of {} is {} at entry {at} of shape {:?}, expected finite numbers",
                tensor.name, tensor.values[at], tensor.shape
            )));
        }
    }
    Ok(())
}

/// Where settings come from that nobody gave, and the units.
fn settings_sentences(from_model: &[&str], standardized: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some((last, others)) = from_model.split_last() {
        let names =
            if others.is_empty() { (*last).to_owned() } else { format!("{} and {last}", others.join(", ")) };
        lines.push(format!("  settings   {names} from the model's fit"));
    }
    if standardized {
        lines.push("  units      standard deviations, as in the model's fit".into());
    }
    lines
}

impl Report {
    fn to_text(&self, grad: Option<&std::path::Path>) -> String {
        let bandwidth = self.bandwidth.map_or(String::new(), |h| format!(", bandwidth {h:.6}"));
        let mut lines = vec![
            format!("{} {:.10}", self.objective.to_uppercase(), self.loss),
            format!("  kernel     {}{bandwidth}", self.kernel),
            format!("  estimator  {}, {} pairs", self.estimator, self.pairs),
            format!(
                "  data       {} rows, {} variables, {} environments",
                self.rows, self.variables, self.environments
            ),
            format!("  device     {}, {}, {:.6} s", self.device, self.precision, self.seconds),
        ];
        lines.extend(settings_sentences(&self.from_model, self.standardized));
        if let Some(r) = &self.repeated {
            lines.push(format!(
                "  repeated   {} times, median {:.6} s, fastest {:.6} s with gradient",
                r.repeat, r.median_seconds, r.min_seconds
            ));
        }
        if !self.stages.is_empty() {
            lines.push("  stage                 dispatches  time [ms]   GFLOP/s".into());
            lines.extend(self.stages.iter().map(|stage| {
                let (milliseconds, rate) =
                    (stage.seconds * 1e3, stage.flops / stage.seconds.max(1e-12) * 1e-9);
                format!("    {:<20}{:>10}{milliseconds:>11.3}{rate:>10.1}", stage.stage, stage.dispatches)
            }));
        }
        if let Some(path) = grad {
            lines.push(format!("  gradient   written to {}", path.display()));
        }
        lines.join("\n")
    }
}
