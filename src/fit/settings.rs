//! What a fit is told, at every door alike: flags, TOML files, requests, experiment plans and library calls.
//!
//! Nothing here has a default. What is not given is `None`, and [`Settings::settle`] alone turns what was given into a
//! [`Recipe`], in which everything is decided.

use super::recipe::{AdamRecipe, CandidateSet, DriftForm, FixedSettings, PenaltyStrength, Recipe, Solver};
use super::{
    EnvironmentsPerStep, EstimatorChoice, KernelChoice, ModelKind, PenaltyChoice, SolverChoice, TargetChoice,
    bounds,
};
use crate::kernel::{Bandwidth, KernelKind};
use crate::model::basis::FeatureChoice;
use crate::model::{Activation, LawKind};
use crate::named::by_name;
use crate::objective::{Estimator, Objective};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
#[cfg(feature = "cli")]
use std::path::Path;

/// Declares [`Settings`]: every field optional, left out of files where it is not given.
macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $($with:literal)? $name:ident: $kind:ty,)+) => {
        /// The settings of a fit, as far as they were given. In files, names are those of the flags with `_` for `-`.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Settings {
            $(
                $(#[doc = $doc])+
                #[serde($(with = $with,)? skip_serializing_if = "Option::is_none")]
                pub $name: Option<$kind>,
            )+
        }

        impl Settings {
            /// These settings, with what `others` give put over them.
            pub fn overlaid(self, others: Settings) -> Settings {
                Settings { $($name: others.$name.or(self.$name),)+ }
            }
        }
    };
}

settings! {
    /// How the loss is minimised.
    "by_name::optional" solver: SolverChoice,
    /// Whether the exact solver chooses by what is predicted. If nothing is said, it does so when neither a bandwidth nor a
    /// penalty is given.
    tune: bool,
    /// The drift.
    "by_name::optional" model: ModelKind,
    /// Hidden units per variable (MLP).
    hidden: usize,
    /// The nonlinearity (MLP).
    "by_name::optional" activation: Activation,
    /// The functions that the drift is made of (basis).
    "by_name::optional" features: FeatureChoice,
    /// The functions that squared noises are made of (basis): expressions, `self` being the variable, between commas.
    diffusion: String,
    /// What the noise of a linear drift does.
    "by_name::optional" law: LawKind,
    /// The loss.
    "by_name::optional" objective: Objective,
    /// The kernel.
    "by_name::optional" kernel: KernelChoice,
    /// Its bandwidth, in the units of the fit: standard deviations of the first environment unless the fit takes the data
    /// as it is.
    "by_name::optional" bandwidth: Bandwidth,
    /// The pairs.
    "by_name::optional" estimator: EstimatorChoice,
    /// What is penalised.
    "by_name::optional" penalty: PenaltyChoice,
    /// How strongly.
    lambda: f64,
    /// Steps of Adam.
    steps: u32,
    /// Rows per environment and step.
    batch: usize,
    /// Environments per step.
    "by_name::optional" envs_per_step: EnvironmentsPerStep,
    /// Adam's step size.
    learning_rate: f64,
    /// Whether interventions may change the noise of their targets too.
    learn_scale: bool,
    /// Whether to centre and scale by the first environment before fitting. The model is in the data's units either way.
    standardize: bool,
    /// Which variables environments may intervene on.
    "by_name::optional" targets: TargetChoice,
    /// Whether an unstable model is replaced by a stable one.
    stabilize: bool,
    /// The seed of every random choice.
    seed: u64,
}

impl Settings {
    /// Reads a TOML file.
    #[cfg(feature = "cli")]
    pub fn read(path: &Path) -> Result<Self> {
        crate::files::input::toml(path)
    }

    /// Decides everything that was not given, and refuses what cannot be meant together.
    pub fn settle(&self) -> Result<Recipe> {
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

    /// Structural equations are linear, and have neither a loss over pairs nor steps of Adam.
    fn check_law(&self, form: &DriftForm) -> Result<()> {
        if self.law.is_some() && *form != DriftForm::Linear {
            return Err(Error::invalid(format!(
                "law is given with the model {}, expected the model linear",
                form.kind()
            )));
        }
        let given = [
            ("objective", self.objective.is_some()),
            ("kernel", self.kernel.is_some()),
            ("bandwidth", self.bandwidth.is_some()),
            ("estimator", self.estimator.is_some()),
            ("the solver adam", self.solver == Some(SolverChoice::Adam)),
            ("learn_scale", self.learn_scale == Some(true)),
        ];
        let given = given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name);
        match (self.law, given.or(self.option_of_adam())) {
            (Some(LawKind::Structural), Some(name)) => Err(Error::invalid(format!(
                "{name} is given with the law structural, expected the law diffusion for it"
            ))),
            _ => Ok(()),
        }
    }

    /// With the quadratic kernel KDS of a linear model sees moments alone.
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
            Settings { solver: Some(SolverChoice::Adam), .. } => refused("the solver adam", "the exact one"),
            Settings { bandwidth: Some(_), .. } => refused("bandwidth", "none: the kernel has none"),
            Settings { estimator: Some(_), .. } => refused("estimator", "none: moments count, not pairs"),
            _ => match self.option_of_adam() {
                Some(option) => refused(option, "the exact solver"),
                None => Ok(()),
            },
        }
    }

    fn form(&self) -> Result<DriftForm> {
        let kind = self.model.unwrap_or(ModelKind::Linear);
        let only_for = |wanted: ModelKind, given: &[(&str, bool)]| match given
            .iter()
            .find(|(_, is_given)| *is_given && kind != wanted)
        {
            None => Ok(()),
            Some((name, _)) => Err(Error::invalid(format!(
                "{name} is given with the model {kind}, expected the model {wanted}"
            ))),
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

    /// The first option of Adam that is given, if any.
    fn option_of_adam(&self) -> Option<&'static str> {
        let given = [
            ("steps", self.steps.is_some()),
            ("batch", self.batch.is_some()),
            ("envs_per_step", self.envs_per_step.is_some()),
            ("learning_rate", self.learning_rate.is_some()),
            ("the estimator linear", self.estimator == Some(EstimatorChoice::Linear)),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// Which solver: the exact one where it applies, unless an option of Adam is given.
    fn solver(&self, form: &DriftForm) -> Result<Solver> {
        let exact = self.is_exact(form)?;
        let strength = [
            ("bandwidth", self.bandwidth.is_some()),
            ("penalty", self.penalty.is_some()),
            ("lambda", self.lambda.is_some()),
        ];
        let given = strength.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name);
        let pairs = match self.estimator.unwrap_or(EstimatorChoice::Auto) {
            EstimatorChoice::Auto if exact => Estimator::V,
            EstimatorChoice::Auto | EstimatorChoice::Linear => Estimator::Linear,
            EstimatorChoice::U => Estimator::U,
            EstimatorChoice::V => Estimator::V,
        };
        let fixed = FixedSettings {
            bandwidth: self.bandwidth.unwrap_or(Bandwidth::Auto),
            penalty: self.penalty.unwrap_or(PenaltyChoice::Both),
            lambda: self.lambda.unwrap_or(0.1),
        };
        if !exact {
            if self.tune == Some(true) {
                return Err(Error::invalid("tune is given with the solver adam, expected the exact solver"));
            }
            let adam = AdamRecipe {
                steps: self.steps.unwrap_or(20_000),
                batch: self.batch.unwrap_or(512),
                envs_per_step: self.envs_per_step.unwrap_or(EnvironmentsPerStep::Some(1)),
                learning_rate: self.learning_rate.unwrap_or(1e-3),
            };
            return Ok(Solver::Adam { pairs, fixed, adam });
        }
        let chooses = match (self.tune, given) {
            (Some(true), Some(given)) => {
                return Err(Error::invalid(format!(
                    "{given} is given together with tune, which chooses it, expected one of them"
                )));
            }
            (Some(tune), _) => tune,
            (None, given) => given.is_none(),
        };
        if matches!(form, DriftForm::Basis { .. }) {
            return Ok(if chooses { Solver::Tuned { pairs } } else { Solver::Exact { pairs, fixed } });
        }
        // Single effects, as where these penalties are chosen.
        let penalty = self.penalty.unwrap_or(PenaltyChoice::Ingoing);
        let strength = PenaltyStrength { penalty, lambda: fixed.lambda };
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

    /// The candidates for the choice of a linear model; none for KDS over pairs, whose settings are not chosen.
    fn candidate_set(&self) -> Option<CandidateSet> {
        if self.law == Some(LawKind::Structural) {
            return Some(CandidateSet::Structural);
        }
        // A kernel with a bandwidth, or an estimator, speaks of pairs.
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

    /// Whether the exact solver does it.
    fn is_exact(&self, form: &DriftForm) -> Result<bool> {
        let objective = self.objective.unwrap_or(Objective::Skds);
        let applies = match form {
            DriftForm::Linear => true,
            DriftForm::Basis { .. } => objective == Objective::Skds,
            DriftForm::Mlp { .. } => false,
        };
        let asked = self.solver.unwrap_or(SolverChoice::Auto);
        let option = self.option_of_adam();
        let exact = match (asked, option) {
            (SolverChoice::Adam, _) | (SolverChoice::Auto, Some(_)) => false,
            (SolverChoice::Auto, None) => applies,
            (SolverChoice::Exact, Some(option)) => {
                return Err(Error::invalid(format!(
                    "{option} is given with the exact solver, expected the solver adam for it"
                )));
            }
            (SolverChoice::Exact, None) if applies => true,
            (SolverChoice::Exact, None) => {
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
                (None, _) => "the solver adam".into(),
            };
            return Err(Error::invalid(format!(
                "{found} is given with the model basis, expected skds over all pairs by the exact solver"
            )));
        }
        Ok(exact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fit.toml");
        std::fs::write(&path, text).unwrap();
        Settings::read(&path)
    }

    fn settled(text: &str) -> Recipe {
        parse(text).unwrap().settle().unwrap()
    }

    #[test]
    fn a_file_gives_what_it_mentions_and_nothing_else() {
        let text =
            "model = \"mlp\"\nbandwidth = 7\nlambda = 0.01\nenvs_per_step = \"all\"\nkernel = \"rbf\"\n";
        let expected = Settings {
            model: Some(ModelKind::Mlp),
            bandwidth: Some(Bandwidth::Value(7.0)),
            lambda: Some(0.01),
            envs_per_step: Some(EnvironmentsPerStep::All),
            kernel: Some(KernelChoice::Pairs(KernelKind::Rbf)),
            ..Settings::default()
        };
        assert_eq!(parse(text).unwrap(), expected);
        assert_eq!(parse("").unwrap(), Settings::default());
        let flags = Settings { lambda: Some(0.5), seed: Some(3), ..Settings::default() };
        let both = expected.clone().overlaid(flags);
        assert_eq!(both, Settings { lambda: Some(0.5), seed: Some(3), ..expected });
    }

    #[test]
    fn a_value_that_is_given_counts_even_if_it_equals_the_default() {
        assert!(matches!(settled("").solver, Solver::Chosen { candidates: CandidateSet::All, .. }));
        for text in ["lambda = 0.1", "bandwidth = \"auto\"", "penalty = \"both\"", "tune = false"] {
            assert!(matches!(settled(text).solver, Solver::Exact { .. }), "{text}");
        }
        let of_adam = [
            "steps = 20000",
            "batch = 512",
            "envs_per_step = 1",
            "learning_rate = 0.001",
            "solver = \"adam\"",
        ];
        for text in of_adam.into_iter().chain(["estimator = \"linear\"", "model = \"mlp\""]) {
            assert!(matches!(settled(text).solver, Solver::Adam { .. }), "{text}");
        }
    }

    #[test]
    fn what_is_given_fixes_its_part_of_the_choice() {
        let candidate_set = |text: &str| match settled(text).solver {
            Solver::Chosen { candidates, .. } => Some(candidates),
            _ => None,
        };
        for (text, expected) in [
            ("", CandidateSet::All),
            ("solver = \"exact\"", CandidateSet::All),
            ("law = \"diffusion\"", CandidateSet::Diffusions),
            ("law = \"structural\"", CandidateSet::Structural),
            ("objective = \"kds\"", CandidateSet::Kds),
            ("kernel = \"quadratic\"", CandidateSet::Kds),
            ("objective = \"skds\"", CandidateSet::Skds),
            ("kernel = \"rbf\"", CandidateSet::Skds),
            ("estimator = \"u\"", CandidateSet::Skds),
        ] {
            assert_eq!(candidate_set(text), Some(expected), "{text}");
        }
        let by_moments = settled("objective = \"kds\"\nlambda = 0.2").solver;
        assert_eq!(
            by_moments,
            Solver::Moments(PenaltyStrength { penalty: PenaltyChoice::Ingoing, lambda: 0.2 })
        );
        let structural = settled("law = \"structural\"\npenalty = \"both\"").solver;
        assert_eq!(
            structural,
            Solver::Structural(PenaltyStrength { penalty: PenaltyChoice::Both, lambda: 0.1 })
        );
        // Over pairs KDS has one bandwidth and penalty.
        let pairs = settled("objective = \"kds\"\nkernel = \"rbf\"");
        assert!(matches!(pairs.solver, Solver::Exact { .. }) && pairs.objective == Objective::Kds);
        assert!(matches!(settled("objective = \"kds\"\nsteps = 9").solver, Solver::Adam { .. }));
    }

    #[test]
    fn a_recipe_as_settings_settles_to_itself() {
        for text in [
            "",
            "law = \"diffusion\"",
            "law = \"structural\"\nseed = 3",
            "law = \"structural\"\nlambda = 0.3\npenalty = \"none\"",
            "objective = \"kds\"",
            "objective = \"kds\"\nlambda = 0.3\nlearn_scale = true",
            "objective = \"kds\"\nkernel = \"imq-plus\"",
            "objective = \"kds\"\nsteps = 7",
            "objective = \"skds\"",
            "estimator = \"u\"\nkernel = \"rbf\"",
            "lambda = 0.1\nestimator = \"u\"\nstandardize = false",
            "steps = 100\nbandwidth = 2\nseed = 18446744073709551615",
            "model = \"mlp\"\nhidden = 3\nactivation = \"tanh\"\nstabilize = false",
            "model = \"basis\"\nfeatures = \"rbf:3\"\ndiffusion = \"1, self^2\"",
            "objective = \"kds\"\ntargets = \"unknown\"\nlearn_scale = true",
        ] {
            // A seed above 2^63 has no place in TOML.
            let text = text.replace("18446744073709551615", "77");
            let recipe = settled(&text);
            assert_eq!(recipe.to_settings().settle().unwrap(), recipe, "{text}");
            let json = serde_json::to_string(&recipe.to_settings()).unwrap();
            assert_eq!(serde_json::from_str::<Settings>(&json).unwrap(), recipe.to_settings());
        }
        let large = Settings { seed: Some(u64::MAX), ..Settings::default() };
        let json = serde_json::to_string(&large).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&json).unwrap(), large);
    }

    #[test]
    fn wrong_files_get_a_sentence() {
        for (text, piece) in [
            ("stepz = 3", "unknown field `stepz`"),
            ("\n\nkernel = \"laplace\"", "line 3: unknown kernel 'laplace', expected one of rbf"),
            ("steps = -1", "line 1: "),
            ("steps = ", "line 1: "),
            ("envs_per_step = 0", "expected 'all' or a number above 0"),
        ] {
            let sentence = parse(text).unwrap_err().to_string();
            assert!(sentence.contains(piece), "{text}: {sentence}");
        }
    }

    #[test]
    fn what_cannot_be_meant_together_gets_a_sentence() {
        for (text, piece) in [
            ("steps = 0", "steps is 0, expected at least 1"),
            ("batch = 1", "batch is 1, expected at least 2"),
            ("lambda = -1.0", "lambda is -1"),
            ("learning_rate = nan", "the learning rate is NaN"),
            ("solver = \"exact\"\nsteps = 20000", "steps is given with the exact solver"),
            (
                "solver = \"exact\"\nestimator = \"linear\"",
                "the estimator linear is given with the exact solver",
            ),
            (
                "solver = \"exact\"\nmodel = \"mlp\"",
                "the model mlp, expected the model linear, or skds with the model basis",
            ),
            ("law = \"structural\"\nsteps = 5", "steps is given with the law structural"),
            ("law = \"structural\"\nkernel = \"rbf\"", "kernel is given with the law structural"),
            ("law = \"structural\"\nlearn_scale = true", "learn_scale is given with the law structural"),
            ("law = \"diffusion\"\nmodel = \"mlp\"", "law is given with the model mlp"),
            (
                "kernel = \"quadratic\"\nobjective = \"skds\"",
                "the objective skds is given with the kernel quadratic",
            ),
            ("kernel = \"quadratic\"\nbandwidth = 2", "bandwidth is given with the kernel quadratic"),
            ("kernel = \"quadratic\"\nestimator = \"v\"", "estimator is given with the kernel quadratic"),
            ("kernel = \"quadratic\"\nbatch = 20", "batch is given with the kernel quadratic"),
            (
                "kernel = \"quadratic\"\nmodel = \"basis\"",
                "the model basis is given with the kernel quadratic",
            ),
            ("objective = \"kds\"\nkernel = \"rbf\"\ntune = true", "tune is given with kds over pairs"),
            ("tune = true\nlambda = 0.1", "lambda is given together with tune"),
            ("tune = true\nsolver = \"adam\"", "tune is given with the solver adam"),
            ("hidden = 3", "hidden is given with the model linear, expected the model mlp"),
            ("features = \"rbf:2\"", "features is given with the model linear, expected the model basis"),
            ("model = \"basis\"\nsteps = 10", "steps is given with the model basis"),
            ("model = \"basis\"\nobjective = \"kds\"", "the objective kds is given with the model basis"),
        ] {
            let sentence = parse(text).unwrap().settle().unwrap_err().to_string();
            assert!(sentence.contains(piece), "{text}: {sentence}");
        }
    }
}
