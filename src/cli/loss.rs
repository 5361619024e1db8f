//! `skds loss`: evaluates a loss, and its gradient, for given parameters.

#[cfg(feature = "serve")]
pub(super) mod remote;

use super::device::DeviceArgs;
use super::{print_report, progress::Watch};
use crate::data::Dataset;
use crate::engine::{self, Engine, Loss, LossSpec, StageTime};
use crate::kernel::{Bandwidth, KernelKind};
use crate::model::{Model, Parameters};
use crate::named::named;
use crate::objective::{Estimator, Objective};
use crate::{Error, Result, Scalar};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

/// Evaluate SKDS or KDS for given data and parameters.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  # SKDS with the defaults: RBF kernel, bandwidth from the data, linear estimator
  skds loss data.npz --params model.safetensors

  # The gradient of every parameter, in double precision, from all pairs
  skds loss data.npz --params model.safetensors --estimator u --precision f64 \\
       --grad gradient.safetensors

  # Data from csv: columns are variables, 'env' is the environment; targets in a second file
  skds loss data.csv --targets targets.csv --params model.safetensors \\
       --kernel tilted-rbf --bandwidth 7

  # How long does one evaluation take?
  skds loss data.npz --params model.safetensors --repeat 100 --json

  # On the GPU, with the time of each stage
  skds loss data.npz --params model.safetensors --device gpu --profile")]
pub(super) struct Args {
    /// Samples: .npz with x [N,d] and optionally env [N], targets [E,d], names [d]; or .csv with a header
    data: PathBuf,
    /// Parameters of the model: a safetensors file, as 'skds fit' writes it or with the tensors alone
    #[arg(long, value_name = "FILE")]
    params: PathBuf,
    /// Intervention targets for csv data: one row per environment, one 0/1 column per variable
    #[arg(long, value_name = "FILE")]
    targets: Option<PathBuf>,
    /// Which loss: skds or kds
    #[arg(long, default_value = "skds")]
    objective: Objective,
    /// Which kernel: rbf, tilted-rbf or imq-plus
    #[arg(long, default_value = "rbf")]
    kernel: KernelKind,
    /// Bandwidth of the kernel: a number above 0, or 'auto' for the median distance between samples.
    /// IMQ+ has none and ignores it
    #[arg(long, default_value = "auto", value_name = "H", allow_hyphen_values = true)]
    bandwidth: Bandwidth,
    /// Which pairs: linear (neighbouring rows), u (all pairs of different rows) or v (all pairs)
    #[arg(long, default_value = "linear")]
    estimator: Estimator,
    /// Arithmetic: f32 or f64
    #[arg(long, default_value = "f32")]
    precision: Precision,
    #[command(flatten)]
    pub(super) device: DeviceArgs,
    /// Write the gradient of every parameter, under the parameter's name, to this safetensors file
    #[arg(long, value_name = "FILE")]
    grad: Option<PathBuf>,
    /// Evaluate value and gradient N more times and report the time of one evaluation
    #[arg(long, value_name = "N")]
    repeat: Option<u32>,
    /// Print the time of each stage of an evaluation with gradient, by the GPU's own clock
    #[arg(long)]
    profile: bool,
    /// Seed of every random choice (the pairs that 'auto' takes its median from)
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
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

pub(super) fn run(args: &Args) -> Result<()> {
    let mut data = Dataset::read_files(&args.data, args.targets.as_deref())?;
    let model = Model::read(&args.params)?;
    model.check_variables(&data, "the data")?;
    model.check_has_loss()?;
    // The parameters of a fit in standard units are about the data in those units.
    if let Some(units) = &model.standardization {
        data = units.apply(&data);
    }
    let parameters = model.parameters;
    parameters.check_fits(data.dim(), data.environments())?;
    let kernel = match args.kernel {
        kind if kind.has_bandwidth() => kind.with_bandwidth(args.bandwidth.resolve(&data, args.seed)?)?,
        // There is nothing to look for in the data.
        kind => kind.with_bandwidth(1.0)?,
    };
    let spec = LossSpec { objective: args.objective, kernel, estimator: args.estimator };
    match args.precision {
        Precision::F32 => evaluate::<f32>(args, args.device.engine()?.as_ref(), &data, &spec, &parameters),
        Precision::F64 => evaluate::<f64>(args, args.device.engine()?.as_ref(), &data, &spec, &parameters),
    }
}

fn evaluate<T: engine::Precision>(
    args: &Args,
    engine: &dyn Engine<T>,
    data: &Dataset,
    spec: &LossSpec,
    parameters: &Parameters<f64>,
) -> Result<()> {
    let parameters: Parameters<T> = parameters.cast();
    let mut gradient = (args.grad.is_some() || args.repeat.is_some()).then(|| parameters.zeros_like());
    let mut loss = engine.load(data, spec)?;
    let watch = Watch::new("pairs", loss.progress(), loss.pairs());
    let start = Instant::now();
    let value = loss.evaluate(&parameters, gradient.as_mut())?;
    let seconds = start.elapsed().as_secs_f64();
    drop(watch);
    if let Some(gradient) = &gradient {
        check_finite(gradient)?;
    }
    let environment_losses = loss.environment_losses().to_vec();
    let repeated = match (args.repeat, &mut gradient) {
        (Some(repeat), Some(gradient)) if repeat > 0 => {
            // On a thread of the pool, as in training: entering it is no part of an evaluation.
            Some(rayon::scope(|_| time_repeats(repeat, loss.as_mut(), &parameters, gradient))?)
        }
        _ => None,
    };
    let stages = match args.profile {
        true => args.device.gpu()?.load_gpu(data, spec)?.profile(&parameters)?,
        false => Vec::new(),
    };
    if let (Some(path), Some(gradient)) = (&args.grad, &gradient) {
        gradient.write(path)?;
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
