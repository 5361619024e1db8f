//! The entry points of the library that the fuzzer tries.

use skds::data::{Dataset, SizeLimits};
use skds::engine::Place;
use skds::experiment::ExperimentPlan;
use skds::fit::{Checkpoint, PreparedFit, Settings, TrainingSchedule, Unobserved};
use skds::model::basis::FeatureChoice;
use skds::model::{Basis, Model, Parameters};
use skds::serve::{Options, Service};
use skds::{Matrix, simulate};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The limits of every reader: far above the seeds, far below what would hurt.
const LIMITS: SizeLimits = SizeLimits { variables: 5000, bytes: 64 << 20 };

/// An accepted input, or the text of its error.
pub type Entered<T> = Result<T, String>;

fn said<T>(found: skds::Result<T>) -> Entered<T> {
    found.map_err(|error| error.to_string())
}

pub fn dataset(path: &Path, targets: Option<&Path>) -> Entered<Dataset> {
    said(Dataset::read_within(path, targets, &LIMITS))
}

pub fn parameters(path: &Path) -> Entered<Parameters<f64>> {
    said(Parameters::read(path))
}

pub fn model(path: &Path) -> Entered<Model> {
    said(Model::read(path))
}

pub fn checkpoint(path: &Path) -> Entered<Checkpoint> {
    said(Checkpoint::read(path))
}

/// Functions in a file, one per line, and those of a diffusion.
pub fn basis(features: &Path, diffusion: &str, data: &Dataset) -> Entered<Basis> {
    said(Basis::new(&FeatureChoice::File(features.into()), diffusion, data))
}

/// Settings in a file, and a fit that has them.
pub fn settings(path: &Path, data: &Dataset) -> Entered<PreparedFit> {
    said(Settings::read(path).and_then(|settings| PreparedFit::new(data, &settings)))
}

/// Goes on from a checkpoint, if it is the problem's.
pub fn resume(path: &Path, problem: &PreparedFit) -> Entered<()> {
    let from = said(Checkpoint::read_for(path, problem))?;
    let schedule = TrainingSchedule { report_every: 2, save_every: 2 };
    said(problem.train(None, Some(&from), schedule, &mut Unobserved))?;
    Ok(())
}

pub fn plan(path: &Path) -> Entered<ExperimentPlan> {
    said(ExperimentPlan::read(path))
}

pub fn manifest(path: &Path) -> Entered<()> {
    said(simulate::Settings::of_manifest(path).and_then(|settings| settings.check()))
}

/// A service that nobody can reach, with a dataset and a model.
pub struct Office {
    service: Arc<Service>,
    pub dataset: String,
    pub model: String,
}

impl Office {
    pub fn open(folder: PathBuf, data: &Dataset, model: &Model) -> Office {
        let options = Options { places: vec![Place::Cpu], ..Options::local(folder, vec!["skds".into()]) };
        let (service, _) = Service::start(options).unwrap();
        let (dataset, model) = (service.keep_dataset(data).unwrap(), service.keep_model(model).unwrap());
        Office { service, dataset, model }
    }

    /// What a job would need, in bytes and operations.
    pub fn estimate(&self, body: &[u8]) -> Entered<(f64, f64)> {
        self.service.estimate(body)
    }

    /// What reading an upload would take, in bytes.
    pub fn estimate_upload(&self, path: &Path) -> Entered<f64> {
        self.service.estimate_upload(path)
    }
}

impl Drop for Office {
    fn drop(&mut self) {
        self.service.close();
    }
}

/// The settings of the small fits that models and checkpoints come from.
const ADAM: &str = "solver = \"adam\"\nsteps = 4\nbatch = 4\nbandwidth = 1.5\nlambda = 0.1\n";
const EXACT: &str = "bandwidth = 1.5\nlambda = 0.1\n";
const BASIS: &str = "model = \"basis\"\nfeatures = \"polynomial:2\"\ndiffusion = \"1, self^2\"\nbandwidth = 1.5\nlambda = 0.1\n";
const MLP: &str = "model = \"mlp\"\nhidden = 2\nsteps = 4\nbatch = 4\nbandwidth = 1.5\nlambda = 0.01\n";

/// Data of three variables, one of them with a name that is no word.
pub fn data() -> Dataset {
    let samples =
        |e: usize| Matrix::from_fn(6, 3, |i, j| ((7 * i + 3 * j + e) as f64).sin() + 0.2 * e as f64);
    Dataset::from_environments(vec![samples(0), samples(1)])
        .and_then(|data| data.with_targets(Matrix::from_fn(2, 3, |e, j| e == 1 && j == 2)))
        .and_then(|data| data.with_names(["x", "gene a", "γ"].map(String::from).to_vec()))
        .unwrap()
}

/// The problem whose checkpoints are tried.
pub fn problem(folder: &Path) -> PreparedFit {
    let path = folder.join("adam.toml");
    std::fs::write(&path, ADAM).unwrap();
    settings(&path, &data()).unwrap()
}

/// Writes a checkpoint of [`problem`].
pub fn write_checkpoint(folder: &Path, path: &Path) {
    let problem = problem(folder);
    let schedule = TrainingSchedule { report_every: 1, save_every: 1 };
    let outcome = problem.train(None, None, schedule, &mut Unobserved).unwrap();
    Checkpoint::new(&problem, &outcome.state, &outcome.log).write(path).unwrap();
}

/// Models of every kind, one of them with intervals.
pub fn models(folder: &Path) -> Vec<Model> {
    let texts = [EXACT, BASIS, MLP, ADAM];
    let fitted = texts.iter().map(|text| {
        let path = folder.join("settings.toml");
        std::fs::write(&path, text).unwrap();
        skds::fit::fit(&data(), &Settings::read(&path).unwrap()).unwrap().0
    });
    let mut all: Vec<Model> = fitted.collect();
    let (low, high) = (all[0].parameters.clone(), all[0].parameters.clone());
    all[0].intervals = Some(Box::new(skds::model::Intervals { level: 0.9, low, high }));
    all
}
