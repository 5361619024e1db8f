//! The layout of one coordinate's quadratic: its unknowns, and the entries of its matrix.

use super::coordinate::LEAST_NOISE;
use super::design::Design;
use super::statistics::Statistics;

/// The relative ridge on unpenalised functions of a basis, which keeps functions that are nearly equal on the data determined.
const RIDGE: f64 = 1e-11;

/// The unknowns of coordinate j.
#[derive(Clone, Debug)]
pub(super) struct CoordinateLayout {
    pub j: usize,
    /// Functions of the drift whose coefficients are penalised, in order.
    pub penalised: Vec<usize>,
    /// The multipliers of their penalties. Entries of w are coefficients times these, so that all have the same penalty.
    pub multipliers: Vec<f64>,
    /// Functions of the drift whose coefficients are not penalised, including the constant. Functions in neither list are held at
    /// 0.
    pub free: Vec<usize>,
    /// The number of functions of the noise.
    pub amounts: usize,
    /// The coefficient that fixes the speed, and its value if all others are 0.
    pub fixed: (usize, f64),
    /// The amount by which each function's coefficient lowers the fixed one; empty if it does not.
    pub slopes: Vec<f64>,
    /// Coefficients are w times this, over their multiplier.
    unit: f64,
    ridge: f64,
    /// Environments that shift it.
    pub shifted: Vec<usize>,
    /// Environments with their own noise.
    pub scaled: Vec<usize>,
}

impl CoordinateLayout {
    /// `known` has the multiplier of the penalty of each variable's effect on j. Infinity holds the effect at 0.
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
            Design::Linear => CoordinateLayout {
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
            Design::Basis { basis, speed } => CoordinateLayout {
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

    /// The penalised functions, and the factors from entries of w to their coefficients.
    pub(super) fn effects(&self) -> impl Iterator<Item = (usize, f64)> {
        self.penalised.iter().zip(&self.multipliers).map(|(&at, multiplier)| (at, self.unit / multiplier))
    }

    /// All unknowns: w first, then n.
    fn unknowns(&self, last: usize) -> Vec<Unknown> {
        let first_amount = last + 1;
        let shared = if self.scaled.is_empty() { Scope::Everywhere } else { Scope::Elsewhere };
        let plain = |at: usize, place: Scope| Unknown { terms: vec![(at, 1.0)], place, least: None };
        let function = |at: usize, factor: f64| {
            let mut terms = vec![(at, factor)];
            if let Some(slope) = self.slopes.get(at).filter(|slope| **slope != 0.0) {
                terms.push((self.fixed.0, -factor * slope));
            }
            Unknown { terms, place: Scope::Everywhere, least: None }
        };
        let mut all: Vec<Unknown> = self.effects().map(|(at, unit)| function(at, unit)).collect();
        all.extend(self.free.iter().map(|&at| function(at, 1.0)));
        // The first amount of noise stays positive; others may be 0.
        let least = |k: usize| Some(if k == 0 { LEAST_NOISE } else { 0.0 });
        all.extend((0..self.amounts).map(|k| Unknown { least: least(k), ..plain(first_amount + k, shared) }));
        all.extend(self.shifted.iter().map(|&e| plain(last, Scope::Only(e))));
        all.extend(
            self.scaled
                .iter()
                .map(|&e| Unknown { least: Some(LEAST_NOISE), ..plain(first_amount, Scope::Only(e)) }),
        );
        all
    }
}

/// The environments in which a coefficient acts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scope {
    Everywhere,
    /// Environments without their own noise.
    Elsewhere,
    Only(usize),
}

/// One entry of t.
struct Unknown {
    /// The coefficients that it adds to, with factors.
    terms: Vec<(usize, f64)>,
    place: Scope,
    least: Option<f64>,
}

/// Sums over environments of the entries of their forms.
struct EnvironmentForms<'a> {
    layout: &'a CoordinateLayout,
    all: &'a [Statistics],
    sum: &'a Statistics,
}

impl EnvironmentForms<'_> {
    /// The sum over the environments where both unknowns act.
    fn between(&self, u: &Unknown, v: &Unknown) -> f64 {
        let mut sum = 0.0;
        for &(a, factor_a) in &u.terms {
            for &(b, factor_b) in &v.terms {
                sum += factor_a * factor_b * self.entry((a, u.place), (b, v.place));
            }
        }
        sum
    }

    /// The sum over the environments where both coefficients act.
    fn entry(&self, (a, place_a): (usize, Scope), (b, place_b): (usize, Scope)) -> f64 {
        let j = self.layout.j;
        let of = |e: usize| self.all[e].entry(j, a, b);
        match (place_a, place_b) {
            (Scope::Everywhere, Scope::Everywhere) => self.sum.entry(j, a, b),
            (Scope::Only(e), Scope::Only(f)) => {
                if e == f {
                    of(e)
                } else {
                    0.0
                }
            }
            (Scope::Only(e), Scope::Elsewhere) | (Scope::Elsewhere, Scope::Only(e)) => {
                if self.layout.scaled.contains(&e) { 0.0 } else { of(e) }
            }
            (Scope::Only(e), Scope::Everywhere) | (Scope::Everywhere, Scope::Only(e)) => of(e),
            _ => self.sum.entry(j, a, b) - self.layout.scaled.iter().map(|&e| of(e)).sum::<f64>(),
        }
    }
}

/// H, g and c of coordinate `layout.j`, entry by entry.
pub(super) struct FormEntries<'a> {
    forms: EnvironmentForms<'a>,
    unknowns: Vec<Unknown>,
    fixed: Unknown,
    factor: f64,
}

impl<'a> FormEntries<'a> {
    /// The entries of the mean over `environments`; `sum` is the sum of their statistics.
    pub(super) fn new(
        layout: &'a CoordinateLayout,
        all: &'a [Statistics],
        environments: usize,
        sum: &'a Statistics,
    ) -> FormEntries<'a> {
        let unknowns = layout.unknowns(sum.drift.rows() - 1);
        let fixed = Unknown { terms: vec![layout.fixed], place: Scope::Everywhere, least: None };
        FormEntries {
            forms: EnvironmentForms { layout, all, sum },
            unknowns,
            fixed,
            factor: 2.0 / environments as f64,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.unknowns.len()
    }

    /// The ridge on an entry of the diagonal, relative to it.
    fn ridge(&self, a: usize) -> f64 {
        let layout = self.forms.layout;
        let free = layout.penalised.len()..layout.penalised.len() + layout.free.len();
        if free.contains(&a) { layout.ridge } else { 0.0 }
    }

    /// H_ab.
    pub(super) fn entry(&self, a: usize, b: usize) -> f64 {
        let plain = self.factor * self.forms.between(&self.unknowns[a], &self.unknowns[b]);
        if a == b { plain * (1.0 + self.ridge(a)) } else { plain }
    }

    /// The ridge's contribution to H_aa.
    pub(super) fn ridge_term(&self, a: usize) -> f64 {
        match self.ridge(a) {
            0.0 => 0.0,
            ridge => ridge * self.factor * self.forms.between(&self.unknowns[a], &self.unknowns[a]),
        }
    }

    /// g_a.
    pub(super) fn slope(&self, a: usize) -> f64 {
        self.factor * self.forms.between(&self.unknowns[a], &self.fixed)
    }

    pub(super) fn constant(&self) -> f64 {
        0.5 * self.factor * self.forms.between(&self.fixed, &self.fixed)
    }

    /// The lower bound of an entry of t, if it has one.
    pub(super) fn least(&self, a: usize) -> Option<f64> {
        self.unknowns[a].least
    }
}
