//! The outgoing penalty couples the coordinates: all effects of variable i (or of function i, if the drift is made of given
//! functions) are one group, a column of W. A function of a variable alone is not penalised in that variable's row.
//!
//! ```text
//! Σ_j (½ w_jᵀ Q_j w_j − c_jᵀ w_j) + l₁ Σ_ji |w_ji| + l₂ Σ_i ‖(w_ji)_{j≠i}‖₂
//! ```
//!
//! The entries of one column belong to different coordinates, so the loss in one column is a sum of separate parabolas, and the
//! column's minimum is closed up to one scalar root. Cycling through the columns converges slowly for similar variables, so the
//! last few iterates are extrapolated (Anderson) every few rounds, and the result is kept if it is lower.

use super::coordinate::Reduced;
use crate::numeric::dense::Cholesky;
use crate::{Error, Result};
use faer::Mat;
use rayon::prelude::*;

/// Rounds between extrapolations.
const MEMORY: usize = 6;
/// The most rounds.
const ROUNDS: usize = 20_000;
/// The fit has converged when it misses the optimality conditions by less than this, relative to the largest slope at 0.
const CONVERGED: f64 = 1e-10;
/// The violation that is acceptable when rounding prevents progress.
const ACCEPTABLE: f64 = 1e-8;

/// The weights of both penalties.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct GroupPenalty {
    /// l₁.
    pub single: f64,
    /// l₂.
    pub group: f64,
}

/// The minimum.
pub(super) struct GroupSolution {
    /// The rows of the penalised entries, one after the other.
    pub w: Vec<f64>,
    /// The amount by which the optimality conditions are missed, relative to the largest slope at 0.
    pub violation: f64,
}

/// A state of the search: entries, and slopes c_j − Q_j w_j.
#[derive(Clone)]
struct State {
    w: Vec<f64>,
    rest: Vec<f64>,
}

/// Minimises from `start`. `members[j]` are the columns that row j has entries in.
pub(super) fn solve(
    forms: &[Reduced],
    members: &[Vec<usize>],
    weights: GroupPenalty,
    start: &[f64],
) -> Result<GroupSolution> {
    let problem = GroupLasso::new(forms, members, weights);
    let mut state = problem.state(start.to_vec());
    let mut history: Vec<Vec<f64>> = vec![state.w.clone()];
    let mut violation = f64::INFINITY;
    for round in 1..=ROUNDS {
        problem.columns.iter().for_each(|column| problem.update(&mut state, column));
        history.push(state.w.clone());
        if history.len() <= MEMORY {
            continue;
        }
        // Recomputes the slopes, which have drifted by rounding.
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
        let stuck = now > 0.9 * violation && now < ACCEPTABLE;
        violation = now;
        if now < CONVERGED || stuck {
            return Ok(GroupSolution { w: state.w, violation });
        }
        if round + MEMORY > ROUNDS {
            break;
        }
    }
    Err(Error::NonFinite(format!(
        "the penalised fit missed its optimality conditions by {violation:.1e} after {ROUNDS} rounds, expected {ACCEPTABLE:.0e}: \
         set a larger penalty weight lambda, or the ingoing penalty"
    )))
}

/// An entry of a column: its row and its place in it.
#[derive(Clone, Copy)]
struct Entry {
    j: usize,
    place: usize,
}

struct GroupLasso<'a> {
    forms: &'a [Reduced],
    weights: GroupPenalty,
    /// The largest slope at 0.
    scale: f64,
    /// Where rows begin in a state.
    offsets: Vec<usize>,
    /// The entries of each column.
    columns: Vec<Vec<Entry>>,
}

fn soft(value: f64, by: f64) -> f64 {
    value.signum() * (value.abs() - by).max(0.0)
}

impl<'a> GroupLasso<'a> {
    fn new(forms: &'a [Reduced], members: &[Vec<usize>], weights: GroupPenalty) -> Self {
        let slopes = forms.iter().flat_map(|form| form.c.iter().zip(&form.multipliers));
        let scale = slopes.fold(f64::MIN_POSITIVE, |m, (c, by)| m.max(by * c.abs()));
        let mut offsets = vec![0];
        let count = members.iter().flatten().max().map_or(0, |last| last + 1);
        let mut columns: Vec<Vec<Entry>> = vec![Vec::new(); count];
        for (j, row) in members.iter().enumerate() {
            offsets.push(offsets[j] + row.len());
            row.iter().enumerate().for_each(|(place, &column)| columns[column].push(Entry { j, place }));
        }
        GroupLasso { forms, weights, scale, offsets, columns }
    }

    fn row(&self, j: usize) -> std::ops::Range<usize> {
        self.offsets[j]..self.offsets[j + 1]
    }

    fn at(&self, entry: Entry) -> usize {
        self.offsets[entry.j] + entry.place
    }

    fn state(&self, w: Vec<f64>) -> State {
        let rows: Vec<Vec<f64>> = (0..self.forms.len())
            .into_par_iter()
            .with_min_len(16)
            .map(|j| {
                let (form, w) = (&self.forms[j], &w[self.row(j)]);
                let slope =
                    |(c, a): (&f64, usize)| c - form.q.row(a).iter().zip(w).map(|(q, w)| q * w).sum::<f64>();
                form.c.iter().zip(0..).map(slope).collect()
            })
            .collect();
        State { rest: rows.concat(), w }
    }

    /// Minimises over a column.
    fn update(&self, state: &mut State, column: &[Entry]) {
        let pull: Vec<(Entry, f64, f64)> = column
            .iter()
            .map(|&entry| {
                let (q, at) = (self.forms[entry.j].q[(entry.place, entry.place)], self.at(entry));
                (entry, q, soft(state.rest[at] + q * state.w[at], self.weights.single))
            })
            .collect();
        let norm = pull.iter().map(|(_, _, s)| s * s).sum::<f64>().sqrt();
        let radius = if norm > self.weights.group { radius(&pull, norm, self.weights.group) } else { 0.0 };
        for (entry, q, s) in pull {
            let new = if radius > 0.0 { s * radius / (q * radius + self.weights.group) } else { 0.0 };
            let change = new - state.w[self.at(entry)];
            if change != 0.0 {
                state.w[self.at(entry)] = new;
                let column = self.forms[entry.j].q.row(entry.place);
                let rest = &mut state.rest[self.row(entry.j)];
                rest.iter_mut().zip(column).for_each(|(rest, q)| *rest -= change * q);
            }
        }
    }

    /// The objective.
    fn value(&self, state: &State) -> f64 {
        let slopes = self.forms.iter().flat_map(|form| &form.c);
        let rows: f64 = state
            .w
            .iter()
            .zip(&state.rest)
            .zip(slopes)
            // ½ wᵀQw − cᵀw = −½ wᵀ(c + (c − Qw)).
            .map(|((w, rest), c)| -0.5 * w * (c + rest) + self.weights.single * w.abs())
            .sum();
        rows + self.weights.group * self.columns.iter().map(|column| self.norm(state, column)).sum::<f64>()
    }

    fn norm(&self, state: &State, column: &[Entry]) -> f64 {
        column.iter().map(|&entry| state.w[self.at(entry)].powi(2)).sum::<f64>().sqrt()
    }

    fn violation(&self, state: &State) -> f64 {
        let GroupPenalty { single, group } = self.weights;
        // Slopes of coefficients are those of entries times their multipliers.
        let multiplier = |entry: &Entry| self.forms[entry.j].multipliers[entry.place];
        let mut worst = 0.0f64;
        for column in &self.columns {
            let norm = self.norm(state, column);
            if norm == 0.0 {
                let size = |&entry: &Entry| soft(state.rest[self.at(entry)], single).powi(2);
                let largest = column.iter().map(multiplier).fold(0.0, f64::max);
                worst = worst.max(largest * (column.iter().map(size).sum::<f64>().sqrt() - group));
                continue;
            }
            for &entry in column {
                let w = state.w[self.at(entry)];
                let pull = state.rest[self.at(entry)] - group * w / norm;
                let miss = if w == 0.0 {
                    (pull.abs() - single).max(0.0)
                } else {
                    (pull - single * w.signum()).abs()
                };
                worst = worst.max(multiplier(&entry) * miss);
            }
        }
        worst / self.scale
    }
}

/// The norm ρ of the column's minimum: Σ s² / (q ρ + l₂)² = 1, by Newton's method on a falling convex function from its left
/// end, which never overshoots.
fn radius(pull: &[(Entry, f64, f64)], norm: f64, group: f64) -> f64 {
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
fn extrapolated(history: &[Vec<f64>]) -> Option<Vec<f64>> {
    let k = history.len() - 1;
    let step = |a: usize| history[a + 1].iter().zip(&history[a]).map(|(new, old)| new - old);
    let mut gram = Mat::from_fn(k, k, |a, b| step(a).zip(step(b)).map(|(a, b)| a * b).sum::<f64>());
    let trace: f64 = (0..k).map(|a| gram[(a, a)]).sum();
    (0..k).for_each(|a| gram[(a, a)] += 1e-12 * trace);
    let mut ones = Mat::full(k, 1, 1.0);
    Cholesky::of(gram.as_ref())?.solve_in_place(ones.as_mut());
    let total: f64 = (0..k).map(|a| ones[(a, 0)]).sum();
    if !(total.is_finite() && total > 0.0) {
        return None;
    }
    let mut sum = vec![0.0; history[0].len()];
    for a in 0..k {
        let share = ones[(a, 0)] / total;
        sum.iter_mut().zip(&history[a + 1]).for_each(|(sum, w)| *sum += share * w);
    }
    // Zeros stay zero, because a sum of zeros is zero.
    sum.iter().all(|w| w.is_finite()).then_some(sum)
}
