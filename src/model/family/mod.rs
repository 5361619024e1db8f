//! The families of drifts: one module for each, and the one list of them.
//!
//! A family says in its module how it is written to files, what its parameters mean and how it is simulated. What it says
//! nothing of is an error with its name ([`Drift::without`]), never a panic. Losses are the engines' work: a family that
//! has one says so ([`DriftArrays::has_loss`]) and has a stage in each engine (`engine/cpu/drift.rs`, `engine/gpu/form.rs`).

mod basis;
mod chains;
mod equations;
mod linear;
mod mlp;
mod networks;

pub use basis::BasisDrift;
pub(crate) use chains::{ChainDrift, ChainSpace};
pub use equations::EquationsDrift;
pub(crate) use equations::RowSpace;
pub use linear::LinearDrift;
pub use mlp::{Activation, MlpDrift};

use super::container::{Checked, Container};
use super::{Basis, IngoingScale, Noise, Tensor};
use crate::data::Standardization;
use crate::{Error, Matrix, Result, Scalar};
use std::sync::Arc;

/// Drift and noise of a model file.
type DriftAndNoise = (Drift<f64>, Noise<f64>);

/// What every file needs to know of a family.
pub(crate) struct Family {
    /// The name in files, settings and sentences.
    pub name: &'static str,
    /// The tensors that only files of this family have.
    pub tensors: &'static [&'static str],
    /// Reads drift and noise, given the number of variables.
    pub read: fn(&Container<'_>, usize) -> Checked<DriftAndNoise>,
}

/// Declares [`Drift`] with everything that goes through all families.
macro_rules! families {
    ($($(#[doc = $doc:literal])+ $module:ident: $family:ident($drift:ident),)+) => {
        /// The drift without its biases.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Drift<T> {
            $($(#[doc = $doc])+ $family($drift<T>),)+
        }

        /// All families, in the order in which sentences list them.
        pub(super) const FAMILIES: &[&Family] = &[$(&$module::FAMILY,)+];

        $(
            impl<T> From<$drift<T>> for Drift<T> {
                fn from(drift: $drift<T>) -> Self {
                    Drift::$family(drift)
                }
            }
        )+

        impl<T: Scalar> Drift<T> {
            /// The family's arrays.
            pub(crate) fn arrays(&self) -> &dyn DriftArrays<T> {
                match self { $(Drift::$family(drift) => drift,)+ }
            }

            /// The family's arrays, writable.
            pub(crate) fn arrays_mut(&mut self) -> &mut dyn DriftArrays<T> {
                match self { $(Drift::$family(drift) => drift,)+ }
            }

            /// The same drift in another precision.
            pub(crate) fn cast<U: Scalar>(&self) -> Drift<U> {
                match self { $(Drift::$family(drift) => Drift::$family(drift.cast()),)+ }
            }
        }

        impl Drift<f64> {
            /// What the family's parameters mean.
            pub(crate) fn dynamics(&self) -> &dyn DriftDynamics {
                match self { $(Drift::$family(drift) => drift,)+ }
            }
        }
    };
}

families! {
    /// b(x) = W x + biases.
    linear: Linear(LinearDrift),
    /// One network of one hidden layer per variable.
    mlp: Mlp(MlpDrift),
    /// A sum of given functions.
    basis: Basis(BasisDrift),
    /// Structural equations by networks, which have no dynamics.
    equations: Equations(EquationsDrift),
}

/// The parameters of a drift as arrays, in any precision.
pub(crate) trait DriftArrays<T: Scalar> {
    /// The family.
    fn family(&self) -> &'static Family;

    /// Every array with its name and its shape for `dim` variables, in a fixed order.
    fn tensors(&self, dim: usize) -> Vec<Tensor<'_, T>>;

    /// The same arrays, writable, in the same order.
    fn tensors_mut(&mut self) -> Vec<(&'static str, &mut [T])>;

    /// What a file's header says beside the name of the family.
    fn metadata(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Checks that the drift goes with the noise of a model of `dim` variables; the sizes of all arrays are right already.
    fn check(&self, _dim: usize, noise: &Noise<T>) -> Result<()> {
        match noise {
            Noise::Basis { .. } => Err(basis::alone()),
            Noise::Diagonal { .. } | Noise::Full { .. } => Ok(()),
        }
    }

    /// Whether engines evaluate losses of it.
    fn has_loss(&self) -> bool {
        false
    }

    /// The weights with which each variable sees all variables, if effects between variables rest on them alone: what penalties,
    /// fixed entries and forbidden effects are about. They are the first of the [`tensors`](Self::tensors).
    fn inputs(&self) -> Option<InputWeights<'_, T>> {
        None
    }

    /// The same, writable.
    fn inputs_mut(&mut self) -> Option<InputWeightsMut<'_, T>> {
        None
    }
}

/// The weights with which variables see each other.
pub(crate) struct InputWeights<'a, T> {
    /// (d · units) × d: row j · units + k is the k-th of variable j.
    pub weights: &'a Matrix<T>,
    /// Rows of each variable.
    pub units: usize,
    /// How penalties of single effects add up, as published for this family.
    pub scale: IngoingScale,
}

/// The same, writable.
pub(crate) struct InputWeightsMut<'a, T> {
    /// (d · units) × d.
    pub weights: &'a mut Matrix<T>,
    /// Rows of each variable.
    pub units: usize,
    /// What a variable's weight on itself is held at, which fixes the speed of the process.
    pub own: T,
}

/// What the parameters of a drift mean.
pub(crate) trait DriftDynamics: DriftArrays<f64> {
    /// A drift made ready to be simulated in steps of length `dt`, with the noise of an intervention.
    fn at_chains<'a>(&'a self, noise: &Noise<f64>, dt: f64) -> Result<Box<dyn ChainDrift + 'a>>;

    /// The drift of x = m + s z, given this one of z, whose biases are in `biases` and times s already. `functions` are those of x,
    /// which only given functions need.
    fn in_units_of(
        &self,
        _units: &Standardization,
        _biases: &mut [f64],
        _functions: Option<&Arc<Basis>>,
    ) -> Result<Drift<f64>> {
        Err(without(self.family(), "form in other units"))
    }

    /// The gradient by a drift, given the one by that drift [in other units](Self::in_units_of), which this is, and the gradient by
    /// its biases there.
    fn gradient_before(&self, _units: &Standardization, _biases: &[f64]) -> Result<Drift<f64>> {
        Err(without(self.family(), "gradient in other units"))
    }

    /// How strongly and in which direction `source` acts on `target`: see [`Graph`](crate::graph::Graph).
    fn effect(&self, _source: usize, _target: usize) -> Result<f64> {
        Err(without(self.family(), "strength of an effect between two variables"))
    }

    /// An [`effect`](Self::effect) in standard units, given the deviations of source and target; none if it cannot be converted.
    fn standard_effect(&self, _strength: f64, _source: f64, _target: f64) -> Option<f64> {
        None
    }

    /// Whether effects are in standard units, independent of the units of the model.
    fn effects_in_deviations(&self) -> bool {
        false
    }

    /// The box that simulations see the state in, as the least and the largest value of each variable, if there is one.
    fn bounds(&self) -> Option<(&[f64], &[f64])> {
        None
    }

    /// The squared noise of each variable in the middle of the data, if it depends on the state.
    fn variances(&self, _amounts: &Matrix<f64>) -> Result<Vec<f64>> {
        Err(without(self.family(), "noise that depends on the state"))
    }
}

impl<T: Scalar> Drift<T> {
    /// The linear drift W x.
    pub fn linear(weights: Matrix<T>) -> Self {
        Drift::Linear(LinearDrift { weights })
    }

    /// As model files call it.
    pub fn name(&self) -> &'static str {
        self.arrays().family().name
    }

    /// The weights W of a linear drift.
    pub fn linear_weights(&self) -> Result<&Matrix<T>> {
        match self {
            Drift::Linear(LinearDrift { weights }) => Ok(weights),
            other => Err(Error::invalid(format!("the drift is {}, expected a linear one", other.name()))),
        }
    }

    /// The weights W of a linear drift, writable.
    pub fn linear_weights_mut(&mut self) -> Result<&mut Matrix<T>> {
        let name = self.name();
        match self {
            Drift::Linear(LinearDrift { weights }) => Ok(weights),
            _ => Err(Error::invalid(format!("the drift is {name}, expected a linear one"))),
        }
    }

    /// Whether this is a linear drift, whose stationary law is known in closed form.
    pub fn is_linear(&self) -> bool {
        self.linear_weights().is_ok()
    }

    /// The error of asking this drift for something that its family does not have.
    pub(crate) fn without(&self, what: &str) -> Error {
        without(self.arrays().family(), what)
    }
}

impl Drift<f64> {
    /// Whether the strengths of effects are in standard units, independent of the units of the model.
    pub fn effects_in_deviations(&self) -> bool {
        self.dynamics().effects_in_deviations()
    }
}

fn without(family: &Family, what: &str) -> Error {
    Error::invalid(format!("the model has the drift {}, which has no {what}", family.name))
}

/// A matrix in another precision.
pub(super) fn cast<T: Scalar, U: Scalar>(matrix: &Matrix<T>) -> Matrix<U> {
    matrix.map(|value| U::from_f64(value.to_f64()))
}
