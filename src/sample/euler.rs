//! Euler–Maruyama: x ← x + b(x) dt + √dt σ z, many chains at once.
//!
//! Chains come in groups of [`GROUP`]; a group is what a thread works on, has a random stream of its own and keeps
//! each variable of its chains contiguous, so that a step is a matrix product and loops over lanes. Groups are cut
//! by the number of chains alone: the bits do not depend on the number of threads.

use super::Intervention;
use crate::bounds::{room, step, within};
use crate::model::{ChainDrift, ChainSpace, Noise, Parameters};
use crate::numeric::matmul::product_sequential;
use crate::numeric::simd::dispatch;
use crate::{Error, Matrix, Progress, Result};
use faer::{Accum, MatMut, MatRef};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

/// Chains of a group.
const GROUP: usize = 64;
/// Chains at most, unless the settings say otherwise.
pub(super) const CHAINS: usize = 1024;
/// The same on a GPU, which is idle with fewer.
pub(super) const GPU_CHAINS: usize = 8192;
/// No variable that has a stationary law gets this far.
pub(super) const FAR: f64 = 1e10;
/// Steps between two looks at the clock of whoever watches.
const REPORT_STEPS: usize = 100;

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
    process: &Process<'_>,
    n: usize,
    chains: usize,
    settings: &EulerSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Matrix<f64>> {
    let d = process.biases.len();
    let mut samples = super::room(n, d)?;
    // Position, drift, noise and its spread, functions of each chain.
    let each = 40.0 * d as f64 + 4.0 * process.drift.width() as f64;
    room(chains as f64 * each, || format!("{chains} chains of {d} variables"))?;
    let mut groups: Vec<Group> = (0..chains)
        .step_by(GROUP)
        .map(|first| Group::new(process, seed, first, GROUP.min(chains - first)))
        .collect();
    let mut steps = settings.burn_in;
    for round in samples.as_mut_slice().chunks_mut(chains * d) {
        let outcomes: Vec<_> =
            groups.par_iter_mut().map(|group| group.walk(process, steps, progress)).collect::<Result<_>>()?;
        // Of several chains that ran away the first one is named, whichever thread was first.
        if let Some(run_away) = outcomes.into_iter().flatten().min_by_key(|r| (r.step, r.chain)) {
            return Err(run_away.error(settings.dt));
        }
        for (rows, group) in round.chunks_mut(GROUP * d).zip(&groups) {
            group.write(rows, d);
        }
        steps = settings.thin;
    }
    Ok(samples)
}

/// A diffusion under one intervention, ready to be stepped.
pub(super) struct Process<'a> {
    dt: f64,
    drift: Box<dyn ChainDrift + 'a>,
    /// biases + shift.
    biases: Vec<f64>,
    /// √dt σ.
    noise: ScaledNoise,
    /// Each variable is kept at or above its entry after every step.
    floor: Option<&'a [f64]>,
}

/// What multiplies the random numbers of a step.
enum ScaledNoise {
    Diagonal(Vec<f64>),
    Full(Matrix<f64>),
    /// The drift computes it from the state.
    ByState,
}

impl<'a> Process<'a> {
    pub(super) fn new(
        parameters: &'a Parameters<f64>,
        intervention: &Intervention,
        dt: f64,
        floor: Option<&'a [f64]>,
    ) -> Result<Self> {
        let noise = intervention.noise(parameters);
        Ok(Process {
            dt,
            drift: parameters.drift.dynamics().at_chains(&noise, dt)?,
            biases: intervention.biases(parameters),
            noise: match noise {
                Noise::Basis { .. } => ScaledNoise::ByState,
                Noise::Diagonal { log_noise } => {
                    ScaledNoise::Diagonal(log_noise.iter().map(|noise| dt.sqrt() * noise.exp()).collect())
                }
                Noise::Full { noise } => ScaledNoise::Full(noise.map(|entry| dt.sqrt() * entry)),
            },
            floor,
        })
    }
}

/// Chains that step together; in all arrays the entries of a variable are contiguous.
struct Group {
    rng: ChaCha8Rng,
    /// The number of its first chain.
    first: usize,
    chains: usize,
    x: Vec<f64>,
    b: Vec<f64>,
    z: Vec<f64>,
    /// σ z, for a full σ and one that depends on the state.
    scaled: Vec<f64>,
    space: ChainSpace,
    step: usize,
}

/// A chain that left every bound.
struct RunAway {
    step: usize,
    chain: usize,
    variable: usize,
    value: f64,
    far: f64,
}

impl RunAway {
    fn error(&self, dt: f64) -> Error {
        let RunAway { step, chain, variable, value, far } = self;
        Error::NonFinite(format!(
            "the simulation ran away: variable {variable} of chain {chain} is {value:e} after {step} steps, expected \
             less than {far:e}; either the model has no stationary law, or the step {dt} is too long"
        ))
    }
}

impl Group {
    fn new(process: &Process<'_>, seed: u64, first: usize, chains: usize) -> Self {
        let d = process.biases.len();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream((first / GROUP) as u64);
        let mut x: Vec<f64> = (0..d * chains).map(|_| StandardNormal.sample(&mut rng)).collect();
        x.iter_mut().enumerate().for_each(|(at, x)| *x = process.drift.start(at / chains, *x));
        if let Some(floor) = process.floor {
            for (x, floor) in x.chunks_exact_mut(chains).zip(floor) {
                x.iter_mut().for_each(|x| *x = x.max(*floor));
            }
        }
        let alone = matches!(process.noise, ScaledNoise::Diagonal(_));
        Group {
            rng,
            first,
            chains,
            x,
            b: vec![0.0; d * chains],
            z: vec![0.0; d * chains],
            scaled: vec![0.0; if alone { 0 } else { d * chains }],
            space: ChainSpace::default(),
            step: 0,
        }
    }

    fn walk(&mut self, process: &Process<'_>, steps: usize, progress: &Progress) -> Result<Option<RunAway>> {
        for part in (0..steps).step_by(REPORT_STEPS) {
            let count = REPORT_STEPS.min(steps - part);
            for _ in 0..count {
                self.step += 1;
                if !self.step(process) {
                    return Ok(Some(self.run_away(process)));
                }
            }
            progress.add((count * self.chains) as u64)?;
        }
        Ok(None)
    }

    /// One step of every chain; false if one of them ran away.
    fn step(&mut self, process: &Process<'_>) -> bool {
        let (d, chains) = (process.biases.len(), self.chains);
        process.drift.evaluate(&self.x, chains, &mut self.b, &mut self.scaled, &mut self.space);
        self.z.iter_mut().for_each(|z| *z = StandardNormal.sample(&mut self.rng));
        match &process.noise {
            ScaledNoise::Diagonal(_) => {}
            ScaledNoise::Full(noise) => {
                let scaled = MatMut::from_column_major_slice_mut(&mut self.scaled, chains, d);
                let z = MatRef::from_column_major_slice(&self.z, chains, d);
                product_sequential(scaled, Accum::Replace, z, noise.view().transpose());
            }
            ScaledNoise::ByState => self.scaled.iter_mut().zip(&self.z).for_each(|(sigma, z)| *sigma *= z),
        }
        let (x, b) = (&mut self.x, &self.b);
        let z = if let ScaledNoise::Diagonal(_) = process.noise { &self.z } else { &self.scaled };
        dispatch(
            #[inline(always)]
            || {
                let mut near = true;
                let columns =
                    x.chunks_exact_mut(chains).zip(b.chunks_exact(chains)).zip(z.chunks_exact(chains));
                for (j, ((x, b), z)) in columns.enumerate() {
                    let scale = match &process.noise {
                        ScaledNoise::Diagonal(scale) => scale[j],
                        ScaledNoise::Full(_) | ScaledNoise::ByState => 1.0,
                    };
                    let (bias, dt) = (process.biases[j], process.dt);
                    let far = process.drift.far(j, FAR);
                    for ((x, b), z) in x.iter_mut().zip(b).zip(z) {
                        *x += (*b + bias) * dt + scale * *z;
                        // A NaN fails the comparison too.
                        near &= x.abs() <= far;
                    }
                    if let Some(floor) = process.floor {
                        // Not for a NaN, which `max` would hide.
                        x.iter_mut().for_each(|x| *x = if *x < floor[j] { floor[j] } else { *x });
                    }
                }
                near
            },
        )
    }

    fn run_away(&self, process: &Process<'_>) -> RunAway {
        // By chain first, as the errors of several groups are ordered.
        let far = |&(chain, j): &(usize, usize)| {
            let value = self.x[j * self.chains + chain];
            value.is_nan() || value.abs() > process.drift.far(j, FAR)
        };
        let variables = self.x.len() / self.chains;
        let places = (0..self.chains).flat_map(|chain| (0..variables).map(move |j| (chain, j)));
        let (chain, variable) = places.into_iter().find(far).unwrap_or((0, 0));
        let value = self.x[variable * self.chains + chain];
        RunAway {
            step: self.step,
            chain: self.first + chain,
            variable,
            value,
            far: process.drift.far(variable, FAR),
        }
    }

    /// Writes as many chains as `rows` has room for.
    fn write(&self, rows: &mut [f64], d: usize) {
        for (chain, row) in rows.chunks_exact_mut(d).enumerate() {
            for (j, value) in row.iter_mut().enumerate() {
                *value = self.x[j * self.chains + chain];
            }
        }
    }
}
