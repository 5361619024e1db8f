//! The Sinkhorn divergence: optimal transport blurred on purpose, and the blur's own share taken away again.
//!
//! With uniform weights and costs C = |x − y|², blurred transport is
//!
//! `OT_ε(a, b) = min ⟨P, C⟩ + ε KL(P | a ⊗ b) = max mean(f) + mean(g) − ε (mean_ij exp((f_i + g_j − C_ij)/ε) − 1)`
//!
//! where P has the marginals a and b. The maximum is where both marginals of exp((f_i + g_j − C_ij)/ε) are uniform,
//! which is where f = T(g), g = T(f) with the soft minimum T(g)_i = −ε log mean_j exp((g_j − C_ij)/ε).
//!
//! Three choices make this fast and safe for any scale of the data:
//!
//! - Soft minima are taken in the log domain, in f64. f32 would be twice as fast, but what is left of the marginals'
//!   error then depends on how far the outliers are, and the divergence is a small difference of large numbers.
//! - For a set with itself f = g, and f ← (f + T(f))/2 at least halves the error per step, because the kernel
//!   exp(−C/ε) is positive definite.
//! - Between two sets, f and g start from plain iterations with a large ε that is halved again and again. Then steps
//!   are longer than plain: f ← f + ω (T(g) − f). Near the solution this is successive over-relaxation of a linear
//!   system whose rate under plain steps gives the best ω; the rate is measured on the way. That takes the square root
//!   of the number of iterations.

use super::costs::{Costs, LANES, fold, groups};
use super::{centred, check, finite, mean_square, means, squared_distance};
use crate::{Error, Matrix, Result, Scalar};

/// ε over the mean of |x − y|² between the two sets.
const RELATIVE_EPSILON: f64 = 0.05;
/// What both marginals may be off, as the sum of absolute differences of weights that sum to 1. The dual value is at
/// a maximum, so its own error is of second order in this, but where single samples lie so far out that hardly any
/// mass connects them to the rest: there the last digits take thousands of iterations, and stopping here costs the
/// value 1e-6 of itself.
const TOLERANCE: f64 = 1e-5;
/// More iterations than this are refused. Usual are tens.
const MAX_ITERATIONS: usize = 20_000;
/// Iterations over which a rate is measured.
const WINDOW: usize = 8;
/// The longest step; 2 would no longer converge.
const LONGEST_STEP: f64 = 1.97;

/// The Sinkhorn divergence `OT_ε(a, b) − ½ OT_ε(a, a) − ½ OT_ε(b, b)` between two empirical distributions, for the cost
/// |x − y|², with ε = 0.05 times the mean of |x − y|² between the two sets in all three terms.
///
/// `OT_ε` is the cost of the best transport plan P plus ε times its Kullback–Leibler divergence from independence. The
/// divergence is 0 for equal distributions and lies near the squared 2-Wasserstein distance, but needs fewer samples.
/// All samples count, with equal weights; the sets may differ in size. Memory is 16 n m bytes for n and m samples.
///
/// Iterations end when both marginals of the plan are right to 1e-5, as the sum of absolute differences. The bits of the result do
/// not depend on the number of threads.
///
/// # Errors
/// If a set has no rows or no columns, if the numbers of columns differ, if a number is NaN or infinite, if the result
/// exceeds the largest number, or if 20 000 iterations are not enough.
pub fn sinkhorn_divergence(a: &Matrix<f64>, b: &Matrix<f64>) -> Result<f64> {
    divergence(a, b, RELATIVE_EPSILON)
}

/// The Sinkhorn divergence with ε = `relative_epsilon` times the mean of |x − y|² between the two sets.
pub(super) fn divergence(a: &Matrix<f64>, b: &Matrix<f64>, relative_epsilon: f64) -> Result<f64> {
    check(a, b)?;
    let (mean_a, mean_b) = (means(a, a.rows()), means(b, b.rows()));
    let (a, b) = (centred(a, a.rows(), &mean_a), centred(b, b.rows(), &mean_b));
    let moved = squared_distance(&mean_a, &mean_b);
    let mean_cost = finite(moved + mean_square(&a) + mean_square(&b))?;
    let epsilon = relative_epsilon * mean_cost;
    // No single cost exceeds all of them: with this product finite, everything below is.
    finite(mean_cost / relative_epsilon * (a.rows() * b.rows()) as f64)?;
    if epsilon == 0.0 {
        return Ok(0.0);
    }
    let self_a = with_itself(&Costs::between(&a, &a), epsilon)?;
    let self_b = with_itself(&Costs::between(&b, &b), epsilon)?;
    let cross = between(&Costs::between(&a, &b), &Costs::between(&b, &a), epsilon)?;
    // Never negative but for rounding.
    Ok((moved + cross - 0.5 * (self_a + self_b)).max(0.0))
}

/// OT_ε of a set with itself.
fn with_itself(costs: &Costs, epsilon: f64) -> Result<f64> {
    let n = costs.rows();
    let mut f = vec![0.0; costs.stride()];
    let mut target = vec![0.0; n];
    let mut error = f64::INFINITY;
    for _ in 0..MAX_ITERATIONS {
        soft_minimum(costs, epsilon, &f, &mut target);
        let excess = Excess::of(&f[..n], &target, epsilon);
        error = excess.absolute;
        if error <= TOLERANCE {
            return Ok(2.0 * mean(&f[..n]) - epsilon * excess.signed);
        }
        f.iter_mut().zip(&target).for_each(|(f, target)| *f = 0.5 * (*f + target));
    }
    Err(too_slow(error))
}

/// OT_ε of two sets. `back` is the transpose of `costs`.
fn between(costs: &Costs, back: &Costs, epsilon: f64) -> Result<f64> {
    let (n, m) = (costs.rows(), costs.cols());
    let (mut f, mut g) = anneal(costs, back, epsilon);
    let (mut f_target, mut g_target) = (vec![0.0; n], vec![0.0; m]);
    let mut step = Step::plain();
    let mut error = f64::INFINITY;
    for _ in 0..MAX_ITERATIONS {
        soft_minimum(back, epsilon, &f, &mut g_target);
        let columns = Excess::of(&g[..m], &g_target, epsilon);
        step.take(&mut g, &g_target);
        soft_minimum(costs, epsilon, &g, &mut f_target);
        let rows = Excess::of(&f[..n], &f_target, epsilon);
        error = columns.absolute.max(rows.absolute);
        if error <= TOLERANCE {
            return Ok(mean(&f[..n]) + mean(&g[..m]) - epsilon * rows.signed);
        }
        step.take(&mut f, &f_target);
        step.adapt(error);
    }
    Err(too_slow(error))
}

/// Potentials f and g, padded, that are about right: plain iterations, with an ε that is halved in each until it has
/// come down from the largest cost to `epsilon`. With a small ε from the start, potentials would take steps of ε's size
/// over distances of the cost's.
pub(super) fn anneal(costs: &Costs, back: &Costs, epsilon: f64) -> (Vec<f64>, Vec<f64>) {
    let (mut f, mut g) = (vec![0.0; back.stride()], vec![0.0; costs.stride()]);
    let mut blur = costs.largest();
    while blur > epsilon {
        soft_minimum(back, blur, &f, &mut g[..costs.cols()]);
        soft_minimum(costs, blur, &g, &mut f[..costs.rows()]);
        blur *= 0.5;
    }
    (f, g)
}

fn too_slow(error: f64) -> Error {
    Error::invalid(format!(
        "the Sinkhorn divergence has a marginal error of {error:.1e} after {MAX_ITERATIONS} iterations, expected \
         {TOLERANCE:.0e}: the samples form clusters that are too far apart"
    ))
}

/// How far a marginal of the plan exp((f_i + g_j − C_ij)/ε) is from uniform: means of the excess and of its size.
struct Excess {
    signed: f64,
    absolute: f64,
}

impl Excess {
    /// Of the marginal that would be uniform if `potential` were `target`.
    fn of(potential: &[f64], target: &[f64], epsilon: f64) -> Self {
        let (mut signed, mut absolute) = (0.0, 0.0);
        for (potential, target) in potential.iter().zip(target) {
            let excess = ((potential - target) / epsilon).exp_m1();
            signed += excess;
            absolute += excess.abs();
        }
        let n = potential.len() as f64;
        Excess { signed: signed / n, absolute: absolute / n }
    }
}

/// How long the steps are, by what errors have been seen.
struct Step {
    /// ω in f ← f + ω (target − f).
    length: f64,
    /// What ω may be: less after every failure, because far from the solution long steps need not converge, and more
    /// with every success.
    longest: f64,
    /// The error at the start of the window, and iterations since.
    reference: f64,
    iterations: usize,
}

impl Step {
    fn plain() -> Self {
        Step { length: 1.0, longest: LONGEST_STEP, reference: f64::INFINITY, iterations: 0 }
    }

    fn take(&self, potential: &mut [f64], target: &[f64]) {
        potential.iter_mut().zip(target).for_each(|(p, target)| *p += self.length * (target - *p));
    }

    /// At the end of a window, infers the rate of plain steps from the rate just seen, and from that the best ω.
    fn adapt(&mut self, error: f64) {
        self.iterations += 1;
        if self.iterations < WINDOW {
            return;
        }
        let rate = (error / self.reference).powf(1.0 / WINDOW as f64);
        (self.reference, self.iterations) = (error, 0);
        if rate >= 1.0 || !error.is_finite() {
            self.longest = 0.5 * (1.0 + self.longest);
            self.length = 1.0;
            return;
        }
        self.longest += 0.25 * (LONGEST_STEP - self.longest);
        if rate > self.length - 1.0 && rate > 0.0 {
            // Young's relation between the rate r with ω and the rate ρ with 1: (r + ω − 1)² = r ω² ρ. Once r has
            // come down to ω − 1, ω is the best there is.
            let plain = ((rate + self.length - 1.0) / self.length).powi(2) / rate;
            self.length = (2.0 / (1.0 + (1.0 - plain.min(1.0)).sqrt())).min(self.longest);
        }
    }
}

/// `result[i]` = −ε log mean_j exp((potential[j] − C_ij)/ε).
fn soft_minimum(costs: &Costs, epsilon: f64, potential: &[f64], result: &mut [f64]) {
    let inverse = 1.0 / epsilon;
    let columns = costs.cols() as f64;
    costs.map_rows(
        result,
        #[inline(always)]
        |row| {
            let pairs = || groups(row).iter().zip(groups(potential));
            let mut largest = [f64::NEG_INFINITY; LANES];
            for (cost, potential) in pairs() {
                for l in 0..LANES {
                    largest[l] = Scalar::max(potential[l] - cost[l], largest[l]);
                }
            }
            let largest = fold(largest, f64::max);
            let mut sums = [0.0; LANES];
            for (cost, potential) in pairs() {
                for l in 0..LANES {
                    sums[l] += Scalar::exp((potential[l] - cost[l] - largest) * inverse);
                }
            }
            -largest - epsilon * (fold(sums, |x, y| x + y) / columns).ln()
        },
    );
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
