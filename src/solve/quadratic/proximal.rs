//! One proximal step in the metric of SKDS' blocks: the minimum of
//!
//! ```text
//! slopesᵀ(z − y) + ½ L (z − y)ᵀ M (z − y) + penalty(z)
//! ```
//!
//! by going round the entries that may change. Without groups every row has a problem of its own.

use super::metric::Metric;
use super::nonsmooth::Nonsmooth;
use crate::Matrix;
use rayon::prelude::*;

/// Rounds at most: a step that is not quite the best one still goes down.
const ROUNDS: usize = 300;
/// Done when slopes change by less than this share of what they changed by in the first round.
const ENOUGH: f64 = 1e-4;

/// One row of the problem: the entries that may change.
struct Row {
    members: Vec<usize>,
    block: Option<Matrix<f64>>,
    diagonal: Vec<f64>,
    z: Vec<f64>,
    /// slopes + L M (z − y).
    rest: Vec<f64>,
}

impl Row {
    fn q(&self, a: usize, steepness: f64) -> f64 {
        steepness * self.diagonal[a]
    }

    /// Sets an entry, and says by how much slopes changed.
    fn set(&mut self, a: usize, value: f64, steepness: f64) -> f64 {
        let change = value - self.z[a];
        if change == 0.0 {
            return 0.0;
        }
        self.z[a] = value;
        let by = steepness * change;
        match &self.block {
            Some(block) => {
                self.rest.iter_mut().zip(block.row(a)).for_each(|(rest, entry)| *rest += by * entry);
            }
            None => self.rest[a] += by * self.diagonal[a],
        }
        (by * self.diagonal[a]).abs()
    }

    /// One round of single entries, of all or of those without a penalty.
    fn round(&mut self, nonsmooth: &Nonsmooth, steepness: f64, all: bool) -> f64 {
        let mut worst = 0.0f64;
        for a in 0..self.z.len() {
            let k = self.members[a];
            if all || !nonsmooth.penalised[k] {
                let q = self.q(a, steepness);
                let value = nonsmooth.single(k, q, q * self.z[a] - self.rest[a]);
                worst = worst.max(self.set(a, value, steepness));
            }
        }
        worst
    }
}

/// z, beginning at `from`; entries that do not join stay what they are in `from`, which is 0 or a bound.
pub(super) fn step(
    nonsmooth: &Nonsmooth,
    metric: &Metric,
    y: &[f64],
    slopes: &[f64],
    from: &[f64],
    joining: &[bool],
) -> Vec<f64> {
    let steepness = metric.steepness;
    let away: Vec<f64> = from.iter().zip(y).map(|(from, y)| from - y).collect();
    let moved = metric.times(&away);
    let mut rows: Vec<Row> = metric
        .blocks(joining)
        .into_iter()
        .map(|(members, block)| Row {
            block,
            diagonal: members.iter().map(|&k| metric.diagonal[k]).collect(),
            z: members.iter().map(|&k| from[k]).collect(),
            rest: members.iter().map(|&k| slopes[k] + steepness * moved[k]).collect(),
            members,
        })
        .collect();
    match nonsmooth.has_groups() {
        false => rows.par_iter_mut().for_each(|row| {
            until_enough(|| row.round(nonsmooth, steepness, true));
        }),
        true => {
            let mut places = vec![(0, 0); from.len()];
            for (j, row) in rows.iter().enumerate() {
                row.members.iter().enumerate().for_each(|(a, &k)| places[k] = (j, a));
            }
            let (mut pulls, mut out) = (Vec::new(), Vec::new());
            until_enough(|| {
                let single = rows.iter_mut().map(|row| row.round(nonsmooth, steepness, false));
                let mut worst = single.fold(0.0, f64::max);
                for members in nonsmooth.groups() {
                    pulls.clear();
                    for &k in members.iter().filter(|&&k| joining[k]) {
                        let (j, a) = places[k];
                        let q = rows[j].q(a, steepness);
                        pulls.push((k, q, q * rows[j].z[a] - rows[j].rest[a]));
                    }
                    out.resize(pulls.len(), 0.0);
                    nonsmooth.grouped(&mut pulls, &mut out);
                    for ((k, _, _), value) in pulls.iter().zip(&out) {
                        let (j, a) = places[*k];
                        worst = worst.max(rows[j].set(a, *value, steepness));
                    }
                }
                worst
            });
        }
    }
    let mut z = from.to_vec();
    for row in &rows {
        row.members.iter().zip(&row.z).for_each(|(&k, value)| z[k] = *value);
    }
    z
}

fn until_enough(mut round: impl FnMut() -> f64) {
    let first = round();
    for _ in 1..ROUNDS {
        if round() <= ENOUGH * first {
            break;
        }
    }
}
