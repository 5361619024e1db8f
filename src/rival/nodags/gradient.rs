//! The loss of some rows and its gradient, in closed form.
//!
//! The network has no biases, so f_j(x) = Σ_i J_ji x_i with J_ji = m_ji B_ji, where B = a V D_L W_L ⋯ D_1 W_1 has the patterns D
//! of active units (0 or 1) on its diagonals, and a that of the output. Patterns and masks differ by row and by j. They are
//! constant almost everywhere, so the derivative of J is as simple as that of f: if the loss changes by Σ S_ji dJ_ji then its
//! derivative by the weights is that of Σ_j B_j· z_j with z_ji = m_ji S_ji held fixed, which passes z forwards through the same
//! patterns. The error's part of S_ji is ∂loss/∂f_j · x_i, and the log-determinant's part is in `logdet`.
//!
//! Masks are 1 where a logit plus logistic noise is above 0. Their derivative is that of the sigmoid of this sum (straight through).

use super::logdet::{self, Terms};
use super::shape::Shape;
use crate::numeric::matmul::product_sequential;
use crate::numeric::{Scalar, simd};
use faer::{Accum, MatMut, MatRef};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// What all rows of a batch share.
pub(super) struct Batch<'a, T> {
    pub shape: Shape,
    pub parameters: &'a [T],
    /// Per edge into j, 0 for i = j: e^{−logit}.
    pub odds: &'a [T],
    /// The variables that are intervened on.
    pub targets: &'a [bool],
    pub terms: &'a Terms,
    /// The rows of the whole batch, whose mean loss is wanted.
    pub rows: usize,
    /// Whether masks are 0 or 1. Otherwise they are the sigmoids, of which the gradient is exact (for tests).
    pub hard: bool,
}

/// The arrays that one group of rows needs; R rows, all but the last four R·d × d.
#[derive(Default)]
pub(super) struct Space<T> {
    /// Sigmoids of the noisy logits.
    soft: Vec<T>,
    mask: Vec<T>,
    /// The masked inputs, and the hidden layers after their ReLU.
    units: Vec<Vec<T>>,
    /// ∂f/∂ the inputs of layer 1 (before the mask), …, and of the output layer.
    back: Vec<Vec<T>>,
    /// S, then z, then z after each layer.
    tangent: Vec<T>,
    next: Vec<T>,
    /// J, with zero rows for targets.
    jacobian: Vec<T>,
    /// R · d: the output's pattern.
    active: Vec<T>,
    /// R · d.
    probes: Vec<T>,
    /// R · d · d random bits.
    bits: Vec<u8>,
    powers: Vec<T>,
    slope: Vec<T>,
}

/// A group's part of the mean loss, and of its gradient.
#[derive(Clone, Debug)]
pub(super) struct Part<T> {
    pub loss: f64,
    pub gradient: Vec<T>,
}

impl<T: Scalar> Space<T> {
    fn resize(&mut self, rows: usize, d: usize, hidden: usize) {
        let size = rows * d * d;
        self.units.resize_with(hidden + 1, Vec::new);
        self.back.resize_with(hidden + 1, Vec::new);
        let single = [&mut self.soft, &mut self.mask, &mut self.tangent, &mut self.next, &mut self.jacobian];
        for array in single.into_iter().chain(&mut self.units).chain(&mut self.back) {
            array.resize(size, T::ZERO);
        }
        self.active.resize(rows * d, T::ZERO);
        self.probes.resize(rows * d, T::ZERO);
        self.bits.resize(4 * size, 0);
        self.powers.resize(2 * d, T::ZERO);
        self.slope.resize(d, T::ZERO);
    }

    /// Draws probes and masks.
    fn draw(&mut self, batch: &Batch<'_, T>, rng: &mut ChaCha8Rng) {
        for probe in &mut self.probes {
            *probe = T::from_f64(StandardNormal.sample(rng));
        }
        rng.fill_bytes(&mut self.bits);
        let (odds, hard) = (batch.odds, batch.hard);
        let count = odds.len();
        let rows = self.soft.chunks_exact_mut(count).zip(self.mask.chunks_exact_mut(count));
        simd::dispatch(
            #[inline(always)]
            || {
                for ((soft, mask), bits) in rows.zip(self.bits.as_chunks::<4>().0.chunks_exact(count)) {
                    for (((soft, mask), bits), &odds) in soft.iter_mut().zip(mask).zip(bits).zip(odds) {
                        // A multiple of 2⁻²³ plus half of it, never 0 or 1. With uniform u, log(u / (1 − u)) is logistic.
                        let high = (u32::from_le_bytes(*bits) >> 9) as f32;
                        let u = T::from_f64(f64::from((high + 0.5) * (1.0 / 8_388_608.0)));
                        let y = u / (u + odds * (T::ONE - u));
                        *soft = y;
                        *mask = match (hard, y > T::HALF) {
                            (false, _) => y,
                            (true, true) => T::ONE,
                            (true, false) => T::ZERO,
                        };
                    }
                }
            },
        );
        // No variable acts on itself.
        let d = batch.shape.dim;
        for row in 0..self.soft.len() / count {
            for j in 0..d {
                let at = row * count + j * d + j;
                (self.soft[at], self.mask[at]) = (T::ZERO, T::ZERO);
            }
        }
    }

    /// The loss and gradient of the rows `x`, with masks and probes from `rng`.
    pub(super) fn run(&mut self, batch: &Batch<'_, T>, x: &[T], rng: &mut ChaCha8Rng) -> Part<T> {
        let Shape { dim: d, hidden, .. } = batch.shape;
        self.resize(x.len() / d, d, hidden);
        self.draw(batch, rng);
        let mut part = Part { loss: 0.0, gradient: vec![T::ZERO; batch.shape.count()] };
        self.forwards(batch, x);
        self.errors(batch, x, &mut part);
        self.logits(batch, &mut part);
        self.weights(batch, &mut part);
        part
    }

    /// Units, patterns, and B of every layer.
    fn forwards(&mut self, batch: &Batch<'_, T>, x: &[T]) {
        let Shape { dim: d, hidden, relu_output } = batch.shape;
        let (first, rest) = self.units.split_at_mut(1);
        simd::dispatch(
            #[inline(always)]
            || {
                let rows = first[0].chunks_exact_mut(d * d).zip(self.mask.chunks_exact(d * d));
                for ((inputs, mask), x) in rows.zip(x.chunks_exact(d)) {
                    for (inputs, mask) in inputs.chunks_exact_mut(d).zip(mask.chunks_exact(d)) {
                        inputs.iter_mut().zip(mask).zip(x).for_each(|((h, &m), &x)| *h = m * x);
                    }
                }
            },
        );
        let mut below = &first[0];
        for (at, units) in rest.iter_mut().enumerate() {
            let weights = square(&batch.parameters[batch.shape.layer(at)], d);
            product_sequential(tall_mut(units, d), Accum::Replace, tall(below, d), weights.transpose());
            simd::dispatch(
                #[inline(always)]
                || units.iter_mut().for_each(|h| *h = if *h > T::ZERO { *h } else { T::ZERO }),
            );
            below = units;
        }
        let output = &batch.parameters[batch.shape.layer(hidden)];
        let (top, active) = (&mut self.back[hidden], &mut self.active);
        simd::dispatch(
            #[inline(always)]
            || {
                for ((back, units), active) in
                    top.chunks_exact_mut(d * d).zip(below.chunks_exact(d * d)).zip(active.chunks_exact_mut(d))
                {
                    let each = back.chunks_exact_mut(d).zip(units.chunks_exact(d));
                    for (((back, units), active), weights) in each.zip(active).zip(output.chunks_exact(d)) {
                        let mut sum = T::ZERO;
                        for ((back, &h), &w) in back.iter_mut().zip(units).zip(weights) {
                            sum += h * w;
                            *back = if hidden == 0 || h > T::ZERO { w } else { T::ZERO };
                        }
                        *active = if !relu_output || sum > T::ZERO { T::ONE } else { T::ZERO };
                        if *active == T::ZERO {
                            back.fill(T::ZERO);
                        }
                    }
                }
            },
        );
        for at in (0..hidden).rev() {
            let weights = square(&batch.parameters[batch.shape.layer(at)], d);
            let (low, high) = self.back.split_at_mut(at + 1);
            product_sequential(tall_mut(&mut low[at], d), Accum::Replace, tall(&high[0], d), weights);
            if at > 0 {
                keep_active(&mut low[at], &self.units[at]);
            }
        }
    }

    /// J, the loss, the derivatives by the noise scales, and S.
    fn errors(&mut self, batch: &Batch<'_, T>, x: &[T], part: &mut Part<T>) {
        let d = batch.shape.dim;
        let log_scales = batch.shape.log_scales();
        let share = T::from_f64(1.0 / batch.rows as f64);
        let scales: Vec<(f64, T)> = (batch.parameters[log_scales.clone()].iter())
            .map(|s| (s.to_f64(), T::from_f64((-2.0 * s.to_f64()).exp())))
            .collect();
        let weights = match batch.terms {
            Terms::Series(weights) => weights.iter().map(|w| T::from_f64(*w)).collect(),
            Terms::Exact => Vec::new(),
        };
        simd::dispatch(
            #[inline(always)]
            || {
                for (((jacobian, back), mask), at) in (self.jacobian.chunks_exact_mut(d * d))
                    .zip(self.back[0].chunks_exact(d * d))
                    .zip(self.mask.chunks_exact(d * d))
                    .zip(0..)
                {
                    let (x, probe) = (&x[at * d..][..d], &self.probes[at * d..][..d]);
                    let tangent = &mut self.tangent[at * d * d..][..d * d];
                    jacobian.iter_mut().zip(back).zip(mask).for_each(|((j, &b), &m)| *j = b * m);
                    for j in 0..d {
                        let row = &mut jacobian[j * d..][..d];
                        let slopes = &mut tangent[j * d..][..d];
                        if batch.targets[j] {
                            row.fill(T::ZERO);
                            slopes.fill(T::ZERO);
                            continue;
                        }
                        let error = x[j] - inner(row, x);
                        let (log_scale, precision) = scales[j];
                        let square = (error * error * precision).to_f64();
                        part.loss += 0.5 * square + log_scale + 0.5 * std::f64::consts::TAU.ln();
                        part.gradient[log_scales.start + j] += T::from_f64(1.0 - square);
                        let slope = -(error * precision * share);
                        slopes.iter_mut().zip(x).for_each(|(s, &x)| *s = slope * x);
                    }
                    self.slope.fill(T::ZERO);
                    match batch.terms {
                        Terms::Series(_) => {
                            let (powers, slope) = (&mut self.powers, &mut self.slope);
                            let value = logdet::series(jacobian, probe, &weights, powers, slope);
                            part.loss -= value.to_f64();
                            for (j, slopes) in tangent.chunks_exact_mut(d).enumerate() {
                                if batch.targets[j] {
                                    continue;
                                }
                                let slope = self.slope[j] * share;
                                slopes.iter_mut().zip(probe).for_each(|(s, &e)| *s += slope * e);
                            }
                        }
                        Terms::Exact => {
                            let (value, inverse) = logdet::exact(jacobian, d);
                            part.loss -= value;
                            for (j, slopes) in tangent.chunks_exact_mut(d).enumerate() {
                                if !batch.targets[j] {
                                    let column = slopes.iter_mut().enumerate();
                                    column.for_each(|(i, s)| *s += T::from_f64(inverse[(i, j)]) * share);
                                }
                            }
                        }
                    }
                }
            },
        );
        part.loss /= batch.rows as f64;
        part.gradient[log_scales].iter_mut().for_each(|g| *g *= share);
    }

    /// The derivatives by the logits; S becomes z.
    fn logits(&mut self, batch: &Batch<'_, T>, part: &mut Part<T>) {
        let size = batch.shape.dim * batch.shape.dim;
        let gradient = &mut part.gradient[batch.shape.logits()];
        simd::dispatch(
            #[inline(always)]
            || {
                for (((tangent, back), soft), mask) in (self.tangent.chunks_exact_mut(size))
                    .zip(self.back[0].chunks_exact(size))
                    .zip(self.soft.chunks_exact(size))
                    .zip(self.mask.chunks_exact(size))
                {
                    let all = gradient.iter_mut().zip(tangent).zip(back).zip(soft).zip(mask);
                    for ((((sum, s), &b), &y), &m) in all {
                        *sum += b * *s * y * (T::ONE - y);
                        *s *= m;
                    }
                }
            },
        );
    }

    /// The derivatives by the weights of all layers.
    fn weights(&mut self, batch: &Batch<'_, T>, part: &mut Part<T>) {
        let Shape { dim: d, hidden, .. } = batch.shape;
        for at in 0..hidden {
            let range = batch.shape.layer(at);
            let gradient = MatMut::from_row_major_slice_mut(&mut part.gradient[range.clone()], d, d);
            let back = tall(&self.back[at + 1], d);
            product_sequential(gradient, Accum::Replace, back.transpose(), tall(&self.tangent, d));
            let weights = square(&batch.parameters[range], d).transpose();
            product_sequential(tall_mut(&mut self.next, d), Accum::Replace, tall(&self.tangent, d), weights);
            keep_active(&mut self.next, &self.units[at + 1]);
            std::mem::swap(&mut self.tangent, &mut self.next);
        }
        let gradient = &mut part.gradient[batch.shape.layer(hidden)];
        simd::dispatch(
            #[inline(always)]
            || {
                for (tangent, active) in self.tangent.chunks_exact(d * d).zip(self.active.chunks_exact(d)) {
                    let each = tangent.chunks_exact(d).zip(active).zip(gradient.chunks_exact_mut(d));
                    for ((tangent, &active), sums) in each {
                        sums.iter_mut().zip(tangent).for_each(|(sum, &t)| *sum += active * t);
                    }
                }
            },
        );
    }
}

/// Sets to 0 what belongs to units that are 0.
fn keep_active<T: Scalar>(values: &mut [T], units: &[T]) {
    simd::dispatch(
        #[inline(always)]
        || {
            for (value, &h) in values.iter_mut().zip(units) {
                *value = if h > T::ZERO { *value } else { T::ZERO };
            }
        },
    );
}

#[inline(always)]
fn inner<T: Scalar>(a: &[T], b: &[T]) -> T {
    let mut sum = T::ZERO;
    for (&a, &b) in a.iter().zip(b) {
        sum += a * b;
    }
    sum
}

fn square<T: Scalar>(weights: &[T], d: usize) -> MatRef<'_, T> {
    MatRef::from_row_major_slice(weights, d, d)
}

fn tall<T: Scalar>(rows: &[T], d: usize) -> MatRef<'_, T> {
    MatRef::from_row_major_slice(rows, rows.len() / d, d)
}

fn tall_mut<T: Scalar>(rows: &mut [T], d: usize) -> MatMut<'_, T> {
    let count = rows.len() / d;
    MatMut::from_row_major_slice_mut(rows, count, d)
}
