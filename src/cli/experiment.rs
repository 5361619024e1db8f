//! `skds experiment`: methods compared on many systems.

use super::command::Command;
use super::progress::ProgressDisplay;
use super::{print, print_report};
use crate::experiment::{
    ExperimentPlan, Figure1, Figure1Numbers, Measure, MethodRun, Observer, Runner, Shard, Summary,
    beside_published_text, box_panels, end_programs, medians_text, published_text, seconds_text,
    significance_text, summaries,
};
use crate::plot::{check_picture_path, write_grid, write_picture};
use crate::stderr::say;
use crate::{Error, Progress, Result};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The exit code of a command that Ctrl-C has ended, as shells have it.
const INTERRUPTED: i32 = 130;

/// Compare methods on many simulated systems
///
/// A plan is a TOML file of systems (settings of 'skds simulate'), seeds and methods (settings of 'skds fit', two floors, or a
/// program of your own). Each cell, one method on one dataset, is kept as a file in DIR/cells. So an interrupted run
/// continues where it was, and shards on several machines can share a folder. When all cells are there, 'run' writes
/// DIR/results.csv (one row per dataset, method and test intervention) and DIR/timings.csv.
///
/// A method of kind 'program' is called as COMMAND… TRAIN.npz TOLD.npz OUT.npz. TOLD.npz has targets and means (environments ×
/// variables) and rows (per environment). The program writes a dataset with that many rows of each environment to OUT.npz.
/// It has an hour per dataset, or the 'seconds' in the plan. Then it is ended together with all processes it started. A
/// program that fails or takes too long is counted, and named in the column 'failed' of results.csv.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  # Ten minutes, then its tables and box plots (results/quick/results.svg and .png)
  skds experiment run experiments/quick.toml -o results/quick
  skds experiment table experiments/quick.toml -o results/quick
  skds experiment plot experiments/quick.toml -o results/quick

  # The paper's Figure 1
  skds experiment figure1 -o figure1.svg

  # The paper's comparison on the first five datasets of each system
  skds experiment run experiments/paper.toml -o results/paper --datasets 5

  # The third of eight parts of the paper's experiment
  skds experiment run experiments/paper.toml -o results/paper --shard 3/8")]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Compute the cells that are missing
    Run(RunArgs),
    /// Print medians with intervals, and which methods are significantly better
    Table(TableArgs),
    /// Plot all distances as box plots, one system after the other
    Plot(PlotArgs),
    /// Plot the paper's Figure 1: SKDS as a function of two parameters
    Figure1(Figure1Args),
}

#[derive(clap::Args)]
struct RunArgs {
    /// The plan, a TOML file
    plan: PathBuf,
    /// The folder with the results
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Compute only the I-th of N parts
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    shard: Shard,
    /// Use only the first N datasets of each system
    #[arg(long, value_name = "N")]
    datasets: Option<u64>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct TableArgs {
    #[command(flatten)]
    results: ResultArgs,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct PlotArgs {
    #[command(flatten)]
    results: ResultArgs,
    /// The plot to write, .svg or .png; can be repeated [default: DIR/results.svg and DIR/results.png]
    #[arg(long, value_name = "FILE")]
    picture: Vec<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct ResultArgs {
    /// The plan, a TOML file
    plan: PathBuf,
    /// The folder with the results
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Use the cells that are there, even if others are missing
    #[arg(long)]
    partial: bool,
    /// Use only the first N datasets of each system
    #[arg(long, value_name = "N")]
    datasets: Option<u64>,
}

#[derive(clap::Args)]
struct Figure1Args {
    /// The plot to write, .svg or .png
    #[arg(short, long, value_name = "FILE", default_value = "figure1.svg")]
    output: PathBuf,
    /// Seed of the samples
    #[arg(long, default_value_t = 6)]
    seed: u64,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Warns on standard error.
struct Warner;

impl Observer for Warner {
    fn damaged(&self, path: &Path, problem: &str) {
        say!("warning: {} is damaged ({problem}) and is computed again", path.display());
    }
}

/// What a run prints.
#[derive(Serialize)]
struct RunReport {
    folder: PathBuf,
    cells: u64,
    complete: bool,
    seconds: f64,
}

/// What a table prints.
#[derive(Serialize)]
struct TableReport {
    mse: Vec<Summary>,
    w2: Vec<Summary>,
    sinkhorn: Vec<Summary>,
}

impl Command for Args {
    fn run(&self) -> Result<()> {
        run(self)
    }
}

fn run(args: &Args) -> Result<()> {
    match &args.action {
        Action::Run(args) => run_plan(args),
        Action::Table(args) => print_table(args),
        Action::Plot(args) => draw_boxes(args),
        Action::Figure1(args) => draw_figure1(args),
    }
}

fn run_plan(args: &RunArgs) -> Result<()> {
    let plan = ExperimentPlan::read(&args.plan)?.with_datasets(args.datasets)?;
    let runner = Runner { plan: &plan, folder: &args.output };
    let start = Instant::now();
    let progress = Arc::new(Progress::default());
    let cells = runner.cells(args.shard);
    let display = ProgressDisplay::new("cells", progress.clone(), cells);
    // Programs are in groups of their own, which Ctrl-C does not reach by itself.
    let _ = ctrlc::set_handler(|| {
        end_programs();
        std::process::exit(INTERRUPTED);
    });
    let outcome = runner.run(args.shard, &Warner, &progress);
    drop(display);
    outcome?;
    // Other shards may still be at work.
    let all = runner.collect();
    if let Ok(all) = &all {
        runner.write_tables(all)?;
    }
    let report = RunReport {
        folder: args.output.clone(),
        cells,
        complete: all.is_ok(),
        seconds: start.elapsed().as_secs_f64(),
    };
    print_report(args.json, &report, || {
        let last = match &all {
            Ok(_) => format!("results.csv and timings.csv written to {}", args.output.display()),
            Err(missing) => format!("no results.csv yet: {missing}"),
        };
        format!("{cells} cells in {:.1} s\n{last}", report.seconds)
    })
}

impl ResultArgs {
    /// The plan, and its cells: all, or with `--partial` those that there are.
    fn read(&self) -> Result<(ExperimentPlan, Vec<MethodRun>)> {
        let plan = ExperimentPlan::read(&self.plan)?.with_datasets(self.datasets)?;
        let runner = Runner { plan: &plan, folder: &self.output };
        if !self.partial {
            let cells = runner.collect()?;
            return Ok((plan, cells));
        }
        let (cells, missing) = runner.finished();
        if cells.is_empty() {
            let found = format!("{} has no finished cell, expected at least one", self.output.display());
            return Err(Error::invalid(found));
        }
        if missing > 0 {
            say!("warning: {missing} of {} cells are missing", missing + cells.len());
        }
        Ok((plan, cells))
    }
}

fn print_table(args: &TableArgs) -> Result<()> {
    let (plan, cells) = args.results.read()?;
    if args.json {
        let of = |measure| summaries(&cells, measure);
        let report =
            TableReport { mse: of(Measure::Mse), w2: of(Measure::W2), sinkhorn: of(Measure::Sinkhorn) };
        return super::print_json(&report);
    }
    for measure in Measure::ALL {
        print(&format!("{}\n", medians_text(&cells, measure)))?;
        let published = published_text(&plan, measure);
        if !published.is_empty() {
            print(&format!("{published}\n"))?;
        }
    }
    if !plan.published.is_empty() {
        print(&format!("{}\n", beside_published_text(&plan, &cells)))?;
    }
    for system in &plan.systems {
        for measure in Measure::ALL {
            print(&format!("{}\n", significance_text(&cells, &system.name, measure)))?;
        }
    }
    print(&seconds_text(&cells))
}

/// What drawing prints.
#[derive(Serialize)]
struct PlotReport {
    pictures: Vec<PathBuf>,
    predictions: usize,
}

fn draw_boxes(args: &PlotArgs) -> Result<()> {
    args.picture.iter().try_for_each(|path| check_picture_path(path).map(|_| ()))?;
    let (plan, cells) = args.results.read()?;
    let pictures = match args.picture.is_empty() {
        true => ["results.svg", "results.png"].map(|name| args.results.output.join(name)).to_vec(),
        false => args.picture.clone(),
    };
    let panels = box_panels(&plan, &cells);
    let title = "Predictions of unseen interventions";
    for path in &pictures {
        write_grid(path, title, Measure::ALL.len(), &panels)?;
    }
    let report = PlotReport { pictures, predictions: cells.iter().map(|cell| cell.rows.len()).sum() };
    print_report(args.json, &report, || {
        let names: Vec<_> = report.pictures.iter().map(|path| path.display().to_string()).collect();
        format!("{} predictions drawn to {}", report.predictions, names.join(" and "))
    })
}

/// What Figure 1 prints.
#[derive(Serialize)]
struct Figure1Report {
    picture: PathBuf,
    #[serde(flatten)]
    numbers: Figure1Numbers,
}

fn draw_figure1(args: &Figure1Args) -> Result<()> {
    check_picture_path(&args.output)?;
    let figure = Figure1::new(args.seed)?;
    let title = "SKDS and its gradient for dX = −4(X − α) dt + σ dB, samples of N(1, ½)";
    write_picture(&args.output, title, &figure.panels())?;
    let report = Figure1Report { picture: args.output.clone(), numbers: figure.numbers() };
    print_report(args.json, &report, || {
        let Figure1Numbers { best, smallest, at_truth, gradient_at_truth: [by_alpha, by_sigma], .. } =
            report.numbers;
        let Figure1Numbers { by_alpha_at_red, by_sigma_at_blue, .. } = report.numbers;
        format!(
            "Example 6: 5000 samples of N(1, 1/2), dX = -4(X - alpha) dt + sigma dB; truth alpha = 1, sigma = 2\n  \
             smallest SKDS on the grid   {smallest:>9.5}  at alpha = {:.3}, sigma = {:.3}\n  \
             SKDS at the truth           {at_truth:>9.5}\n  \
             gradient at the truth       {by_alpha:>9.5}  by alpha, {by_sigma:.5} by sigma\n  \
             derivative by alpha         {by_alpha_at_red:>9.5}  at alpha = 1/4, sigma = 2\n  \
             derivative by sigma         {by_sigma_at_blue:>9.5}  at alpha = 1, sigma = 1\n  \
             drawn to {}",
            best.0,
            best.1,
            report.picture.display()
        )
    })
}
