//! KDS by moments with a penalty on single effects: one row of W at a time.
//!
//! Rows interact only through F = W S + S Wᵀ: F_jk depends on the rows j and k. With the other rows fixed, row j is a small
//! lasso; its changes update row and column j of F.

use super::proximal::{Lasso, Tolerance};
use super::rows::{Curvature, ENOUGH, Row, TIGHTER, for_now, missed, penalty, weights};
use super::stack::{add, dot};
use super::{MomentFit, Pool, largest_effect};
use crate::numeric::matmul::product_sequential;
use crate::numeric::simd::dispatch;
use crate::{Matrix, Progress, Result};
use faer::Accum;

/// Sweeps over all rows before a step for all at once.
const SWEEPS: usize = 10;
/// Passes over a row before the next.
const PASSES: usize = 8;

/// KDS by moments, solved row by row.
pub(super) struct RowwiseKds<'a> {
    pub pool: &'a Pool<'a>,
    pub curvature: Curvature,
    /// The outer products that are subtracted from the curvature of each row.
    pub vectors: Vec<Vec<(f64, Vec<f64>)>>,
    /// The largest slope without effects.
    pub steepest: f64,
}

/// A point, and the terms of its slopes.
pub(super) struct State {
    pub rows: Vec<Row>,
    /// W S + S Wᵀ.
    pub sums: Matrix<f64>,
    /// W times the means.
    drifts: Matrix<f64>,
}

/// Buffers for visits of rows.
#[derive(Default)]
struct Scratch {
    back: Vec<f64>,
    slopes: Vec<f64>,
    curvature: Vec<f64>,
    moved: Vec<f64>,
    change: Vec<f64>,
}

impl<'a> RowwiseKds<'a> {
    /// For a pool with one covariance.
    pub(super) fn new(pool: &'a Pool<'a>) -> Self {
        let d = pool.dim();
        let covariance = Matrix::from_fn(d, d, |j, i| pool.stack.row(j)[i]);
        let scaled = Matrix::from_fn(d, d, |j, i| covariance[(j, i)] / pool.units[j]);
        let mut squared = Matrix::full(d, d, 0.0);
        product_sequential(squared.view_mut(), Accum::Replace, covariance.view(), scaled.view());
        let curvature = Curvature::new(pool, squared);
        let vectors = (0..d).map(|j| curvature.vectors(j)).collect();
        let mut problem = RowwiseKds { pool, curvature, vectors, steepest: 0.0 };
        problem.steepest = largest_effect(&problem.slopes(&problem.state(vec![Row::default(); d])));
        problem
    }

    pub(super) fn state(&self, rows: Vec<Row>) -> State {
        let (d, stack) = (self.pool.dim(), &self.pool.stack);
        let means = stack.means();
        let mut products = Matrix::full(d, d, 0.0);
        let mut drifts = Matrix::full(d, means.len(), 0.0);
        dispatch(
            #[inline(always)]
            || {
                for (j, row) in rows.iter().enumerate() {
                    add(products.row_mut(j), -1.0, &stack.row(j)[..d]);
                    add(drifts.row_mut(j), -1.0, &stack.row(j)[means.clone()]);
                    for (&i, &value) in row.columns.iter().zip(&row.values) {
                        let with = stack.row(i as usize);
                        add(products.row_mut(j), value, &with[..d]);
                        add(drifts.row_mut(j), value, &with[means.clone()]);
                    }
                }
            },
        );
        for j in 0..d {
            for k in 0..=j {
                let sum = products[(j, k)] + products[(k, j)];
                products[(j, k)] = sum;
                products[(k, j)] = sum;
            }
        }
        State { rows, sums: products, drifts }
    }

    /// What the stack is multiplied by for the slopes of row j, but for 4/u_j; gives what the row has of the means' part of the
    /// loss.
    #[inline(always)]
    fn back(&self, state: &State, j: usize, out: &mut Vec<f64>) -> f64 {
        let d = self.pool.dim();
        out.clear();
        out.extend(state.sums.row(j).iter().zip(&self.pool.units).map(|(sum, unit)| sum / unit));
        // The noise absorbs what it can; it is at least 0.
        out[j] = out[j].max(0.0);
        out.extend_from_slice(state.drifts.row(j));
        self.pool.residuals(j, &mut out[d..])
    }

    /// The same for all rows, with these factors.
    pub(super) fn all_back(&self, state: &State) -> Matrix<f64> {
        let (d, width) = (self.pool.dim(), self.pool.stack.width());
        let mut all = Vec::with_capacity(d * width);
        let mut back = Vec::new();
        for j in 0..d {
            self.back(state, j, &mut back);
            let factor = 4.0 / self.pool.units[j];
            all.extend(back.iter().map(|value| factor * value));
        }
        Matrix::from_rows(d, width, all)
    }

    fn slopes(&self, state: &State) -> Matrix<f64> {
        self.pool.stack.back_on_one_thread(&self.all_back(state))
    }

    pub(super) fn loss(&self, state: &State) -> f64 {
        let (d, units) = (self.pool.dim(), &self.pool.units);
        let mut back = Vec::new();
        let mut sum = 0.0;
        for j in 0..d {
            let means = self.back(state, j, &mut back);
            let own: f64 = back[..d].iter().zip(state.sums.row(j)).map(|(back, sum)| back * sum).sum();
            sum += (2.0 * means + own) / units[j];
        }
        sum
    }

    /// The minimum with a penalty, from `from` on.
    pub(super) fn minimise(
        &self,
        lasso: &Lasso<'_>,
        from: &Matrix<f64>,
        tolerance: Tolerance,
        progress: &Progress,
    ) -> Result<MomentFit> {
        let d = self.pool.dim();
        let scale = self.steepest.max(f64::MIN_POSITIVE);
        let mut rows: Vec<Row> = (0..d).map(|j| Row::of(from.row(j), j)).collect();
        let mut left = tolerance.steps;
        let mut scratch = Scratch::default();
        loop {
            progress.check()?;
            let mut state = self.state(rows);
            let slopes = self.slopes(&state);
            let full = weights(&state.rows);
            let violation = self.violation(lasso, &full, &slopes, scale);
            if violation <= tolerance.violation || left == 0 || violation.is_nan() {
                let of_mean = 1.0 / (d * d) as f64;
                return Ok(MomentFit {
                    loss: of_mean * self.loss(&state),
                    penalty: of_mean * penalty(lasso, &state.rows),
                    weights: full,
                    violation,
                });
            }
            for (j, row) in state.rows.iter_mut().enumerate() {
                let joins =
                    |i: usize| i != j && lasso.allows(j, i) && slopes[(j, i)].abs() > lasso.single(j, i);
                row.renew(d, joins);
            }
            let enough = scale * for_now(tolerance, violation);
            rows = self.sweep(lasso, state, enough, &mut left, &mut scratch, progress)?.rows;
        }
    }

    /// By how much all entries that are allowed miss the conditions of a minimum at most, relative to `scale`.
    fn violation(&self, lasso: &Lasso<'_>, weights: &Matrix<f64>, slopes: &Matrix<f64>, scale: f64) -> f64 {
        let d = self.pool.dim();
        let mut violation = 0.0f64;
        for j in 0..d {
            let curvature = self.curvature.diagonal(&self.vectors[j]);
            let factor = 4.0 / self.pool.units[j];
            for i in (0..d).filter(|&i| i != j && lasso.allows(j, i)) {
                let cost = lasso.single(j, i);
                let of_entry = missed(weights[(j, i)], slopes[(j, i)], cost, factor * curvature[i]);
                violation = violation.max(of_entry / scale);
            }
        }
        violation
    }

    /// Visits all rows in turn until none misses its minimum by more than `enough`, or no steps are left.
    fn sweep(
        &self,
        lasso: &Lasso<'_>,
        mut state: State,
        enough: f64,
        left: &mut u32,
        scratch: &mut Scratch,
        progress: &Progress,
    ) -> Result<State> {
        let mut sweeps = 0;
        while *left > 0 {
            *left -= 1;
            progress.check()?;
            let mut most = 0.0f64;
            for j in 0..self.pool.dim() {
                most = most.max(dispatch(
                    #[inline(always)]
                    || self.visit(lasso, &mut state, j, enough, scratch),
                ));
            }
            if most <= enough {
                break;
            }
            sweeps += 1;
            if sweeps % SWEEPS == 0
                && let Some(ahead) = self.leap(lasso, &state, TIGHTER * enough, progress)?
            {
                state = ahead;
            }
        }
        Ok(state)
    }

    /// Moves a row nearly to its minimum, and returns by how much it missed it before.
    #[inline(always)]
    fn visit(
        &self,
        lasso: &Lasso<'_>,
        state: &mut State,
        j: usize,
        enough: f64,
        scratch: &mut Scratch,
    ) -> f64 {
        let count = state.rows[j].columns.len();
        if count == 0 {
            return 0.0;
        }
        let (d, stack, unit) = (self.pool.dim(), &self.pool.stack, self.pool.units[j]);
        self.back(state, j, &mut scratch.back);
        let columns = std::mem::take(&mut state.rows[j].columns);
        let to_slope = 4.0 / unit;
        let cost = |i: u32| lasso.single(j, i as usize) / to_slope;
        // A diagonal that the noise cannot take up has a curvature too; so may one that it can, once the row has moved.
        for exceeds in [state.sums[(j, j)] > 0.0, true] {
            let values = &state.rows[j].values;
            self.assemble(j, &columns, exceeds, scratch);
            let mut most = 0.0f64;
            for (at, &i) in columns.iter().enumerate() {
                let curvature = scratch.curvature[at * count + at];
                most = most.max(missed(values[at], scratch.slopes[at], cost(i), curvature));
            }
            if to_slope * most <= 0.5 * enough {
                state.rows[j].columns = columns;
                return to_slope * most;
            }
            scratch.moved.clone_from(values);
            scratch.descend(&columns, cost, most);
            scratch.change.clear();
            scratch.change.resize(stack.width(), 0.0);
            for (at, &i) in columns.iter().enumerate() {
                let by = scratch.moved[at] - state.rows[j].values[at];
                if by != 0.0 {
                    add(&mut scratch.change, by, stack.row(i as usize));
                }
            }
            if !exceeds && state.sums[(j, j)] + 2.0 * scratch.change[j] > 0.0 {
                continue;
            }
            scratch.change[j] *= 2.0;
            add(state.sums.row_mut(j), 1.0, &scratch.change[..d]);
            add(state.drifts.row_mut(j), 1.0, &scratch.change[d..]);
            for k in 0..d {
                state.sums[(k, j)] = state.sums[(j, k)];
            }
            state.rows[j].values.clone_from(&scratch.moved);
            state.rows[j].columns = columns;
            return to_slope * most;
        }
        unreachable!("the second time the row is moved")
    }

    /// Slopes and curvature of row j at these columns; `exceeds` says whether its diagonal is more than the noise takes up.
    #[inline(always)]
    fn assemble(&self, j: usize, columns: &[u32], exceeds: bool, scratch: &mut Scratch) {
        let (stack, unit) = (&self.pool.stack, self.pool.units[j]);
        let own = stack.row(j);
        scratch.slopes.clear();
        scratch.slopes.extend(columns.iter().map(|&i| dot(&scratch.back, stack.row(i as usize))));
        self.curvature.between(columns, &self.vectors[j], &mut scratch.curvature);
        let sign = if exceeds { 1.0 } else { -1.0 };
        for (row, &i) in scratch.curvature.chunks_exact_mut(columns.len()).zip(columns) {
            let factor = sign * own[i as usize] / unit;
            row.iter_mut().zip(columns).for_each(|(out, &k)| *out += factor * own[k as usize]);
        }
    }
}

impl Scratch {
    /// Coordinate descent on a row, from `moved`, until a pass changes slopes by little of `most`.
    #[inline(always)]
    fn descend(&mut self, columns: &[u32], cost: impl Fn(u32) -> f64, most: f64) {
        let count = columns.len();
        for _ in 0..PASSES {
            let mut moving = 0.0f64;
            for (at, &i) in columns.iter().enumerate() {
                let curvature = self.curvature[at * count + at];
                if curvature <= 0.0 {
                    continue;
                }
                let value = self.moved[at];
                let ahead = curvature * value - self.slopes[at];
                let next = (ahead.abs() - cost(i)).max(0.0).copysign(ahead) / curvature;
                let by = next - value;
                if by != 0.0 {
                    moving = moving.max(curvature * by.abs());
                    self.moved[at] = next;
                    add(&mut self.slopes, by, &self.curvature[at * count..(at + 1) * count]);
                }
            }
            if moving <= ENOUGH * most {
                break;
            }
        }
    }
}
