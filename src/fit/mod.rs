//! From data to a model: by the exact solver ([`crate::solve`]) where the loss is convex, otherwise by Algorithm 1 of the
//! paper, steps of Adam on batches.
//!
//! [`PreparedFit::new`] turns data and [`Settings`] into everything a training needs; [`PreparedFit::run`] takes the steps on
//! any device and tells a [`TrainingObserver`] how it goes. A step depends on the state and its own number alone, so a fit that
//! goes on from a [`Checkpoint`] ends at the same bytes as one that was never interrupted.

mod bootstrap;
mod bounds;
mod checkpoint;
mod choices;
mod choose;
mod exact;
mod fingerprint;
mod knowledge;
mod loss;
mod recipe;
mod select;
mod settings;
mod stabilize;
mod start;
mod support;
mod tuning;

pub use bounds::check_resamples;
pub use checkpoint::{Checkpoint, Record};
pub use choices::{
    EnvironmentsPerStep, EstimatorChoice, KernelChoice, ModelKind, PenaltyChoice, SolverChoice, TargetChoice,
};
pub use choose::Method;
pub(crate) use choose::considers_pairs;
pub use exact::ExactFit;
pub use fingerprint::Fingerprint;
pub use knowledge::{Edge, EdgeKind, FORBIDDEN, Knowledge, REQUIRED};
pub use loss::{LossSettings, ModelLoss};
pub use recipe::{AdamRecipe, CandidateSet, DriftForm, FixedSettings, PenaltyStrength, Recipe, Solver};
pub use settings::Settings;
pub use stabilize::{MARGIN, Stability, WidestVariable};
pub use support::{Evidence, Support, VariableSupport};
pub(crate) use tuning::ENOUGH_INTERVENTIONS;
pub use tuning::{ExpectedError, ScoredSetting, Tuning};

use crate::data::{Dataset, Standardization};
use crate::engine::cpu::CpuTraining;
use crate::engine::gpu::GpuEngine;
use crate::engine::{Adam, Batches, LossSpec, State, Training, TrainingSpec};
use crate::kernel::Bandwidth;
use crate::model::{Basis, Model, Parameters};
use crate::solve::Design;
use crate::{Error, Matrix, Progress, Result};
use std::sync::Arc;

/// A fit, ready to run.
pub struct PreparedFit {
    /// What is done, with the bandwidth resolved.
    pub recipe: Recipe,
    /// What training minimises.
    pub spec: TrainingSpec,
    /// In the units of the fit.
    data: Dataset,
    units: Option<Standardization>,
    fingerprint: Fingerprint,
    constant: Vec<String>,
    targets: Matrix<bool>,
    design: Design,
    /// The functions of a basis model, of the data's own units.
    basis: Option<Arc<Basis>>,
    knowledge: Option<Knowledge>,
}

/// Who hears how a fit goes.
pub trait TrainingObserver {
    /// Every so many steps, and after the last.
    fn report(&mut self, record: &Record);

    /// Keeps the state: every so often, when the fit ends early, and after its last step.
    fn save(&mut self, state: &State, log: &[Record]) -> Result<()>;

    /// Whether the fit shall end early.
    fn should_stop(&self) -> bool;
}

/// Hears nothing and keeps nothing.
pub struct Unobserved;

impl TrainingObserver for Unobserved {
    fn report(&mut self, _: &Record) {}

    fn save(&mut self, _: &State, _: &[Record]) -> Result<()> {
        Ok(())
    }

    fn should_stop(&self) -> bool {
        false
    }
}

/// Fits a model to data on the CPU: [`PreparedFit`] in one call.
///
/// ```
/// use skds::data::Dataset;
/// use skds::fit::{Settings, fit};
/// use skds::Matrix;
///
/// let samples = Matrix::from_fn(64, 2, |i, j| ((7 * i + 3 * j) as f64).sin());
/// let data = Dataset::from_environments(vec![samples])?;
/// let (model, stability) = fit(&data, &Settings { steps: Some(50), batch: Some(32), ..Settings::default() })?;
/// assert_eq!(model.dim(), 2);
/// assert!(stability.stable);
/// # Ok::<(), skds::Error>(())
/// ```
pub fn fit(data: &Dataset, settings: &Settings) -> Result<(Model, Stability)> {
    let problem = PreparedFit::new(data, settings)?;
    let Some(AdamRecipe { steps, .. }) = problem.recipe.solver.adam() else {
        let fit = problem.solve(None, &Progress::default())?;
        return Ok((fit.model, fit.stability));
    };
    let schedule = TrainingSchedule { report_every: *steps, save_every: *steps };
    let outcome = problem.run(None, None, schedule, &mut Unobserved)?;
    problem.model(&outcome.state)
}

/// How often a fit speaks.
#[derive(Clone, Copy, Debug)]
pub struct TrainingSchedule {
    /// Steps between reports.
    pub report_every: u32,
    /// Steps between checkpoints.
    pub save_every: u32,
}

/// How a fit ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingOutcome {
    /// The last state.
    pub state: State,
    /// The log.
    pub log: Vec<Record>,
    /// Whether all steps were taken.
    pub complete: bool,
}

impl PreparedFit {
    /// Settles the settings, standardises, resolves the bandwidth and prepares the initial parameters.
    pub fn new(data: &Dataset, settings: &Settings) -> Result<PreparedFit> {
        PreparedFit::of(data, settings, None)
    }

    /// The same with what is known of the effects between the data's variables.
    ///
    /// ```
    /// use skds::data::Dataset;
    /// use skds::fit::{Edge, EdgeKind, Knowledge, PreparedFit, Settings};
    /// use skds::{Matrix, Progress};
    ///
    /// let samples = Matrix::from_fn(64, 2, |i, j| ((7 * i + 3 * j) as f64).sin());
    /// let data = Dataset::from_environments(vec![samples])?;
    /// let never = Edge { source: "x1".into(), target: "x0".into(), kind: EdgeKind::Forbidden, weight: None };
    /// let known = Knowledge::new(data.names(), vec![never])?;
    /// let settings = Settings { lambda: Some(0.01), ..Settings::default() };
    /// let fit = PreparedFit::with_knowledge(&data, &settings, known)?.solve(None, &Progress::default())?;
    /// let weights = fit.model.parameters.drift.linear_weights()?;
    /// assert_eq!(weights[(0, 1)], 0.0);
    /// # Ok::<(), skds::Error>(())
    /// ```
    pub fn with_knowledge(data: &Dataset, settings: &Settings, knowledge: Knowledge) -> Result<PreparedFit> {
        if knowledge.names() != data.names() {
            return Err(Error::invalid(format!(
                "edges are known between other variables: found {}, expected {}",
                knowledge.names().join(", "),
                data.names().join(", ")
            )));
        }
        PreparedFit::of(data, settings, Some(knowledge).filter(|knowledge| !knowledge.edges().is_empty()))
    }

    fn of(data: &Dataset, settings: &Settings, knowledge: Option<Knowledge>) -> Result<PreparedFit> {
        let mut recipe = settings.settle()?;
        let given = data;
        let units = recipe.standardize.then(|| Standardization::of(given));
        let data = units.as_ref().map_or_else(|| given.clone(), |units| units.apply(given));
        let mut h = 1.0;
        if let Solver::Exact { fixed, .. } | Solver::Adam { fixed, .. } = &mut recipe.solver
            && recipe.kernel.has_bandwidth()
        {
            h = fixed.bandwidth.resolve(&data, recipe.seed)?;
            fixed.bandwidth = Bandwidth::Value(h);
        }
        let adam = match recipe.solver.adam() {
            None => (Adam::default(), None),
            Some(AdamRecipe { batch, envs_per_step, learning_rate, .. }) => {
                let environments = match *envs_per_step {
                    EnvironmentsPerStep::All => data.environments(),
                    EnvironmentsPerStep::Some(count) if count <= data.environments() => count,
                    EnvironmentsPerStep::Some(count) => {
                        return Err(Error::invalid(format!(
                            "environments per step is {count}, expected at most the data's {}",
                            data.environments()
                        )));
                    }
                };
                bounds::check_training(&recipe, data.dim(), environments)?;
                let adam = Adam { learning_rate: *learning_rate, ..Adam::default() };
                (adam, Some(Batches { seed: recipe.seed, rows: *batch, environments }))
            }
        };
        let spec = TrainingSpec {
            loss: LossSpec {
                objective: recipe.objective,
                kernel: recipe.kernel.with_bandwidth(h)?,
                estimator: recipe.solver.pairs(),
            },
            penalty: recipe.solver.strength().and_then(|strength| strength.penalty()),
            adam: adam.0,
            batches: adam.1,
        };
        let targets = start::targets(&data, recipe.targets);
        let (design, basis) = match &recipe.form {
            DriftForm::Basis { features, diffusion } => {
                let (own, fitted) = match &units {
                    Some(units) => Basis::with_standard(features, diffusion, given, units)?,
                    None => {
                        let basis = Basis::new(features, diffusion, given)?;
                        (basis.clone(), basis)
                    }
                };
                let multipliers = knowledge.as_ref().map(Knowledge::multipliers);
                (Design::basis_knowing(Arc::new(fitted), &data, multipliers)?, Some(Arc::new(own)))
            }
            DriftForm::Linear | DriftForm::Mlp { .. } => (Design::Linear, None),
        };
        let fingerprint = Fingerprint::of(given, &targets, knowledge.as_ref());
        let constant = given.constant_variables().into_iter().map(|j| given.names()[j].clone()).collect();
        Ok(PreparedFit {
            recipe,
            spec,
            data,
            units,
            fingerprint,
            constant,
            targets,
            design,
            basis,
            knowledge,
        })
    }

    /// The data in the units of the fit.
    pub fn data(&self) -> &Dataset {
        &self.data
    }

    /// What the penalties of effects are multiplied with, if anything is known of them: see [`Knowledge::multipliers`].
    pub fn multipliers(&self) -> Option<&Matrix<f64>> {
        self.knowledge.as_ref().map(Knowledge::multipliers)
    }

    /// What identifies the data that the fit is to, and what is known of it.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// The variables that are constant in the first environment.
    pub fn constant_variables(&self) -> &[String] {
        &self.constant
    }

    /// Parameters of a fit in the data's units.
    fn in_data_units(&self, parameters: &Parameters<f64>) -> Result<Parameters<f64>> {
        match &self.units {
            Some(units) => parameters.in_units_of(units, self.basis.as_ref()),
            None => Ok(parameters.clone()),
        }
    }

    /// Runs the fit, on `gpu` or else on the CPU, from `from` or else from the start.
    ///
    /// A NaN ends it with an error; the observer has then kept the last good state.
    pub fn run(
        &self,
        gpu: Option<&GpuEngine>,
        from: Option<&Checkpoint>,
        schedule: TrainingSchedule,
        observer: &mut dyn TrainingObserver,
    ) -> Result<TrainingOutcome> {
        let Some(AdamRecipe { steps, .. }) = self.recipe.solver.adam() else {
            return Err(Error::invalid("the solver is exact, expected adam to take steps with"));
        };
        let mut start = start::parameters(&self.data, &self.recipe, &self.targets)?;
        let mut free = start::free(&start, &self.targets);
        if let Some(knowledge) = &self.knowledge {
            knowledge.clear_forbidden(&mut start)?;
            knowledge.clear_forbidden(&mut free)?;
        }
        let charges = self.knowledge.as_ref().map(Knowledge::charges);
        let mut training: Box<dyn Training> = match gpu {
            Some(engine) => {
                let training = engine.train(&self.data, &self.spec, &start, &free)?;
                Box::new(match &charges {
                    Some(charges) => training.weighing(charges)?,
                    None => training,
                })
            }
            None => {
                let training = CpuTraining::new(&self.data, self.spec, &start, &free)?;
                Box::new(match charges {
                    Some(charges) => training.weighing(charges)?,
                    None => training,
                })
            }
        };
        let mut log = Vec::new();
        let mut step = 0;
        if let Some(from) = from {
            training.restore(&from.state)?;
            (log, step) = (from.log.clone(), from.state.steps);
        }
        while step < *steps && !observer.should_stop() {
            let taken = training.step();
            step += 1;
            let last = step == *steps;
            let standing = match taken {
                Ok(()) if step % schedule.report_every == 0 || step % schedule.save_every == 0 || last => {
                    training.standing().map(Some)
                }
                other => other.map(|()| None),
            };
            match standing {
                Ok(Some(standing)) => {
                    if step % schedule.report_every == 0 || last {
                        let record = Record { step, loss: standing.loss, penalty: standing.penalty };
                        log.push(record);
                        observer.report(&record);
                    }
                    if step % schedule.save_every == 0 && !last {
                        observer.save(&training.state()?, &log)?;
                    }
                }
                Ok(None) => {}
                Err(error @ Error::NonFinite(_)) => {
                    observer.save(&training.state()?, &log)?;
                    return Err(error);
                }
                Err(other) => return Err(other),
            }
        }
        let state = training.state()?;
        observer.save(&state, &log)?;
        let complete = state.steps == *steps;
        Ok(TrainingOutcome { state, log, complete })
    }

    /// The model that a state stands for, made stable if the settings ask for it; and what was found of it.
    pub fn model(&self, state: &State) -> Result<(Model, Stability)> {
        self.finish(state.parameters.cast(), &self.spec.loss)
    }

    /// Parameters in the units of the fit as a model in the data's, with everything that belongs to it.
    fn finish(&self, parameters: Parameters<f64>, loss: &LossSpec) -> Result<(Model, Stability)> {
        let mut model = Model { names: self.data.names().to_vec(), ..Model::new(parameters) };
        let stability = stabilize::stabilize(&mut model, &self.data, loss, self.recipe.stabilize)?;
        model.parameters = self.in_data_units(&model.parameters)?;
        self.describe(&mut model);
        Ok((model, stability))
    }

    /// Gives a model in the data's units everything that belongs to it.
    fn describe(&self, model: &mut Model) {
        let settings = serde_json::to_value(self.recipe.to_settings()).expect("settings serialise");
        model.settings = settings.as_object().expect("settings are an object").clone().into_iter().collect();
        model.names = self.data.names().to_vec();
        model.named = true;
        model.targets = Some(self.targets.clone());
        model.reference = self.units.clone();
    }
}
