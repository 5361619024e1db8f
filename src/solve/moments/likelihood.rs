//! The likelihood of structural equations with a penalty on single effects: one row of R at a time.
//!
//! With the other rows held, det R is linear in row j, r_j · c with column j of R⁻¹ as c (but for a factor), and log v_j lies below
//! its tangent. What is left is ½ r_jᵀ M_j r_j / v_j − log(r_j · c) and the lasso: convex, and along one entry a quadratic equation.

use super::proximal::{Lasso, Tolerance};
use super::rows::{Curvature, ENOUGH, Row, for_now, missed, penalty, weights};
use super::stack::{add, dot};
use super::{MomentFit, Pool};
use crate::numeric::dense::Lu;
use crate::numeric::matmul::product_sequential;
use crate::numeric::simd::dispatch;
use crate::{Matrix, Progress, Result};
use faer::Accum;

/// New tangents for a row, and passes over it with each, before the next.
const TANGENTS: usize = 3;
const PASSES: usize = 4;
/// Changes of single rows that are gathered before they go into the inverse.
const GATHERED: usize = 32;

/// The problem.
pub(super) struct Likelihood<'a> {
    pool: &'a Pool<'a>,
    curvature: Curvature,
    /// The largest slope without effects.
    pub steepest: f64,
}

/// R⁻¹ while single rows of R change.
struct Inverse {
    /// As it was.
    known: Matrix<f64>,
    /// What to take away from it: products of columns and rows.
    columns: Vec<Vec<f64>>,
    rows: Vec<Vec<f64>>,
}

impl Inverse {
    /// Of R, which is −W; with the logarithm of the size of its determinant. None if that is not above 0.
    fn of(weights: &Matrix<f64>) -> Option<(Inverse, f64)> {
        let lu = Lu::of(weights.map(|value| -value).view());
        let (sign, log) = lu.determinant();
        if sign <= 0.0 || !log.is_finite() {
            return None;
        }
        let inverse = lu.inverse_on_one_thread();
        let d = weights.rows();
        let known = Matrix::from_fn(d, d, |i, j| inverse[(i, j)]);
        Some((Inverse { known, columns: Vec::new(), rows: Vec::new() }, log))
    }

    fn column(&self, j: usize, out: &mut Vec<f64>) {
        out.clear();
        out.extend((0..self.known.rows()).map(|i| self.known[(i, j)]));
        for (column, row) in self.columns.iter().zip(&self.rows) {
            add(out, -row[j], column);
        }
    }

    /// Some entries of row j of R change; `column` is column j of this.
    fn change(&mut self, columns: &[u32], by: &[f64], column: &[f64]) {
        let mut row = vec![0.0; self.known.cols()];
        let mut factor = 1.0;
        for (&i, &by) in columns.iter().zip(by).filter(|(_, by)| **by != 0.0) {
            let i = i as usize;
            add(&mut row, by, self.known.row(i));
            for (known, other) in self.columns.iter().zip(&self.rows) {
                add(&mut row, -by * known[i], other);
            }
            factor += by * column[i];
        }
        self.columns.push(column.iter().map(|value| value / factor).collect());
        self.rows.push(row);
        if self.rows.len() == GATHERED {
            let d = self.known.rows();
            let columns = Matrix::from_fn(d, GATHERED, |i, k| -self.columns[k][i]);
            let rows = Matrix::from_rows(GATHERED, d, self.rows.concat());
            product_sequential(self.known.view_mut(), Accum::Add, columns.view(), rows.view());
            self.columns.clear();
            self.rows.clear();
        }
    }
}

/// What visits of rows write to.
#[derive(Default)]
struct Scratch {
    columns: Vec<u32>,
    values: Vec<f64>,
    inverse: Vec<f64>,
    curvature: Vec<f64>,
    products: Vec<f64>,
    by: Vec<f64>,
}

impl<'a> Likelihood<'a> {
    /// For a pool with one covariance.
    pub(super) fn new(pool: &'a Pool<'a>) -> Self {
        let d = pool.dim();
        let covariance = Matrix::from_fn(d, d, |j, i| pool.stack.row(j)[i]);
        let mut problem = Likelihood { pool, curvature: Curvature::new(pool, covariance), steepest: 0.0 };
        let (slopes, variances) = problem.products(&vec![Row::default(); d]);
        for j in 0..d {
            for i in (0..d).filter(|&i| i != j) {
                problem.steepest = problem.steepest.max((slopes[(j, i)] / variances[j]).abs());
            }
        }
        problem
    }

    /// M_j r_j for each j, and v_j.
    fn products(&self, rows: &[Row]) -> (Matrix<f64>, Vec<f64>) {
        let (pool, d) = (self.pool, self.pool.dim());
        let (stack, means) = (&pool.stack, self.pool.stack.means());
        let mut within = Matrix::full(d, stack.width(), 0.0);
        dispatch(
            #[inline(always)]
            || {
                for (j, row) in rows.iter().enumerate() {
                    add(within.row_mut(j), 1.0, stack.row(j));
                    for (&i, &value) in row.columns.iter().zip(&row.values) {
                        add(within.row_mut(j), -value, stack.row(i as usize));
                    }
                }
            },
        );
        let mut between = Matrix::full(d, means.len(), 0.0);
        let mut variances = Vec::with_capacity(d);
        for (j, row) in rows.iter().enumerate() {
            between.row_mut(j).copy_from_slice(&within.row(j)[means.clone()]);
            let squares = pool.residuals(j, between.row_mut(j));
            let own = within.row(j);
            let others: f64 = row.columns.iter().zip(&row.values).map(|(&i, r)| r * own[i as usize]).sum();
            variances.push((own[j] - others + squares).max(super::LEAST_NOISE * pool.units[j]));
        }
        let all_means = Matrix::from_fn(means.len(), d, |k, i| stack.row(i)[means.start + k]);
        let mut out = Matrix::full(d, d, 0.0);
        (0..d).for_each(|j| out.row_mut(j).copy_from_slice(&within.row(j)[..d]));
        product_sequential(out.view_mut(), Accum::Add, between.view(), all_means.view());
        (out, variances)
    }

    /// A minimum with a penalty, from `from` on.
    pub(super) fn minimise(
        &self,
        lasso: &Lasso<'_>,
        from: &Matrix<f64>,
        tolerance: Tolerance,
        progress: &Progress,
    ) -> Result<MomentFit> {
        let d = self.pool.dim();
        let scale = self.steepest.max(f64::MIN_POSITIVE);
        let vectors: Vec<_> = (0..d).map(|j| self.curvature.vectors(j)).collect();
        let diagonals: Vec<_> = vectors.iter().map(|vectors| self.curvature.diagonal(vectors)).collect();
        let mut rows: Vec<Row> = (0..d).map(|j| Row::of(from.row(j), j)).collect();
        let mut left = tolerance.steps;
        let mut scratch = Scratch::default();
        loop {
            progress.check()?;
            let full = weights(&rows);
            let Some((mut inverse, log)) = Inverse::of(&full) else {
                // The equations of what this begins with have no solution: without effects they do.
                rows = vec![Row::default(); d];
                continue;
            };
            let (products, variances) = self.products(&rows);
            // In W.
            let slope = |j: usize, i: usize| inverse.known[(i, j)] - products[(j, i)] / variances[j];
            let mut violation = 0.0f64;
            for j in 0..d {
                for i in (0..d).filter(|&i| i != j && lasso.allows(j, i)) {
                    let curvature = diagonals[j][i] / variances[j] + inverse.known[(i, j)].powi(2);
                    let of_entry = missed(full[(j, i)], slope(j, i), lasso.single(j, i), curvature);
                    violation = violation.max(of_entry / scale);
                }
            }
            if violation <= tolerance.violation || left == 0 || violation.is_nan() {
                let of_mean = 1.0 / (d * d) as f64;
                return Ok(MomentFit {
                    loss: of_mean * (0.5 * variances.iter().map(|v| v.ln()).sum::<f64>() - log),
                    penalty: of_mean * penalty(lasso, &rows),
                    weights: full,
                    violation,
                });
            }
            for (j, row) in rows.iter_mut().enumerate() {
                let joins = |i: usize| i != j && lasso.allows(j, i) && slope(j, i).abs() > lasso.single(j, i);
                row.renew(d, joins);
            }
            let enough = scale * for_now(tolerance, violation);
            while left > 0 {
                left -= 1;
                let mut most = 0.0f64;
                for (j, row) in rows.iter_mut().enumerate() {
                    if j % 64 == 0 {
                        progress.check()?;
                    }
                    most = most.max(dispatch(
                        #[inline(always)]
                        || self.visit(lasso, row, j, &vectors[j], &mut inverse, enough, &mut scratch),
                    ));
                }
                if most <= enough {
                    break;
                }
            }
        }
    }

    /// Moves a row to its minimum, nearly, and says what it had missed.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn visit(
        &self,
        lasso: &Lasso<'_>,
        row: &mut Row,
        j: usize,
        vectors: &[(f64, Vec<f64>)],
        inverse: &mut Inverse,
        enough: f64,
        scratch: &mut Scratch,
    ) -> f64 {
        let count = row.columns.len();
        if count == 0 {
            return 0.0;
        }
        let Scratch { columns, values, inverse: column, curvature, products, by } = scratch;
        inverse.column(j, column);
        // The entry that is held comes last.
        columns.clone_from(&row.columns);
        columns.push(j as u32);
        self.curvature.between(columns, vectors, curvature);
        let width = count + 1;
        values.clear();
        values.extend(row.values.iter().map(|value| -value));
        values.push(1.0);
        let mut ratio: f64 = columns.iter().zip(&*values).map(|(&i, value)| column[i as usize] * value).sum();
        products.clear();
        products.extend(curvature.chunks_exact(width).map(|row| dot(row, values)));
        let least = super::LEAST_NOISE * self.pool.units[j];
        let mut first = 0.0f64;
        for tangent in 0..TANGENTS {
            let variance = dot(products, values).max(least);
            let mut most = 0.0f64;
            for (at, &i) in row.columns.iter().enumerate() {
                let share = column[i as usize] / ratio;
                let own = curvature[at * width + at] / variance + share * share;
                let slope = products[at] / variance - share;
                most = most.max(missed(values[at], slope, lasso.single(j, i as usize), own));
            }
            if tangent == 0 {
                first = most;
                if most <= 0.5 * enough {
                    return most;
                }
            } else if most <= (ENOUGH * first).max(0.1 * enough) {
                break;
            }
            for _ in 0..PASSES {
                let mut moving = 0.0f64;
                for (at, &i) in row.columns.iter().enumerate() {
                    let own = curvature[at * width + at] / variance;
                    if own <= 0.0 {
                        continue;
                    }
                    let entry = Entry { value: values[at], slope: products[at] / variance, curvature: own };
                    let next = entry.moved(column[i as usize], ratio, lasso.single(j, i as usize));
                    let by = next - values[at];
                    if by != 0.0 {
                        moving = moving.max(own * by.abs());
                        values[at] = next;
                        ratio += by * column[i as usize];
                        add(products, by, &curvature[at * width..(at + 1) * width]);
                    }
                }
                if moving <= ENOUGH * most {
                    break;
                }
            }
        }
        by.clear();
        by.extend(values.iter().zip(&row.values).map(|(new, old)| new + old));
        inverse.change(&row.columns, by, column);
        row.values.iter_mut().zip(&*values).for_each(|(value, new)| *value = -new);
        first
    }
}

/// One entry of a row, and what is known of ½ rᵀ M r / v there.
struct Entry {
    value: f64,
    slope: f64,
    curvature: f64,
}

impl Entry {
    /// Where this is smallest with −log(ratio + column · change) and the cost of its size added.
    #[inline(always)]
    fn moved(&self, column: f64, ratio: f64, cost: f64) -> f64 {
        let Entry { value, slope, curvature } = *self;
        let at_zero = ratio - column * value;
        let sign = if at_zero > 0.0 {
            let there = slope - curvature * value - column / at_zero;
            if there.abs() <= cost {
                return 0.0;
            }
            -there.signum()
        } else {
            // There is no way past 0.
            value.signum()
        };
        let slope = slope + sign * cost;
        // The change, δ, solves (slope + curvature δ)(ratio + column δ) = column where the ratio stays above 0.
        let linear = curvature * ratio + slope * column;
        let difference = curvature * ratio - slope * column;
        let root = (difference * difference + 4.0 * curvature * column * column).sqrt();
        let change = match linear > 0.0 {
            true => 2.0 * (column - slope * ratio) / (linear + root),
            false => (root - linear) / (2.0 * curvature * column),
        };
        value + change
    }
}
