//! The optimisers that take steps on batches: one module for each, and the one list of them.
//!
//! An optimiser has settings, arrays of the parameters' shape that it carries from step to step (its moments, which checkpoints
//! keep), and the arithmetic of a step on the CPU. A GPU takes its steps where there is a shader for them
//! ([`Optimise::shader_rates`]); otherwise training there is refused.

mod adam;

pub use adam::Adam;

use crate::named::named;
use crate::{Error, Result};

/// Declares the list of optimisers.
macro_rules! optimisers {
    ($($(#[doc = $doc:literal])+ $optimiser:ident = $name:literal,)+) => {
        /// An optimiser with its settings.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Optimiser {
            $($(#[doc = $doc])+ $optimiser($optimiser),)+
        }

        /// The optimisers by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum OptimiserKind {
            $($(#[doc = $doc])+ $optimiser,)+
        }

        impl Default for OptimiserKind {
            /// The first of the list.
            fn default() -> Self {
                OptimiserKind::ALL[0]
            }
        }

        named!(OptimiserKind, "optimiser", { $($optimiser => $name,)+ });

        impl OptimiserKind {
            /// The optimiser as it is without settings.
            pub fn standard(self) -> Optimiser {
                match self { $(OptimiserKind::$optimiser => Optimiser::$optimiser($optimiser::default()),)+ }
            }

            /// The prefixes of its moments in checkpoints.
            pub fn moments(self) -> &'static [&'static str] {
                self.standard().implementation().moments()
            }
        }

        impl Optimiser {
            /// Its name.
            pub fn kind(&self) -> OptimiserKind {
                match self { $(Optimiser::$optimiser(_) => OptimiserKind::$optimiser,)+ }
            }

            pub(crate) fn implementation(&self) -> &dyn Optimise {
                match self { $(Optimiser::$optimiser(optimiser) => optimiser,)+ }
            }

            /// The same optimiser with another length of its steps.
            pub fn with_learning_rate(mut self, learning_rate: f64) -> Self {
                match &mut self { $(Optimiser::$optimiser(optimiser) => optimiser.learning_rate = learning_rate,)+ }
                self
            }

            /// The length of its steps.
            pub fn learning_rate(&self) -> f64 {
                match self { $(Optimiser::$optimiser(optimiser) => optimiser.learning_rate,)+ }
            }
        }

        $(
            impl From<$optimiser> for Optimiser {
                fn from(optimiser: $optimiser) -> Self {
                    Optimiser::$optimiser(optimiser)
                }
            }
        )+
    };
}

optimisers! {
    /// Means of gradients over the roots of means of their squares (Kingma and Ba).
    Adam = "adam",
}

/// What an optimiser does.
pub(crate) trait Optimise {
    /// The prefixes of its moments in checkpoints: one for each array of the parameters' shape that it carries from step to step.
    fn moments(&self) -> &'static [&'static str];

    /// The update of step `step`, counted from 1.
    fn update(&self, step: u32) -> Box<dyn Update>;

    /// The numbers that the shader of its step takes, if it has one.
    #[cfg_attr(not(feature = "gpu"), allow(dead_code))]
    fn shader_rates(&self) -> Option<ShaderRates> {
        None
    }
}

/// One step of an optimiser.
pub(crate) trait Update: Sync {
    /// Changes some of the parameters and their moments, given the gradient and 1 where a parameter may change, 0 where it is fixed.
    fn apply(&self, parameters: &mut [f32], moments: &mut [&mut [f32]], gradient: &[f32], free: &[f32]);
}

/// The numbers that the stage `adam` of a GPU takes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(not(feature = "gpu"), allow(dead_code))]
pub(crate) struct ShaderRates {
    pub learning_rate: f32,
    pub beta1: f32,
    pub beta2: f32,
    pub epsilon: f32,
}

impl Optimiser {
    /// The numbers that the stage of a GPU takes; an error if it has no shader for this optimiser.
    #[cfg_attr(not(feature = "gpu"), allow(dead_code))]
    pub(crate) fn on_gpu(&self) -> Result<ShaderRates> {
        self.implementation().shader_rates().ok_or_else(|| {
            Error::invalid(format!(
                "the optimiser is {}, which has no shader, expected adam on a GPU: train on the CPU instead",
                self.kind()
            ))
        })
    }

    /// Checks the settings.
    pub fn check(&self) -> Result<()> {
        let rate = self.learning_rate();
        match rate > 0.0 && rate.is_finite() {
            true => Ok(()),
            false => {
                Err(Error::invalid(format!("the learning rate is {rate}, expected a finite number above 0")))
            }
        }
    }
}
