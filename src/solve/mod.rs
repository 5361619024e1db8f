//! The exact fit: SKDS of a model that is linear in its parameters is convex (the paper's Corollary 9 and Example 10), and with
//! diagonal noise and all pairs it falls into one small quadratic per variable whose coefficients come from one pass over
//! the data.
//!
//! ```text
//! Dataset ──Statistics::of──▶ C, D, E per environment ──Coordinate──▶ Q, c per variable ──lasso or groups──▶ Solution
//! ```
//!
//! What is minimised is what training minimises on all pairs: the mean over environments of SKDS, plus the penalty. The
//! minimum is verified, not assumed: [`Solution::violation`] says by how much its optimality conditions are missed.

mod convexity;
mod coordinate;
mod design;
mod groups;
#[cfg(test)]
mod known_tests;
mod lasso;
pub mod moments;
mod quadratic;
mod statistics;
#[cfg(test)]
pub(super) mod tests;

pub use convexity::{Bound, Spectrum, bound, spectra};
pub use design::Design;
pub use quadratic::{Quadratic, QuadraticSpec, Way};
pub use statistics::Statistics;

use crate::data::Dataset;
use crate::engine::gpu::GpuEngine;
use crate::kernel::Kernel;
use crate::model::{Parameters, Penalty, PenaltyKind};
use crate::objective::Estimator;
use crate::{Error, Matrix, Progress, Result};
use coordinate::{Coordinate, Found, Own, Reduced};
use groups::Weights;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Rounds of holding and releasing noises at their least value.
const NOISE_ROUNDS: usize = 20;
/// Bytes that the problems of all variables may take, where a penalty ties them together.
const MOST_BYTES: f64 = 8.0 * (1u64 << 30) as f64;

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
    design: Design,
    multipliers: Option<Matrix<f64>>,
    spec: Spec,
    /// Whether the `u` form was not convex and the `v` form took its place.
    pub fell_back: bool,
}

impl Exact {
    /// For the linear model, on the CPU.
    pub fn new(data: &Dataset, targets: &Matrix<bool>, spec: Spec) -> Result<Exact> {
        Exact::on(None, data, targets, &Design::Linear, None, spec, &Progress::default())
    }

    /// Passes over the data once, or twice if the `u` form is not convex on this sample: the `v` form, which always is,
    /// then takes its place. The pass over pairs is done by `gpu`, if there is one; `progress` can stop it.
    ///
    /// Row j, column i of `multipliers`, if there are any, is what the penalty of the effect of i on j is multiplied with:
    /// infinity holds the effect at 0, and with 0 it is not penalised. A function of several variables has the largest of
    /// theirs.
    pub fn on(
        gpu: Option<&GpuEngine>,
        data: &Dataset,
        targets: &Matrix<bool>,
        design: &Design,
        multipliers: Option<&Matrix<f64>>,
        spec: Spec,
        progress: &Progress,
    ) -> Result<Exact> {
        if spec.learn_scale && design.amounts() > 1 {
            return Err(Error::invalid(format!(
                "noises of targets are to be learnt where noise has {} functions, expected one",
                design.amounts()
            )));
        }
        let pass = |estimator: Estimator| match gpu {
            Some(gpu) => Statistics::on_gpu(gpu, data, design, spec.kernel, estimator, progress),
            None => Statistics::of(data, design, spec.kernel, estimator, progress),
        };
        let (statistics, targets, design) = (pass(spec.estimator)?, targets.clone(), design.clone());
        let multipliers = multipliers.cloned();
        let mut exact = Exact { statistics, targets, design, multipliers, spec, fell_back: false };
        if spec.estimator == Estimator::U && !exact.is_convex()? {
            exact.statistics = pass(Estimator::V)?;
            exact.spec.estimator = Estimator::V;
            exact.fell_back = true;
        }
        Ok(exact)
    }

    /// From statistics of the linear model that are known already; they must be of the estimator `v`, or convex.
    pub fn from_statistics(statistics: Vec<Statistics>, targets: &Matrix<bool>, spec: Spec) -> Exact {
        let (targets, design) = (targets.clone(), Design::Linear);
        Exact { statistics, targets, design, multipliers: None, spec, fell_back: false }
    }

    fn dim(&self) -> usize {
        self.targets.cols()
    }

    fn is_convex(&self) -> Result<bool> {
        let all: Vec<usize> = (0..self.statistics.len()).collect();
        Ok(self.each_coordinate(&all, |coordinate| coordinate.is_convex())?.into_iter().all(|convex| convex))
    }

    /// What `of` makes of the problem of every variable over some environments. A problem has d² numbers, so only as many as
    /// there are threads exist at a time, unless `of` keeps them.
    fn each_coordinate<R: Send>(
        &self,
        environments: &[usize],
        of: impl Fn(Coordinate) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let Some(sum) = Statistics::sum(environments.iter().map(|&e| &self.statistics[e])) else {
            return Err(Error::invalid("found no environments to fit to, expected at least one"));
        };
        (0..self.dim())
            .into_par_iter()
            .map(|j| {
                let shifted = shifted(&self.targets, j, environments);
                let scaled = if self.spec.learn_scale { shifted.clone() } else { Vec::new() };
                let known = self.multipliers.as_ref().map(|multipliers| multipliers.row(j));
                let own = Own::new(&self.design, self.dim(), j, known, shifted, scaled);
                of(Coordinate::new(own, &self.statistics, environments.len(), &sum))
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
        match kind {
            PenaltyKind::Ingoing => self.ingoing(environments, lambdas),
            PenaltyKind::Outgoing | PenaltyKind::Both => {
                check_room(self.dim(), self.design.features(self.dim()), kind)?;
                self.grouped(&self.each_coordinate(environments, Ok)?, kind, lambdas)
            }
        }
    }

    /// The least λ that leaves no penalised entry, with single ones as groups.
    pub fn largest_penalty(&self, environments: &[usize]) -> Result<f64> {
        let mut largest = 0.0f64;
        for slopes in self.each_coordinate(environments, |coordinate| Ok(coordinate.reduce(&[])?.c))? {
            largest = slopes.iter().fold(largest, |m, c| m.max(c.abs()));
        }
        Ok(largest / self.strength(1.0))
    }

    /// The loss of a model on some of these environments, where each target has the shift that suits it best there.
    /// Variables count by the squares of their units.
    pub fn held_out_loss(&self, solution: &Solution, environments: &[usize]) -> Result<f64> {
        let (coefficients, amounts) = self.design.coefficients(&solution.parameters)?;
        let last = self.design.features(self.dim()) - 1;
        let mut sum = 0.0;
        for j in 0..self.dim() {
            let unit = self.design.unit(j);
            // The coefficients of the statistics' functions.
            let mut all = coefficients.row(j).to_vec();
            all.push(solution.parameters.biases[j]);
            all.extend(amounts.row(j));
            for &e in environments {
                let part = &self.statistics[e];
                let slope = |a: usize| {
                    all.iter().enumerate().map(|(b, value)| part.entry(j, a, b) * value).sum::<f64>()
                };
                let mut loss: f64 = all.iter().enumerate().map(|(a, value)| value * slope(a)).sum();
                if self.targets[(e, j)] {
                    loss -= slope(last).powi(2) / part.entry(j, last, last);
                }
                sum += loss / (unit * unit);
            }
        }
        Ok(sum / environments.len() as f64)
    }

    /// λ/d², by which single effects count.
    fn strength(&self, lambda: f64) -> f64 {
        lambda / (self.dim() * self.dim()) as f64
    }

    /// Every variable by itself.
    fn ingoing(&self, environments: &[usize], lambdas: &[f64]) -> Result<Vec<Solution>> {
        let strengths: Vec<f64> = lambdas.iter().map(|&lambda| self.strength(lambda)).collect();
        let (owns, rows): (Vec<Own>, Vec<Vec<Found>>) = self
            .each_coordinate(environments, |coordinate| {
                let rows = ingoing_rows(&coordinate, &strengths)?;
                Ok((coordinate.own, rows))
            })?
            .into_iter()
            .unzip();
        let solutions = lambdas.iter().enumerate().map(|(k, lambda)| {
            let rows: Vec<&Found> = rows.iter().map(|rows| &rows[k]).collect();
            self.solution(owns.iter(), &rows, PenaltyKind::Ingoing, *lambda)
        });
        Ok(solutions.collect())
    }

    /// All variables together; noises are held and released as in [`ingoing_rows`].
    fn grouped(
        &self,
        coordinates: &[Coordinate],
        kind: PenaltyKind,
        lambdas: &[f64],
    ) -> Result<Vec<Solution>> {
        let d = self.dim();
        let mut held: Vec<Vec<usize>> = vec![Vec::new(); d];
        let members: Vec<Vec<usize>> =
            coordinates.iter().map(|coordinate| coordinate.own.penalised.clone()).collect();
        let mut w = vec![0.0; members.iter().map(Vec::len).sum()];
        let mut forms = reduce_all(coordinates, &held)?;
        let mut solutions = Vec::new();
        for &lambda in lambdas {
            let group = self.strength(lambda);
            let weights = Weights { single: if kind == PenaltyKind::Both { group } else { 0.0 }, group };
            for round in 0..NOISE_ROUNDS {
                let found = groups::solve(&forms, &members, weights, &w)?;
                w = found.w;
                let mut rest = &w[..];
                let rows: Vec<&[f64]> = members
                    .iter()
                    .map(|row| rest.split_off(..row.len()).expect("a state has all rows"))
                    .collect();
                let wanted: Vec<Vec<usize>> =
                    (0..d).map(|j| coordinates[j].noises_to_hold(&forms[j], rows[j], &held[j])).collect();
                if wanted == held || round + 1 == NOISE_ROUNDS {
                    let rows: Vec<Found> =
                        (0..d).map(|j| coordinates[j].found(&forms[j], rows[j], found.violation)).collect();
                    let rows: Vec<&Found> = rows.iter().collect();
                    let owns = coordinates.iter().map(|coordinate| &coordinate.own);
                    solutions.push(self.solution(owns, &rows, kind, lambda));
                    break;
                }
                held = wanted;
                forms = reduce_all(coordinates, &held)?;
            }
        }
        Ok(solutions)
    }

    /// Puts the variables' rows together.
    fn solution<'a>(
        &self,
        owns: impl Iterator<Item = &'a Own> + Clone,
        rows: &[&Found],
        kind: PenaltyKind,
        lambda: f64,
    ) -> Solution {
        let (d, all) = (self.dim(), self.targets.rows());
        let mut shift = Matrix::full(all, d, 0.0);
        let mut log_scale = self.spec.learn_scale.then(|| Matrix::full(all, d, 0.0));
        for (j, (row, own)) in rows.iter().zip(owns.clone()).enumerate() {
            for (k, &e) in own.shifted.iter().enumerate() {
                shift[(e, j)] = row.shifts[k];
                if let (Some(log_scale), Some(noise)) = (&mut log_scale, row.noises.get(k)) {
                    log_scale[(e, j)] = 0.5 * (noise / row.amounts[0]).ln();
                }
            }
        }
        let last = self.design.features(d) - 1;
        let coefficient = |j: usize, p: usize| rows[j].coefficients[p];
        let (drift, noise) = self.design.drift_and_noise(d, coefficient, |j, k| rows[j].amounts[k]);
        let parameters = Parameters {
            drift,
            biases: rows.iter().map(|row| row.coefficients[last]).collect(),
            noise,
            shift: Some(shift),
            log_scale,
        };
        Solution {
            loss: rows.iter().map(|row| row.loss).sum(),
            penalty: self.strength(lambda) * penalty_of(kind, rows, owns),
            violation: rows.iter().fold(0.0, |worst, row| worst.max(row.violation)),
            parameters,
        }
    }
}

/// Which environments shift variable j. Where all do, the first is the one that the others are compared with: bias and
/// shifts would otherwise not be determined.
fn shifted(targets: &Matrix<bool>, j: usize, environments: &[usize]) -> Vec<usize> {
    let all: Vec<usize> = environments.iter().copied().filter(|&e| targets[(e, j)]).collect();
    all[usize::from(all.len() == environments.len())..].to_vec()
}

/// Bytes that a fit's problems take, as they are and reduced: of all variables at once if the penalty ties them together,
/// otherwise of as many as there are threads.
pub(crate) fn bytes_of_fit(d: usize, features: usize, kind: PenaltyKind) -> f64 {
    let variables = if kind == PenaltyKind::Ingoing { rayon::current_num_threads() } else { d };
    2.0 * 8.0 * variables as f64 * (features as f64).powi(2)
}

/// How many fits with a penalty that ties variables together may run at the same time, by the memory that they take.
pub(crate) fn fits_at_once(d: usize, features: usize) -> usize {
    let room = (MOST_BYTES / bytes_of_fit(d, features, PenaltyKind::Both)) as usize;
    if room < rayon::current_num_threads() { room.max(1) } else { usize::MAX }
}

/// Whether the direct solver, [`Exact`], has room for a penalty; where it has not, [`Quadratic`] serves.
pub fn has_room(d: usize, design: &Design, kind: PenaltyKind) -> bool {
    check_room(d, design.features(d), kind).is_ok()
}

/// Whether the problems of all variables fit into memory at once.
pub(crate) fn check_room(d: usize, features: usize, kind: PenaltyKind) -> Result<()> {
    let bytes = bytes_of_fit(d, features, kind);
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    let gib = |bytes: f64| bytes / (1u64 << 30) as f64;
    Err(Error::invalid(format!(
        "the penalty {kind} ties {d} variables together, for which the exact solver needs {:.0} GiB, expected at most {:.0}: take \
         the penalty ingoing, or the solver adam",
        gib(bytes),
        gib(MOST_BYTES)
    )))
}

/// The penalty without its weight: single entries, or the norms of columns, or both.
fn penalty_of<'a>(kind: PenaltyKind, rows: &[&Found], owns: impl Iterator<Item = &'a Own>) -> f64 {
    let single: f64 = rows.iter().flat_map(|row| &row.w).map(|w| w.abs()).sum();
    let mut squares = BTreeMap::new();
    for (row, own) in rows.iter().zip(owns) {
        let entries = row.w.iter().zip(&own.penalised);
        entries.for_each(|(w, column)| *squares.entry(column).or_insert(0.0) += w * w);
    }
    let groups: f64 = squares.into_values().map(f64::sqrt).sum();
    match kind {
        PenaltyKind::Ingoing => single,
        PenaltyKind::Outgoing => groups,
        PenaltyKind::Both => single + groups,
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
            let violation = lasso::violation(&form.q, &form.c, &form.multipliers, strength, &effects);
            Ok(coordinate.found(form, &effects, violation))
        })
        .collect()
}
