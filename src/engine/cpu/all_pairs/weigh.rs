//! From inner products to coefficients, in place.

use super::prepare::Numbers;
use super::{BlockTask, Pass, TILE_COLS, Tiles};
use crate::Scalar;
use crate::kernel::Profile;
use crate::numeric::simd::{LANES, groups, total};
use crate::objective::{Dots, Estimator, PairTerm};
use std::ops::Range;

impl<T: Scalar, P: Profile<T>> Pass<'_, T, P> {
    /// Turns tiles of inner products into tiles of coefficients times ω(x) ω(y), and adds up their rows.
    #[inline(always)]
    pub(super) fn weigh<O: PairTerm>(
        &self,
        numbers: &Numbers<T>,
        cols: Range<usize>,
        tiles: &mut Tiles<T>,
        task: &mut BlockTask<'_, T>,
    ) {
        let start = numbers.start(self.e);
        let count = cols.len();
        let span = start + cols.start..start + cols.end;
        let mut omega = [T::ZERO; TILE_COLS];
        omega[..count].copy_from_slice(&numbers.omega[span.clone()]);
        let mut rests = [T::ZERO; TILE_COLS];
        let [t0, t1, t2, t3, t4] = &mut tiles.tiles;
        for (local, i) in task.rows.clone().enumerate() {
            // The diagonal is no pair of the `u` estimate: weightless for this row.
            let diagonal = (self.estimator == Estimator::U && cols.contains(&i)).then(|| i - cols.start);
            let kept = diagonal.map(|at| std::mem::replace(&mut omega[at], T::ZERO));
            let line = local * TILE_COLS..local * TILE_COLS + count;
            let (t0, t1, t2) = (&mut t0[line.clone()], &mut t1[line.clone()], &mut t2[line.clone()]);
            let (t3, t4) = (&mut t3[line.clone()], &mut t4[line]);
            self.weigh_row::<O>(
                numbers,
                start + i,
                span.clone(),
                &omega[..count],
                [t0, t1, t2, t3, t4],
                &mut rests[..count],
            );
            if let (Some(at), Some(kept)) = (diagonal, kept) {
                omega[at] = kept;
            }
            let sums = &mut tiles.row_sums[local];
            sums[0] += row_sum(t0);
            if O::QUADRATIC {
                sums[1] += row_sum(t1);
                sums[2] += row_sum(t2);
            }
            if !P::GAUSSIAN {
                let (z, m) = if O::QUADRATIC { (t3, t4) } else { (t1, t2) };
                sums[3] += row_sum(z);
                sums[4] += row_sum(m);
            }
            if P::TILTED && (O::QUADRATIC || P::LINEAR) {
                task.rest_bar[local] += row_sum(&rests[..count]);
            }
        }
    }

    /// One row of the tiles: no sums and no branches, so that the loop becomes vector code.
    #[inline(always)]
    fn weigh_row<O: PairTerm>(
        &self,
        numbers: &Numbers<T>,
        i: usize,
        span: Range<usize>,
        omega: &[T],
        [t0, t1, t2, t3, t4]: [&mut [T]; 5],
        rests: &mut [T],
    ) {
        let count = span.len();
        let (trace, trace2) = (T::from_f64(self.diffusion.trace), T::from_f64(self.diffusion.trace2));
        let profile = self.profile;
        let omega_i = numbers.omega[i];
        let (half_i, shift_i) = (numbers.half_square[i], numbers.shift[i]);
        let (b_x_i, x_ax_i, rest_i) = (numbers.b_x[i], numbers.x_ax[i], numbers.rest[i]);
        // Slices of one known length: the compiler then drops every bounds check.
        let half_square = &numbers.half_square[span.clone()][..count];
        let shift = &numbers.shift[span.clone()][..count];
        let b_x = &numbers.b_x[span.clone()][..count];
        let b_c = &numbers.b_c[span.clone()][..count];
        let x_ax = &numbers.x_ax[span.clone()][..count];
        let rest = &numbers.rest[span][..count];
        let (omega, rests) = (&omega[..count], &mut rests[..count]);
        let (t0, t1, t2) = (&mut t0[..count], &mut t1[..count], &mut t2[..count]);
        let (t3, t4) = (&mut t3[..count], &mut t4[..count]);
        for j in 0..count {
            let rho = Scalar::max(half_i + half_square[j] - t0[j], T::ZERO);
            let phi = profile.derivatives(rho);
            let mut dots = Dots { trace, trace2, ..Dots::default() };
            if P::LINEAR {
                dots.inner = t0[j] + shift_i + shift[j];
            }
            if O::QUADRATIC {
                dots.pi = b_x_i - t1[j];
                dots.pi_other = t2[j] - b_x[j];
                dots.w = x_ax_i + x_ax[j] - (t3[j] + t3[j]);
                dots.b_x = t2[j] + b_c[j];
                dots.rest = rest_i;
                dots.rest_other = rest[j];
            }
            let c = O::coefficients::<T, P>(&phi, &dots).scaled(omega_i * omega[j]);
            t0[j] = c.b;
            if O::QUADRATIC {
                t1[j] = c.r;
                t2[j] = c.w;
            }
            if !P::GAUSSIAN {
                if O::QUADRATIC {
                    t3[j] = c.z;
                    t4[j] = c.m;
                } else {
                    t1[j] = c.z;
                    t2[j] = c.m;
                }
            }
            if P::TILTED && (O::QUADRATIC || P::LINEAR) {
                rests[j] = c.rest;
            }
        }
    }
}

/// The sum of a padded row, lane by lane.
#[inline(always)]
fn row_sum<T: Scalar>(row: &[T]) -> T {
    let mut sum = [T::ZERO; LANES];
    for group in groups(row) {
        for l in 0..LANES {
            sum[l] += group[l];
        }
    }
    total(sum)
}
