//! `skds fit`: from data to a model file.

mod adam;
mod args;
mod choose;
mod display;
mod exact;
#[cfg(feature = "serve")]
mod remote;

pub(super) use args::Args;

use super::command::Command;
use super::progress::ProgressDisplay;
use crate::data::Dataset;
use crate::engine::Device;
use crate::fit::{Knowledge, PreparedFit, Recipe, Settings, TargetChoice, Unfinished, check_resamples};
use crate::{Error, Result};
use std::path::Path;

impl Command for Args {
    fn run(&self) -> Result<()> {
        let settings = self.settings()?;
        let recipe = settings.settle()?;
        check_options(self, &recipe)?;
        check_output(&self.output.file)?;
        let fit = prepared(self, &settings, &recipe)?;
        match fit.recipe.solver.adam() {
            Some(recipe) => adam::run(self, &fit, recipe.steps),
            None => {
                // In f64 on the CPU unless a GPU is asked for by name: exactness is what this solver is for.
                let on_cpu = self.device.device == Device::Auto;
                let gpu = if on_cpu { None } else { self.device.gpu_or_cpu()? };
                exact::run(self, &fit, gpu.as_ref())
            }
        }
    }

    fn looks_for_gpus(&self) -> bool {
        self.device.may_be_gpu()
    }

    #[cfg(feature = "serve")]
    fn run_remote(&self, remote: &super::remote::Remote) -> Result<()> {
        remote::run(self, remote)
    }
}

/// Refuses options that the solver does not know.
fn check_options(args: &Args, recipe: &Recipe) -> Result<()> {
    if args.adam.checkpoint_every == 0 {
        return Err(Error::invalid("--checkpoint-every is 0, expected at least 1"));
    }
    match (recipe.solver.adam(), args.choice.bootstrap) {
        (Some(_), Some(_)) => {
            Err(Error::invalid("--bootstrap is given with the solver adam, expected the exact solver"))
        }
        (None, Some(_)) if recipe.solver.rival().is_some() => {
            Err(Error::invalid("--bootstrap is given with --method, expected a diffusion for it"))
        }
        (None, Some(count)) => check_resamples(count, 1.0),
        (None, None) if args.adam.resume => {
            Err(Error::invalid("--resume is given with the exact solver, which keeps no checkpoints"))
        }
        (_, None) => Ok(()),
    }
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

/// The fit to the data that is read here; it has a copy of its own, in its units.
fn prepared(args: &Args, settings: &Settings, recipe: &Recipe) -> Result<PreparedFit> {
    let data = read(args, recipe)?;
    match &args.data.edges {
        Some(path) => PreparedFit::with_knowledge(&data, settings, Knowledge::read(path, data.names())?),
        None => PreparedFit::new(&data, settings),
    }
}

/// The data, while a message says that it is read.
fn read(args: &Args, recipe: &Recipe) -> Result<Dataset> {
    let _shown = ProgressDisplay::message(format!("reading {}", args.data.path.display()));
    let (targets, genes) = (args.targets_file(recipe), args.cells.genes.as_ref());
    args.cells.own.read_for_fit(&args.data.path, targets, genes, args.output.json)
}

impl Args {
    /// What happens to an unfinished fit.
    fn unfinished(&self) -> Unfinished {
        match (self.adam.resume, self.adam.restart) {
            (true, _) => Unfinished::Resume,
            (false, true) => Unfinished::Replace,
            (false, false) => Unfinished::Refuse,
        }
    }

    /// The file of targets, unless they are unknown.
    fn targets_file(&self, recipe: &Recipe) -> Option<&Path> {
        self.data.targets.as_deref().filter(|_| recipe.targets != TargetChoice::Unknown)
    }
}
