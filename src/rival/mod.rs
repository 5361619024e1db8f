//! Other ways to learn from interventions, to compare with: each learns equations between variables instead of a diffusion.
//!
//! | method | what it learns | file |
//! |---|---|---|
//! | LLC | linear equations with feedback, from means and covariances | `llc` |
//! | GIES | a linear acyclic graph, by a greedy search over equivalence classes | `gies` |
//! | IGSP | a linear acyclic graph, by permutations and tests | `igsp` |
//! | DCDI-G | an acyclic graph of networks with Gaussian noise | `dcdi` |
//! | NODAGS | contractive networks with feedback | `nodags` |
//!
//! All take standardised data and know which variables each environment intervenes on. None of them learns an effect of the
//! intervention: a variable that is intervened on has no equation in that environment.

use crate::Matrix;

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
