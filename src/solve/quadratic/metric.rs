//! A preconditioner for H: the block-diagonal form of SKDS with the same kernel, one block for each row.
//!
//! KDS is SKDS with the kernel ∇ₓ∇ᵧk in place of k I, and −φ' I is the part of it that rows have to themselves; for Gaussian
//! kernels that is k I but for a factor. The blocks capture the effect of correlated variables on H, so that proximal steps and
//! conjugate gradients converge quickly.

use super::skds::StatisticsForm;
use super::unknowns::Unknowns;
use crate::numeric::dense::Cholesky;
use crate::{Error, Matrix, Result};
use rayon::prelude::*;
use std::sync::Arc;

/// Bytes that blocks may take that are kept, and those that are needed for a step.
const KEPT_BYTES: f64 = (1u64 << 30) as f64;
const STEP_BYTES: f64 = (4u64 << 30) as f64;
/// What is added to the diagonal of blocks, relative to it: rounding can make them indefinite.
const RIDGE: f64 = 1e-10;
/// A curvature below minus this times the largest is none of rounding.
const NEGATIVE: f64 = 1e-5;

/// The blocks.
pub(super) struct Metric {
    unknowns: Arc<Unknowns>,
    skds: Arc<StatisticsForm>,
    /// Of each row, where they take little memory.
    kept: Option<Vec<Matrix<f64>>>,
    /// What rows and columns of blocks are multiplied with.
    scales: Vec<f64>,
    /// Of all unknowns.
    pub diagonal: Vec<f64>,
    /// The least values of all unknowns.
    pub least: Vec<f64>,
    /// H is at most about so many times the blocks.
    pub steepness: f64,
    /// The largest such number that was seen.
    largest: f64,
}

/// Blocks of some unknowns, factored.
pub(super) struct Factors {
    rows: Vec<(Vec<usize>, Option<Cholesky>)>,
    diagonal: Vec<f64>,
}

impl Metric {
    pub(super) fn new(unknowns: Arc<Unknowns>, skds: Arc<StatisticsForm>) -> Metric {
        let rows = 0..unknowns.layouts.len();
        let bytes: f64 = rows.clone().map(|j| 8.0 * (unknowns.row(j).len() as f64).powi(2)).sum();
        let of = |j: usize| {
            let entries = skds.entries(j);
            let least = |a: usize| entries.least(a).unwrap_or(f64::NEG_INFINITY);
            (0..entries.len()).map(|a| (entries.entry(a, a), least(a))).collect::<Vec<(f64, f64)>>()
        };
        let (mut diagonal, least): (Vec<f64>, Vec<f64>) =
            rows.clone().into_par_iter().map(of).collect::<Vec<_>>().concat().into_iter().unzip();
        // An unknown that the data does not depend on has no curvature.
        let smallest = (RIDGE * diagonal.iter().fold(0.0f64, |m, v| m.max(*v))).max(f64::MIN_POSITIVE);
        diagonal.iter_mut().for_each(|entry| *entry = entry.max(smallest) * (1.0 + RIDGE));
        let scales = vec![1.0; diagonal.len()];
        let mut metric =
            Metric { unknowns, skds, kept: None, scales, diagonal, least, steepness: 0.0, largest: 0.0 };
        if bytes <= KEPT_BYTES {
            let block = |j: usize| metric.block(j, &metric.unknowns.row(j).collect::<Vec<_>>());
            metric.kept = Some(rows.into_par_iter().map(block).collect());
        }
        metric
    }

    /// The part of a row's block that belongs to some of its unknowns.
    fn block(&self, j: usize, members: &[usize]) -> Matrix<f64> {
        let (entries, start) = (self.skds.entries(j), self.unknowns.row(j).start);
        let mut block = Matrix::full(members.len(), members.len(), 0.0);
        for (a, &k) in members.iter().enumerate() {
            block[(a, a)] = self.diagonal[k];
            for (b, &l) in members[..a].iter().enumerate() {
                let plain = match &self.kept {
                    Some(kept) => kept[j][(k - start, l - start)],
                    None => entries.entry(k - start, l - start),
                };
                let entry = plain * self.scales[k] * self.scales[l];
                block[(a, b)] = entry;
                block[(b, a)] = entry;
            }
        }
        block
    }

    /// The unknowns of each row that are in a set, and their blocks, where there is room for these.
    pub(super) fn blocks(&self, among: &[bool]) -> Vec<(Vec<usize>, Option<Matrix<f64>>)> {
        let members: Vec<Vec<usize>> = (0..self.unknowns.layouts.len())
            .map(|j| self.unknowns.row(j).filter(|&k| among[k]).collect())
            .collect();
        let bytes: f64 = members.iter().map(|row| 8.0 * (row.len() as f64).powi(2)).sum();
        members
            .into_par_iter()
            .enumerate()
            .map(|(j, row)| {
                let block = (bytes <= STEP_BYTES).then(|| self.block(j, &row));
                (row, block)
            })
            .collect()
    }

    /// Multiplies rows and columns of blocks.
    pub(super) fn scale(&mut self, by: &[f64]) {
        self.scales.iter_mut().zip(by).for_each(|(scale, by)| *scale *= by);
        self.diagonal.iter_mut().zip(by).for_each(|(entry, by)| *entry *= by * by);
    }

    /// The blocks times t.
    pub(super) fn times(&self, t: &[f64]) -> Vec<f64> {
        let scaled: Vec<f64> = t.iter().zip(&self.scales).map(|(t, scale)| t * scale).collect();
        let mut out = match &self.kept {
            None => self.skds.times(&scaled),
            Some(kept) => kept
                .par_iter()
                .enumerate()
                .map(|(j, block)| {
                    let t = &scaled[self.unknowns.row(j)];
                    let row = |a: usize| block.row(a).iter().zip(t).map(|(entry, t)| entry * t).sum::<f64>();
                    (0..t.len()).map(row).collect::<Vec<f64>>()
                })
                .collect::<Vec<_>>()
                .concat(),
        };
        out.iter_mut().zip(&self.scales).for_each(|(out, scale)| *out *= scale);
        out
    }

    /// As if there were no room for blocks.
    #[cfg(test)]
    pub(super) fn forget(&mut self) {
        self.kept = None;
    }

    /// Records a curvature along a direction, relative to the blocks'.
    pub(super) fn see(&mut self, curvature: f64) -> Result<()> {
        if !curvature.is_finite() || curvature < -NEGATIVE * self.largest {
            return Err(Error::NonFinite(format!(
                "the loss has the curvature {curvature:.1e} in some direction, expected a convex loss: use the estimator v"
            )));
        }
        self.largest = self.largest.max(curvature);
        self.steepness = self.steepness.max(self.largest);
        Ok(())
    }

    /// Factors for the unknowns that move, where `added` is the curvature of something else at each.
    pub(super) fn factors(&self, moves: &[bool], added: &[f64]) -> Factors {
        let over = self.steepness.max(f64::MIN_POSITIVE);
        let added: Vec<f64> = added.iter().map(|added| added / over).collect();
        let rows = self
            .blocks(moves)
            .into_par_iter()
            .map(|(row, block)| {
                let factor = block.and_then(|mut block| {
                    row.iter().enumerate().for_each(|(a, &k)| block[(a, a)] += added[k]);
                    Cholesky::of(block.view())
                });
                (row, factor)
            })
            .collect();
        let diagonal = self.diagonal.iter().zip(&added).map(|(entry, added)| entry + added).collect();
        Factors { rows, diagonal }
    }
}

impl Factors {
    /// The blocks' inverse times `right`; 0 where nothing moves.
    pub(super) fn solve(&self, right: &[f64]) -> Vec<f64> {
        let solved: Vec<Vec<f64>> = self
            .rows
            .par_iter()
            .map(|(row, factor)| match factor {
                Some(factor) => {
                    let mut column = Matrix::from_fn(row.len(), 1, |a, _| right[row[a]]);
                    factor.solve_in_place(column.view_mut());
                    column.as_slice().to_vec()
                }
                None => row.iter().map(|&k| right[k] / self.diagonal[k]).collect(),
            })
            .collect();
        let mut out = vec![0.0; right.len()];
        for ((row, _), values) in self.rows.iter().zip(solved) {
            row.iter().zip(values).for_each(|(&k, value)| out[k] = value);
        }
        out
    }
}
