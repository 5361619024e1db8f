//! A long step for all rows of W at once.
//!
//! Where W S is changed by something skew, no covariance changes: only means and the penalty decide, and going from row to row takes
//! forever. With the signs of entries held the loss with its penalty is a quadratic, and conjugate gradients see such directions.

use super::proximal::Lasso;
use super::rows::{Row, penalty, weights, with_values};
use super::rowwise::{RowwiseKds, State};
use super::stack::{add, dot};
use crate::numeric::matmul::product_sequential;
use crate::numeric::simd::dispatch;
use crate::{Matrix, Progress, Result};
use faer::Accum;

/// The most products.
const PRODUCTS: usize = 60;
/// Above this share of entries, products of whole matrices are faster.
const DENSE: f64 = 0.2;

impl RowwiseKds<'_> {
    /// The product of the curvature with a direction, at its entries.
    fn curved(&self, exceeds: &[bool], direction: &[Row]) -> Vec<f64> {
        let (pool, d) = (self.pool, self.pool.dim());
        let (stack, width) = (&pool.stack, pool.stack.width());
        let count: usize = direction.iter().map(|row| row.columns.len()).sum();
        let dense = count as f64 > DENSE * (d * d) as f64;
        let mut products = Matrix::full(d, width, 0.0);
        if dense {
            let mut full = weights(direction);
            (0..d).for_each(|j| full[(j, j)] = 0.0);
            product_sequential(products.view_mut(), Accum::Replace, full.view(), stack.view());
        } else {
            dispatch(
                #[inline(always)]
                || {
                    for (j, row) in direction.iter().enumerate() {
                        for (&i, &value) in row.columns.iter().zip(&row.values) {
                            add(products.row_mut(j), value, stack.row(i as usize));
                        }
                    }
                },
            );
        }
        for j in 0..d {
            for k in 0..=j {
                let sum = products[(j, k)] + products[(k, j)];
                products[(j, k)] = sum / pool.units[k];
                products[(k, j)] = sum / pool.units[j];
            }
        }
        for j in 0..d {
            if !exceeds[j] {
                products[(j, j)] = 0.0;
            }
            let row = products.row_mut(j);
            pool.residuals(j, &mut row[d..]);
            let factor = 4.0 / pool.units[j];
            row.iter_mut().for_each(|value| *value *= factor);
        }
        self.at_entries(&products, direction, dense)
    }

    /// `back` times the transpose of the stack, at the entries of rows.
    fn at_entries(&self, back: &Matrix<f64>, rows: &[Row], dense: bool) -> Vec<f64> {
        let stack = &self.pool.stack;
        let mut out = Vec::with_capacity(rows.iter().map(|row| row.columns.len()).sum());
        if dense {
            let all = stack.back_on_one_thread(back);
            for (j, row) in rows.iter().enumerate() {
                out.extend(row.columns.iter().map(|&i| all[(j, i as usize)]));
            }
            return out;
        }
        dispatch(
            #[inline(always)]
            || {
                for (j, row) in rows.iter().enumerate() {
                    out.extend(row.columns.iter().map(|&i| dot(back.row(j), stack.row(i as usize))));
                }
            },
        );
        out
    }

    /// A better state with the same signs or zeros, if there is one.
    pub(super) fn leap(
        &self,
        lasso: &Lasso<'_>,
        state: &State,
        enough: f64,
        progress: &Progress,
    ) -> Result<Option<State>> {
        let d = self.pool.dim();
        let mut rows = state.rows.clone();
        rows.iter_mut().for_each(|row| row.renew(d, |_| false));
        let exceeds: Vec<bool> = (0..d).map(|j| state.sums[(j, j)] > 0.0).collect();
        let start: Vec<f64> = rows.iter().flat_map(|row| row.values.iter().copied()).collect();
        let mut rest = self.at_entries(&self.all_back(state), &rows, false);
        let (mut scale, mut costs) = (Vec::with_capacity(rest.len()), Vec::with_capacity(rest.len()));
        let mut at = 0;
        for (j, row) in rows.iter().enumerate() {
            let diagonal = self.curvature.diagonal(&self.vectors[j]);
            for (&i, &value) in row.columns.iter().zip(&row.values) {
                costs.push(lasso.single(j, i as usize));
                rest[at] = -rest[at] - costs[at].copysign(value);
                scale.push(self.pool.units[j] / (4.0 * diagonal[i as usize]));
                at += 1;
            }
        }
        let first = rest.clone();
        let mut change = vec![0.0; rest.len()];
        let scaled = |rest: &[f64]| -> Vec<f64> { rest.iter().zip(&scale).map(|(r, s)| r * s).collect() };
        let mut direction = scaled(&rest);
        let mut square = dot(&rest, &direction);
        for _ in 0..PRODUCTS {
            progress.check()?;
            let product = self.curved(&exceeds, &with_values(&rows, &direction));
            let curved = dot(&direction, &product);
            if curved <= 0.0 || square <= 0.0 {
                break;
            }
            let by = square / curved;
            add(&mut change, by, &direction);
            add(&mut rest, -by, &product);
            if rest.iter().all(|rest| rest.abs() <= enough) {
                break;
            }
            let next = scaled(&rest);
            let after = dot(&rest, &next);
            let share = after / square;
            direction.iter_mut().zip(&next).for_each(|(old, new)| *old = new + share * *old);
            square = after;
        }
        let length =
            reach(&start, &change, &costs, dot(&first, &change), dot(&first, &change) - dot(&rest, &change));
        let moved: Vec<f64> = start.iter().zip(&change).map(|(value, by)| value + length * by).collect();
        let ahead = self.state(with_values(&rows, &moved));
        let value = |state: &State| self.loss(state) + penalty(lasso, &state.rows);
        Ok((value(&ahead) < value(state)).then_some(ahead))
    }
}

/// How far along a change a quadratic with a lasso falls. Per length it falls by `descent` at first, less `curved` times the length;
/// an entry that passes 0 costs from there on what it had saved.
fn reach(values: &[f64], change: &[f64], costs: &[f64], descent: f64, curved: f64) -> f64 {
    let mut passes: Vec<(f64, f64)> = values
        .iter()
        .zip(change)
        .zip(costs)
        .filter(|((value, by), _)| **value * **by < 0.0)
        .map(|((value, by), cost)| (-value / by, 2.0 * cost * by.abs()))
        .collect();
    passes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut descent = descent;
    for (length, cost) in passes {
        if descent - curved * length <= 0.0 {
            break;
        }
        if descent - cost - curved * length <= 0.0 {
            return length;
        }
        descent -= cost;
    }
    if curved > 0.0 { descent / curved } else { 0.0 }
}
