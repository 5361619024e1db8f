//! Training: Adam on batches of one environment at a time, with the layers' norms held below their limits.

use super::gradient::{Batch, Part, Space};
use super::logdet::Terms;
use super::settings::NodagsSettings;
use super::shape::{LEAST_LOG_SCALE, Norm, Shape};
use crate::data::Dataset;
use crate::numeric::{Scalar, tasks};
use crate::{Error, Progress, Result};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::ops::Range;
use std::sync::Mutex;

/// Rows that share the arrays of one pass; fewer where d is large, so that the arrays stay below [`MOST_ENTRIES`] each.
const GROUP: usize = 32;
const MOST_ENTRIES: usize = 1 << 20;
/// Adam's decay rates, and what it adds to the root of the second moment.
const DECAY: (f64, f64) = (0.9, 0.999);
const ADAM_EPSILON: f64 = 1e-8;

/// A network while it is trained.
pub(super) struct Trainer<'a> {
    settings: &'a NodagsSettings,
    pub shape: Shape,
    pub parameters: Vec<f64>,
    pub norms: Vec<Norm>,
    moments: (Vec<f64>, Vec<f64>),
    steps: i32,
    /// For the lengths of the power series.
    rng: ChaCha8Rng,
    /// For masks and probes: each group of rows of each step has its own stream.
    noise: ChaCha8Rng,
    streams: u64,
    spaces: Mutex<Vec<Space<f32>>>,
}

impl<'a> Trainer<'a> {
    pub(super) fn new(dim: usize, settings: &'a NodagsSettings, seed: u64) -> Trainer<'a> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let shape = settings.shape(dim);
        let (parameters, norms) = shape.initial(settings, &mut rng);
        let zero = vec![0.0; shape.count()];
        Trainer {
            settings,
            shape,
            parameters,
            norms,
            moments: (zero.clone(), zero),
            steps: 0,
            rng,
            noise: ChaCha8Rng::seed_from_u64(seed),
            streams: 0,
            spaces: Mutex::default(),
        }
    }

    /// All epochs. Returns the mean loss of the last one's steps, without the penalty.
    pub(super) fn run(&mut self, data: &Dataset, progress: &Progress) -> Result<f64> {
        let x: Vec<f32> = data.samples().as_slice().iter().map(|x| *x as f32).collect();
        let (mut sum, mut steps) = (0.0, 0);
        for epoch in 0..self.settings.epochs {
            (sum, steps) = (0.0, 0);
            for e in 0..data.environments() {
                let rows = data.rows(e);
                for first in rows.clone().step_by(self.settings.batch) {
                    let batch = first..rows.end.min(first.saturating_add(self.settings.batch));
                    let loss = self.step(&x, batch, data.targets().row(e), progress)?;
                    if !loss.is_finite() || !self.parameters.iter().all(|p| p.is_finite()) {
                        return Err(Error::NonFinite(format!(
                            "NODAGS diverged in epoch {} of {}: the loss is {loss}; try a smaller learning rate",
                            epoch + 1,
                            self.settings.epochs
                        )));
                    }
                    (sum, steps) = (sum + loss, steps + 1);
                    progress.add(1)?;
                }
            }
        }
        Ok(sum / f64::from(steps.max(1)))
    }

    /// One step of Adam on some rows of `x`.
    fn step(&mut self, x: &[f32], rows: Range<usize>, targets: &[bool], progress: &Progress) -> Result<f64> {
        let d = self.shape.dim;
        let terms = Terms::draw(self.settings, &mut self.rng);
        let parameters: Vec<f32> = self.parameters.iter().map(|p| *p as f32).collect();
        let odds = odds(&self.shape, &self.parameters);
        let batch = Batch {
            shape: self.shape,
            parameters: &parameters,
            odds: &odds,
            targets,
            terms: &terms,
            rows: rows.len(),
            hard: true,
        };
        let group = (MOST_ENTRIES / (d * d)).clamp(1, GROUP) * d;
        let x = &x[rows.start * d..rows.end * d];
        let mut parts: Vec<Option<Part<f32>>> = x.chunks(group).map(|_| None).collect();
        let work: Vec<_> = x.chunks(group).zip(&mut parts).zip(self.streams..).collect();
        self.streams += work.len() as u64;
        let flops = 8 * (self.shape.hidden + 1) * x.len() * d * d;
        tasks::run(work, flops, |((x, part), stream)| {
            if progress.check().is_err() {
                return;
            }
            let pool = || self.spaces.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let mut space = pool().pop().unwrap_or_default();
            let mut rng = self.noise.clone();
            // Stream 0 is the trainer's own.
            rng.set_stream(stream + 1);
            *part = Some(space.run(&batch, x, &mut rng));
            pool().push(space);
        });
        let (mut loss, mut gradient) = (0.0, vec![0.0; self.shape.count()]);
        for part in parts {
            let Some(part) = part else { return Err(Error::Stopped) };
            loss += part.loss;
            gradient.iter_mut().zip(&part.gradient).for_each(|(sum, g)| *sum += f64::from(*g));
        }
        self.penalize(&mut gradient);
        self.adam(&gradient);
        self.limit();
        Ok(loss)
    }

    /// Adds λ Σ p(1 − p).
    fn penalize(&self, gradient: &mut [f64]) {
        let (d, logits) = (self.shape.dim, self.shape.logits());
        for (at, g) in gradient[logits].iter_mut().enumerate() {
            let p = self.shape.probability(&self.parameters, at / d, at % d);
            *g += self.settings.penalty * p * (1.0 - p);
        }
    }

    fn adam(&mut self, gradient: &[f64]) {
        self.steps += 1;
        let correct = (1.0 - DECAY.0.powi(self.steps), 1.0 - DECAY.1.powi(self.steps));
        let moments = self.moments.0.iter_mut().zip(&mut self.moments.1);
        for ((p, (first, second)), g) in self.parameters.iter_mut().zip(moments).zip(gradient) {
            *first += (1.0 - DECAY.0) * (g - *first);
            *second += (1.0 - DECAY.1) * (g * g - *second);
            let size = (*second / correct.1).sqrt() + ADAM_EPSILON;
            *p -= self.settings.learning_rate * *first / correct.0 / size;
        }
    }

    /// Shrinks layers whose norm is too large. The gradient knows nothing of it, as published.
    fn limit(&mut self) {
        for (at, norm) in self.norms.iter_mut().enumerate() {
            norm.shrink(&mut self.parameters[self.shape.layer(at)], self.settings.power_iterations);
        }
        let scales = self.shape.log_scales();
        self.parameters[scales].iter_mut().for_each(|s| *s = s.max(LEAST_LOG_SCALE));
    }

    /// Shrinks by exact norms.
    pub(super) fn finish(&mut self) -> Result<()> {
        for (at, norm) in self.norms.iter().enumerate() {
            norm.shrink_exactly(&mut self.parameters[self.shape.layer(at)])?;
        }
        Ok(())
    }
}

/// e^{−logit} of every edge, 0 on the diagonal.
pub(super) fn odds<T: Scalar>(shape: &Shape, parameters: &[f64]) -> Vec<T> {
    let d = shape.dim;
    let logits = parameters[shape.logits()].iter().enumerate();
    logits.map(|(at, a)| if at / d == at % d { T::ZERO } else { T::from_f64((-a).exp()) }).collect()
}
