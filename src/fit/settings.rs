//! The settings of a fit, the same for options, TOML files, requests, experiment plans and library calls.
//!
//! No setting has a default here: one that was not given is `None`. [`Settings::settle`] alone turns the given settings into a
//! [`Recipe`](super::Recipe), in which everything is decided.

use super::{
    EnvironmentsPerStep, EstimatorChoice, KernelChoice, ModelKind, PenaltyChoice, SolverChoice, TargetChoice,
};
use crate::kernel::Bandwidth;
use crate::model::basis::FeatureChoice;
use crate::model::{Activation, IngoingScale, LawKind};
use crate::named::by_name;
use crate::objective::Objective;
use crate::rival::RivalKind;
use serde::{Deserialize, Serialize};
#[cfg(feature = "cli")]
use {crate::Result, std::path::Path};

/// Declares [`Settings`]: every field optional, left out of files where it is not given.
macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $($with:literal)? $name:ident: $kind:ty,)+) => {
        /// The settings of a fit that were given. Files use the names of the command line's options, with `_` for `-`.
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
            /// These settings, except where `others` give a value.
            pub fn overlaid(self, others: Settings) -> Settings {
                Settings { $($name: others.$name.or(self.$name),)+ }
            }
        }
    };
}

settings! {
    /// A rival method in place of a diffusion. Of the settings below it has `lambda`, `hidden`, `batch`, `steps` and `learning_rate`
    /// where it knows them, `standardize`, `targets` and `seed`.
    "by_name::optional" method: RivalKind,
    /// The level of the tests of a rival method.
    alpha: f64,
    /// Hidden layers of a rival method's networks.
    layers: usize,
    /// Passes over the data of a rival method.
    epochs: usize,
    /// Power iterations by which a rival method finds spectral norms.
    power_iterations: usize,
    /// How the loss is minimised.
    "by_name::optional" solver: SolverChoice,
    /// Whether the exact solver chooses bandwidth and penalty by predictions of held-out data. By default it does so when neither is
    /// given.
    tune: bool,
    /// The drift.
    "by_name::optional" model: ModelKind,
    /// Hidden units per variable (MLP).
    hidden: usize,
    /// The nonlinearity (MLP).
    "by_name::optional" activation: Activation,
    /// The functions that make up the drift (basis).
    "by_name::optional" features: FeatureChoice,
    /// The functions that make up the squared noise (basis): expressions separated by commas, in which `self` is the variable.
    diffusion: String,
    /// Whether a linear model is a diffusion or a set of structural equations.
    "by_name::optional" law: LawKind,
    /// The loss.
    "by_name::optional" objective: Objective,
    /// The kernel.
    "by_name::optional" kernel: KernelChoice,
    /// Its bandwidth, in the units of the fit: standard deviations of the first environment unless the fit takes the data
    /// as it is.
    "by_name::optional" bandwidth: Bandwidth,
    /// Which pairs of rows the loss averages over.
    "by_name::optional" estimator: EstimatorChoice,
    /// What is penalised.
    "by_name::optional" penalty: PenaltyChoice,
    /// The weight λ of the penalty.
    lambda: f64,
    /// How the penalties of single effects add up over the variables (Adam). By default it is their mean for a linear model and
    /// their sum for an MLP, as published with SKDS; KDS's authors took the sum for linear models too.
    "by_name::optional" ingoing: IngoingScale,
    /// Steps of Adam.
    steps: u32,
    /// Rows per environment and step.
    batch: usize,
    /// Environments per step.
    "by_name::optional" envs_per_step: EnvironmentsPerStep,
    /// Adam's step size.
    learning_rate: f64,
    /// Whether interventions may also change the noise of their targets.
    learn_scale: bool,
    /// Whether to centre and scale by the first environment before fitting. The model is in the data's units either way.
    standardize: bool,
    /// Which variables an environment may intervene on.
    "by_name::optional" targets: TargetChoice,
    /// Whether to replace an unstable model by a stable one.
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
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::*;
    use crate::kernel::KernelKind;

    fn parse(text: &str) -> Result<Settings> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fit.toml");
        std::fs::write(&path, text).unwrap();
        Settings::read(&path)
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
}
