//! From [`Settings`] to a [`Recipe`]: every default is here, and every refusal of settings that contradict each other.

use super::recipe::{
    AdamRecipe, CandidateSet, DriftForm, FixedSettings, PenaltyStrength, Recipe, Solver, TrainingChoice,
    default_lambda,
};
use super::{
    EnvironmentsPerStep, EstimatorChoice, KernelChoice, ModelKind, PenaltyChoice, Settings, SolverChoice,
    TargetChoice, bounds,
};
use crate::engine::OptimiserKind;
use crate::kernel::{Bandwidth, KernelKind};
use crate::model::basis::FeatureChoice;
use crate::model::{Activation, LawKind};
use crate::objective::{Estimator, Objective};
use crate::{Error, Result};

impl Settings {
    /// Decides every setting that was not given, and refuses settings that contradict each other.
    pub fn settle(&self) -> Result<Recipe> {
        if let Some(kind) = self.method {
            return self.settle_rival(kind);
        }
        if let Some(name) = self.rival_options().of_rivals_alone() {
            return Err(Error::invalid(format!(
                "{name} is given without a method, expected one that has it"
            )));
        }
        let form = self.form()?;
        self.check_law(&form)?;
        self.check_quadratic(&form)?;
        let solver = self.solver(&form)?;
        let recipe = Recipe {
            form,
            law: self.law.unwrap_or_default(),
            objective: match &solver {
                Solver::Moments(_) | Solver::Chosen { candidates: CandidateSet::Kds, .. } => Objective::Kds,
                _ => self.objective.unwrap_or(Objective::Skds),
            },
            kernel: self.kernel.and_then(KernelChoice::kind).unwrap_or(KernelKind::TiltedRbf),
            solver,
            learn_scale: self.learn_scale.unwrap_or(false),
            standardize: self.standardize.unwrap_or(true),
            targets: self.targets.unwrap_or(TargetChoice::Known),
            stabilize: self.stabilize.unwrap_or(true),
            seed: self.seed.unwrap_or(0),
        };
        bounds::check(&recipe)?;
        Ok(recipe)
    }

    /// Structural equations are linear, and have neither a loss over pairs nor steps of Adam. The law belongs to linear models.
    fn check_law(&self, form: &DriftForm) -> Result<()> {
        if self.law.is_some() && *form != DriftForm::Linear {
            return Err(Error::invalid(format!(
                "law is given with the model {}, expected the model linear",
                form.kind()
            )));
        }
        let of_pairs = [
            ("objective", self.objective.is_some()),
            ("kernel", self.kernel.is_some()),
            ("bandwidth", self.bandwidth.is_some()),
            ("estimator", self.estimator.is_some()),
        ];
        let solver = self.optimiser().map(|_| self.named_solver());
        let others =
            first_given(&[("learn_scale", self.learn_scale == Some(true))]).or(self.option_of_training());
        let given = first_given(&of_pairs).map(str::to_owned).or(solver).or(others.map(str::to_owned));
        match (self.law, given) {
            (Some(LawKind::Structural), Some(name)) => Err(Error::invalid(format!(
                "{name} is given with the law structural, expected the law diffusion for it"
            ))),
            _ => Ok(()),
        }
    }

    /// The quadratic kernel is for KDS of a linear model, which then depends only on moments.
    fn check_quadratic(&self, form: &DriftForm) -> Result<()> {
        if self.kernel != Some(KernelChoice::Quadratic) {
            return Ok(());
        }
        let refused = |found: &str, expected: &str| {
            Err(Error::invalid(format!("{found} is given with the kernel quadratic, expected {expected}")))
        };
        match self {
            _ if *form != DriftForm::Linear => {
                refused(&format!("the model {}", form.kind()), "the model linear")
            }
            Settings { objective: Some(Objective::Skds), .. } => refused("the objective skds", "kds"),
            _ if self.optimiser().is_some() => refused(&self.named_solver(), "the exact one"),
            Settings { bandwidth: Some(_), .. } => refused("bandwidth", "none: the kernel has none"),
            Settings { estimator: Some(_), .. } => refused("estimator", "none: moments count, not pairs"),
            _ => match self.option_of_training() {
                Some(option) => refused(option, "the exact solver"),
                None => Ok(()),
            },
        }
    }

    fn form(&self) -> Result<DriftForm> {
        let kind = self.model.unwrap_or(ModelKind::Linear);
        let only_for = |wanted: ModelKind, given: &[(&'static str, bool)]| match first_given(given) {
            Some(name) if kind != wanted => Err(Error::invalid(format!(
                "{name} is given with the model {kind}, expected the model {wanted}"
            ))),
            _ => Ok(()),
        };
        only_for(
            ModelKind::Mlp,
            &[("hidden", self.hidden.is_some()), ("activation", self.activation.is_some())],
        )?;
        only_for(
            ModelKind::Basis,
            &[("features", self.features.is_some()), ("diffusion", self.diffusion.is_some())],
        )?;
        Ok(match kind {
            ModelKind::Linear => DriftForm::Linear,
            ModelKind::Mlp => DriftForm::Mlp {
                hidden: self.hidden.unwrap_or(8),
                activation: self.activation.unwrap_or(Activation::Sigmoid),
            },
            ModelKind::Basis => DriftForm::Basis {
                features: self.features.clone().unwrap_or(FeatureChoice::Polynomial(2)),
                diffusion: self.diffusion.clone().unwrap_or_else(|| "1".into()),
            },
        })
    }

    /// The optimiser that the solver names, if it names one.
    fn optimiser(&self) -> Option<OptimiserKind> {
        self.solver.and_then(SolverChoice::optimiser)
    }

    /// The solver that takes steps, in a sentence.
    fn named_solver(&self) -> String {
        format!("the solver {}", self.optimiser().unwrap_or_default())
    }

    /// The first given setting that only training has.
    fn option_of_training(&self) -> Option<&'static str> {
        let given = [
            ("steps", self.steps.is_some()),
            ("batch", self.batch.is_some()),
            ("envs_per_step", self.envs_per_step.is_some()),
            ("learning_rate", self.learning_rate.is_some()),
            ("ingoing", self.ingoing.is_some()),
            ("the estimator linear", self.estimator == Some(EstimatorChoice::Linear)),
        ];
        first_given(&given)
    }

    /// Which solver: the exact one where it applies, unless an option of training is given.
    fn solver(&self, form: &DriftForm) -> Result<Solver> {
        let exact = self.is_exact(form)?;
        let pairs = match self.estimator.unwrap_or(EstimatorChoice::Auto) {
            EstimatorChoice::Auto if exact => Estimator::V,
            EstimatorChoice::Auto | EstimatorChoice::Linear => Estimator::Linear,
            EstimatorChoice::U => Estimator::U,
            EstimatorChoice::V => Estimator::V,
        };
        let fixed = FixedSettings {
            bandwidth: self.bandwidth.unwrap_or(Bandwidth::Auto),
            penalty: self.penalty.unwrap_or(PenaltyChoice::Both),
            lambda: self
                .lambda
                .unwrap_or_else(|| default_lambda(form, self.objective.unwrap_or(Objective::Skds))),
        };
        match (exact, self.tune) {
            (true, _) => self.exact_solver(form, pairs, fixed),
            (false, Some(true)) if !matches!(form, DriftForm::Mlp { .. }) => {
                let solver = self.named_solver();
                Err(Error::invalid(format!(
                    "tune is given with {solver} and the model {}, expected the exact solver or the model mlp",
                    form.kind()
                )))
            }
            (false, _) => Ok(Solver::Adam { pairs, fixed, adam: self.adam(form)? }),
        }
    }

    fn adam(&self, form: &DriftForm) -> Result<AdamRecipe> {
        let optimiser = self.optimiser().unwrap_or_default();
        let chooses = matches!(form, DriftForm::Mlp { .. }) && self.chooses_settings()?;
        Ok(AdamRecipe {
            optimiser,
            steps: self.steps.unwrap_or(20_000),
            batch: self.batch.unwrap_or(512),
            envs_per_step: self.envs_per_step.unwrap_or(EnvironmentsPerStep::Some(1)),
            learning_rate: self.learning_rate.unwrap_or(optimiser.standard().learning_rate()),
            ingoing: self.ingoing,
            choice: chooses.then(|| TrainingChoice {
                objective: self.objective,
                kernel: self.kernel.and_then(KernelChoice::kind),
            }),
        })
    }

    /// Which exact solver, and whether it chooses its settings.
    fn exact_solver(&self, form: &DriftForm, pairs: Estimator, fixed: FixedSettings) -> Result<Solver> {
        let chooses = self.chooses_settings()?;
        if matches!(form, DriftForm::Basis { .. }) {
            return Ok(if chooses { Solver::Tuned { pairs } } else { Solver::Exact { pairs, fixed } });
        }
        // Single effects are the default here, as in the choice of these penalties.
        let penalty = self.penalty.unwrap_or(PenaltyChoice::Ingoing);
        let strength = PenaltyStrength { penalty, lambda: fixed.lambda, ingoing: None };
        Ok(match self.candidate_set() {
            None if self.tune == Some(true) => {
                return Err(Error::invalid(
                    "tune is given with kds over pairs, expected the kernel quadratic or a penalty",
                ));
            }
            None => Solver::Exact { pairs, fixed },
            Some(candidates) if chooses => Solver::Chosen { candidates, pairs },
            Some(CandidateSet::Kds) => Solver::Moments(strength),
            Some(CandidateSet::Structural) => Solver::Structural(strength),
            Some(CandidateSet::All | CandidateSet::Diffusions | CandidateSet::Skds) => {
                Solver::Exact { pairs, fixed }
            }
        })
    }

    /// Whether the fit chooses its settings: if asked to, and by default where none of them is given.
    fn chooses_settings(&self) -> Result<bool> {
        let chosen = [
            ("bandwidth", self.bandwidth.is_some()),
            ("penalty", self.penalty.is_some()),
            ("lambda", self.lambda.is_some()),
        ];
        match (self.tune, first_given(&chosen)) {
            (Some(true), Some(given)) => Err(Error::invalid(format!(
                "{given} is given together with tune, which chooses it, expected one of them"
            ))),
            (Some(tune), _) => Ok(tune),
            (None, given) => Ok(given.is_none()),
        }
    }

    /// The candidates for the choice of a linear model; none for KDS over pairs, whose settings are not chosen.
    fn candidate_set(&self) -> Option<CandidateSet> {
        if self.law == Some(LawKind::Structural) {
            return Some(CandidateSet::Structural);
        }
        // A kernel with a bandwidth, or an estimator, means a loss over pairs.
        let pairs = self.kernel.and_then(KernelChoice::kind).is_some()
            || self.bandwidth.is_some()
            || self.estimator.is_some_and(|estimator| estimator != EstimatorChoice::Auto);
        match (self.objective, self.kernel) {
            (_, Some(KernelChoice::Quadratic)) => Some(CandidateSet::Kds),
            (Some(Objective::Kds), _) if pairs => None,
            (Some(Objective::Kds), _) => Some(CandidateSet::Kds),
            (Some(Objective::Skds), _) => Some(CandidateSet::Skds),
            (None, _) if pairs => Some(CandidateSet::Skds),
            (None, _) if self.law == Some(LawKind::Diffusion) => Some(CandidateSet::Diffusions),
            (None, _) => Some(CandidateSet::All),
        }
    }

    /// Whether the exact solver fits this.
    fn is_exact(&self, form: &DriftForm) -> Result<bool> {
        let objective = self.objective.unwrap_or(Objective::Skds);
        let applies = match form {
            DriftForm::Linear => true,
            DriftForm::Basis { .. } => objective == Objective::Skds,
            DriftForm::Mlp { .. } => false,
        };
        let asked = self.solver.unwrap_or(SolverChoice::Auto);
        let option = self.option_of_training();
        let exact = match (asked, option) {
            (SolverChoice::Auto, None) => applies,
            (SolverChoice::Auto, Some(_)) => false,
            (asked, _) if asked.optimiser().is_some() => false,
            (_, Some(option)) => {
                return Err(Error::invalid(format!(
                    "{option} is given with the exact solver, expected the solver adam for it"
                )));
            }
            (_, None) if applies => true,
            (_, None) => {
                return Err(Error::invalid(format!(
                    "the exact solver is asked for with the objective {objective} and the model {}, expected the model linear, or \
                     skds with the model basis",
                    form.kind()
                )));
            }
        };
        if !exact && matches!(form, DriftForm::Basis { .. }) {
            let found = match (option, objective) {
                (Some(option), _) => option.to_owned(),
                (None, Objective::Kds) => "the objective kds".into(),
                (None, _) => self.named_solver(),
            };
            return Err(Error::invalid(format!(
                "{found} is given with the model basis, expected skds over all pairs by the exact solver"
            )));
        }
        Ok(exact)
    }
}

/// The name of the first setting that is given.
fn first_given(settings: &[(&'static str, bool)]) -> Option<&'static str> {
    settings.iter().find(|(_, is_given)| *is_given).map(|(name, _)| *name)
}
