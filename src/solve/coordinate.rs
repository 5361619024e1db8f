//! The convex problem of one coordinate, reduced to what is penalised.
//!
//! Coordinate j of the loss involves the coefficients of its drift and its noise, and the shifts (and noises, where they
//! are learnt) of the environments that target j: a quadratic ½ tᵀHt + gᵀt + c in t = (w, n), where w is penalised and n
//! everything else. n is eliminated: with n = −H_nn⁻¹ (g_n + H_nw w) the problem left is ½ wᵀQw − cᵀw plus the penalty.
//! A noise that would come out below its least value is held there instead.

use super::design::Design;
use super::statistics::Statistics;
use crate::numeric::dense::{Cholesky, symmetric_eigenvalues};
use crate::{Error, Matrix, Result};
use faer::Mat;

/// A noise that stands alone is held at or above this: 0 has no logarithm, and no stationary law of full dimension.
pub(super) const LEAST_NOISE: f64 = 1e-8;
/// A form whose smallest eigenvalue is below minus this times the largest is not convex.
const INDEFINITE: f64 = 1e-12;
/// What the unpenalised functions of a basis are charged, relative to what they are charged already: functions that are
/// nearly alike on the data stay determined.
const RIDGE: f64 = 1e-11;

/// What coordinate j is made of.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub j: usize,
    /// Functions of the drift whose coefficients are penalised, in order.
    pub penalised: Vec<usize>,
    /// What their penalties are multiplied with. Entries of w are coefficients times this, so that all are penalised alike.
    pub multipliers: Vec<f64>,
    /// Functions of the drift whose coefficients are not penalised; the constant is among them. What is in neither list is
    /// held at 0.
    pub free: Vec<usize>,
    /// Functions of the noise.
    pub amounts: usize,
    /// What fixes the speed: a coefficient of this value, if all others are 0.
    pub fixed: (usize, f64),
    /// By how much each function's coefficient lowers the fixed one; empty if it does not.
    pub slopes: Vec<f64>,
    /// Coefficients are w times this, over their multiplier.
    unit: f64,
    ridge: f64,
    /// Environments that shift it.
    pub shifted: Vec<usize>,
    /// Environments that have a noise of their own.
    pub scaled: Vec<usize>,
}

impl Own {
    /// `known` has what the penalty of each variable's effect on j is multiplied with; infinity holds it at 0.
    pub(super) fn new(
        design: &Design,
        d: usize,
        j: usize,
        known: Option<&[f64]>,
        shifted: Vec<usize>,
        scaled: Vec<usize>,
    ) -> Self {
        let last = design.features(d) - 1;
        let pivot = match design {
            Design::Linear => j,
            Design::Basis { speed, .. } => speed.pivots[j],
        };
        let (mut penalised, mut multipliers, mut free) = (Vec::new(), Vec::new(), Vec::new());
        for p in (0..last).filter(|&p| p != pivot) {
            let multiplier = match known {
                _ if design.is_own(p, j) => 0.0,
                Some(known) => design.multiplier(p, j, known),
                None => 1.0,
            };
            if multiplier == 0.0 {
                free.push(p);
            } else if multiplier.is_finite() {
                penalised.push(p);
                multipliers.push(multiplier);
            }
        }
        free.push(last);
        match design {
            Design::Linear => Own {
                j,
                penalised,
                multipliers,
                free,
                amounts: 1,
                fixed: (j, -1.0),
                slopes: Vec::new(),
                unit: 1.0,
                ridge: 0.0,
                shifted,
                scaled,
            },
            Design::Basis { basis, speed } => Own {
                j,
                penalised,
                multipliers,
                free,
                amounts: basis.amounts(),
                fixed: (pivot, speed.alone[j]),
                slopes: speed.slopes.row(j).to_vec(),
                unit: basis.spread[j],
                ridge: RIDGE,
                shifted,
                scaled,
            },
        }
    }

    /// The penalised functions, and what entries of w are multiplied with to become their coefficients.
    pub(super) fn effects(&self) -> impl Iterator<Item = (usize, f64)> {
        self.penalised.iter().zip(&self.multipliers).map(|(&at, multiplier)| (at, self.unit / multiplier))
    }

    /// Everything that is sought: w first, then n.
    fn unknowns(&self, last: usize) -> Vec<Unknown> {
        let first_amount = last + 1;
        let shared = if self.scaled.is_empty() { Where::Everywhere } else { Where::Elsewhere };
        let plain = |at: usize, place: Where| Unknown { terms: vec![(at, 1.0)], place, least: None };
        let function = |at: usize, factor: f64| {
            let mut terms = vec![(at, factor)];
            if let Some(slope) = self.slopes.get(at).filter(|slope| **slope != 0.0) {
                terms.push((self.fixed.0, -factor * slope));
            }
            Unknown { terms, place: Where::Everywhere, least: None }
        };
        let mut all: Vec<Unknown> = self.effects().map(|(at, unit)| function(at, unit)).collect();
        all.extend(self.free.iter().map(|&at| function(at, 1.0)));
        // Some noise is always there; further amounts may vanish.
        let least = |k: usize| Some(if k == 0 { LEAST_NOISE } else { 0.0 });
        all.extend((0..self.amounts).map(|k| Unknown { least: least(k), ..plain(first_amount + k, shared) }));
        all.extend(self.shifted.iter().map(|&e| plain(last, Where::Only(e))));
        all.extend(
            self.scaled
                .iter()
                .map(|&e| Unknown { least: Some(LEAST_NOISE), ..plain(first_amount, Where::Only(e)) }),
        );
        all
    }
}

/// In which environments a coefficient acts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Where {
    Everywhere,
    /// Where the noise is not the environment's own.
    Elsewhere,
    Only(usize),
}

/// One entry of t.
struct Unknown {
    /// Which coefficients it adds to, and by which factors.
    terms: Vec<(usize, f64)>,
    place: Where,
    least: Option<f64>,
}

/// Sums of entries of an environment's form over environments.
struct Forms<'a> {
    own: &'a Own,
    all: &'a [Statistics],
    sum: &'a Statistics,
}

impl Forms<'_> {
    /// Over the environments where both unknowns act.
    fn between(&self, u: &Unknown, v: &Unknown) -> f64 {
        let mut sum = 0.0;
        for &(a, factor_a) in &u.terms {
            for &(b, factor_b) in &v.terms {
                sum += factor_a * factor_b * self.entry((a, u.place), (b, v.place));
            }
        }
        sum
    }

    /// Over the environments where both coefficients act.
    fn entry(&self, (a, place_a): (usize, Where), (b, place_b): (usize, Where)) -> f64 {
        let j = self.own.j;
        let of = |e: usize| self.all[e].entry(j, a, b);
        match (place_a, place_b) {
            (Where::Everywhere, Where::Everywhere) => self.sum.entry(j, a, b),
            (Where::Only(e), Where::Only(f)) => {
                if e == f {
                    of(e)
                } else {
                    0.0
                }
            }
            (Where::Only(e), Where::Elsewhere) | (Where::Elsewhere, Where::Only(e)) => {
                if self.own.scaled.contains(&e) { 0.0 } else { of(e) }
            }
            (Where::Only(e), Where::Everywhere) | (Where::Everywhere, Where::Only(e)) => of(e),
            _ => self.sum.entry(j, a, b) - self.own.scaled.iter().map(|&e| of(e)).sum::<f64>(),
        }
    }
}

/// H, g and c of coordinate `own.j`, entry by entry.
pub(super) struct Entries<'a> {
    forms: Forms<'a>,
    unknowns: Vec<Unknown>,
    fixed: Unknown,
    factor: f64,
}

impl<'a> Entries<'a> {
    /// Of the mean over `environments`; `sum` is the sum of their statistics.
    pub(super) fn new(
        own: &'a Own,
        all: &'a [Statistics],
        environments: usize,
        sum: &'a Statistics,
    ) -> Entries<'a> {
        let unknowns = own.unknowns(sum.drift.rows() - 1);
        let fixed = Unknown { terms: vec![own.fixed], place: Where::Everywhere, least: None };
        Entries { forms: Forms { own, all, sum }, unknowns, fixed, factor: 2.0 / environments as f64 }
    }

    pub(super) fn len(&self) -> usize {
        self.unknowns.len()
    }

    /// What is added to an entry of the diagonal, relative to it.
    fn ridge(&self, a: usize) -> f64 {
        let own = self.forms.own;
        let free = own.penalised.len()..own.penalised.len() + own.free.len();
        if free.contains(&a) { own.ridge } else { 0.0 }
    }

    /// H_ab.
    pub(super) fn entry(&self, a: usize, b: usize) -> f64 {
        let plain = self.factor * self.forms.between(&self.unknowns[a], &self.unknowns[b]);
        if a == b { plain * (1.0 + self.ridge(a)) } else { plain }
    }

    /// What the ridge adds to H_aa.
    pub(super) fn charge(&self, a: usize) -> f64 {
        match self.ridge(a) {
            0.0 => 0.0,
            ridge => ridge * self.factor * self.forms.between(&self.unknowns[a], &self.unknowns[a]),
        }
    }

    /// g_a.
    fn slope(&self, a: usize) -> f64 {
        self.factor * self.forms.between(&self.unknowns[a], &self.fixed)
    }

    fn constant(&self) -> f64 {
        0.5 * self.factor * self.forms.between(&self.fixed, &self.fixed)
    }

    /// The least value of an entry of t, if there is one.
    pub(super) fn least(&self, a: usize) -> Option<f64> {
        self.unknowns[a].least
    }
}

/// Everything about coordinate j: H, g and c.
pub(super) struct Coordinate {
    pub own: Own,
    /// Of (w, n).
    h: Matrix<f64>,
    g: Vec<f64>,
    constant: f64,
    /// The least values of n.
    least: Vec<Option<f64>>,
    /// Functions of the drift.
    features: usize,
}

/// The problem of w alone: ½ wᵀQw − cᵀw, but for a constant.
pub(super) struct Reduced {
    pub q: Matrix<f64>,
    pub c: Vec<f64>,
    /// What entries of w were multiplied with: slopes times this are those of the coefficients.
    pub multipliers: Vec<f64>,
    /// H_nn⁻¹ (g_n, H_nw), to find n again; rows of free nuisances only.
    back: Matrix<f64>,
    /// Which entries of n are free; the others are at their least value.
    free: Vec<usize>,
}

/// What a coordinate was found to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    /// Of the drift's functions, with the one that is fixed.
    pub coefficients: Vec<f64>,
    /// Of the noise's.
    pub amounts: Vec<f64>,
    /// Of the environments in `Own::shifted`.
    pub shifts: Vec<f64>,
    /// Of the environments in `Own::scaled`.
    pub noises: Vec<f64>,
    /// What is penalised.
    pub w: Vec<f64>,
    /// Without the penalty.
    pub loss: f64,
    /// By how much w, or what is not penalised relative to g, miss their optimality conditions.
    pub violation: f64,
}

impl Coordinate {
    /// Assembles the mean over `environments` of the loss of coordinate `own.j`; `sum` is the sum of their statistics.
    pub(super) fn new(own: Own, all: &[Statistics], environments: usize, sum: &Statistics) -> Self {
        let features = sum.drift.rows();
        let entries = Entries::new(&own, all, environments, sum);
        let size = entries.len();
        let mut h = Matrix::full(size, size, 0.0);
        for a in 0..size {
            for b in 0..=a {
                let entry = entries.entry(a, b);
                h[(a, b)] = entry;
                h[(b, a)] = entry;
            }
        }
        let g = (0..size).map(|a| entries.slope(a)).collect();
        let constant = entries.constant();
        let least = (own.penalised.len()..size).map(|a| entries.least(a)).collect();
        Coordinate { h, g, constant, least, features, own }
    }

    fn effects(&self) -> usize {
        self.own.penalised.len()
    }

    fn nuisances(&self) -> usize {
        self.least.len()
    }

    /// The smallest eigenvalue of H divided by the largest, as it is without multipliers.
    pub(super) fn convexity(&self) -> Result<f64> {
        let multiplier = |a: usize| self.own.multipliers.get(a).copied().unwrap_or(1.0);
        let size = self.h.rows();
        let plain = Matrix::from_fn(size, size, |a, b| self.h[(a, b)] * multiplier(a) * multiplier(b));
        let values = symmetric_eigenvalues(plain.view())?;
        let largest = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        Ok(if largest > 0.0 { values[0] / largest } else { 0.0 })
    }

    /// Whether the form is convex but for rounding.
    pub(super) fn is_convex(&self) -> Result<bool> {
        Ok(self.convexity()? >= -INDEFINITE)
    }

    /// Eliminates n, with the noises in `held` held at their least value.
    pub(super) fn reduce(&self, held: &[usize]) -> Result<Reduced> {
        let (w, all) = (self.effects(), self.nuisances());
        let free: Vec<usize> = (0..all).filter(|k| !held.contains(k)).collect();
        let k = free.len();
        let at = |n: usize| w + n;
        let block = Mat::from_fn(k, k, |a, b| self.h[(at(free[a]), at(free[b]))]);
        // What held noises add to g.
        let least = |n: usize| self.least[n].unwrap_or(0.0);
        let moved = |row: usize| held.iter().map(|&n| self.h[(row, at(n))] * least(n)).sum::<f64>();
        let mut back = Matrix::from_fn(k, 1 + w, |a, col| match col {
            0 => self.g[at(free[a])] + moved(at(free[a])),
            col => self.h[(at(free[a]), col - 1)],
        });
        let right = back.clone();
        let cholesky = Cholesky::of(block.as_ref()).ok_or_else(|| {
            Error::NonFinite(format!(
                "what variable {} does by itself (bias, noise, shifts{}) is not determined by the data: is it constant, or an \
                 environment tiny?",
                self.own.j,
                if self.own.free.len() > 1 { ", effects that are not penalised" } else { "" }
            ))
        })?;
        cholesky.solve_in_place(back.view_mut());
        // Q = H_ww − H_wn (H_nn⁻¹ H_nw), and alike for c and the constant.
        let inner = |p: usize, q: usize| (0..k).map(|a| right[(a, p)] * back[(a, q)]).sum::<f64>();
        let mut q = Matrix::full(w, w, 0.0);
        for a in 0..w {
            for b in 0..=a {
                let value = self.h[(a, b)] - inner(a + 1, b + 1);
                q[(a, b)] = value;
                q[(b, a)] = value;
            }
        }
        let c = (0..w).map(|a| -(self.g[a] + moved(a)) + inner(a + 1, 0)).collect();
        Ok(Reduced { q, c, multipliers: self.own.multipliers.clone(), back, free })
    }

    /// All of t for these effects, where a noise that is held is its least value.
    fn complete(&self, reduced: &Reduced, w: &[f64]) -> Vec<f64> {
        let mut t = w.to_vec();
        t.extend(self.least.iter().map(|least| least.unwrap_or(0.0)));
        for (a, &n) in reduced.free.iter().enumerate() {
            let row = reduced.back.row(a);
            let sum: f64 = row[1..].iter().zip(w).map(|(h, w)| h * w).sum();
            t[w.len() + n] = -(row[0] + sum);
        }
        t
    }

    /// ½ tᵀHt + gᵀt + c and its derivative.
    fn evaluate(&self, t: &[f64]) -> (f64, Vec<f64>) {
        let slope: Vec<f64> = (0..t.len())
            .map(|a| self.g[a] + self.h.row(a).iter().zip(t).map(|(h, t)| h * t).sum::<f64>())
            .collect();
        let value = 0.5 * t.iter().zip(&slope).zip(&self.g).map(|((t, s), g)| t * (s + g)).sum::<f64>();
        (value + self.constant, slope)
    }

    /// Which noises shall be held, given the effects found with `held` of them held: none changed means that this is the
    /// constrained minimum, as far as noises are concerned.
    pub(super) fn noises_to_hold(&self, reduced: &Reduced, w: &[f64], held: &[usize]) -> Vec<usize> {
        let t = self.complete(reduced, w);
        let (_, slope) = self.evaluate(&t);
        let scale = self.g.iter().fold(0.0f64, |m, g| m.max(g.abs()));
        let bounded = |n: usize| self.least[n].map(|least| (n, least));
        (0..self.nuisances())
            .filter_map(bounded)
            .filter(|(n, least)| {
                let at = self.effects() + n;
                match held.contains(n) {
                    // At its least value it would like to be smaller still.
                    true => slope[at] >= -1e-12 * scale,
                    false => t[at] < *least,
                }
            })
            .map(|(n, _)| n)
            .collect()
    }

    /// What the coordinate is with these effects, which miss their optimality conditions by `violation`, and the best
    /// everything else.
    pub(super) fn found(&self, reduced: &Reduced, w: &[f64], violation: f64) -> Found {
        let t = self.complete(reduced, w);
        let (loss, slope) = self.evaluate(&t);
        let scale = self.g.iter().fold(f64::MIN_POSITIVE, |m, g| m.max(g.abs()));
        let worst = reduced.free.iter().fold(0.0f64, |m, &n| m.max(slope[w.len() + n].abs()));
        let n = &t[w.len()..];
        let Own { free, amounts, fixed, slopes, shifted, .. } = &self.own;
        let (after_free, after_amounts) = (free.len(), free.len() + amounts);
        let after_shifts = after_amounts + shifted.len();
        let mut coefficients = vec![0.0; self.features];
        self.own.effects().zip(w).for_each(|((at, unit), w)| coefficients[at] = unit * w);
        free.iter().zip(n).for_each(|(&at, value)| coefficients[at] = *value);
        let lowered: f64 = coefficients.iter().zip(slopes).map(|(c, slope)| c * slope).sum();
        coefficients[fixed.0] = fixed.1 - lowered;
        let at_least = |range: std::ops::Range<usize>| -> Vec<f64> {
            range.map(|k| n[k].max(self.least[k].unwrap_or(f64::NEG_INFINITY))).collect()
        };
        Found {
            amounts: at_least(after_free..after_amounts),
            coefficients,
            shifts: n[after_amounts..after_shifts].to_vec(),
            noises: at_least(after_shifts..n.len()),
            w: w.to_vec(),
            loss,
            violation: violation.max(worst / scale),
        }
    }
}
