//! Chains of Euler–Maruyama, x ← x + b(x) dt + √dt σ z, many at once.
//!
//! Chains come in groups of [`GROUP`]; a group is what a thread works on, and keeps each variable of its chains contiguous, so
//! that a step is a matrix product and loops over lanes. Random numbers follow from the seed, the group, the step and the
//! variable. Groups are cut by the number of chains alone: the bits do not depend on the number of threads.

use super::Intervention;
use crate::bounds::room;
use crate::model::{self, ChainDrift, ChainSpace, Parameters};
use crate::numeric::matmul::product_sequential;
use crate::numeric::normals::{BLOCK, Normals};
use crate::numeric::simd::dispatch;
use crate::{Error, Matrix, Progress, Result};
use faer::{Accum, MatMut, MatRef};
use rayon::prelude::*;

/// Chains of a group: one block of normal numbers for each variable.
const GROUP: usize = BLOCK;
/// No variable that has a stationary law gets this far.
pub(super) const FAR: f64 = 1e10;
/// Steps between two looks at the clock of whoever watches.
const REPORT_STEPS: usize = 100;

/// Random numbers of chains that have become independent begin here, far from those of the mirrored ones.
const INDEPENDENT_STREAMS: u32 = 1 << 24;

/// How the random numbers of chains depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noise {
    /// Not at all.
    Independent,
    /// In each group, the second half of the chains has those of the first half with the opposite sign. What depends linearly on them, as
    /// most of the noise of means does, then cancels.
    Mirrored,
}

/// The chains of one diffusion under one intervention.
pub(super) struct Chains<'a> {
    process: Process<'a>,
    groups: Vec<Group>,
    count: usize,
    seed: u64,
}

impl<'a> Chains<'a> {
    /// `count` chains at standard normal points; those of a drift of given functions start near the middle of the data.
    pub(super) fn start(process: Process<'a>, count: usize, noise: Noise, seed: u64) -> Result<Self> {
        // Position, drift, noise and its spread, functions of each chain.
        let d = process.biases.len();
        let each = 40.0 * d as f64 + 4.0 * process.drift.width() as f64;
        room(count as f64 * each, || format!("{count} chains of {d} variables"))?;
        let groups = (0..count)
            .step_by(GROUP)
            .map(|first| Group::new(&process, noise, seed, first, GROUP.min(count - first)))
            .collect();
        Ok(Chains { process, groups, count, seed })
    }

    /// Lets the chains go on by another process of the same dimension, with the pushes that this one has had.
    pub(super) fn continue_by(&mut self, mut process: Process<'a>) {
        process.biases.clone_from(&self.process.biases);
        self.process = process;
    }

    /// `count` chains that start where these are, over and over, and have independent random numbers from now on.
    pub(super) fn independent(&mut self, count: usize) {
        let groups = (0..count).step_by(GROUP).enumerate().map(|(g, first)| {
            let from = &self.groups[g % self.groups.len()];
            from.copied(self.seed, first, GROUP.min(count - first))
        });
        self.groups = groups.collect();
        self.count = count;
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Walks all chains on. `progress` counts the steps of all of them.
    pub(super) fn walk(&mut self, steps: usize, progress: &Progress) -> Result<()> {
        let Chains { process, groups, .. } = self;
        let outcomes: Vec<_> =
            groups.par_iter_mut().map(|group| group.walk(process, steps, progress)).collect::<Result<_>>()?;
        // Of several chains that ran away the first one is named, whichever thread was first.
        match outcomes.into_iter().flatten().min_by_key(|r| (r.step, r.chain)) {
            Some(run_away) => Err(run_away.error(self.process.dt)),
            None => Ok(()),
        }
    }

    /// Writes as many chains as `rows` has room for, one after the other.
    pub(super) fn write(&self, rows: &mut [f64]) {
        let d = self.process.biases.len();
        for (rows, group) in rows.chunks_mut(GROUP * d).zip(&self.groups) {
            group.write(rows, d);
        }
    }

    /// Means and mean squares of all variables over the chains.
    pub(super) fn moments(&self) -> (Vec<f64>, Vec<f64>) {
        let d = self.process.biases.len();
        let (mut means, mut squares) = (vec![0.0; d], vec![0.0; d]);
        for group in &self.groups {
            for (j, x) in group.x.chunks_exact(group.chains).enumerate() {
                means[j] += x.iter().sum::<f64>();
                squares[j] += x.iter().map(|x| x * x).sum::<f64>();
            }
        }
        let n = self.count as f64;
        means.iter_mut().chain(&mut squares).for_each(|sum| *sum /= n);
        (means, squares)
    }

    /// Adds to the constant of one variable's drift.
    pub(super) fn push(&mut self, variable: usize, by: f64) {
        self.process.biases[variable] += by;
    }
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
                model::Noise::Basis { .. } => ScaledNoise::ByState,
                model::Noise::Diagonal { log_noise } => {
                    ScaledNoise::Diagonal(log_noise.iter().map(|noise| dt.sqrt() * noise.exp()).collect())
                }
                model::Noise::Full { noise } => ScaledNoise::Full(noise.map(|entry| dt.sqrt() * entry)),
            },
            floor,
        })
    }

    /// The number of variables.
    pub(super) fn dim(&self) -> usize {
        self.biases.len()
    }
}

/// Chains that step together; in all arrays the entries of a variable are contiguous.
struct Group {
    normals: Normals,
    noise: Noise,
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
    fn new(process: &Process<'_>, noise: Noise, seed: u64, first: usize, chains: usize) -> Self {
        let d = process.biases.len();
        // Step 0 is the start.
        let normals = Normals::new(seed, (first / GROUP) as u32);
        let mut x = vec![0.0; d * chains];
        fill(&normals, noise, 0, chains, &mut x);
        x.iter_mut().enumerate().for_each(|(at, x)| *x = process.drift.start(at / chains, *x));
        if let Some(floor) = process.floor {
            for (x, floor) in x.chunks_exact_mut(chains).zip(floor) {
                x.iter_mut().for_each(|x| *x = x.max(*floor));
            }
        }
        let mixes = !matches!(process.noise, ScaledNoise::Diagonal(_));
        Group::at(normals, noise, first, chains, x, mixes, 0)
    }

    /// A group at these points after some steps. `mixes` says whether the noise needs room for σ z.
    fn at(
        normals: Normals,
        noise: Noise,
        first: usize,
        chains: usize,
        x: Vec<f64>,
        mixes: bool,
        step: usize,
    ) -> Self {
        let room = || vec![0.0; x.len()];
        let (b, z, scaled) = (room(), room(), if mixes { room() } else { Vec::new() });
        Group { normals, noise, first, chains, x, b, z, scaled, space: ChainSpace::default(), step }
    }

    /// A group of `chains` chains that start where those of this one are, over and over, with independent random numbers.
    fn copied(&self, seed: u64, first: usize, chains: usize) -> Self {
        let d = self.x.len() / self.chains;
        let x =
            (0..d * chains).map(|at| self.x[at / chains * self.chains + at % chains % self.chains]).collect();
        let normals = Normals::new(seed, INDEPENDENT_STREAMS + (first / GROUP) as u32);
        let mixes = !self.scaled.is_empty();
        Group::at(normals, Noise::Independent, first, chains, x, mixes, self.step)
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
        fill(&self.normals, self.noise, self.step as u64, chains, &mut self.z);
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

/// Normal numbers of one step, variable after variable.
fn fill(normals: &Normals, noise: Noise, step: u64, chains: usize, z: &mut [f64]) {
    dispatch(
        #[inline(always)]
        || match noise {
            Noise::Independent => {
                for (j, z) in z.chunks_exact_mut(chains).enumerate() {
                    let block = normals.block(step, j as u32);
                    z.iter_mut().zip(block).for_each(|(z, value)| *z = f64::from(value));
                }
            }
            Noise::Mirrored => {
                // A block is enough for two variables of a whole group.
                let mut block = [0.0; BLOCK];
                for (j, z) in z.chunks_exact_mut(chains).enumerate() {
                    if j % 2 == 0 {
                        block = normals.block(step, (j / 2) as u32);
                    }
                    let own = &block[j % 2 * (BLOCK / 2)..];
                    let (first, second) = z.split_at_mut(chains / 2);
                    for ((first, second), value) in first.iter_mut().zip(&mut *second).zip(own) {
                        *first = f64::from(*value);
                        *second = -*first;
                    }
                    // The one in the middle of an odd number has no mirror image.
                    if chains % 2 == 1 {
                        second[chains / 2] = f64::from(own[(chains / 2).min(BLOCK / 2 - 1)]);
                    }
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrored_numbers_are_normal_and_cancel() {
        let normals = Normals::new(3, 0);
        for chains in [1, 2, 7, 63, 64] {
            let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
            for step in 0..400 {
                let mut z = vec![f64::NAN; 5 * chains];
                fill(&normals, Noise::Mirrored, step, chains, &mut z);
                for z in z.chunks(chains) {
                    let (first, second) = z.split_at(chains / 2);
                    assert!(first.iter().zip(second).all(|(a, b)| *a == -*b));
                    let alone: &[f64] = if chains % 2 == 1 { &z[chains - 1..] } else { &[] };
                    for z in first.iter().chain(alone) {
                        (sum, squares, count) = (sum + z, squares + z * z, count + 1.0);
                    }
                }
                // No number serves twice.
                let mut all: Vec<f64> = z.iter().map(|z| z.abs()).collect();
                all.sort_by(f64::total_cmp);
                all.dedup();
                assert_eq!(all.len(), 5 * chains.div_ceil(2), "{chains}");
            }
            let error = 5.0 / f64::sqrt(count);
            assert!((sum / count).abs() < error && (squares / count - 1.0).abs() < 1.5 * error, "{chains}");
        }
    }
}
