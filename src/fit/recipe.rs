//! A recipe: the settings of a fit with everything decided.

use super::{
    EnvironmentsPerStep, EstimatorChoice, KernelChoice, ModelKind, PenaltyChoice, Settings, SolverChoice,
    TargetChoice,
};
use crate::data::Dataset;
use crate::engine::OptimiserKind;
use crate::kernel::{Bandwidth, KernelKind};
use crate::model::basis::FeatureChoice;
use crate::model::{Activation, IngoingScale, LawKind, Penalty};
use crate::objective::{Estimator, Objective};
use crate::rival::{RivalKind, RivalSettings};

/// Everything that a fit depends on besides the data. [`Settings::settle`] returns it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Recipe {
    /// The drift.
    pub form: DriftForm,
    /// Whether a linear model is a diffusion or a set of structural equations, unless the fit chooses that.
    pub law: LawKind,
    /// The loss over pairs, if the fit has one.
    pub objective: Objective,
    /// Its kernel.
    pub kernel: KernelKind,
    /// How the loss is minimised.
    pub solver: Solver,
    /// Whether interventions may also change the noise of their targets.
    pub learn_scale: bool,
    /// Whether the fit standardises the data by the first environment.
    pub standardize: bool,
    /// Which variables environments may intervene on.
    pub targets: TargetChoice,
    /// Whether an unstable model is replaced by a stable one.
    pub stabilize: bool,
    /// The seed of every random choice.
    pub seed: u64,
}

/// The form of the drift.
#[derive(Clone, Debug, PartialEq)]
pub enum DriftForm {
    /// b(x) = W x + biases.
    Linear,
    /// One network per variable.
    Mlp {
        /// Hidden units of each.
        hidden: usize,
        /// Their nonlinearity.
        activation: Activation,
    },
    /// A sum of given functions.
    Basis {
        /// The functions of the drift.
        features: FeatureChoice,
        /// The functions of the squared noise.
        diffusion: String,
    },
}

impl DriftForm {
    /// Its name.
    pub fn kind(&self) -> ModelKind {
        match self {
            DriftForm::Linear => ModelKind::Linear,
            DriftForm::Mlp { .. } => ModelKind::Mlp,
            DriftForm::Basis { .. } => ModelKind::Basis,
        }
    }
}

/// How the loss is minimised.
#[derive(Clone, Debug, PartialEq)]
pub enum Solver {
    /// The convex minimum over all pairs, at one bandwidth and penalty.
    Exact {
        /// Which pairs.
        pairs: Estimator,
        /// The bandwidth and the penalty.
        fixed: FixedSettings,
    },
    /// The convex minimum of KDS with the quadratic kernel, which depends only on means and covariances, at one penalty.
    Moments(PenaltyStrength),
    /// Structural equations by maximum likelihood, at one penalty.
    Structural(PenaltyStrength),
    /// A linear model, or an average of several, chosen by how well they predict held-out data.
    Chosen {
        /// The candidates besides the model without effects.
        candidates: CandidateSet,
        /// Which pairs SKDS averages over.
        pairs: Estimator,
    },
    /// A model of given functions, chosen among the convex minima at many bandwidths and penalties by the loss on held-out data.
    Tuned {
        /// Which pairs.
        pairs: Estimator,
    },
    /// A rival method.
    Rival(RivalRecipe),
    /// Steps of Adam on batches.
    Adam {
        /// Which pairs of a batch.
        pairs: Estimator,
        /// The bandwidth and the penalty.
        fixed: FixedSettings,
        /// The steps.
        adam: AdamRecipe,
    },
}

/// A rival method with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct RivalRecipe(pub(super) RivalSettings);

impl RivalRecipe {
    /// Which method.
    pub fn kind(&self) -> RivalKind {
        self.0.kind()
    }

    /// What the progress of a fit to this data counts to.
    pub(crate) fn work(&self, data: &Dataset) -> u64 {
        self.0.work(data)
    }
}

/// The candidates of a choice among linear models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateSet {
    /// All of these.
    All,
    /// KDS by moments and SKDS.
    Diffusions,
    /// KDS by moments.
    Kds,
    /// SKDS.
    Skds,
    /// Structural equations.
    Structural,
}

/// A penalty and its weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PenaltyStrength {
    /// What is penalised.
    pub penalty: PenaltyChoice,
    /// Its weight λ.
    pub lambda: f64,
    /// How single effects add up; none means as published for the model.
    pub ingoing: Option<IngoingScale>,
}

impl PenaltyStrength {
    /// The penalty, if there is one.
    pub fn penalty(&self) -> Option<Penalty> {
        self.penalty.kind().map(|kind| Penalty { kind, lambda: self.lambda, ingoing: self.ingoing })
    }
}

/// A bandwidth and a penalty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FixedSettings {
    /// Of the kernel.
    pub bandwidth: Bandwidth,
    /// What is penalised.
    pub penalty: PenaltyChoice,
    /// Its weight λ.
    pub lambda: f64,
}

/// The settings of Adam.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamRecipe {
    /// What takes them.
    pub optimiser: OptimiserKind,
    /// How many steps.
    pub steps: u32,
    /// Rows per environment and step.
    pub batch: usize,
    /// Environments per step.
    pub envs_per_step: EnvironmentsPerStep,
    /// The step size.
    pub learning_rate: f64,
    /// How penalties of single effects add up; none means as published for the model.
    pub ingoing: Option<IngoingScale>,
    /// What the fit chooses before it trains; none if loss, bandwidth and penalty are given.
    pub choice: Option<TrainingChoice>,
}

/// The losses that a choice among trained models compares, each at several bandwidths and penalties.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainingChoice {
    /// The loss; none for KDS and SKDS.
    pub objective: Option<Objective>,
    /// Its kernel; none for the one that the loss was published with.
    pub kernel: Option<KernelKind>,
}

impl TrainingChoice {
    /// The losses and their kernels.
    pub fn losses(&self) -> Vec<(Objective, KernelKind)> {
        let published = |objective| match objective {
            Objective::Kds => KernelKind::Rbf,
            Objective::Skds => KernelKind::TiltedRbf,
        };
        let all = [Objective::Kds, Objective::Skds].into_iter();
        all.filter(|objective| self.objective.is_none_or(|given| given == *objective))
            .map(|objective| (objective, self.kernel.unwrap_or(published(objective))))
            .collect()
    }
}

impl Solver {
    /// Which pairs the loss averages over; all for fits by moments.
    pub fn pairs(&self) -> Estimator {
        match self {
            Solver::Exact { pairs, .. }
            | Solver::Chosen { pairs, .. }
            | Solver::Tuned { pairs }
            | Solver::Adam { pairs, .. } => *pairs,
            Solver::Moments(_) | Solver::Structural(_) | Solver::Rival(_) => Estimator::V,
        }
    }

    /// The bandwidth and the penalty, if the fit has one of each.
    pub fn fixed(&self) -> Option<&FixedSettings> {
        match self {
            Solver::Exact { fixed, .. } | Solver::Adam { fixed, .. } => Some(fixed),
            _ => None,
        }
    }

    /// The penalty and its weight, unless the fit chooses them.
    pub fn strength(&self) -> Option<PenaltyStrength> {
        match self {
            Solver::Exact { fixed, .. } => {
                Some(PenaltyStrength { penalty: fixed.penalty, lambda: fixed.lambda, ingoing: None })
            }
            Solver::Adam { fixed, adam, .. } => {
                Some(PenaltyStrength { penalty: fixed.penalty, lambda: fixed.lambda, ingoing: adam.ingoing })
            }
            Solver::Moments(strength) | Solver::Structural(strength) => Some(*strength),
            Solver::Rival(_) | Solver::Chosen { .. } | Solver::Tuned { .. } => None,
        }
    }

    /// The rival method, if it is one.
    pub fn rival(&self) -> Option<&RivalRecipe> {
        match self {
            Solver::Rival(rival) => Some(rival),
            _ => None,
        }
    }

    /// The settings of Adam, if it is Adam.
    pub fn adam(&self) -> Option<&AdamRecipe> {
        match self {
            Solver::Adam { adam, .. } => Some(adam),
            _ => None,
        }
    }
}

/// The weight of a penalty if none is given. Those of neural drifts did best on simulated systems (seeds 400 to 402 of three kinds).
pub(super) fn default_lambda(form: &DriftForm, objective: Objective) -> f64 {
    match (form, objective) {
        (DriftForm::Mlp { .. }, Objective::Kds) => 0.03,
        (DriftForm::Mlp { .. }, Objective::Skds) => 0.01,
        _ => 0.1,
    }
}

impl Recipe {
    /// Takes default settings in place of a choice.
    pub(super) fn give_up_choice(&mut self) {
        if let Solver::Adam { adam, fixed, .. } = &mut self.solver
            && let Some(choice) = adam.choice.take()
        {
            (self.objective, self.kernel) = choice.losses()[0];
            fixed.lambda = default_lambda(&self.form, self.objective);
        }
    }

    /// Complete settings, which settle to this recipe again.
    pub fn to_settings(&self) -> Settings {
        if let Solver::Rival(rival) = &self.solver {
            return self.rival_settings(rival);
        }
        let (fixed, adam, strength) = (self.solver.fixed(), self.solver.adam(), self.solver.strength());
        let choice = adam.and_then(|adam| adam.choice);
        // What is chosen is no setting.
        let (fixed, strength) = (fixed.filter(|_| choice.is_none()), strength.filter(|_| choice.is_none()));
        let (hidden, activation) = match self.form {
            DriftForm::Mlp { hidden, activation } => (Some(hidden), Some(activation)),
            _ => (None, None),
        };
        let (features, diffusion) = match &self.form {
            DriftForm::Basis { features, diffusion } => (Some(features.clone()), Some(diffusion.clone())),
            _ => (None, None),
        };
        let quadratic = Some(KernelChoice::Quadratic);
        let (law, objective, kernel) = match &self.solver {
            Solver::Adam { adam: AdamRecipe { choice: Some(choice), .. }, .. } => {
                (None, choice.objective, choice.kernel.map(KernelChoice::Pairs))
            }
            Solver::Chosen { candidates: CandidateSet::All, .. } => (None, None, None),
            Solver::Chosen { candidates: CandidateSet::Diffusions, .. } => {
                (Some(LawKind::Diffusion), None, None)
            }
            Solver::Chosen { candidates: CandidateSet::Structural, .. } | Solver::Structural(_) => {
                (Some(LawKind::Structural), None, None)
            }
            Solver::Chosen { candidates: CandidateSet::Kds, .. } | Solver::Moments(_) => {
                (None, Some(Objective::Kds), quadratic)
            }
            _ => (None, Some(self.objective), Some(KernelChoice::Pairs(self.kernel))),
        };
        // A fit that does not average over pairs has no estimator.
        let averages = adam.is_some() || kernel.and_then(KernelChoice::kind).is_some();
        let estimator = averages.then(|| match self.solver.pairs() {
            Estimator::Linear => EstimatorChoice::Linear,
            Estimator::U => EstimatorChoice::U,
            Estimator::V => EstimatorChoice::V,
        });
        Settings {
            method: None,
            alpha: None,
            layers: None,
            epochs: None,
            power_iterations: None,
            solver: Some(adam.map_or(SolverChoice::Exact, |adam| SolverChoice::of(adam.optimiser))),
            tune: match adam {
                Some(_) => choice.map(|_| true),
                None => Some(strength.is_none()),
            },
            model: Some(self.form.kind()),
            hidden,
            activation,
            features,
            diffusion,
            law,
            objective,
            kernel,
            bandwidth: fixed.map(|fixed| fixed.bandwidth),
            estimator,
            penalty: strength.map(|strength| strength.penalty),
            lambda: strength.map(|strength| strength.lambda),
            ingoing: adam.and_then(|adam| adam.ingoing),
            steps: adam.map(|adam| adam.steps),
            batch: adam.map(|adam| adam.batch),
            envs_per_step: adam.map(|adam| adam.envs_per_step),
            learning_rate: adam.map(|adam| adam.learning_rate),
            learn_scale: Some(self.learn_scale),
            standardize: Some(self.standardize),
            targets: Some(self.targets),
            stabilize: Some(self.stabilize),
            seed: Some(self.seed),
        }
    }
}
