//! DCDI-G (Brouillard, Lachapelle, Lacoste, Lacoste-Julien, Drouin: "Differentiable causal discovery from interventional
//! data", 2020): an acyclic graph and a network per variable, learned together by gradient steps.
//!
//! Given its parents, a variable is Gaussian: its mean is the output of a network, its scale is a parameter of its own. The
//! network reads the other variables through random edges, and each edge has a logit α and the probability p = σ(α). Every
//! step draws one graph per sample of the batch (see `noise`) and descends, by RMSprop, the loss
//!
//! ```text
//! −(1/d) Σ_j mean over samples of log p_j(x_j | x)  +  (λ/d²) Σ p  +  γ h(p) + ½ μ h(p)²
//! ```
//!
//! where h measures cycles (see `acyclic`) and the augmented Lagrangian raises γ and μ (see `lagrangian`). As soon as h is
//! almost 0 and the edges with p > ½ have no cycle, training goes on until the loss of the validation rows, one in five, has not reached a new
//! minimum for `patience` checks, 1000 steps apart. Then exactly the edges with p > ½ remain, and only networks and scales learn, again until
//! validation stops improving.
//!
//! **Interventions.** The published comparison treats them as *imperfect*: a variable has a network of its own in each
//! environment that acts on it, with the same edges and scale, so those samples too tell which variables are parents.
//! With *perfect* interventions they are left out of the variable's likelihood instead. Either way, the equations returned
//! are those without intervention.
//!
//! **Where this differs from the published code.** It computes in f32 (h and logits in f64). The graph must be ready after nine tenths of `steps`:
//! it is then fixed even if h is not small yet, and whatever cycles remain are opened at their least probable edges. (The
//! published code then returns a graph with an edge between all variables.)

mod acyclic;
mod batch;
mod lagrangian;
mod lanes;
mod network;
mod noise;
mod optimizer;
#[cfg(test)]
mod tests;
mod train;
mod variable;

use super::NetworkEquations;
use crate::data::Dataset;
use crate::{Error, Progress, Result, bounds};
use serde::{Deserialize, Serialize};

/// Beyond, a step would take so long that a fit never ends. From about 700, the measure of cycles leaves the range of f64.
const MOST_VARIABLES: usize = 300;

/// What an intervention does to a variable's mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Interventions {
    /// It replaces the mechanism: those samples say nothing about the variable's parents.
    Perfect,
    /// It changes the mechanism and keeps the parents and the noise's scale.
    Imperfect,
}

/// How DCDI-G learns. The defaults are those of the comparison on SDEs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DcdiSettings {
    /// Hidden layers of a network.
    pub layers: usize,
    /// Units of a layer.
    pub hidden: usize,
    /// λ, the penalty on the number of edges.
    pub sparsity: f64,
    /// Samples of a step.
    pub batch: usize,
    /// The learning rate.
    pub rate: f64,
    /// The most steps.
    pub steps: u64,
    /// Checks without a better validation loss until training ends.
    pub patience: u64,
    /// What interventions do.
    pub interventions: Interventions,
}

impl Default for DcdiSettings {
    fn default() -> Self {
        DcdiSettings {
            layers: 1,
            hidden: 8,
            sparsity: 1e-3,
            batch: 64,
            rate: 1e-3,
            steps: 500_000,
            patience: 5,
            interventions: Interventions::Imperfect,
        }
    }
}

impl DcdiSettings {
    /// Checks every number by itself.
    pub(crate) fn check(&self) -> Result<()> {
        bounds::within("layers", self.layers, 1, 10)?;
        bounds::within("hidden", self.hidden, 1, 256)?;
        bounds::within("batch", self.batch, 1, 10_000)?;
        let number = |name: &str, value: f64, good: bool, expected: &str| match good {
            true => Ok(()),
            false => Err(Error::invalid(format!("{name} is {value}, expected {expected}"))),
        };
        let finite = (0.0..=1e6).contains(&self.sparsity);
        number("sparsity", self.sparsity, finite, "0 to 1e6")?;
        let positive = self.rate > 0.0 && self.rate <= 1.0;
        number("rate", self.rate, positive, "a number above 0, at most 1")?;
        let steps = (10..=100_000_000).contains(&self.steps);
        number("steps", self.steps as f64, steps, "10 to 100000000")?;
        let patience = (1..=100_000).contains(&self.patience);
        number("patience", self.patience as f64, patience, "1 to 100000")
    }

    /// The most steps. A fit usually needs fewer.
    pub(crate) fn work(&self, _: &Dataset) -> u64 {
        self.steps
    }
}

/// Learns equations from standardised data.
pub(crate) fn fit(
    data: &Dataset,
    settings: &DcdiSettings,
    seed: u64,
    progress: &Progress,
) -> Result<NetworkEquations> {
    settings.check()?;
    bounds::within("the number of variables", data.dim(), 1, MOST_VARIABLES)?;
    let networks = data.dim() + data.targets().as_slice().iter().filter(|&&target| target).count();
    let units = settings.hidden * (data.dim() + settings.layers * (settings.hidden + 8));
    // Parameters, gradients and running means in f32.
    bounds::room(12.0 * networks as f64 * units as f64, || format!("{networks} networks"))?;
    let outcome = train::train::<f32>(data, settings, seed, progress)?;
    progress.set(settings.work(data))?;
    Ok(outcome.equations)
}
