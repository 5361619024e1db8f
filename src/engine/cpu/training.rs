//! Training on the CPU: batches are gathered from samples that are converted once, and the penalty and the optimiser's update
//! are one pass over the parameters.

use super::{CpuLoss, Samples};
use crate::data::Dataset;
use crate::engine::Loss;
use crate::engine::draw::Batches;
use crate::engine::optimiser::Update;
use crate::engine::training::{Standing, State, Training, TrainingSpec, check_multipliers};
use crate::model::{ENTRIES_PER_TASK, Groups, Parameters};
use crate::numeric::{simd, tasks};
use crate::{Error, Matrix, Result, Scalar};
use std::sync::atomic::{AtomicBool, Ordering};

/// Training on the CPU.
pub struct CpuTraining {
    spec: TrainingSpec,
    source: Samples<f32>,
    loss: CpuLoss<f32>,
    free: Parameters<f32>,
    /// What the penalty's effects are multiplied with.
    multipliers: Option<Matrix<f64>>,
    state: State,
    gradient: Parameters<f32>,
    /// The parameters and the gradient of the environments of a batch; drift and noise are lent to them for the time
    /// of an evaluation, so that nothing large is copied.
    batch_parameters: Parameters<f32>,
    batch_gradient: Parameters<f32>,
    /// The last step's loss and penalty.
    last: (f64, f64),
}

impl CpuTraining {
    /// Starts training from `parameters` on `data`. `free` has 1 where a parameter may change and 0 where it is fixed.
    pub fn new(
        data: &Dataset,
        spec: TrainingSpec,
        parameters: &Parameters<f32>,
        free: &Parameters<f32>,
    ) -> Result<Self> {
        parameters.check_fits(data.dim(), data.environments())?;
        let source = Samples::new(data);
        let loss = match spec.batches {
            Some(batches) => {
                CpuLoss::of(Samples::empty(&vec![batches.rows; batches.environments], data.dim()), spec.loss)
            }
            None => CpuLoss::new(data, spec.loss),
        };
        let gradient = parameters.zeros_like();
        let slots = spec.batches.map_or(data.environments(), |batches| batches.environments);
        let mut batch = gradient.clone();
        for table in [&mut batch.shift, &mut batch.log_scale].into_iter().flatten() {
            *table = Matrix::full(slots, data.dim(), 0.0);
        }
        let mut batch_parameters = batch.clone();
        // What is lent is not needed twice.
        batch_parameters.biases = Vec::new();
        Ok(CpuTraining {
            spec,
            source,
            loss,
            free: free.clone(),
            multipliers: None,
            state: State::new(parameters.clone(), spec.optimiser.kind()),
            gradient,
            batch_parameters,
            batch_gradient: batch,
            last: (0.0, 0.0),
        })
    }

    /// The same training with effects multiplied in the penalty: row j, column i of finite `multipliers` belongs to the effect
    /// of i on j.
    pub fn weighing(self, multipliers: Matrix<f64>) -> Result<Self> {
        check_multipliers(&multipliers, self.state.parameters.dim())?;
        Ok(CpuTraining { multipliers: Some(multipliers), ..self })
    }

    /// Gathers the batch of this step; returns its environments.
    fn draw(&mut self, batches: Batches) -> Vec<usize> {
        let all = self.source.environments();
        let step = self.state.steps;
        let drawn: Vec<usize> =
            (0..batches.environments).map(|slot| batches.environment(step, slot, all)).collect();
        for (slot, &e) in drawn.iter().enumerate() {
            let rows = self.source.rows(e);
            let from = |at: usize| rows.start + batches.row(step, e, at, rows.len());
            self.loss.gather(slot, &self.source, e, from);
        }
        drawn
    }

    /// Swaps what batches share with the full parameters and gradient: drift, biases and noise.
    fn lend(&mut self) {
        for (full, batch) in [
            (&mut self.state.parameters, &mut self.batch_parameters),
            (&mut self.gradient, &mut self.batch_gradient),
        ] {
            std::mem::swap(&mut full.drift, &mut batch.drift);
            std::mem::swap(&mut full.biases, &mut batch.biases);
            std::mem::swap(&mut full.noise, &mut batch.noise);
        }
    }

    /// Loss and gradient of the step's batch.
    fn evaluate(&mut self) -> Result<f64> {
        let Some(batches) = self.spec.batches else {
            return self.loss.evaluate(&self.state.parameters, Some(&mut self.gradient));
        };
        let drawn = self.draw(batches);
        let tables = [
            (&self.state.parameters.shift, &mut self.batch_parameters.shift),
            (&self.state.parameters.log_scale, &mut self.batch_parameters.log_scale),
        ];
        for (full, batch) in tables {
            if let (Some(full), Some(batch)) = (full, batch) {
                drawn
                    .iter()
                    .enumerate()
                    .for_each(|(slot, &e)| batch.row_mut(slot).copy_from_slice(full.row(e)));
            }
        }
        self.lend();
        let value = self.loss.evaluate(&self.batch_parameters, Some(&mut self.batch_gradient));
        self.lend();
        let tables = [
            (&mut self.gradient.shift, &self.batch_gradient.shift),
            (&mut self.gradient.log_scale, &self.batch_gradient.log_scale),
        ];
        for (full, batch) in tables {
            if let (Some(full), Some(batch)) = (full, batch) {
                full.as_mut_slice().fill(0.0);
                drawn
                    .iter()
                    .enumerate()
                    .for_each(|(slot, &e)| full.row_mut(e).copy_from_slice(batch.row(slot)));
            }
        }
        // The engine counts environments of the batch; people count those of the data.
        value.map_err(|error| match self.loss.environment_losses.iter().position(|loss| !loss.is_finite()) {
            Some(slot) => Error::NonFinite(format!(
                "the loss of environment {} is {}",
                drawn[slot], self.loss.environment_losses[slot]
            )),
            None => error,
        })
    }

    fn check_gradient(&self) -> Result<()> {
        // A sum of absolute values is finite only if every entry is, and is one fast pass.
        let chunks: Vec<&[f32]> = self
            .gradient
            .tensors()
            .iter()
            .flat_map(|tensor| tensor.values.chunks(ENTRIES_PER_TASK))
            .collect();
        let entries = chunks.iter().map(|chunk| chunk.len()).sum();
        let finite = AtomicBool::new(true);
        tasks::run(chunks, entries, |chunk| {
            if !simd::sum_of_sizes(chunk).is_finite() {
                finite.store(false, Ordering::Relaxed);
            }
        });
        if finite.into_inner() {
            return Ok(());
        }
        for tensor in self.gradient.tensors() {
            if let Some(at) = tensor.values.iter().position(|v| !v.is_finite()) {
                return Err(Error::NonFinite(format!(
                    "the gradient of {} is {} at entry {at}",
                    tensor.name, tensor.values[at]
                )));
            }
        }
        // Finite entries whose sum is not.
        Ok(())
    }

    /// Adds the penalty's subgradient and takes the optimiser's step, network by network while its weights are at hand; returns
    /// the penalty.
    fn update(&mut self) -> Result<f64> {
        let update = self.spec.optimiser.implementation().update(self.state.steps + 1);
        let multipliers = self.multipliers.as_ref();
        let penalty = self.spec.penalty;
        let groups =
            penalty.map(|penalty| penalty.groups(&self.state.parameters, multipliers)).transpose()?;
        let State { parameters, moments, .. } = &mut self.state;
        let mut moments: Vec<_> = moments.iter_mut().map(|of| of.tensors_mut().into_iter()).collect();
        let inputs = self.gradient.tensors_mut().into_iter().zip(self.free.tensors());
        let mut work = Vec::new();
        for (number, ((_, p), ((_, g), free))) in parameters.tensors_mut().into_iter().zip(inputs).enumerate()
        {
            // The first tensor holds what is penalised: whole networks to a task.
            let groups = groups.as_ref().filter(|_| number == 0);
            let size = match groups {
                Some(groups) => groups.entries() * (ENTRIES_PER_TASK / groups.entries()).max(1),
                None => ENTRIES_PER_TASK,
            };
            let mut moments: Vec<_> =
                moments.iter_mut().filter_map(Iterator::next).map(|(_, of)| of.chunks_mut(size)).collect();
            let parts = p.chunks_mut(size).zip(g.chunks_mut(size).zip(free.values.chunks(size)));
            for (part, (p, (g, free))) in parts.enumerate() {
                let first = groups.map_or(0, |groups| part * size / groups.entries());
                let moments = moments.iter_mut().filter_map(Iterator::next).collect();
                work.push(Part { groups, first, p, moments, g, free });
            }
        }
        let entries = work.iter().map(|part| part.g.len()).sum::<usize>();
        let mut penalties = vec![0.0; work.len()];
        let work: Vec<_> = work.into_iter().zip(&mut penalties).collect();
        tasks::run(work, entries * 16, |(part, penalty)| *penalty = part.update(&*update));
        Ok(groups.map_or(0.0, |groups| groups.outgoing_value) + penalties.iter().sum::<f64>())
    }
}

/// A part of all parameters and what goes with it.
struct Part<'a> {
    /// Of whole networks, if they are penalised.
    groups: Option<&'a Groups<'a>>,
    /// The number of the first of them.
    first: usize,
    p: &'a mut [f32],
    moments: Vec<&'a mut [f32]>,
    g: &'a mut [f32],
    free: &'a [f32],
}

impl Part<'_> {
    /// Takes the optimiser's step; returns the ingoing part of the penalty.
    fn update(self, update: &dyn Update) -> f64 {
        let Part { groups, first, p, mut moments, g, free } = self;
        let mut penalty = 0.0;
        if let Some(groups) = groups {
            let mut norms = Vec::new();
            let networks = p.chunks(groups.entries()).zip(g.chunks_mut(groups.entries()));
            for (at, (weights, bars)) in networks.enumerate() {
                penalty += simd::dispatch(
                    #[inline(always)]
                    || groups.add_to(first + at, weights, bars, &mut norms),
                );
            }
        }
        update.apply(p, &mut moments, g, free);
        penalty
    }
}

impl Training for CpuTraining {
    fn step(&mut self) -> Result<()> {
        let at_step = |error: Error, step: u32| match error {
            Error::NonFinite(problem) => Error::NonFinite(format!(
                "step {step}: {problem}, expected a finite number; the parameters are those before that step"
            )),
            other => other,
        };
        let step = self.state.steps + 1;
        let loss = self.evaluate().map_err(|error| at_step(error, step))?;
        self.check_gradient().map_err(|error| at_step(error, step))?;
        let penalty = self.update()?;
        self.state.steps = step;
        self.last = (loss, penalty);
        Ok(())
    }

    fn standing(&mut self) -> Result<Standing> {
        Ok(Standing { steps: self.state.steps, loss: self.last.0, penalty: self.last.1 })
    }

    fn state(&mut self) -> Result<State> {
        Ok(self.state.clone())
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        state.check_optimiser(self.spec.optimiser.kind())?;
        self.state = state.clone();
        Ok(())
    }
}

impl Samples<f32> {
    /// Room for environments of `rows` samples each.
    fn empty(rows: &[usize], d: usize) -> Self {
        let mut offsets = vec![0];
        for n in rows {
            offsets.push(offsets[offsets.len() - 1] + n);
        }
        let n = offsets[rows.len()];
        let x = super::Rows::zeros(n, d);
        let centres = vec![vec![0.0; x.stride()]; rows.len()];
        Samples { x, offsets, omega: vec![f32::ZERO; n], tau: vec![f32::ZERO; n], centres }
    }
}

impl CpuLoss<f32> {
    /// Fills place `slot` with rows of `source`: row `at` of the place with row `from(at)`.
    fn gather(
        &mut self,
        slot: usize,
        source: &Samples<f32>,
        environment: usize,
        from: impl Fn(usize) -> usize,
    ) {
        let first = self.samples.offsets[slot];
        for at in 0..self.samples.rows(slot).len() {
            let (into, row) = (first + at, from(at));
            self.samples.x.row_mut(into).copy_from_slice(source.x.row(row));
            self.samples.omega[into] = source.omega[row];
            self.samples.tau[into] = source.tau[row];
        }
        self.samples.centres[slot].copy_from_slice(source.centre(environment));
        // What all pairs prepare of their samples is of the batch before.
        self.work.all_pairs = None;
    }
}
