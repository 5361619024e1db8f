//! Everything a fit can be told, with its defaults: one definition for flags, files and saved models.

use crate::kernel::{Bandwidth, KernelKind};
use crate::model::basis::FeatureChoice;
use crate::model::{Activation, PenaltyKind};
use crate::named::named;
use crate::objective::{Estimator, Objective};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The form of the drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// b(x) = W x + biases.
    Linear,
    /// One network of one hidden layer per variable.
    Mlp,
    /// Drift and noise made of given functions.
    Basis,
}

named!(ModelKind, "model", { Linear => "linear", Mlp => "mlp", Basis => "basis" });

/// What is penalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PenaltyChoice {
    /// Nothing.
    None,
    /// Single effects.
    Ingoing,
    /// All effects of a variable together.
    Outgoing,
    /// Both.
    Both,
}

named!(PenaltyChoice, "penalty", { None => "none", Ingoing => "ingoing", Outgoing => "outgoing", Both => "both" });

impl PenaltyChoice {
    /// The groups, if there are any.
    pub fn kind(self) -> Option<PenaltyKind> {
        match self {
            PenaltyChoice::None => None,
            PenaltyChoice::Ingoing => Some(PenaltyKind::Ingoing),
            PenaltyChoice::Outgoing => Some(PenaltyKind::Outgoing),
            PenaltyChoice::Both => Some(PenaltyKind::Both),
        }
    }
}

/// How the loss is minimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SolverChoice {
    /// [`Exact`](SolverChoice::Exact) where it applies, unless something is said of steps.
    Auto,
    /// The convex minimum: SKDS, linear model, all pairs.
    Exact,
    /// Steps of Adam on batches.
    Adam,
}

named!(SolverChoice, "solver", { Auto => "auto", Exact => "exact", Adam => "adam" });

/// Which pairs count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EstimatorChoice {
    /// `v` for the exact solver, `linear` for Adam.
    Auto,
    /// Neighbouring rows.
    Linear,
    /// All pairs of different rows.
    U,
    /// All pairs.
    V,
}

named!(EstimatorChoice, "estimator", { Auto => "auto", Linear => "linear", U => "u", V => "v" });

/// Which variables an environment may intervene on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetChoice {
    /// Those that the data names.
    Known,
    /// Any, in every environment but the first.
    Unknown,
}

named!(TargetChoice, "targets", { Known => "known", Unknown => "unknown" });

/// How many environments a step sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvironmentsPerStep {
    /// All of them.
    All,
    /// So many, drawn anew for every step.
    Some(usize),
}

impl std::fmt::Display for EnvironmentsPerStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EnvironmentsPerStep::All => f.write_str("all"),
            EnvironmentsPerStep::Some(count) => count.fmt(f),
        }
    }
}

impl std::str::FromStr for EnvironmentsPerStep {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match (text, text.parse()) {
            ("all", _) => Ok(EnvironmentsPerStep::All),
            (_, Ok(count)) if count > 0 => Ok(EnvironmentsPerStep::Some(count)),
            _ => Err(Error::invalid(format!(
                "environments per step is '{text}', expected 'all' or a number above 0"
            ))),
        }
    }
}

/// Serialises what has a name by it.
pub(crate) mod by_name {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub fn serialize<V: std::fmt::Display, S: Serializer>(
        value: &V,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    /// Numbers are taken too, as they stand in a file without quotes.
    pub fn deserialize<'de, V: std::str::FromStr<Err = crate::Error>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<V, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Text(String),
            Whole(i64),
            Number(f64),
        }
        let text = match Given::deserialize(deserializer)? {
            Given::Text(text) => text,
            Given::Whole(number) => number.to_string(),
            Given::Number(number) => number.to_string(),
        };
        text.parse().map_err(de::Error::custom)
    }
}

/// The settings of a fit. In files, names are those of the flags with `_` for `-`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How the loss is minimised.
    #[serde(with = "by_name")]
    pub solver: SolverChoice,
    /// Whether the exact solver chooses bandwidth and penalty by what they predict. If nothing is said, it does so when
    /// both are left at their defaults.
    pub tune: Option<bool>,
    /// The drift.
    #[serde(with = "by_name")]
    pub model: ModelKind,
    /// Hidden units per variable (MLP).
    pub hidden: usize,
    /// The nonlinearity (MLP).
    #[serde(with = "by_name")]
    pub activation: Activation,
    /// The functions that the drift is made of (basis).
    #[serde(with = "by_name")]
    pub features: FeatureChoice,
    /// The functions that squared noises are made of (basis): expressions, `self` being the variable, between commas.
    pub diffusion: String,
    /// The loss.
    #[serde(with = "by_name")]
    pub objective: Objective,
    /// The kernel.
    #[serde(with = "by_name")]
    pub kernel: KernelKind,
    /// Its bandwidth.
    #[serde(with = "by_name")]
    pub bandwidth: Bandwidth,
    /// The pairs.
    #[serde(with = "by_name")]
    pub estimator: EstimatorChoice,
    /// What is penalised.
    #[serde(with = "by_name")]
    pub penalty: PenaltyChoice,
    /// How strongly.
    pub lambda: f64,
    /// Steps of Adam.
    pub steps: u32,
    /// Rows per environment and step.
    pub batch: usize,
    /// Environments per step.
    #[serde(with = "by_name")]
    pub envs_per_step: EnvironmentsPerStep,
    /// Adam's step size.
    pub learning_rate: f64,
    /// Whether interventions may change the noise of their targets too.
    pub learn_scale: bool,
    /// Whether to fit in units of the first environment's standard deviations.
    pub standardize: bool,
    /// Which variables environments may intervene on.
    #[serde(with = "by_name")]
    pub targets: TargetChoice,
    /// Whether an unstable model is replaced by a stable one.
    pub stabilize: bool,
    /// The seed of every random choice.
    pub seed: u64,
}

impl Default for Settings {
    /// The paper's settings for SKDS with a linear model, with the bandwidth from the data.
    fn default() -> Self {
        Settings {
            solver: SolverChoice::Auto,
            tune: None,
            model: ModelKind::Linear,
            hidden: 8,
            activation: Activation::Sigmoid,
            features: FeatureChoice::Polynomial(2),
            diffusion: "1".into(),
            objective: Objective::Skds,
            kernel: KernelKind::TiltedRbf,
            bandwidth: Bandwidth::Auto,
            estimator: EstimatorChoice::Auto,
            penalty: PenaltyChoice::Both,
            lambda: 0.1,
            steps: 20_000,
            batch: 512,
            envs_per_step: EnvironmentsPerStep::Some(1),
            learning_rate: 1e-3,
            learn_scale: false,
            standardize: false,
            targets: TargetChoice::Known,
            stabilize: true,
            seed: 0,
        }
    }
}

impl Settings {
    /// Reads a TOML file; what it does not mention keeps its default.
    pub fn read(path: &Path) -> Result<Self> {
        crate::input::toml(path)
    }

    /// Whether the exact solver fits; an error if it is asked for and cannot.
    pub fn is_exact(&self) -> Result<bool> {
        let suits = self.model != ModelKind::Mlp && self.objective == Objective::Skds;
        let defaults = Settings::default();
        // Who says how Adam shall go wants Adam.
        let about_adam = self.steps != defaults.steps
            || self.batch != defaults.batch
            || self.envs_per_step != defaults.envs_per_step
            || self.learning_rate != defaults.learning_rate;
        let wants_adam = self.solver == SolverChoice::Adam
            || self.solver == SolverChoice::Auto && (about_adam || self.estimator == EstimatorChoice::Linear);
        if self.model == ModelKind::Basis && (wants_adam || !suits) {
            return Err(Error::invalid(format!(
                "the model basis is asked for with {}, expected skds, all pairs and the exact solver",
                if suits {
                    "options of the solver adam".to_owned()
                } else {
                    format!("the objective {}", self.objective)
                }
            )));
        }
        match (self.solver, self.estimator) {
            (SolverChoice::Adam, _) => Ok(false),
            (SolverChoice::Auto, EstimatorChoice::Linear) => Ok(false),
            (SolverChoice::Auto, _) => Ok(suits && !about_adam),
            (SolverChoice::Exact, EstimatorChoice::Linear) => {
                Err(Error::invalid("the estimator is linear, expected u or v for the exact solver"))
            }
            (SolverChoice::Exact, _) if suits => Ok(true),
            (SolverChoice::Exact, _) => Err(Error::invalid(format!(
                "the solver is exact for {} with the model {}, expected skds with the model linear or basis, or --solver adam",
                self.objective, self.model
            ))),
        }
    }

    /// The pairs that the solver takes.
    pub fn pairs(&self) -> Result<Estimator> {
        Ok(match self.estimator {
            EstimatorChoice::Auto if self.is_exact()? => Estimator::V,
            EstimatorChoice::Auto | EstimatorChoice::Linear => Estimator::Linear,
            EstimatorChoice::U => Estimator::U,
            EstimatorChoice::V => Estimator::V,
        })
    }

    /// Whether bandwidth and penalty are to be chosen.
    pub fn is_tuned(&self) -> Result<bool> {
        let defaults = Settings::default();
        let untouched = self.bandwidth == defaults.bandwidth
            && self.lambda == defaults.lambda
            && self.penalty == defaults.penalty;
        match (self.is_exact()?, self.tune) {
            (true, None) => Ok(untouched),
            (true, Some(tune)) => Ok(tune),
            (false, Some(true)) => {
                Err(Error::invalid("tuning is asked for with the solver adam, expected the exact solver"))
            }
            (false, _) => Ok(false),
        }
    }

    /// Checks every number by itself.
    pub fn check(&self) -> Result<()> {
        let positive = |name: &str, value: f64| match value > 0.0 && value.is_finite() {
            true => Ok(()),
            false => Err(Error::invalid(format!("{name} is {value}, expected a finite number above 0"))),
        };
        self.is_tuned()?;
        positive("the learning rate", self.learning_rate)?;
        if !(self.lambda >= 0.0 && self.lambda.is_finite()) {
            return Err(Error::invalid(format!(
                "lambda is {}, expected a finite number of at least 0",
                self.lambda
            )));
        }
        crate::bounds::fit(self.steps as usize, self.batch, self.hidden, &self.diffusion)
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

    #[test]
    fn a_file_changes_what_it_mentions() {
        let text =
            "model = \"mlp\"\nbandwidth = 7\nlambda = 0.01\nenvs_per_step = \"all\"\nkernel = \"rbf\"\n";
        let settings = parse(text).unwrap();
        assert_eq!(settings.bandwidth, Bandwidth::Value(7.0));
        assert_eq!(settings.envs_per_step, EnvironmentsPerStep::All);
        let rest = Settings {
            model: ModelKind::Mlp,
            bandwidth: Bandwidth::Value(7.0),
            lambda: 0.01,
            envs_per_step: EnvironmentsPerStep::All,
            kernel: KernelKind::Rbf,
            ..Settings::default()
        };
        assert_eq!(settings, rest);
        assert_eq!(parse("").unwrap(), Settings::default());
    }

    #[test]
    fn settings_survive_json() {
        let settings = Settings { bandwidth: Bandwidth::Value(0.3), seed: u64::MAX, ..Settings::default() };
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&text).unwrap(), settings);
    }

    #[test]
    fn wrong_files_and_numbers_get_a_sentence() {
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
        let wrong = [
            Settings { steps: 0, ..Settings::default() },
            Settings { batch: 1, ..Settings::default() },
            Settings { lambda: -1.0, ..Settings::default() },
            Settings { learning_rate: f64::NAN, ..Settings::default() },
        ];
        assert!(wrong.iter().all(|settings| settings.check().is_err()));
        Settings::default().check().unwrap();
    }
}
