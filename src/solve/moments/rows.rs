//! Rows of W: their support, and the curvature on it.
//!
//! In a single row both losses are quadratic but for a term or two, and their curvature in row j is one matrix for all rows but
//! for a few products of vectors: the part of the environments that intervene on j is removed.

use super::proximal::{Lasso, Tolerance};
use super::{Pool, no_effects};
use crate::Matrix;
use crate::numeric::matmul::product_sequential;
use faer::Accum;

/// The tolerance on the support, relative to the tolerance on all entries.
pub(super) const TIGHTER: f64 = 0.5;
/// Until others join, they are held to this share of what was missed.
const FOR_NOW: f64 = 0.1;
/// A row is solved until this share of its violation is left.
pub(super) const ENOUGH: f64 = 0.1;

/// What the entries that are looked at may miss before others join, where all together miss `violation`.
pub(super) fn for_now(tolerance: Tolerance, violation: f64) -> f64 {
    (TIGHTER * tolerance.violation).max(FOR_NOW * violation)
}

/// The support of a row.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub columns: Vec<u32>,
    pub values: Vec<f64>,
}

impl Row {
    /// The entries that are not 0.
    pub(super) fn of(weights: &[f64], j: usize) -> Row {
        let mut row = Row::default();
        for (i, &value) in weights.iter().enumerate().filter(|&(i, &value)| i != j && value != 0.0) {
            row.columns.push(i as u32);
            row.values.push(value);
        }
        row
    }

    /// Keeps the entries that are not 0, and takes in others.
    pub(super) fn renew(&mut self, d: usize, joins: impl Fn(usize) -> bool) {
        let old = std::mem::take(self);
        let mut at = 0;
        for i in 0..d {
            let known = old.columns.get(at).is_some_and(|&column| column as usize == i);
            let value = if known { old.values[at] } else { 0.0 };
            at += usize::from(known);
            if value != 0.0 || joins(i) {
                self.columns.push(i as u32);
                self.values.push(value);
            }
        }
    }
}

/// −I with the entries of all rows.
pub(super) fn weights(rows: &[Row]) -> Matrix<f64> {
    let mut weights = no_effects(rows.len());
    for (j, row) in rows.iter().enumerate() {
        let out = weights.row_mut(j);
        row.columns.iter().zip(&row.values).for_each(|(&i, &value)| out[i as usize] = value);
    }
    weights
}

/// The same rows with other values.
pub(super) fn with_values(rows: &[Row], mut values: &[f64]) -> Vec<Row> {
    rows.iter()
        .map(|row| {
            let (own, rest) = values.split_at(row.columns.len());
            values = rest;
            Row { columns: row.columns.clone(), values: own.to_vec() }
        })
        .collect()
}

/// The penalty of all rows.
pub(super) fn penalty(lasso: &Lasso<'_>, rows: &[Row]) -> f64 {
    let row = |(j, row): (usize, &Row)| -> f64 {
        row.columns.iter().zip(&row.values).map(|(&i, value)| lasso.single(j, i as usize) * value.abs()).sum()
    };
    rows.iter().enumerate().map(row).sum()
}

/// The amount by which an entry misses the optimality conditions: its next step times the curvature.
#[inline(always)]
pub(super) fn missed(value: f64, slope: f64, cost: f64, curvature: f64) -> f64 {
    if value == 0.0 {
        return (slope.abs() - cost).max(0.0);
    }
    let ahead = curvature * value - slope;
    ((ahead.abs() - cost).max(0.0).copysign(ahead) - curvature * value).abs()
}

/// The curvature of a row: a matrix that all rows share, less products of single vectors with themselves.
pub(super) struct Curvature {
    shared: Matrix<f64>,
    /// Means about their middle, E × d.
    means: Matrix<f64>,
    /// The environments that act on each variable, with their shares of the rows.
    acting: Vec<Vec<(usize, f64)>>,
    totals: Vec<f64>,
}

impl Curvature {
    /// `shared` is the curvature without that of the means.
    pub(super) fn new(pool: &Pool<'_>, mut shared: Matrix<f64>) -> Curvature {
        let d = pool.dim();
        let columns = pool.stack.means();
        let means = Matrix::from_fn(pool.environments.len(), d, |k, j| pool.stack.row(j)[columns.start + k]);
        let mut weighted = means.clone();
        let all: f64 = pool.environments.iter().map(|&e| pool.moments.rows[e]).sum();
        let share = |k: usize| pool.moments.rows[pool.environments[k]] / all;
        for k in 0..means.rows() {
            weighted.row_mut(k).iter_mut().for_each(|mean| *mean *= share(k));
        }
        product_sequential(shared.view_mut(), Accum::Add, weighted.view().transpose(), means.view());
        let acting = (0..d)
            .map(|j| {
                let acts = |k: &usize| pool.targets[(pool.environments[*k], j)];
                (0..means.rows()).filter(acts).map(|k| (k, share(k))).collect()
            })
            .collect();
        Curvature { shared, means, acting, totals: pool.totals.clone() }
    }

    /// The vectors whose outer products are subtracted in row j, each with a factor.
    pub(super) fn vectors(&self, j: usize) -> Vec<(f64, Vec<f64>)> {
        let mut vectors: Vec<(f64, Vec<f64>)> = Vec::new();
        let mut sum = vec![0.0; self.means.cols()];
        for &(k, share) in &self.acting[j] {
            sum.iter_mut().zip(self.means.row(k)).for_each(|(sum, mean)| *sum += share * mean);
            vectors.push((share, self.means.row(k).to_vec()));
        }
        if self.totals[j] > 0.0 && !vectors.is_empty() {
            // Means of all environments add up to 0: those of the others add up to minus this.
            vectors.push((1.0 / self.totals[j], sum));
        }
        vectors
    }

    /// The diagonal of the curvature of a row.
    pub(super) fn diagonal(&self, vectors: &[(f64, Vec<f64>)]) -> Vec<f64> {
        let entry = |i: usize| {
            let less: f64 = vectors.iter().map(|(factor, vector)| factor * vector[i] * vector[i]).sum();
            (self.shared[(i, i)] - less).max(f64::MIN_POSITIVE)
        };
        (0..self.shared.rows()).map(entry).collect()
    }

    /// The curvature between some entries of a row.
    #[inline(always)]
    pub(super) fn between(&self, columns: &[u32], vectors: &[(f64, Vec<f64>)], out: &mut Vec<f64>) {
        out.clear();
        for &i in columns {
            let row = self.shared.row(i as usize);
            out.extend(columns.iter().map(|&k| row[k as usize]));
        }
        let mut some: Vec<f64> = Vec::with_capacity(columns.len());
        for (factor, vector) in vectors {
            some.clear();
            some.extend(columns.iter().map(|&i| vector[i as usize]));
            for (row, value) in out.chunks_exact_mut(columns.len().max(1)).zip(&some) {
                let less = factor * value;
                row.iter_mut().zip(&some).for_each(|(out, value)| *out -= less * value);
            }
        }
    }
}
