//! Stage `tilt`: moves the kernel's ω from the pairs into each sample's drift, and its adjoint back.
//!
//! With τ = 1/(1 + |x|²), ∇log ω = −τ x and ∇²ω/ω = −τ I + 3τ² x xᵀ:
//!
//! ```text
//! SKDS   b̃ = b − ½ τ a x      rest = ⟨b̃, a x⟩ (linear kernels)
//! KDS    b̃ = b − τ a x        rest = ζ = −τ ⟨b, x⟩ − ½ τ tr a + (3/2) τ² ⟨x, a x⟩
//! ```

use super::diffusion::{Adjoint, Diffusion, DiffusionAdjoint, Form};
use super::drift::row_tasks;
use super::matmul::{add_outer_product, product};
use super::rows::Rows;
use super::simd::{dispatch, dot};
use super::tasks::{self, Cutter};
use super::{Samples, Work};
use crate::Scalar;
use crate::kernel::Profile;
use crate::objective::PairTerm;

/// a x of every sample, and the adjoint of it: only a full diffusion stores them.
pub(super) struct FullTilt<T> {
    ax: Rows<T>,
    ax_bar: Rows<T>,
}

/// Turns environment `e`'s rows of `work.b` into b̃ and fills `work.rest`.
pub(super) fn tilt<T: Scalar, P: Profile<T>, O: PairTerm>(
    samples: &Samples<T>,
    e: usize,
    diffusion: &Diffusion<T>,
    work: &mut Work<T>,
) {
    let (rows, stride, d) = (samples.rows(e), samples.x.stride(), samples.x.dim());
    if let Form::Full { a, .. } = &diffusion.form {
        let n = samples.x.all().len();
        let zeros = || FullTilt { ax: Rows::zeros(n, d), ax_bar: Rows::zeros(n, d) };
        let full = work.full_tilt.get_or_insert_with(zeros);
        product(full.ax.view_mut(rows.clone()), samples.x.view(rows.clone()), a.view());
    }
    let share = T::from_f64(O::TILT_SHARE);
    let half_trace = T::from_f64(0.5 * diffusion.trace);
    let full = work.full_tilt.as_ref();
    let mut b_cut = Cutter::new(work.b.slice_mut(rows.clone()));
    let mut rest_cut = Cutter::new(&mut work.rest[rows.clone()]);
    let bounds = [rows.start, rows.end];
    let tasks: Vec<_> = row_tasks(&bounds)
        .map(|(_, range)| (range.clone(), b_cut.take(range.len() * stride), rest_cut.take(range.len())))
        .collect();
    tasks::run(
        tasks,
        rows.len() * d * 4,
        |(range, b, rest): (std::ops::Range<usize>, &mut [T], &mut [T])| {
            dispatch(
                #[inline(always)]
                || {
                    let mut product_row = vec![T::ZERO; stride];
                    for ((i, b), rest) in range.zip(b.chunks_exact_mut(stride)).zip(rest) {
                        let x = samples.x.row(i);
                        let ax = ax_row(diffusion, full, i, x, &mut product_row);
                        let tau = samples.tau[i];
                        if O::QUADRATIC {
                            let three_halves = T::from_f64(1.5);
                            *rest = three_halves * tau * tau * dot(x, ax) - tau * (dot(b, x) + half_trace);
                        }
                        let factor = share * tau;
                        for (b, ax) in b.iter_mut().zip(ax) {
                            *b -= factor * *ax;
                        }
                        if !O::QUADRATIC && P::LINEAR {
                            *rest = dot(b, ax);
                        }
                    }
                },
            );
        },
    );
}

/// Turns environment `e`'s rows of `work.b_bar` from ∂/∂b̃ into ∂/∂b, and adds to ∂/∂a.
pub(super) fn untilt<T: Scalar, P: Profile<T>, O: PairTerm>(
    samples: &Samples<T>,
    e: usize,
    diffusion: &Diffusion<T>,
    work: &mut Work<T>,
    adjoint: &mut DiffusionAdjoint<T>,
) {
    let (rows, stride, d) = (samples.rows(e), samples.x.stride(), samples.x.dim());
    let share = T::from_f64(O::TILT_SHARE);
    let bounds = [rows.start, rows.end];
    let task_count = row_tasks(&bounds).count();
    let mut alphas = vec![T::ZERO; task_count * stride];
    let mut traces = vec![0.0f64; task_count];
    {
        let (mut nothing_ax, full) = match &mut work.full_tilt {
            Some(FullTilt { ax, ax_bar }) => (Cutter::new(ax_bar.slice_mut(rows.clone())), Some(&*ax)),
            None => (Cutter::new(&mut []), None),
        };
        let mut b_bar_cut = Cutter::new(work.b_bar.slice_mut(rows.clone()));
        let (mut alphas_cut, mut traces_cut) = (Cutter::new(&mut alphas), Cutter::new(&mut traces));
        let tasks: Vec<_> = row_tasks(&bounds)
            .map(|(_, range)| {
                let length = range.len() * stride;
                let ax_bar = nothing_ax.take(if full.is_some() { length } else { 0 });
                let trace = &mut traces_cut.take(1)[0];
                Task {
                    range,
                    b_bar: b_bar_cut.take(length),
                    ax_bar,
                    alpha_bar: alphas_cut.take(stride),
                    trace,
                }
            })
            .collect();
        let (b, rest_bar) = (&work.b, &work.rest_bar);
        tasks::run(tasks, rows.len() * d * 4, |task: Task<'_, T>| {
            dispatch(
                #[inline(always)]
                || {
                    let mut product_row = vec![T::ZERO; stride];
                    let mut bar_row = vec![T::ZERO; stride];
                    for (local, (i, b_bar)) in task.range.zip(task.b_bar.chunks_exact_mut(stride)).enumerate()
                    {
                        let (x, b, tau, rest_bar) = (samples.x.row(i), b.row(i), samples.tau[i], rest_bar[i]);
                        let ax: &[T] = match (&diffusion.form, full) {
                            (Form::Diagonal { alpha }, _) => times(alpha, x, &mut product_row),
                            (Form::Full { .. }, Some(ax)) => ax.row(i),
                            (Form::Full { .. }, None) => unreachable!("`tilt` ran before"),
                        };
                        let ax_bar = &mut bar_row;
                        if O::QUADRATIC {
                            let along_x = T::from_f64(1.5) * tau * tau * rest_bar;
                            for k in 0..stride {
                                ax_bar[k] = along_x * x[k] - tau * share * b_bar[k];
                                b_bar[k] -= tau * rest_bar * x[k];
                            }
                            *task.trace -= 0.5 * (tau * rest_bar).to_f64();
                        } else {
                            for k in 0..stride {
                                if P::LINEAR {
                                    b_bar[k] += rest_bar * ax[k];
                                }
                                ax_bar[k] = -tau * share * b_bar[k];
                                if P::LINEAR {
                                    ax_bar[k] += rest_bar * b[k];
                                }
                            }
                        }
                        if full.is_some() {
                            task.ax_bar[local * stride..(local + 1) * stride].copy_from_slice(ax_bar);
                        } else {
                            for k in 0..stride {
                                task.alpha_bar[k] += ax_bar[k] * x[k];
                            }
                        }
                    }
                },
            );
        });
    }
    adjoint.trace += traces.iter().sum::<f64>();
    match (&mut adjoint.form, &work.full_tilt) {
        (Adjoint::Diagonal(bar), _) => {
            for task in alphas.chunks_exact(stride) {
                bar.iter_mut().zip(task).for_each(|(bar, share)| *bar += share.to_f64());
            }
        }
        (Adjoint::Full(bar), Some(full)) => add_outer_product(bar.view_mut(), &full.ax_bar, &samples.x, rows),
        (Adjoint::Full(_), None) => unreachable!("`tilt` ran before"),
    }
}

/// Rows of one task and what it adds up.
struct Task<'a, T> {
    range: std::ops::Range<usize>,
    b_bar: &'a mut [T],
    ax_bar: &'a mut [T],
    alpha_bar: &'a mut [T],
    trace: &'a mut f64,
}

/// a x of sample `i`.
#[inline(always)]
fn ax_row<'a, T: Scalar>(
    diffusion: &Diffusion<T>,
    full: Option<&'a FullTilt<T>>,
    i: usize,
    x: &[T],
    space: &'a mut [T],
) -> &'a [T] {
    match (&diffusion.form, full) {
        (Form::Diagonal { alpha }, _) => times(alpha, x, space),
        (Form::Full { .. }, Some(full)) => full.ax.row(i),
        (Form::Full { .. }, None) => unreachable!("the product was made above"),
    }
}

/// α ∘ x.
#[inline(always)]
fn times<'a, T: Scalar>(alpha: &[T], x: &[T], space: &'a mut [T]) -> &'a [T] {
    for (out, (alpha, x)) in space.iter_mut().zip(alpha.iter().zip(x)) {
        *out = *alpha * *x;
    }
    space
}
