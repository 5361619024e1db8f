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
            Solver::Adam { fixed, adam, .. } => Some(PenaltyStrength {
                penalty: fixed.penalty,
                lambda: fixed.lambda,
                ingoing: adam.ingoing,
            }),
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

impl Recipe {
    /// Complete settings, which settle to this recipe again.
    pub fn to_settings(&self) -> Settings {
        if let Solver::Rival(rival) = &self.solver {
            return self.rival_settings(rival);
        }
        let (fixed, adam, strength) = (self.solver.fixed(), self.solver.adam(), self.solver.strength());
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
        let estimator = kernel.and_then(KernelChoice::kind).map(|_| match self.solver.pairs() {
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
            tune: adam.is_none().then_some(strength.is_none()),
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
