//! The exact fit: SKDS of a linear model is convex (the paper's Corollary 9), and with diagonal noise and all pairs it falls
//! into one small quadratic per variable whose coefficients come from one pass over the data.
//!
//! ```text
//! Dataset ──Statistics::of──▶ C, D, E per environment ──Coordinate──▶ Q, c per variable ──lasso or groups──▶ Solution
//! ```
//!
//! What is minimised is what training minimises on all pairs: the mean over environments of SKDS, plus the penalty. The
//! minimum is verified, not assumed: [`Solution::violation`] says by how much its optimality conditions are missed.

mod convexity;
mod coordinate;
mod groups;
mod lasso;
mod statistics;
#[cfg(test)]
mod tests;

pub use convexity::{Bound, Spectrum, bound, spectra};
pub use statistics::Statistics;

use crate::data::Dataset;
use crate::engine::gpu::GpuEngine;
use crate::kernel::Kernel;
use crate::model::{Drift, Noise, Parameters, Penalty, PenaltyKind};
use crate::objective::Estimator;
use crate::{Error, Matrix, Result};
use coordinate::{Coordinate, Found, Own, Reduced, without_own};
use groups::Weights;
use rayon::prelude::*;

/// Rounds of holding and releasing noises at their least value.
const NOISE_ROUNDS: usize = 20;

/// What to minimise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spec {
    /// The kernel with its bandwidth.
    pub kernel: Kernel,
    /// `u` or `v`.
    pub estimator: Estimator,
    /// What is added to the loss.
    pub penalty: Option<Penalty>,
    /// Whether interventions may change the noise of their targets too.
    pub learn_scale: bool,
}

/// The minimum.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// Where it is.
    pub parameters: Parameters<f64>,
    /// The loss there, without the penalty.
    pub loss: f64,
    /// The penalty there.
    pub penalty: f64,
    /// By how much the conditions of a minimum are missed, relative to the largest slope at 0.
    pub violation: f64,
}

/// The statistics of all environments and who is intervened on where: everything that fits need.
pub struct Exact {
    statistics: Vec<Statistics>,
    targets: Matrix<bool>,
    spec: Spec,
    /// Whether the `u` form was not convex and the `v` form took its place.
    pub fell_back: bool,
}

impl Exact {
    /// Passes over the data once, or twice if the `u` form is not convex on this sample: the `v` form, which always is,
    /// then takes its place.
    pub fn new(data: &Dataset, targets: &Matrix<bool>, spec: Spec) -> Result<Exact> {
        Exact::on(None, data, targets, spec)
    }

    /// The same with the pass over pairs on a GPU, if there is one.
    pub fn on(gpu: Option<&GpuEngine>, data: &Dataset, targets: &Matrix<bool>, spec: Spec) -> Result<Exact> {
        let pass = |estimator: Estimator| match gpu {
            Some(gpu) => Statistics::on_gpu(gpu, data, spec.kernel, estimator),
            None => Statistics::of(data, spec.kernel, estimator),
        };
        let statistics = pass(spec.estimator)?;
        let mut exact = Exact { statistics, targets: targets.clone(), spec, fell_back: false };
        if spec.estimator == Estimator::U && !exact.is_convex()? {
            exact.statistics = pass(Estimator::V)?;
            exact.spec.estimator = Estimator::V;
            exact.fell_back = true;
        }
        Ok(exact)
    }

    /// From statistics that are known already; they must be of the estimator `v`, or convex.
    pub fn from_statistics(statistics: Vec<Statistics>, targets: &Matrix<bool>, spec: Spec) -> Exact {
        Exact { statistics, targets: targets.clone(), spec, fell_back: false }
    }

    fn dim(&self) -> usize {
        self.targets.cols()
    }

    fn is_convex(&self) -> Result<bool> {
        let all: Vec<usize> = (0..self.statistics.len()).collect();
        let convex: Result<Vec<bool>> =
            self.coordinates(&all).par_iter().map(Coordinate::is_convex).collect();
        Ok(convex?.into_iter().all(|convex| convex))
    }

    /// Which environments shift variable j. Where all do, the first is the one that the others are compared with: bias and
    /// shifts would otherwise not be determined.
    fn shifted(&self, j: usize, environments: &[usize]) -> Vec<usize> {
        let all: Vec<usize> = environments.iter().copied().filter(|&e| self.targets[(e, j)]).collect();
        all[usize::from(all.len() == environments.len())..].to_vec()
    }

    /// The problem of every variable over some environments.
    fn coordinates(&self, environments: &[usize]) -> Vec<Coordinate> {
        let sum = Statistics::sum(environments.iter().map(|&e| &self.statistics[e]), self.dim());
        (0..self.dim())
            .into_par_iter()
            .map(|j| {
                let shifted = self.shifted(j, environments);
                let scaled = if self.spec.learn_scale { shifted.clone() } else { Vec::new() };
                Coordinate::new(Own { j, shifted, scaled }, &self.statistics, environments, &sum)
            })
            .collect()
    }

    /// The minimum over all environments.
    pub fn solve(&self) -> Result<Solution> {
        let lambda = self.spec.penalty.map_or(0.0, |penalty| penalty.lambda);
        let all: Vec<usize> = (0..self.statistics.len()).collect();
        let kind = self.spec.penalty.map_or(PenaltyKind::Ingoing, |penalty| penalty.kind);
        Ok(self.path(&all, kind, &[lambda])?.remove(0))
    }

    /// The minima over some environments for a path of penalties that descends, each from where the last one ended.
    pub fn path(&self, environments: &[usize], kind: PenaltyKind, lambdas: &[f64]) -> Result<Vec<Solution>> {
        if environments.is_empty() {
            return Err(Error::invalid("found no environments to fit to, expected at least one"));
        }
        let coordinates = self.coordinates(environments);
        match kind {
            PenaltyKind::Ingoing => self.ingoing(&coordinates, environments, lambdas),
            PenaltyKind::Outgoing | PenaltyKind::Both => {
                self.grouped(&coordinates, environments, kind, lambdas)
            }
        }
    }

    /// λ/d², by which single effects count.
    fn strength(&self, lambda: f64) -> f64 {
        lambda / (self.dim() * self.dim()) as f64
    }

    /// Every variable by itself.
    fn ingoing(
        &self,
        coordinates: &[Coordinate],
        environments: &[usize],
        lambdas: &[f64],
    ) -> Result<Vec<Solution>> {
        let strengths: Vec<f64> = lambdas.iter().map(|&lambda| self.strength(lambda)).collect();
        let rows: Vec<Vec<Found>> = coordinates
            .par_iter()
            .map(|coordinate| ingoing_rows(coordinate, &strengths))
            .collect::<Result<_>>()?;
        let solutions = lambdas.iter().enumerate().map(|(k, lambda)| {
            let rows: Vec<&Found> = rows.iter().map(|rows| &rows[k]).collect();
            self.solution(&rows, environments, PenaltyKind::Ingoing, *lambda)
        });
        Ok(solutions.collect())
    }

    /// All variables together; noises are held and released as in [`ingoing_rows`].
    fn grouped(
        &self,
        coordinates: &[Coordinate],
        environments: &[usize],
        kind: PenaltyKind,
        lambdas: &[f64],
    ) -> Result<Vec<Solution>> {
        let d = self.dim();
        let mut held: Vec<Vec<usize>> = vec![Vec::new(); d];
        let mut effects = Matrix::full(d, d, 0.0);
        let mut forms = reduce_all(coordinates, &held)?;
        let mut solutions = Vec::new();
        for &lambda in lambdas {
            let group = self.strength(lambda);
            let weights = Weights { single: if kind == PenaltyKind::Both { group } else { 0.0 }, group };
            for round in 0..NOISE_ROUNDS {
                let found = groups::solve(&forms, weights, &effects)?;
                effects = found.effects;
                let compact = |j: usize| without_own(effects.row(j), j);
                let wanted: Vec<Vec<usize>> =
                    (0..d).map(|j| coordinates[j].noises_to_hold(&forms[j], &compact(j), &held[j])).collect();
                if wanted == held || round + 1 == NOISE_ROUNDS {
                    let rows: Vec<Found> = (0..d)
                        .map(|j| coordinates[j].found(&forms[j], &compact(j), found.violation))
                        .collect();
                    let rows: Vec<&Found> = rows.iter().collect();
                    solutions.push(self.solution(&rows, environments, kind, lambda));
                    break;
                }
                held = wanted;
                forms = reduce_all(coordinates, &held)?;
            }
        }
        Ok(solutions)
    }

    /// Puts the variables' rows together.
    fn solution(&self, rows: &[&Found], environments: &[usize], kind: PenaltyKind, lambda: f64) -> Solution {
        let (d, all) = (self.dim(), self.targets.rows());
        let mut shift = Matrix::full(all, d, 0.0);
        let mut log_scale = self.spec.learn_scale.then(|| Matrix::full(all, d, 0.0));
        for (j, row) in rows.iter().enumerate() {
            for (k, e) in self.shifted(j, environments).into_iter().enumerate() {
                shift[(e, j)] = row.shifts[k];
                if let (Some(log_scale), Some(noise)) = (&mut log_scale, row.noises.get(k)) {
                    log_scale[(e, j)] = 0.5 * (noise / row.noise).ln();
                }
            }
        }
        let weights = Matrix::from_fn(d, d, |j, i| if i == j { -1.0 } else { rows[j].effects[i] });
        let parameters = Parameters {
            drift: Drift::Linear { weights },
            biases: rows.iter().map(|row| row.bias).collect(),
            noise: Noise::Diagonal { log_noise: rows.iter().map(|row| 0.5 * row.noise.ln()).collect() },
            shift: Some(shift),
            log_scale,
        };
        Solution {
            loss: rows.iter().map(|row| row.loss).sum(),
            penalty: Penalty { kind, lambda }.value(&parameters),
            violation: rows.iter().fold(0.0, |worst, row| worst.max(row.violation)),
            parameters,
        }
    }
}

fn reduce_all(coordinates: &[Coordinate], held: &[Vec<usize>]) -> Result<Vec<Reduced>> {
    coordinates.par_iter().zip(held).map(|(coordinate, held)| coordinate.reduce(held)).collect()
}

/// The path of one variable. Where a noise comes out below its least value, it is held there and the effects are found
/// anew; a held noise that would rather grow is released.
fn ingoing_rows(coordinate: &Coordinate, strengths: &[f64]) -> Result<Vec<Found>> {
    let free = coordinate.reduce(&[])?;
    let path = lasso::path(&free.q, &free.c, strengths)?;
    path.into_iter()
        .zip(strengths)
        .map(|(mut effects, &strength)| {
            let mut held = Vec::new();
            let mut form = None;
            for _ in 0..NOISE_ROUNDS {
                let now = form.as_ref().unwrap_or(&free);
                let wanted = coordinate.noises_to_hold(now, &effects, &held);
                if wanted == held {
                    break;
                }
                held = wanted;
                let reduced = coordinate.reduce(&held)?;
                effects = lasso::path(&reduced.q, &reduced.c, &[strength])?.remove(0);
                form = Some(reduced);
            }
            let form = form.as_ref().unwrap_or(&free);
            let violation = lasso::violation(&form.q, &form.c, strength, &effects);
            Ok(coordinate.found(form, &effects, violation))
        })
        .collect()
}
