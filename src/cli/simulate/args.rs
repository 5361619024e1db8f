//! The options of `skds simulate`, and the settings that they stand for.

use crate::Result;
use crate::simulate::{GraphKind, NoiseKind, Range, SergioSettings, Settings, Simulation, System};
use std::path::PathBuf;

/// Simulate a system, with interventions to learn from and others to predict
///
/// The command writes four files to a folder. train.npz has an observational environment and interventions on one variable
/// each. test.npz has interventions on other variables. truth.npz has the graph, the parameters and the interventions.
/// manifest.json has all settings. Everything is standardised by the observational environment. The default settings are
/// those of the paper.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  # A linear diffusion of 20 variables on a random graph with cycles
  skds simulate sde -o systems/sde-er-0

  # Structural equations on a scale-free graph without cycles, with another seed
  skds simulate scm -o systems/scm-sf-3 --graph sf --acyclic --seed 3

  # Gene expression, with interventions that knock genes down
  skds simulate sergio -o systems/genes --knockdown

  # The same files again
  skds simulate --manifest systems/genes/manifest.json -o again")]
pub(in crate::cli) struct Args {
    /// The system: sde (linear diffusion), scm (linear structural equations) or sergio (gene expression)
    #[arg(required_unless_present = "manifest", conflicts_with = "manifest")]
    system: Option<System>,
    /// Write the files to this folder
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Take all settings from the manifest of another simulation
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Seed of all random choices [default: 0]
    #[arg(long, conflicts_with = "manifest")]
    seed: Option<u64>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    sizes: SizeArgs,
    #[command(flatten)]
    graph: GraphArgs,
    #[command(flatten)]
    linear: LinearArgs,
    #[command(flatten)]
    sergio: SergioArgs,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Size")]
struct SizeArgs {
    /// Number of variables [default: 20]
    #[arg(long, value_name = "D", conflicts_with = "manifest")]
    dim: Option<usize>,
    /// Rows per environment [default: 1000]
    #[arg(long, value_name = "N", conflicts_with = "manifest")]
    rows: Option<usize>,
    /// Training environments in addition to the observational one [default: 10]
    #[arg(long, value_name = "E", conflicts_with = "manifest")]
    train_envs: Option<usize>,
    /// Test environments [default: 10]
    #[arg(long, value_name = "E", conflicts_with = "manifest")]
    test_envs: Option<usize>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Graph")]
struct GraphArgs {
    /// The random graph: er (Erdős–Rényi), sf (scale free) or sbm (stochastic block model) [default: er]
    #[arg(long, conflicts_with = "manifest")]
    graph: Option<GraphKind>,
    /// Draw a graph without cycles; sergio always does
    #[arg(long, conflicts_with = "manifest")]
    acyclic: bool,
    /// Expected edges per variable [default: 3]
    #[arg(long, value_name = "K", conflicts_with = "manifest")]
    edges: Option<usize>,
    /// Number of blocks (sbm) [default: 5]
    #[arg(long, value_name = "B", conflicts_with = "manifest")]
    blocks: Option<usize>,
    /// Probability of an edge between blocks, relative to one within a block (sbm) [default: 0.1]
    #[arg(long, value_name = "SHARE", conflicts_with = "manifest")]
    between: Option<f64>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Linear systems (sde and scm)")]
struct LinearArgs {
    /// Absolute values of the weights; signs are random [default: 1..3]
    #[arg(long, value_name = "LOW..HIGH", conflicts_with = "manifest")]
    weights: Option<Range>,
    /// Distance below 0 of the largest real part of the eigenvalues of the weights [default: 0.5]
    #[arg(long, conflicts_with = "manifest")]
    margin: Option<f64>,
    /// Biases [default: -3..3]
    #[arg(long, value_name = "LOW..HIGH", allow_hyphen_values = true, conflicts_with = "manifest")]
    biases: Option<Range>,
    /// Logarithms of the noises (sde), or, as published, the noises themselves (scm) [default: -1..1]
    #[arg(long, value_name = "LOW..HIGH", allow_hyphen_values = true, conflicts_with = "manifest")]
    log_scales: Option<Range>,
    /// Absolute values of the interventions; signs are random [default: 5..15]
    #[arg(long, value_name = "LOW..HIGH", conflicts_with = "manifest")]
    shifts: Option<Range>,
    /// How to sample an sde: exact (from the stationary law) or euler (the paper's simulation) [default: exact]
    #[arg(long, conflicts_with = "manifest")]
    simulate: Option<Simulation>,
    /// Time step of euler [default: 0.01]
    #[arg(long, value_name = "DT", conflicts_with = "manifest")]
    euler_dt: Option<f64>,
    /// Samples that euler discards at the beginning [default: 100]
    #[arg(long, value_name = "N", conflicts_with = "manifest")]
    euler_burn_in: Option<usize>,
    /// Steps of euler from one sample to the next [default: 500]
    #[arg(long, value_name = "STEPS", conflicts_with = "manifest")]
    euler_thin: Option<usize>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Gene expression (sergio)")]
struct SergioArgs {
    /// Number of cell types [default: 10]
    #[arg(long, value_name = "C", conflicts_with = "manifest")]
    cell_types: Option<usize>,
    /// Decay rate of expression [default: 0.5]
    #[arg(long, conflicts_with = "manifest")]
    decay: Option<f64>,
    /// Noise amplitude [default: 0.5]
    #[arg(long, conflicts_with = "manifest")]
    noise: Option<f64>,
    /// The noise: dpd (independent for production and decay), sp (of production) or spd (one for both) [default: dpd]
    #[arg(long, conflicts_with = "manifest")]
    noise_kind: Option<NoiseKind>,
    /// Hill coefficient [default: 2]
    #[arg(long, conflicts_with = "manifest")]
    hill: Option<f64>,
    /// Absolute values of the interaction strengths; signs are random [default: 1..5]
    #[arg(long, value_name = "LOW..HIGH", conflicts_with = "manifest")]
    strengths: Option<Range>,
    /// Production rates of genes without regulators [default: 1..4]
    #[arg(long, value_name = "LOW..HIGH", conflicts_with = "manifest")]
    basal: Option<Range>,
    /// Time step [default: 0.003]
    #[arg(long, conflicts_with = "manifest")]
    dt: Option<f64>,
    /// Steps in steady state per cell of a type, from which the time of the cell is drawn [default: 100]
    #[arg(long, value_name = "STEPS", conflicts_with = "manifest")]
    steps_per_cell: Option<usize>,
    /// Multiply the responses of a gene to its regulators instead of adding them
    #[arg(long, conflicts_with = "manifest")]
    cooperative: bool,
    /// Let interventions divide production instead of multiplying it
    #[arg(long, conflicts_with = "manifest")]
    knockdown: bool,
    /// Factors of the interventions [default: 2..10]
    #[arg(long, value_name = "LOW..HIGH", conflicts_with = "manifest")]
    factors: Option<Range>,
}

impl Args {
    /// The manifest's settings, or the defaults with what options give.
    pub(super) fn settings(&self) -> Result<Settings> {
        if let Some(path) = &self.manifest {
            return Settings::of_manifest(path);
        }
        let mut settings = Settings::default();
        macro_rules! take {
            ($into:expr, $from:expr, $($field:ident),+) => {
                $(if let Some(value) = $from.$field {
                    $into.$field = value;
                })+
            };
        }
        take!(settings, self, system, seed);
        take!(settings, self.sizes, dim, rows, train_envs, test_envs);
        take!(settings, self.graph, graph, edges, blocks, between);
        take!(settings, self.linear, weights, margin, biases, log_scales, shifts);
        take!(settings, self.linear, simulate, euler_dt, euler_burn_in, euler_thin);
        settings.acyclic = self.graph.acyclic;
        let sergio: &mut SergioSettings = &mut settings.sergio;
        take!(sergio, self.sergio, cell_types, decay, noise, noise_kind, hill, strengths, basal);
        take!(sergio, self.sergio, dt, steps_per_cell, factors);
        (sergio.cooperative, sergio.knockdown) = (self.sergio.cooperative, self.sergio.knockdown);
        Ok(settings)
    }
}
