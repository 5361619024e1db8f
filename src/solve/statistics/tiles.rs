//! The pass over all pairs on the CPU: tiles of Gram products that become weights, and weights times columns.

use super::samples::{RowSums, Samples, beside, columns_of};
use crate::kernel::Profile;
use crate::numeric::matmul::product_sequential;
use crate::numeric::simd::dispatch;
use crate::objective::Estimator;
use crate::{Matrix, Progress, Result};
use faer::{Accum, MatRef};
use rayon::prelude::*;
use std::ops::Range;

/// Rows of a tile: one task.
const TILE_ROWS: usize = 256;
/// Columns of a tile: three tiles of f64 stay within a second-level cache.
const TILE_COLS: usize = 256;

/// A block of rows of an environment.
struct Block {
    e: usize,
    rows: Range<usize>,
}

/// The row sums of every environment; blocks of rows of all of them share the threads.
pub(super) fn all_row_sums<P: Profile<f64>>(
    profile: P,
    samples: &[Samples],
    estimator: Estimator,
    progress: &Progress,
) -> Result<Vec<RowSums>> {
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
            progress.check()?;
            let samples = &samples[block.e];
            Ok(block_sums(profile, samples, &columns[block.e], block.rows.clone(), estimator, tiles))
        })
        .collect::<Result<_>>()?;
    let mut sums: Vec<Vec<BlockSums>> = samples.iter().map(|_| Vec::new()).collect();
    blocks.into_iter().zip(done).for_each(|(block, done)| sums[block.e].push(done));
    Ok(samples.par_iter().zip(sums).map(|(samples, sums)| gather(profile, samples, sums)).collect())
}

/// What an environment's samples are as columns of a tile.
pub(super) struct Columns {
    /// What κ is multiplied with: the centred samples, τ x beside them, then functions of the drift and the noise.
    pub(super) right: Matrix<f64>,
    /// What −½φ' and −½φ'' are multiplied with beside the centred samples, unless κ serves for them.
    pub(super) radial: Option<Matrix<f64>>,
    /// Half of the squared norm of each centred sample.
    half: Vec<f64>,
    /// What makes 1 + ⟨x, y⟩ out of the inner product of centred samples: added for x and for y.
    shift: Vec<f64>,
}

impl Columns {
    pub(super) fn of(samples: &Samples, gaussian: bool) -> Self {
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
