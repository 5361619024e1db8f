//! KDS by moments with a penalty on single effects: one row of W at a time.
//!
//! Rows meet in F = W S + S Wᵀ alone: F_jk knows the rows j and k. With the others held, row j is a lasso of as many variables as it
//! has entries; what it changes goes back into row and column j of F.

use super::proximal::{Lasso, Tolerance};
use super::rows::{Curvature, ENOUGH, Row, TIGHTER, for_now, missed, penalty, weights};
use super::stack::{add, dot};
use super::{Fitted, Pool, largest_effect};
use crate::numeric::matmul::product_sequential;
use crate::numeric::simd::dispatch;
use crate::{Matrix, Progress, Result};
use faer::Accum;

/// Sweeps over all rows before a step for all at once.
const SWEEPS: usize = 10;
/// Passes over a row before the next.
const PASSES: usize = 8;

/// The problem.
pub(super) struct Quadratic<'a> {
    pub pool: &'a Pool<'a>,
    pub curvature: Curvature,
    /// What is taken away from the curvature of each row.
    pub vectors: Vec<Vec<(f64, Vec<f64>)>>,
    /// The largest slope without effects.
    pub steepest: f64,
}

/// A point, and what its slopes are made of.
pub(super) struct State {
    pub rows: Vec<Row>,
    /// W S + S Wᵀ.
    pub sums: Matrix<f64>,
    /// W times the means.
    drifts: Matrix<f64>,
}

/// What visits of rows write to.
#[derive(Default)]
struct Scratch {
    back: Vec<f64>,
    slopes: Vec<f64>,
    curvature: Vec<f64>,
    moved: Vec<f64>,
    change: Vec<f64>,
}

impl<'a> Quadratic<'a> {
    /// For a pool with one covariance.
    pub fn new(pool: &'a Pool<'a>) -> Self {
        let d = pool.dim();
        let covariance = Matrix::from_fn(d, d, |j, i| pool.stack.row(j)[i]);
        let scaled = Matrix::from_fn(d, d, |j, i| covariance[(j, i)] / pool.units[j]);
        let mut squared = Matrix::full(d, d, 0.0);
        product_sequential(squared.view_mut(), Accum::Replace, covariance.view(), scaled.view());
        let curvature = Curvature::new(pool, squared);
        let vectors = (0..d).map(|j| curvature.vectors(j)).collect();
        let mut problem = Quadratic { pool, curvature, vectors, steepest: 0.0 };
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
        // The noise takes up what it can: it is at least 0.
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
    pub fn minimise(
        &self,
        lasso: &Lasso<'_>,
        from: &Matrix<f64>,
        tolerance: Tolerance,
        progress: &Progress,
    ) -> Result<Fitted> {
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
            let mut violation = 0.0f64;
            for j in 0..d {
                let curvature = self.curvature.diagonal(&self.vectors[j]);
                let factor = 4.0 / self.pool.units[j];
                for i in (0..d).filter(|&i| i != j && lasso.allows(j, i)) {
                    let cost = lasso.single(j, i);
                    let of_entry = missed(full[(j, i)], slopes[(j, i)], cost, factor * curvature[i]);
                    violation = violation.max(of_entry / scale);
                }
            }
            if violation <= tolerance.violation || left == 0 || violation.is_nan() {
                let of_mean = 1.0 / (d * d) as f64;
                return Ok(Fitted {
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
            let mut sweeps = 0;
            while left > 0 {
                left -= 1;
                progress.check()?;
                let mut most = 0.0f64;
                for j in 0..d {
                    most = most.max(dispatch(
                        #[inline(always)]
                        || self.visit(lasso, &mut state, j, enough, &mut scratch),
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
            rows = state.rows;
        }
    }

    /// Moves a row to its minimum, nearly, and says what it had missed.
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
        let (own, to_slope) = (stack.row(j), 4.0 / unit);
        let cost = |i: u32| lasso.single(j, i as usize) / to_slope;
        // A diagonal that the noise cannot take up has a curvature too; so may one that it can, once the row has moved.
        for exceeds in [state.sums[(j, j)] > 0.0, true] {
            let values = &state.rows[j].values;
            scratch.slopes.clear();
            scratch.slopes.extend(columns.iter().map(|&i| dot(&scratch.back, stack.row(i as usize))));
            self.curvature.between(&columns, &self.vectors[j], &mut scratch.curvature);
            let sign = if exceeds { 1.0 } else { -1.0 };
            for (row, &i) in scratch.curvature.chunks_exact_mut(count).zip(&columns) {
                let factor = sign * own[i as usize] / unit;
                row.iter_mut().zip(&columns).for_each(|(out, &k)| *out += factor * own[k as usize]);
            }
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
            for _ in 0..PASSES {
                let mut moving = 0.0f64;
                for (at, &i) in columns.iter().enumerate() {
                    let curvature = scratch.curvature[at * count + at];
                    if curvature <= 0.0 {
                        continue;
                    }
                    let value = scratch.moved[at];
                    let ahead = curvature * value - scratch.slopes[at];
                    let next = (ahead.abs() - cost(i)).max(0.0).copysign(ahead) / curvature;
                    let by = next - value;
                    if by != 0.0 {
                        moving = moving.max(curvature * by.abs());
                        scratch.moved[at] = next;
                        add(&mut scratch.slopes, by, &scratch.curvature[at * count..(at + 1) * count]);
                    }
                }
                if moving <= ENOUGH * most {
                    break;
                }
            }
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
}
