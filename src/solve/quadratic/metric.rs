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

/// Bytes that blocks may take.
const MOST_BYTES: f64 = (2u64 << 30) as f64;
/// What is added to the diagonal of blocks, relative to it: rounding can make them indefinite.
const RIDGE: f64 = 1e-10;
/// A curvature below minus this times the largest is none of rounding.
const NEGATIVE: f64 = 1e-5;

/// The blocks.
pub(super) struct Metric {
    unknowns: Arc<Unknowns>,
    /// Of each row; the diagonal alone where blocks would take too much memory.
    blocks: Option<Vec<Matrix<f64>>>,
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
    pub fn new(unknowns: Arc<Unknowns>, statistics: &[Statistics]) -> Metric {
        let sum = Statistics::sum(statistics.iter()).expect("data has an environment");
        let rows = 0..unknowns.owns.len();
        let bytes: f64 = rows.clone().map(|j| 8.0 * (unknowns.row(j).len() as f64).powi(2)).sum();
        let of = |j: usize| Entries::new(&unknowns.owns[j], statistics, statistics.len(), &sum);
        let along = |entries: &Entries<'_>| (0..entries.len()).map(|a| entries.entry(a, a)).collect::<Vec<f64>>();
        let mut diagonal: Vec<f64> =
            rows.clone().into_par_iter().map(|j| along(&of(j))).collect::<Vec<_>>().concat();
        // Something that the data does not see has no curvature.
        let least = (RIDGE * diagonal.iter().fold(0.0f64, |m, v| m.max(*v))).max(f64::MIN_POSITIVE);
        diagonal.iter_mut().for_each(|entry| *entry = entry.max(least) * (1.0 + RIDGE));
        let block = |j: usize| {
            let (entries, start) = (of(j), unknowns.row(j).start);
            let mut block = Matrix::full(entries.len(), entries.len(), 0.0);
            for a in 0..entries.len() {
                block[(a, a)] = diagonal[start + a];
                for b in 0..a {
                    let entry = entries.entry(a, b);
                    block[(a, b)] = entry;
                    block[(b, a)] = entry;
                }
            }
            block
        };
        let blocks = (bytes <= MOST_BYTES).then(|| rows.clone().into_par_iter().map(block).collect());
        let least = rows
            .flat_map(|j| {
                let entries = of(j);
                (0..entries.len()).map(|a| entries.least(a).unwrap_or(f64::NEG_INFINITY)).collect::<Vec<_>>()
            })
            .collect();
        Metric { unknowns, blocks, diagonal, least, steepness: 0.0, largest: 0.0 }
    }

    /// Multiplies the blocks by the squares of `by`, entry by entry of their rows and columns.
    pub fn scale(&mut self, by: &[f64]) {
        self.diagonal.iter_mut().zip(by).for_each(|(entry, by)| *entry *= by * by);
        for (j, block) in self.blocks.iter_mut().flatten().enumerate() {
            let by = &by[self.unknowns.row(j)];
            for a in 0..by.len() {
                block.row_mut(a).iter_mut().zip(by).for_each(|(entry, b)| *entry *= by[a] * b);
            }
        }
    }

    /// The blocks times t.
    pub fn times(&self, t: &[f64]) -> Vec<f64> {
        match &self.blocks {
            None => t.iter().zip(&self.diagonal).map(|(t, entry)| entry * t).collect(),
            Some(blocks) => blocks
                .par_iter()
                .enumerate()
                .map(|(j, block)| {
                    let t = &t[self.unknowns.row(j)];
                    let row = |a: usize| block.row(a).iter().zip(t).map(|(entry, t)| entry * t).sum::<f64>();
                    (0..t.len()).map(row).collect::<Vec<f64>>()
                })
                .collect::<Vec<_>>()
                .concat(),
        }
    }

    /// The rows of unknowns, and their blocks.
    pub fn rows(&self) -> impl Iterator<Item = (std::ops::Range<usize>, Option<&Matrix<f64>>)> {
        let block = |j: usize| self.blocks.as_ref().map(|blocks| &blocks[j]);
        (0..self.unknowns.owns.len()).map(move |j| (self.unknowns.row(j), block(j)))
    }

    /// Takes notice of a curvature along some direction, relative to the blocks'.
    pub fn see(&mut self, curvature: f64) -> Result<()> {
        if !curvature.is_finite() || curvature < -NEGATIVE * self.largest {
            return Err(Error::NonFinite(format!(
                "the loss has the curvature {curvature:.1e} somewhere, expected a convex one: take the estimator v"
            )));
        }
        if curvature > self.largest {
            self.largest = curvature;
            self.steepness = self.steepness.max(curvature);
        }
        Ok(())
    }

    /// Factors for the unknowns that move, where `added` is the curvature of something else at each.
    pub fn factors(&self, moves: &[bool], added: &[f64]) -> Factors {
        let members: Vec<Vec<usize>> = (0..self.unknowns.owns.len())
            .map(|j| self.unknowns.row(j).filter(|&k| moves[k]).collect())
            .collect();
        let diagonal: Vec<f64> = self
            .diagonal
            .iter()
            .zip(added)
            .map(|(entry, added)| entry + added / self.steepness.max(f64::MIN_POSITIVE))
            .collect();
        let rows = members
            .into_par_iter()
            .enumerate()
            .map(|(j, row)| {
                let start = self.unknowns.row(j).start;
                let factor = self.blocks.as_ref().and_then(|blocks| {
                    let entry = |a: usize, b: usize| match a == b {
                        true => diagonal[row[a]],
                        false => blocks[j][(row[a] - start, row[b] - start)],
                    };
                    Cholesky::of(Mat::from_fn(row.len(), row.len(), entry).as_ref())
                });
                (row, factor)
            })
            .collect();
        Factors { rows, diagonal }
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
