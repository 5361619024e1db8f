//! `skds simulate`: the paper's synthetic systems as files.

mod args;
#[cfg(feature = "serve")]
mod remote;

pub(super) use args::Args;

use super::command::Command;
use super::print_report;
use super::progress::ProgressDisplay;
use crate::simulate::{GraphKind, Settings, simulate};
use crate::{Error, Progress, Result};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

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

impl Command for Args {
    fn run(&self) -> Result<()> {
        run(self)
    }

    #[cfg(feature = "serve")]
    fn run_remote(&self, remote: &super::remote::Remote) -> Result<()> {
        remote::run(self, remote)
    }
}

fn run(args: &Args) -> Result<()> {
    let settings = args.settings()?;
    settings.check()?;
    if args.output.exists() && !args.output.is_dir() {
        return Err(Error::file(&args.output, "is a file, expected a folder to write to"));
    }
    let start = Instant::now();
    let progress = Arc::new(Progress::default());
    let count = 1 + settings.train_envs + settings.test_envs;
    let display = ProgressDisplay::new("environments", progress.clone(), count as u64);
    let simulated = simulate(&settings, &progress)?;
    drop(display);
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
