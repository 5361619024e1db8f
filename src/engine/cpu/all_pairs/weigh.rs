//! From inner products to coefficients, in place.

use super::prepare::Numbers;
use super::{BlockTask, Pass, TILE_COLS, Tiles};
use crate::Scalar;
use crate::engine::cpu::simd::{Group, LANES, groups, groups_mut, total};
use crate::kernel::Profile;
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
        let (trace, trace2) = (T::from_f64(self.diffusion.trace), T::from_f64(self.diffusion.trace2));
        let span = start + cols.start..start + cols.end;
        let mut omega = [T::ZERO; TILE_COLS];
        let omega = &mut omega[..cols.len()];
        omega.copy_from_slice(&numbers.omega[span.clone()]);
        let half_square = groups(&numbers.half_square[span.clone()]);
        let shift = groups(&numbers.shift[span.clone()]);
        let b_x_cols = groups(&numbers.b_x[span.clone()]);
        let b_c_cols = groups(&numbers.b_c[span.clone()]);
        let x_ax_cols = groups(&numbers.x_ax[span.clone()]);
        let rest_cols = groups(&numbers.rest[span]);
        let [t0, t1, t2, t3, t4] = &mut tiles.tiles;
        for (local, i) in task.rows.clone().enumerate() {
            // The diagonal is no pair of the `u` estimate: weightless for this row.
            let diagonal = (self.estimator == Estimator::U && cols.contains(&i)).then(|| i - cols.start);
            let kept = diagonal.map(|at| std::mem::replace(&mut omega[at], T::ZERO));
            let line = local * TILE_COLS..local * TILE_COLS + cols.len();
            let t0 = groups_mut(&mut t0[line.clone()]);
            let t1 = groups_mut(&mut t1[line.clone()]);
            let t2 = groups_mut(&mut t2[line.clone()]);
            let t3 = groups_mut(&mut t3[line.clone()]);
            let t4 = groups_mut(&mut t4[line]);
            let omega_cols = groups(omega);
            let i = start + i;
            let omega_i = numbers.omega[i];
            let (half_i, shift_i) = (numbers.half_square[i], numbers.shift[i]);
            let (b_x_i, x_ax_i, rest_i) = (numbers.b_x[i], numbers.x_ax[i], numbers.rest[i]);
            let mut sums: [Group<T>; 6] = [[T::ZERO; LANES]; 6];
            for k in 0..t0.len() {
                let [mut c_b, mut c_r, mut c_w, mut c_z, mut c_m, mut c_rest] = [[T::ZERO; LANES]; 6];
                for l in 0..LANES {
                    let rho = Scalar::max(half_i + half_square[k][l] - t0[k][l], T::ZERO);
                    let phi = self.profile.derivatives(rho);
                    let mut dots = Dots { trace, trace2, ..Dots::default() };
                    if P::LINEAR {
                        dots.inner = t0[k][l] + shift_i + shift[k][l];
                    }
                    if O::QUADRATIC {
                        dots.pi = b_x_i - t1[k][l];
                        dots.pi_other = t2[k][l] - b_x_cols[k][l];
                        dots.w = x_ax_i + x_ax_cols[k][l] - (t3[k][l] + t3[k][l]);
                        dots.b_x = t2[k][l] + b_c_cols[k][l];
                        dots.rest = rest_i;
                        dots.rest_other = rest_cols[k][l];
                    }
                    let c = O::coefficients::<T, P>(&phi, &dots).scaled(omega_i * omega_cols[k][l]);
                    c_b[l] = c.b;
                    c_r[l] = c.r;
                    c_w[l] = c.w;
                    c_z[l] = c.z;
                    c_m[l] = c.m;
                    c_rest[l] = c.rest;
                }
                t0[k] = c_b;
                add(&mut sums[0], &c_b);
                if O::QUADRATIC {
                    (t1[k], t2[k]) = (c_r, c_w);
                    add(&mut sums[1], &c_r);
                    add(&mut sums[2], &c_w);
                }
                if !P::GAUSSIAN {
                    if O::QUADRATIC {
                        (t3[k], t4[k]) = (c_z, c_m);
                    } else {
                        (t1[k], t2[k]) = (c_z, c_m);
                    }
                    add(&mut sums[3], &c_z);
                    add(&mut sums[4], &c_m);
                }
                if P::TILTED && (O::QUADRATIC || P::LINEAR) {
                    add(&mut sums[5], &c_rest);
                }
            }
            if let (Some(at), Some(kept)) = (diagonal, kept) {
                omega[at] = kept;
            }
            for (sum, group) in tiles.row_sums[local].iter_mut().zip(&sums) {
                *sum += total(*group);
            }
            task.rest_bar[local] += total(sums[5]);
        }
    }
}

#[inline(always)]
fn add<T: Scalar>(sum: &mut Group<T>, group: &Group<T>) {
    for l in 0..LANES {
        sum[l] += group[l];
    }
}
