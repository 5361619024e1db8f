//! From settings and data to a fitted model.

use crate::data::Dataset;
use crate::engine::gpu::{DEFAULT_BUDGET, GpuEngine};
use crate::engine::{Device, State};
use crate::fit::{
    AdamRecipe, Checkpoint, ChoiceRuns, Edge, EstimatorChoice, KeptFiles, KernelChoice, Knowledge, ModelKind,
    PenaltyChoice, PreparedFit, RaisedPenalty, Record, RivalKind, Settings, SolverChoice, Stability, Support,
    TrainingObserver, TrainingSchedule, Tuning, Unfinished, check_resamples,
};
use crate::kernel::Bandwidth;
use crate::model::basis::FeatureChoice;
use crate::model::{IngoingScale, LawKind, Model};
use crate::objective::Objective;
use crate::{Error, Progress, Result};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How a fit is done. Without any settings the fit compares several kinds of linear model and keeps what predicts
/// left-out interventions best.
///
/// ```
/// use skds::prelude::*;
/// # let rows = |push: f64| Matrix::from_fn(80, 2, |i, j| ((7 * i + 3 * j) as f64).sin() + push * j as f64);
/// # let data = Dataset::from_environments(vec![rows(0.0), rows(0.5)])?;
///
/// let chosen = Fit::new().seed(1).fit(&data)?;
/// for line in chosen.findings() {
///     println!("{line}");
/// }
/// let fixed = Fit::new().objective(Objective::Skds).bandwidth(3.0).lambda(0.1).fit(&data)?;
/// assert_eq!(fixed.dim(), 2);
/// # Ok::<(), skds::Error>(())
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct Fit {
    settings: Settings,
    edges: Vec<Edge>,
    resamples: Option<usize>,
    device: Option<Device>,
    listener: Option<Arc<Listener>>,
    /// Somebody else's request to stop.
    stop: Option<Arc<Progress>>,
    /// Where an unfinished training is kept, and what happens to one that is there.
    kept: Option<(KeptFiles, Unfinished)>,
}

/// Steps between two checkpoints.
const SAVE_EVERY: u32 = 2000;

type Listener = dyn Fn(&FitProgress<'_>) + Send + Sync;

/// How far a fit is.
#[derive(Debug)]
pub struct FitProgress<'a> {
    /// Fits, steps or resamples done.
    pub done: u64,
    /// How many there are to do.
    pub total: u64,
    /// The loss on the last batch, for a fit that takes steps.
    pub loss: Option<f64>,
    stop: &'a Progress,
}

impl FitProgress<'_> {
    /// Asks the fit to stop: it ends with [`Error::Stopped`].
    pub fn stop(&self) {
        self.stop.stop();
    }
}

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, $name: $type) -> Self {
            self.settings.$name = Some($name);
            self
        }
    )*};
}

impl Fit {
    /// A fit that chooses everything by what it predicts.
    pub fn new() -> Self {
        Fit::default()
    }

    settings! {
        /// A rival method in place of a diffusion: LLC, GIES, IGSP, DCDI-G or NODAGS.
        method: RivalKind,
        /// The drift: linear, neural, or made of given functions.
        model: ModelKind,
        /// The functions that the drift of a basis model is made of.
        features: FeatureChoice,
        /// The functions that the squared noise of a basis model is made of: expressions between commas.
        diffusion: String,
        /// Hidden units per variable of a neural drift.
        hidden: usize,
        /// What the noise of a linear drift does: a diffusion's, or that of structural equations.
        law: LawKind,
        /// The loss.
        objective: Objective,
        /// The kernel.
        kernel: KernelChoice,
        /// The pairs of samples that the loss averages over.
        estimator: EstimatorChoice,
        /// Which effects the penalty groups together.
        penalty: PenaltyChoice,
        /// The weight of the penalty.
        lambda: f64,
        /// How the loss is minimised.
        solver: SolverChoice,
        /// Steps of Adam.
        steps: u32,
        /// Rows per environment and step of Adam.
        batch: usize,
        /// The length of Adam's steps.
        learning_rate: f64,
        /// How the penalties of single effects add up over the variables in training by Adam.
        ingoing: IngoingScale,
        /// Whether interventions change the noise of their targets too.
        learn_scale: bool,
        /// The seed that every random choice follows from.
        seed: u64,
    }

    /// The bandwidth of the kernel, in standard deviations of the first environment.
    pub fn bandwidth(mut self, bandwidth: f64) -> Self {
        self.settings.bandwidth = Some(Bandwidth::Value(bandwidth));
        self
    }

    /// All settings at once, in place of those given before.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// What is known of effects: forbidden, required and candidate edges.
    pub fn edges(mut self, edges: impl IntoIterator<Item = Edge>) -> Self {
        self.edges = edges.into_iter().collect();
        self
    }

    /// Adds 95 % intervals for every effect, from fits to so many resamples of the rows. For exact solvers.
    pub fn bootstrap(mut self, resamples: usize) -> Self {
        self.resamples = Some(resamples);
        self
    }

    /// Where to compute. Without it, exact solvers use the CPU in double precision and Adam a GPU if there is a real one.
    pub fn device(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }

    /// Keeps an unfinished training beside this model file, in the files from which `skds fit --resume` continues. `unfinished` says
    /// what happens to one that is there. Exact solvers keep nothing.
    ///
    /// ```
    /// use skds::fit::Unfinished;
    /// use skds::prelude::*;
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("model.safetensors");
    /// # let data = Dataset::from_environments(vec![Matrix::from_fn(80, 2, |i, j| ((7 * i + 3 * j) as f64).sin())])?;
    ///
    /// let fit = Fit::new().solver(SolverChoice::Adam).steps(200).batch(32);
    /// // Somebody stops it on its way.
    /// let stopping = fit.clone().on_progress(|at| if at.done == 100 { at.stop() });
    /// assert!(matches!(stopping.keep_beside(&path, Unfinished::Refuse).fit(&data), Err(skds::Error::Stopped)));
    /// // It goes on, to the same end as if nobody had.
    /// let resumed = fit.clone().keep_beside(&path, Unfinished::Resume).fit(&data)?;
    /// assert_eq!(resumed.model, fit.fit(&data)?.model);
    /// # Ok::<(), skds::Error>(())
    /// ```
    pub fn keep_beside(mut self, model: impl AsRef<Path>, unfinished: Unfinished) -> Self {
        self.kept = Some((KeptFiles::beside(model.as_ref()), unfinished));
        self
    }

    /// Calls `listener` a few times per second, and for a fit that takes steps every half per cent of them.
    ///
    /// ```
    /// use skds::prelude::*;
    ///
    /// let fit = Fit::new().on_progress(|at| eprintln!("{} of {}", at.done, at.total));
    /// # let _ = fit;
    /// ```
    pub fn on_progress(mut self, listener: impl Fn(&FitProgress<'_>) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Stops the fit when `progress` is asked to [stop](Progress::stop), with [`Error::Stopped`]. Its count stays as it is.
    pub fn stop_with(mut self, progress: Arc<Progress>) -> Self {
        self.stop = Some(progress);
        self
    }

    /// Fits a model to data.
    pub fn fit(&self, data: &Dataset) -> Result<Fitted> {
        let prepared = match self.edges.is_empty() {
            true => PreparedFit::new(data, &self.settings)?,
            false => {
                let knowledge = Knowledge::new(data.names(), self.edges.clone())?;
                PreparedFit::with_knowledge(data, &self.settings, knowledge)?
            }
        };
        match prepared.recipe.solver.adam() {
            Some(&AdamRecipe { steps, .. }) => self.train(prepared, steps),
            None => self.solve(&prepared),
        }
    }

    fn solve(&self, prepared: &PreparedFit) -> Result<Fitted> {
        if let Some((_, Unfinished::Resume)) = self.kept {
            return Err(Error::invalid(
                "a fit is to be resumed, but it is done by an exact solver, which keeps no checkpoints",
            ));
        }
        if let Some(count) = self.resamples {
            check_resamples(count, 1.0)?;
        }
        if let (Some(rival), Some(_)) = (prepared.recipe.solver.rival(), self.resamples) {
            return Err(Error::invalid(format!(
                "resamples are given with the method {}, expected a diffusion for them",
                rival.kind()
            )));
        }
        let gpu = self.gpu(Device::Cpu)?;
        let mut fit =
            self.watched(prepared.fit_count(), |progress| prepared.solve(gpu.as_ref(), progress))?;
        if let Some(count) = self.resamples {
            let intervals = self
                .watched(count as u64, |progress| prepared.bootstrap(fit.tuning.as_ref(), count, progress))?;
            fit.model.intervals = Some(Box::new(intervals));
        }
        let support = prepared.support(&fit.model);
        let findings = fit.findings(prepared, &support);
        Ok(Fitted { model: fit.model, stability: fit.stability, support, tuning: fit.tuning, findings })
    }

    fn train(&self, mut prepared: PreparedFit, steps: u32) -> Result<Fitted> {
        if self.resamples.is_some() {
            return Err(Error::invalid("resamples are given with the solver adam, expected an exact solver"));
        }
        let choice = prepared.choice_work()?;
        let goes_on = match &self.kept {
            Some((files, unfinished)) => files.goes_on(choice.is_some(), *unfinished)?,
            None => false,
        };
        let gpu = self.gpu(Device::Auto)?;
        let mut tuning = None;
        if let Some(work) = choice {
            let runs = match &self.kept {
                Some((files, unfinished)) => files.runs(&prepared, *unfinished)?,
                None => ChoiceRuns::new(&prepared),
            };
            let keep = |runs: &ChoiceRuns| match &self.kept {
                Some((files, _)) => runs.write(&files.choice),
                None => Ok(()),
            };
            let chosen =
                self.watched(work, |progress| prepared.choose(gpu.as_ref(), runs, progress, &keep))?;
            (prepared, tuning) = chosen.map_or((prepared, None), |(chosen, tuning)| (chosen, Some(tuning)));
        }
        let files = self.kept.as_ref().map(|(files, _)| files);
        let from = match files.filter(|_| goes_on) {
            Some(files) => Some(Checkpoint::read_for(&files.checkpoint, &prepared)?),
            None => None,
        };
        let save_every = if files.is_some() { SAVE_EVERY } else { steps };
        let schedule = TrainingSchedule { report_every: (steps / 200).max(1), save_every };
        let (listener, stop) = (self.listener.as_deref(), Progress::default());
        let asked = self.stop.as_deref();
        let mut watcher = Steps { listener, total: steps, stop, asked, fit: &prepared, files };
        let outcome = prepared.train(gpu.as_ref(), from.as_ref(), schedule, &mut watcher)?;
        if !outcome.complete {
            return Err(Error::Stopped);
        }
        files.into_iter().for_each(KeptFiles::remove);
        let (model, stability) = prepared.model(&outcome.state)?;
        let support = prepared.support(&model);
        let findings = prepared.findings(tuning.as_ref(), &stability, &support);
        Ok(Fitted { model, stability, support, tuning, findings })
    }

    fn gpu(&self, unless_given: Device) -> Result<Option<GpuEngine>> {
        self.device.clone().unwrap_or(unless_given).gpu::<f32>(DEFAULT_BUDGET)
    }

    /// Does work that counts, and tells the listener how far it is.
    fn watched<T>(&self, total: u64, work: impl FnOnce(&Progress) -> Result<T>) -> Result<T> {
        let progress = Progress::default();
        if self.listener.is_none() && self.stop.is_none() {
            return work(&progress);
        }
        let (finished, waiting) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let shown = &progress;
            scope.spawn(move || {
                use std::sync::mpsc::RecvTimeoutError;
                loop {
                    let last = waiting.recv_timeout(BETWEEN_REPORTS) != Err(RecvTimeoutError::Timeout);
                    if self.stop.as_ref().is_some_and(|asked| asked.check().is_err()) {
                        shown.stop();
                    }
                    if let Some(listener) = &self.listener {
                        listener(&FitProgress { done: shown.done(), total, loss: None, stop: shown });
                    }
                    if last {
                        return;
                    }
                }
            });
            let result = work(&progress);
            drop(finished);
            result
        })
    }
}

const BETWEEN_REPORTS: Duration = Duration::from_millis(200);

/// Passes the steps of Adam on to a listener.
struct Steps<'a> {
    listener: Option<&'a Listener>,
    total: u32,
    stop: Progress,
    /// Somebody else's request to stop.
    asked: Option<&'a Progress>,
    fit: &'a PreparedFit,
    files: Option<&'a KeptFiles>,
}

impl TrainingObserver for Steps<'_> {
    fn report(&mut self, record: &Record) {
        if let Some(listener) = self.listener {
            let (done, total) = (u64::from(record.step), u64::from(self.total));
            listener(&FitProgress { done, total, loss: Some(record.loss), stop: &self.stop });
        }
    }

    fn raises(&mut self, raised: &RaisedPenalty) {
        self.total = raised.until;
    }

    fn save(&mut self, state: &State, log: &[Record]) -> Result<()> {
        match self.files {
            Some(files) => Checkpoint::new(self.fit, state, log).write(&files.checkpoint),
            None => Ok(()),
        }
    }

    fn should_stop(&self) -> bool {
        self.stop.check().is_err() || self.asked.is_some_and(|asked| asked.check().is_err())
    }
}

/// A model, and what the fit found on the way. It can be used like the [`Model`] it holds.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The model, in the data's units.
    pub model: Model,
    /// Whether it has a stationary law, and what was done to give it one.
    pub stability: Stability,
    /// What the effects of each variable rest on.
    pub support: Support,
    /// What was compared to choose the model, with scores; none if the settings were given.
    pub tuning: Option<Tuning>,
    findings: Vec<String>,
}

impl Fitted {
    /// What was chosen and how far to trust it, a sentence each.
    pub fn findings(&self) -> &[String] {
        &self.findings
    }

    /// The model alone.
    pub fn into_model(self) -> Model {
        self.model
    }
}

impl Deref for Fitted {
    type Target = Model;

    fn deref(&self) -> &Model {
        &self.model
    }
}
