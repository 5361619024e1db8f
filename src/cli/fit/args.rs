//! The options of `skds fit`, and the settings that they stand for.

use crate::Result;
use crate::cli::data::CellArgs;
use crate::cli::device::DeviceArgs;
use crate::data::cells::GeneChoice;
use crate::fit::{
    EnvironmentsPerStep, EstimatorChoice, KernelChoice, ModelKind, PenaltyChoice, RivalKind, Settings,
    SolverChoice, TargetChoice,
};
use crate::kernel::Bandwidth;
use crate::model::basis::FeatureChoice;
use crate::model::{Activation, IngoingScale, LawKind};
use crate::objective::Objective;
use std::path::{Path, PathBuf};

/// Learn a model from samples: which variable drives which, and what interventions do
///
/// Without settings, skds fit compares several linear models: KDS by moments, SKDS, structural equations, and no effect at
/// all, each over a path of penalties. It leaves out one intervention after the other and predicts it from the rest. The
/// model that predicts best is kept. If several predict about equally well, the result is their weighted average. The
/// report names what was chosen, how the others scored, and the error to expect for a new intervention, next to the error
/// of predicting no effect. MODEL.tuning.csv and MODEL.tuning.svg hold all scores.
///
/// To narrow the comparison, set --objective, --kernel or --law. To fit one model without comparing, set --lambda,
/// --penalty or --bandwidth.
///
/// Neural models are trained with Adam on batches, and so are other models if you set an option of Adam. A neural model
/// first chooses its loss, bandwidth and penalty in the same way, by trainings that leave interventions out; --lambda,
/// --penalty or --bandwidth skip that. Training writes MODEL.log.jsonl (the loss over the steps), MODEL.loss.svg (its plot)
/// and, while it runs, MODEL.choice.json and MODEL.checkpoint.safetensors. If you press Ctrl-C, these remain, and --resume
/// continues from them.
///
/// Every fit first centres each variable and scales it to standard deviation 1 in the first environment, so units do not
/// matter and --bandwidth is in standard deviations. The model and everything computed from it are in the units of the
/// data.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  # Compare linear models and keep what predicts best
  skds fit train.npz -o model.safetensors

  # Read a table, and the targets of each environment from a second one
  skds fit cells.csv --targets targets.csv -o model.safetensors

  # Single cells, as anndata writes them: controls, perturbations of genes, and combinations
  skds fit screen.h5ad --perturbation obs:perturbation --control NT -o model.safetensors

  # Use what you know: harvest cannot affect rain
  printf 'source,target,kind\\nharvest,rain,forbidden\\n' > edges.csv
  skds fit fields.csv --edges edges.csv -o model.safetensors

  # KDS by moments at one penalty, with confidence intervals for every effect
  skds fit train.npz -o model.safetensors --objective kds --lambda 0.1 --bootstrap 200

  # The exact minimum of the paper's loss for given settings
  skds fit train.npz -o model.safetensors --bandwidth 3 --penalty ingoing --lambda 0.1

  # Structural equations: each row has its own, constant noise
  skds fit train.npz -o model.safetensors --law structural

  # Another method: greedy interventional equivalence search
  skds fit train.npz -o model.safetensors --method gies

  # The paper's settings for linear systems
  skds fit train.npz -o model.safetensors --solver adam --bandwidth 7 --lambda 0.1

  # A neural drift whose settings are chosen, and one with settings from a file
  skds fit train.npz -o model.safetensors --model mlp
  skds fit train.npz -o model.safetensors --model mlp --config fit.toml

  # A cubic drift, and the effects in it
  skds fit wells.csv -o model.safetensors --model basis --features polynomial:3
  skds graph model.safetensors

  # Continue an interrupted fit
  skds fit train.npz -o model.safetensors --resume")]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    pub(super) data: DataArgs,
    #[command(flatten)]
    pub(super) cells: FitCellArgs,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    rival: RivalArgs,
    #[command(flatten)]
    loss: LossArgs,
    #[command(flatten)]
    pub(super) choice: ChoiceArgs,
    #[command(flatten)]
    pub(super) adam: AdamArgs,
    #[command(flatten)]
    pub(super) device: DeviceArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Data")]
pub(super) struct DataArgs {
    /// The samples: an .npz file with x [N,d], env [N], targets [E,d] and optionally names [d], a .csv file with a header, or cells in an .h5ad
    /// file
    #[arg(value_name = "DATA", help_heading = "Arguments")]
    pub path: PathBuf,
    /// The intervention targets: a .csv file with one row per environment, or 'unknown'
    ///
    /// Data in .csv format needs this file; .npz files may hold targets themselves. With 'unknown', every environment but
    /// the first may intervene on any variable.
    #[arg(long, value_name = "FILE|unknown")]
    pub targets: Option<PathBuf>,
    /// What you know about effects: a .csv file with the columns source, target, kind and optionally weight
    ///
    /// The kind 'forbidden' fixes an effect at 0. The kind 'required' frees it from the penalty. If any effect is a
    /// 'candidate', all effects that the file does not list are forbidden. The weight multiplies the penalty of a
    /// candidate.
    #[arg(long, value_name = "FILE")]
    pub edges: Option<PathBuf>,
    /// Fit to the numbers as they are, without centring and scaling them first
    #[arg(long)]
    no_standardize: bool,
    /// The default, for scripts that say it
    #[arg(long, hide = true, conflicts_with = "no_standardize")]
    standardize: bool,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Cells in .h5ad files")]
pub(super) struct FitCellArgs {
    #[command(flatten)]
    pub own: CellArgs,
    /// The genes that become variables: targets, hvg:K, all or file:PATH, joined by + [default: targets+hvg:50]
    ///
    /// 'targets' are the genes that perturbations act on, 'hvg:K' the K most variable genes beside genes of similar mean.
    /// A file has one gene per line.
    #[arg(long, value_name = "SETS")]
    pub genes: Option<GeneChoice>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Model")]
struct ModelArgs {
    /// The drift: linear, mlp (a neural network per variable) or basis (a combination of given functions) [default: linear]
    #[arg(long)]
    model: Option<ModelKind>,
    /// The noise of a linear model: diffusion or structural [default: chosen]
    ///
    /// In a diffusion, the noise fluctuates over time. In structural equations with feedback, each row has its own,
    /// constant noise.
    #[arg(long)]
    law: Option<LawKind>,
    /// The functions in the drift of a basis model: polynomial:K, rbf:K or a file [default: polynomial:2]
    ///
    /// polynomial:K has all products of variables up to degree K. rbf:K has every variable and K Gaussian bumps along each.
    /// A file has one expression per line, such as x1*x2 or tanh({gene a}).
    #[arg(long, value_name = "F")]
    features: Option<FeatureChoice>,
    /// The functions in the squared noise of a basis model, such as '1 + self^2' or '1, self^2' [default: 1]
    ///
    /// Expressions are separated by commas and combined with positive coefficients; 'self' is the variable whose noise it is.
    #[arg(long, value_name = "G")]
    diffusion: Option<String>,
    /// Hidden units per variable of an mlp [default: 8]
    #[arg(long, value_name = "H")]
    hidden: Option<usize>,
    /// Nonlinearity of an mlp: sigmoid, tanh or relu [default: sigmoid]
    #[arg(long)]
    activation: Option<Activation>,
    /// Let interventions change the noise of their targets too
    #[arg(long)]
    learn_scale: bool,
    /// Keep an unstable model as it is
    ///
    /// By default, the effects between variables of an unstable linear model are multiplied by the largest factor that makes
    /// it stable, and the report says how much this raises the loss. An mlp whose stationary law is much wider than the data
    /// is trained on with a larger penalty.
    #[arg(long)]
    no_stabilize: bool,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Other methods")]
struct RivalArgs {
    /// Learn structural equations by another method instead: llc, gies, igsp, dcdi or nodags
    ///
    /// The model can be sampled, evaluated and drawn like any other. --lambda is the weight of the method's penalty (llc, gies,
    /// dcdi, nodags); dcdi also has --hidden, --steps, --batch and --learning-rate, and nodags --batch and --learning-rate.
    /// Defaults are those published for linear diffusions.
    #[arg(long, value_name = "NAME")]
    method: Option<RivalKind>,
    /// Level of the tests of igsp [default: 0.003]
    #[arg(long, allow_hyphen_values = true)]
    alpha: Option<f64>,
    /// Hidden layers of the networks of dcdi and nodags [default: 1]
    #[arg(long)]
    layers: Option<usize>,
    /// Passes over the data of nodags [default: 100]
    #[arg(long)]
    epochs: Option<usize>,
    /// Power iterations per step by which nodags finds spectral norms [default: 10]
    #[arg(long, value_name = "N")]
    power_iterations: Option<usize>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Loss")]
struct LossArgs {
    /// The loss: skds or kds [default: chosen, or skds if you set a bandwidth or a penalty]
    #[arg(long)]
    objective: Option<Objective>,
    /// The kernel: rbf, tilted-rbf, imq-plus or quadratic [default: quadratic for kds of a linear model, else tilted-rbf]
    ///
    /// With the quadratic kernel, kds depends on means and covariances only ('KDS by moments').
    #[arg(long)]
    kernel: Option<KernelChoice>,
    /// Bandwidth of the kernel in standard deviations: a number above 0, or auto [default: chosen, or auto]
    ///
    /// 'auto' is the median distance between samples.
    #[arg(long, value_name = "H", allow_hyphen_values = true)]
    bandwidth: Option<Bandwidth>,
    /// The pairs of rows: linear (neighbouring rows of a batch), u (all different rows) or v (all) [default: v, or linear with Adam]
    #[arg(long)]
    estimator: Option<EstimatorChoice>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Penalty and choice")]
pub(super) struct ChoiceArgs {
    /// How to minimise the loss: exact, adam or auto [default: auto]
    ///
    /// 'exact' finds the convex minimum for linear models, and for skds of basis models. 'adam' takes steps on batches. 'auto'
    /// is exact where that is possible, unless you set an option of Adam.
    #[arg(long)]
    solver: Option<SolverChoice>,
    /// Group lasso on effects: ingoing, outgoing, both or none [default: chosen, or both]
    ///
    /// For KDS by moments and structural equations, the default is ingoing.
    #[arg(long)]
    penalty: Option<PenaltyChoice>,
    /// Weight of the penalty [default: chosen, or 0.1; for an mlp 0.03 with kds and 0.01 with skds]
    #[arg(long, allow_hyphen_values = true)]
    lambda: Option<f64>,
    /// Choose the settings that predict left-out interventions best (exact solver, or an mlp)
    ///
    /// This is the default unless you set --bandwidth, --penalty or --lambda.
    #[arg(long)]
    tune: bool,
    /// Add confidence intervals for every effect, from fits to N resamples of the rows (exact solver)
    ///
    /// 200 is a good number. 'skds graph' shows the intervals.
    #[arg(long, value_name = "N")]
    pub bootstrap: Option<usize>,
    /// Read settings from a TOML file; options on the command line override it
    ///
    /// The names are those of the options here, with _ in place of -.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Seed of all random choices [default: 0]
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Adam")]
pub(super) struct AdamArgs {
    /// Number of steps [default: 20000]
    #[arg(long)]
    steps: Option<u32>,
    /// Rows per environment in a batch [default: 512]
    #[arg(long)]
    batch: Option<usize>,
    /// Environments in a batch: a number or 'all' [default: 1]
    #[arg(long, value_name = "K")]
    envs_per_step: Option<EnvironmentsPerStep>,
    /// Step size [default: 0.001]
    #[arg(long, allow_hyphen_values = true)]
    learning_rate: Option<f64>,
    /// How the penalty of single effects adds up over the variables: mean or sum [default: mean, or sum for an mlp]
    ///
    /// The defaults are those published with SKDS. The authors of KDS took the sum for linear models too.
    #[arg(long, value_name = "mean|sum")]
    ingoing: Option<IngoingScale>,
    /// Continue from the checkpoint next to the model
    #[arg(long)]
    pub resume: bool,
    /// Start over and replace the checkpoint next to the model
    #[arg(long, conflicts_with = "resume")]
    pub restart: bool,
    /// Steps between checkpoints
    #[arg(long, value_name = "STEPS", default_value_t = 2000)]
    pub checkpoint_every: u32,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// The model file to write
    #[arg(short = 'o', long = "output", value_name = "MODEL.safetensors")]
    pub file: PathBuf,
    /// Print JSON lines: progress while the fit runs, and the report at the end
    #[arg(long)]
    pub json: bool,
}

impl Args {
    /// What the file gives, and over it what options give.
    pub(super) fn settings(&self) -> Result<Settings> {
        let file = match &self.choice.config {
            Some(path) => Settings::read(path)?,
            None => Settings::default(),
        };
        let Args { data, rival, model, loss, choice, adam, .. } = self;
        let unknown = data.targets.as_deref() == Some(Path::new(TargetChoice::Unknown.name()));
        let given = Settings {
            method: rival.method,
            alpha: rival.alpha,
            layers: rival.layers,
            epochs: rival.epochs,
            power_iterations: rival.power_iterations,
            solver: choice.solver,
            tune: choice.tune.then_some(true),
            model: model.model,
            hidden: model.hidden,
            activation: model.activation,
            features: model.features.clone(),
            diffusion: model.diffusion.clone(),
            law: model.law,
            objective: loss.objective,
            kernel: loss.kernel,
            bandwidth: loss.bandwidth,
            estimator: loss.estimator,
            penalty: choice.penalty,
            lambda: choice.lambda,
            ingoing: adam.ingoing,
            steps: adam.steps,
            batch: adam.batch,
            envs_per_step: adam.envs_per_step,
            learning_rate: adam.learning_rate,
            learn_scale: model.learn_scale.then_some(true),
            standardize: match (data.standardize, data.no_standardize) {
                (true, _) => Some(true),
                (_, true) => Some(false),
                _ => None,
            },
            targets: unknown.then_some(TargetChoice::Unknown),
            stabilize: model.no_stabilize.then_some(false),
            seed: choice.seed,
        };
        let mut settings = file.overlaid(given);
        // Only training can be continued; starting over is for every solver.
        if adam.resume && settings.solver.is_none() {
            settings.solver = Some(SolverChoice::Adam);
        }
        Ok(settings)
    }
}
