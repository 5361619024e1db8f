//! Stage `pairs`: the `linear` estimator. Neighbouring rows meet once; everything about a pair is a few
//! inner products over d, then one pass that writes the adjoints.

use super::diffusion::{Adjoint, Diffusion, DiffusionAdjoint, Form};
use super::matmul::product;
use super::rows::Rows;
use super::simd::{Group, LANES, add_product, dispatch, groups, groups_mut, total};
use super::tasks::{self, Cutter};
use super::{Samples, Work};
use crate::Scalar;
use crate::kernel::Profile;
use crate::objective::{Coefficients, Dots, PairTerm};

/// Pairs that one task visits; each task sums its own share of ∂/∂α.
const PAIRS_PER_TASK: usize = 64;

/// Buffers of this stage that only a full diffusion needs.
#[derive(Default)]
pub(super) struct FullPairs<T> {
    /// r of each pair.
    r: Option<Rows<T>>,
    /// z = a r.
    z: Option<Rows<T>>,
    /// ∂/∂z.
    z_bar: Option<Rows<T>>,
}

/// A range of pairs, their rows of ∂/∂b̃, their entries of ∂/∂rest, their rows of ∂/∂z, and the task's sums.
type Task<'a, T> = (std::ops::Range<usize>, &'a mut [T], &'a mut [T], &'a mut [T], Share<'a, T>);

/// What one task adds up.
struct Share<'a, T> {
    loss: &'a mut f64,
    trace: &'a mut f64,
    trace2: &'a mut f64,
    alpha: &'a mut [T],
}

/// Loss, ∂/∂b̃, ∂/∂rest and ∂/∂a of environment `e`, each divided by E times its number of pairs.
pub(super) fn pairs<T: Scalar, P: Profile<T>, O: PairTerm>(
    profile: P,
    samples: &Samples<T>,
    e: usize,
    diffusion: &Diffusion<T>,
    work: &mut Work<T>,
) -> (f64, DiffusionAdjoint<T>) {
    let rows = samples.rows(e);
    let (count, d, stride) = (rows.len() / 2, samples.x.dim(), samples.x.stride());
    let weight = 1.0 / (samples.environments() as f64 * count as f64);
    let full = match &diffusion.form {
        Form::Diagonal { .. } => None,
        Form::Full { a, .. } => Some(prepare_full(&mut work.full_pairs, samples, rows.start, count, a)),
    };
    let task_count = count.div_ceil(PAIRS_PER_TASK);
    let mut sums = vec![[0.0f64; 3]; task_count];
    let mut alphas = vec![T::ZERO; task_count * stride];
    let mut b_bar_cut = Cutter::new(work.b_bar.slice_mut(rows.start..rows.start + 2 * count));
    let mut rest_cut = Cutter::new(&mut work.rest_bar[rows.start..rows.start + 2 * count]);
    let (z, mut z_bar_cut) = match full {
        Some((z, z_bar)) => (Some(z), Cutter::new(z_bar.as_mut_slice())),
        None => (None, Cutter::new(&mut [])),
    };
    let mut sums_cut = Cutter::new(&mut sums);
    let mut alphas_cut = Cutter::new(&mut alphas);
    let tasks: Vec<_> = (0..task_count)
        .map(|t| {
            let first = t * PAIRS_PER_TASK;
            let length = PAIRS_PER_TASK.min(count - first);
            let z_bar = z_bar_cut.take(if z.is_some() { length * stride } else { 0 });
            let [loss, trace, trace2] = &mut sums_cut.take(1)[0];
            let share = Share { loss, trace, trace2, alpha: alphas_cut.take(stride) };
            (first..first + length, b_bar_cut.take(2 * length * stride), rest_cut.take(2 * length), z_bar, share)
        })
        .collect();
    let (b, rest) = (&work.b, &work.rest);
    let visit = |(range, b_bar, rest_bar, z_bar, share): Task<'_, T>| {
        let first = range.start;
        for p in range {
            let local = p - first;
            let (i, j) = (rows.start + 2 * p, rows.start + 2 * p + 1);
            let (b_bar_x, b_bar_y) =
                b_bar[2 * local * stride..(2 * local + 2) * stride].split_at_mut(stride);
            let tilt = if P::TILTED { samples.omega[i] * samples.omega[j] } else { T::ONE };
            let mut pair = Pair {
                x: samples.x.row(i),
                y: samples.x.row(j),
                b: b.row(i),
                b_other: b.row(j),
                b_bar: b_bar_x,
                b_bar_other: b_bar_y,
                dots: Dots {
                    rest: rest[i],
                    rest_other: rest[j],
                    trace: T::from_f64(diffusion.trace),
                    trace2: T::from_f64(diffusion.trace2),
                    ..Dots::default()
                },
                weight: T::from_f64(weight) * tilt,
            };
            let (term, c) = match (&diffusion.form, z) {
                (Form::Diagonal { alpha }, _) => pair.visit_diagonal::<P, O>(profile, alpha, share.alpha),
                (Form::Full { .. }, Some(z)) => {
                    let z_bar = &mut z_bar[local * stride..(local + 1) * stride];
                    pair.visit_full::<P, O>(profile, z.row(p), z_bar)
                }
                (Form::Full { .. }, None) => unreachable!("z was prepared for the full form"),
            };
            *share.loss += weight * (tilt * term).to_f64();
            *share.trace += c.trace.to_f64();
            *share.trace2 += c.trace2.to_f64();
            rest_bar[2 * local] = c.rest;
            rest_bar[2 * local + 1] = c.rest_other;
        }
    };
    tasks::run(tasks, count * d * 16, |task| dispatch(|| visit(task)));
    if rows.len() % 2 == 1 {
        work.b_bar.row_mut(rows.end - 1).fill(T::ZERO);
        work.rest_bar[rows.end - 1] = T::ZERO;
    }
    let mut adjoint = diffusion.adjoint(d);
    let mut loss = 0.0;
    for [task_loss, trace, trace2] in &sums {
        loss += task_loss;
        adjoint.trace += trace;
        adjoint.trace2 += trace2;
    }
    match &mut adjoint.form {
        Adjoint::Diagonal(bar) => {
            for task in alphas.chunks_exact(stride) {
                bar.iter_mut().zip(task).for_each(|(bar, share)| *bar += share.to_f64());
            }
        }
        Adjoint::Full(bar) => {
            let FullPairs { r: Some(r), z_bar: Some(z_bar), .. } = &work.full_pairs else {
                unreachable!("prepared above")
            };
            product(bar.view_mut(), z_bar.view(0..count).transpose(), r.view(0..count));
        }
    }
    (loss, adjoint)
}

/// r and z = a r of every pair of an environment: one product for all of them instead of one per pair.
fn prepare_full<'a, T: Scalar>(
    buffers: &'a mut FullPairs<T>,
    samples: &Samples<T>,
    start: usize,
    count: usize,
    a: &crate::Matrix<T>,
) -> (&'a Rows<T>, &'a mut Rows<T>) {
    let (capacity, d) = (samples.largest_environment() / 2, samples.x.dim());
    let zeros = || Rows::zeros(capacity, d);
    let r = buffers.r.get_or_insert_with(zeros);
    let z = buffers.z.get_or_insert_with(zeros);
    for p in 0..count {
        let (x, y) = (samples.x.row(start + 2 * p), samples.x.row(start + 2 * p + 1));
        for (r, (x, y)) in r.row_mut(p).iter_mut().zip(x.iter().zip(y)) {
            *r = *x - *y;
        }
    }
    product(z.view_mut(0..count), r.view(0..count), a.view());
    (z, buffers.z_bar.get_or_insert_with(zeros))
}

/// One pair: its vectors, what is known of its inner products, and where its adjoints go.
struct Pair<'a, T> {
    x: &'a [T],
    y: &'a [T],
    b: &'a [T],
    b_other: &'a [T],
    b_bar: &'a mut [T],
    b_bar_other: &'a mut [T],
    dots: Dots<T>,
    weight: T,
}

impl<T: Scalar> Pair<'_, T> {
    /// With z = α ∘ r; adds to ∂/∂α.
    #[inline(always)]
    fn visit_diagonal<P: Profile<T>, O: PairTerm>(
        &mut self,
        profile: P,
        alpha: &[T],
        alpha_bar: &mut [T],
    ) -> (T, Coefficients<T>) {
        let alpha = groups(alpha);
        let (term, c) = self.measure::<P, O>(profile, |k, r| {
            let mut z = [T::ZERO; LANES];
            for l in 0..LANES {
                z[l] = alpha[k][l] * r[l];
            }
            z
        });
        let alpha_bar = groups_mut(alpha_bar);
        self.scatter::<P, O>(
            &c,
            |k, r| {
                let mut z = [T::ZERO; LANES];
                for l in 0..LANES {
                    z[l] = alpha[k][l] * r[l];
                }
                z
            },
            |k, r, z_bar| add_product(&mut alpha_bar[k], r, z_bar),
        );
        (term, c)
    }

    /// With z given; writes ∂/∂z.
    #[inline(always)]
    fn visit_full<P: Profile<T>, O: PairTerm>(
        &mut self,
        profile: P,
        z: &[T],
        z_bar: &mut [T],
    ) -> (T, Coefficients<T>) {
        let (z, z_bar) = (groups(z), groups_mut(z_bar));
        let (term, c) = self.measure::<P, O>(profile, |k, _| z[k]);
        self.scatter::<P, O>(&c, |k, _| z[k], |k, _, bar| z_bar[k] = *bar);
        (term, c)
    }

    /// The inner products, the term and its coefficients times the pair's weight.
    #[inline(always)]
    fn measure<P: Profile<T>, O: PairTerm>(
        &mut self,
        profile: P,
        z_of: impl Fn(usize, &Group<T>) -> Group<T>,
    ) -> (T, Coefficients<T>) {
        let zero = [T::ZERO; LANES];
        let (mut rho, mut v, mut g, mut m) = (zero, zero, zero, zero);
        let (mut pi, mut pi_other, mut w) = (zero, zero, zero);
        let (mut inner, mut b_y, mut b_x) = (zero, zero, zero);
        let (x, y, b, b_other) = (groups(self.x), groups(self.y), groups(self.b), groups(self.b_other));
        for k in 0..x.len() {
            let (x, y, b, b_other) = (&x[k], &y[k], &b[k], &b_other[k]);
            let (mut r, mut delta) = (zero, zero);
            for l in 0..LANES {
                r[l] = x[l] - y[l];
                delta[l] = b[l] - b_other[l];
            }
            let z = z_of(k, &r);
            add_product(&mut rho, &r, &r);
            add_product(&mut v, b, b_other);
            add_product(&mut g, &delta, &z);
            add_product(&mut m, &z, &z);
            if O::QUADRATIC {
                add_product(&mut pi, b, &r);
                add_product(&mut pi_other, b_other, &r);
                add_product(&mut w, &r, &z);
            }
            if P::LINEAR {
                add_product(&mut inner, x, y);
                if O::QUADRATIC {
                    add_product(&mut b_y, b, y);
                    add_product(&mut b_x, b_other, x);
                }
            }
        }
        let dots = &mut self.dots;
        (dots.v, dots.g, dots.m) = (total(v), total(g), total(m));
        (dots.pi, dots.pi_other, dots.w) = (total(pi), total(pi_other), total(w));
        (dots.inner, dots.b_y, dots.b_x) = (T::ONE + total(inner), total(b_y), total(b_x));
        let phi = profile.derivatives(T::HALF * total(rho));
        let term = O::term::<T, P>(&phi, dots);
        (term, O::coefficients::<T, P>(&phi, dots).scaled(self.weight))
    }

    /// Writes ∂/∂b̃ at both points and hands over ∂/∂z.
    #[inline(always)]
    fn scatter<P: Profile<T>, O: PairTerm>(
        &mut self,
        c: &Coefficients<T>,
        z_of: impl Fn(usize, &Group<T>) -> Group<T>,
        mut take_z_bar: impl FnMut(usize, &Group<T>, &Group<T>),
    ) {
        let (x, y, b, b_other) = (groups(self.x), groups(self.y), groups(self.b), groups(self.b_other));
        let (b_bar, b_bar_other) = (groups_mut(self.b_bar), groups_mut(self.b_bar_other));
        let zero = [T::ZERO; LANES];
        for k in 0..x.len() {
            let (x, y, b, b_other) = (&x[k], &y[k], &b[k], &b_other[k]);
            let mut r = zero;
            for l in 0..LANES {
                r[l] = x[l] - y[l];
            }
            let z = z_of(k, &r);
            let (mut bar, mut bar_other, mut z_bar) = (zero, zero, zero);
            for l in 0..LANES {
                bar[l] = c.b * b_other[l] + c.z * z[l];
                bar_other[l] = c.b * b[l] - c.z * z[l];
                z_bar[l] = c.z * (b[l] - b_other[l]) + c.m * z[l];
                if O::QUADRATIC {
                    bar[l] += c.r * r[l];
                    bar_other[l] += c.r_other * r[l];
                    z_bar[l] += c.w * r[l];
                    if P::LINEAR {
                        bar[l] += c.y * y[l];
                        bar_other[l] += c.x * x[l];
                    }
                }
            }
            b_bar[k] = bar;
            b_bar_other[k] = bar_other;
            take_z_bar(k, &r, &z_bar);
        }
    }
}

