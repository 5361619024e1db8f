//! The convex problem of one coordinate, reduced to its effects.
//!
//! Coordinate j of the loss involves row j of the weights, bias j, noise α_j, and the shifts (and noises, where they
//! are learnt) of the environments that target j: a quadratic ½ tᵀHt + gᵀt + c in t = (w, n), where n is everything but the
//! effects. n is not penalised, so it is eliminated: with n = −H_nn⁻¹ (g_n + H_nw w) the problem left is
//! ½ wᵀQw − cᵀw plus the penalty. A noise that would come out below [`LEAST_NOISE`] is held there instead.

use super::statistics::Statistics;
use crate::dense::{Cholesky, symmetric_eigenvalues};
use crate::{Error, Matrix, Result};
use faer::Mat;

/// α is held at or above this: 0 has no logarithm, and no stationary law of full dimension.
pub(super) const LEAST_NOISE: f64 = 1e-8;
/// A form whose smallest eigenvalue is below minus this times the largest is not convex.
const INDEFINITE: f64 = 1e-12;

/// What coordinate j has beside its effects.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub j: usize,
    /// Environments that shift it.
    pub shifted: Vec<usize>,
    /// Environments that have a noise of their own.
    pub scaled: Vec<usize>,
}

/// Everything about coordinate j: H, g and c.
pub(super) struct Coordinate {
    own: Own,
    d: usize,
    /// Of (w, n); effects are numbered by variable with j left out.
    h: Matrix<f64>,
    g: Vec<f64>,
    constant: f64,
}

/// The problem of the effects alone: ½ wᵀQw − cᵀw, but for a constant.
pub(super) struct Reduced {
    pub q: Matrix<f64>,
    pub c: Vec<f64>,
    /// H_nn⁻¹ (g_n, H_nw), to find n again; rows of free nuisances only.
    back: Matrix<f64>,
    /// Which entries of n are free; the others are [`LEAST_NOISE`].
    free: Vec<usize>,
}

/// What a coordinate was found to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    /// With 0 in place of j's own.
    pub effects: Vec<f64>,
    pub bias: f64,
    pub noise: f64,
    /// Of the environments in `Own::shifted`.
    pub shifts: Vec<f64>,
    /// Of the environments in `Own::scaled`.
    pub noises: Vec<f64>,
    /// Without the penalty.
    pub loss: f64,
    /// By how much effects, or what is not penalised relative to g, miss their optimality conditions.
    pub violation: f64,
}

impl Coordinate {
    /// Assembles the mean over `environments` of the loss of coordinate `own.j`; `sum` is the sum of their statistics.
    pub(super) fn new(own: Own, all: &[Statistics], environments: &[usize], sum: &Statistics) -> Self {
        let d = sum.noise.len();
        let (j, effects) = (own.j, d - 1);
        let (bias, noise) = (effects, effects + 1);
        let (first_shift, first_scale) = (effects + 2, effects + 2 + own.shifted.len());
        let size = first_scale + own.scaled.len();
        let mut h = Matrix::full(size, size, 0.0);
        let mut g = vec![0.0; size];
        // z-index of each effect and of the bias.
        let index = |a: usize| if a == bias { d } else { a + usize::from(a >= j) };
        let factor = 2.0 / environments.len() as f64;
        for a in 0..=bias {
            for b in 0..=bias {
                h[(a, b)] = sum.drift[(index(a), index(b))];
            }
            g[a] = -sum.drift[(index(a), j)];
        }
        let mut both = |a: usize, b: usize, value: f64| {
            h[(a, b)] += value;
            if a != b {
                h[(b, a)] += value;
            }
        };
        for a in 0..=bias {
            both(a, noise, sum.cross[(index(a), j)]);
        }
        both(noise, noise, sum.noise[j]);
        g[noise] = -sum.cross[(j, j)];
        for (k, &e) in own.shifted.iter().enumerate() {
            let (at, part) = (first_shift + k, &all[e]);
            for a in 0..=bias {
                both(a, at, part.drift[(index(a), d)]);
            }
            both(at, at, part.drift[(d, d)]);
            both(at, noise, part.cross[(d, j)]);
            g[at] = -part.drift[(d, j)];
        }
        // An environment with a noise of its own: what it gave to the shared noise is the own one's.
        for (k, &e) in own.scaled.iter().enumerate() {
            let (at, part) = (first_scale + k, &all[e]);
            for a in 0..=bias {
                both(a, at, part.cross[(index(a), j)]);
                both(a, noise, -part.cross[(index(a), j)]);
            }
            if let Some(shift) = own.shifted.iter().position(|&other| other == e) {
                both(first_shift + shift, at, part.cross[(d, j)]);
                both(first_shift + shift, noise, -part.cross[(d, j)]);
            }
            both(at, at, part.noise[j]);
            both(noise, noise, -part.noise[j]);
            g[at] = -part.cross[(j, j)];
            g[noise] += part.cross[(j, j)];
        }
        h.as_mut_slice().iter_mut().chain(&mut g).for_each(|entry| *entry *= factor);
        let constant = 0.5 * factor * sum.drift[(j, j)];
        Coordinate { own, d, h, g, constant }
    }

    fn effects(&self) -> usize {
        self.d - 1
    }

    /// Entries of n that are noises.
    fn noises(&self) -> impl Iterator<Item = usize> {
        let first_scale = 2 + self.own.shifted.len();
        std::iter::once(1).chain(first_scale..first_scale + self.own.scaled.len())
    }

    fn nuisances(&self) -> usize {
        self.g.len() - self.effects()
    }

    /// The smallest eigenvalue of H divided by the largest.
    pub(super) fn convexity(&self) -> Result<f64> {
        let values = symmetric_eigenvalues(self.h.view())?;
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
        let moved = |row: usize| held.iter().map(|&n| self.h[(row, at(n))] * LEAST_NOISE).sum::<f64>();
        let mut back = Matrix::from_fn(k, 1 + w, |a, col| match col {
            0 => self.g[at(free[a])] + moved(at(free[a])),
            col => self.h[(at(free[a]), col - 1)],
        });
        let right = back.clone();
        let cholesky = Cholesky::of(block.as_ref()).ok_or_else(|| {
            Error::NonFinite(format!(
                "variable {}'s bias, noise and shifts are not determined by the data: is it constant, or an environment tiny?",
                self.own.j
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
        Ok(Reduced { q, c, back, free })
    }

    /// All of t for these effects, where a noise that is held is its least value.
    fn complete(&self, reduced: &Reduced, w: &[f64]) -> Vec<f64> {
        let mut t = w.to_vec();
        t.resize(self.g.len(), LEAST_NOISE);
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
        self.noises()
            .filter(|&n| {
                let at = self.effects() + n;
                match held.contains(&n) {
                    // At its least value it would like to be smaller still.
                    true => slope[at] >= -1e-12 * scale,
                    false => t[at] < LEAST_NOISE,
                }
            })
            .collect()
    }

    /// What the coordinate is with these effects, which miss their optimality conditions by `violation`, and the best
    /// everything else.
    pub(super) fn found(&self, reduced: &Reduced, w: &[f64], violation: f64) -> Found {
        let t = self.complete(reduced, w);
        let (loss, slope) = self.evaluate(&t);
        let scale = self.g.iter().fold(f64::MIN_POSITIVE, |m, g| m.max(g.abs()));
        let worst = reduced.free.iter().fold(0.0f64, |m, &n| m.max(slope[w.len() + n].abs()));
        let rest = &t[w.len()..];
        let scales = 2 + self.own.shifted.len();
        let j = self.own.j;
        Found {
            effects: (0..self.d).map(|i| if i == j { 0.0 } else { w[place(i, j)] }).collect(),
            bias: rest[0],
            noise: rest[1].max(LEAST_NOISE),
            shifts: rest[2..scales].to_vec(),
            noises: rest[scales..].iter().map(|noise| noise.max(LEAST_NOISE)).collect(),
            loss,
            violation: violation.max(worst / scale),
        }
    }
}

/// The place of variable i among the effects on j.
pub(super) fn place(i: usize, j: usize) -> usize {
    i - usize::from(i > j)
}

/// The effects on j, out of a row that has j's own too.
pub(super) fn without_own(row: &[f64], j: usize) -> Vec<f64> {
    [&row[..j], &row[j + 1..]].concat()
}
