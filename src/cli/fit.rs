//! `skds fit`: from data to a model file.

#[cfg(feature = "serve")]
pub(super) mod remote;

use super::device::DeviceArgs;
use super::{print_json, print_report, progress};
use crate::data::Dataset;
use crate::engine::{Device, State};
use crate::fit::{
    AdamRecipe, Checkpoint, EnvironmentsPerStep, EstimatorChoice, KernelChoice, Knowledge, ModelKind,
    PenaltyChoice, PreparedFit, Record, Settings, SolverChoice, Stability, Support, TargetChoice,
    TrainingObserver, TrainingSchedule, check_resamples,
};
use crate::kernel::Bandwidth;
use crate::model::basis::FeatureChoice;
use crate::model::{Activation, LawKind};
use crate::objective::Objective;
use crate::stderr::say;
use crate::{Error, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// Learn from samples which variable drives which, and what interventions do: by exact minima where there are any, otherwise by steps
/// of Adam.
#[derive(clap::Args)]
#[command(
    after_help = "Without settings, several linear models are considered: KDS by moments, SKDS, structural equations, and no effect
at all, each over a path of penalties. Interventions are left out in turn and predicted by what was learned without
them. The model is what predicts best, or the average of those that predict about as well; the answer says what was chosen,
what the others scored, and what error to expect of an intervention that nobody made, beside that of predicting no effect.
All scores are in MODEL.tuning.csv and MODEL.tuning.svg. --objective, --kernel and --law fix what is considered;
--lambda, --penalty or --bandwidth a single fit.

Neural drifts, and fits with an option of Adam, take steps on batches: beside MODEL.safetensors appear MODEL.log.jsonl (the
loss as it went), MODEL.loss.svg (its picture) and, while the fit runs, MODEL.checkpoint.safetensors. Ctrl-C keeps a
checkpoint; --resume goes on from it.

Every fit first centres and scales all variables by their mean and standard deviation in the first
environment, so units do not matter: --bandwidth is in standard deviations. The model and everything
that is computed from it are in the data's units.

Examples:
  # The defaults: linear models, chosen by what they predict
  skds fit train.npz -o model.safetensors

  # Measurements from a table, with the targets of each environment in a second one
  skds fit cells.csv --targets targets.csv -o model.safetensors

  # With what is known: echo 'source,target,kind
  # harvest,rain,forbidden' > edges.csv
  skds fit fields.csv --edges edges.csv -o model.safetensors

  # KDS by moments at one penalty, with intervals for every effect
  skds fit train.npz -o model.safetensors --objective kds --lambda 0.1 --bootstrap 200

  # The exact minimum of the paper's loss for given settings
  skds fit train.npz -o model.safetensors --bandwidth 3 --penalty ingoing --lambda 0.1

  # Noise that stays with each row instead of fluctuating
  skds fit train.npz -o model.safetensors --law structural

  # The paper's settings for its linear systems
  skds fit train.npz -o model.safetensors --solver adam --bandwidth 7 --lambda 0.1

  # A neural drift; settings from a file, one of them changed
  skds fit train.npz -o model.safetensors --config fit.toml --model mlp

  # Two wells: a cubic drift, and how its parts act
  skds fit wells.csv -o model.safetensors --model basis --features polynomial:3
  skds graph model.safetensors

  # Go on after an interruption
  skds fit train.npz -o model.safetensors --resume"
)]
pub(super) struct Args {
    /// Samples: .npz with x [N,d], env [N], targets [E,d] and optionally names [d]; or .csv with a header
    data: PathBuf,
    /// The model file to write
    #[arg(short, long, value_name = "MODEL.safetensors")]
    output: PathBuf,
    /// Settings from a TOML file, by the names of these flags with _ for -; flags win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How to minimise the loss: exact (the convex minimum of a linear drift, or of skds with a basis), adam (steps on
    /// batches), or auto (exact where it applies, unless you set an option of adam) [default: auto]
    #[arg(long)]
    solver: Option<SolverChoice>,
    /// Choose by what is predicted (exact solver). The default if neither --bandwidth nor --penalty nor --lambda is
    /// given
    #[arg(long)]
    tune: bool,
    /// Intervals for every effect from fits to N resamples of the rows, for example 200 (exact solver); 'skds graph' shows
    /// them
    #[arg(long, value_name = "N")]
    bootstrap: Option<usize>,
    /// Drift: linear, mlp, or basis (made of given functions) [default: linear]
    #[arg(long)]
    model: Option<ModelKind>,
    /// Functions that the drift of a basis model is made of: polynomial:K (products of variables up to degree K), rbf:K (every
    /// variable and K Gaussian bumps along each), or a file with one expression per line, like x1*x2 or tanh({gene a})
    /// [default: polynomial:2]
    #[arg(long, value_name = "F")]
    features: Option<FeatureChoice>,
    /// Functions that the squared noise of each variable of a basis model is made of, with amounts above 0: expressions
    /// between commas, self being the variable, like '1 + self^2' or '1, self^2' [default: 1]
    #[arg(long, value_name = "G")]
    diffusion: Option<String>,
    /// Hidden units per variable of the mlp [default: 8]
    #[arg(long, value_name = "H")]
    hidden: Option<usize>,
    /// Nonlinearity of the mlp: sigmoid, tanh or relu [default: sigmoid]
    #[arg(long)]
    activation: Option<Activation>,
    /// What the noise of a linear drift does: diffusion (it fluctuates) or structural (it stays, another for every row:
    /// structural equations with feedback) [default: chosen]
    #[arg(long)]
    law: Option<LawKind>,
    /// Which loss: skds or kds [default: chosen; skds if a bandwidth or a penalty is given]
    #[arg(long)]
    objective: Option<Objective>,
    /// Which kernel: rbf, tilted-rbf, imq-plus, or quadratic (means and covariances alone, for kds)
    /// [default: quadratic for kds of a linear drift, otherwise tilted-rbf]
    #[arg(long)]
    kernel: Option<KernelChoice>,
    /// Bandwidth of the kernel, in standard deviations: a number above 0, or 'auto' for the median distance between
    /// samples [default: chosen, or auto]
    #[arg(long, value_name = "H", allow_hyphen_values = true)]
    bandwidth: Option<Bandwidth>,
    /// Which pairs: linear (neighbouring rows of a batch), u or v (all pairs) [default: v, or linear for adam]
    #[arg(long)]
    estimator: Option<EstimatorChoice>,
    /// Group lasso on effects: ingoing, outgoing, both or none [default: chosen, or both; ingoing for kds by moments and structural equations]
    #[arg(long)]
    penalty: Option<PenaltyChoice>,
    /// Weight of the penalty [default: chosen, or 0.1]
    #[arg(long, allow_hyphen_values = true)]
    lambda: Option<f64>,
    /// Steps of Adam [default: 20000]
    #[arg(long)]
    steps: Option<u32>,
    /// Rows per environment and step [default: 512]
    #[arg(long)]
    batch: Option<usize>,
    /// Environments per step: a number or 'all' [default: 1]
    #[arg(long, value_name = "K")]
    envs_per_step: Option<EnvironmentsPerStep>,
    /// Step size of Adam [default: 0.001]
    #[arg(long, allow_hyphen_values = true)]
    learning_rate: Option<f64>,
    /// Let interventions change the noise of their targets too
    #[arg(long)]
    learn_scale: bool,
    /// Fit to the numbers as they are, without centring and scaling them first
    #[arg(long)]
    no_standardize: bool,
    /// The default, for scripts that say it
    #[arg(long, hide = true, conflicts_with = "no_standardize")]
    standardize: bool,
    /// Intervention targets: 'unknown' (any variable, in every environment but the first), or for csv data the file
    /// with one row per environment
    #[arg(long, value_name = "FILE|unknown")]
    targets: Option<PathBuf>,
    /// What you know of effects: .csv with the columns source, target, kind and optionally weight. The kind 'forbidden' holds
    /// an effect at 0, 'required' does not penalise it, and if there is any 'candidate', all effects that are not listed are
    /// forbidden; weight multiplies a candidate's penalty
    #[arg(long, value_name = "FILE")]
    edges: Option<PathBuf>,
    /// Hand over an unstable model as it is. By default its effects between variables are multiplied by the largest
    /// factor that makes it stable, and what that costs in loss is reported
    #[arg(long)]
    no_stabilize: bool,
    /// Seed of every random choice [default: 0]
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    pub(super) device: DeviceArgs,
    /// Go on from the checkpoint beside the model
    #[arg(long)]
    resume: bool,
    /// Begin anew although there is a checkpoint beside the model, which is then replaced
    #[arg(long, conflicts_with = "resume")]
    restart: bool,
    /// Steps between checkpoints
    #[arg(long, value_name = "STEPS", default_value_t = 2000)]
    checkpoint_every: u32,
    /// Print JSON lines: some while the fit runs, and one at the end
    #[arg(long)]
    json: bool,
}

/// What is printed at the end.
#[derive(Serialize)]
struct Report<'a> {
    model: &'a Path,
    steps: u32,
    complete: bool,
    loss: f64,
    penalty: f64,
    bandwidth: Option<f64>,
    device: String,
    seconds: f64,
    steps_per_second: f64,
    #[serde(flatten)]
    stability: Option<Stability>,
    #[serde(skip_serializing_if = "Option::is_none")]
    support: Option<Support>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    constant: &'a [String],
}

pub(super) fn run(args: &Args) -> Result<()> {
    let settings = args.settings()?;
    let recipe = settings.settle()?;
    let unknown = recipe.targets == TargetChoice::Unknown;
    if args.checkpoint_every == 0 {
        return Err(Error::invalid("--checkpoint-every is 0, expected at least 1"));
    }
    check_output(&args.output)?;
    match (recipe.solver.adam(), args.bootstrap) {
        (Some(_), Some(_)) => {
            return Err(Error::invalid(
                "--bootstrap is given with the solver adam, expected the exact solver",
            ));
        }
        (None, Some(count)) => check_resamples(count, 1.0)?,
        (None, None) if args.resume => {
            return Err(Error::invalid(
                "--resume is given with the exact solver, which keeps no checkpoints",
            ));
        }
        (_, None) => {}
    }
    let reading = progress::Watch::saying(format!("reading {}", args.data.display()));
    let data = Dataset::read_files(&args.data, args.targets.as_deref().filter(|_| !unknown))?;
    let problem = match &args.edges {
        Some(path) => PreparedFit::with_knowledge(&data, &settings, Knowledge::read(path, data.names())?)?,
        None => PreparedFit::new(&data, &settings)?,
    };
    // The problem has its own copy, in the units of the fit.
    drop((data, reading));
    let Some(AdamRecipe { steps, .. }) = problem.recipe.solver.adam().copied() else {
        // In f64 on the CPU unless a GPU is asked for by name: exactness is what this solver is for.
        let gpu = if args.device.device == Device::Auto { None } else { args.device.gpu_or_cpu()? };
        return super::fit_exact::run(&problem, gpu.as_ref(), &args.output, args.bootstrap, args.json);
    };
    let path = Checkpoint::path_for(&args.output);
    let from = match args.resume {
        true => Some(Checkpoint::read_for(&path, &problem)?),
        false if !args.restart => {
            check_no_checkpoint(&path)?;
            None
        }
        false => None,
    };
    let gpu = args.device.gpu_or_cpu()?;
    let schedule = TrainingSchedule { report_every: (steps / 200).max(1), save_every: args.checkpoint_every };
    let mut watch =
        Watch::new(args, &problem, path.clone(), from.as_ref().map_or(0, |from| from.state.steps))?;
    let start = Instant::now();
    let outcome = problem.train(gpu.as_ref(), from.as_ref(), schedule, &mut watch);
    watch.finish();
    let outcome = outcome.map_err(|error| match error {
        Error::NonFinite(problem) => Error::NonFinite(format!(
            "{problem}. Try a smaller --learning-rate or a larger --bandwidth; the last good state is in {}",
            path.display()
        )),
        other => other,
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let taken = outcome.state.steps - from.as_ref().map_or(0, |from| from.state.steps);
    let (mut stability, mut support) = (None, None);
    if outcome.complete {
        let (model, found) = crate::report::write_trained(&problem, &outcome, &args.output)?;
        (stability, support) = (Some(found), Some(problem.support(&model)));
        // The model holds what the checkpoint held; a missing one is no harm.
        let _ = std::fs::remove_file(&path);
    }
    let last = outcome.log.last();
    let report = Report {
        model: &args.output,
        steps: outcome.state.steps,
        complete: outcome.complete,
        loss: last.map_or(f64::NAN, |record| record.loss),
        penalty: last.map_or(f64::NAN, |record| record.penalty),
        bandwidth: problem.spec.loss.kernel.bandwidth(),
        device: gpu.as_ref().map_or_else(|| "cpu".into(), crate::engine::Engine::<f32>::device),
        seconds,
        steps_per_second: f64::from(taken) / seconds.max(1e-9),
        stability,
        support,
        constant: problem.constant_variables(),
    };
    print_report(args.json, &report, || report.to_text(&problem, &path))
}

impl Args {
    /// What the file gives, and over it what flags give.
    fn settings(&self) -> Result<Settings> {
        let file = match &self.config {
            Some(path) => Settings::read(path)?,
            None => Settings::default(),
        };
        let unknown = self.targets.as_deref() == Some(Path::new(TargetChoice::Unknown.name()));
        let flags = Settings {
            solver: self.solver,
            tune: self.tune.then_some(true),
            model: self.model,
            hidden: self.hidden,
            activation: self.activation,
            features: self.features.clone(),
            diffusion: self.diffusion.clone(),
            law: self.law,
            objective: self.objective,
            kernel: self.kernel,
            bandwidth: self.bandwidth,
            estimator: self.estimator,
            penalty: self.penalty,
            lambda: self.lambda,
            steps: self.steps,
            batch: self.batch,
            envs_per_step: self.envs_per_step,
            learning_rate: self.learning_rate,
            learn_scale: self.learn_scale.then_some(true),
            standardize: match (self.standardize, self.no_standardize) {
                (true, _) => Some(true),
                (_, true) => Some(false),
                _ => None,
            },
            targets: unknown.then_some(TargetChoice::Unknown),
            stabilize: self.no_stabilize.then_some(false),
            seed: self.seed,
        };
        let mut settings = file.overlaid(flags);
        // There is nothing else that a fit could go on with; to begin anew is for any solver.
        if self.resume && settings.solver.is_none() {
            settings.solver = Some(SolverChoice::Adam);
        }
        Ok(settings)
    }
}

/// An unfinished fit is not overwritten without a word.
fn check_no_checkpoint(path: &Path) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let found = match Checkpoint::read(path) {
        Ok(checkpoint) => format!("holds a fit that stopped at step {}", checkpoint.state.steps),
        Err(_) => "is there already".into(),
    };
    Err(Error::file(
        path,
        format!("{found}, expected no checkpoint: give --resume to go on from it or --restart to replace it"),
    ))
}

/// A wrong place to write to is better known before the work than after it.
fn check_output(path: &Path) -> Result<()> {
    if path.extension().is_none_or(|extension| extension != "safetensors") {
        return Err(Error::file(path, "has another extension than expected: .safetensors"));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(Error::file(folder, "is a file, expected a folder to write the model to")),
        Err(source) => Err(Error::Io { action: "write", path: path.into(), source }),
    }
}

/// Set by Ctrl-C.
static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Shows how the fit goes, and keeps checkpoints.
struct Watch<'a> {
    args: &'a Args,
    problem: &'a PreparedFit,
    path: PathBuf,
    bar: Option<ProgressBar>,
    start: Instant,
    first: u32,
    line: Instant,
}

fn steps_of(problem: &PreparedFit) -> u32 {
    problem.recipe.solver.adam().map_or(0, |adam| adam.steps)
}

/// Time between plain lines.
const LINE_EVERY: Duration = Duration::from_secs(5);

impl<'a> Watch<'a> {
    fn new(args: &'a Args, problem: &'a PreparedFit, path: PathBuf, first: u32) -> Result<Self> {
        let stop = STOP.clone();
        // A second Ctrl-C ends at once; a handler that is there already serves as well.
        let _ = ctrlc::set_handler(move || {
            if stop.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        });
        let bar = (!args.json && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(u64::from(steps_of(problem))).with_position(u64::from(first));
            let style = "{bar:30} {pos}/{len} steps  {per_sec}  {eta} left  {msg}";
            bar.set_style(ProgressStyle::with_template(style).expect("the template is valid"));
            bar.reset_eta();
            bar
        });
        let now = Instant::now();
        Ok(Watch { args, problem, path, bar, start: now, first, line: now })
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl TrainingObserver for Watch<'_> {
    fn report(&mut self, record: &Record) {
        if self.args.json {
            let _ = print_json(record);
        } else if let Some(bar) = &self.bar {
            bar.set_position(u64::from(record.step));
            bar.set_message(format!("loss {:.3e}", record.loss));
        } else if self.line.elapsed() >= LINE_EVERY {
            self.line = Instant::now();
            let rate = f64::from(record.step - self.first) / self.start.elapsed().as_secs_f64();
            let steps = steps_of(self.problem);
            let left = f64::from(steps - record.step) / rate.max(1e-9);
            say!(
                "{} of {steps} steps, loss {:.4e}, {rate:.0} per second, {left:.0} s left",
                record.step,
                record.loss
            );
        }
    }

    fn save(&mut self, state: &State, log: &[Record]) -> Result<()> {
        Checkpoint::new(self.problem, state, log).write(&self.path)
    }

    fn should_stop(&self) -> bool {
        STOP.load(Ordering::Relaxed)
    }
}

impl Report<'_> {
    fn to_text(&self, problem: &PreparedFit, checkpoint: &Path) -> String {
        let recipe = &problem.recipe;
        let bandwidth = self.bandwidth.map_or(String::new(), |h| format!(", bandwidth {h:.4}"));
        let mut lines = vec![format!(
            "{} {} model, {} kernel{bandwidth}",
            recipe.objective.name().to_uppercase(),
            recipe.form.kind(),
            recipe.kernel
        )];
        if let Some((stability, support)) = self.stability.as_ref().zip(self.support.as_ref()) {
            let findings = problem.findings(stability, support);
            lines.extend(findings.into_iter().map(|finding| format!("  {finding}")));
        }
        lines.push(format!(
            "  Took {} steps on {} in {:.1} s ({:.0} per second).",
            self.steps, self.device, self.seconds, self.steps_per_second
        ));
        lines.push(format!("  Loss {:.6e} on the last batch, penalty {:.6e}.", self.loss, self.penalty));
        lines.push(match self.complete {
            true => format!("  The model is in {}.", self.model.display()),
            false => format!("  Stopped early. Continue from {} with --resume.", checkpoint.display()),
        });
        lines.join("\n")
    }
}
