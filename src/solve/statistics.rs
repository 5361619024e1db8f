//! What SKDS sees of an environment, whatever the linear model: three small arrays, from one pass over all pairs.
//!
//! With z = (x, 1) and the kernel k over all pairs (x, y) of an estimator,
//!
//! ```text
//! C = mean k z z'ᵀ  (d+1 × d+1)      D = mean ½ z (∇ᵧk)ᵀ  (d+1 × d)      E = mean ¼ diag(∇ₓ∇ᵧk)  (d)
//! ```
//!
//! and for a drift of coordinate j with coefficients v of z and noise α, the loss of coordinate j is
//! vᵀ C v + 2 α vᵀ D_j + α² E_j: with diagonal noise SKDS is a sum of such forms.
//!
//! With k = ω(x) ω(y) [φ(ρ) + c (1 + ⟨x, y⟩)], all of this is made of sums over the columns y of each row x,
//! [`RowSums`], which a device computes in tiles, and of products with the samples, which are O(n d²).

use crate::data::Dataset;
use crate::engine::cpu::matmul::product_sequential;
use crate::engine::cpu::simd::dispatch;
use crate::engine::gpu::{GpuEngine, PairSums};
use crate::kernel::{Kernel, Profile, tilt, with_profile};
use crate::objective::Estimator;
use crate::{Error, Matrix, Result};
use faer::{Accum, MatRef};
use rayon::prelude::*;
use std::ops::Range;

/// Rows of a tile: one task.
const TILE_ROWS: usize = 256;
/// Columns of a tile: three tiles of f64 stay within a second-level cache.
const TILE_COLS: usize = 256;

/// The sufficient statistics of one environment for the linear model.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// C.
    pub drift: Matrix<f64>,
    /// D.
    pub cross: Matrix<f64>,
    /// E.
    pub noise: Vec<f64>,
}

impl Statistics {
    /// The statistics of every environment over all pairs (`u` or `v`), in f64 on all threads: the same bits for any
    /// number of them.
    pub fn of(data: &Dataset, kernel: Kernel, estimator: Estimator) -> Result<Vec<Statistics>> {
        check_estimator(estimator)?;
        let samples: Vec<Samples> =
            (0..data.environments()).into_par_iter().map(|e| Samples::of(data, e, kernel)).collect();
        let sums = with_profile!(kernel, f64, |profile| all_row_sums(profile, &samples, estimator));
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
        kernel: Kernel,
        estimator: Estimator,
    ) -> Result<Vec<Statistics>> {
        check_estimator(estimator)?;
        let sums = gpu.pair_sums(data, kernel, estimator)?;
        Ok(sums
            .into_par_iter()
            .enumerate()
            .map(|(e, sums)| {
                let samples = Samples::of(data, e, kernel);
                let sums = with_profile!(kernel, f64, |profile| samples.row_sums(profile, sums));
                samples.finish(&sums, kernel.kind().traits().linear, estimator)
            })
            .collect())
    }

    /// The sum of several environments'.
    pub(super) fn sum<'a>(all: impl Iterator<Item = &'a Statistics>, d: usize) -> Statistics {
        let mut sum = Statistics {
            drift: Matrix::full(d + 1, d + 1, 0.0),
            cross: Matrix::full(d + 1, d, 0.0),
            noise: vec![0.0; d],
        };
        let add =
            |sum: &mut [f64], part: &[f64]| sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        for part in all {
            add(sum.drift.as_mut_slice(), part.drift.as_slice());
            add(sum.cross.as_mut_slice(), part.cross.as_slice());
            add(&mut sum.noise, &part.noise);
        }
        sum
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

/// The samples of an environment, and what a tilted kernel makes of them.
pub(super) struct Samples {
    /// n × d.
    x: Matrix<f64>,
    /// x − mean, which differences are taken of: far from the origin x itself would cancel.
    centred: Matrix<f64>,
    mean: Vec<f64>,
    omega: Vec<f64>,
    /// 1 / (1 + |x|²); 0 without a tilt.
    tau: Vec<f64>,
}

/// Over all columns y of a row x, each weighted by ω(x) ω(y).
pub(super) struct RowSums {
    /// Σ κ, κ = φ + c (1 + ⟨x, y⟩).
    pub ones: Vec<f64>,
    /// Σ κ (y − mean), n × d.
    pub centred: Matrix<f64>,
    /// Σ κ τ(y) y, n × d; nothing without a tilt.
    pub tilted: Option<Matrix<f64>>,
    /// Σ −½ φ' (x − y).
    pub z: Matrix<f64>,
    /// Σ −½ φ'' (x − y).
    pub m: Matrix<f64>,
    /// Σ −½ φ' over all rows.
    pub z_total: f64,
}

impl Samples {
    pub(super) fn of(data: &Dataset, e: usize, kernel: Kernel) -> Self {
        let tilted = kernel.kind().traits().tilted;
        let (x, d) = (data.environment(e), data.dim());
        let mean = data.means(e);
        let centred = Matrix::from_fn(x.rows(), d, |i, j| x[(i, j)] - mean[j]);
        let square = |i: usize| x.row(i).iter().map(|v| v * v).sum::<f64>();
        let omega = (0..x.rows()).map(|i| if tilted { tilt(square(i)) } else { 1.0 }).collect();
        let tau = (0..x.rows()).map(|i| if tilted { 1.0 / (1.0 + square(i)) } else { 0.0 }).collect();
        Samples { x, centred, mean, omega, tau }
    }

    fn is_tilted(&self) -> bool {
        self.tau.first().is_some_and(|tau| *tau > 0.0)
    }

    /// τ x.
    fn tilted(&self) -> Matrix<f64> {
        Matrix::from_fn(self.x.rows(), self.x.cols(), |i, j| self.tau[i] * self.x[(i, j)])
    }

    /// What a GPU has summed, in the form that [`finish`](Self::finish) takes.
    fn row_sums<P: Profile<f64>>(&self, profile: P, sums: PairSums) -> RowSums {
        let (n, d) = (self.x.rows(), self.x.cols());
        let PairSums { ones, tilted, linear, radial, z_total } = sums;
        match radial {
            Some((z, m)) => {
                let centred = Matrix::from_fn(n, d, |i, j| linear[(i, j)] - ones[i] * self.mean[j]);
                RowSums { ones, centred, tilted, z, m, z_total }
            }
            // Every derivative of a Gaussian is a multiple of itself.
            None => {
                let eta = profile.decay();
                let centred = Matrix::from_fn(n, d, |i, j| ones[i] * self.centred[(i, j)] - linear[(i, j)]);
                let (z, m) = (linear.map(|r| 0.5 * eta * r), linear.map(|r| -0.5 * eta * eta * r));
                RowSums { ones, centred, tilted, z, m, z_total }
            }
        }
    }

    /// From sums over columns to the statistics.
    ///
    /// With ∇ᵧk = ωω' (−τ' y κ − φ' (x − y) + c x) the parts of D are products of the sums with the samples; E likewise,
    /// where a sum over pairs of w (x_i − y_i)² is twice that of x_i times w (x_i − y_i).
    pub(super) fn finish(&self, sums: &RowSums, linear: bool, estimator: Estimator) -> Statistics {
        let (n, d) = (self.x.rows(), self.x.cols());
        let pairs = estimator.pairs(n) as f64;
        let z = Matrix::from_fn(n, d + 1, |i, j| if j < d { self.x[(i, j)] } else { 1.0 });
        let kz = Matrix::from_fn(n, d + 1, |i, j| match j < d {
            true => sums.centred[(i, j)] + sums.ones[i] * self.mean[j],
            false => sums.ones[i],
        });
        let mut drift = Matrix::full(d + 1, d + 1, 0.0);
        product_sequential(drift.view_mut(), Accum::Replace, z.view().transpose(), kz.view());
        let drift = Matrix::from_fn(d + 1, d + 1, |i, j| 0.5 * (drift[(i, j)] + drift[(j, i)]) / pairs);

        // Weights of the linear part: ω(x) Σ_y ω(y).
        let all: f64 = self.omega.iter().sum();
        let distinct = estimator == Estimator::U;
        let reach: Vec<f64> = self
            .omega
            .iter()
            .map(|omega| if linear { omega * (all - if distinct { *omega } else { 0.0 }) } else { 0.0 })
            .collect();
        let right = Matrix::from_fn(n, d, |i, j| 2.0 * sums.z[(i, j)] + reach[i] * self.x[(i, j)]);
        let mut cross = Matrix::full(d + 1, d, 0.0);
        product_sequential(cross.view_mut(), Accum::Replace, z.view().transpose(), right.view());
        let tilted = self.tilted();
        if self.is_tilted() {
            let mut tilts = Matrix::full(d + 1, d, 0.0);
            product_sequential(tilts.view_mut(), Accum::Replace, kz.view().transpose(), tilted.view());
            cross.as_mut_slice().iter_mut().zip(tilts.as_slice()).for_each(|(cross, tilt)| *cross -= tilt);
        }
        cross.as_mut_slice().iter_mut().for_each(|entry| *entry *= 0.5 / pairs);

        let alike = 2.0 * sums.z_total + reach.iter().sum::<f64>();
        let mut noise = vec![alike; d];
        for i in 0..n {
            for j in 0..d {
                noise[j] += 4.0 * self.centred[(i, j)] * sums.m[(i, j)];
                if let Some(kt) = &sums.tilted {
                    let (t, x) = (tilted[(i, j)], self.x[(i, j)]);
                    noise[j] += t * (kt[(i, j)] - 4.0 * sums.z[(i, j)] - 2.0 * reach[i] * x);
                }
            }
        }
        noise.iter_mut().for_each(|entry| *entry *= 0.25 / pairs);
        Statistics { drift, cross, noise }
    }
}

/// A block of rows of an environment.
struct Block {
    e: usize,
    rows: Range<usize>,
}

/// The row sums of every environment; blocks of rows of all of them share the threads.
fn all_row_sums<P: Profile<f64>>(profile: P, samples: &[Samples], estimator: Estimator) -> Vec<RowSums> {
    let blocks: Vec<Block> = samples
        .iter()
        .enumerate()
        .flat_map(|(e, samples)| {
            let n = samples.x.rows();
            (0..n).step_by(TILE_ROWS).map(move |first| Block { e, rows: first..(first + TILE_ROWS).min(n) })
        })
        .collect();
    let columns: Vec<Columns> = samples.par_iter().map(Columns::of::<P>).collect();
    let done: Vec<BlockSums> = blocks
        .par_iter()
        .with_max_len(1)
        .map_init(Tiles::default, |tiles, block| {
            let samples = &samples[block.e];
            block_sums(profile, samples, &columns[block.e], block.rows.clone(), estimator, tiles)
        })
        .collect();
    let mut sums: Vec<Vec<BlockSums>> = samples.iter().map(|_| Vec::new()).collect();
    blocks.into_iter().zip(done).for_each(|(block, done)| sums[block.e].push(done));
    samples.par_iter().zip(sums).map(|(samples, sums)| gather(profile, samples, sums)).collect()
}

/// What an environment's samples are as columns of a tile.
struct Columns {
    /// What weights are multiplied with: the centred samples, and τ x beside them.
    right: Matrix<f64>,
    /// Half of the squared norm of each centred sample.
    half: Vec<f64>,
    /// What makes 1 + ⟨x, y⟩ out of the inner product of centred samples: added for x and for y.
    shift: Vec<f64>,
}

impl Columns {
    fn of<P: Profile<f64>>(samples: &Samples) -> Self {
        let (n, d) = (samples.x.rows(), samples.x.cols());
        let width = if P::TILTED { 2 * d } else { d };
        let mut right = Matrix::full(n, width, 0.0);
        let mean_square = samples.mean.iter().map(|m| m * m).sum::<f64>();
        let (mut half, mut shift) = (Vec::with_capacity(n), Vec::with_capacity(n));
        for i in 0..n {
            let (row, tau) = (samples.centred.row(i), samples.tau[i]);
            let (left, tilted) = right.row_mut(i).split_at_mut(d);
            left.copy_from_slice(row);
            tilted.iter_mut().zip(samples.x.row(i)).for_each(|(out, x)| *out = tau * x);
            half.push(0.5 * row.iter().map(|v| v * v).sum::<f64>());
            let along = row.iter().zip(&samples.mean).map(|(x, m)| x * m).sum::<f64>();
            shift.push(along + 0.5 * (1.0 + mean_square));
        }
        Columns { right, half, shift }
    }
}

/// Tiles of Gram products that become weights in place.
#[derive(Default)]
struct Tiles {
    kappa: Vec<f64>,
    z: Vec<f64>,
    m: Vec<f64>,
}

/// Sums of one block of rows.
struct BlockSums {
    ones: Vec<f64>,
    /// Σ κ [y − mean | τ y].
    kappa: Matrix<f64>,
    /// Σ −½φ' (y − mean) and its weights' sums; for Gaussian kernels κ serves.
    z: Option<(Matrix<f64>, Vec<f64>)>,
    m: Option<(Matrix<f64>, Vec<f64>)>,
}

fn block_sums<P: Profile<f64>>(
    profile: P,
    samples: &Samples,
    columns: &Columns,
    rows: Range<usize>,
    estimator: Estimator,
    tiles: &mut Tiles,
) -> BlockSums {
    let (n, d, count) = (samples.x.rows(), samples.x.cols(), rows.len());
    let Columns { right, half, shift } = columns;
    let own = MatRef::from_row_major_slice(samples.centred.rows_slice(rows.clone()), count, d);
    let mut sums = BlockSums {
        ones: vec![0.0; count],
        kappa: Matrix::full(count, right.cols(), 0.0),
        z: (!P::GAUSSIAN).then(|| (Matrix::full(count, d, 0.0), vec![0.0; count])),
        m: (!P::GAUSSIAN).then(|| (Matrix::full(count, d, 0.0), vec![0.0; count])),
    };
    for first in (0..n).step_by(TILE_COLS) {
        let cols = first..(first + TILE_COLS).min(n);
        let width = cols.len();
        for tile in [&mut tiles.kappa, &mut tiles.z, &mut tiles.m] {
            tile.resize(count * width, 0.0);
        }
        let centred = MatRef::from_row_major_slice(samples.centred.rows_slice(cols.clone()), width, d);
        product_sequential(
            tile_mut(&mut tiles.kappa, count, width),
            Accum::Replace,
            own,
            centred.transpose(),
        );
        for (local, i) in rows.clone().enumerate() {
            let line = local * width..(local + 1) * width;
            let omega = samples.omega[i];
            weigh(
                profile,
                [half[i], shift[i], omega],
                [&half[cols.clone()], &shift[cols.clone()], &samples.omega[cols.clone()]],
                [&mut tiles.kappa[line.clone()], &mut tiles.z[line.clone()], &mut tiles.m[line.clone()]],
            );
            // The diagonal is no pair of the `u` estimate.
            if estimator == Estimator::U && cols.contains(&i) {
                for tile in [&mut tiles.kappa, &mut tiles.z, &mut tiles.m] {
                    tile[line.start + i - cols.start] = 0.0;
                }
            }
            sums.ones[local] += tiles.kappa[line.clone()].iter().sum::<f64>();
            for (part, tile) in [(&mut sums.z, &tiles.z), (&mut sums.m, &tiles.m)] {
                if let Some((_, total)) = part {
                    total[local] += tile[line.clone()].iter().sum::<f64>();
                }
            }
        }
        let columns = MatRef::from_row_major_slice(right.rows_slice(cols.clone()), width, right.cols());
        product_sequential(sums.kappa.view_mut(), Accum::Add, tile(&tiles.kappa, count, width), columns);
        for (part, weights) in [(&mut sums.z, &tiles.z), (&mut sums.m, &tiles.m)] {
            if let Some((sum, _)) = part {
                product_sequential(sum.view_mut(), Accum::Add, tile(weights, count, width), centred);
            }
        }
    }
    sums
}

fn tile(values: &[f64], rows: usize, cols: usize) -> MatRef<'_, f64> {
    MatRef::from_row_major_slice(&values[..rows * cols], rows, cols)
}

fn tile_mut(values: &mut [f64], rows: usize, cols: usize) -> faer::MatMut<'_, f64> {
    faer::MatMut::from_row_major_slice_mut(&mut values[..rows * cols], rows, cols)
}

/// Turns a row of inner products into κ, −½φ' and −½φ'' times ω(x) ω(y).
fn weigh<P: Profile<f64>>(
    profile: P,
    [half_i, shift_i, omega_i]: [f64; 3],
    [half, shift, omega]: [&[f64]; 3],
    [kappa, z, m]: [&mut [f64]; 3],
) {
    dispatch(
        #[inline(always)]
        || {
            let count = kappa.len();
            let (half, shift, omega) = (&half[..count], &shift[..count], &omega[..count]);
            let (z, m) = (&mut z[..count], &mut m[..count]);
            for j in 0..count {
                let inner = kappa[j];
                let phi = profile.derivatives((half_i + half[j] - inner).max(0.0));
                let weight = omega_i * omega[j];
                let linear = if P::LINEAR { inner + shift_i + shift[j] } else { 0.0 };
                kappa[j] = weight * (phi[0] + linear);
                if !P::GAUSSIAN {
                    z[j] = weight * -0.5 * phi[1];
                    m[j] = weight * -0.5 * phi[2];
                }
            }
        },
    );
}

/// Puts the blocks of an environment together.
fn gather<P: Profile<f64>>(profile: P, samples: &Samples, blocks: Vec<BlockSums>) -> RowSums {
    let (n, d) = (samples.x.rows(), samples.x.cols());
    let ones: Vec<f64> = blocks.iter().flat_map(|block| block.ones.iter().copied()).collect();
    let stack = |part: &dyn Fn(&BlockSums) -> &Matrix<f64>, from: usize| {
        let mut rows = Vec::with_capacity(n * d);
        for matrix in blocks.iter().map(part) {
            (0..matrix.rows()).for_each(|i| rows.extend_from_slice(&matrix.row(i)[from..from + d]));
        }
        Matrix::from_rows(n, d, rows)
    };
    let centred = stack(&|block| &block.kappa, 0);
    let tilted = P::TILTED.then(|| stack(&|block| &block.kappa, d));
    let turned = |weights: &[f64], sums: &Matrix<f64>, factor: f64| {
        Matrix::from_fn(n, d, |i, j| factor * (weights[i] * samples.centred[(i, j)] - sums[(i, j)]))
    };
    if P::GAUSSIAN {
        let eta = profile.decay();
        let (z, m) = (turned(&ones, &centred, 0.5 * eta), turned(&ones, &centred, -0.5 * eta * eta));
        let z_total = 0.5 * eta * ones.iter().sum::<f64>();
        return RowSums { ones, centred, tilted, z, m, z_total };
    }
    let part = |which: fn(&BlockSums) -> &(Matrix<f64>, Vec<f64>)| {
        let weights: Vec<f64> = blocks.iter().flat_map(|block| which(block).1.iter().copied()).collect();
        (turned(&weights, &stack(&|block| &which(block).0, 0), 1.0), weights.iter().sum::<f64>())
    };
    let (z, z_total) = part(|block| block.z.as_ref().expect("only Gaussian kernels have none"));
    let (m, _) = part(|block| block.m.as_ref().expect("only Gaussian kernels have none"));
    RowSums { ones, centred, tilted, z, m, z_total }
}
