//! The exact fit where the direct one does not serve: KDS, whose rows depend on each other, and SKDS where the problems of all
//! rows would need too much memory.
//!
//! ```text
//! Loss ──gradient──▶ products with H ──(Formed)──▶ Descent, with SKDS' blocks for a metric ──▶ Solution
//! ```
//!
//! For a model that is linear in its coefficients both losses over all pairs are convex quadratics, and one gradient of an
//! engine is one product with H. Where several fits to the same data are wanted and there are few unknowns, H is formed once.

mod charge;
mod descent;
mod form;
mod metric;
mod proximal;
#[cfg(test)]
mod tests;
mod unknowns;

use super::coordinate::{LEAST_NOISE, Own};
use super::moments::Tolerance;
use super::{Design, Solution, Statistics};
use crate::data::Dataset;
use crate::engine::cpu::CpuEngine;
use crate::engine::gpu::GpuEngine;
use crate::engine::{Engine, LossSpec};
use crate::model::{Parameters, Penalty};
use crate::objective::Estimator;
use crate::{Error, Matrix, Progress, Result};
use charge::Charge;
use descent::Descent;
use form::{ByEngine, Form, Formed};
use metric::Metric;
use std::sync::Arc;
use unknowns::Unknowns;

/// The most unknowns whose H is formed.
const MOST_FORMED: usize = 1500;
/// Products that a fit takes without it, about.
const PRODUCTS_OF_FIT: usize = 150;
/// A form whose smallest eigenvalue is below minus this times the largest is not convex.
const INDEFINITE: f64 = 1e-10;

/// How products with H are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By a gradient of the engine each.
    Free,
    /// By H itself, which as many gradients as there are unknowns form.
    Formed,
}

/// What to minimise, apart from the penalty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuadraticSpec<'a> {
    /// The loss; the linear estimator is refused.
    pub loss: LossSpec,
    /// Whether interventions may change the noise of their targets too.
    pub learn_scale: bool,
    /// Row j, column i: what the penalty of the effect of i on j is multiplied with. Infinity holds it at 0, and with 0 it is
    /// not penalised.
    pub multipliers: Option<&'a Matrix<f64>>,
    /// Fits that will be asked for.
    pub fits: usize,
    /// How products are made; none chooses what takes fewer of the engine's gradients.
    pub way: Option<Way>,
}

/// A loss of linear models on one dataset, ready for fits with several penalties.
pub struct Quadratic {
    unknowns: Arc<Unknowns>,
    /// By the engine, whatever the way.
    form: Box<dyn Form>,
    formed: Option<Formed>,
    charge: Charge,
    metric: Metric,
    /// The best everything without effects.
    none: Vec<f64>,
    /// The largest slope there.
    steepest: f64,
    steps: u32,
    /// Whether the `v` form took the place of the `u` form, which was not convex or not known to be.
    pub fell_back: bool,
}

impl Quadratic {
    /// For the linear model, with gradients in f64 on the CPU, or in f32 on `gpu`.
    ///
    /// The `u` form is kept only where H is formed and seen to be convex; otherwise the `v` form, which always is, takes its
    /// place.
    pub fn new(
        gpu: Option<&GpuEngine>,
        data: &Dataset,
        targets: &Matrix<bool>,
        spec: QuadraticSpec<'_>,
        progress: &Progress,
    ) -> Result<Quadratic> {
        let (d, environments) = (data.dim(), data.environments());
        let LossSpec { kernel, estimator, .. } = spec.loss;
        if estimator == Estimator::Linear {
            return Err(Error::invalid("the estimator is linear, expected u or v for the exact solver"));
        }
        let all: Vec<usize> = (0..environments).collect();
        let owns = (0..d).map(|j| {
            let shifted = super::shifted(targets, j, &all);
            let scaled = if spec.learn_scale { shifted.clone() } else { Vec::new() };
            let known = spec.multipliers.map(|multipliers| multipliers.row(j));
            Own::new(&Design::Linear, d, j, known, shifted, scaled)
        });
        let unknowns = Arc::new(Unknowns::new(owns.collect(), d + 1, environments));
        let by_engine = |estimator: Estimator| -> Result<Box<dyn Form>> {
            let (loss, units) = (LossSpec { estimator, ..spec.loss }, units(data));
            let unknowns = unknowns.clone();
            Ok(match gpu {
                None => {
                    Box::new(ByEngine::<f64>::new(CpuEngine.load(data, &loss)?, unknowns, units, progress)?)
                }
                Some(gpu) => {
                    Box::new(ByEngine::<f32>::new(gpu.load(data, &loss)?, unknowns, units, progress)?)
                }
            })
        };
        let v = Estimator::V;
        let statistics = match gpu {
            Some(gpu) => Statistics::on_gpu(gpu, data, &Design::Linear, kernel, v, progress)?,
            None => Statistics::of(data, &Design::Linear, kernel, v, progress)?,
        };
        let metric = Metric::new(unknowns.clone(), &statistics);
        let charge = Charge::new(&unknowns, metric.least.clone());
        let start = start(&unknowns, &units(data));
        let way = spec.way.unwrap_or_else(|| cheaper(unknowns.len(), spec.fits));
        let (mut form, mut formed, mut fell_back) = (None, None, false);
        if way == Way::Formed {
            let mut one = by_engine(estimator)?;
            let h = Formed::of(&mut *one, &start, progress)?;
            if estimator == v || h.convexity()? >= -INDEFINITE {
                (form, formed) = (Some(one), Some(h));
            }
        }
        let form = match form {
            Some(form) => form,
            None => {
                fell_back = estimator != v;
                let mut form = by_engine(v)?;
                if way == Way::Formed {
                    formed = Some(Formed::of(&mut *form, &start, progress)?);
                }
                form
            }
        };
        let (none, steps) = (Vec::new(), 0);
        let mut quadratic =
            Quadratic { unknowns, form, formed, charge, metric, none, steepest: 0.0, steps, fell_back };
        let mut descent = quadratic.descent(progress, u32::MAX);
        // Noises of different variables act together in KDS, which blocks of rows do not know.
        let noises: Vec<bool> = descent.charge.least.iter().map(|least| least.is_finite()).collect();
        let others: Vec<bool> = noises.iter().map(|noise| !noise).collect();
        let (of_noises, of_others) = (descent.probe(&noises)?, descent.probe(&others)?);
        eprintln!("factors {of_noises} {of_others}");
        let root = |is_noise: &bool| (2.0 * if *is_noise { of_noises } else { of_others }).max(f64::MIN_POSITIVE).sqrt();
        let by: Vec<f64> = noises.iter().map(root).collect();
        descent.metric.scale(&by);
        let state = descent.hold_effects(start)?;
        quadratic.steps = descent.steps;
        quadratic.steepest = quadratic.charge.steepest(&state.slopes).max(f64::MIN_POSITIVE);
        quadratic.none = state.t;
        Ok(quadratic)
    }

    fn descent<'a>(&'a mut self, progress: &'a Progress, most: u32) -> Descent<'a> {
        let form: &mut dyn Form = match &mut self.formed {
            Some(formed) => formed,
            None => &mut *self.form,
        };
        Descent { form, charge: &self.charge, metric: &mut self.metric, progress, steps: 0, most }
    }

    /// How products with H are made.
    pub fn way(&self) -> Way {
        if self.formed.is_some() { Way::Formed } else { Way::Free }
    }

    /// Products that fits took so far, without those that formed H.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// The number of unknowns.
    pub fn unknowns(&self) -> usize {
        self.unknowns.len()
    }

    /// The minimum with a penalty, from a model nearby if there is one, otherwise from no effects. What is left is said by
    /// [`Solution::violation`], by the engine's own gradient; it can be above the tolerance where rounding or `tolerance.steps`
    /// allow no better.
    pub fn fit(
        &mut self,
        penalty: Option<Penalty>,
        from: Option<&Parameters<f64>>,
        tolerance: Tolerance,
        progress: &Progress,
    ) -> Result<Solution> {
        let d = self.unknowns.owns.len();
        let mut t = match from {
            Some(from) => self.unknowns.of_parameters(from)?,
            None => self.none.clone(),
        };
        t.iter_mut().zip(&self.charge.least).for_each(|(t, least)| *t = t.max(*least));
        self.charge.set(penalty, d);
        let enough = tolerance.violation * self.steepest;
        let mut descent = self.descent(progress, tolerance.steps);
        let (state, _) = descent.minimise(t, enough)?;
        self.steps += descent.steps;
        let mut slopes = vec![0.0; state.t.len()];
        let loss = self.form.look(&state.t, &mut slopes, progress)?;
        let mut coefficients = self.unknowns.coefficients();
        self.unknowns.spread(&state.t, true, &mut coefficients);
        Ok(Solution {
            parameters: self.unknowns.parameters(&coefficients, LEAST_NOISE),
            loss,
            penalty: self.charge.value(&state.t),
            violation: self.charge.violation(&state.t, &slopes) / self.steepest,
        })
    }
}

/// The way that takes fewer gradients of the engine for so many fits: forming H takes one for each unknown, and fits nothing
/// then.
fn cheaper(unknowns: usize, fits: usize) -> Way {
    if unknowns <= MOST_FORMED && unknowns <= PRODUCTS_OF_FIT.saturating_mul(fits) {
        Way::Formed
    } else {
        Way::Free
    }
}

/// Mean squared deviations of each variable from the means of environments.
fn units(data: &Dataset) -> Vec<f64> {
    let (x, d) = (data.samples(), data.dim());
    let mut squares = vec![0.0; d];
    for e in 0..data.environments() {
        let means = data.means(e);
        for i in data.rows(e) {
            for (j, square) in squares.iter_mut().enumerate() {
                *square += (x[(i, j)] - means[j]).powi(2);
            }
        }
    }
    let mean = |square: f64| square / x.rows() as f64;
    squares.into_iter().map(mean).map(|unit| if unit > f64::MIN_POSITIVE { unit } else { 1.0 }).collect()
}

/// No effects, and noises of the size of the data.
fn start(unknowns: &Unknowns, units: &[f64]) -> Vec<f64> {
    let mut coefficients = unknowns.coefficients();
    for (j, unit) in units.iter().enumerate() {
        coefficients.amounts[(j, 0)] = 2.0 * unit;
        unknowns.owns[j].scaled.iter().for_each(|&e| coefficients.noises[(e, j)] = 2.0 * unit);
    }
    let parameters = unknowns.parameters(&coefficients, LEAST_NOISE);
    unknowns.of_parameters(&parameters).expect("parameters of the right shape")
}
