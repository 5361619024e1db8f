//! The outgoing penalty ties the coordinates together: all effects of variable i are one group, a column of W.
//!
//! ```text
//! Σ_j (½ w_jᵀ Q_j w_j − c_jᵀ w_j) + l₁ Σ_ji |w_ji| + l₂ Σ_i ‖(w_ji)_{j≠i}‖₂
//! ```
//!
//! The entries of one column lie in different coordinates' forms, so as functions of one column alone they are separate
//! parabolas and the column has a closed minimum but for one root. Going round the columns converges slowly where
//! variables are alike, so every few rounds the last ones are extrapolated (Anderson), and kept if that is lower.

use super::coordinate::{Reduced, place, without_own};
use crate::dense::Cholesky;
use crate::{Error, Matrix, Result};
use faer::Mat;
use rayon::prelude::*;

/// Rounds between extrapolations.
const MEMORY: usize = 6;
/// Rounds at most.
const ROUNDS: usize = 20_000;
/// Done when the conditions of a minimum are missed by less than this, relative to the largest slope at 0.
const ENOUGH: f64 = 1e-10;
/// Good enough if rounding allows no better.
const BEARABLE: f64 = 1e-8;

/// The weights of both penalties.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weights {
    /// l₁.
    pub single: f64,
    /// l₂.
    pub group: f64,
}

/// What was found.
pub(super) struct Grouped {
    /// d × d, row j the effects on j, 0 on the diagonal.
    pub effects: Matrix<f64>,
    /// By how much the conditions of a minimum are missed, relative to the largest slope at 0.
    pub violation: f64,
}

/// A state of the search: effects, and slopes c_j − Q_j w_j.
#[derive(Clone)]
struct State {
    w: Matrix<f64>,
    rest: Matrix<f64>,
}

/// Minimises from `start`.
pub(super) fn solve(forms: &[Reduced], weights: Weights, start: &Matrix<f64>) -> Result<Grouped> {
    let d = forms.len();
    let problem = Problem { forms, weights, scale: scale(forms) };
    let mut state = problem.state(start.clone());
    let mut history: Vec<Matrix<f64>> = vec![state.w.clone()];
    let mut violation = f64::INFINITY;
    for round in 1..=ROUNDS {
        (0..d).for_each(|i| problem.update(&mut state, i));
        history.push(state.w.clone());
        if history.len() <= MEMORY {
            continue;
        }
        // Slopes drift by rounding; from here they are exact again.
        state = problem.state(state.w);
        let before = problem.value(&state);
        if let Some(further) = extrapolated(&history) {
            let further = problem.state(further);
            if problem.value(&further) < before {
                state = further;
            }
        }
        history = vec![state.w.clone()];
        let now = problem.violation(&state);
        let stuck = now > 0.9 * violation && now < BEARABLE;
        violation = now;
        if now < ENOUGH || stuck {
            return Ok(Grouped { effects: state.w, violation });
        }
        if round + MEMORY > ROUNDS {
            break;
        }
    }
    Err(Error::NonFinite(format!(
        "the penalised fit missed its optimality conditions by {violation:.1e} after {ROUNDS} rounds, expected {BEARABLE:.0e}: \
         try a larger --lambda or --penalty ingoing"
    )))
}

/// The largest slope at 0.
fn scale(forms: &[Reduced]) -> f64 {
    forms.iter().flat_map(|form| &form.c).fold(f64::MIN_POSITIVE, |m, c| m.max(c.abs()))
}

struct Problem<'a> {
    forms: &'a [Reduced],
    weights: Weights,
    scale: f64,
}

fn soft(value: f64, by: f64) -> f64 {
    value.signum() * (value.abs() - by).max(0.0)
}

impl Problem<'_> {
    fn state(&self, w: Matrix<f64>) -> State {
        let d = self.forms.len();
        let rows: Vec<Vec<f64>> = (0..d)
            .into_par_iter()
            .with_min_len(16)
            .map(|j| {
                let form = &self.forms[j];
                let compact = without_own(w.row(j), j);
                (0..d)
                    .map(|i| match i == j {
                        true => 0.0,
                        false => {
                            let row = form.q.row(place(i, j));
                            form.c[place(i, j)] - row.iter().zip(&compact).map(|(q, w)| q * w).sum::<f64>()
                        }
                    })
                    .collect()
            })
            .collect();
        State { rest: Matrix::from_rows(d, d, rows.concat()), w }
    }

    /// Minimises over column i.
    fn update(&self, state: &mut State, i: usize) {
        let d = self.forms.len();
        let rows = || (0..d).filter(|&j| j != i);
        let steep = |j: usize| self.forms[j].q[(place(i, j), place(i, j))];
        let pull: Vec<(usize, f64, f64)> = rows()
            .map(|j| {
                let q = steep(j);
                (j, q, soft(state.rest[(j, i)] + q * state.w[(j, i)], self.weights.single))
            })
            .collect();
        let norm = pull.iter().map(|(_, _, s)| s * s).sum::<f64>().sqrt();
        let radius = if norm > self.weights.group { radius(&pull, norm, self.weights.group) } else { 0.0 };
        for (j, q, s) in pull {
            let new = if radius > 0.0 { s * radius / (q * radius + self.weights.group) } else { 0.0 };
            let change = new - state.w[(j, i)];
            if change != 0.0 {
                state.w[(j, i)] = new;
                let column = self.forms[j].q.row(place(i, j));
                let rest = state.rest.row_mut(j);
                let (before, after) = rest.split_at_mut(j);
                before
                    .iter_mut()
                    .chain(&mut after[1..])
                    .zip(column)
                    .for_each(|(rest, q)| *rest -= change * q);
            }
        }
    }

    /// The objective.
    fn value(&self, state: &State) -> f64 {
        let d = self.forms.len();
        let mut sum = 0.0;
        for j in 0..d {
            for i in (0..d).filter(|&i| i != j) {
                // ½ wᵀQw − cᵀw = −½ wᵀ(c + (c − Qw)).
                let w = state.w[(j, i)];
                sum -= 0.5 * w * (self.forms[j].c[place(i, j)] + state.rest[(j, i)]);
                sum += self.weights.single * w.abs();
            }
        }
        sum + self.weights.group * (0..d).map(|i| column_norm(&state.w, i)).sum::<f64>()
    }

    fn violation(&self, state: &State) -> f64 {
        let d = self.forms.len();
        let Weights { single, group } = self.weights;
        let mut worst = 0.0f64;
        for i in 0..d {
            let norm = column_norm(&state.w, i);
            let rows = || (0..d).filter(|&j| j != i);
            if norm == 0.0 {
                let size = rows().map(|j| soft(state.rest[(j, i)], single).powi(2)).sum::<f64>().sqrt();
                worst = worst.max(size - group);
                continue;
            }
            for j in rows() {
                let w = state.w[(j, i)];
                let pull = state.rest[(j, i)] - group * w / norm;
                let miss = if w == 0.0 {
                    (pull.abs() - single).max(0.0)
                } else {
                    (pull - single * w.signum()).abs()
                };
                worst = worst.max(miss);
            }
        }
        worst / self.scale
    }
}

fn column_norm(w: &Matrix<f64>, i: usize) -> f64 {
    (0..w.rows()).filter(|&j| j != i).map(|j| w[(j, i)] * w[(j, i)]).sum::<f64>().sqrt()
}

/// The norm ρ of the column's minimum: Σ s² / (q ρ + l₂)² = 1, by Newton's method on a falling convex function from its left
/// end, which never overshoots.
fn radius(pull: &[(usize, f64, f64)], norm: f64, group: f64) -> f64 {
    let steepest = pull.iter().fold(0.0f64, |m, (_, q, _)| m.max(*q));
    let mut rho = (norm - group) / steepest;
    for _ in 0..100 {
        let (mut value, mut slope) = (-1.0, 0.0);
        for (_, q, s) in pull {
            let part = s / (q * rho + group);
            value += part * part;
            slope -= 2.0 * part * part * q / (q * rho + group);
        }
        let step = -value / slope;
        rho += step;
        if step <= 1e-15 * rho {
            break;
        }
    }
    rho
}

/// The combination of the last iterates whose steps nearly cancel.
fn extrapolated(history: &[Matrix<f64>]) -> Option<Matrix<f64>> {
    let k = history.len() - 1;
    let step =
        |a: usize| history[a + 1].as_slice().iter().zip(history[a].as_slice()).map(|(new, old)| new - old);
    let mut gram = Mat::from_fn(k, k, |a, b| step(a).zip(step(b)).map(|(a, b)| a * b).sum::<f64>());
    let trace: f64 = (0..k).map(|a| gram[(a, a)]).sum();
    (0..k).for_each(|a| gram[(a, a)] += 1e-12 * trace);
    let mut ones = Mat::full(k, 1, 1.0);
    Cholesky::of(gram.as_ref())?.solve_in_place(ones.as_mut());
    let total: f64 = (0..k).map(|a| ones[(a, 0)]).sum();
    if !(total.is_finite() && total > 0.0) {
        return None;
    }
    let mut sum = Matrix::full(history[0].rows(), history[0].cols(), 0.0);
    for a in 0..k {
        let share = ones[(a, 0)] / total;
        sum.as_mut_slice().iter_mut().zip(history[a + 1].as_slice()).for_each(|(sum, w)| *sum += share * w);
    }
    // What is 0 stays 0: a sum of zeros is one, of other numbers hardly ever.
    sum.as_slice().iter().all(|w| w.is_finite()).then_some(sum)
}
