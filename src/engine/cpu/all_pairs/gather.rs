//! From sums over pairs to ∂/∂b̃, ∂/∂a and the loss.

use super::prepare::Numbers;
use super::{AllPairs, BlockTask, Direction, Layout, Pass, Tiles, Totals};
use crate::engine::cpu::StageBuffers;
use crate::engine::cpu::diffusion::{Adjoint, DiffusionAdjoint, Form};
use crate::engine::cpu::rows::strided;
use crate::kernel::Profile;
use crate::numeric::matmul::product;
use crate::numeric::simd::dot;
use crate::objective::{Estimator, PairTerm};
use crate::{Matrix, Scalar};

impl<T: Scalar, P: Profile<T>> Pass<'_, T, P> {
    /// 1 / (E · pairs).
    fn weight(&self) -> f64 {
        let pairs = self.estimator.pairs(self.samples.rows(self.e).len()) as f64;
        1.0 / (self.samples.environments() as f64 * pairs)
    }

    /// Finishes a block once all columns have passed: R_q from its sums, then everything that needs one row only.
    #[inline(always)]
    pub(super) fn close<O: PairTerm>(
        &self,
        layout: Layout,
        pair_rows: &[T],
        numbers: &Numbers<T>,
        tiles: &Tiles<T>,
        task: &mut BlockTask<'_, T>,
    ) {
        let env = self.samples.rows(self.e);
        let stride = self.samples.x.stride();
        let width = layout.blocks() * stride;
        let eta = self.profile.decay();
        let find = |direction| layout.find::<T, O>(direction, eta);
        let (in_r, in_z) = (find(Direction::R), find(Direction::Z));
        let (in_w, in_m) = (find(Direction::W), find(Direction::M));
        let two = T::from_f64(2.0 * self.weight());
        let z_ratio = O::gaussian_ratios(eta).0;
        for (local, i) in task.rows.clone().enumerate() {
            let [sum_b, sum_r, sum_w, sum_z, sum_m] = tiles.row_sums[local];
            let (b, x) = pair_rows[2 * (env.start + i) * stride..][..2 * stride].split_at(stride);
            let line = &mut task.sums[local * width..(local + 1) * width];
            let mut turn = |block: usize, row_sum: T| {
                for (out, x) in line[block * stride..(block + 1) * stride].iter_mut().zip(x) {
                    *out = row_sum * *x - *out;
                }
            };
            if layout.gaussian {
                turn(1, sum_b);
            }
            for (k, direction) in layout.directions.iter().enumerate() {
                let row_sum = match direction {
                    Direction::R => sum_r,
                    Direction::W => sum_w,
                    Direction::Z => sum_z,
                    Direction::M => sum_m,
                };
                turn(layout.first_direction() + k, row_sum);
            }
            let block = |at: usize| &line[at * stride..(at + 1) * stride];
            let bar = &mut task.b_bar[local * stride..(local + 1) * stride];
            bar.copy_from_slice(block(0));
            if let Some((at, factor)) = in_r {
                bar.iter_mut().zip(block(at)).for_each(|(bar, r)| *bar += factor * *r);
            }
            if let Form::Diagonal { alpha } = &self.diffusion.form {
                if let Some((at, factor)) = in_z {
                    let (r_z, alpha_bar) = (block(at), &mut *task.alpha_bar);
                    for k in 0..stride {
                        bar[k] += factor * alpha[k] * r_z[k];
                        alpha_bar[k] += factor * b[k] * r_z[k];
                    }
                }
                if let Some((at, factor)) = in_w {
                    let r_w = block(at);
                    for k in 0..stride {
                        task.alpha_bar[k] += factor * x[k] * r_w[k];
                    }
                }
                if let Some((at, factor)) = in_m {
                    let r_m = block(at);
                    for k in 0..stride {
                        task.alpha_bar[k] += factor * alpha[k] * x[k] * r_m[k];
                    }
                }
            }
            if P::LINEAR && O::QUADRATIC {
                self.reach(numbers, env.start + i, bar);
            }
            bar.iter_mut().for_each(|bar| *bar = two * *bar);
            task.totals.r += sum_r.to_f64();
            task.totals.z += (if layout.gaussian { z_ratio * sum_b } else { sum_z }).to_f64();
            if P::LINEAR && !O::QUADRATIC {
                task.totals.z += task.rest_bar[local].to_f64();
            }
            task.rest_bar[local] = two * task.rest_bar[local];
            task.totals.drift += dot(bar, b).to_f64();
            let rest = numbers.rest[numbers.start(self.e) + i];
            task.totals.rest += task.rest_bar[local].to_f64() * rest.to_f64();
        }
    }

    /// Adds Σ_j ω_i ω_j ζ_j x_j, the coefficient c_y of KDS's linear part: of rank one, so no pairs are needed.
    #[inline(always)]
    fn reach(&self, numbers: &Numbers<T>, i: usize, bar: &mut [T]) {
        let at = numbers.start(self.e) + i - self.samples.rows(self.e).start;
        let omega = numbers.omega[at];
        let own = if self.estimator == Estimator::U { omega * numbers.rest[at] } else { T::ZERO };
        for ((bar, reach), x) in bar.iter_mut().zip(&numbers.reach).zip(self.samples.x.row(i)) {
            *bar += omega * (*reach - own * *x);
        }
    }

    /// Adds up the blocks; for a full diffusion also the products that need all rows.
    pub(super) fn gather<O: PairTerm>(
        &self,
        layout: Layout,
        state: &AllPairs<T>,
        work: &mut StageBuffers<T>,
        totals: &[Totals],
        alphas: &[T],
    ) -> (f64, DiffusionAdjoint<T>) {
        let (d, stride) = (self.samples.x.dim(), self.samples.x.stride());
        let weight = self.weight();
        let sum = |part: fn(&Totals) -> f64| totals.iter().map(part).sum::<f64>();
        let mut adjoint = self.diffusion.adjoint(d);
        adjoint.trace = weight * sum(|t| t.r);
        adjoint.trace2 = 0.5 * weight * sum(|t| t.z);
        let mut drift = sum(|t| t.drift);
        adjoint.form.add_alpha_shares(alphas, stride, 2.0 * weight);
        if let Adjoint::Full(bar) = &mut adjoint.form {
            drift += self.full::<O>(layout, state, work, bar);
        }
        // ζ is linear in drift and diffusion, the rest of SKDS's linear part is quadratic in them.
        let rest = if O::QUADRATIC { 0.5 } else { 1.0 } * sum(|t| t.rest);
        let loss = 0.5 * (drift + self.diffusion.contract(&adjoint)) + rest;
        (loss, adjoint)
    }

    /// a R_z for ∂/∂b̃ and the outer products for ∂/∂a. Returns ⟨a R_z, b̃⟩'s share of ⟨∂/∂b̃, b̃⟩.
    fn full<O: PairTerm>(
        &self,
        layout: Layout,
        state: &AllPairs<T>,
        work: &mut StageBuffers<T>,
        bar: &mut Matrix<T>,
    ) -> f64 {
        let Form::Full { a, .. } = &self.diffusion.form else {
            unreachable!("an adjoint has the form of its diffusion")
        };
        let rows = self.samples.rows(self.e);
        let (n, d, stride) = (rows.len(), self.samples.x.dim(), self.samples.x.stride());
        let width = layout.blocks() * stride;
        let eta = self.profile.decay();
        let two = T::from_f64(2.0 * self.weight());
        let half =
            |half: usize| strided(&state.pair_rows[(2 * rows.start + half) * stride..], n, d, 2 * stride);
        let sums = |at: usize| strided(&state.sums[rows.start * width + at * stride..], n, d, width);
        let mut space = Matrix::full(d, d, T::ZERO);
        let mut add = |space: &Matrix<T>, factor: T| {
            let factor = two * factor;
            bar.as_mut_slice()
                .iter_mut()
                .zip(space.as_slice())
                .for_each(|(bar, value)| *bar += factor * *value);
        };
        let mut drift = 0.0;
        if let Some((at, factor)) = layout.find::<T, O>(Direction::Z, eta) {
            let mut turned = super::Rows::zeros(n, d);
            product(turned.view_mut(0..n), sums(at), a.view());
            let factor_two = two * factor;
            for (local, i) in rows.clone().enumerate() {
                let (bar, turned) = (work.b_bar.row_mut(i), turned.row(local));
                bar.iter_mut().zip(turned).for_each(|(bar, turned)| *bar += factor_two * *turned);
                drift += (factor_two * dot(turned, &state.pair_rows[2 * i * stride..][..stride])).to_f64();
            }
            product(space.view_mut(), half(0).transpose(), sums(at));
            add(&space, factor);
        }
        if let Some((at, factor)) = layout.find::<T, O>(Direction::W, eta) {
            product(space.view_mut(), half(1).transpose(), sums(at));
            add(&space, factor);
        }
        if let Some((at, factor)) = layout.find::<T, O>(Direction::M, eta) {
            product(space.view_mut(), half(1).transpose(), sums(at));
            let mut turned = Matrix::full(d, d, T::ZERO);
            product(turned.view_mut(), a.view(), space.view());
            add(&turned, factor);
        }
        drift
    }
}
