//! `skds experiment`: methods compared on many systems.

use super::progress::Watch;
use super::{print, print_report};
use crate::Result;
use crate::experiment::{
    Measure, Observer, Plan, Runner, Shard, Summary, medians_text, significance_text, summaries,
};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Compare methods on many simulated systems.
#[derive(clap::Args)]
#[command(
    after_help = "A plan is a TOML file: systems (as 'skds simulate' takes them) × seeds × methods (as 'skds fit' takes
them, two floors, or a program of your own). Every cell, a dataset and a method, is kept as a file in DIR/cells, so an
interrupted run goes on where it was, and shards on many machines can share a folder. When all cells are there, run writes
DIR/results.csv (one row per dataset, method and test intervention) and DIR/timings.csv.

A method of kind 'program' is called as COMMAND… TRAIN.npz TOLD.npz OUT.npz: TOLD has targets and means (environments ×
variables) and rows (environments), OUT is to be a dataset with so many rows of each environment.

Examples:
  # Ten minutes, then its tables
  skds experiment run experiments/quick.toml -o results/quick
  skds experiment table experiments/quick.toml -o results/quick

  # The third of eight parts of the paper's experiment
  skds experiment run experiments/paper.toml -o results/paper --shard 3/8"
)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Compute every cell that is not there yet
    Run(RunArgs),
    /// Print medians with intervals, and who is significantly better
    Table(TableArgs),
}

#[derive(clap::Args)]
struct RunArgs {
    /// The plan: a TOML file
    plan: PathBuf,
    /// The folder of results
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Only the I-th of N parts
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    shard: Shard,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct TableArgs {
    /// The plan: a TOML file
    plan: PathBuf,
    /// The folder of results
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Warns on standard error.
struct Warner;

impl Observer for Warner {
    fn damaged(&self, path: &Path, problem: &str) {
        eprintln!("warning: {} is no finished cell ({problem}) and is computed anew", path.display());
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
}

pub(super) fn run(args: &Args) -> Result<()> {
    match &args.action {
        Action::Run(args) => run_plan(args),
        Action::Table(args) => print_table(args),
    }
}

fn run_plan(args: &RunArgs) -> Result<()> {
    let plan = Plan::read(&args.plan)?;
    let runner = Runner { plan: &plan, folder: &args.output };
    let start = Instant::now();
    let done = Arc::new(AtomicU64::new(0));
    let cells = runner.cells(args.shard);
    let watch = Watch::new("cells", done.clone(), cells);
    let outcome = runner.run(args.shard, &Warner, &done);
    drop(watch);
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

fn print_table(args: &TableArgs) -> Result<()> {
    let plan = Plan::read(&args.plan)?;
    let cells = Runner { plan: &plan, folder: &args.output }.collect()?;
    if args.json {
        let report = TableReport { mse: summaries(&cells, Measure::Mse), w2: summaries(&cells, Measure::W2) };
        return super::print_json(&report);
    }
    for measure in Measure::ALL {
        print(&format!("{}\n", medians_text(&cells, measure)))?;
    }
    for system in &plan.systems {
        for measure in Measure::ALL {
            print(&format!("{}\n", significance_text(&cells, &system.name, measure)))?;
        }
    }
    Ok(())
}
