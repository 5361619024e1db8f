//! Samples of a diffusion by simulation.

use super::chains::{Chains, Noise, Process};
use crate::bounds::{step, within};
use crate::{Matrix, Progress, Result};

/// Chains at most, unless the settings say otherwise.
pub(super) const CHAINS: usize = 1024;
/// The same on a GPU, which is idle with fewer.
pub(super) const GPU_CHAINS: usize = 8192;

/// Steps before the first sample, and between two.
const MOST_STEPS: usize = 1_000_000_000;
/// Chains side by side that anyone may ask for.
const MOST_CHAINS: usize = 1_000_000;

/// How to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EulerSettings {
    /// The length of a step in time.
    pub dt: f64,
    /// Steps that every chain walks before its first sample.
    pub burn_in: usize,
    /// Steps between two samples of a chain.
    pub thin: usize,
    /// Chains that walk side by side; none takes one per sample, but at most 1024, or 8192 on a GPU.
    pub chains: Option<usize>,
}

impl Default for EulerSettings {
    /// dt 0.01, 3000 steps of burn-in, a sample every 200 steps.
    ///
    /// For a variable that forgets at rate 1, as in a model of standardized data, that is thirty times its memory and
    /// then twice: samples of one chain that follow each other have a correlation of e⁻² = 0.14. Up to 1024
    /// samples are independent, since each has a chain of its own.
    fn default() -> Self {
        EulerSettings { dt: 0.01, burn_in: 3000, thin: 200, chains: None }
    }
}

impl EulerSettings {
    /// Checks each setting alone.
    pub(crate) fn check(&self) -> Result<()> {
        step("dt", self.dt)?;
        within("burn_in", self.burn_in, 0, MOST_STEPS)?;
        within("thin", self.thin, 1, MOST_STEPS)?;
        within("the number of chains", self.chains.unwrap_or(1), 1, MOST_CHAINS)?;
        Ok(())
    }

    /// The steps of all chains together that `n` samples of `chains` chains take.
    pub(super) fn steps_for(&self, n: usize, chains: usize) -> u64 {
        let later = n.div_ceil(chains.max(1)).saturating_sub(1);
        (self.burn_in as u64)
            .saturating_add((later as u64).saturating_mul(self.thin as u64))
            .saturating_mul(chains as u64)
    }
}

/// `n` samples of the diffusion after `burn_in` steps, in the model's units.
///
/// Every chain starts at a standard normal point; the chains of a drift of given functions start near the middle of the data.
/// Rows are ordered by time, and by chain within a time: neighbouring rows come from different chains and are independent.
/// `progress` counts the steps of all chains.
pub(super) fn simulate(
    process: Process<'_>,
    n: usize,
    chains: usize,
    settings: &EulerSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Matrix<f64>> {
    let d = process.dim();
    let mut samples = super::room(n, d)?;
    let mut chains = Chains::start(process, chains, Noise::Independent, seed)?;
    let mut steps = settings.burn_in;
    for round in samples.as_mut_slice().chunks_mut(chains.count() * d) {
        chains.walk(steps, progress)?;
        chains.write(round);
        steps = settings.thin;
    }
    Ok(samples)
}
