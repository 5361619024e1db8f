//! The nonsmooth part of the objective: the penalty on single entries and groups, and the lower bounds of noises.
//!
//! ```text
//! l₁ Σ |t_k| + l₂ Σ_groups ‖t_group‖₂      over penalised entries
//! ```

use super::unknowns::Unknowns;
use crate::model::{Penalty, PenaltyKind};

/// Steps of the root of a group's size.
const ROOT_STEPS: usize = 100;

/// The penalty and the bounds of all unknowns.
pub(super) struct Nonsmooth {
    single: f64,
    group: f64,
    /// Members of each group.
    groups: Vec<Vec<usize>>,
    /// Whether an entry is in a group.
    pub penalised: Vec<bool>,
    /// Slopes times this are those of coefficients.
    multipliers: Vec<f64>,
    /// The least value of each entry.
    pub least: Vec<f64>,
}

pub(super) fn soft(value: f64, by: f64) -> f64 {
    value.signum() * (value.abs() - by).max(0.0)
}

fn norm(members: &[usize], t: &[f64]) -> f64 {
    members.iter().map(|&k| t[k] * t[k]).sum::<f64>().sqrt()
}

impl Nonsmooth {
    pub(super) fn new(unknowns: &Unknowns, least: Vec<f64>) -> Nonsmooth {
        let mut groups: Vec<Vec<usize>> = vec![Vec::new(); unknowns.features];
        let places = unknowns.groups();
        places.iter().enumerate().for_each(|(k, group)| {
            if let Some(group) = group {
                groups[*group].push(k);
            }
        });
        let penalised = places.iter().map(Option::is_some).collect();
        Nonsmooth { single: 0.0, group: 0.0, groups, penalised, multipliers: unknowns.multipliers(), least }
    }

    /// Sets the penalty.
    pub(super) fn set(&mut self, penalty: Option<Penalty>, dim: usize) {
        let strength = |penalty: Penalty| penalty.lambda / (dim * dim) as f64;
        let weight = |without: PenaltyKind| match penalty {
            Some(penalty) if penalty.kind != without => strength(penalty),
            _ => 0.0,
        };
        self.single = weight(PenaltyKind::Outgoing);
        self.group = weight(PenaltyKind::Ingoing);
    }

    /// Whether the penalty has groups.
    pub(super) fn has_groups(&self) -> bool {
        self.group > 0.0
    }

    /// The penalty.
    pub(super) fn value(&self, t: &[f64]) -> f64 {
        let mut value = 0.0;
        for members in &self.groups {
            value += self.single * members.iter().map(|&k| t[k].abs()).sum::<f64>();
            if self.group > 0.0 {
                value += self.group * norm(members, t);
            }
        }
        value
    }

    /// The entries that can move without a kink: on the way to a minimum, all others stay.
    pub(super) fn movable(&self, t: &[f64], slopes: &[f64]) -> Vec<bool> {
        let mut movable: Vec<bool> = (0..t.len()).map(|k| t[k] > self.least[k] || slopes[k] < 0.0).collect();
        for members in &self.groups {
            let whole = self.group == 0.0 || norm(members, t) > 0.0;
            members.iter().for_each(|&k| movable[k] = whole && (self.single == 0.0 || t[k] != 0.0));
        }
        movable
    }

    /// The entries that a step may change: all that can move, and of the others those that miss the conditions of a minimum by
    /// more than `share` of the worst. Adding few at a time avoids wrong ones.
    pub(super) fn joining(&self, t: &[f64], slopes: &[f64], share: f64) -> Vec<bool> {
        let mut joining = self.movable(t, slopes);
        let mut excess = vec![0.0; t.len()];
        let mut worst = 0.0f64;
        for members in &self.groups {
            let still = self.group > 0.0 && norm(members, t) == 0.0;
            let pull = |k: usize| soft(slopes[k], self.single);
            let whole = members.iter().map(|&k| pull(k).powi(2)).sum::<f64>().sqrt() - self.group;
            for &k in members.iter().filter(|&&k| !joining[k]) {
                let miss = if still { whole } else { pull(k).abs() };
                excess[k] = self.multipliers[k] * miss;
                worst = worst.max(excess[k]);
            }
        }
        for (joins, excess) in joining.iter_mut().zip(excess) {
            *joins |= excess > 0.0 && excess >= share * worst;
        }
        joining
    }

    /// Adds the penalty's slope at entries that can move.
    pub(super) fn add_slope(&self, t: &[f64], slopes: &mut [f64]) {
        for members in &self.groups {
            let size = if self.group > 0.0 { norm(members, t) } else { 0.0 };
            for &k in members.iter().filter(|&&k| self.single == 0.0 || t[k] != 0.0) {
                slopes[k] += self.single * t[k].signum();
                if size > 0.0 {
                    slopes[k] += self.group * t[k] / size;
                }
            }
        }
    }

    /// Adds what the curvature of groups at t makes of a direction, where it moves.
    pub(super) fn add_curvature(&self, t: &[f64], direction: &[f64], out: &mut [f64]) {
        if self.group == 0.0 {
            return;
        }
        for members in &self.groups {
            let size = norm(members, t);
            if size > 0.0 {
                let along = members.iter().map(|&k| t[k] * direction[k]).sum::<f64>() / (size * size);
                for &k in members.iter().filter(|&&k| self.single == 0.0 || t[k] != 0.0) {
                    out[k] += self.group / size * (direction[k] - along * t[k]);
                }
            }
        }
    }

    /// The curvature that groups add at each entry at most.
    pub(super) fn diagonal(&self, t: &[f64]) -> Vec<f64> {
        let mut diagonal = vec![0.0; t.len()];
        if self.group > 0.0 {
            for members in &self.groups {
                let size = norm(members, t);
                if size > 0.0 {
                    members.iter().for_each(|&k| diagonal[k] = self.group / size);
                }
            }
        }
        diagonal
    }

    /// The groups, each with its members.
    pub(super) fn groups(&self) -> &[Vec<usize>] {
        &self.groups
    }

    /// What minimises ½ q t² − pull t with the penalty of a single entry, or within its bound.
    pub(super) fn single(&self, k: usize, q: f64, pull: f64) -> f64 {
        match self.penalised[k] {
            true => soft(pull, self.single) / q,
            false => (pull / q).max(self.least[k]),
        }
    }

    /// What minimises Σ ½ q_k t_k² − pull_k t_k with the penalty of a group; `pulls` has (k, q_k, pull_k).
    pub(super) fn grouped(&self, pulls: &mut [(usize, f64, f64)], out: &mut [f64]) {
        pulls.iter_mut().for_each(|(_, _, pull)| *pull = soft(*pull, self.single));
        let size = pulls.iter().map(|(_, _, pull)| pull * pull).sum::<f64>().sqrt();
        let radius = match size > self.group {
            true => radius(pulls, size, self.group),
            false => 0.0,
        };
        for (out, (_, q, pull)) in out.iter_mut().zip(pulls) {
            *out = if radius > 0.0 { *pull * radius / (*q * radius + self.group) } else { 0.0 };
        }
    }

    /// Ends a step from t at the first change of each sign, and at bounds; says whether it changed anything.
    pub(super) fn project(&self, t: &[f64], moved: &mut [f64]) -> bool {
        let mut changed = false;
        for k in 0..t.len() {
            let out = match self.penalised[k] {
                true => self.single > 0.0 && moved[k] * t[k] < 0.0,
                false => moved[k] < self.least[k],
            };
            if out {
                moved[k] = if self.penalised[k] { 0.0 } else { self.least[k] };
                changed = true;
            }
        }
        changed
    }

    /// The largest violation of the optimality conditions, in slopes of coefficients.
    pub(super) fn violation(&self, t: &[f64], slopes: &[f64]) -> f64 {
        let mut worst = 0.0f64;
        for members in &self.groups {
            let size = if self.group > 0.0 { norm(members, t) } else { 0.0 };
            if self.group > 0.0 && size == 0.0 {
                let pull = members.iter().map(|&k| soft(slopes[k], self.single).powi(2)).sum::<f64>().sqrt();
                let by = members.iter().fold(0.0f64, |m, &k| m.max(self.multipliers[k]));
                worst = worst.max(by * (pull - self.group).max(0.0));
                continue;
            }
            for &k in members {
                let miss = match t[k] {
                    0.0 if self.single > 0.0 => (slopes[k].abs() - self.single).max(0.0),
                    value => {
                        let share = if size > 0.0 { self.group * value / size } else { 0.0 };
                        (slopes[k] + share + self.single * value.signum()).abs()
                    }
                };
                worst = worst.max(self.multipliers[k] * miss);
            }
        }
        for k in (0..t.len()).filter(|&k| !self.penalised[k]) {
            let miss = if t[k] <= self.least[k] { (-slopes[k]).max(0.0) } else { slopes[k].abs() };
            worst = worst.max(miss);
        }
        worst
    }

    /// The largest slope of coefficients.
    pub(super) fn largest(&self, slopes: &[f64]) -> f64 {
        slopes.iter().zip(&self.multipliers).fold(0.0, |m, (slope, by)| m.max(by * slope.abs()))
    }

    /// How far a direction can be followed before a bound is reached, at most 1.
    pub(super) fn longest(&self, t: &[f64], by: &[f64]) -> f64 {
        let mut longest = 1.0f64;
        for k in (0..t.len()).filter(|&k| t[k] + by[k] < self.least[k]) {
            longest = longest.min((self.least[k] - t[k]) / by[k]);
        }
        longest.max(0.0)
    }

    /// The largest slope of penalised coefficients; of all others if there are none.
    pub(super) fn steepest(&self, slopes: &[f64]) -> f64 {
        let of = |penalised: bool| {
            (0..slopes.len())
                .filter(|&k| self.penalised[k] == penalised)
                .fold(0.0f64, |m, k| m.max(self.multipliers[k] * slopes[k].abs()))
        };
        if self.penalised.contains(&true) { of(true) } else { of(false) }
    }
}

/// The size r of a group of entries s r / (q r + l₂): where Σ (s / (q r + l₂))² = 1. The left side falls and is convex, so
/// Newton's steps from below rise to the root.
fn radius(pulls: &[(usize, f64, f64)], size: f64, group: f64) -> f64 {
    let largest = pulls.iter().fold(0.0f64, |m, (_, q, _)| m.max(*q));
    let mut r = (size - group) / largest;
    for _ in 0..ROOT_STEPS {
        let (mut value, mut slope) = (-1.0, 0.0);
        for &(_, q, s) in pulls {
            let below = q * r + group;
            let share = (s / below).powi(2);
            value += share;
            slope -= 2.0 * share * q / below;
        }
        let step = -value / slope;
        if step.is_nan() || step <= 1e-15 * r {
            break;
        }
        r += step;
    }
    r
}
