//! What a fit is told, at every door alike: flags, TOML files, requests, experiment plans and library calls.
//!
//! Nothing here has a default. What is not given is `None`, and [`Settings::settle`] alone turns what was given into a
//! [`Recipe`], in which everything is decided.

use super::choices::by_name;
use super::recipe::{AdamRecipe, Fixed, Form, Recipe, Solver};
use super::{
    EnvironmentsPerStep, EstimatorChoice, ModelKind, PenaltyChoice, SolverChoice, TargetChoice, bounds,
};
use crate::kernel::{Bandwidth, KernelKind};
use crate::model::Activation;
use crate::model::basis::FeatureChoice;
use crate::objective::{Estimator, Objective};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
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
    /// Whether the exact solver chooses bandwidth and penalty by what they predict. If nothing is said, it does so when
    /// neither of them is given.
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
    /// The loss.
    "by_name::optional" objective: Objective,
    /// The kernel.
    "by_name::optional" kernel: KernelKind,
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
    pub fn read(path: &Path) -> Result<Self> {
        crate::input::toml(path)
    }

    /// Decides everything that was not given, and refuses what cannot be meant together.
    pub fn settle(&self) -> Result<Recipe> {
        let form = self.form()?;
        let objective = self.objective.unwrap_or(Objective::Skds);
        let solver = self.solver(&form, objective)?;
        let recipe = Recipe {
            form,
            objective,
            kernel: self.kernel.unwrap_or(KernelKind::TiltedRbf),
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

    fn form(&self) -> Result<Form> {
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
            ModelKind::Linear => Form::Linear,
            ModelKind::Mlp => Form::Mlp {
                hidden: self.hidden.unwrap_or(8),
                activation: self.activation.unwrap_or(Activation::Sigmoid),
            },
            ModelKind::Basis => Form::Basis {
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
    fn solver(&self, form: &Form, objective: Objective) -> Result<Solver> {
        let applies = !matches!(form, Form::Mlp { .. }) && objective == Objective::Skds;
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
                    "the exact solver is asked for with the objective {objective} and the model {}, expected skds with the model \
                     linear or basis",
                    form.kind()
                )));
            }
        };
        if !exact && matches!(form, Form::Basis { .. }) {
            let found = match (option, objective) {
                (Some(option), _) => option.to_owned(),
                (None, Objective::Kds) => "the objective kds".into(),
                (None, _) => "the solver adam".into(),
            };
            return Err(Error::invalid(format!(
                "{found} is given with the model basis, expected skds over all pairs by the exact solver"
            )));
        }
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
        let fixed = Fixed {
            bandwidth: self.bandwidth.unwrap_or(Bandwidth::Auto),
            penalty: self.penalty.unwrap_or(PenaltyChoice::Both),
            lambda: self.lambda.unwrap_or(0.1),
        };
        match (exact, self.tune, given) {
            (true, Some(true), Some(given)) => Err(Error::invalid(format!(
                "{given} is given together with tune, which chooses it, expected one of them"
            ))),
            (true, Some(true), None) | (true, None, None) => Ok(Solver::Tuned { pairs }),
            (true, Some(false), _) | (true, None, Some(_)) => Ok(Solver::Exact { pairs, fixed }),
            (false, Some(true), _) => {
                Err(Error::invalid("tune is given with the solver adam, expected the exact solver"))
            }
            (false, ..) => Ok(Solver::Adam {
                pairs,
                fixed,
                adam: AdamRecipe {
                    steps: self.steps.unwrap_or(20_000),
                    batch: self.batch.unwrap_or(512),
                    envs_per_step: self.envs_per_step.unwrap_or(EnvironmentsPerStep::Some(1)),
                    learning_rate: self.learning_rate.unwrap_or(1e-3),
                },
            }),
        }
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
            kernel: Some(KernelKind::Rbf),
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
        assert!(matches!(settled("").solver, Solver::Tuned { .. }));
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
        for text in
            of_adam.into_iter().chain(["estimator = \"linear\"", "model = \"mlp\"", "objective = \"kds\""])
        {
            assert!(matches!(settled(text).solver, Solver::Adam { .. }), "{text}");
        }
    }

    #[test]
    fn a_recipe_as_settings_settles_to_itself() {
        for text in [
            "",
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
            ("solver = \"exact\"\nmodel = \"mlp\"", "expected skds with the model linear or basis"),
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
