//! Samples of a model's stationary law: exact for linear models, by simulation for every diffusion.

mod chains;
mod equations;
mod euler;
mod gaussian;
mod intervention;
mod linear;
mod lyapunov;
mod sampler;
mod stability;
mod steered;
mod steering;
#[cfg(test)]
mod tests;

pub use euler::EulerSettings;
pub use gaussian::Gaussian;
pub(crate) use gaussian::stationary_mean;
pub use intervention::Intervention;
pub(crate) use linear::LinearParts;
pub use sampler::{Draw, Sampler};
pub use stability::spectral_abscissa;
pub(crate) use steered::{Steered, SteeredDraw};
pub(crate) use steering::Goals;

use crate::model::Model;
use crate::named::named;
use crate::{Error, Matrix, Progress, Result};

/// How samples are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// [`Exact`](Method::Exact) where it applies, else [`Euler`](Method::Euler).
    Auto,
    /// Independent draws from the Gaussian that is the linear model's stationary law.
    Exact,
    /// Euler–Maruyama: for every model, with an error of the order of the step.
    Euler,
}

named!(Method, "method", { Auto => "auto", Exact => "exact", Euler => "euler" });

/// How to sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleSettings {
    /// Exact or by simulation.
    pub method: Method,
    /// For the simulation.
    pub euler: EulerSettings,
    /// Keeps every variable at or above 0 in the data's units after every step of the simulation, as for counts and
    /// concentrations.
    pub nonnegative: bool,
}

impl Default for SampleSettings {
    fn default() -> Self {
        SampleSettings { method: Method::Auto, euler: EulerSettings::default(), nonnegative: false }
    }
}

impl SampleSettings {
    /// The method that [`stationary_samples`] takes for this model: never [`Method::Auto`].
    pub fn method_for(&self, model: &Model) -> Result<Method> {
        if !model.is_diffusion() {
            return match self.method {
                Method::Euler => Err(Error::invalid(format!(
                    "the method is euler but the model {}, which cannot be simulated, expected the method auto or exact",
                    if model.members.is_empty() {
                        "consists of structural equations"
                    } else {
                        "is an average of several"
                    }
                ))),
                // Held at or above 0 after it is drawn.
                Method::Auto | Method::Exact => Ok(Method::Exact),
            };
        }
        let linear = model.parameters.drift.is_linear();
        match self.method {
            Method::Auto if linear && !self.nonnegative => Ok(Method::Exact),
            Method::Exact if !linear => Err(Error::invalid(
                "the method is exact but the drift is not linear, expected a linear drift or the method euler",
            )),
            Method::Exact if self.nonnegative => Err(Error::invalid(
                "the method is exact with nonnegative samples, expected the method euler, which alone keeps samples at or above 0",
            )),
            Method::Exact => Ok(Method::Exact),
            Method::Auto | Method::Euler => Ok(Method::Euler),
        }
    }
}

/// `n` samples of the model's stationary law under an intervention, one per row, in the data's units.
///
/// The same seed gives the same bits with any number of threads. [`Sampler`] also simulates on a GPU, and under many
/// interventions at once.
pub fn stationary_samples(
    model: &Model,
    intervention: &Intervention,
    n: usize,
    settings: &SampleSettings,
    seed: u64,
) -> Result<Matrix<f64>> {
    Sampler::cpu()
        .draw(model, &[Draw { intervention, samples: n, seed }], settings, &Progress::default())?
        .remove(0)
}

fn zero_in_model_units(model: &Model) -> Vec<f64> {
    match &model.standardization {
        Some(units) => (0..model.dim()).map(|j| units.standard(j, 0.0)).collect(),
        None => vec![0.0; model.dim()],
    }
}

/// Zeros for `n` samples of `d` variables, or a sentence when there is no room for them.
fn room(n: usize, d: usize) -> Result<Matrix<f64>> {
    let what = || format!("{n} samples of {d} variables");
    crate::bounds::room(8.0 * n as f64 * d as f64, what)?;
    let fits = |&count: &usize| Vec::<f64>::new().try_reserve_exact(count).is_ok();
    match n.checked_mul(d).filter(fits) {
        Some(_) => Ok(Matrix::full(n, d, 0.0)),
        None => Err(Error::invalid(format!("{} do not fit into memory", what()))),
    }
}
