//! Models: fits, and what a fitted model can be asked.

use crate::arrays::{NamedArray, array, named_arrays};
use crate::data::{Dataset, rows_to_arrays};
use crate::errors::{invalid, json, parsed, raised};
use crate::work::{Watch, quick, run};
use numpy::PyArray2;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use skds::engine::Device;
use skds::evaluate::evaluation_progress;
use skds::fit::{Edge, Knowledge, Settings, Unfinished};
use skds::predict::{
    Level, Levels, MATCHING_PROGRESS, Origin, TargetMeans, Treatment, anchored_each, targets_of_label,
};
use skds::sample::{Method, SampleSettings, Sampler};
use skds::suggest::{Aim, Question, suggest, work as work_of};
use skds::{Do, Fit, Options, Progress};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// The bytes of a GPU's memory that work may take.
const GPU_MEMORY: u64 = skds::engine::gpu::DEFAULT_BUDGET;

/// A model of how variables act on each other.
#[pyclass(frozen, from_py_object, module = "skds._skds")]
#[derive(Clone)]
pub struct Model {
    pub inner: Arc<skds::prelude::Model>,
}

impl Model {
    pub fn new(model: skds::prelude::Model) -> Self {
        Model { inner: Arc::new(model) }
    }
}

/// An effect: source, target, strength, strength in standard units, ends of its interval, and in how many of how many members it is.
type EffectRow = (String, String, f64, Option<f64>, Option<f64>, Option<f64>, Option<usize>, Option<usize>);

/// What is done to a system.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Action {
    /// Variables joined by the separator, perturbed as strongly as in the data.
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    environment: Option<usize>,
    #[serde(default)]
    shift: BTreeMap<String, f64>,
    #[serde(default)]
    scale: BTreeMap<String, f64>,
    #[serde(default)]
    set: BTreeMap<String, f64>,
}

/// A level with the name of its variable.
#[derive(Serialize)]
struct NamedLevel {
    variable: String,
    #[serde(flatten)]
    level: Level,
}

/// How predictions are computed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asking {
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    nonnegative: bool,
    #[serde(default)]
    device: Option<String>,
}

impl Asking {
    fn device(&self) -> skds::Result<Device> {
        Device::from_str(self.device.as_deref().unwrap_or("cpu"))
    }

    fn settings(&self) -> SampleSettings {
        SampleSettings { nonnegative: self.nonnegative, ..SampleSettings::default() }
    }

    fn sampler(&self, model: &skds::prelude::Model) -> skds::Result<Sampler> {
        Ok(match self.settings().method_for(model)? {
            Method::Exact => Sampler::cpu(),
            Method::Auto | Method::Euler => Sampler::with_gpu(self.device()?.gpu::<f32>(GPU_MEMORY)?),
        })
    }
}

/// Which perturbation to make next, as Python asks it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    count: usize,
    pairs: bool,
    refits: usize,
    seed: u64,
    towards: Option<BTreeMap<String, f64>>,
}

impl Action {
    fn as_do(&self) -> Do {
        let start = self.environment.map_or_else(Do::nothing, Do::environment);
        let all = self.shift.iter().fold(start, |all, (name, by)| all.and(Do::shift(name.as_str(), *by)));
        let all = self.scale.iter().fold(all, |all, (name, by)| all.and(Do::scale(name.as_str(), *by)));
        self.set.iter().fold(all, |all, (name, mean)| all.and(Do::set(name.as_str(), *mean)))
    }

    /// The treatment, and the levels that a label stands for.
    fn treatment(
        &self,
        model: &skds::prelude::Model,
        levels: &Levels,
        separator: &str,
    ) -> skds::Result<(Treatment, Vec<NamedLevel>)> {
        let Some(label) = &self.label else {
            let Action { environment, shift, scale, set, .. } = self;
            return Ok((Treatment::named(model, *environment, shift, scale, set)?, Vec::new()));
        };
        let (treatment, reached) = levels.treatment(model, &targets_of_label(model, label, separator)?)?;
        let named = |level: Level| NamedLevel { variable: model.names[level.variable].clone(), level };
        Ok((treatment, reached.into_iter().map(named).collect()))
    }
}

#[pymethods]
impl Model {
    /// Reads a model file.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        quick(py, move || skds::prelude::Model::read(path)).map(Model::new)
    }

    /// Writes a model file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let model = self.inner.clone();
        quick(py, move || match path.extension().is_some_and(|extension| extension == "safetensors") {
            true => model.save(&path),
            false => Err(skds::Error::file(&path, "has another extension than expected: .safetensors")),
        })
    }

    /// The names of the variables.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.inner.names.clone()
    }

    /// The settings of the fit, as JSON.
    #[getter]
    fn settings(&self) -> String {
        json(&self.inner.settings)
    }

    /// How the cells of its data were prepared, as JSON; none if there were no cells.
    #[getter]
    fn cells(&self) -> Option<String> {
        self.inner.cells.as_ref().map(json)
    }

    /// The kind of drift, and the number of models that are averaged; 0 for a single one.
    #[getter]
    fn kind(&self) -> (&'static str, usize) {
        (self.inner.parameters.drift.name(), self.inner.members.len())
    }

    /// All effects, strongest first.
    fn effects(&self, py: Python<'_>) -> PyResult<Vec<EffectRow>> {
        let model = self.inner.clone();
        let graph = quick(py, move || model.effects())?;
        let names = graph.names();
        let row = |effect: &skds::graph::Effect| {
            let (low, high) = effect.interval.unzip();
            let (with, all) = effect.members.unzip();
            let (source, target) = (names[effect.source].clone(), names[effect.target].clone());
            (source, target, effect.strength, effect.standard, low, high, with, all)
        };
        Ok(graph.effects().iter().map(row).collect())
    }

    /// A heat map of the strongest effects, as SVG.
    fn effects_svg(&self, py: Python<'_>, most: usize) -> PyResult<String> {
        let model = self.inner.clone();
        quick(py, move || model.effects_svg(most))
    }

    /// The parameters: the name, shape and entries of each array.
    fn tensors<'py>(&self, py: Python<'py>) -> Vec<NamedArray<'py>> {
        named_arrays(py, &self.inner.parameters)
    }

    /// Moves the observational rows of `data` by each action: the rows after each, and the levels of each, as JSON.
    #[pyo3(signature = (data, names, actions, separator, asking, progress=None))]
    #[allow(clippy::too_many_arguments)] // Python names them.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        data: &Dataset,
        names: Vec<String>,
        actions: &str,
        separator: &str,
        asking: &str,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Vec<Bound<'py, PyArray2<f64>>>, String)> {
        let actions: Vec<Action> = parsed("actions", actions)?;
        let asking: Asking = parsed("options", asking)?;
        let (model, data) = (&self.inner, &data.inner);
        let counter = Arc::new(Progress::default());
        let watch = Watch::counting(counter.clone(), MATCHING_PROGRESS);
        let work = || {
            let origin = Origin::of(model, data)?;
            let levels = Levels::of(data)?;
            let (treatments, reached): (Vec<_>, Vec<_>) = actions
                .iter()
                .map(|action| action.treatment(model, &levels, separator))
                .collect::<skds::Result<Vec<_>>>()?
                .into_iter()
                .unzip();
            let (sampler, settings) = (asking.sampler(model)?, asking.settings());
            let each = (&names[..], &treatments[..]);
            let moved = anchored_each(&sampler, model, &origin, each, &settings, asking.seed, &counter)?;
            Ok((moved, json(&reached)))
        };
        let (moved, reached) = run(py, &watch, progress, work)?;
        Ok((rows_to_arrays(py, moved)?, reached))
    }

    /// Samples of the model's law under an action.
    #[pyo3(signature = (rows, action, asking, progress=None))]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        rows: usize,
        action: &str,
        asking: &str,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let action: Action = parsed("the action", action)?;
        let asking: Asking = parsed("options", asking)?;
        let counter = Arc::new(Progress::default());
        let watch = Watch::counting(counter.clone(), MATCHING_PROGRESS);
        let work = || {
            let options = Options::new()
                .seed(asking.seed)
                .sampling(asking.settings())
                .device(asking.device()?)
                .progress(counter.clone());
            self.inner.sample_with(rows, &action.as_do(), &options)
        };
        let drawn = run(py, &watch, progress, work)?;
        array(py, drawn.rows().clone())
    }

    /// Compares predictions with what happened, as JSON.
    #[pyo3(signature = (test, train, asking, progress=None))]
    fn evaluate(
        &self,
        py: Python<'_>,
        test: &Dataset,
        train: Option<&Dataset>,
        asking: &str,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let asking: Asking = parsed("options", asking)?;
        let counter = Arc::new(Progress::default());
        let watch = Watch::counting(counter.clone(), evaluation_progress(train.is_some()));
        let (test, train) = (&test.inner, train.map(|train| &*train.inner));
        let work = || {
            let options = Options::new()
                .seed(asking.seed)
                .sampling(asking.settings())
                .device(asking.device()?)
                .progress(counter.clone());
            self.inner.evaluate_with(test, train, &options)
        };
        run(py, &watch, progress, work).map(|evaluation| json(&evaluation))
    }

    /// Ranks perturbations that `data` does not have, as JSON.
    #[pyo3(signature = (data, asked, edges=None, progress=None))]
    fn suggest(
        &self,
        py: Python<'_>,
        data: &Dataset,
        asked: &str,
        edges: Option<&str>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let Asked { count, pairs, refits, seed, towards } = parsed("the question", asked)?;
        let edges: Vec<Edge> = edges.map_or(Ok(Vec::new()), |edges| parsed("edges", edges))?;
        let aim = match towards {
            None => Aim::Information { refits },
            Some(wanted) => {
                let targets = wanted.keys().map(|name| self.inner.variable(name));
                let targets = targets.collect::<skds::Result<_>>().map_err(raised)?;
                Aim::State(TargetMeans { targets, means: wanted.values().copied().collect() })
            }
        };
        let question = Question { aim, count, pairs, seed };
        let counter = Arc::new(Progress::default());
        let total = quick(py, || work_of(&self.inner, &data.inner, &question))?;
        let watch = Watch::counting(counter.clone(), total);
        let work = || {
            let known = match edges.is_empty() {
                true => None,
                false => Some(Knowledge::new(data.inner.names(), edges)?),
            };
            suggest(&self.inner, &data.inner, known.as_ref(), &question, &counter)
        };
        run(py, &watch, progress, work).map(|found| json(&found))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let py = slf.py();
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("model.safetensors");
        slf.get().save(py, path.clone())?;
        let bytes = pyo3::types::PyBytes::new(py, &std::fs::read(path)?);
        let restore = py.import("skds._skds")?.getattr("restored_model")?;
        Ok((restore, (bytes,).into_pyobject(py)?.into_any()))
    }
}

/// A model that was pickled.
#[pyfunction]
pub fn restored_model(py: Python<'_>, bytes: &[u8]) -> PyResult<Model> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.safetensors");
    std::fs::write(&path, bytes)?;
    Model::read(py, path)
}

/// What a fit has to say of its model.
#[derive(Serialize)]
struct Report {
    findings: Vec<String>,
    stability: skds::fit::Stability,
    support: skds::fit::Support,
    tuning: Option<skds::fit::Tuning>,
    choice_svg: Option<String>,
}

/// Checks settings, and gives them back as the library understands them.
#[pyfunction]
pub fn checked_settings(settings: &str) -> PyResult<String> {
    let settings: Settings = parsed("settings", settings)?;
    settings.settle().map_err(raised)?;
    Ok(json(&settings))
}

/// Fits a model: the model, and a report as JSON. `kept_beside` is the model file beside which an unfinished training is kept.
#[pyfunction]
#[pyo3(signature = (data, settings, edges=None, bootstrap=None, device=None, kept_beside=None, unfinished="refuse", progress=None))]
#[allow(clippy::too_many_arguments)] // Python names them.
pub fn fit(
    py: Python<'_>,
    data: &Dataset,
    settings: &str,
    edges: Option<&str>,
    bootstrap: Option<usize>,
    device: Option<&str>,
    kept_beside: Option<PathBuf>,
    unfinished: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Model, String)> {
    let mut fit = Fit::new().settings(parsed("settings", settings)?);
    if let Some(edges) = edges {
        fit = fit.edges(parsed::<Vec<Edge>>("edges", edges)?);
    }
    if let Some(count) = bootstrap {
        fit = fit.bootstrap(count);
    }
    if let Some(device) = device {
        fit = fit.device(Device::from_str(device).map_err(raised)?);
    }
    if let Some(path) = kept_beside {
        fit = fit.keep_beside(
            path,
            match unfinished {
                "refuse" => Unfinished::Refuse,
                "resume" => Unfinished::Resume,
                "replace" => Unfinished::Replace,
                other => {
                    return Err(invalid(format!(
                        "unfinished is '{other}', expected refuse, resume or replace"
                    )));
                }
            },
        );
    }
    let watch = Arc::new(Watch::default());
    let noted = watch.clone();
    fit = fit.on_progress(move |at| noted.note(at.done, at.total, at.loss)).stop_with(watch.stop_request());
    let data = &data.inner;
    let work = || {
        let fitted = fit.fit(data)?;
        let choice_svg = fitted.choice_svg()?;
        Ok((fitted, choice_svg))
    };
    let (fitted, choice_svg) = run(py, &watch, progress, work)?;
    let report = json(&Report {
        findings: fitted.findings().to_vec(),
        stability: fitted.stability,
        support: fitted.support,
        tuning: fitted.tuning,
        choice_svg,
    });
    Ok((Model::new(fitted.model), report))
}
