//! Minimises a quadratic form with a penalty.
//!
//! Two kinds of steps alternate. A proximal step on all unknowns selects the support and never increases the objective. On the
//! support the penalty is smooth, so conjugate gradients solve for the minimum; a step ends where an effect would change its
//! sign. When the proximal step changes no more signs, the result of conjugate gradients is the minimum.

use super::dot;
use super::form::QuadraticForm;
use super::metric::Metric;
use super::nonsmooth::Nonsmooth;
use super::proximal;
use crate::{Progress, Result};

/// By how much a solution reduces slopes where groups bend the penalty.
const LOOSE: f64 = 0.03;
/// Proximal steps without a change of signs, after which there may be no more.
const SETTLED: u32 = 5;
/// By how much solutions on a support are held tighter than the conditions of the minimum.
const TIGHTER: f64 = 0.2;
/// Products of one solution at most.
const MOST_PRODUCTS: u32 = 500;
/// The most rounds without progress, which rounding prevents.
const PATIENCE: u32 = 20;
/// Points that a line is searched at.
const LINE_STEPS: usize = 50;
/// By how much steps become shorter that were too long.
const SHORTER: f64 = 1.1;
/// Effects join that miss the conditions of a minimum by this share of the worst.
const JOIN: f64 = 0.5;
/// Products that a largest curvature is found by.
const POWERS: usize = 4;
/// Rounds in which noises reach their bounds, where effects are held.
const HELD_ROUNDS: usize = 6;

/// Where a search is: t and the slopes of the form there.
#[derive(Clone)]
pub(super) struct State {
    pub t: Vec<f64>,
    pub slopes: Vec<f64>,
}

/// A direction and the form's product with it.
struct Direction {
    by: Vec<f64>,
    product: Vec<f64>,
}

pub(super) struct Descent<'a> {
    pub form: &'a mut dyn QuadraticForm,
    pub nonsmooth: &'a Nonsmooth,
    pub metric: &'a mut Metric,
    pub progress: &'a Progress,
    /// Products with the form, and how many there may be.
    pub steps: u32,
    pub most: u32,
}

impl Descent<'_> {
    /// The exact slopes at t.
    pub(super) fn value_and_slopes(&mut self, t: Vec<f64>) -> Result<State> {
        let mut slopes = vec![0.0; t.len()];
        self.form.value_and_slopes(&t, &mut slopes, self.progress)?;
        self.steps += 1;
        Ok(State { t, slopes })
    }

    fn product(&mut self, by: &[f64]) -> Result<Vec<f64>> {
        let mut out = vec![0.0; by.len()];
        self.form.product(by, &mut out, self.progress)?;
        self.steps += 1;
        let size = dot(by, &self.metric.times(by));
        if size > 0.0 {
            self.metric.see(dot(by, &out) / size)?;
        }
        Ok(out)
    }

    /// The largest curvature relative to the metric's over some unknowns, about.
    pub(super) fn probe(&mut self, moves: &[bool]) -> Result<f64> {
        let none = vec![0.0; moves.len()];
        let factors = self.metric.factors(moves, &none);
        // A start for the power iteration that is no eigenvector.
        let any = |k: usize| 0.2 + ((k * 2_654_435_761) % 1000) as f64 / 1000.0;
        let mut by: Vec<f64> = (0..moves.len())
            .map(|k| if moves[k] { any(k) / self.metric.diagonal[k].sqrt() } else { 0.0 })
            .collect();
        let mut largest = 0.0;
        for _ in 0..POWERS {
            let size = dot(&by, &self.metric.times(&by));
            if size == 0.0 {
                break;
            }
            by.iter_mut().for_each(|by| *by /= size.sqrt());
            let mut product = vec![0.0; by.len()];
            self.form.product(&by, &mut product, self.progress)?;
            self.steps += 1;
            largest = dot(&by, &product);
            by = factors.solve(&product);
        }
        Ok(largest)
    }

    /// From t on, until the conditions of a minimum are missed by at most `tolerance`, in slopes of coefficients, or rounding
    /// allows no better.
    pub(super) fn minimise(&mut self, t: Vec<f64>, tolerance: f64) -> Result<Vec<f64>> {
        let mut state = self.value_and_slopes(t)?;
        let mut best = (state.t.clone(), self.nonsmooth.violation(&state.t, &state.slopes));
        let (mut failures, mut settled) = (0, 0);
        while best.1 > tolerance && failures < PATIENCE && self.steps < self.most {
            self.accelerated(&mut state, settled, tolerance)?;
            let moves = self.nonsmooth.movable(&state.t, &state.slopes);
            let share = if self.nonsmooth.has_groups() { LOOSE } else { 0.0 };
            let straight = self.newton(&mut state, &moves, share, TIGHTER * tolerance)?;
            state = self.value_and_slopes(state.t)?;
            let missed = self.nonsmooth.violation(&state.t, &state.slopes);
            failures = match missed < 0.9 * best.1 {
                true => 0,
                // Where signs change, the worst slope need not fall every time.
                false => failures + if straight { PATIENCE / 4 } else { 1 },
            };
            // After a full step, one more step checks whether signs stay.
            settled = if straight { SETTLED - 1 } else { 0 };
            if missed < best.1 {
                best = (state.t.clone(), missed);
            }
        }
        Ok(best.0)
    }

    /// Accelerated proximal steps until signs stay as they are.
    fn accelerated(&mut self, state: &mut State, mut settled: u32, tolerance: f64) -> Result<()> {
        let (mut before, mut momentum) = (state.clone(), 1.0f64);
        while settled < SETTLED && self.steps < self.most {
            let next = 0.5 * (1.0 + (1.0 + 4.0 * momentum * momentum).sqrt());
            let share = (momentum - 1.0) / next;
            let ahead = |now: &[f64], before: &[f64]| -> Vec<f64> {
                now.iter().zip(before).map(|(now, before)| now + share * (now - before)).collect()
            };
            let y = ahead(&state.t, &before.t);
            let slopes = ahead(&state.slopes, &before.slopes);
            let joining = self.nonsmooth.joining(&state.t, &state.slopes, JOIN);
            let z = proximal::step(self.nonsmooth, self.metric, &y, &slopes, &state.t, &joining);
            let by: Vec<f64> = z.iter().zip(&state.t).map(|(z, t)| z - t).collect();
            let product = self.product(&by)?;
            // Whether the metric's curvature was enough between y and z.
            let away: Vec<f64> = z.iter().zip(&y).map(|(z, y)| z - y).collect();
            let curved: Vec<f64> = product
                .iter()
                .zip(&state.slopes)
                .zip(&slopes)
                .map(|((p, now), ahead)| p + now - ahead)
                .collect();
            let metric = self.metric.times(&away);
            let (found, expected) = (dot(&away, &curved), self.metric.steepness * dot(&away, &metric));
            if found > 1.001 * expected && expected > 0.0 {
                self.metric.steepness *= SHORTER * found / expected;
                (before, momentum) = (state.clone(), 1.0);
                continue;
            }
            // Restarts without momentum if it leads backwards.
            let back = -dot(&metric, &by) > 0.0;
            settled = if signs(&z) == signs(&state.t) { settled + 1 } else { 0 };
            before = std::mem::replace(
                state,
                State { slopes: state.slopes.iter().zip(&product).map(|(s, p)| s + p).collect(), t: z },
            );
            momentum = if back { 1.0 } else { next };
            if self.nonsmooth.violation(&state.t, &state.slopes) <= tolerance {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Optimises all other unknowns for fixed penalised effects.
    pub(super) fn hold_effects(&mut self, t: Vec<f64>) -> Result<State> {
        let mut state = self.value_and_slopes(t)?;
        for _ in 0..HELD_ROUNDS {
            let mut moves = self.nonsmooth.movable(&state.t, &state.slopes);
            moves
                .iter_mut()
                .zip(&self.nonsmooth.penalised)
                .for_each(|(moves, penalised)| *moves &= !penalised);
            if self.newton(&mut state, &moves, 1e-6, 0.0)? {
                break;
            }
        }
        Ok(state)
    }

    /// Towards the minimum over the unknowns that move, until slopes there are `share` of what they were or `enough`. Returns
    /// whether the step was full: no sign changed and no bound was reached.
    fn newton(&mut self, state: &mut State, moves: &[bool], share: f64, enough: f64) -> Result<bool> {
        let mut slopes = state.slopes.clone();
        self.nonsmooth.add_slope(&state.t, &mut slopes);
        slopes.iter_mut().zip(moves).for_each(|(slope, moves)| *slope = if *moves { *slope } else { 0.0 });
        let goal = enough.max(share * self.nonsmooth.largest(&slopes));
        let Some(direction) = self.conjugate(&state.t, &slopes, moves, goal)? else { return Ok(true) };
        let Direction { by, product } = &direction;
        let mut moved: Vec<f64> = state.t.iter().zip(by).map(|(t, by)| t + by).collect();
        let crosses = self.nonsmooth.project(&state.t, &mut moved);
        if !crosses && !self.nonsmooth.has_groups() {
            state.t = moved;
            state.slopes.iter_mut().zip(product).for_each(|(slope, product)| *slope += product);
            return Ok(true);
        }
        let (along, curvature) = (dot(&state.slopes, by), dot(by, product));
        let before = self.nonsmooth.value(&state.t);
        let line = |length: f64| -> f64 {
            let there: Vec<f64> = state.t.iter().zip(by).map(|(t, by)| t + length * by).collect();
            length * along + 0.5 * length * length * curvature + self.nonsmooth.value(&there) - before
        };
        // Differences this small are rounding.
        let nothing = 1e-14 * (before + along.abs() + curvature);
        if !crosses && line(1.0) <= nothing {
            state.t = moved;
            state.slopes.iter_mut().zip(product).for_each(|(slope, product)| *slope += product);
            return Ok(true);
        }
        let longest = self.nonsmooth.longest(&state.t, by);
        let length = lowest(&line, longest);
        if crosses {
            let change: Vec<f64> = moved.iter().zip(&state.t).map(|(moved, t)| moved - t).collect();
            let product = self.product(&change)?;
            let lower =
                dot(&state.slopes, &change) + 0.5 * dot(&change, &product) + self.nonsmooth.value(&moved)
                    - before;
            if lower <= (0.5 * line(length)).min(nothing) {
                state.t = moved;
                state.slopes.iter_mut().zip(&product).for_each(|(slope, product)| *slope += product);
                return Ok(false);
            }
        }
        for k in 0..state.t.len() {
            state.t[k] = (state.t[k] + length * by[k]).max(self.nonsmooth.least[k]);
            state.slopes[k] += length * product[k];
        }
        Ok(false)
    }

    /// Conjugate gradients for the step that makes `slopes` 0 where unknowns move.
    fn conjugate(
        &mut self,
        t: &[f64],
        slopes: &[f64],
        moves: &[bool],
        goal: f64,
    ) -> Result<Option<Direction>> {
        let size = t.len();
        let mut rest: Vec<f64> = slopes.iter().map(|slope| -slope).collect();
        if self.nonsmooth.largest(&rest) <= goal {
            return Ok(None);
        }
        let factors = self.metric.factors(moves, &self.nonsmooth.diagonal(t));
        let mut found = Direction { by: vec![0.0; size], product: vec![0.0; size] };
        let mut towards = factors.solve(&rest);
        let mut pull = dot(&rest, &towards);
        let mut step = towards.clone();
        for _ in 0..MOST_PRODUCTS {
            let product = self.product(&step)?;
            let mut curved = product.clone();
            self.nonsmooth.add_curvature(t, &step, &mut curved);
            curved
                .iter_mut()
                .zip(moves)
                .for_each(|(value, moves)| *value = if *moves { *value } else { 0.0 });
            let curvature = dot(&step, &curved);
            if curvature <= 0.0 || pull <= 0.0 {
                break;
            }
            let length = pull / curvature;
            for k in 0..size {
                found.by[k] += length * step[k];
                found.product[k] += length * product[k];
                rest[k] -= length * curved[k];
            }
            if self.nonsmooth.largest(&rest) <= goal || self.steps >= self.most {
                break;
            }
            towards = factors.solve(&rest);
            let next = dot(&rest, &towards);
            let share = next / pull;
            pull = next;
            step.iter_mut().zip(&towards).for_each(|(step, towards)| *step = towards + share * *step);
        }
        Ok(Some(found))
    }
}

fn signs(t: &[f64]) -> Vec<i8> {
    t.iter().map(|t| if *t == 0.0 { 0 } else { t.signum() as i8 }).collect()
}

/// Where a convex function of a length is lowest, by golden sections.
fn lowest(of: &dyn Fn(f64) -> f64, longest: f64) -> f64 {
    let golden = 0.5 * (5.0f64.sqrt() - 1.0);
    let (mut low, mut high) = (0.0, longest);
    let (mut a, mut b) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_a, mut at_b) = (of(a), of(b));
    for _ in 0..LINE_STEPS {
        if at_a <= at_b {
            (high, b, at_b) = (b, a, at_a);
            a = high - golden * (high - low);
            at_a = of(a);
        } else {
            (low, a, at_a) = (a, b, at_b);
            b = low + golden * (high - low);
            at_b = of(b);
        }
    }
    0.5 * (low + high)
}
