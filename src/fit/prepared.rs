//! A fit that is prepared to run: settings decided, data standardised, bandwidth resolved.

use super::choose::TrainedChoice;
use super::{
    AdamRecipe, DriftForm, EnvironmentsPerStep, Fingerprint, Knowledge, Recipe, Settings, Solver, Stability,
    bounds, stabilize, start,
};
use crate::data::{Dataset, Standardization};
use crate::engine::{Batches, LossSpec, OptimiserKind, State, TrainingSpec};
use crate::kernel::Bandwidth;
use crate::model::{Basis, Model, Parameters};
use crate::solve::Design;
use crate::{Error, Matrix, Result};
use std::sync::Arc;

/// A fit that is prepared to run: the exact solver by [`solve`](Self::solve), Adam by [`train`](Self::train), where the settings are
/// to be chosen after [`choose`](Self::choose).
#[derive(Clone)]
pub struct PreparedFit {
    /// What the fit does, with the bandwidth resolved.
    pub recipe: Recipe,
    /// What training minimises.
    pub spec: TrainingSpec,
    /// The data in the units of the fit.
    pub(super) data: Dataset,
    units: Option<Standardization>,
    fingerprint: Fingerprint,
    constant: Vec<String>,
    pub(super) targets: Matrix<bool>,
    pub(super) design: Design,
    /// The functions of a basis model, in the data's units.
    basis: Option<Arc<Basis>>,
    pub(super) knowledge: Option<Knowledge>,
    /// What the fit does not do, and why.
    remarks: Vec<String>,
}

impl PreparedFit {
    /// Decides the settings, standardises the data and resolves the bandwidth.
    pub fn new(data: &Dataset, settings: &Settings) -> Result<PreparedFit> {
        PreparedFit::prepare(data, settings, None)
    }

    /// The same with prior knowledge of the effects between the data's variables.
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
        PreparedFit::prepare(
            data,
            settings,
            Some(knowledge).filter(|knowledge| !knowledge.edges().is_empty()),
        )
    }

    pub(super) fn prepare(
        data: &Dataset,
        settings: &Settings,
        knowledge: Option<Knowledge>,
    ) -> Result<PreparedFit> {
        let mut recipe = settings.settle()?;
        if let (Some(rival), true) = (recipe.solver.rival(), knowledge.is_some()) {
            return Err(Error::invalid(format!(
                "known edges are given with the method {}, expected none: it cannot use them",
                rival.kind()
            )));
        }
        let given = data;
        let units = recipe.standardize.then(|| Standardization::of(given));
        let data = units.as_ref().map_or_else(|| given.clone(), |units| units.apply(given));
        let bandwidth = resolve_bandwidth(&mut recipe, &data)?;
        let spec = training_spec(&recipe, &data, bandwidth)?;
        let targets = start::targets(&data, recipe.targets);
        let (design, basis) = design(&recipe.form, given, &data, units.as_ref(), knowledge.as_ref())?;
        let fingerprint = Fingerprint::of(given, &targets, knowledge.as_ref());
        let constant = given.constant_variables().into_iter().map(|j| given.names()[j].clone()).collect();
        let mut fit = PreparedFit {
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
            remarks: Vec::new(),
        };
        if let Some(choice) = fit.recipe.solver.adam().and_then(|adam| adam.choice)
            && let Err(reason) = TrainedChoice::of(&fit, choice)?
        {
            if settings.tune == Some(true) {
                return Err(Error::invalid(format!("tune is given, but {reason}")));
            }
            fit.remarks.push(format!(
                "The settings of the neural drift were not chosen by its predictions, because {reason}. It has the default ones."
            ));
            fit.recipe.give_up_choice();
            let bandwidth = resolve_bandwidth(&mut fit.recipe, &fit.data)?;
            fit.spec = training_spec(&fit.recipe, &fit.data, bandwidth)?;
        }
        Ok(fit)
    }

    /// The same fit with other settings, of the same form and targets.
    pub(super) fn with_settings(&self, settings: &Settings) -> Result<PreparedFit> {
        let mut recipe = settings.settle()?;
        let bandwidth = resolve_bandwidth(&mut recipe, &self.data)?;
        let spec = training_spec(&recipe, &self.data, bandwidth)?;
        Ok(PreparedFit { recipe, spec, ..self.clone() })
    }

    /// What the fit does not do, and why: sentences.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// The multipliers of the effects' penalties, if there is prior knowledge: see [`Knowledge::multipliers`].
    pub fn multipliers(&self) -> Option<&Matrix<f64>> {
        self.knowledge.as_ref().map(Knowledge::multipliers)
    }

    /// The fingerprint of the data and of the prior knowledge.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// The variables that are constant in the first environment.
    pub fn constant_variables(&self) -> &[String] {
        &self.constant
    }

    /// Parameters of a fit in the data's units.
    pub(super) fn in_data_units(&self, parameters: &Parameters<f64>) -> Result<Parameters<f64>> {
        match &self.units {
            Some(units) => parameters.in_units_of(units, self.basis.as_ref()),
            None => Ok(parameters.clone()),
        }
    }

    /// The model of a training state, stabilized if the settings ask for it, and its stability.
    pub fn model(&self, state: &State) -> Result<(Model, Stability)> {
        let (mut model, mut stability) = self.finish(state.parameters.cast(), &self.spec.loss)?;
        let round = self.round_of(state.steps);
        if let Some(penalty) = self.penalty_of(round).filter(|_| round > 0) {
            stability.raised = Some(penalty.lambda);
            // Not a setting: as a setting it would be raised again.
            model.settings.insert("raised".into(), penalty.lambda.into());
        }
        Ok((model, stability))
    }

    /// Turns parameters in the units of the fit into a stabilized model in the data's units.
    pub(super) fn finish(&self, parameters: Parameters<f64>, loss: &LossSpec) -> Result<(Model, Stability)> {
        let mut model = Model { names: self.data.names().to_vec(), ..Model::new(parameters) };
        let stability = stabilize::stabilize(&mut model, &self.data, loss, self.recipe.stabilize)?;
        model.parameters = self.in_data_units(&model.parameters)?;
        self.describe(&mut model);
        Ok((model, stability))
    }

    /// Adds settings, names, targets and units to a model.
    pub(super) fn describe(&self, model: &mut Model) {
        let settings = serde_json::to_value(self.recipe.to_settings()).expect("settings serialise");
        model.settings = settings.as_object().expect("settings are an object").clone().into_iter().collect();
        model.names = self.data.names().to_vec();
        model.named = true;
        model.targets = Some(self.targets.clone());
        model.reference = self.units.clone();
        model.cells = self.data.cells().cloned();
    }
}

/// Replaces a bandwidth that depends on the data by its value, and returns the value; 1 if the fit has no single bandwidth.
fn resolve_bandwidth(recipe: &mut Recipe, data: &Dataset) -> Result<f64> {
    let (Solver::Exact { fixed, .. } | Solver::Adam { fixed, .. }) = &mut recipe.solver else {
        return Ok(1.0);
    };
    if !recipe.kernel.has_bandwidth() {
        return Ok(1.0);
    }
    let bandwidth = fixed.bandwidth.resolve(data, recipe.seed)?;
    fixed.bandwidth = Bandwidth::Value(bandwidth);
    Ok(bandwidth)
}

/// What training minimises, and on which batches.
fn training_spec(recipe: &Recipe, data: &Dataset, bandwidth: f64) -> Result<TrainingSpec> {
    let (optimiser, batches) = match recipe.solver.adam() {
        None => (OptimiserKind::default().standard(), None),
        Some(AdamRecipe { optimiser, batch, envs_per_step, learning_rate, .. }) => {
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
            bounds::check_training(recipe, data.dim(), environments)?;
            let optimiser = optimiser.standard().with_learning_rate(*learning_rate);
            (optimiser, Some(Batches { seed: recipe.seed, rows: *batch, environments }))
        }
    };
    Ok(TrainingSpec {
        loss: LossSpec {
            objective: recipe.objective,
            kernel: recipe.kernel.with_bandwidth(bandwidth)?,
            estimator: recipe.solver.pairs(),
        },
        penalty: recipe.solver.strength().and_then(|strength| strength.penalty()),
        optimiser,
        batches,
    })
}

/// The design of the exact solver and, for a basis model, its functions in the data's units. `given` is the data before `units`
/// standardised it.
fn design(
    form: &DriftForm,
    given: &Dataset,
    data: &Dataset,
    units: Option<&Standardization>,
    knowledge: Option<&Knowledge>,
) -> Result<(Design, Option<Arc<Basis>>)> {
    let DriftForm::Basis { features, diffusion } = form else { return Ok((Design::Linear, None)) };
    let (own, fitted) = match units {
        Some(units) => Basis::with_standard(features, diffusion, given, units)?,
        None => {
            let basis = Basis::new(features, diffusion, given)?;
            (basis.clone(), basis)
        }
    };
    let multipliers = knowledge.map(Knowledge::multipliers);
    Ok((Design::basis_knowing(Arc::new(fitted), data, multipliers)?, Some(Arc::new(own))))
}
