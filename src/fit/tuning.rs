//! What a choice found: every setting with its score.

use super::choose::{Candidate, Method};
use crate::data::Dataset;
use crate::kernel::KernelKind;
use crate::model::PenaltyKind;
use crate::named::by_name;
use crate::{Error, Matrix, Result};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// Bandwidths, in median distances between samples.
const BANDWIDTHS: [f64; 5] = [0.35, 0.525, 0.7, 0.875, 1.225];
/// With fewer interventions, rows are held out instead.
pub(crate) const ENOUGH_INTERVENTIONS: usize = 3;

/// A setting and its score.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScoredSetting {
    /// How it is fitted.
    #[serde(serialize_with = "by_name::serialize")]
    pub method: Method,
    /// The kernel's bandwidth; none for a kernel without.
    pub bandwidth: Option<f64>,
    /// The penalty's groups.
    #[serde(serialize_with = "by_name::serialize")]
    pub penalty: PenaltyKind,
    /// The penalty's weight.
    pub lambda: f64,
    /// The mean over what was held out: of the logarithms of squared errors, or of losses where the model is made of given
    /// functions. Lower is better; none if the setting was not tried because stronger penalties were clearly better.
    pub score: Option<f64>,
    /// The standard error of that mean.
    pub error: Option<f64>,
    /// The squared error over that of no effect, geometric mean; of interventions that were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// The share that the setting has in the model.
    pub weight: f64,
    /// The score of each held-out part.
    #[serde(skip)]
    pub scores: Vec<f64>,
}

/// The error to expect on a new intervention, relative to predicting no effect.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ExpectedError {
    /// Squared error of means over that of no effect, geometric mean.
    pub ratio: f64,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// What was held out, and how every setting did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tuning {
    /// `environments` or `rows`: what was held out.
    pub held_out: &'static str,
    /// How many times.
    pub folds: usize,
    /// Interventions that were left out.
    pub interventions: usize,
    /// All settings.
    pub cells: Vec<ScoredSetting>,
    /// The number of the one with the largest weight.
    pub leading: usize,
    /// The error to expect on a new intervention, where interventions were left out.
    #[serde(rename = "outlook", skip_serializing_if = "Option::is_none")]
    pub expected_error: Option<ExpectedError>,
    /// What was not considered, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// The bandwidths to try, in median distances; for a kernel without bandwidth one, which means nothing.
pub(super) fn multiples(kernel: KernelKind) -> &'static [f64] {
    if kernel.has_bandwidth() { &BANDWIDTHS } else { &BANDWIDTHS[..1] }
}

/// Environments that can be left out: intervened on, by who is known.
pub(super) fn intervened(targets: &Matrix<bool>, known: bool) -> Vec<usize> {
    let all = (0..targets.rows()).filter(|&e| targets.row(e).contains(&true));
    if known { all.collect() } else { Vec::new() }
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
            "environment {e} has {} rows, too few to hold some out: add rows, or set the penalty weight lambda",
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
    /// The settings that have a share in the model, with it, in their order.
    pub(super) fn shares(&self) -> Vec<(f64, Candidate)> {
        let of = |&ScoredSetting { method, bandwidth, lambda, weight, .. }: &ScoredSetting| {
            (weight, Candidate { method, bandwidth, lambda })
        };
        self.cells.iter().filter(|cell| cell.weight > 0.0).map(of).collect()
    }

    /// The cell without effects; none where models of given functions are judged by their loss.
    pub(crate) fn no_effect(&self) -> Option<&ScoredSetting> {
        self.cells.iter().find(|cell| cell.method == Method::Nothing)
    }

    /// A cell's error over that of no effect, if both are known.
    pub(crate) fn over_no_effect(&self, cell: &ScoredSetting) -> Option<f64> {
        Some((cell.score? - self.no_effect()?.score?).exp())
    }

    /// The cells that have a share in the model, the largest first.
    pub fn members(&self) -> Vec<&ScoredSetting> {
        let mut order: Vec<&ScoredSetting> = self.cells.iter().filter(|cell| cell.weight > 0.0).collect();
        order.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        order
    }

    /// Whether the model has no effects because nothing else predicted better.
    pub fn is_nothing(&self) -> bool {
        self.members().iter().all(|cell| cell.method == Method::Nothing)
    }

    /// Models of given functions are judged by their loss.
    pub(crate) fn is_by_loss(&self) -> bool {
        self.no_effect().is_none()
    }
}
