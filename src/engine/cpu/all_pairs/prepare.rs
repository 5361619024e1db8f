//! What the tiles need to know of each sample.

use super::{AllPairs, Layout, TILE_COLS};
use crate::Scalar;
use crate::engine::cpu::diffusion::{Diffusion, Form};
use crate::engine::cpu::rows::{Rows, strided};
use crate::engine::cpu::{Samples, StageBuffers};
use crate::kernel::Profile;
use crate::numeric::matmul::product;
use crate::numeric::simd::{dispatch, dot};
use crate::objective::PairTerm;

/// Numbers per sample, each environment's run padded to whole tiles with zeros: ω = 0 makes padding weightless.
#[derive(Default)]
pub(super) struct Numbers<T> {
    /// Where each environment's run begins.
    starts: Vec<usize>,
    pub omega: Vec<T>,
    /// ½ |x|² of the centred sample.
    pub half_square: Vec<T>,
    /// ⟨x, c⟩ + ½ |c|² + ½ of the centred sample and the centre c: turns a centred inner product into 1 + ⟨x, y⟩.
    pub shift: Vec<T>,
    /// ⟨b̃, x⟩ of the centred sample.
    pub b_x: Vec<T>,
    /// ⟨b̃, c⟩.
    pub b_c: Vec<T>,
    /// ⟨x, a x⟩ of the centred sample.
    pub x_ax: Vec<T>,
    pub rest: Vec<T>,
    /// Σ_j ω_j ζ_j x_j of the present environment, uncentred (KDS, linear kernels).
    pub reach: Vec<T>,
}

impl<T: Scalar> Numbers<T> {
    /// Where environment `e`'s run begins.
    pub(super) fn start(&self, e: usize) -> usize {
        self.starts[e]
    }

    fn resize(&mut self, length: usize) {
        let Numbers { omega, half_square, shift, b_x, b_c, x_ax, rest, .. } = self;
        for list in [omega, half_square, shift, b_x, b_c, x_ax, rest] {
            list.resize(length, T::ZERO);
        }
    }
}

impl<T: Scalar> AllPairs<T> {
    /// What depends on the samples alone.
    pub(crate) fn new<P: Profile<T>, O: PairTerm>(samples: &Samples<T>) -> Self {
        let (n, stride) = (samples.x.all().len(), samples.x.stride());
        let mut pair_rows = vec![T::ZERO; n * 2 * stride];
        let mut numbers = Numbers { reach: vec![T::ZERO; stride], ..Numbers::default() };
        for e in 0..samples.environments() {
            let (rows, start, centre) = (samples.rows(e), numbers.omega.len(), samples.centre(e));
            numbers.starts.push(start);
            numbers.resize(start + rows.len().next_multiple_of(TILE_COLS));
            for (at, i) in (start..).zip(rows) {
                let centred = &mut pair_rows[(2 * i + 1) * stride..(2 * i + 2) * stride];
                for (out, (x, c)) in centred.iter_mut().zip(samples.x.row(i).iter().zip(centre)) {
                    *out = *x - *c;
                }
                numbers.half_square[at] = T::HALF * dot(centred, centred);
                numbers.shift[at] = dot(centred, centre) + T::HALF * (dot(centre, centre) + T::ONE);
                numbers.omega[at] = if P::TILTED { samples.omega[i] } else { T::ONE };
            }
        }
        let blocks = Layout::of::<T, P, O>().blocks();
        AllPairs { pair_rows, ax: None, sums: vec![T::ZERO; n * blocks * stride], numbers }
    }

    /// What depends on the parameters: b̃ beside the centred samples, and numbers made of it.
    pub(crate) fn prepare<P: Profile<T>, O: PairTerm>(
        &mut self,
        samples: &Samples<T>,
        e: usize,
        diffusion: &Diffusion<T>,
        work: &StageBuffers<T>,
    ) {
        let (rows, stride, d) = (samples.rows(e), samples.x.stride(), samples.x.dim());
        let AllPairs { pair_rows, ax, numbers, .. } = self;
        for i in rows.clone() {
            pair_rows[2 * i * stride..(2 * i + 1) * stride].copy_from_slice(work.b.row(i));
        }
        let start = numbers.start(e);
        numbers.rest[start..start + rows.len()].copy_from_slice(&work.rest[rows.clone()]);
        if !O::QUADRATIC {
            return;
        }
        let ax = ax.get_or_insert_with(|| Rows::zeros(samples.x.all().len(), d));
        match &diffusion.form {
            Form::Diagonal { alpha } => {
                for i in rows.clone() {
                    let x = &pair_rows[(2 * i + 1) * stride..(2 * i + 2) * stride];
                    for (ax, (x, alpha)) in ax.row_mut(i).iter_mut().zip(x.iter().zip(alpha)) {
                        *ax = *x * *alpha;
                    }
                }
            }
            Form::Full { a, .. } => {
                let x = strided(&pair_rows[(2 * rows.start + 1) * stride..], rows.len(), d, 2 * stride);
                product(ax.view_mut(rows.clone()), x, a.view());
            }
        }
        numbers.reach.fill(T::ZERO);
        dispatch(
            #[inline(always)]
            || {
                for (at, i) in (start..).zip(rows) {
                    let (b, x) = pair_rows[2 * i * stride..(2 * i + 2) * stride].split_at(stride);
                    numbers.b_x[at] = dot(b, x);
                    numbers.b_c[at] = dot(b, samples.centre(e));
                    numbers.x_ax[at] = dot(x, ax.row(i));
                    if P::LINEAR {
                        let weight = samples.omega[i] * work.rest[i];
                        for (reach, x) in numbers.reach.iter_mut().zip(samples.x.row(i)) {
                            *reach += weight * *x;
                        }
                    }
                }
            },
        );
    }
}
