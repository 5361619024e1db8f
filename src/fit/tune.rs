//! Bandwidth and penalty chosen by what they predict.
//!
//! Each intervened environment is left out in turn. A fit to the others is told the left-out environment's targets and their
//! means, as in [`crate::evaluate`], and its Gaussian law is compared with the left-out samples: the squared distance of
//! means plus Bures' distance of covariances, which is the squared 2-Wasserstein distance of Gaussians. Where fewer than
//! [`ENOUGH`] environments can be left out, rows are: fits to bootstrap samples predict the rows that they did not draw.
//!
//! Ten left-out environments make a noisy score: whichever setting has the best one is often not the best. So nothing is
//! picked. The environments are resampled [`RESAMPLES`] times, every setting's weight is how often it wins, and the model is
//! the average of the fits with these weights, mixed with two settings that do well on most systems. On simulated systems
//! this predicts unseen interventions better than any single choice by the same scores, and its worst cases are milder.

use super::stabilize::shrunk;
use crate::data::Dataset;
use crate::dense::symmetric_eigenvalues;
use crate::engine::cpu::matmul::product_sequential;
use crate::engine::gpu::GpuEngine;
use crate::evaluate::closed_form;
use crate::kernel::{Bandwidth, Kernel, KernelKind};
use crate::model::{Drift, Noise, Parameters, PenaltyKind};
use crate::objective::Estimator;
use crate::sample::{Gaussian, Intervention};
use crate::solve::{Exact, Spec};
use crate::{Error, Matrix, Result};
use faer::Accum;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bandwidths, in median distances between samples.
const BANDWIDTHS: [f64; 5] = [0.35, 0.525, 0.7, 0.875, 1.225];
/// Penalties, descending, for [`USUAL_DIM`] variables or more; with fewer, proportionally smaller.
const LAMBDAS: [f64; 6] = [0.5623, 0.3162, 0.1778, 0.1, 0.05623, 0.03162];
/// The number of variables that the penalties were found for, and the least factor for fewer.
const USUAL_DIM: f64 = 20.0;
const LEAST_FACTOR: f64 = 0.25;
/// Which groups.
const KINDS: [PenaltyKind; 2] = [PenaltyKind::Ingoing, PenaltyKind::Both];
/// Two settings that do well on most systems, and the weight that each has whatever the scores: (bandwidth, kind, λ).
const ANCHORS: [(f64, PenaltyKind, f64); 2] =
    [(0.525, PenaltyKind::Ingoing, 0.1), (1.225, PenaltyKind::Both, 0.1)];
const ANCHOR_WEIGHT: f64 = 0.2;
/// Resamples of the held-out scores.
const RESAMPLES: usize = 500;
/// Fits keep at least this far from instability.
const MARGIN: f64 = 0.1;
/// Environments that must be there to be left out; otherwise rows are.
const ENOUGH: usize = 3;
/// Bootstrap samples of rows.
const ROW_SAMPLES: usize = 6;

/// A setting and how it did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The kernel's bandwidth; none for a kernel without.
    pub bandwidth: Option<f64>,
    /// The penalty's groups.
    pub penalty: &'static str,
    /// The penalty's weight.
    pub lambda: f64,
    /// The mean of the logarithms of the distances to what was held out: lower is better.
    pub score: f64,
    /// The standard error of that mean.
    pub error: f64,
    /// The share that the setting has in the model.
    pub weight: f64,
    /// The logarithm of the distance to each held-out part.
    #[serde(skip)]
    pub scores: Vec<f64>,
}

/// What tuning found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tuning {
    /// `environments` or `rows`: what was held out.
    pub held_out: &'static str,
    /// How many times.
    pub folds: usize,
    /// All settings.
    pub cells: Vec<Cell>,
    /// The number of the one with the largest weight.
    pub leading: usize,
    /// The average.
    #[serde(skip)]
    pub parameters: Parameters<f64>,
    /// The leading setting's kernel.
    #[serde(skip)]
    pub kernel: Kernel,
    /// The largest violation of optimality conditions over all fits that the model is made of.
    pub violation: f64,
    /// Whether the `u` form was not convex somewhere and the `v` form took its place.
    pub fell_back: bool,
}

/// What is held out: a part to fit to, and samples to predict with what is told of them.
enum Fold {
    /// All environments but this one.
    Environment(usize),
    /// A bootstrap sample of the rows of every environment; what it left out is predicted.
    Rows(Box<Drawn>),
}

struct Drawn {
    data: Dataset,
    left_out: Vec<Observed>,
}

/// Mean and covariance of samples, and the root of the covariance.
struct Observed {
    mean: Vec<f64>,
    trace: f64,
    root: Matrix<f64>,
}

/// Settings of the search.
pub(super) struct Grid {
    kernel: KernelKind,
    estimator: Estimator,
    learn_scale: bool,
    /// One entry without a meaning for a kernel without bandwidth.
    bandwidths: Vec<f64>,
    /// As many as [`LAMBDAS`].
    lambdas: Vec<f64>,
}

impl Grid {
    pub(super) fn new(
        data: &Dataset,
        kernel: KernelKind,
        estimator: Estimator,
        learn_scale: bool,
        seed: u64,
    ) -> Result<Grid> {
        let median = Bandwidth::Auto.resolve(data, seed)?;
        let bandwidths = match kernel {
            KernelKind::ImqPlus => vec![1.0],
            _ => BANDWIDTHS.iter().map(|factor| factor * median).collect(),
        };
        let factor = (data.dim() as f64 / USUAL_DIM).clamp(LEAST_FACTOR, 1.0);
        let lambdas = LAMBDAS.iter().map(|lambda| factor * lambda).collect();
        Ok(Grid { kernel, estimator, learn_scale, bandwidths, lambdas })
    }

    /// Fits that a search makes: what progress counts up to.
    pub(super) fn fits(&self, folds: usize) -> u64 {
        (self.bandwidths.len() * KINDS.len() * LAMBDAS.len() * (folds + 1)) as u64
    }

    fn spec(&self, bandwidth: f64) -> Result<Spec> {
        Ok(Spec {
            kernel: self.kernel.with_bandwidth(bandwidth)?,
            estimator: self.estimator,
            penalty: None,
            learn_scale: self.learn_scale,
        })
    }
}

/// How many parts [`tune`] will hold out.
pub(super) fn folds_of(targets: &Matrix<bool>, known: bool) -> usize {
    match intervened(targets, known) {
        environments if environments.len() >= ENOUGH => environments.len(),
        _ => ROW_SAMPLES,
    }
}

/// Environments that can be left out: intervened on, by who is known.
fn intervened(targets: &Matrix<bool>, known: bool) -> Vec<usize> {
    let all = (0..targets.rows()).filter(|&e| targets.row(e).contains(&true));
    if known { all.collect() } else { Vec::new() }
}

/// Scores every setting and averages their fits. `known` says whether targets are known: unknown ones cannot be told.
pub(super) fn tune(
    data: &Dataset,
    targets: &Matrix<bool>,
    known: bool,
    grid: &Grid,
    gpu: Option<&GpuEngine>,
    seed: u64,
    done: &AtomicU64,
) -> Result<Tuning> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let environments = intervened(targets, known);
    let by_environment = environments.len() >= ENOUGH;
    let folds: Vec<Fold> = match by_environment {
        true => environments.into_iter().map(Fold::Environment).collect(),
        false => (0..ROW_SAMPLES)
            .map(|_| Ok(Fold::Rows(Box::new(Drawn::new(data, &mut rng)?))))
            .collect::<Result<_>>()?,
    };
    let observed: Vec<Observed> =
        (0..data.environments()).into_par_iter().map(|e| observe(data, e)).collect::<Result<_>>()?;
    let exacts: Vec<Exact> = grid
        .bandwidths
        .iter()
        .map(|&h| Exact::on(gpu, data, targets, grid.spec(h)?))
        .collect::<Result<_>>()?;
    // One task per bandwidth, groups and fold, the fold that leaves nothing out first.
    let all: Vec<usize> = (0..data.environments()).collect();
    let tasks: Vec<(usize, PenaltyKind, Option<&Fold>)> = (0..grid.bandwidths.len())
        .flat_map(|h| KINDS.map(|kind| (h, kind)))
        .flat_map(|(h, kind)| {
            std::iter::once((h, kind, None)).chain(folds.iter().map(move |f| (h, kind, Some(f))))
        })
        .collect();
    let outcomes: Vec<Vec<Outcome>> = tasks
        .par_iter()
        .with_max_len(1)
        .map(|&(h, kind, fold)| {
            let outcomes = match fold {
                None => fits(&exacts[h], &all, kind, &grid.lambdas)?
                    .into_iter()
                    .map(|fit| Outcome::Fit(Box::new(fit)))
                    .collect(),
                Some(Fold::Environment(e)) => {
                    let others: Vec<usize> = all.iter().copied().filter(|other| other != e).collect();
                    let told: Vec<usize> = (0..data.dim()).filter(|&j| targets[(*e, j)]).collect();
                    fits(&exacts[h], &others, kind, &grid.lambdas)?
                        .iter()
                        .map(|(fit, _)| Ok(Outcome::Score(score_environment(fit, &told, &observed[*e])?)))
                        .collect::<Result<Vec<_>>>()?
                }
                Some(Fold::Rows(drawn)) => {
                    let exact = Exact::new(&drawn.data, targets, grid.spec(grid.bandwidths[h])?)?;
                    fits(&exact, &all, kind, &grid.lambdas)?
                        .iter()
                        .map(|(fit, _)| Ok(Outcome::Score(score_rows(fit, &drawn.left_out)?)))
                        .collect::<Result<Vec<_>>>()?
                }
            };
            done.fetch_add(LAMBDAS.len() as u64, Ordering::Relaxed);
            Ok(outcomes)
        })
        .collect::<Result<_>>()?;
    let (mut cells, mut models, mut violation) = (Vec::new(), Vec::new(), 0.0f64);
    for (at, chunk) in outcomes.chunks(folds.len() + 1).enumerate() {
        let (h, kind) = (grid.bandwidths[at / KINDS.len()], KINDS[at % KINDS.len()]);
        for (l, &lambda) in grid.lambdas.iter().enumerate() {
            let scores: Vec<f64> = chunk[1..].iter().map(|outcomes| outcomes[l].score()).collect();
            let n = scores.len() as f64;
            let score = scores.iter().sum::<f64>() / n;
            let spread = scores.iter().map(|s| (s - score).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
            cells.push(Cell {
                bandwidth: (grid.kernel != KernelKind::ImqPlus).then_some(h),
                penalty: kind.name(),
                lambda,
                score,
                error: (spread / n).sqrt(),
                weight: 0.0,
                scores,
            });
            let Outcome::Fit(first) = &chunk[0][l] else { unreachable!("the first fold leaves nothing out") };
            let (fit, missed) = first.as_ref();
            models.push(fit.clone());
            violation = violation.max(*missed);
        }
    }
    weigh(&mut cells, grid, &mut rng);
    let leading =
        (0..cells.len()).fold(0, |best, c| if cells[c].weight > cells[best].weight { c } else { best });
    let parameters = average(&models, &cells)?;
    Ok(Tuning {
        held_out: if by_environment { "environments" } else { "rows" },
        folds: folds.len(),
        kernel: grid.kernel.with_bandwidth(cells[leading].bandwidth.unwrap_or(1.0))?,
        leading,
        parameters,
        cells,
        violation,
        fell_back: exacts.iter().any(|exact| exact.fell_back),
    })
}

enum Outcome {
    Fit(Box<(Parameters<f64>, f64)>),
    Score(f64),
}

impl Outcome {
    fn score(&self) -> f64 {
        match self {
            Outcome::Score(score) => *score,
            Outcome::Fit(_) => unreachable!("only the first fold has fits"),
        }
    }
}

/// The fits of a path, each kept from instability, with the violation of their optimality conditions.
fn fits(
    exact: &Exact,
    environments: &[usize],
    kind: PenaltyKind,
    lambdas: &[f64],
) -> Result<Vec<(Parameters<f64>, f64)>> {
    exact
        .path(environments, kind, lambdas)?
        .into_iter()
        .map(|solution| Ok((kept_stable(solution.parameters)?, solution.violation)))
        .collect()
}

fn kept_stable(mut parameters: Parameters<f64>) -> Result<Parameters<f64>> {
    if let Drift::Linear { weights } = &mut parameters.drift {
        *weights = shrunk(weights, MARGIN)?;
    }
    Ok(parameters)
}

/// The weights of all cells.
fn weigh(cells: &mut [Cell], grid: &Grid, rng: &mut ChaCha8Rng) {
    let folds = cells[0].scores.len();
    let mut wins = vec![0usize; cells.len()];
    for _ in 0..RESAMPLES {
        let drawn: Vec<usize> = (0..folds).map(|_| rng.random_range(0..folds)).collect();
        let mean = |cell: &Cell| drawn.iter().map(|&f| cell.scores[f]).sum::<f64>();
        let means: Vec<f64> = cells.iter().map(mean).collect();
        wins[(0..cells.len()).fold(0, |best, c| if means[c] < means[best] { c } else { best })] += 1;
    }
    // A kernel without bandwidths has the same cells at every multiple.
    let anchors: Vec<usize> = ANCHORS
        .iter()
        .filter_map(|&(factor, kind, lambda)| {
            let h = BANDWIDTHS
                .iter()
                .position(|&b| b == factor)
                .filter(|&h| h < grid.bandwidths.len())
                .unwrap_or(0);
            let (k, l) = (KINDS.iter().position(|&k| k == kind)?, LAMBDAS.iter().position(|&l| l == lambda)?);
            Some((h * KINDS.len() + k) * LAMBDAS.len() + l)
        })
        .collect();
    let share = 1.0 - ANCHOR_WEIGHT * anchors.len() as f64;
    for (cell, wins) in cells.iter_mut().zip(wins) {
        cell.weight = share * wins as f64 / RESAMPLES as f64;
    }
    anchors.into_iter().for_each(|c| cells[c].weight += ANCHOR_WEIGHT);
}

/// The mean of all models by weight; noises are averaged as α.
fn average(models: &[Parameters<f64>], cells: &[Cell]) -> Result<Parameters<f64>> {
    let mut sum = models[0].zeros_like();
    let alpha = |log: f64| (2.0 * log).exp();
    for (model, cell) in models.iter().zip(cells).filter(|(_, cell)| cell.weight > 0.0) {
        let scales = model.log_scale.as_ref();
        let own = |e: usize, j: usize, noise: &[f64]| scales.map_or(0.0, |s| alpha(s[(e, j)] + noise[j]));
        let Noise::Diagonal { log_noise } = &model.noise else {
            unreachable!("exact fits have diagonal noise")
        };
        for ((_, into), part) in sum.tensors_mut().into_iter().zip(model.tensors()) {
            let d = log_noise.len();
            for (at, (into, value)) in into.iter_mut().zip(part.values).enumerate() {
                *into += cell.weight
                    * match part.name {
                        "log_noise" => alpha(*value),
                        "log_scale" => own(at / d, at % d, log_noise),
                        _ => *value,
                    };
            }
        }
    }
    let Noise::Diagonal { log_noise } = &mut sum.noise else {
        unreachable!("exact fits have diagonal noise")
    };
    log_noise.iter_mut().for_each(|noise| *noise = 0.5 * noise.ln());
    let shared = log_noise.clone();
    if let Some(scales) = &mut sum.log_scale {
        for e in 0..scales.rows() {
            scales
                .row_mut(e)
                .iter_mut()
                .zip(&shared)
                .for_each(|(scale, noise)| *scale = 0.5 * scale.ln() - noise);
        }
    }
    if let Drift::Linear { weights } = &mut sum.drift {
        *weights = shrunk(weights, super::MARGIN)?;
    }
    Ok(sum)
}

/// The logarithm of the distance to an environment of which the targets' means are told.
fn score_environment(fit: &Parameters<f64>, told: &[usize], observed: &Observed) -> Result<f64> {
    let Drift::Linear { weights } = &fit.drift else { unreachable!("exact fits are linear") };
    let goal: Vec<f64> = told.iter().map(|&j| observed.mean[j]).collect();
    let intervention = closed_form(weights, &fit.biases, told, &goal)?;
    distance(fit, &intervention, observed).map(f64::ln)
}

/// The mean logarithm of the distance to rows that were left out, each environment under its own fitted intervention.
fn score_rows(fit: &Parameters<f64>, left_out: &[Observed]) -> Result<f64> {
    let mut sum = 0.0;
    for (e, observed) in left_out.iter().enumerate() {
        let row = |table: &Option<Matrix<f64>>| {
            table.as_ref().map_or_else(|| vec![0.0; fit.dim()], |table| table.row(e).to_vec())
        };
        let intervention = Intervention { shift: row(&fit.shift), log_scale: row(&fit.log_scale) };
        sum += distance(fit, &intervention, observed)?.ln();
    }
    Ok(sum / left_out.len() as f64)
}

/// The squared 2-Wasserstein distance between the stationary law and the Gaussian of what was observed.
fn distance(fit: &Parameters<f64>, intervention: &Intervention, observed: &Observed) -> Result<f64> {
    let Drift::Linear { weights } = &fit.drift else { unreachable!("exact fits are linear") };
    let law = Gaussian::stationary(weights, &intervention.biases(fit), &intervention.diffusion(fit))?;
    let means: f64 = law.mean.iter().zip(&observed.mean).map(|(a, b)| (a - b) * (a - b)).sum();
    let d = fit.dim();
    let trace: f64 = (0..d).map(|j| law.covariance[(j, j)]).sum();
    // tr (R Σ R)^½ with R the root of the observed covariance.
    let (mut half, mut middle) = (Matrix::full(d, d, 0.0), Matrix::full(d, d, 0.0));
    product_sequential(half.view_mut(), Accum::Replace, observed.root.view(), law.covariance.view());
    product_sequential(middle.view_mut(), Accum::Replace, half.view(), observed.root.view());
    let symmetric = Matrix::from_fn(d, d, |i, j| 0.5 * (middle[(i, j)] + middle[(j, i)]));
    let overlap: f64 = symmetric_eigenvalues(symmetric.view())?.iter().map(|v| v.max(0.0).sqrt()).sum();
    let covariances = trace + observed.trace - 2.0 * overlap;
    Ok((means + covariances.max(0.0)).max(f64::MIN_POSITIVE))
}

fn observe(data: &Dataset, e: usize) -> Result<Observed> {
    let rows = data.rows(e);
    observe_rows(&Matrix::from_rows(rows.len(), data.dim(), data.samples().rows_slice(rows).to_vec()))
}

fn observe_rows(x: &Matrix<f64>) -> Result<Observed> {
    let (n, d) = (x.rows(), x.cols());
    let mean: Vec<f64> = (0..d).map(|j| (0..n).map(|i| x[(i, j)]).sum::<f64>() / n as f64).collect();
    let centred = Matrix::from_fn(n, d, |i, j| x[(i, j)] - mean[j]);
    let mut covariance = Matrix::full(d, d, 0.0);
    product_sequential(covariance.view_mut(), Accum::Replace, centred.view().transpose(), centred.view());
    covariance.as_mut_slice().iter_mut().for_each(|entry| *entry /= n as f64);
    let trace = (0..d).map(|j| covariance[(j, j)]).sum();
    Ok(Observed { mean, trace, root: crate::dense::symmetric_root(covariance.view())? })
}

impl Drawn {
    fn new(data: &Dataset, rng: &mut ChaCha8Rng) -> Result<Drawn> {
        let (drawn, rest) = resampled(data, rng)?;
        let left_out = rest
            .iter()
            .enumerate()
            .map(|(e, rest)| match rest.rows() < 2 {
                true => Err(Error::invalid(format!(
                    "environment {e} has {} rows, expected more to tune with: give --bandwidth and --lambda",
                    data.rows(e).len()
                ))),
                false => observe_rows(rest),
            })
            .collect::<Result<_>>()?;
        Ok(Drawn { data: drawn, left_out })
    }
}

/// As many rows of each environment as it has, drawn with replacement; and those that were not drawn.
pub(super) fn resampled(data: &Dataset, rng: &mut ChaCha8Rng) -> Result<(Dataset, Vec<Matrix<f64>>)> {
    let (mut environments, mut left_out) = (Vec::new(), Vec::new());
    for e in 0..data.environments() {
        let rows = data.rows(e);
        let drawn: Vec<usize> = rows.clone().map(|_| rng.random_range(rows.clone())).collect();
        let mut seen = vec![false; rows.len()];
        drawn.iter().for_each(|i| seen[i - rows.start] = true);
        let rest: Vec<usize> = rows.clone().filter(|i| !seen[i - rows.start]).collect();
        let take = |rows: &[usize]| {
            let values = rows.iter().flat_map(|&i| data.samples().row(i).iter().copied()).collect();
            Matrix::from_rows(rows.len(), data.dim(), values)
        };
        environments.push(take(&drawn));
        left_out.push(take(&rest));
    }
    Ok((Dataset::from_environments(environments)?, left_out))
}

impl Tuning {
    /// The average of other fits with the same weights: `path` makes the fits of a bandwidth and kind for penalties that
    /// descend.
    pub(super) fn averaged(
        &self,
        path: impl Fn(Option<f64>, PenaltyKind, &[f64]) -> Result<Vec<crate::solve::Solution>>,
    ) -> Result<Parameters<f64>> {
        let (mut models, mut cells) = (Vec::new(), Vec::new());
        for chunk in self.cells.chunks(LAMBDAS.len()) {
            let used: Vec<&Cell> = chunk.iter().filter(|cell| cell.weight > 0.0).collect();
            let Some(first) = used.first() else { continue };
            let lambdas: Vec<f64> = used.iter().map(|cell| cell.lambda).collect();
            for (solution, cell) in
                path(first.bandwidth, first.penalty.parse()?, &lambdas)?.into_iter().zip(used)
            {
                models.push(kept_stable(solution.parameters)?);
                cells.push(cell.clone());
            }
        }
        average(&models, &cells)
    }

    /// Why the model is what it is, in a sentence.
    pub fn explained(&self) -> String {
        let mut order: Vec<&Cell> = self.cells.iter().filter(|cell| cell.weight > 0.0).collect();
        order.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let first = order[0];
        let bandwidth = first.bandwidth.map_or(String::new(), |h| format!("bandwidth {h:.2}, "));
        let best = self.cells.iter().map(|cell| cell.score).fold(f64::INFINITY, f64::min);
        let alike = self.cells.iter().filter(|cell| cell.score <= best + cell.error).count();
        format!(
            "{} held-out {} cannot tell {alike} of {} settings apart, so the model is an average of {}; {bandwidth}{} penalty {:.4} has \
             the largest share, {:.0} %",
            self.folds,
            self.held_out,
            self.cells.len(),
            order.len(),
            first.penalty,
            first.lambda,
            100.0 * first.weight,
        )
    }
}
