//! Other ways to learn from interventions, to compare with: each learns equations between variables instead of a diffusion.
//!
//! | method | what it learns | file |
//! |---|---|---|
//! | LLC | linear equations with feedback, from covariances under interventions | `llc` |
//! | GIES | a linear acyclic graph, by a greedy search over equivalence classes | `gies` |
//! | IGSP | a linear acyclic graph, by permutations and tests | `igsp` |
//! | DCDI-G | an acyclic graph of networks with Gaussian noise | `dcdi` |
//! | NODAGS | contractive networks with feedback | `nodags` |
//!
//! All take standardised data and know which variables each environment intervenes on. None of them learns an effect of the
//! intervention itself.

mod dcdi;
mod gies;
mod igsp;
mod llc;
mod nodags;
mod settings;

pub use settings::RivalKind;
pub(crate) use settings::{Options, RivalSettings};

use crate::data::Dataset;
use crate::model::{Drift, EquationsDrift, Noise, Parameters};
use crate::{Matrix, Progress, Result};

/// x_j = intercepts_j + Σ_i effects_ji x_i + √variances_j ε_j with independent standard normal ε.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LinearEquations {
    /// d × d, 0 on the diagonal: row j holds the effects on variable j.
    pub effects: Matrix<f64>,
    /// d.
    pub intercepts: Vec<f64>,
    /// d, above 0.
    pub variances: Vec<f64>,
}

/// x_j = mean_j(x) + exp(log_scale_j(x)) ε_j with independent standard normal ε, each mean and log scale by a network.
///
/// Network j has layers of h units: u₁ = γ(F_j x + f_j), u₂ = γ(G_j u₁ + g_j), …, with γ(z) = max(z, slope · z). A variable
/// that does not act on j has weight 0 in F_j.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NetworkEquations {
    /// 0 for ReLU.
    pub slope: f64,
    /// F, (d·h) × d: row j·h + k is unit k of network j.
    pub first_weights: Matrix<f64>,
    /// f, d × h.
    pub first_biases: Matrix<f64>,
    /// Of each further layer: G, (d·h) × h, and g, d × h.
    pub inner: Vec<(Matrix<f64>, Matrix<f64>)>,
    /// d × h, of the last layer's units.
    pub mean_weights: Matrix<f64>,
    /// d.
    pub mean_biases: Vec<f64>,
    /// d × h, of the last layer's units; 0 where the scale is constant.
    pub scale_weights: Matrix<f64>,
    /// d: the constant part of log_scale.
    pub scale_biases: Vec<f64>,
}

impl RivalSettings {
    /// What progress counts to.
    pub(crate) fn work(&self, data: &Dataset) -> u64 {
        match self {
            RivalSettings::Llc(settings) => settings.work(data),
            RivalSettings::Gies(settings) => settings.work(data),
            RivalSettings::Igsp(settings) => settings.work(data),
            RivalSettings::Dcdi(settings) => settings.work(data),
            RivalSettings::Nodags(settings) => settings.work(data),
        }
    }

    /// Learns from standardised data. The result has the form of a diffusion at rest: its law is structural.
    pub(crate) fn fit(&self, data: &Dataset, seed: u64, progress: &Progress) -> Result<Parameters<f64>> {
        Ok(match self {
            RivalSettings::Llc(settings) => llc::fit(data, settings, seed, progress)?.into_parameters(),
            RivalSettings::Gies(settings) => gies::fit(data, settings, seed, progress)?.into_parameters(),
            RivalSettings::Igsp(settings) => igsp::fit(data, settings, seed, progress)?.into_parameters(),
            RivalSettings::Dcdi(settings) => dcdi::fit(data, settings, seed, progress)?.into_parameters(),
            RivalSettings::Nodags(settings) => nodags::fit(data, settings, seed, progress)?.into_parameters(),
        })
    }
}

impl LinearEquations {
    /// 0 = (effects − I) x + intercepts + noise.
    fn into_parameters(self) -> Parameters<f64> {
        let d = self.intercepts.len();
        let weights = Matrix::from_fn(d, d, |j, i| if i == j { -1.0 } else { self.effects[(j, i)] });
        let log_noise = self.variances.iter().map(|variance| 0.5 * variance.ln()).collect();
        let noise = Noise::Diagonal { log_noise };
        Parameters {
            drift: Drift::linear(weights),
            biases: self.intercepts,
            noise,
            shift: None,
            log_scale: None,
        }
    }
}

impl NetworkEquations {
    fn into_parameters(self) -> Parameters<f64> {
        let h = self.first_biases.cols();
        let stacked = |parts: Vec<&Matrix<f64>>| {
            let all: Vec<f64> = parts.iter().flat_map(|part| part.as_slice().iter().copied()).collect();
            Matrix::from_rows(all.len() / h, h, all)
        };
        let (weights, biases) = self.inner.iter().map(|(weights, biases)| (weights, biases)).unzip();
        let (inner_weights, inner_biases) = (stacked(weights), stacked(biases));
        let drift = EquationsDrift {
            slope: self.slope,
            first_weights: self.first_weights,
            first_biases: self.first_biases,
            inner_weights,
            inner_biases,
            mean_weights: self.mean_weights,
            scale_weights: self.scale_weights,
        };
        let noise = Noise::Diagonal { log_noise: self.scale_biases };
        Parameters { drift: drift.into(), biases: self.mean_biases, noise, shift: None, log_scale: None }
    }
}
