//! Samples under shifts that are found while the chains walk, for many interventions at once, on the CPU or a GPU.

use super::chains::{Chains, Noise, Process};
use super::steering::{Goals, Steering};
use super::{EulerSettings, Intervention, SampleSettings, Sampler, room, zero_in_model_units};
use crate::engine::gpu::GpuEngine;
use crate::model::{Model, Parameters};
use crate::{Error, Matrix, Progress, Result};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// Chains whose means steer the shifts; on a GPU at least.
const LEAST_CHAINS: usize = 512;

/// Means to reach, and samples to draw under the shifts that reach them.
#[derive(Clone, Debug)]
pub(crate) struct SteeredDraw<'a> {
    /// The intervention to add shifts to, in the model's units.
    pub base: &'a Intervention,
    /// The variables whose shifts are to be found; none for the base as it is.
    pub targets: &'a [usize],
    /// Their means, in the units of the model's parameters.
    pub goals: Goals,
    /// How many samples to draw.
    pub samples: usize,
    /// Of its own random numbers.
    pub seed: u64,
}

/// An intervention that was found, and what it does.
#[derive(Clone, Debug)]
pub(crate) struct Steered {
    /// The base with the shifts, in the model's units.
    pub intervention: Intervention,
    /// One sample per row, in the data's units.
    pub samples: Matrix<f64>,
    /// The means of all variables over the chains, at each report of the simulation, if nothing was steered.
    pub track: Vec<Vec<f64>>,
    /// The largest distance of a target's mean from its goal, in standard deviations.
    pub miss: f64,
}

/// Sets the progress of many searches together, as a share of `units`.
struct Share<'a> {
    progress: &'a Progress,
    units: u64,
    expected: u64,
    reports: AtomicU64,
}

impl Share<'_> {
    fn report(&self) -> Result<()> {
        let reports = self.reports.fetch_add(1, Ordering::Relaxed) + 1;
        // Searches that take longer than usual wait at the end.
        self.progress.set((self.units * reports / self.expected.max(1)).min(self.units))
    }
}

impl Sampler {
    /// For each entry, the shifts under which the targets have their means, and samples under these shifts. The model's parameters
    /// are simulated as they are: a caller passes a model in standard units. A simulation that runs away is an error of its
    /// own entry. `progress` goes to `units`.
    pub(crate) fn steer(
        &self,
        model: &Model,
        wanted: &[SteeredDraw<'_>],
        settings: &SampleSettings,
        units: u64,
        progress: &Progress,
    ) -> Result<Vec<Result<Steered>>> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        model.parameters.check_shapes()?;
        wanted.iter().try_for_each(|wanted| wanted.base.check_fits(&model.parameters))?;
        settings.euler.check()?;
        let floor = settings.nonnegative.then(|| zero_in_model_units(model));
        let EulerSettings { burn_in, dt, .. } = settings.euler;
        let steering: Vec<Steering> =
            wanted.iter().map(|aim| Steering::new(aim.targets, aim.goals.clone(), burn_in, dt)).collect();
        let expected = steering.iter().map(|steering| steering.usual_reports() as u64).sum();
        let share = Share { progress, units, expected, reports: AtomicU64::new(0) };
        let mut found = match &self.gpu {
            Some(gpu) if gpu.can_simulate(&model.parameters) => self.steer_on_gpu(
                gpu,
                &model.parameters,
                wanted,
                steering,
                settings,
                floor.as_deref(),
                &share,
            )?,
            _ => wanted
                .par_iter()
                .zip(steering)
                .map(|(aim, steering)| {
                    let process = |dt| Process::new(&model.parameters, aim.base, dt, floor.as_deref());
                    self.steer_on_cpu(&process, aim, steering, settings, &share)
                })
                .collect(),
        };
        for Steered { samples, .. } in found.iter_mut().flatten() {
            if let Some(units) = &model.standardization {
                units.undo(samples);
            }
            if settings.nonnegative {
                samples.as_mut_slice().iter_mut().for_each(|x| *x = x.max(0.0));
            }
        }
        // A stop is one of the whole, not of an entry.
        match found
            .iter()
            .position(|found| matches!(found, Err(error) if !matches!(error, Error::NonFinite(_))))
        {
            Some(at) => Err(found.swap_remove(at).expect_err("the position of an error")),
            None => Ok(found),
        }
    }

    fn chains_to_steer(&self, samples: usize, settings: &SampleSettings) -> usize {
        self.chains_for(samples.max(LEAST_CHAINS), settings)
    }

    /// Mirrored chains find the shifts, with twice the step while the shifts move. Copies of them that have become independent are the
    /// samples.
    fn steer_on_cpu<'p>(
        &self,
        process: &dyn Fn(f64) -> Result<Process<'p>>,
        aim: &SteeredDraw<'_>,
        mut steering: Steering,
        settings: &SampleSettings,
        share: &Share<'_>,
    ) -> Result<Steered> {
        let dt = settings.euler.dt;
        let step = |strides: bool| if strides { 2.0 * dt } else { dt };
        let mut strides = steering.may_stride();
        let first = process(step(strides))?;
        let d = first.dim();
        let mut samples = room(aim.samples, d)?;
        let progress = share.progress.part();
        let mut chains =
            Chains::start(first, self.chains_for(LEAST_CHAINS, settings), Noise::Mirrored, aim.seed)?;
        let mut shifts = vec![0.0; d];
        while !steering.is_done() {
            if strides != steering.may_stride() {
                strides = !strides;
                chains.continue_by(process(step(strides))?);
            }
            chains.walk(if strides { steering.steps() / 2 } else { steering.steps() }, &progress)?;
            let (means, squares) = chains.moments();
            steering.report(&means, &squares);
            for (j, shift) in steering.shifts() {
                chains.push(j, shift - shifts[j]);
                shifts[j] = shift;
            }
            share.report()?;
        }
        chains.independent(self.chains_for(aim.samples, settings));
        let mut steps = steering.forgetting() * steering.steps();
        for rows in samples.as_mut_slice().chunks_mut(chains.count() * d) {
            chains.walk(steps, &progress)?;
            chains.write(rows);
            steps = settings.euler.thin;
        }
        Ok(finished(aim, steering, samples))
    }

    /// All entries walk side by side, and those that are done wait for the others. The device walks, the host steers.
    #[allow(clippy::too_many_arguments)]
    fn steer_on_gpu(
        &self,
        gpu: &GpuEngine,
        parameters: &Parameters<f64>,
        wanted: &[SteeredDraw<'_>],
        mut steering: Vec<Steering>,
        settings: &SampleSettings,
        floor: Option<&[f64]>,
        share: &Share<'_>,
    ) -> Result<Vec<Result<Steered>>> {
        let (d, all) = (parameters.dim(), wanted.len());
        let table = |part: fn(&Intervention) -> &Vec<f64>| {
            let values = wanted.iter().flat_map(|aim| part(aim.base).iter().copied()).collect();
            Matrix::from_rows(all, d, values)
        };
        let base = table(|intervention| &intervention.shift);
        let log_scale = Some(table(|intervention| &intervention.log_scale));
        let mut parameters = Parameters { shift: Some(base.clone()), log_scale, ..parameters.clone() };
        let chains: Vec<usize> =
            wanted.iter().map(|aim| self.chains_to_steer(aim.samples, settings)).collect();
        let seeds: Vec<u64> = wanted.iter().map(|aim| aim.seed).collect();
        let mut samples = wanted.iter().map(|aim| room(aim.samples, d)).collect::<Result<Vec<_>>>()?;
        let mut walk = gpu.walk(&parameters, &chains, &seeds, settings.euler.dt, floor)?;
        let progress = share.progress.part();
        let mut lost: Vec<Option<Error>> = (0..all).map(|_| None).collect();
        let active = |steering: &Steering, lost: &Option<Error>| !steering.is_done() && lost.is_none();
        while let Some(steps) = steering.iter().zip(&lost).find(|(s, l)| active(s, l)).map(|(s, _)| s.steps())
        {
            walk.walk(steps, &progress)?;
            let mut shift = base.clone();
            for (e, now) in walk.chains()?.into_iter().enumerate() {
                if active(&steering[e], &lost[e]) {
                    match super::sampler::ran_well(now, chains[e], settings.euler.dt) {
                        Ok(now) => {
                            let (means, squares) = moments_of(&now);
                            steering[e].report(&means, &squares);
                            share.report()?;
                        }
                        Err(error) => lost[e] = Some(error),
                    }
                }
                steering[e].shifts().for_each(|(j, by)| shift[(e, j)] += by);
            }
            parameters.shift = Some(shift);
            walk.set_parameters(&parameters)?;
        }
        let rounds = samples.iter().zip(&chains).map(|(s, chains)| s.rows().div_ceil(*chains)).max();
        for round in 0..rounds.unwrap_or(0) {
            if round > 0 {
                walk.walk(settings.euler.thin, &progress)?;
            }
            for ((samples, now), chains) in samples.iter_mut().zip(walk.chains()?).zip(&chains) {
                let first = (round * chains * d).min(samples.as_slice().len());
                let into = &mut samples.as_mut_slice()[first..];
                into.iter_mut().zip(now.as_slice()).for_each(|(out, value)| *out = *value);
            }
        }
        let ended = wanted.iter().zip(steering.into_iter().zip(lost)).zip(samples);
        Ok(ended
            .map(|((aim, (steering, lost)), samples)| match lost {
                Some(error) => Err(error),
                None => Ok(finished(aim, steering, samples)),
            })
            .collect())
    }
}

fn finished(aim: &SteeredDraw<'_>, steering: Steering, samples: Matrix<f64>) -> Steered {
    let mut intervention = aim.base.clone();
    steering.shifts().for_each(|(j, by)| intervention.shift[j] += by);
    Steered { intervention, samples, miss: steering.miss(), track: steering.into_track() }
}

fn moments_of(chains: &Matrix<f64>) -> (Vec<f64>, Vec<f64>) {
    let (mut means, mut squares) = (vec![0.0; chains.cols()], vec![0.0; chains.cols()]);
    for i in 0..chains.rows() {
        for (j, x) in chains.row(i).iter().enumerate() {
            means[j] += x;
            squares[j] += x * x;
        }
    }
    means.iter_mut().chain(&mut squares).for_each(|sum| *sum /= chains.rows() as f64);
    (means, squares)
}
