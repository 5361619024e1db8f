//! The convex problem of one coordinate, reduced to the penalised effects.
//!
//! Coordinate j of the loss involves the coefficients of its drift and its noise, and the shifts (and noises, where they are
//! learnt) of the environments that target j: a quadratic ½ tᵀHt + gᵀt + c in t = (w, n), where w is penalised and n everything
//! else. n is eliminated: with n = −H_nn⁻¹ (g_n + H_nw w) the problem left is ½ wᵀQw − cᵀw plus the penalty. A noise that would
//! fall below its lower bound is fixed at it.

use super::layout::{CoordinateLayout, FormEntries};
use super::statistics::Statistics;
use crate::numeric::dense::{Cholesky, symmetric_eigenvalues};
use crate::{Error, Matrix, Result};
use faer::Mat;

/// The lower bound of a noise that has one function: 0 has no logarithm, and no stationary law of full dimension.
pub(super) const LEAST_NOISE: f64 = 1e-8;
/// A form whose smallest eigenvalue is below minus this times the largest is not convex.
const INDEFINITE: f64 = 1e-12;
/// The quadratic of coordinate j: H, g and c.
pub(super) struct Coordinate {
    pub layout: CoordinateLayout,
    /// H of (w, n).
    h: Matrix<f64>,
    g: Vec<f64>,
    constant: f64,
    /// The lower bounds of n.
    least: Vec<Option<f64>>,
    /// The number of functions of the drift.
    features: usize,
}

/// The problem of w alone: ½ wᵀQw − cᵀw, but for a constant.
pub(super) struct Reduced {
    pub q: Matrix<f64>,
    pub c: Vec<f64>,
    /// The multipliers of w's entries. Slopes times these are slopes of the coefficients.
    pub multipliers: Vec<f64>,
    /// H_nn⁻¹ (g_n, H_nw), to find n again; rows of free nuisances only.
    back: Matrix<f64>,
    /// The entries of n that are free; the others are at their lower bound.
    free: Vec<usize>,
}

/// The solution of one coordinate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CoordinateSolution {
    /// Coefficients of the drift's functions, including the fixed one.
    pub coefficients: Vec<f64>,
    /// Coefficients of the noise's functions.
    pub amounts: Vec<f64>,
    /// Shifts in the environments of `CoordinateLayout::shifted`.
    pub shifts: Vec<f64>,
    /// Noises in the environments of `CoordinateLayout::scaled`.
    pub noises: Vec<f64>,
    /// The penalised effects.
    pub w: Vec<f64>,
    /// The loss without the penalty.
    pub loss: f64,
    /// The amount by which w, or the unpenalised entries relative to g, miss their optimality conditions.
    pub violation: f64,
}

impl Coordinate {
    /// Assembles the mean over `environments` of the loss of coordinate `layout.j`; `sum` is the sum of their statistics.
    pub(super) fn new(
        layout: CoordinateLayout,
        all: &[Statistics],
        environments: usize,
        sum: &Statistics,
    ) -> Self {
        let features = sum.drift.rows();
        let entries = FormEntries::new(&layout, all, environments, sum);
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
        let least = (layout.penalised.len()..size).map(|a| entries.least(a)).collect();
        Coordinate { h, g, constant, least, features, layout }
    }

    fn effects(&self) -> usize {
        self.layout.penalised.len()
    }

    fn nuisances(&self) -> usize {
        self.least.len()
    }

    /// The smallest eigenvalue of H, without multipliers, divided by the largest.
    pub(super) fn convexity(&self) -> Result<f64> {
        let multiplier = |a: usize| self.layout.multipliers.get(a).copied().unwrap_or(1.0);
        let size = self.h.rows();
        let plain = Matrix::from_fn(size, size, |a, b| self.h[(a, b)] * multiplier(a) * multiplier(b));
        let values = symmetric_eigenvalues(plain.view())?;
        let largest = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        Ok(if largest > 0.0 { values[0] / largest } else { 0.0 })
    }

    /// Whether the form is convex up to rounding.
    pub(super) fn is_convex(&self) -> Result<bool> {
        Ok(self.convexity()? >= -INDEFINITE)
    }

    /// Eliminates n, with the noises in `held` fixed at their lower bounds.
    pub(super) fn reduce(&self, held: &[usize]) -> Result<Reduced> {
        let (w, all) = (self.effects(), self.nuisances());
        let free: Vec<usize> = (0..all).filter(|k| !held.contains(k)).collect();
        let k = free.len();
        let at = |n: usize| w + n;
        let block = Mat::from_fn(k, k, |a, b| self.h[(at(free[a]), at(free[b]))]);
        // The contribution of fixed noises to g.
        let least = |n: usize| self.least[n].unwrap_or(0.0);
        let moved = |row: usize| held.iter().map(|&n| self.h[(row, at(n))] * least(n)).sum::<f64>();
        let mut back = Matrix::from_fn(k, 1 + w, |a, col| match col {
            0 => self.g[at(free[a])] + moved(at(free[a])),
            col => self.h[(at(free[a]), col - 1)],
        });
        let right = back.clone();
        let cholesky = Cholesky::of(block.as_ref()).ok_or_else(|| {
            Error::NonFinite(format!(
                "the data does not determine the bias, noise and shifts{} of variable {}: check whether it is constant, or an environment has few \
                 rows",
                if self.layout.free.len() > 1 { " and unpenalised effects" } else { "" },
                self.layout.j
            ))
        })?;
        cholesky.solve_in_place(back.view_mut());
        // Q = H_ww − H_wn (H_nn⁻¹ H_nw), and likewise for c and the constant.
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
        Ok(Reduced { q, c, multipliers: self.layout.multipliers.clone(), back, free })
    }

    /// All of t for these effects, with fixed noises at their lower bounds.
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

    /// The noises to fix next, given the effects for the fixed noises `held`. If the set does not change, the noises satisfy the
    /// conditions of the constrained minimum.
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
                    // At its bound, it stays fixed if its slope would decrease it.
                    true => slope[at] >= -1e-12 * scale,
                    false => t[at] < *least,
                }
            })
            .map(|(n, _)| n)
            .collect()
    }

    /// The solution with these effects, which miss their optimality conditions by `violation`, and the optimal values of
    /// everything else.
    pub(super) fn solution(&self, reduced: &Reduced, w: &[f64], violation: f64) -> CoordinateSolution {
        let t = self.complete(reduced, w);
        let (loss, slope) = self.evaluate(&t);
        let scale = self.g.iter().fold(f64::MIN_POSITIVE, |m, g| m.max(g.abs()));
        let worst = reduced.free.iter().fold(0.0f64, |m, &n| m.max(slope[w.len() + n].abs()));
        let n = &t[w.len()..];
        let CoordinateLayout { free, amounts, fixed, slopes, shifted, .. } = &self.layout;
        let (after_free, after_amounts) = (free.len(), free.len() + amounts);
        let after_shifts = after_amounts + shifted.len();
        let mut coefficients = vec![0.0; self.features];
        self.layout.effects().zip(w).for_each(|((at, unit), w)| coefficients[at] = unit * w);
        free.iter().zip(n).for_each(|(&at, value)| coefficients[at] = *value);
        let lowered: f64 = coefficients.iter().zip(slopes).map(|(c, slope)| c * slope).sum();
        coefficients[fixed.0] = fixed.1 - lowered;
        let at_least = |range: std::ops::Range<usize>| -> Vec<f64> {
            range.map(|k| n[k].max(self.least[k].unwrap_or(f64::NEG_INFINITY))).collect()
        };
        CoordinateSolution {
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
