//! Stage `pairs`: the `linear` estimator. Neighbouring rows meet once; everything about a pair is a few inner
//! products over d ([`visit`]), then one pass that writes the adjoints.

mod visit;

use super::diffusion::{Adjoint, Diffusion, DiffusionAdjoint, Form};
use super::diffusion_product::{DiagonalProduct, FullProduct};
use super::rows::Rows;
use super::{Samples, StageBuffers};
use crate::kernel::Profile;
use crate::numeric::matmul::product;
use crate::numeric::simd::dispatch;
use crate::numeric::tasks::{self, Cutter};
use crate::objective::PairTerm;
use crate::{Matrix, Scalar};
use std::ops::Range;
use visit::{PAIRS, Run, Totals};

/// Buffers of this stage that only a full diffusion needs.
#[derive(Default)]
pub(super) struct FullPairs<T> {
    /// r, z = a r and ∂/∂z of each pair.
    rows: Option<[Rows<T>; 3]>,
}

/// The pairs of one task, what it fills in, and what it adds up.
struct Task<'a, T> {
    pairs: Range<usize>,
    b_bar: &'a mut [T],
    rest_bar: &'a mut [T],
    /// The rows of ∂/∂z (full diffusion).
    z_bar: &'a mut [T],
    /// The task's share of ∂/∂α (diagonal diffusion).
    alpha_bar: &'a mut [T],
    totals: &'a mut Totals,
}

/// Loss, ∂/∂b̃, ∂/∂rest and ∂/∂a of environment `e`, each divided by E times its number of pairs.
pub(super) fn pairs<T: Scalar, P: Profile<T>, O: PairTerm>(
    profile: P,
    samples: &Samples<T>,
    e: usize,
    diffusion: &Diffusion<T>,
    work: &mut StageBuffers<T>,
) -> (f64, DiffusionAdjoint<T>) {
    let rows = samples.rows(e);
    let (count, d, stride) = (rows.len() / 2, samples.x.dim(), samples.x.stride());
    let weight = 1.0 / (samples.environments() as f64 * count as f64);
    if let Form::Full { a, .. } = &diffusion.form {
        prepare_full(&mut work.full_pairs, samples, rows.start, count, a);
    }
    let (z, z_bar): (&[T], &mut [T]) = match &mut work.full_pairs.rows {
        Some([_, z, z_bar]) => (z.slice(0..count), z_bar.slice_mut(0..count)),
        None => (&[], &mut []),
    };
    let mut totals = vec![Totals::default(); count.div_ceil(PAIRS)];
    let mut alphas = vec![T::ZERO; totals.len() * stride];
    let tasks = tasks_of(
        stride,
        work.b_bar.slice_mut(rows.start..rows.start + 2 * count),
        &mut work.rest_bar[rows.start..rows.start + 2 * count],
        z_bar,
        &mut alphas,
        &mut totals,
    );
    let (b, rest) = (&work.b, &work.rest);
    tasks::run(tasks, count * d * 16, |task| {
        let span = rows.start + 2 * task.pairs.start..rows.start + 2 * task.pairs.end;
        let run = Run {
            x: samples.x.slice(span.clone()),
            b: b.slice(span.clone()),
            omega: &samples.omega[span.clone()],
            rest: &rest[span],
            b_bar: task.b_bar,
            rest_bar: task.rest_bar,
            stride,
            weight: T::from_f64(weight),
            trace: T::from_f64(diffusion.trace),
            trace2: T::from_f64(diffusion.trace2),
        };
        *task.totals = match &diffusion.form {
            Form::Diagonal { alpha } => {
                let spread = DiagonalProduct::new(alpha, task.alpha_bar);
                dispatch(
                    #[inline(always)]
                    || run.visit::<P, O, _>(profile, spread),
                )
            }
            Form::Full { .. } => {
                let z = &z[task.pairs.start * stride..task.pairs.end * stride];
                let spread = FullProduct::new(z, task.z_bar, stride);
                dispatch(
                    #[inline(always)]
                    || run.visit::<P, O, _>(profile, spread),
                )
            }
        };
    });
    // The last row of an odd number has no partner.
    if rows.len() % 2 == 1 {
        work.b_bar.row_mut(rows.end - 1).fill(T::ZERO);
        work.rest_bar[rows.end - 1] = T::ZERO;
    }
    let mut adjoint = diffusion.adjoint(d);
    adjoint.trace = totals.iter().map(|t| t.trace).sum();
    adjoint.trace2 = totals.iter().map(|t| t.trace2).sum();
    adjoint.form.add_alpha_shares(&alphas, stride, 1.0);
    if let (Adjoint::Full(bar), Some([r, _, z_bar])) = (&mut adjoint.form, &work.full_pairs.rows) {
        product(bar.view_mut(), z_bar.view(0..count).transpose(), r.view(0..count));
    }
    (weight * totals.iter().map(|t| t.term).sum::<f64>(), adjoint)
}

/// Cuts everything that tasks fill in: `b_bar`, `rest_bar` and `z_bar` by pairs, with an entry of `totals` and a row of
/// `alphas` for each task. `z_bar` is empty for a diagonal diffusion.
fn tasks_of<'a, T>(
    stride: usize,
    b_bar: &'a mut [T],
    rest_bar: &'a mut [T],
    z_bar: &'a mut [T],
    alphas: &'a mut [T],
    totals: &'a mut [Totals],
) -> Vec<Task<'a, T>> {
    let count = rest_bar.len() / 2;
    let z_stride = if z_bar.is_empty() { 0 } else { stride };
    let (mut b_bar, mut rest_bar) = (Cutter::new(b_bar), Cutter::new(rest_bar));
    let (mut z_bar, mut alphas) = (Cutter::new(z_bar), Cutter::new(alphas));
    let tasks = totals.iter_mut().enumerate().map(|(task, totals)| {
        let first = task * PAIRS;
        let length = PAIRS.min(count - first);
        Task {
            pairs: first..first + length,
            b_bar: b_bar.take(2 * length * stride),
            rest_bar: rest_bar.take(2 * length),
            z_bar: z_bar.take(length * z_stride),
            alpha_bar: alphas.take(stride),
            totals,
        }
    });
    tasks.collect()
}

/// r and z = a r of every pair of an environment: one product for all of them instead of one per pair.
fn prepare_full<T: Scalar>(
    buffers: &mut FullPairs<T>,
    samples: &Samples<T>,
    start: usize,
    count: usize,
    a: &Matrix<T>,
) {
    let zeros = || Rows::zeros(samples.largest_environment() / 2, samples.x.dim());
    let [r, z, _] = buffers.rows.get_or_insert_with(|| [zeros(), zeros(), zeros()]);
    for p in 0..count {
        let (x, y) = (samples.x.row(start + 2 * p), samples.x.row(start + 2 * p + 1));
        for (r, (x, y)) in r.row_mut(p).iter_mut().zip(x.iter().zip(y)) {
            *r = *x - *y;
        }
    }
    product(z.view_mut(0..count), r.view(0..count), a.view());
}
