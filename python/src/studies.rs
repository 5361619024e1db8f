//! Simulated systems, experiments, and the devices of this machine.

use crate::arrays::array;
use crate::data::Dataset;
use crate::errors::{invalid, json, parsed};
use crate::work::{Watch, quick, run};
use numpy::PyArray2;
use pyo3::prelude::*;
use skds::Progress;
use skds::engine::gpu::adapters::{self, Gpu};
use skds::experiment::{ExperimentPlan, Observer, Runner, Shard};
use skds::simulate::{Settings, simulate};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Training data, test data, and the graph: whether variable i acts on variable j, at (j, i).
type SimulatedSystem<'py> = (Dataset, Dataset, Bound<'py, PyArray2<bool>>);

/// A simulated system with interventions.
#[pyfunction]
#[pyo3(signature = (settings, progress=None))]
pub fn simulated<'py>(
    py: Python<'py>,
    settings: &str,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<SimulatedSystem<'py>> {
    let settings: Settings = parsed("settings of the simulation", settings)?;
    let counter = Arc::new(Progress::default());
    let total = (1 + settings.train_envs + settings.test_envs) as u64;
    let watch = Watch::counting(counter.clone(), total);
    let found = run(py, &watch, progress, || simulate(&settings, &counter))?;
    Ok((Dataset::new(found.train), Dataset::new(found.test), array(py, found.truth.graph)?))
}

/// Damaged cells are computed again, which needs no word here.
struct Silent;

impl Observer for Silent {
    fn damaged(&self, _: &Path, _: &str) {}
}

/// Runs the missing cells of a plan, and returns all cells as JSON. `shard` is k/n.
#[pyfunction]
#[pyo3(signature = (plan, folder, datasets=None, shard=None, progress=None))]
pub fn experiment(
    py: Python<'_>,
    plan: PathBuf,
    folder: PathBuf,
    datasets: Option<u64>,
    shard: Option<&str>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let shard: Shard =
        shard.unwrap_or("1/1").parse().map_err(|error: skds::Error| invalid(error.to_string()))?;
    let plan = quick(py, move || ExperimentPlan::read(&plan)?.with_datasets(datasets))?;
    let runner = Runner { plan: &plan, folder: &folder };
    let counter = Arc::new(Progress::default());
    let watch = Watch::counting(counter.clone(), runner.cells(shard));
    let work = || {
        runner.run(shard, &Silent, &counter)?;
        // Other shards may still be at work.
        let (cells, missing) = runner.finished();
        if missing == 0 {
            runner.write_tables(&cells)?;
        }
        Ok(json(&cells))
    };
    run(py, &watch, progress, work)
}

/// A device: index, name, kind, backend, driver.
type DeviceRow = (usize, String, &'static str, String, String);

/// The GPUs of this machine.
#[pyfunction]
pub fn devices(py: Python<'_>) -> PyResult<Vec<DeviceRow>> {
    let row = |gpu: &Gpu| {
        (
            gpu.index,
            gpu.name().to_owned(),
            gpu.kind().name(),
            gpu.backend().to_owned(),
            gpu.driver().to_owned(),
        )
    };
    quick(py, || Ok(adapters::list())).map(|gpus| gpus.iter().map(row).collect())
}

/// Runs the command line, and returns its exit code.
#[pyfunction]
pub fn command(py: Python<'_>, arguments: Vec<std::ffi::OsString>, words: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| skds::cli::main_of(arguments, words))
}
