//! The sufficient statistics of SKDS for an environment: three small arrays from one pass over all pairs.
//!
//! With z the functions that the drift is linear in ((x, 1) for the linear model), g_jk those of the noise of
//! coordinate j (1), and the kernel k over all pairs (x, y) of an estimator,
//!
//! ```text
//! C = mean k z z'ᵀ  (p × p)     D_jk = mean ½ z g_jk(y) ∂k/∂y_j  (p × d·m)     E_jkl = mean ¼ g_jk(x) g_jl(y) ∂²k/∂x_j∂y_j
//! ```
//!
//! and for a drift of coordinate j with coefficients v of z and amounts α of noise, the loss of coordinate j is
//! vᵀ C v + 2 vᵀ D_j α + αᵀ E_j α: with diagonal noise SKDS is a sum of such forms.
//!
//! With k = ω(x) ω(y) [φ(ρ) + c (1 + ⟨x, y⟩)], all of this is made of sums over the columns y of each row x,
//! `RowSums`, which a device computes in tiles, and of products with the samples, which are O(n d²).

mod samples;
mod tiles;

use super::Design;
use crate::data::Dataset;
use crate::engine::gpu::GpuEngine;
use crate::engine::pair_sums::PairColumns;
use crate::kernel::{Kernel, with_profile};
use crate::objective::Estimator;
use crate::{Error, Matrix, Progress, Result};
use rayon::prelude::*;
use samples::{Samples, beside, columns_of};
use tiles::{Columns, all_row_sums};

/// The sufficient statistics of one environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// C, p × p.
    pub drift: Matrix<f64>,
    /// D, p × d·m.
    pub cross: Matrix<f64>,
    /// E, d × m².
    pub noise: Matrix<f64>,
}

impl Statistics {
    /// The statistics of every environment over all pairs (`u` or `v`), in f64 on all threads: the same bits for any
    /// number of them. `progress` can stop it; nothing is counted.
    pub fn of(
        data: &Dataset,
        design: &Design,
        kernel: Kernel,
        estimator: Estimator,
        progress: &Progress,
    ) -> Result<Vec<Statistics>> {
        check_estimator(estimator)?;
        let samples = Samples::all(data, design, kernel);
        let sums =
            with_profile!(kernel, f64, |profile| all_row_sums(profile, &samples, estimator, progress))?;
        Ok(samples
            .par_iter()
            .zip(&sums)
            .map(|(samples, sums)| samples.finish(sums, kernel.kind().traits().linear, estimator))
            .collect())
    }

    /// The same with the pass over pairs on a GPU, in f32.
    pub fn on_gpu(
        gpu: &GpuEngine,
        data: &Dataset,
        design: &Design,
        kernel: Kernel,
        estimator: Estimator,
        progress: &Progress,
    ) -> Result<Vec<Statistics>> {
        check_estimator(estimator)?;
        let samples = Samples::all(data, design, kernel);
        let traits = kernel.kind().traits();
        let columns: Vec<Columns> =
            samples.par_iter().map(|samples| Columns::of(samples, traits.gaussian)).collect();
        let asked: Vec<PairColumns<'_>> = samples
            .iter()
            .zip(&columns)
            .map(|(samples, Columns { right, radial, .. })| {
                let n = samples.x.rows();
                // A Gaussian kernel's centred sums come from differences, which are more precise in f32.
                let first = if traits.gaussian { data.dim() } else { 0 };
                let rest = columns_of(right, first, right.cols() - first);
                let value = beside(n, &[&Matrix::full(n, 1, 1.0), &rest]);
                PairColumns { omega: &samples.omega, value, radial: radial.as_ref() }
            })
            .collect();
        let sums = gpu.pair_sums(data, kernel, estimator, &asked, progress)?;
        Ok(samples
            .par_iter()
            .zip(sums)
            .map(|(samples, sums)| {
                let sums = with_profile!(kernel, f64, |profile| samples.row_sums(profile, sums));
                samples.finish(&sums, traits.linear, estimator)
            })
            .collect())
    }

    /// Zeros for `p` functions of the drift and `m` of the noise of each of `d` variables.
    pub(super) fn zeros(p: usize, d: usize, m: usize) -> Statistics {
        Statistics {
            drift: Matrix::full(p, p, 0.0),
            cross: Matrix::full(p, d * m, 0.0),
            noise: Matrix::full(d, m * m, 0.0),
        }
    }

    /// The entry of coordinate j's form for two of its coefficients: first the drift's functions, then the amounts of noise.
    pub(super) fn entry(&self, j: usize, a: usize, b: usize) -> f64 {
        let p = self.drift.rows();
        let m = self.cross.cols() / self.noise.rows();
        match (a.min(b), a.max(b)) {
            (low, high) if high < p => self.drift[(low, high)],
            (low, high) if low < p => self.cross[(low, j * m + high - p)],
            (low, high) => self.noise[(j, (low - p) * m + high - p)],
        }
    }

    /// The sum of several environments'.
    pub(super) fn sum<'a>(mut all: impl Iterator<Item = &'a Statistics>) -> Option<Statistics> {
        let mut sum = all.next()?.clone();
        let add =
            |sum: &mut [f64], part: &[f64]| sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        for part in all {
            add(sum.drift.as_mut_slice(), part.drift.as_slice());
            add(sum.cross.as_mut_slice(), part.cross.as_slice());
            add(sum.noise.as_mut_slice(), part.noise.as_slice());
        }
        Some(sum)
    }
}

fn check_estimator(estimator: Estimator) -> Result<()> {
    match estimator {
        Estimator::Linear => {
            Err(Error::invalid("the estimator is linear, expected u or v for the exact solver"))
        }
        Estimator::U | Estimator::V => Ok(()),
    }
}
