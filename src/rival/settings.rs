//! Which rival, with which of its settings. Settings that fits do not offer keep the published values.

use super::dcdi::DcdiSettings;
use super::gies::GiesSettings;
use super::igsp::IgspSettings;
use super::llc::LlcSettings;
use super::nodags::NodagsSettings;
use crate::named::named;
use crate::{Error, Result};

/// A rival method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RivalKind {
    /// Linear equations with feedback, from covariances under interventions (Hyttinen, Eberhardt, Hoyer 2012).
    Llc,
    /// Greedy interventional equivalence search (Hauser, Bühlmann 2012).
    Gies,
    /// Interventional greedy sparsest permutation (Wang, Solus, Yang, Uhler 2017).
    Igsp,
    /// Differentiable causal discovery with Gaussian conditionals (Brouillard and others 2020).
    Dcdi,
    /// Contractive residual flows (Sethuraman and others 2023).
    Nodags,
}

named!(RivalKind, "method", {
    Llc => "llc",
    Gies => "gies",
    Igsp => "igsp",
    Dcdi => "dcdi",
    Nodags => "nodags",
});

/// The settings of a rival.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RivalSettings {
    Llc(LlcSettings),
    Gies(GiesSettings),
    Igsp(IgspSettings),
    Dcdi(DcdiSettings),
    Nodags(NodagsSettings),
}

/// The options that rivals have, of which each knows some; none means the published value for linear diffusions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// The penalty's weight.
    pub lambda: Option<f64>,
    /// The level of tests.
    pub alpha: Option<f64>,
    /// Hidden layers of a network.
    pub layers: Option<usize>,
    /// Units of a layer.
    pub hidden: Option<usize>,
    /// Rows per step.
    pub batch: Option<usize>,
    /// The most steps.
    pub steps: Option<u32>,
    /// Passes over the data.
    pub epochs: Option<usize>,
    pub learning_rate: Option<f64>,
    /// Power iterations for spectral norms.
    pub power_iterations: Option<usize>,
}

impl Options {
    /// The options that are given, by name.
    fn given(&self) -> Vec<&'static str> {
        let all = [
            ("lambda", self.lambda.is_some()),
            ("alpha", self.alpha.is_some()),
            ("layers", self.layers.is_some()),
            ("hidden", self.hidden.is_some()),
            ("batch", self.batch.is_some()),
            ("steps", self.steps.is_some()),
            ("epochs", self.epochs.is_some()),
            ("learning_rate", self.learning_rate.is_some()),
            ("power_iterations", self.power_iterations.is_some()),
        ];
        all.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }

    /// The first given option, which only rivals have.
    pub(crate) fn of_rivals_alone(&self) -> Option<&'static str> {
        let alone = ["alpha", "layers", "epochs", "power_iterations"];
        self.given().into_iter().find(|name| alone.contains(name))
    }
}

impl RivalKind {
    /// The options that the method knows.
    fn options(self) -> &'static [&'static str] {
        match self {
            RivalKind::Llc | RivalKind::Gies => &["lambda"],
            RivalKind::Igsp => &["alpha"],
            RivalKind::Dcdi => &["lambda", "layers", "hidden", "batch", "steps", "learning_rate"],
            RivalKind::Nodags => {
                &["lambda", "layers", "batch", "epochs", "learning_rate", "power_iterations"]
            }
        }
    }

    /// Its name in sentences.
    pub fn label(self) -> &'static str {
        match self {
            RivalKind::Llc => "LLC",
            RivalKind::Gies => "GIES",
            RivalKind::Igsp => "IGSP",
            RivalKind::Dcdi => "DCDI-G",
            RivalKind::Nodags => "NODAGS",
        }
    }
}

impl RivalSettings {
    /// The settings with these options; an error if the method does not know one of them.
    pub(crate) fn new(kind: RivalKind, options: &Options) -> Result<RivalSettings> {
        let known = kind.options();
        if let Some(other) = options.given().into_iter().find(|name| !known.contains(name)) {
            return Err(Error::invalid(format!(
                "{other} is given with the method {kind}, expected only {} for it",
                known.join(", ")
            )));
        }
        let settings = match kind {
            RivalKind::Llc => {
                let standard = LlcSettings::default();
                RivalSettings::Llc(LlcSettings { lambda: options.lambda.unwrap_or(standard.lambda) })
            }
            RivalKind::Gies => {
                RivalSettings::Gies(GiesSettings { lambda: options.lambda, ..GiesSettings::default() })
            }
            RivalKind::Igsp => {
                let standard = IgspSettings::default();
                RivalSettings::Igsp(IgspSettings {
                    alpha: options.alpha.unwrap_or(standard.alpha),
                    ..standard
                })
            }
            RivalKind::Dcdi => {
                let standard = DcdiSettings::default();
                RivalSettings::Dcdi(DcdiSettings {
                    sparsity: options.lambda.unwrap_or(standard.sparsity),
                    layers: options.layers.unwrap_or(standard.layers),
                    hidden: options.hidden.unwrap_or(standard.hidden),
                    batch: options.batch.unwrap_or(standard.batch),
                    steps: options.steps.map_or(standard.steps, u64::from),
                    rate: options.learning_rate.unwrap_or(standard.rate),
                    ..standard
                })
            }
            RivalKind::Nodags => {
                let standard = NodagsSettings::default();
                RivalSettings::Nodags(NodagsSettings {
                    penalty: options.lambda.unwrap_or(standard.penalty),
                    hidden_layers: options.layers.unwrap_or(standard.hidden_layers),
                    batch: options.batch.unwrap_or(standard.batch),
                    epochs: options.epochs.unwrap_or(standard.epochs),
                    learning_rate: options.learning_rate.unwrap_or(standard.learning_rate),
                    power_iterations: options.power_iterations.unwrap_or(standard.power_iterations),
                    ..standard
                })
            }
        };
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<()> {
        match self {
            RivalSettings::Llc(settings) => settings.check(),
            RivalSettings::Gies(settings) => settings.check(),
            RivalSettings::Igsp(settings) => settings.check(),
            RivalSettings::Dcdi(settings) => settings.check(),
            RivalSettings::Nodags(settings) => settings.check(),
        }
    }

    pub(crate) fn kind(&self) -> RivalKind {
        match self {
            RivalSettings::Llc(_) => RivalKind::Llc,
            RivalSettings::Gies(_) => RivalKind::Gies,
            RivalSettings::Igsp(_) => RivalKind::Igsp,
            RivalSettings::Dcdi(_) => RivalKind::Dcdi,
            RivalSettings::Nodags(_) => RivalKind::Nodags,
        }
    }

    /// The options that give these settings.
    pub(crate) fn options(&self) -> Options {
        let none = Options::default();
        match self {
            RivalSettings::Llc(LlcSettings { lambda }) => Options { lambda: Some(*lambda), ..none },
            RivalSettings::Gies(GiesSettings { lambda, .. }) => Options { lambda: *lambda, ..none },
            RivalSettings::Igsp(IgspSettings { alpha, .. }) => Options { alpha: Some(*alpha), ..none },
            RivalSettings::Dcdi(settings) => Options {
                lambda: Some(settings.sparsity),
                layers: Some(settings.layers),
                hidden: Some(settings.hidden),
                batch: Some(settings.batch),
                steps: u32::try_from(settings.steps).ok(),
                learning_rate: Some(settings.rate),
                ..none
            },
            RivalSettings::Nodags(settings) => Options {
                lambda: Some(settings.penalty),
                layers: Some(settings.hidden_layers),
                batch: Some(settings.batch),
                epochs: Some(settings.epochs),
                learning_rate: Some(settings.learning_rate),
                power_iterations: Some(settings.power_iterations),
                ..none
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_back_from_settings_and_unknown_ones_are_refused() {
        for &kind in RivalKind::ALL {
            let settings = RivalSettings::new(kind, &Options::default()).unwrap();
            assert_eq!(settings.kind(), kind);
            assert_eq!(RivalSettings::new(kind, &settings.options()).unwrap(), settings);
        }
        let layers = Options { layers: Some(2), ..Options::default() };
        let sentence = RivalSettings::new(RivalKind::Gies, &layers).unwrap_err().to_string();
        assert_eq!(sentence, "layers is given with the method gies, expected only lambda for it");
        let wrong = Options { lambda: Some(-1.0), ..Options::default() };
        for &kind in RivalKind::ALL.iter().filter(|kind| kind.options().contains(&"lambda")) {
            assert!(RivalSettings::new(kind, &wrong).is_err(), "{kind}");
        }
    }
}
