//! The direct exact solver: one small quadratic per variable.

use super::coordinate::{Coordinate, CoordinateSolution, Reduced};
use super::groups::{self, GroupPenalty};
use super::layout::CoordinateLayout;
use super::{Design, ExactSpec, Solution, Statistics, check_room, lasso};
use crate::data::Dataset;
use crate::engine::gpu::GpuEngine;
use crate::model::{Parameters, PenaltyKind};
use crate::objective::Estimator;
use crate::{Error, Matrix, Progress, Result};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// The most rounds of fixing noises at their lower bound and releasing them.
const NOISE_ROUNDS: usize = 20;
/// The direct solver: the statistics of all environments and their targets, which are all that fits need.
pub struct ExactSolver {
    statistics: Vec<Statistics>,
    targets: Matrix<bool>,
    design: Design,
    multipliers: Option<Matrix<f64>>,
    spec: ExactSpec,
    /// Whether the `u` form was not convex, so that the solver uses the `v` form.
    pub fell_back: bool,
}

impl ExactSolver {
    /// Prepares the solver for the linear model, on the CPU.
    pub fn new(data: &Dataset, targets: &Matrix<bool>, spec: ExactSpec) -> Result<ExactSolver> {
        ExactSolver::prepare(None, data, targets, &Design::Linear, None, spec, &Progress::default())
    }

    /// Passes over the data once, on `gpu` if there is one. If the `u` form is not convex on this sample, a second pass computes
    /// the `v` form, which is always convex. `progress` can stop the passes.
    ///
    /// Row j, column i of `multipliers`, if given, multiplies the penalty of the effect of i on j. Infinity holds the effect at
    /// 0, and 0 leaves it without a penalty. A function of several variables has the largest of their multipliers.
    pub fn prepare(
        gpu: Option<&GpuEngine>,
        data: &Dataset,
        targets: &Matrix<bool>,
        design: &Design,
        multipliers: Option<&Matrix<f64>>,
        spec: ExactSpec,
        progress: &Progress,
    ) -> Result<ExactSolver> {
        if spec.learn_scale && design.amounts() > 1 {
            return Err(Error::invalid(format!(
                "learn_scale is set for a noise with {} functions, expected one function",
                design.amounts()
            )));
        }
        let pass = |estimator: Estimator| match gpu {
            Some(gpu) => Statistics::on_gpu(gpu, data, design, spec.kernel, estimator, progress),
            None => Statistics::of(data, design, spec.kernel, estimator, progress),
        };
        let (statistics, targets, design) = (pass(spec.estimator)?, targets.clone(), design.clone());
        let multipliers = multipliers.cloned();
        let mut exact = ExactSolver { statistics, targets, design, multipliers, spec, fell_back: false };
        if spec.estimator == Estimator::U && !exact.is_convex()? {
            exact.statistics = pass(Estimator::V)?;
            exact.spec.estimator = Estimator::V;
            exact.fell_back = true;
        }
        Ok(exact)
    }

    /// Prepares the solver from known statistics of the linear model, which must be convex, as those of the estimator `v` are.
    #[cfg(test)]
    pub(super) fn from_statistics(
        statistics: Vec<Statistics>,
        targets: &Matrix<bool>,
        spec: ExactSpec,
    ) -> ExactSolver {
        let (targets, design) = (targets.clone(), Design::Linear);
        ExactSolver { statistics, targets, design, multipliers: None, spec, fell_back: false }
    }

    fn dim(&self) -> usize {
        self.targets.cols()
    }

    fn is_convex(&self) -> Result<bool> {
        let all: Vec<usize> = (0..self.statistics.len()).collect();
        Ok(self.each_coordinate(&all, |coordinate| coordinate.is_convex())?.into_iter().all(|convex| convex))
    }

    /// Applies `of` to the problem of every variable over some environments. A problem has d² numbers, so only one per thread
    /// exists at a time, unless `of` keeps them.
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
                let layout = CoordinateLayout::new(&self.design, self.dim(), j, known, shifted, scaled);
                of(Coordinate::new(layout, &self.statistics, environments.len(), &sum))
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

    /// The minima over some environments for a descending path of penalties, each starting from the last.
    pub(crate) fn path(
        &self,
        environments: &[usize],
        kind: PenaltyKind,
        lambdas: &[f64],
    ) -> Result<Vec<Solution>> {
        match kind {
            PenaltyKind::Ingoing => self.ingoing(environments, lambdas),
            PenaltyKind::Outgoing | PenaltyKind::Both => {
                check_room(self.dim(), self.design.features(self.dim()), kind)?;
                self.grouped(&self.each_coordinate(environments, Ok)?, kind, lambdas)
            }
        }
    }

    /// The least λ at which a penalty on single effects removes all of them.
    pub(crate) fn largest_penalty(&self, environments: &[usize]) -> Result<f64> {
        let mut largest = 0.0f64;
        for slopes in self.each_coordinate(environments, |coordinate| Ok(coordinate.reduce(&[])?.c))? {
            largest = slopes.iter().fold(largest, |m, c| m.max(c.abs()));
        }
        Ok(largest / self.strength(1.0))
    }

    /// The loss of a model on some of these environments, where each target has its best shift. Variables are weighted by the
    /// squares of their units.
    pub(crate) fn held_out_loss(&self, solution: &Solution, environments: &[usize]) -> Result<f64> {
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

    /// λ/d², the weight of a single effect.
    fn strength(&self, lambda: f64) -> f64 {
        lambda / (self.dim() * self.dim()) as f64
    }

    /// The path of fits whose penalty lets every variable be solved by itself.
    fn ingoing(&self, environments: &[usize], lambdas: &[f64]) -> Result<Vec<Solution>> {
        let strengths: Vec<f64> = lambdas.iter().map(|&lambda| self.strength(lambda)).collect();
        let (layouts, rows): (Vec<CoordinateLayout>, Vec<Vec<CoordinateSolution>>) = self
            .each_coordinate(environments, |coordinate| {
                let rows = ingoing_rows(&coordinate, &strengths)?;
                Ok((coordinate.layout, rows))
            })?
            .into_iter()
            .unzip();
        let solutions = lambdas.iter().enumerate().map(|(k, lambda)| {
            let rows: Vec<&CoordinateSolution> = rows.iter().map(|rows| &rows[k]).collect();
            self.solution(layouts.iter(), &rows, PenaltyKind::Ingoing, *lambda)
        });
        Ok(solutions.collect())
    }

    /// The path of fits whose penalty couples the variables. Noises are fixed and released as in [`ingoing_rows`].
    fn grouped(
        &self,
        coordinates: &[Coordinate],
        kind: PenaltyKind,
        lambdas: &[f64],
    ) -> Result<Vec<Solution>> {
        let d = self.dim();
        let mut held: Vec<Vec<usize>> = vec![Vec::new(); d];
        let members: Vec<Vec<usize>> =
            coordinates.iter().map(|coordinate| coordinate.layout.penalised.clone()).collect();
        let mut w = vec![0.0; members.iter().map(Vec::len).sum()];
        let mut forms = reduce_all(coordinates, &held)?;
        let mut solutions = Vec::new();
        for &lambda in lambdas {
            let group = self.strength(lambda);
            let weights = GroupPenalty { single: if kind == PenaltyKind::Both { group } else { 0.0 }, group };
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
                    let rows: Vec<CoordinateSolution> = (0..d)
                        .map(|j| coordinates[j].solution(&forms[j], rows[j], found.violation))
                        .collect();
                    let rows: Vec<&CoordinateSolution> = rows.iter().collect();
                    let layouts = coordinates.iter().map(|coordinate| &coordinate.layout);
                    solutions.push(self.solution(layouts, &rows, kind, lambda));
                    break;
                }
                held = wanted;
                forms = reduce_all(coordinates, &held)?;
            }
        }
        Ok(solutions)
    }

    /// Combines the solutions of all coordinates.
    fn solution<'a>(
        &self,
        layouts: impl Iterator<Item = &'a CoordinateLayout> + Clone,
        rows: &[&CoordinateSolution],
        kind: PenaltyKind,
        lambda: f64,
    ) -> Solution {
        let (d, all) = (self.dim(), self.targets.rows());
        let mut shift = Matrix::full(all, d, 0.0);
        let mut log_scale = self.spec.learn_scale.then(|| Matrix::full(all, d, 0.0));
        for (j, (row, layout)) in rows.iter().zip(layouts.clone()).enumerate() {
            for (k, &e) in layout.shifted.iter().enumerate() {
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
            penalty: self.strength(lambda) * penalty_of(kind, rows, layouts),
            violation: rows.iter().fold(0.0, |worst, row| worst.max(row.violation)),
            parameters,
        }
    }
}

/// The environments that shift variable j. If all do, the first is the reference for the others: bias and shifts would not be
/// determined otherwise.
pub(super) fn shifted(targets: &Matrix<bool>, j: usize, environments: &[usize]) -> Vec<usize> {
    let all: Vec<usize> = environments.iter().copied().filter(|&e| targets[(e, j)]).collect();
    all[usize::from(all.len() == environments.len())..].to_vec()
}

/// The penalty without its weight: single entries, or the norms of columns, or both.
fn penalty_of<'a>(
    kind: PenaltyKind,
    rows: &[&CoordinateSolution],
    layouts: impl Iterator<Item = &'a CoordinateLayout>,
) -> f64 {
    let single: f64 = rows.iter().flat_map(|row| &row.w).map(|w| w.abs()).sum();
    let mut squares = BTreeMap::new();
    for (row, layout) in rows.iter().zip(layouts) {
        let entries = row.w.iter().zip(&layout.penalised);
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

/// The path of one variable. A noise below its lower bound is fixed there and the effects are solved again; a fixed noise that
/// would increase is released.
fn ingoing_rows(coordinate: &Coordinate, strengths: &[f64]) -> Result<Vec<CoordinateSolution>> {
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
            Ok(coordinate.solution(form, &effects, violation))
        })
        .collect()
}
