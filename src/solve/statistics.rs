//! What SKDS sees of an environment, whatever the parameters: three small arrays, from one pass over all pairs.
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
//! [`RowSums`], which a device computes in tiles, and of products with the samples, which are O(n d²).

use super::Design;
use crate::data::Dataset;
use crate::engine::cpu::matmul::product_sequential;
use crate::engine::cpu::simd::dispatch;
use crate::engine::gpu::{GpuEngine, PairColumns, PairSums};
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
    /// number of them.
    pub fn of(
        data: &Dataset,
        design: &Design,
        kernel: Kernel,
        estimator: Estimator,
    ) -> Result<Vec<Statistics>> {
        check_estimator(estimator)?;
        let samples = Samples::all(data, design, kernel);
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
        design: &Design,
        kernel: Kernel,
        estimator: Estimator,
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
                // A Gaussian kernel's centred sums come from differences, which f32 knows better.
                let first = if traits.gaussian { data.dim() } else { 0 };
                let rest = columns_of(right, first, right.cols() - first);
                let value = beside(n, &[&Matrix::full(n, 1, 1.0), &rest]);
                PairColumns { omega: &samples.omega, value, radial: radial.as_ref() }
            })
            .collect();
        let sums = gpu.pair_sums(data, kernel, estimator, &asked)?;
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

    /// The entry of coordinate j's form for two of its coefficients: those of the drift's functions come first, then the
    /// amounts of noise.
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
    /// The drift's functions but the constant, if they are others than x: n × (p − 1).
    functions: Option<Matrix<f64>>,
    /// The noise's functions g, if they are others than 1: n × d·m.
    graded: Option<Matrix<f64>>,
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
    /// Σ κ f(y), if there are other functions than x.
    pub functions: Option<Matrix<f64>>,
    /// If the noise depends on the state.
    pub graded: Option<GradedSums>,
}

/// Sums with the noise's functions g, each n × d·m.
pub(super) struct GradedSums {
    /// Σ κ τ(y) g(y) y; nothing without a tilt.
    pub tilted: Option<Matrix<f64>>,
    /// Σ −½ φ' times g, g (y − mean) and g (y − mean)².
    pub z: [Matrix<f64>; 3],
    /// Σ −½ φ'' times the same.
    pub m: [Matrix<f64>; 3],
}

impl Samples {
    /// Of every environment.
    fn all(data: &Dataset, design: &Design, kernel: Kernel) -> Vec<Self> {
        (0..data.environments()).into_par_iter().map(|e| Samples::of(data, e, design, kernel)).collect()
    }

    pub(super) fn of(data: &Dataset, e: usize, design: &Design, kernel: Kernel) -> Self {
        let tilted = kernel.kind().traits().tilted;
        let (x, d) = (data.environment(e), data.dim());
        let mean = data.means(e);
        let centred = Matrix::from_fn(x.rows(), d, |i, j| x[(i, j)] - mean[j]);
        let square = |i: usize| x.row(i).iter().map(|v| v * v).sum::<f64>();
        let omega = (0..x.rows()).map(|i| if tilted { tilt(square(i)) } else { 1.0 }).collect();
        let tau = (0..x.rows()).map(|i| if tilted { 1.0 / (1.0 + square(i)) } else { 0.0 }).collect();
        let (functions, graded) = (design.functions(&x), design.diffusion(&x));
        Samples { x, centred, mean, omega, tau, functions, graded }
    }

    /// What a further sum over columns takes: n × columns each.
    fn graded_columns(&self, g: &Matrix<f64>) -> [Matrix<f64>; 4] {
        let m = g.cols() / self.x.cols();
        let of = |value: &dyn Fn(usize, usize) -> f64| {
            Matrix::from_fn(g.rows(), g.cols(), |i, at| g[(i, at)] * value(i, at / m))
        };
        [
            g.clone(),
            of(&|i, j| self.centred[(i, j)]),
            of(&|i, j| self.centred[(i, j)].powi(2)),
            of(&|i, j| self.tau[i] * self.x[(i, j)]),
        ]
    }

    /// Takes the sums of further columns apart: those weighted by κ, and those by −½φ' and −½φ'' (none for a Gaussian
    /// kernel, whose derivatives are multiples of itself).
    fn further_sums(
        &self,
        value: Matrix<f64>,
        radial: Option<(Matrix<f64>, Matrix<f64>)>,
        decay: f64,
    ) -> (Option<Matrix<f64>>, Option<GradedSums>) {
        // Functions, then g τ y if there is a tilt, then g and its products unless these are radial.
        let first = self.functions.as_ref().map_or(0, Matrix::cols);
        let functions = self.functions.as_ref().map(|_| columns_of(&value, 0, first));
        let graded = self.graded.as_ref().map(|g| {
            let width = g.cols();
            let tilted = self.is_tilted().then(|| columns_of(&value, first, width));
            let from = first + if tilted.is_some() { width } else { 0 };
            let three = |all: &Matrix<f64>, first: usize, factor: f64| {
                [0, 1, 2].map(|k| columns_of(all, first + k * width, width).map(|v| factor * v))
            };
            let (z, m) = match &radial {
                Some((z, m)) => (three(z, 0, 1.0), three(m, 0, 1.0)),
                None => (three(&value, from, 0.5 * decay), three(&value, from, -0.5 * decay * decay)),
            };
            GradedSums { tilted, z, m }
        });
        (functions, graded)
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
        let (n, d, eta) = (self.x.rows(), self.x.cols(), profile.decay());
        let PairSums { value, directions, z_total, radial } = sums;
        let ones: Vec<f64> = (0..n).map(|i| value[(i, 0)]).collect();
        let (centred, z, m) = match &directions[..] {
            // Every derivative of a Gaussian is a multiple of itself.
            [direction] => (
                Matrix::from_fn(n, d, |i, j| ones[i] * self.centred[(i, j)] - direction[(i, j)]),
                direction.map(|r| 0.5 * eta * r),
                direction.map(|r| -0.5 * eta * eta * r),
            ),
            [z, m] => (columns_of(&value, 1, d), z.clone(), m.clone()),
            other => unreachable!("a kernel has one or two directions, not {}", other.len()),
        };
        let at = 1 + if P::GAUSSIAN { 0 } else { d };
        let tilted = P::TILTED.then(|| columns_of(&value, at, d));
        let known = at + if P::TILTED { d } else { 0 };
        let further = columns_of(&value, known, value.cols() - known);
        let (functions, graded) = self.further_sums(further, radial, eta);
        RowSums { ones, centred, tilted, z, m, z_total, functions, graded }
    }

    /// From sums over columns to the statistics.
    ///
    /// With ∇ᵧk = ωω' (−τ' y κ − φ' (x − y) + c x) the parts of D are products of the sums with the samples; E likewise,
    /// where for noise that is the same everywhere a sum over pairs of w (x_i − y_i)² is twice that of x_i times
    /// w (x_i − y_i).
    pub(super) fn finish(&self, sums: &RowSums, linear: bool, estimator: Estimator) -> Statistics {
        let n = self.x.rows();
        let pairs = estimator.pairs(n) as f64;
        let functions = self.functions.as_ref().unwrap_or(&self.x);
        let last = functions.cols();
        let z = Matrix::from_fn(n, last + 1, |i, p| if p < last { functions[(i, p)] } else { 1.0 });
        let kz = Matrix::from_fn(n, last + 1, |i, p| match (p < last, &sums.functions) {
            (true, Some(sums)) => sums[(i, p)],
            (true, None) => sums.centred[(i, p)] + sums.ones[i] * self.mean[p],
            (false, _) => sums.ones[i],
        });
        let drift = transposed_product(&z, &kz);
        let drift = Matrix::from_fn(last + 1, last + 1, |i, j| 0.5 * (drift[(i, j)] + drift[(j, i)]) / pairs);
        let (mut cross, mut noise) = match (&self.graded, &sums.graded) {
            (Some(g), Some(graded)) => {
                self.finish_graded(g, graded, self.reach(linear, estimator, Some(g)), &z, &kz)
            }
            _ => self.finish_constant(sums, self.reach(linear, estimator, None), &z, &kz),
        };
        cross.as_mut_slice().iter_mut().for_each(|entry| *entry *= 0.5 / pairs);
        noise.as_mut_slice().iter_mut().for_each(|entry| *entry *= 0.25 / pairs);
        Statistics { drift, cross, noise }
    }

    /// Weights of the linear part: ω(x) Σ_y ω(y) g(y), n × columns of g; g is 1 if there is none.
    fn reach(&self, linear: bool, estimator: Estimator, g: Option<&Matrix<f64>>) -> Matrix<f64> {
        let (n, width) = (self.x.rows(), g.map_or(1, Matrix::cols));
        let value = |i: usize, at: usize| g.map_or(1.0, |g| g[(i, at)]) * self.omega[i];
        let all: Vec<f64> = (0..width).map(|at| (0..n).map(|i| value(i, at)).sum()).collect();
        let distinct = estimator == Estimator::U;
        Matrix::from_fn(n, width, |i, at| match linear {
            true => self.omega[i] * (all[at] - if distinct { value(i, at) } else { 0.0 }),
            false => 0.0,
        })
    }

    /// D and E of noise that is the same everywhere, but for factors.
    fn finish_constant(
        &self,
        sums: &RowSums,
        reach: Matrix<f64>,
        z: &Matrix<f64>,
        kz: &Matrix<f64>,
    ) -> (Matrix<f64>, Matrix<f64>) {
        let (n, d) = (self.x.rows(), self.x.cols());
        let right = Matrix::from_fn(n, d, |i, j| 2.0 * sums.z[(i, j)] + reach[(i, 0)] * self.x[(i, j)]);
        let mut cross = transposed_product(z, &right);
        let tilted = self.tilted();
        if self.is_tilted() {
            subtract(&mut cross, &transposed_product(kz, &tilted));
        }
        let alike = 2.0 * sums.z_total + reach.as_slice().iter().sum::<f64>();
        let mut noise = Matrix::full(d, 1, alike);
        for i in 0..n {
            for j in 0..d {
                noise[(j, 0)] += 4.0 * self.centred[(i, j)] * sums.m[(i, j)];
                if let Some(kt) = &sums.tilted {
                    let (t, x) = (tilted[(i, j)], self.x[(i, j)]);
                    noise[(j, 0)] += t * (kt[(i, j)] - 4.0 * sums.z[(i, j)] - 2.0 * reach[(i, 0)] * x);
                }
            }
        }
        (cross, noise)
    }

    /// D and E of noise that depends on the state, but for factors.
    fn finish_graded(
        &self,
        g: &Matrix<f64>,
        sums: &GradedSums,
        reach: Matrix<f64>,
        z: &Matrix<f64>,
        kz: &Matrix<f64>,
    ) -> (Matrix<f64>, Matrix<f64>) {
        let (n, d) = (self.x.rows(), self.x.cols());
        let m = g.cols() / d;
        // Σ g(y) (−φ' (x − y) + c x).
        let right = Matrix::from_fn(n, d * m, |i, at| {
            let (x, centred) = (self.x[(i, at / m)], self.centred[(i, at / m)]);
            2.0 * (centred * sums.z[0][(i, at)] - sums.z[1][(i, at)]) + x * reach[(i, at)]
        });
        let mut cross = transposed_product(z, &right);
        let tilt = Matrix::from_fn(n, d * m, |i, at| g[(i, at)] * self.tau[i] * self.x[(i, at / m)]);
        if self.is_tilted() {
            subtract(&mut cross, &transposed_product(kz, &tilt));
        }
        let mut noise = Matrix::full(d, m * m, 0.0);
        for i in 0..n {
            for j in 0..d {
                let x = self.centred[(i, j)];
                for (k, l) in (0..m).flat_map(|k| (0..m).map(move |l| (k, l))) {
                    let (at, other) = (j * m + k, j * m + l);
                    let square = x * x * sums.m[0][(i, other)] - 2.0 * x * sums.m[1][(i, other)]
                        + sums.m[2][(i, other)];
                    let plain = 2.0 * square + 2.0 * sums.z[0][(i, other)] + reach[(i, other)];
                    let mut value = g[(i, at)] * plain;
                    if let Some(kt) = &sums.tilted {
                        value += tilt[(i, at)] * kt[(i, other)];
                        // One of these is for x and one for y.
                        value -= tilt[(i, at)] * right[(i, other)] + tilt[(i, other)] * right[(i, at)];
                    }
                    noise[(j, k * m + l)] += value;
                }
            }
        }
        let noise =
            Matrix::from_fn(d, m * m, |j, at| 0.5 * (noise[(j, at)] + noise[(j, at % m * m + at / m)]));
        (cross, noise)
    }
}

/// aᵀ b.
fn transposed_product(a: &Matrix<f64>, b: &Matrix<f64>) -> Matrix<f64> {
    let mut product = Matrix::full(a.cols(), b.cols(), 0.0);
    product_sequential(product.view_mut(), Accum::Replace, a.view().transpose(), b.view());
    product
}

fn subtract(from: &mut Matrix<f64>, what: &Matrix<f64>) {
    from.as_mut_slice().iter_mut().zip(what.as_slice()).for_each(|(from, what)| *from -= what);
}

fn columns_of(all: &Matrix<f64>, first: usize, width: usize) -> Matrix<f64> {
    Matrix::from_fn(all.rows(), width, |i, j| all[(i, first + j)])
}

/// Matrices side by side.
fn beside(n: usize, parts: &[&Matrix<f64>]) -> Matrix<f64> {
    let width = parts.iter().map(|part| part.cols()).sum();
    let mut rows = Vec::with_capacity(n * width);
    for i in 0..n {
        parts.iter().for_each(|part| rows.extend_from_slice(part.row(i)));
    }
    Matrix::from_rows(n, width, rows)
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
    let columns: Vec<Columns> = samples.par_iter().map(|samples| Columns::of(samples, P::GAUSSIAN)).collect();
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
    /// What κ is multiplied with: the centred samples, τ x beside them, then functions of the drift and the noise.
    right: Matrix<f64>,
    /// What −½φ' and −½φ'' are multiplied with beside the centred samples, unless κ serves for them.
    radial: Option<Matrix<f64>>,
    /// Half of the squared norm of each centred sample.
    half: Vec<f64>,
    /// What makes 1 + ⟨x, y⟩ out of the inner product of centred samples: added for x and for y.
    shift: Vec<f64>,
}

impl Columns {
    fn of(samples: &Samples, gaussian: bool) -> Self {
        let n = samples.x.rows();
        let tilted = samples.is_tilted().then(|| samples.tilted());
        let mut parts: Vec<&Matrix<f64>> = [&samples.centred].into_iter().chain(&tilted).collect();
        parts.extend(&samples.functions);
        let graded = samples.graded.as_ref().map(|g| samples.graded_columns(g));
        let mut radial = None;
        if let Some([g, first, second, tilt]) = &graded {
            if tilted.is_some() {
                parts.push(tilt);
            }
            match gaussian {
                true => parts.extend([g, first, second]),
                false => radial = Some(beside(n, &[g, first, second])),
            }
        }
        let right = beside(n, &parts);
        let mean_square = samples.mean.iter().map(|m| m * m).sum::<f64>();
        let (mut half, mut shift) = (Vec::with_capacity(n), Vec::with_capacity(n));
        for i in 0..n {
            let row = samples.centred.row(i);
            half.push(0.5 * row.iter().map(|v| v * v).sum::<f64>());
            let along = row.iter().zip(&samples.mean).map(|(x, m)| x * m).sum::<f64>();
            shift.push(along + 0.5 * (1.0 + mean_square));
        }
        Columns { right, radial, half, shift }
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
    /// Σ −½φ' and Σ −½φ'' times further columns.
    radial: Option<[Matrix<f64>; 2]>,
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
    let Columns { right, radial, half, shift } = columns;
    let own = MatRef::from_row_major_slice(samples.centred.rows_slice(rows.clone()), count, d);
    let mut sums = BlockSums {
        ones: vec![0.0; count],
        kappa: Matrix::full(count, right.cols(), 0.0),
        z: (!P::GAUSSIAN).then(|| (Matrix::full(count, d, 0.0), vec![0.0; count])),
        m: (!P::GAUSSIAN).then(|| (Matrix::full(count, d, 0.0), vec![0.0; count])),
        radial: radial.as_ref().map(|radial| [(); 2].map(|()| Matrix::full(count, radial.cols(), 0.0))),
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
        if let (Some(sums), Some(radial)) = (&mut sums.radial, radial) {
            let columns = MatRef::from_row_major_slice(radial.rows_slice(cols.clone()), width, radial.cols());
            for (sum, weights) in sums.iter_mut().zip([&tiles.z, &tiles.m]) {
                product_sequential(sum.view_mut(), Accum::Add, tile(weights, count, width), columns);
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
    let stack = |part: &dyn Fn(&BlockSums) -> &Matrix<f64>| {
        let all: Vec<f64> = blocks.iter().flat_map(|block| part(block).as_slice()).copied().collect();
        Matrix::from_rows(n, all.len() / n, all)
    };
    let kappa = stack(&|block| &block.kappa);
    let centred = columns_of(&kappa, 0, d);
    let tilted = P::TILTED.then(|| columns_of(&kappa, d, d));
    let known = if P::TILTED { 2 * d } else { d };
    let further = columns_of(&kappa, known, kappa.cols() - known);
    let further_radial = blocks[0].radial.is_some().then(|| {
        let part =
            |which: usize| stack(&|block| &block.radial.as_ref().expect("like the first block")[which]);
        (part(0), part(1))
    });
    let (functions, graded) = samples.further_sums(further, further_radial, profile.decay());
    let turned = |weights: &[f64], sums: &Matrix<f64>, factor: f64| {
        Matrix::from_fn(n, d, |i, j| factor * (weights[i] * samples.centred[(i, j)] - sums[(i, j)]))
    };
    if P::GAUSSIAN {
        let eta = profile.decay();
        let (z, m) = (turned(&ones, &centred, 0.5 * eta), turned(&ones, &centred, -0.5 * eta * eta));
        let z_total = 0.5 * eta * ones.iter().sum::<f64>();
        return RowSums { ones, centred, tilted, z, m, z_total, functions, graded };
    }
    let part = |which: fn(&BlockSums) -> &(Matrix<f64>, Vec<f64>)| {
        let weights: Vec<f64> = blocks.iter().flat_map(|block| which(block).1.iter().copied()).collect();
        (turned(&weights, &stack(&|block| &which(block).0), 1.0), weights.iter().sum::<f64>())
    };
    let (z, z_total) = part(|block| block.z.as_ref().expect("only Gaussian kernels have none"));
    let (m, _) = part(|block| block.m.as_ref().expect("only Gaussian kernels have none"));
    RowSums { ones, centred, tilted, z, m, z_total, functions, graded }
}
