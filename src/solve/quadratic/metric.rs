//! A cheap stand-in for H: the form of SKDS with the same kernel, which has a block for each row and no others.
//!
//! KDS is SKDS with the kernel ∇ₓ∇ᵧk in place of k I, and −φ' I is the part of it that rows have to themselves; for Gaussian
//! kernels that is k I but for a factor. What correlations of variables do to H, the blocks do too, so that conjugate
//! gradients see little of them.

use super::unknowns::Unknowns;
use crate::dense::Cholesky;
use crate::solve::Statistics;
use crate::solve::coordinate::Entries;
use crate::{Error, Matrix, Result};
use faer::Mat;
use rayon::prelude::*;
use std::sync::Arc;

/// Bytes that factors of blocks may take.
const MOST_BYTES: f64 = (2u64 << 30) as f64;
/// What is added to the diagonal of blocks, relative to it: rounding can make them indefinite.
const RIDGE: f64 = 1e-10;
/// A curvature below minus this times the largest is none of rounding.
const NEGATIVE: f64 = 1e-5;

/// The blocks, entry by entry.
pub(super) struct Metric {
    unknowns: Arc<Unknowns>,
    statistics: Vec<Statistics>,
    sum: Statistics,
    /// Of all unknowns.
    pub diagonal: Vec<f64>,
    /// H is about so many times the blocks.
    factor: f64,
    /// By how much the largest curvature exceeds that of the diagonal.
    pub steepness: f64,
    /// The largest curvature seen, relative to the diagonal.
    largest: f64,
}

/// Blocks of some unknowns, factored.
pub(super) struct Factors {
    rows: Vec<(Vec<usize>, Option<Cholesky>)>,
    diagonal: Vec<f64>,
}

impl Metric {
    pub fn new(unknowns: Arc<Unknowns>, statistics: Vec<Statistics>) -> Metric {
        let sum = Statistics::sum(statistics.iter()).expect("data has an environment");
        let mut metric = Metric {
            unknowns,
            statistics,
            sum,
            diagonal: Vec::new(),
            factor: 1.0,
            steepness: 0.0,
            largest: 0.0,
        };
        let rows: Vec<Vec<f64>> = (0..metric.unknowns.owns.len())
            .into_par_iter()
            .map(|j| {
                let entries = metric.entries(j);
                (0..entries.len()).map(|a| entries.entry(a, a)).collect()
            })
            .collect();
        let largest = rows.iter().flatten().fold(0.0f64, |m, v| m.max(*v));
        // Something that the data does not see has no curvature.
        let least = (RIDGE * largest).max(f64::MIN_POSITIVE);
        metric.diagonal = rows.into_iter().flatten().map(|entry| entry.max(least)).collect();
        metric
    }

    fn entries(&self, j: usize) -> Entries<'_> {
        Entries::new(&self.unknowns.owns[j], &self.statistics, self.statistics.len(), &self.sum)
    }

    /// tᵀt by the diagonal.
    pub fn size(&self, t: &[f64]) -> f64 {
        t.iter().zip(&self.diagonal).map(|(t, entry)| entry * t * t).sum()
    }

    /// Takes notice of a curvature along some direction, relative to the diagonal.
    pub fn see(&mut self, curvature: f64) -> Result<()> {
        if !curvature.is_finite() || curvature < -NEGATIVE * self.largest {
            return Err(Error::NonFinite(format!(
                "the loss has the curvature {curvature:.1e} somewhere, expected a convex one: take the estimator v"
            )));
        }
        if curvature > self.largest {
            self.largest = curvature;
            self.steepness = self.steepness.max(curvature);
            self.factor = curvature;
        }
        Ok(())
    }

    /// What proximal steps are divided by.
    pub fn steep_diagonal(&self) -> Vec<f64> {
        self.diagonal.iter().map(|entry| self.steepness * entry).collect()
    }

    /// The least values of all unknowns.
    pub fn least(&self) -> Vec<f64> {
        let rows = (0..self.unknowns.owns.len()).flat_map(|j| {
            let entries = self.entries(j);
            (0..entries.len()).map(move |a| entries.least(a).unwrap_or(f64::NEG_INFINITY)).collect::<Vec<_>>()
        });
        rows.collect()
    }

    /// Factors for the unknowns that move, where `added` is the curvature of something else at each.
    pub fn factors(&self, moves: &[bool], added: &[f64]) -> Factors {
        let members: Vec<Vec<usize>> = (0..self.unknowns.owns.len())
            .map(|j| self.unknowns.row(j).filter(|&k| moves[k]).collect())
            .collect();
        let diagonal: Vec<f64> =
            self.diagonal.iter().zip(added).map(|(entry, added)| entry + added / self.factor).collect();
        let bytes: f64 = members.iter().map(|row| 8.0 * (row.len() as f64).powi(2)).sum();
        let blocks = bytes <= MOST_BYTES;
        let rows = members
            .into_par_iter()
            .enumerate()
            .map(|(j, row)| {
                let factor = if blocks { self.block(j, &row, &diagonal) } else { None };
                (row, factor)
            })
            .collect();
        Factors { rows, diagonal }
    }

    fn block(&self, j: usize, row: &[usize], diagonal: &[f64]) -> Option<Cholesky> {
        let entries = self.entries(j);
        let start = self.unknowns.row(j).start;
        let block = Mat::from_fn(row.len(), row.len(), |a, b| match a == b {
            true => diagonal[row[a]] * (1.0 + RIDGE),
            false => entries.entry(row[a] - start, row[b] - start),
        });
        Cholesky::of(block.as_ref())
    }
}

impl Factors {
    /// The blocks' inverse times `right`; 0 where nothing moves.
    pub fn solve(&self, right: &[f64]) -> Vec<f64> {
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
