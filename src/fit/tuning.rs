//! The result of a choice: every setting with its score.

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
    /// The bandwidth, if the kernel has one.
    pub bandwidth: Option<f64>,
    /// The penalty's groups.
    #[serde(serialize_with = "by_name::serialize")]
    pub penalty: PenaltyKind,
    /// The penalty's weight.
    pub lambda: f64,
    /// The mean over the held-out parts of the logarithm of the squared error, or of the loss for a model of given functions.
    /// Lower is better. None if the setting was not tried because larger penalties were clearly better.
    pub score: Option<f64>,
    /// The standard error of that mean.
    pub error: Option<f64>,
    /// The squared error of left-out interventions relative to that of no effect, as a geometric mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// The weight of the setting in the model.
    pub weight: f64,
    /// The score of each held-out part.
    #[serde(skip)]
    pub scores: Vec<f64>,
}

/// The error to expect on a new intervention, relative to predicting no effect.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ExpectedError {
    /// The squared error of means relative to that of no effect, as a geometric mean.
    pub ratio: f64,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// A choice among settings: what was held out, and the score of every setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tuning {
    /// `environments` or `rows`: what was held out.
    pub held_out: &'static str,
    /// The number of held-out parts.
    pub folds: usize,
    /// Interventions that were left out.
    pub interventions: usize,
    /// All settings.
    #[serde(rename = "cells")]
    pub settings: Vec<ScoredSetting>,
    /// The index of the setting with the largest weight.
    pub leading: usize,
    /// The error to expect on a new intervention, where interventions were left out.
    #[serde(rename = "outlook", skip_serializing_if = "Option::is_none")]
    pub expected_error: Option<ExpectedError>,
    /// What was not considered, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// The bandwidths to try, in median distances. A kernel without a bandwidth gets one, which has no meaning.
pub(super) fn bandwidth_multiples(kernel: KernelKind) -> &'static [f64] {
    if kernel.has_bandwidth() { &BANDWIDTHS } else { &BANDWIDTHS[..1] }
}

/// The environments that can be left out: those with known targets.
pub(super) fn interventions_to_leave_out(targets: &Matrix<bool>, known: bool) -> Vec<usize> {
    let all = (0..targets.rows()).filter(|&e| targets.row(e).contains(&true));
    if known { all.collect() } else { Vec::new() }
}

/// A bootstrap sample of each environment, and the rows that were not drawn.
pub(super) fn resampled(data: &Dataset, rng: &mut ChaCha8Rng) -> Result<(Dataset, Vec<Vec<usize>>)> {
    let (mut environments, mut left_out) = (Vec::new(), Vec::new());
    for e in 0..data.environments() {
        let rows = data.rows(e);
        let drawn: Vec<usize> = rows.clone().map(|_| rng.random_range(rows.clone())).collect();
        let mut seen = vec![false; rows.len()];
        drawn.iter().for_each(|i| seen[i - rows.start] = true);
        left_out.push(rows.clone().filter(|i| !seen[i - rows.start]).collect());
        environments.push(rows_of(data, &drawn));
    }
    Ok((Dataset::from_environments(environments)?, left_out))
}

/// These rows of environment `e`; an error if they are too few to score by.
pub(super) fn held_out_rows(data: &Dataset, e: usize, rows: &[usize]) -> Result<Matrix<f64>> {
    match rows.len() < 2 {
        true => Err(Error::invalid(format!(
            "environment {e} has {} rows, too few to hold some out: add rows, or set the penalty weight lambda",
            data.rows(e).len()
        ))),
        false => Ok(rows_of(data, rows)),
    }
}

/// These rows of the samples.
fn rows_of(data: &Dataset, rows: &[usize]) -> Matrix<f64> {
    let values = rows.iter().flat_map(|&i| data.samples().row(i).iter().copied()).collect();
    Matrix::from_rows(rows.len(), data.dim(), values)
}

impl Tuning {
    /// The settings in the model with their weights, in order.
    pub(super) fn shares(&self) -> Vec<(f64, Candidate)> {
        let of = |&ScoredSetting { method, bandwidth, lambda, weight, .. }: &ScoredSetting| {
            (weight, Candidate { method, bandwidth, lambda })
        };
        self.settings.iter().filter(|setting| setting.weight > 0.0).map(of).collect()
    }

    /// The model without effects; none in a choice by the loss.
    pub(crate) fn no_effect(&self) -> Option<&ScoredSetting> {
        self.settings.iter().find(|setting| setting.method == Method::Nothing)
    }

    /// A setting's error relative to that of no effect, if both are known.
    pub(crate) fn over_no_effect(&self, setting: &ScoredSetting) -> Option<f64> {
        Some((setting.score? - self.no_effect()?.score?).exp())
    }

    /// The settings in the model, the one with the largest weight first.
    pub fn members(&self) -> Vec<&ScoredSetting> {
        let mut order: Vec<&ScoredSetting> =
            self.settings.iter().filter(|setting| setting.weight > 0.0).collect();
        order.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        order
    }

    /// Whether the model has no effects, because no setting predicted better.
    pub fn has_no_effects(&self) -> bool {
        self.members().iter().all(|setting| setting.method == Method::Nothing)
    }

    /// Whether the settings were chosen by the loss, as for models of given functions.
    pub(crate) fn is_by_loss(&self) -> bool {
        self.no_effect().is_none()
    }
}
