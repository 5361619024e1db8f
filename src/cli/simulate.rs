//! `skds simulate`: the paper's synthetic systems as files.

#[cfg(feature = "serve")]
pub(super) mod remote;

use super::print_report;
use super::progress::Watch;
use crate::simulate::{GraphKind, NoiseKind, Range, SergioSettings, Settings, Simulation, System, simulate};
use crate::{Error, Progress, Result};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Simulate a system, experiments to learn from and others to predict.
#[derive(clap::Args)]
#[command(
    after_help = "Writes train.npz (environment 0 is observational, the others intervene on one variable each), test.npz
(interventions on other variables), truth.npz (graph, parameters, interventions) and manifest.json to a
folder. Everything is standardised by the observational environment. Without options, the settings are the
paper's.

Examples:
  # A linear diffusion of 20 variables on a random graph with cycles
  skds simulate sde -o systems/sde-er-0

  # Structural equations on a scale-free graph without cycles, another draw
  skds simulate scm -o systems/scm-sf-3 --graph sf --acyclic --seed 3

  # Gene expression, interventions that knock genes down
  skds simulate sergio -o systems/genes --knockdown

  # The same files again
  skds simulate --manifest systems/genes/manifest.json -o again"
)]
pub(super) struct Args {
    /// What: sde (linear diffusion), scm (linear structural equations) or sergio (gene expression)
    #[arg(required_unless_present = "manifest", conflicts_with = "manifest")]
    system: Option<System>,
    /// The folder to write to
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// All settings from the manifest of another simulation
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Graph: er (Erdős–Rényi), sf (scale free) or sbm (blocks) [default: er]
    #[arg(long, conflicts_with = "manifest")]
    graph: Option<GraphKind>,
    /// A graph without cycles; sergio always has one
    #[arg(long, conflicts_with = "manifest")]
    acyclic: bool,
    /// Variables [default: 20]
    #[arg(long, value_name = "D", conflicts_with = "manifest")]
    dim: Option<usize>,
    /// Rows of each environment [default: 1000]
    #[arg(long, value_name = "N", conflicts_with = "manifest")]
    rows: Option<usize>,
    /// Training environments beside the observational one [default: 10]
    #[arg(long, value_name = "E", conflicts_with = "manifest")]
    train_envs: Option<usize>,
    /// Test environments [default: 10]
    #[arg(long, value_name = "E", conflicts_with = "manifest")]
    test_envs: Option<usize>,
    /// Edges expected per variable [default: 3]
    #[arg(long, value_name = "K", conflicts_with = "manifest")]
    edges: Option<usize>,
    /// sbm: blocks [default: 5]
    #[arg(long, value_name = "B", conflicts_with = "manifest")]
    blocks: Option<usize>,
    /// sbm: the probability of an edge between blocks, over that within one [default: 0.1]
    #[arg(long, value_name = "SHARE", conflicts_with = "manifest")]
    between: Option<f64>,
    /// Seed of every random choice [default: 0]
    #[arg(long, conflicts_with = "manifest")]
    seed: Option<u64>,
    /// sde, scm: sizes of the weights, whose signs are random [default: 1..3]
    #[arg(long, value_name = "LOW..HIGH", conflicts_with = "manifest")]
    weights: Option<Range>,
    /// sde, scm: how far below 0 the largest real part of the weights' eigenvalues is put [default: 0.5]
    #[arg(long, conflicts_with = "manifest")]
    margin: Option<f64>,
    /// sde, scm: biases [default: -3..3]
    #[arg(long, value_name = "LOW..HIGH", allow_hyphen_values = true, conflicts_with = "manifest")]
    biases: Option<Range>,
    /// sde: logarithms of noises; scm: the noises themselves, as published [default: -1..1]
    #[arg(long, value_name = "LOW..HIGH", allow_hyphen_values = true, conflicts_with = "manifest")]
    log_scales: Option<Range>,
    /// sde, scm: sizes of interventions, whose signs are random [default: 5..15]
    #[arg(long, value_name = "LOW..HIGH", conflicts_with = "manifest")]
    shifts: Option<Range>,
    /// sde: exact (draws from the stationary law) or euler (the paper's simulation) [default: exact]
    #[arg(long, conflicts_with = "manifest")]
    simulate: Option<Simulation>,
    /// sde, euler: length of a step [default: 0.01]
    #[arg(long, value_name = "DT", conflicts_with = "manifest")]
    euler_dt: Option<f64>,
    /// sde, euler: samples that are thrown away [default: 100]
    #[arg(long, value_name = "N", conflicts_with = "manifest")]
    euler_burn_in: Option<usize>,
    /// sde, euler: steps from one sample to the next [default: 500]
    #[arg(long, value_name = "STEPS", conflicts_with = "manifest")]
    euler_thin: Option<usize>,
    /// sergio: cell types [default: 10]
    #[arg(long, value_name = "C", conflicts_with = "manifest")]
    cell_types: Option<usize>,
    /// sergio: rate at which expression decays [default: 0.5]
    #[arg(long, conflicts_with = "manifest")]
    decay: Option<f64>,
    /// sergio: size of the noise [default: 0.5]
    #[arg(long, conflicts_with = "manifest")]
    noise: Option<f64>,
    /// sergio: dpd (of production and decay, independent), sp (of production) or spd (one for both) [default: dpd]
    #[arg(long, conflicts_with = "manifest")]
    noise_kind: Option<NoiseKind>,
    /// sergio: Hill coefficient [default: 2]
    #[arg(long, conflicts_with = "manifest")]
    hill: Option<f64>,
    /// sergio: sizes of interactions, whose signs are random [default: 1..5]
    #[arg(long, value_name = "LOW..HIGH", conflicts_with = "manifest")]
    strengths: Option<Range>,
    /// sergio: production of genes without regulators [default: 1..4]
    #[arg(long, value_name = "LOW..HIGH", conflicts_with = "manifest")]
    basal: Option<Range>,
    /// sergio: length of a step [default: 0.003]
    #[arg(long, conflicts_with = "manifest")]
    dt: Option<f64>,
    /// sergio: steps of steady state per cell of a type, from which its time is drawn [default: 100]
    #[arg(long, value_name = "STEPS", conflicts_with = "manifest")]
    steps_per_cell: Option<usize>,
    /// sergio: regulators act together, by the product of their responses instead of the sum
    #[arg(long, conflicts_with = "manifest")]
    cooperative: bool,
    /// sergio: interventions divide production instead of multiplying it
    #[arg(long, conflicts_with = "manifest")]
    knockdown: bool,
    /// sergio: by which factor [default: 2..10]
    #[arg(long, value_name = "LOW..HIGH", conflicts_with = "manifest")]
    factors: Option<Range>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// What is printed.
#[derive(Serialize)]
struct Report {
    folder: PathBuf,
    variables: usize,
    edges: usize,
    train_environments: usize,
    test_environments: usize,
    rows: usize,
    seconds: f64,
    settings: Settings,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let settings = args.settings()?;
    settings.check()?;
    if args.output.exists() && !args.output.is_dir() {
        return Err(Error::file(&args.output, "is a file, expected a folder to write to"));
    }
    let start = Instant::now();
    let progress = Arc::new(Progress::default());
    let count = 1 + settings.train_envs + settings.test_envs;
    let watch = Watch::new("environments", progress.clone(), count as u64);
    let simulated = simulate(&settings, &progress)?;
    drop(watch);
    simulated.write(&args.output, &settings)?;
    let report = Report {
        folder: args.output.clone(),
        variables: settings.dim,
        edges: simulated.truth.graph.as_slice().iter().filter(|edge| **edge).count(),
        train_environments: simulated.train.environments(),
        test_environments: simulated.test.environments(),
        rows: settings.rows,
        seconds: start.elapsed().as_secs_f64(),
        settings,
    };
    print_report(args.json, &report, || {
        let Report {
            folder,
            variables,
            edges,
            train_environments,
            test_environments,
            rows,
            seconds,
            settings,
        } = &report;
        format!(
            "{} on {} graph of {variables} variables and {edges} edges, seed {}\n  {train_environments} training and \
             {test_environments} test environments of {rows} rows in {seconds:.2} s\n  train.npz, test.npz, truth.npz and \
             manifest.json written to {}",
            settings.system,
            match settings.graph {
                GraphKind::Er => "an er",
                GraphKind::Sf => "an sf",
                GraphKind::Sbm => "an sbm",
            },
            settings.seed,
            folder.display()
        )
    })
}

impl Args {
    fn settings(&self) -> Result<Settings> {
        if let Some(path) = &self.manifest {
            return Settings::of_manifest(path);
        }
        let mut settings = Settings::default();
        macro_rules! take {
            ($into:expr, $($field:ident),+) => {
                $(if let Some(value) = self.$field {
                    $into.$field = value;
                })+
            };
        }
        take!(settings, system, graph, dim, rows, train_envs, test_envs, edges, blocks, between, seed);
        take!(settings, weights, margin, biases, log_scales, shifts);
        take!(settings, simulate, euler_dt, euler_burn_in, euler_thin);
        settings.acyclic = self.acyclic;
        let sergio: &mut SergioSettings = &mut settings.sergio;
        take!(
            sergio,
            cell_types,
            decay,
            noise,
            noise_kind,
            hill,
            strengths,
            basal,
            dt,
            steps_per_cell,
            factors
        );
        (sergio.cooperative, sergio.knockdown) = (self.cooperative, self.knockdown);
        Ok(settings)
    }
}
