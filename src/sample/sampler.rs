//! Many interventions sampled at once, on the CPU or on a GPU.

use super::chains::{FAR, Process};
use super::{Intervention, LinearParts, Method, SampleSettings, room, zero_in_model_units};
use super::{equations, euler};
use crate::engine::Engine;
use crate::engine::cpu::CpuEngine;
use crate::engine::gpu::GpuEngine;
use crate::model::{Model, Parameters};
use crate::{Error, Matrix, Progress, Result};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use std::borrow::Cow;

/// What to draw.
#[derive(Clone, Copy, Debug)]
pub struct Draw<'a> {
    /// Under this intervention.
    pub intervention: &'a Intervention,
    /// How many samples.
    pub samples: usize,
    /// Of its own random numbers.
    pub seed: u64,
}

/// Draws from stationary laws. The CPU makes all exact draws, and simulates every drift that has no shader, in f64. A GPU
/// simulates the other drifts in f32, with its own random numbers.
#[derive(Default)]
pub struct Sampler {
    pub(super) gpu: Option<GpuEngine>,
}

impl Sampler {
    /// Simulates on the CPU.
    pub fn cpu() -> Self {
        Sampler::default()
    }

    /// Simulates on a GPU, or on the CPU if there is none.
    pub fn with_gpu(gpu: Option<GpuEngine>) -> Self {
        Sampler { gpu }
    }

    /// The name of the device that a method's draws from a model are made on.
    pub fn device(&self, model: &Model, method: Method) -> String {
        match &self.gpu {
            Some(gpu) if method != Method::Exact && gpu.can_simulate(&model.parameters) => {
                Engine::<f32>::device(gpu)
            }
            _ => Engine::<f64>::device(&CpuEngine),
        }
    }

    /// Steps of all chains that `n` samples of one intervention take.
    pub(crate) fn steps_for(&self, n: usize, settings: &SampleSettings) -> u64 {
        settings.euler.steps_for(n, self.chains_for(n, settings))
    }

    pub(super) fn chains_for(&self, n: usize, settings: &SampleSettings) -> usize {
        let most = if self.gpu.is_some() { euler::GPU_CHAINS } else { euler::CHAINS };
        settings.euler.chains.unwrap_or(most).min(n)
    }

    /// The samples of each draw, one per row, in the data's units. A law that does not exist, or a simulation that
    /// runs away, is an error of its own draw. `progress` counts steps of all chains.
    ///
    /// The same device and seed give the same bits, with any number of threads and in any company of other draws.
    pub fn draw(
        &self,
        model: &Model,
        draws: &[Draw<'_>],
        settings: &SampleSettings,
        progress: &Progress,
    ) -> Result<Vec<Result<Matrix<f64>>>> {
        if draws.is_empty() {
            return Ok(Vec::new());
        }
        model.parameters.check_shapes()?;
        for draw in draws {
            draw.intervention.check_fits(&model.parameters)?;
            if draw.samples == 0 {
                return Err(Error::invalid("found 0 samples to draw, expected at least 1"));
            }
        }
        // Standard units define where chains start and which values are too far away.
        let standard = model.in_standard_units();
        if let (Cow::Owned(standard), Some(units)) = (&standard, &model.reference) {
            let inside: Vec<Intervention> =
                draws.iter().map(|draw| draw.intervention.in_standard_units(units)).collect();
            let draws: Vec<Draw<'_>> = draws
                .iter()
                .zip(&inside)
                .map(|(draw, intervention)| Draw { intervention, ..*draw })
                .collect();
            return self.draw(standard, &draws, settings, progress);
        }
        let parameters = &model.parameters;
        let exact = settings.method_for(model)? == Method::Exact;
        if !exact {
            settings.euler.check()?;
        }
        let floor = settings.nonnegative.then(|| zero_in_model_units(model));
        let floor = floor.as_deref();
        let mut all: Vec<Result<Matrix<f64>>> = match (LinearParts::of(model), &self.gpu) {
            _ if model.is_of_equations() => draws
                .par_iter()
                .map(|draw| {
                    progress.check()?;
                    equations::draw(model, draw.intervention, draw.samples, draw.seed)
                })
                .collect(),
            (Ok(parts), _) if exact => draws
                .par_iter()
                .map(|draw| {
                    progress.check()?;
                    let mut rng = ChaCha8Rng::seed_from_u64(draw.seed);
                    parts.gaussian(draw.intervention)?.draw(draw.samples, &mut rng)
                })
                .collect(),
            (_, Some(gpu)) if gpu.can_simulate(parameters) => {
                self.on_gpu(gpu, parameters, draws, settings, floor, progress)?
            }
            _ => draws
                .par_iter()
                .map(|draw| {
                    let process = Process::new(parameters, draw.intervention, settings.euler.dt, floor)?;
                    let chains = self.chains_for(draw.samples, settings);
                    euler::simulate(process, draw.samples, chains, &settings.euler, draw.seed, progress)
                })
                .collect(),
        };
        for samples in all.iter_mut().flatten() {
            if let Some(units) = &model.standardization {
                units.undo(samples);
            }
            if settings.nonnegative {
                // Undoing the units may round a 0 to just below.
                samples.as_mut_slice().iter_mut().for_each(|x| *x = x.max(0.0));
            }
        }
        Ok(all)
    }

    fn on_gpu(
        &self,
        gpu: &GpuEngine,
        parameters: &Parameters<f64>,
        draws: &[Draw<'_>],
        settings: &SampleSettings,
        floor: Option<&[f64]>,
        progress: &Progress,
    ) -> Result<Vec<Result<Matrix<f64>>>> {
        let d = parameters.dim();
        let table = |part: fn(&Intervention) -> &Vec<f64>| {
            let values = draws.iter().flat_map(|draw| part(draw.intervention).iter().copied()).collect();
            Some(Matrix::from_rows(draws.len(), d, values))
        };
        let parameters = Parameters {
            shift: table(|intervention| &intervention.shift),
            log_scale: table(|intervention| &intervention.log_scale),
            ..parameters.clone()
        };
        let euler = settings.euler;
        let chains: Vec<usize> = draws.iter().map(|draw| self.chains_for(draw.samples, settings)).collect();
        let seeds: Vec<u64> = draws.iter().map(|draw| draw.seed).collect();
        let rounds = draws.iter().zip(&chains).map(|(draw, chains)| draw.samples.div_ceil(*chains)).max();
        let mut samples = draws.iter().map(|draw| room(draw.samples, d)).collect::<Result<Vec<_>>>()?;
        let mut walk = gpu.walk(&parameters, &chains, &seeds, euler.dt, floor)?;
        let mut steps = euler.burn_in;
        for round in 0..rounds.unwrap_or(0) {
            walk.walk(steps, progress)?;
            for ((samples, now), chains) in samples.iter_mut().zip(walk.chains()?).zip(&chains) {
                let first = (round * chains * d).min(samples.as_slice().len());
                let into = &mut samples.as_mut_slice()[first..];
                into.iter_mut().zip(now.as_slice()).for_each(|(out, value)| *out = *value);
            }
            steps = euler.thin;
        }
        let checked = samples.into_iter().zip(&chains);
        Ok(checked.map(|(samples, chains)| ran_well(samples, *chains, euler.dt)).collect())
    }
}

/// The samples, unless one of them is where no chain of a stationary law gets.
pub(super) fn ran_well(samples: Matrix<f64>, chains: usize, dt: f64) -> Result<Matrix<f64>> {
    let d = samples.cols();
    match samples.as_slice().iter().position(|x| x.is_nan() || x.abs() > FAR) {
        None => Ok(samples),
        Some(at) => Err(Error::NonFinite(format!(
            "the simulation ran away: variable {} of chain {} got beyond {FAR:e}; the model has no stationary law or \
             the step {dt} is too long",
            at % d,
            at / d % chains,
        ))),
    }
}
