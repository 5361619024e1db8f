//! Stage `tilt`: moves the kernel's ω from the pairs into each sample's drift, and its adjoint back.
//!
//! With τ = 1/(1 + |x|²), ∇log ω = −τ x and ∇²ω/ω = −τ I + 3τ² x xᵀ:
//!
//! ```text
//! SKDS   b̃ = b − ½ τ a x      rest = ⟨b̃, a x⟩ (linear kernels)
//! KDS    b̃ = b − τ a x        rest = ζ = −τ ⟨b, x⟩ − ½ τ tr a + (3/2) τ² ⟨x, a x⟩
//! ```

use super::diffusion::{Adjoint, Diffusion, DiffusionAdjoint, Form};
use super::diffusion_product::{DiagonalProduct, DiffusionProduct, FullProduct};
use super::drift::row_tasks;
use super::outer::add_outer_product;
use super::rows::Rows;
use super::{Samples, StageBuffers};
use crate::Scalar;
use crate::kernel::Profile;
use crate::numeric::matmul::product;
use crate::numeric::simd::{LANES, add_product, dispatch, groups, groups_mut, total};
use crate::numeric::tasks::{self, Cutter};
use crate::objective::PairTerm;

/// a x of every sample, and the adjoint of it: only a full diffusion stores them.
pub(super) struct FullTilt<T> {
    ax: Rows<T>,
    ax_bar: Rows<T>,
}

/// A run of samples. `b` and `rest` belong to `tilt`, the bars to `untilt`.
struct Run<'a, T> {
    x: &'a [T],
    tau: &'a [T],
    b: &'a mut [T],
    rest: &'a mut [T],
    stride: usize,
}

/// Turns environment `e`'s rows of `work.b` into b̃ and fills `work.rest`.
pub(super) fn tilt<T: Scalar, P: Profile<T>, O: PairTerm>(
    samples: &Samples<T>,
    e: usize,
    diffusion: &Diffusion<T>,
    work: &mut StageBuffers<T>,
) {
    let (rows, stride, d) = (samples.rows(e), samples.x.stride(), samples.x.dim());
    if let Form::Full { a, .. } = &diffusion.form {
        let zeros = || Rows::zeros(samples.x.all().len(), d);
        let full = work.full_tilt.get_or_insert_with(|| FullTilt { ax: zeros(), ax_bar: zeros() });
        product(full.ax.view_mut(rows.clone()), samples.x.view(rows.clone()), a.view());
    }
    let half_trace = T::from_f64(0.5 * diffusion.trace);
    let full = work.full_tilt.as_ref();
    let mut b_cut = Cutter::new(work.b.slice_mut(rows.clone()));
    let mut rest_cut = Cutter::new(&mut work.rest[rows.clone()]);
    let tasks: Vec<_> = row_tasks(&[rows.start, rows.end])
        .map(|(_, range)| (range.clone(), b_cut.take(range.len() * stride), rest_cut.take(range.len())))
        .collect();
    tasks::run(tasks, rows.len() * d * 8, |(range, b, rest)| {
        let run =
            Run { x: samples.x.slice(range.clone()), tau: &samples.tau[range.clone()], b, rest, stride };
        match (&diffusion.form, full) {
            (Form::Diagonal { alpha }, _) => dispatch(
                #[inline(always)]
                || run.tilt::<P, O, _>(half_trace, &DiagonalProduct::new(alpha, &mut [])),
            ),
            (Form::Full { .. }, Some(full)) => dispatch(
                #[inline(always)]
                || run.tilt::<P, O, _>(half_trace, &FullProduct::new(full.ax.slice(range), &mut [], stride)),
            ),
            (Form::Full { .. }, None) => unreachable!("made above"),
        }
    });
}

impl<T: Scalar> Run<'_, T> {
    #[inline(always)]
    fn tilt<P: Profile<T>, O: PairTerm, S: DiffusionProduct<T>>(self, half_trace: T, spread: &S) {
        let share = T::from_f64(O::TILT_SHARE);
        let rows = self.x.chunks_exact(self.stride).zip(self.b.chunks_exact_mut(self.stride));
        for (i, ((x, b), rest)) in rows.zip(self.rest).enumerate() {
            let (x, b, tau) = (groups(x), groups_mut(b), self.tau[i]);
            let factor = share * tau;
            let [mut x_ax, mut b_x, mut b_ax] = [[T::ZERO; LANES]; 3];
            for (k, (x, b)) in x.iter().zip(b).enumerate() {
                let (ax, mut tilted) = (spread.product(i, k, x), *b);
                if O::QUADRATIC {
                    add_product(&mut x_ax, x, &ax);
                    add_product(&mut b_x, &tilted, x);
                }
                for l in 0..LANES {
                    tilted[l] -= factor * ax[l];
                }
                if !O::QUADRATIC && P::LINEAR {
                    add_product(&mut b_ax, &tilted, &ax);
                }
                *b = tilted;
            }
            if O::QUADRATIC {
                *rest = T::from_f64(1.5) * tau * tau * total(x_ax) - tau * (total(b_x) + half_trace);
            } else if P::LINEAR {
                *rest = total(b_ax);
            }
        }
    }
}

/// A run of samples on the way back.
struct BackRun<'a, T> {
    x: &'a [T],
    tau: &'a [T],
    b: &'a [T],
    rest_bar: &'a [T],
    b_bar: &'a mut [T],
    stride: usize,
}

/// Turns environment `e`'s rows of `work.b_bar` from ∂/∂b̃ into ∂/∂b, and adds to ∂/∂a.
pub(super) fn untilt<T: Scalar, P: Profile<T>, O: PairTerm>(
    samples: &Samples<T>,
    e: usize,
    diffusion: &Diffusion<T>,
    work: &mut StageBuffers<T>,
    adjoint: &mut DiffusionAdjoint<T>,
) {
    let (rows, stride, d) = (samples.rows(e), samples.x.stride(), samples.x.dim());
    let bounds = [rows.start, rows.end];
    let task_count = row_tasks(&bounds).count();
    let (mut alphas, mut traces) = (vec![T::ZERO; task_count * stride], vec![0.0f64; task_count]);
    let (ax, ax_bar): (Option<&Rows<T>>, &mut [T]) = match &mut work.full_tilt {
        Some(FullTilt { ax, ax_bar }) => (Some(ax), ax_bar.slice_mut(rows.clone())),
        None => (None, &mut []),
    };
    let mut ax_bar_cut = Cutter::new(ax_bar);
    let mut b_bar_cut = Cutter::new(work.b_bar.slice_mut(rows.clone()));
    let (mut alphas_cut, mut traces_cut) = (Cutter::new(&mut alphas), Cutter::new(&mut traces));
    let tasks: Vec<_> = row_tasks(&bounds)
        .map(|(_, range)| {
            let length = range.len() * stride;
            let ax_bar = ax_bar_cut.take(if ax.is_some() { length } else { 0 });
            (range, b_bar_cut.take(length), ax_bar, alphas_cut.take(stride), &mut traces_cut.take(1)[0])
        })
        .collect();
    let (b, rest_bar) = (&work.b, &work.rest_bar);
    tasks::run(tasks, rows.len() * d * 8, |(range, b_bar, ax_bar, alpha_bar, trace)| {
        let run = BackRun {
            x: samples.x.slice(range.clone()),
            tau: &samples.tau[range.clone()],
            b: b.slice(range.clone()),
            rest_bar: &rest_bar[range.clone()],
            b_bar,
            stride,
        };
        *trace = match (&diffusion.form, ax) {
            (Form::Diagonal { alpha }, _) => dispatch(
                #[inline(always)]
                || run.untilt::<P, O, _>(&mut DiagonalProduct::new(alpha, alpha_bar)),
            ),
            (Form::Full { .. }, Some(ax)) => dispatch(
                #[inline(always)]
                || run.untilt::<P, O, _>(&mut FullProduct::new(ax.slice(range), ax_bar, stride)),
            ),
            (Form::Full { .. }, None) => unreachable!("`tilt` ran before"),
        };
    });
    adjoint.trace += traces.iter().sum::<f64>();
    adjoint.form.add_alpha_shares(&alphas, stride, 1.0);
    if let (Adjoint::Full(bar), Some(full)) = (&mut adjoint.form, &work.full_tilt) {
        add_outer_product(bar.view_mut(), &full.ax_bar, &samples.x, rows);
    }
}

impl<T: Scalar> BackRun<'_, T> {
    /// Returns the derivative with respect to tr a.
    #[inline(always)]
    fn untilt<P: Profile<T>, O: PairTerm, S: DiffusionProduct<T>>(self, spread: &mut S) -> f64 {
        let share = T::from_f64(O::TILT_SHARE);
        let mut trace = 0.0;
        let inputs = self.x.chunks_exact(self.stride).zip(self.b.chunks_exact(self.stride));
        for (i, ((x, b), bar)) in inputs.zip(self.b_bar.chunks_exact_mut(self.stride)).enumerate() {
            let (tau, rest_bar) = (self.tau[i], self.rest_bar[i]);
            let factor = share * tau;
            let (along_x, back_x) = (T::from_f64(1.5) * tau * tau * rest_bar, tau * rest_bar);
            for (k, ((x, b), bar)) in groups(x).iter().zip(groups(b)).zip(groups_mut(bar)).enumerate() {
                let mut b_bar = *bar;
                let mut ax_bar = [T::ZERO; LANES];
                if O::QUADRATIC {
                    for l in 0..LANES {
                        ax_bar[l] = along_x * x[l] - factor * b_bar[l];
                        b_bar[l] -= back_x * x[l];
                    }
                } else if P::LINEAR {
                    let ax = spread.product(i, k, x);
                    for l in 0..LANES {
                        b_bar[l] += rest_bar * ax[l];
                        ax_bar[l] = rest_bar * b[l] - factor * b_bar[l];
                    }
                } else {
                    for l in 0..LANES {
                        ax_bar[l] = -factor * b_bar[l];
                    }
                }
                if O::QUADRATIC || P::LINEAR {
                    *bar = b_bar;
                }
                spread.add_adjoint(i, k, x, &ax_bar);
            }
            if O::QUADRATIC {
                trace -= 0.5 * back_x.to_f64();
            }
        }
        trace
    }
}
