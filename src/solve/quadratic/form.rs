//! Products with H: by the engine's gradient, or by H itself once it is formed.
//!
//! The loss of a model that is linear in its parameters is a homogeneous quadratic of all its coefficients, so the gradient at
//! some coefficients is the product of the form with them. The engine works with logarithms of noises, but a product is needed
//! for any vector: a constant noise is added before, and its share is subtracted after.

use super::unknowns::{Coefficients, Unknowns};
use crate::engine::Loss;
use crate::model::Parameters;
use crate::{Matrix, Progress, Result, Scalar};
use rayon::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A longer evaluation, in operations, runs beside a check for cancellation.
const LONG: f64 = 1e9;
/// The time between checks.
const LOOK: Duration = Duration::from_millis(100);
/// Rows of H that one task multiplies: fixed, so that the bits do not depend on the number of threads.
const ROWS_PER_TASK: usize = 64;

/// A convex quadratic ½ tᵀHt + gᵀt + c.
pub(super) trait QuadraticForm {
    /// H t for any t.
    fn product(&mut self, t: &[f64], out: &mut [f64], progress: &Progress) -> Result<()>;

    /// The value and the slopes H t + g where all noises are at least their least.
    fn value_and_slopes(&mut self, t: &[f64], slopes: &mut [f64], progress: &Progress) -> Result<f64>;
}

/// By an engine's gradient in precision `T`.
pub(super) struct EngineForm<T: Scalar> {
    loss: Box<dyn Loss<T>>,
    unknowns: Arc<Unknowns>,
    /// A noise of ordinary size of each variable.
    units: Vec<f64>,
    /// The slopes at these noises alone.
    of_units: Vec<f64>,
    /// Space.
    coefficients: Coefficients,
    gradient: Option<Parameters<T>>,
}

impl<T: Scalar> EngineForm<T> {
    pub(super) fn new(
        loss: Box<dyn Loss<T>>,
        unknowns: Arc<Unknowns>,
        units: Vec<f64>,
        progress: &Progress,
    ) -> Result<Self> {
        let coefficients = unknowns.coefficients();
        let mut form =
            EngineForm { loss, unknowns, units, of_units: Vec::new(), coefficients, gradient: None };
        form.add_noise(1.0);
        let mut of_units = vec![0.0; form.unknowns.len()];
        form.slopes(&mut of_units, progress)?;
        form.of_units = of_units;
        Ok(form)
    }

    fn add_noise(&mut self, times: f64) {
        let Coefficients { amounts, noises, .. } = &mut self.coefficients;
        for (j, unit) in self.units.iter().enumerate() {
            amounts[(j, 0)] += times * unit;
            self.unknowns.layouts[j].scaled.iter().for_each(|&e| noises[(e, j)] += times * unit);
        }
    }

    /// The largest noise, in units.
    fn largest_noise(&self) -> f64 {
        let Coefficients { amounts, noises, .. } = &self.coefficients;
        let mut largest = 0.0f64;
        for (j, unit) in self.units.iter().enumerate() {
            let own = self.unknowns.layouts[j].scaled.iter().map(|&e| noises[(e, j)].abs());
            largest = own.fold(largest.max(amounts[(j, 0)].abs() / unit), |m, noise| m.max(noise / unit));
        }
        largest
    }

    /// Value and slopes at the coefficients.
    fn slopes(&mut self, out: &mut [f64], progress: &Progress) -> Result<f64> {
        progress.check()?;
        let parameters = self.unknowns.parameters(&self.coefficients, f64::MIN_POSITIVE).cast::<T>();
        let mut gradient = self.gradient.take().unwrap_or_else(|| parameters.zeros_like());
        let value = watched(&mut *self.loss, &parameters, &mut gradient, progress)?;
        let (weights, log_noise) = (gradient.drift.linear_weights()?, gradient.noise.log_noise()?);
        let (d, unknowns) = (self.units.len(), &*self.unknowns);
        let Coefficients { drift, amounts, shifts, noises } = &mut self.coefficients;
        for (j, own) in unknowns.layouts.iter().enumerate() {
            let row = drift.row_mut(j);
            row.iter_mut().zip(weights.row(j)).for_each(|(out, slope)| *out = slope.to_f64());
            row[d] = gradient.biases[j].to_f64();
            // ∂/∂α = ∂/∂log σ / 2α, of the environments that share a noise.
            let mut shared = log_noise[j].to_f64();
            if let Some(scales) = &gradient.log_scale {
                for &e in &own.scaled {
                    noises[(e, j)] = 0.5 * scales[(e, j)].to_f64() / noises[(e, j)];
                }
                let others = (0..unknowns.environments).filter(|e| !own.scaled.contains(e));
                shared = others.map(|e| scales[(e, j)].to_f64()).sum();
            }
            amounts[(j, 0)] = 0.5 * shared / amounts[(j, 0)];
        }
        let found = gradient.shift.as_ref().expect("parameters have shifts");
        let pairs = shifts.as_mut_slice().iter_mut().zip(found.as_slice());
        pairs.for_each(|(out, slope)| *out = slope.to_f64());
        unknowns.gather(&self.coefficients, out);
        self.gradient = Some(gradient);
        self.clear();
        Ok(value)
    }

    fn clear(&mut self) {
        self.coefficients.shifts.as_mut_slice().fill(0.0);
        self.coefficients.noises.as_mut_slice().fill(0.0);
    }
}

/// Evaluates the loss. Cancellation ends a long evaluation early.
fn watched<T: Scalar>(
    loss: &mut dyn Loss<T>,
    parameters: &Parameters<T>,
    gradient: &mut Parameters<T>,
    progress: &Progress,
) -> Result<f64> {
    if loss.pairs() as f64 * (parameters.dim() as f64) < LONG {
        return loss.evaluate(parameters, Some(gradient));
    }
    let (inner, done) = (loss.progress(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if progress.check().is_err() {
                    inner.stop();
                }
                std::thread::park_timeout(LOOK);
            }
        });
        let value = loss.evaluate(parameters, Some(gradient));
        done.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        value
    })
}

impl<T: Scalar> QuadraticForm for EngineForm<T> {
    fn product(&mut self, t: &[f64], out: &mut [f64], progress: &Progress) -> Result<()> {
        self.unknowns.spread(t, false, &mut self.coefficients);
        let added = match self.largest_noise() {
            0.0 => t.iter().fold(0.0f64, |m, t| m.max(t.abs())),
            largest => 2.0 * largest,
        };
        if added == 0.0 {
            out.fill(0.0);
            self.clear();
            return Ok(());
        }
        self.add_noise(added);
        self.slopes(out, progress)?;
        out.iter_mut().zip(&self.of_units).for_each(|(out, unit)| *out -= added * unit);
        Ok(())
    }

    fn value_and_slopes(&mut self, t: &[f64], slopes: &mut [f64], progress: &Progress) -> Result<f64> {
        self.unknowns.spread(t, true, &mut self.coefficients);
        self.slopes(slopes, progress)
    }
}

/// H, g and c as they are.
pub(super) struct FormedMatrix {
    h: Matrix<f64>,
    g: Vec<f64>,
    constant: f64,
}

impl FormedMatrix {
    /// Column by column.
    pub(super) fn of(form: &mut dyn QuadraticForm, t: &[f64], progress: &Progress) -> Result<FormedMatrix> {
        let size = t.len();
        let mut h = Matrix::full(size, size, 0.0);
        let mut unit = vec![0.0; size];
        for k in 0..size {
            unit[k] = 1.0;
            form.product(&unit, h.row_mut(k), progress)?;
            unit[k] = 0.0;
        }
        for a in 0..size {
            for b in 0..a {
                let mean = 0.5 * (h[(a, b)] + h[(b, a)]);
                h[(a, b)] = mean;
                h[(b, a)] = mean;
            }
        }
        // g and c are what is left at a vector that is allowed.
        let mut formed = FormedMatrix { h, g: vec![0.0; size], constant: 0.0 };
        let (mut slopes, mut products) = (vec![0.0; size], vec![0.0; size]);
        let value = form.value_and_slopes(t, &mut slopes, progress)?;
        formed.product(t, &mut products, progress)?;
        formed.g = slopes.iter().zip(&products).map(|(slope, product)| slope - product).collect();
        let terms = t.iter().zip(&products).zip(&formed.g);
        formed.constant = value - terms.map(|((t, product), g)| t * (0.5 * product + g)).sum::<f64>();
        Ok(formed)
    }

    /// The smallest eigenvalue divided by the largest.
    pub(super) fn convexity(&self) -> Result<f64> {
        let values = crate::numeric::dense::symmetric_eigenvalues(self.h.view())?;
        let largest = values.iter().fold(f64::MIN_POSITIVE, |m, v| m.max(v.abs()));
        Ok(values.first().map_or(0.0, |least| least / largest))
    }
}

impl QuadraticForm for FormedMatrix {
    fn product(&mut self, t: &[f64], out: &mut [f64], progress: &Progress) -> Result<()> {
        progress.check()?;
        out.par_chunks_mut(ROWS_PER_TASK).enumerate().for_each(|(task, out)| {
            for (k, out) in out.iter_mut().enumerate() {
                let row = self.h.row(task * ROWS_PER_TASK + k);
                *out = row.iter().zip(t).map(|(h, t)| h * t).sum();
            }
        });
        Ok(())
    }

    fn value_and_slopes(&mut self, t: &[f64], slopes: &mut [f64], progress: &Progress) -> Result<f64> {
        self.product(t, slopes, progress)?;
        let mut value = self.constant;
        for ((slope, g), t) in slopes.iter_mut().zip(&self.g).zip(t) {
            value += t * (0.5 * *slope + g);
            *slope += g;
        }
        Ok(value)
    }
}
