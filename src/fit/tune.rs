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

use super::by_name;
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
use crate::solve::{Design, Exact, Spec, check_room, fits_at_once};
use crate::{Error, Matrix, Progress, Result};
use faer::Accum;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::Serialize;

/// Bandwidths, in median distances between samples.
const BANDWIDTHS: [f64; 5] = [0.35, 0.525, 0.7, 0.875, 1.225];
/// Penalties, descending, for [`USUAL_DIM`] variables or more; with fewer, proportionally smaller.
const LAMBDAS: [f64; 6] = [0.5623, 0.3162, 0.1778, 0.1, 0.05623, 0.03162];
/// The number of variables that the penalties were found for, and the least factor for fewer.
const USUAL_DIM: f64 = 20.0;
const LEAST_FACTOR: f64 = 0.25;
/// Which groups.
const KINDS: [PenaltyKind; 2] = [PenaltyKind::Ingoing, PenaltyKind::Both];
/// Settings at each bandwidth.
const SETTINGS: usize = KINDS.len() * LAMBDAS.len();
/// Two settings that do well on most systems, and the weight that each has whatever the scores: (bandwidth, kind, λ).
const ANCHORS: [(f64, PenaltyKind, f64); 2] =
    [(0.525, PenaltyKind::Ingoing, 0.1), (1.225, PenaltyKind::Both, 0.1)];
const ANCHOR_WEIGHT: f64 = 0.2;
/// Resamples of the held-out scores.
const RESAMPLES: usize = 500;
/// Fits keep at least this far from instability.
const MARGIN: f64 = 0.1;
/// Environments that must be there to be left out; otherwise rows are.
pub(super) const ENOUGH: usize = 3;
/// Bootstrap samples of rows.
const ROW_SAMPLES: usize = 6;

/// A setting and how it did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The kernel's bandwidth; none for a kernel without.
    pub bandwidth: Option<f64>,
    /// The penalty's groups.
    #[serde(serialize_with = "by_name::serialize")]
    pub penalty: PenaltyKind,
    /// The penalty's weight.
    pub lambda: f64,
    /// The mean over what was held out: of the logarithms of the distances to it, or of its losses where the model is made of
    /// given functions. Lower is better.
    pub score: f64,
    /// The standard error of that mean.
    pub error: f64,
    /// The share that the setting has in the model.
    pub weight: f64,
    /// The score of each held-out part.
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
    /// The largest violation of optimality conditions over the fits of all settings to all environments.
    pub violation: f64,
    /// Loss and penalty of the fit, where it is a single one.
    #[serde(skip)]
    pub own_loss: Option<(f64, f64)>,
    /// Whether the `u` form was not convex somewhere and the `v` form took its place.
    pub fell_back: bool,
}

/// What is held out: a part to fit to, and samples to predict with what is told of them.
enum Fold {
    /// All environments but this one, of which the targets' means are told.
    Environment { left_out: usize, told: Vec<usize>, observed: Observed },
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
pub(super) struct Grid<'a> {
    kernel: KernelKind,
    estimator: Estimator,
    learn_scale: bool,
    /// One entry without a meaning for a kernel without bandwidth.
    bandwidths: Vec<f64>,
    /// As many as [`LAMBDAS`].
    lambdas: Vec<f64>,
    /// What penalties of effects are multiplied with, if anything is known of them.
    pub(super) multipliers: Option<&'a Matrix<f64>>,
}

impl Grid<'_> {
    pub(super) fn new(
        data: &Dataset,
        kernel: KernelKind,
        estimator: Estimator,
        learn_scale: bool,
        seed: u64,
    ) -> Result<Self> {
        let median = Bandwidth::Auto.resolve(data, seed)?;
        let bandwidths = multiples(kernel).iter().map(|factor| factor * median).collect();
        let factor = (data.dim() as f64 / USUAL_DIM).clamp(LEAST_FACTOR, 1.0);
        let lambdas = LAMBDAS.iter().map(|lambda| factor * lambda).collect();
        Ok(Grid { kernel, estimator, learn_scale, bandwidths, lambdas, multipliers: None })
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

/// The bandwidths to try, in median distances; for a kernel without bandwidth one, which means nothing.
pub(super) fn multiples(kernel: KernelKind) -> &'static [f64] {
    if kernel == KernelKind::ImqPlus { &BANDWIDTHS[..1] } else { &BANDWIDTHS }
}

/// How many fits [`tune`] will make: what its progress counts up to.
pub(super) fn fits_of(kernel: KernelKind, targets: &Matrix<bool>, known: bool) -> u64 {
    let folds = match intervened(targets, known) {
        environments if environments.len() >= ENOUGH => environments.len(),
        _ => ROW_SAMPLES,
    };
    (multiples(kernel).len() * SETTINGS * (folds + 1)) as u64
}

/// Environments that can be left out: intervened on, by who is known.
pub(super) fn intervened(targets: &Matrix<bool>, known: bool) -> Vec<usize> {
    let all = (0..targets.rows()).filter(|&e| targets.row(e).contains(&true));
    if known { all.collect() } else { Vec::new() }
}

/// Scores every setting and averages their fits. `known` says whether targets are known: unknown ones cannot be told.
pub(super) fn tune(
    data: &Dataset,
    targets: &Matrix<bool>,
    known: bool,
    grid: &Grid<'_>,
    gpu: Option<&GpuEngine>,
    seed: u64,
    progress: &Progress,
) -> Result<Tuning> {
    let features = Design::Linear.features(data.dim());
    KINDS.iter().try_for_each(|kind| check_room(data.dim(), features, *kind))?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let environments = intervened(targets, known);
    let by_environment = environments.len() >= ENOUGH;
    let folds: Vec<Fold> = match by_environment {
        true => environments
            .into_par_iter()
            .map(|e| {
                let told = (0..data.dim()).filter(|&j| targets[(e, j)]).collect();
                Ok(Fold::Environment { left_out: e, told, observed: observe(&data.environment(e))? })
            })
            .collect::<Result<_>>()?,
        false => (0..ROW_SAMPLES)
            .map(|_| Ok(Fold::Rows(Box::new(Drawn::new(data, &mut rng)?))))
            .collect::<Result<_>>()?,
    };
    let exacts: Vec<Exact> = grid
        .bandwidths
        .iter()
        .map(|&h| Exact::on(gpu, data, targets, &Design::Linear, grid.multipliers, grid.spec(h)?, progress))
        .collect::<Result<_>>()?;
    let all: Vec<usize> = (0..data.environments()).collect();
    let counted = |exact: &Exact, environments: &[usize]| -> Result<Vec<Fit>> {
        let fits = fits(exact, environments, &grid.lambdas)?;
        progress.add(fits.len() as u64)?;
        Ok(fits)
    };
    // One task per bandwidth and fold, as many at a time as there is memory for.
    let at_once = fits_at_once(data.dim(), features);
    let mut whole: Vec<Fit> = Vec::new();
    for some in exacts.chunks(at_once) {
        let fits: Vec<Vec<Fit>> = some.par_iter().map(|exact| counted(exact, &all)).collect::<Result<_>>()?;
        whole.extend(fits.into_iter().flatten());
    }
    let score = |&(h, fold): &(usize, &Fold)| -> Result<Vec<f64>> {
        match fold {
            Fold::Environment { left_out, told, observed } => {
                let others: Vec<usize> = all.iter().copied().filter(|e| e != left_out).collect();
                let fits = counted(&exacts[h], &others)?;
                fits.iter().map(|fit| score_environment(&fit.parameters, told, observed)).collect()
            }
            Fold::Rows(drawn) => {
                let spec = grid.spec(grid.bandwidths[h])?;
                let (data, known) = (&drawn.data, grid.multipliers);
                let exact = Exact::on(None, data, targets, &Design::Linear, known, spec, progress)?;
                let fits = counted(&exact, &all)?;
                fits.iter().map(|fit| score_rows(&fit.parameters, &drawn.left_out)).collect()
            }
        }
    };
    let tasks: Vec<(usize, &Fold)> =
        (0..exacts.len()).flat_map(|h| folds.iter().map(move |fold| (h, fold))).collect();
    let mut scores: Vec<Vec<f64>> = Vec::new();
    for some in tasks.chunks(at_once) {
        scores.extend(some.par_iter().with_max_len(1).map(score).collect::<Result<Vec<_>>>()?);
    }
    let mut cells: Vec<Cell> = (0..whole.len())
        .map(|c| {
            let (h, setting) = (c / SETTINGS, c % SETTINGS);
            let by_fold = &scores[h * folds.len()..(h + 1) * folds.len()];
            let scores: Vec<f64> = by_fold.iter().map(|scores| scores[setting]).collect();
            let (score, error) = mean_and_error(&scores);
            Cell {
                bandwidth: (grid.kernel != KernelKind::ImqPlus).then_some(grid.bandwidths[h]),
                penalty: KINDS[setting / LAMBDAS.len()],
                lambda: grid.lambdas[setting % LAMBDAS.len()],
                score,
                error,
                weight: 0.0,
                scores,
            }
        })
        .collect();
    weigh(&mut cells, grid, &mut rng);
    let leading =
        (0..cells.len()).fold(0, |best, c| if cells[c].weight > cells[best].weight { c } else { best });
    let violation = whole.iter().fold(0.0, |worst: f64, fit| worst.max(fit.violation));
    let parameters = average(whole.iter().map(|fit| &fit.parameters).zip(&cells))?;
    Ok(Tuning {
        held_out: if by_environment { "environments" } else { "rows" },
        folds: folds.len(),
        kernel: grid.kernel.with_bandwidth(cells[leading].bandwidth.unwrap_or(1.0))?,
        leading,
        parameters,
        cells,
        violation,
        own_loss: None,
        fell_back: exacts.iter().any(|exact| exact.fell_back),
    })
}

/// A fit kept from instability, and the violation of its optimality conditions.
#[derive(Clone)]
struct Fit {
    parameters: Parameters<f64>,
    violation: f64,
}

/// The fits of all settings at a bandwidth: kinds, and for each the penalties.
fn fits(exact: &Exact, environments: &[usize], lambdas: &[f64]) -> Result<Vec<Fit>> {
    let mut all = Vec::with_capacity(SETTINGS);
    for kind in KINDS {
        for solution in exact.path(environments, kind, lambdas)? {
            let violation = solution.violation;
            all.push(Fit { parameters: kept_stable(solution.parameters)?, violation });
        }
    }
    Ok(all)
}

fn kept_stable(mut parameters: Parameters<f64>) -> Result<Parameters<f64>> {
    if let Drift::Linear { weights } = &mut parameters.drift {
        *weights = shrunk(weights, MARGIN)?;
    }
    Ok(parameters)
}

/// The mean of scores and its standard error.
pub(super) fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let spread = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, (spread / n).sqrt())
}

/// The weights of all cells.
fn weigh(cells: &mut [Cell], grid: &Grid<'_>, rng: &mut ChaCha8Rng) {
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

/// The mean of models by the weights of their cells; noises are averaged as α.
fn average<'a>(models: impl Iterator<Item = (&'a Parameters<f64>, &'a Cell)>) -> Result<Parameters<f64>> {
    let alpha = |log: f64| (2.0 * log).exp();
    let mut models = models.filter(|(_, cell)| cell.weight > 0.0).peekable();
    let mut sum = models.peek().expect("weights add up to 1").0.zeros_like();
    for (model, cell) in models {
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

fn observe(x: &Matrix<f64>) -> Result<Observed> {
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
            .map(|(e, rest)| observe(&enough(data, e, rest)?))
            .collect::<Result<_>>()?;
        Ok(Drawn { data: drawn, left_out })
    }
}

/// As many rows of each environment as it has, drawn with replacement; and which of its rows were not drawn.
pub(super) fn resampled(data: &Dataset, rng: &mut ChaCha8Rng) -> Result<(Dataset, Vec<Vec<usize>>)> {
    let (mut environments, mut left_out) = (Vec::new(), Vec::new());
    for e in 0..data.environments() {
        let rows = data.rows(e);
        let drawn: Vec<usize> = rows.clone().map(|_| rng.random_range(rows.clone())).collect();
        let mut seen = vec![false; rows.len()];
        drawn.iter().for_each(|i| seen[i - rows.start] = true);
        left_out.push(rows.clone().filter(|i| !seen[i - rows.start]).collect());
        environments.push(picked(data, &drawn));
    }
    Ok((Dataset::from_environments(environments)?, left_out))
}

/// These rows of environment `e`, if they are enough to tell anything.
pub(super) fn enough(data: &Dataset, e: usize, rows: &[usize]) -> Result<Matrix<f64>> {
    match rows.len() < 2 {
        true => Err(Error::invalid(format!(
            "environment {e} has {} rows, expected more to tune with: give --bandwidth and --lambda",
            data.rows(e).len()
        ))),
        false => Ok(picked(data, rows)),
    }
}

/// These rows of the samples.
fn picked(data: &Dataset, rows: &[usize]) -> Matrix<f64> {
    let values = rows.iter().flat_map(|&i| data.samples().row(i).iter().copied()).collect();
    Matrix::from_rows(rows.len(), data.dim(), values)
}

impl Tuning {
    /// The average of fits to other data with the same weights: `exact` passes over it at a bandwidth.
    pub(super) fn averaged(
        &self,
        environments: &[usize],
        exact: impl Fn(Option<f64>) -> Result<Exact>,
    ) -> Result<Parameters<f64>> {
        if let [Cell { bandwidth, penalty, lambda, .. }] =
            self.cells.iter().filter(|cell| cell.weight > 0.0).collect::<Vec<_>>()[..]
        {
            let solution = exact(*bandwidth)?.path(environments, *penalty, &[*lambda])?.remove(0);
            return kept_stable(solution.parameters);
        }
        let (mut models, mut cells) = (Vec::new(), Vec::new());
        for at_bandwidth in self.cells.chunks(SETTINGS) {
            if at_bandwidth.iter().all(|cell| cell.weight == 0.0) {
                continue;
            }
            let exact = exact(at_bandwidth[0].bandwidth)?;
            for of_kind in at_bandwidth.chunks(LAMBDAS.len()) {
                let used: Vec<&Cell> = of_kind.iter().filter(|cell| cell.weight > 0.0).collect();
                let lambdas: Vec<f64> = used.iter().map(|cell| cell.lambda).collect();
                for solution in exact.path(environments, of_kind[0].penalty, &lambdas)? {
                    models.push(kept_stable(solution.parameters)?);
                }
                cells.extend(used);
            }
        }
        average(models.iter().zip(cells))
    }

    /// Whether the model is an average over several settings.
    pub fn is_average(&self) -> bool {
        self.cells.iter().filter(|cell| cell.weight > 0.0).count() > 1
    }

    /// Why the model is what it is, in a sentence.
    pub fn explained(&self) -> String {
        let mut order: Vec<&Cell> = self.cells.iter().filter(|cell| cell.weight > 0.0).collect();
        order.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let first = order[0];
        let bandwidth = first.bandwidth.map_or(String::new(), |h| format!("bandwidth {h:.2}, "));
        let best = self.cells.iter().map(|cell| cell.score).fold(f64::INFINITY, f64::min);
        let alike = self.cells.iter().filter(|cell| cell.score <= best + cell.error).count();
        if order.len() == 1 {
            return format!(
                "{bandwidth}{} penalty {:.4} was chosen among {} settings by the loss of {} held-out {}: the largest penalty \
                 that is not clearly worse than the best",
                first.penalty,
                first.lambda,
                self.cells.len(),
                self.folds,
                self.held_out
            );
        }
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
