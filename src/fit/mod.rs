//! From data to a model: by the exact solver ([`crate::solve`]) where the loss is convex, otherwise by Algorithm 1 of the
//! paper, steps of Adam on batches.
//!
//! [`Problem::new`] turns data and [`Settings`] into everything a training needs; [`Problem::run`] takes the steps on
//! any device and tells a [`Watcher`] how it goes. A step depends on the state and its own number alone, so a fit that
//! goes on from a [`Checkpoint`] ends at the same bytes as one that was never interrupted.

mod bootstrap;
mod checkpoint;
mod exact;
mod results;
mod select;
mod settings;
mod stabilize;
mod start;
mod tune;

pub use checkpoint::{Checkpoint, Record};
pub use exact::ExactFit;
pub(crate) use settings::by_name;
pub use settings::{
    EnvironmentsPerStep, EstimatorChoice, ModelKind, PenaltyChoice, Settings, SolverChoice, TargetChoice,
};
pub use stabilize::{MARGIN, Stability, Widest};
pub use tune::{Cell, Tuning};

use crate::data::{Dataset, Standardization};
use crate::engine::cpu::CpuTraining;
use crate::engine::gpu::GpuEngine;
use crate::engine::{Adam, Batches, LossSpec, State, Training, TrainingSpec};
use crate::kernel::{Bandwidth, KernelKind};
use crate::model::{Basis, Model, Parameters, Penalty};
use crate::solve::Design;
use crate::{Error, Matrix, Progress, Result};
use std::sync::Arc;

/// A fit, ready to run.
pub struct Problem {
    /// As given, with the bandwidth resolved.
    pub settings: Settings,
    /// What training minimises.
    pub spec: TrainingSpec,
    data: Dataset,
    standardization: Option<Standardization>,
    targets: Matrix<bool>,
    design: Design,
}

/// Who hears how a fit goes.
pub trait Watcher {
    /// Every so many steps, and after the last.
    fn report(&mut self, record: &Record);

    /// Keeps the state: every so often, when the fit ends early, and after its last step.
    fn keep(&mut self, state: &State, log: &[Record]) -> Result<()>;

    /// Whether the fit shall end early.
    fn stopped(&self) -> bool;
}

/// Hears nothing and keeps nothing.
pub struct Unwatched;

impl Watcher for Unwatched {
    fn report(&mut self, _: &Record) {}

    fn keep(&mut self, _: &State, _: &[Record]) -> Result<()> {
        Ok(())
    }

    fn stopped(&self) -> bool {
        false
    }
}

/// Fits a model to data on the CPU: [`Problem`] in one call.
///
/// ```
/// use skds::data::Dataset;
/// use skds::fit::{Settings, fit};
/// use skds::Matrix;
///
/// let samples = Matrix::from_fn(64, 2, |i, j| ((7 * i + 3 * j) as f64).sin());
/// let data = Dataset::from_environments(vec![samples])?;
/// let (model, stability) = fit(&data, &Settings { steps: 50, batch: 32, ..Settings::default() })?;
/// assert_eq!(model.dim(), 2);
/// assert!(stability.stable);
/// # Ok::<(), skds::Error>(())
/// ```
pub fn fit(data: &Dataset, settings: &Settings) -> Result<(Model, Stability)> {
    let problem = Problem::new(data, settings)?;
    if problem.settings.is_exact()? {
        let fit = problem.solve(None, &Progress::default())?;
        return Ok((fit.model, fit.stability));
    }
    let rhythm = Rhythm { report_every: settings.steps.max(1), keep_every: settings.steps.max(1) };
    let outcome = problem.run(None, None, rhythm, &mut Unwatched)?;
    problem.model(&outcome.state)
}

/// How often a fit speaks.
#[derive(Clone, Copy, Debug)]
pub struct Rhythm {
    /// Steps between reports.
    pub report_every: u32,
    /// Steps between checkpoints.
    pub keep_every: u32,
}

/// How a fit ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The last state.
    pub state: State,
    /// The log.
    pub log: Vec<Record>,
    /// Whether all steps were taken.
    pub complete: bool,
}

impl Problem {
    /// Checks the settings, standardises if asked to, resolves the bandwidth and makes the initial parameters.
    pub fn new(data: &Dataset, settings: &Settings) -> Result<Problem> {
        settings.check()?;
        let standardization = match settings.standardize {
            true => Some(Standardization::of(data)?),
            false => None,
        };
        let data = standardization.as_ref().map_or_else(|| data.clone(), |units| units.apply(data));
        let mut settings = settings.clone();
        // Decided before the bandwidth is known: one that was given means no tuning.
        if settings.is_exact()? {
            settings.tune = Some(settings.is_tuned()?);
        }
        if settings.kernel != KernelKind::ImqPlus {
            settings.bandwidth = Bandwidth::Value(settings.bandwidth.resolve(&data, settings.seed)?);
        }
        let h = if let Bandwidth::Value(h) = settings.bandwidth { h } else { 1.0 };
        let environments = match settings.envs_per_step {
            EnvironmentsPerStep::All => data.environments(),
            EnvironmentsPerStep::Some(count) if count <= data.environments() => count,
            EnvironmentsPerStep::Some(count) => {
                return Err(Error::invalid(format!(
                    "environments per step is {count}, expected at most the data's {}",
                    data.environments()
                )));
            }
        };
        let spec = TrainingSpec {
            loss: LossSpec {
                objective: settings.objective,
                kernel: settings.kernel.with_bandwidth(h)?,
                estimator: settings.pairs()?,
            },
            penalty: settings.penalty.kind().map(|kind| Penalty { kind, lambda: settings.lambda }),
            adam: Adam { learning_rate: settings.learning_rate, ..Adam::default() },
            batches: Some(Batches { seed: settings.seed, rows: settings.batch, environments }),
        };
        let targets = start::targets(&data, &settings);
        let design = match settings.model {
            ModelKind::Basis => {
                let basis = Basis::new(&settings.features, &settings.diffusion, &data)?;
                Design::basis(Arc::new(basis), &data)?
            }
            ModelKind::Linear | ModelKind::Mlp => Design::Linear,
        };
        Ok(Problem { settings, spec, data, standardization, targets, design })
    }

    /// The data in the units of the fit.
    pub fn data(&self) -> &Dataset {
        &self.data
    }

    /// What a checkpoint remembers of the data: enough to notice other data.
    pub fn data_mark(&self) -> String {
        let sum: f64 = self.data.samples().as_slice().iter().sum();
        let (n, d, e) = (self.data.samples().rows(), self.data.dim(), self.data.environments());
        format!("{n} rows, {d} variables, {e} environments, sum {sum:e}")
    }

    /// Runs the fit, on `gpu` or else on the CPU, from `from` or else from the start.
    ///
    /// A NaN ends it with an error; the watcher has then kept the last good state.
    pub fn run(
        &self,
        gpu: Option<&GpuEngine>,
        from: Option<&Checkpoint>,
        rhythm: Rhythm,
        watcher: &mut dyn Watcher,
    ) -> Result<Outcome> {
        let start = start::parameters(&self.data, &self.settings, &self.targets);
        let free = start::free(&start, &self.targets);
        let mut training: Box<dyn Training> = match gpu {
            Some(engine) => Box::new(engine.train(&self.data, &self.spec, &start, &free)?),
            None => Box::new(CpuTraining::new(&self.data, self.spec, &start, &free)?),
        };
        let mut log = Vec::new();
        let mut step = 0;
        if let Some(from) = from {
            training.restore(&from.state)?;
            (log, step) = (from.log.clone(), from.state.steps);
        }
        while step < self.settings.steps && !watcher.stopped() {
            let taken = training.step();
            step += 1;
            let last = step == self.settings.steps;
            let standing = match taken {
                Ok(()) if step % rhythm.report_every == 0 || step % rhythm.keep_every == 0 || last => {
                    training.standing().map(Some)
                }
                other => other.map(|()| None),
            };
            match standing {
                Ok(Some(standing)) => {
                    if step % rhythm.report_every == 0 || last {
                        let record = Record { step, loss: standing.loss, penalty: standing.penalty };
                        log.push(record);
                        watcher.report(&record);
                    }
                    if step % rhythm.keep_every == 0 && !last {
                        watcher.keep(&training.state()?, &log)?;
                    }
                }
                Ok(None) => {}
                Err(error @ Error::NonFinite(_)) => {
                    watcher.keep(&training.state()?, &log)?;
                    return Err(error);
                }
                Err(other) => return Err(other),
            }
        }
        let state = training.state()?;
        watcher.keep(&state, &log)?;
        let complete = state.steps == self.settings.steps;
        Ok(Outcome { state, log, complete })
    }

    /// The model that a state stands for, made stable if the settings ask for it; and what was found of it.
    pub fn model(&self, state: &State) -> Result<(Model, Stability)> {
        self.finish(state.parameters.cast(), &self.settings, &self.spec.loss)
    }

    /// Parameters as a model with everything that belongs to it.
    fn finish(
        &self,
        parameters: Parameters<f64>,
        settings: &Settings,
        loss: &LossSpec,
    ) -> Result<(Model, Stability)> {
        let settings = serde_json::to_value(settings).expect("settings serialise");
        let mut model = Model {
            names: self.data.names().to_vec(),
            named: true,
            targets: Some(self.targets.clone()),
            standardization: self.standardization.clone(),
            settings: settings.as_object().expect("settings are an object").clone().into_iter().collect(),
            ..Model::new(parameters)
        };
        let stability = stabilize::stabilize(&mut model, &self.data, loss, self.settings.stabilize)?;
        Ok((model, stability))
    }
}
