//! Drifts at the positions of many chains at once, for simulations.

/// A drift under one intervention, ready to be evaluated at many chains in steps of one length.
pub(crate) trait ChainDrift: Sync {
    /// The drift without biases at every chain; in `x`, `b` and `sigma` the entries of a variable are contiguous. Where the
    /// noise depends on the state, √dt σ is written to `sigma`.
    fn evaluate(&self, x: &[f64], chains: usize, b: &mut [f64], sigma: &mut [f64], space: &mut ChainSpace);

    /// Functions of the state that are computed for each chain.
    fn width(&self) -> usize {
        0
    }

    /// The largest absolute value of variable `j` that a chain of a stationary law may reach, given a number of deviations.
    fn far(&self, _j: usize, deviations: f64) -> f64 {
        deviations
    }

    /// Where a chain starts, given a standard normal number.
    fn start(&self, _j: usize, z: f64) -> f64 {
        z
    }
}

/// Space that evaluations use again.
#[derive(Default)]
pub(crate) struct ChainSpace {
    /// Positions and hidden units in f32.
    pub single: Vec<f32>,
    /// Positions that functions see.
    pub seen: Vec<f64>,
    /// Functions of them.
    pub values: Vec<f64>,
    /// What expressions are computed in.
    pub pool: Vec<Vec<f64>>,
}
