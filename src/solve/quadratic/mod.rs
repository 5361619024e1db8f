//! Exact fits without the direct solver: KDS, whose rows depend on each other, and SKDS if the problems of all rows need too much
//! memory.
//!
//! ```text
//! engine's gradient or Statistics ──▶ products with H ──(FormedMatrix)──▶ Descent, in the metric of SKDS' blocks ──▶ Solution
//! ```
//!
//! For a model that is linear in its coefficients both losses over all pairs are convex quadratics, and one gradient is one
//! product with H. Products of SKDS come from its statistics, those of KDS from an engine. For many fits to the same data with
//! few unknowns, H is formed once. The objective is that of training on all pairs: the loss plus the penalty.

#[cfg(test)]
mod consistency_tests;
mod descent;
mod form;
mod metric;
mod nonsmooth;
mod proximal;
mod skds;
#[cfg(test)]
mod tests;
mod unknowns;

use super::coordinate::LEAST_NOISE;
use super::layout::CoordinateLayout;
use super::moments::Tolerance;
use super::{Design, Solution, Statistics};
use crate::data::Dataset;
use crate::engine::cpu::CpuEngine;
use crate::engine::gpu::GpuEngine;
use crate::engine::{Engine, LossSpec};
use crate::model::{Parameters, Penalty};
use crate::objective::{Estimator, Objective};
use crate::{Error, Matrix, Progress, Result};
use descent::Descent;
use form::{EngineForm, FormedMatrix, QuadraticForm};
use metric::Metric;
use nonsmooth::Nonsmooth;
use skds::StatisticsForm;
use std::sync::Arc;
use unknowns::Unknowns;

/// The most unknowns whose H is formed.
const MOST_FORMED: usize = 1500;
/// Products that a fit takes without it: 40 to 170 were seen on data of 20 to 100 variables.
const PRODUCTS_OF_FIT: usize = 60;
/// A form whose smallest eigenvalue is below minus this times the largest is not convex.
const INDEFINITE: f64 = 1e-10;
/// The safety factor on the observed curvature of H.
const MARGIN: f64 = 1.5;

/// How products with H are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProductMethod {
    /// One gradient per product.
    ByGradients,
    /// H itself, which takes as many gradients as there are unknowns.
    Formed,
}

/// The loss to minimise, without the penalty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuadraticSpec<'a> {
    /// The loss; the linear estimator is refused.
    pub loss: LossSpec,
    /// Whether interventions may change the noise of their targets too.
    pub learn_scale: bool,
    /// Row j, column i multiplies the penalty of the effect of i on j. Infinity holds the effect at 0, and 0 leaves it without a
    /// penalty.
    pub multipliers: Option<&'a Matrix<f64>>,
    /// The number of fits that will follow.
    pub fits: usize,
    /// How products are computed; `None` chooses the method with fewer gradients.
    pub products: Option<ProductMethod>,
}

/// A loss on one dataset, ready for fits with several penalties.
pub struct Quadratic {
    unknowns: Arc<Unknowns>,
    /// By gradients, whatever the method.
    form: Box<dyn QuadraticForm>,
    formed: Option<FormedMatrix>,
    nonsmooth: Nonsmooth,
    metric: Metric,
    /// The optimum without effects.
    none: Vec<f64>,
    /// The largest slope at that optimum.
    steepest: f64,
    steps: u32,
    /// Whether the fit uses the `v` form because the `u` form is not convex, or not known to be.
    pub fell_back: bool,
}

impl Quadratic {
    /// Passes over the data a few times; gradients of KDS are in f64 on the CPU, or in f32 on `gpu`. KDS is for the linear
    /// model alone.
    ///
    /// The `u` form is used only if H is formed and turns out to be convex. Otherwise the fit uses the `v` form, which is always
    /// convex.
    pub fn new(
        gpu: Option<&GpuEngine>,
        data: &Dataset,
        targets: &Matrix<bool>,
        design: &Design,
        spec: QuadraticSpec<'_>,
        progress: &Progress,
    ) -> Result<Quadratic> {
        let LossSpec { objective, kernel, estimator } = spec.loss;
        check(design, &spec)?;
        let unknowns = Arc::new(unknowns(targets, design, &spec));
        let units = units(data);
        let start = start(&unknowns, &units);
        let statistics = |estimator: Estimator| {
            let all = match gpu {
                Some(gpu) => Statistics::on_gpu(gpu, data, design, kernel, estimator, progress)?,
                None => Statistics::of(data, design, kernel, estimator, progress)?,
            };
            Ok(Arc::new(StatisticsForm::new(unknowns.clone(), all)))
        };
        let of_v = statistics(Estimator::V)?;
        let by_gradients = |estimator: Estimator| -> Result<Box<dyn QuadraticForm>> {
            let (spec, unknowns, units) =
                (LossSpec { estimator, ..spec.loss }, unknowns.clone(), units.clone());
            Ok(match (objective, gpu) {
                (Objective::Skds, _) if estimator == Estimator::V => Box::new(of_v.clone()),
                (Objective::Skds, _) => Box::new(statistics(estimator)?),
                (Objective::Kds, None) => {
                    Box::new(EngineForm::<f64>::new(CpuEngine.load(data, &spec)?, unknowns, units, progress)?)
                }
                (Objective::Kds, Some(gpu)) => {
                    Box::new(EngineForm::<f32>::new(gpu.load(data, &spec)?, unknowns, units, progress)?)
                }
            })
        };
        let products = spec.products.unwrap_or_else(|| cheaper_method(objective, unknowns.len(), spec.fits));
        let form_it = |estimator: Estimator| -> Result<(Box<dyn QuadraticForm>, Option<FormedMatrix>)> {
            let mut form = by_gradients(estimator)?;
            let formed = match products {
                ProductMethod::Formed => Some(FormedMatrix::of(&mut *form, &start, progress)?),
                ProductMethod::ByGradients => None,
            };
            Ok((form, formed))
        };
        let (form, formed, fell_back) = match (estimator, products) {
            (Estimator::U, ProductMethod::ByGradients) => {
                let (form, formed) = form_it(Estimator::V)?;
                (form, formed, true)
            }
            _ => {
                let (form, formed) = form_it(estimator)?;
                let convex = |formed: &FormedMatrix| Ok(formed.convexity()? >= -INDEFINITE);
                match estimator == Estimator::V || formed.as_ref().map_or(Ok(true), convex)? {
                    true => (form, formed, false),
                    false => {
                        let (form, formed) = form_it(Estimator::V)?;
                        (form, formed, true)
                    }
                }
            }
        };
        let metric = Metric::new(unknowns.clone(), of_v);
        let nonsmooth = Nonsmooth::new(&unknowns, metric.least.clone());
        let (none, steps, steepest) = (Vec::new(), 0, 0.0);
        let mut quadratic =
            Quadratic { unknowns, form, formed, nonsmooth, metric, none, steepest, steps, fell_back };
        quadratic.prepare(start, progress)?;
        Ok(quadratic)
    }

    /// Computes the metric's scale, and the optimum without effects.
    fn prepare(&mut self, start: Vec<f64>, progress: &Progress) -> Result<()> {
        let mut descent = self.descent(progress, u32::MAX);
        // KDS couples the noises of different variables, which blocks of rows ignore.
        let noises: Vec<bool> = descent.nonsmooth.least.iter().map(|least| least.is_finite()).collect();
        let others: Vec<bool> = noises.iter().map(|noise| !noise).collect();
        let (of_noises, of_others) = (descent.probe(&noises)?, descent.probe(&others)?);
        let root = |is_noise: &bool| {
            let steepness = MARGIN * if *is_noise { of_noises } else { of_others };
            if steepness > 0.0 { steepness.sqrt() } else { 1.0 }
        };
        let by: Vec<f64> = noises.iter().map(root).collect();
        descent.metric.scale(&by);
        let state = descent.hold_effects(start)?;
        self.steps = descent.steps;
        self.steepest = self.nonsmooth.steepest(&state.slopes).max(f64::MIN_POSITIVE);
        self.none = state.t;
        Ok(())
    }

    fn descent<'a>(&'a mut self, progress: &'a Progress, most: u32) -> Descent<'a> {
        let form: &mut dyn QuadraticForm = match &mut self.formed {
            Some(formed) => formed,
            None => &mut *self.form,
        };
        Descent { form, nonsmooth: &self.nonsmooth, metric: &mut self.metric, progress, steps: 0, most }
    }

    /// How products with H are computed.
    pub fn product_method(&self) -> ProductMethod {
        if self.formed.is_some() { ProductMethod::Formed } else { ProductMethod::ByGradients }
    }

    /// The number of products so far, without those that formed H.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// The number of unknowns.
    pub fn unknowns(&self) -> usize {
        self.unknowns.len()
    }

    /// The minimum with a penalty, from a model nearby if there is one, otherwise from no effects.
    ///
    /// [`Solution::violation`] comes from the gradient itself, relative to the largest slope at the optimum without effects. It
    /// exceeds the tolerance only if rounding or `tolerance.steps`, the limit of products, ends the fit.
    pub fn fit(
        &mut self,
        penalty: Option<Penalty>,
        from: Option<&Parameters<f64>>,
        tolerance: Tolerance,
        progress: &Progress,
    ) -> Result<Solution> {
        let mut t = match from {
            Some(from) => self.unknowns.of_parameters(from)?,
            None => self.none.clone(),
        };
        t.iter_mut().zip(&self.nonsmooth.least).for_each(|(t, least)| *t = t.max(*least));
        self.nonsmooth.set(penalty, self.unknowns.layouts.len());
        let enough = tolerance.violation * self.steepest;
        let mut descent = self.descent(progress, tolerance.steps);
        let t = descent.minimise(t, enough)?;
        self.steps += descent.steps;
        let mut slopes = vec![0.0; t.len()];
        let loss = self.form.value_and_slopes(&t, &mut slopes, progress)?;
        let mut coefficients = self.unknowns.coefficients();
        self.unknowns.spread(&t, true, &mut coefficients);
        Ok(Solution {
            parameters: self.unknowns.parameters(&coefficients, LEAST_NOISE),
            loss,
            penalty: self.nonsmooth.value(&t),
            violation: self.nonsmooth.violation(&t, &slopes) / self.steepest,
        })
    }
}

fn check(design: &Design, spec: &QuadraticSpec<'_>) -> Result<()> {
    if spec.loss.estimator == Estimator::Linear {
        return Err(Error::invalid("the estimator is linear, expected u or v for the exact solver"));
    }
    if spec.loss.objective == Objective::Kds && *design != Design::Linear {
        return Err(Error::invalid("the objective is kds for a model of given functions, expected skds"));
    }
    if spec.learn_scale && design.amounts() > 1 {
        return Err(Error::invalid(format!(
            "learn_scale is set for a noise with {} functions, expected one function",
            design.amounts()
        )));
    }
    Ok(())
}

fn unknowns(targets: &Matrix<bool>, design: &Design, spec: &QuadraticSpec<'_>) -> Unknowns {
    let (environments, d) = (targets.rows(), targets.cols());
    let all: Vec<usize> = (0..environments).collect();
    let own = |j: usize| {
        let shifted = super::shifted(targets, j, &all);
        let scaled = if spec.learn_scale { shifted.clone() } else { Vec::new() };
        let known = spec.multipliers.map(|multipliers| multipliers.row(j));
        CoordinateLayout::new(design, d, j, known, shifted, scaled)
    };
    Unknowns::new(design.clone(), (0..d).map(own).collect(), environments)
}

/// The method with fewer gradients for this many fits: forming H takes one gradient per unknown, after which fits are cheap.
/// Products of SKDS are always cheap.
fn cheaper_method(objective: Objective, unknowns: usize, fits: usize) -> ProductMethod {
    let few = unknowns <= MOST_FORMED && unknowns <= PRODUCTS_OF_FIT.saturating_mul(fits);
    if objective == Objective::Kds && few { ProductMethod::Formed } else { ProductMethod::ByGradients }
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

/// No effects, and noises of the size of the data: those of independent variables.
fn start(unknowns: &Unknowns, units: &[f64]) -> Vec<f64> {
    let mut coefficients = unknowns.coefficients();
    for (j, unit) in units.iter().enumerate() {
        coefficients.amounts[(j, 0)] = 2.0 * unit;
        unknowns.layouts[j].scaled.iter().for_each(|&e| coefficients.noises[(e, j)] = 2.0 * unit);
    }
    unknowns.gather_values(&coefficients)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
