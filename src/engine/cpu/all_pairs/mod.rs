//! Stage `all_pairs`: the `u` and `v` estimates in one tiled pass, O(n·d) memory.
//!
//! For a block of rows i, blocks of columns j stream by. A tile of Gram products gives ρ (for KDS also π, π'
//! and w), an elementwise pass ([`weigh`]) turns them into the coefficients of [`crate::objective`], and products
//! of those with [B̃ | X] add up, for every row, what the adjoints need:
//!
//! ```text
//! S_b = Σ_j c_b b̃_j          R_q = Σ_j c_q (x_i − x_j) = (Σ_j c_q) x_i − Σ_j c_q x_j,   q ∈ {r, w, z, m}
//! ```
//!
//! T(x, y) = T(y, x), so over ordered pairs ∂/∂b̃_i = 2 (S_b + R_r + a R_z) and
//! ∂/∂a = 2 Σ_i (b̃_i R_zᵀ + x_i R_wᵀ + a x_i R_mᵀ), with ∂/∂tr a = Σ c_r and ∂/∂tr a² = ½ Σ c_z ([`gather`]).
//! The loss needs no pass of its own: it is homogeneous of degree two in drift and diffusion, so by Euler's
//! theorem it is half of ⟨∂/∂b̃, b̃⟩ + ⟨∂/∂a, a⟩ + ⟨∂/∂ζ, ζ⟩.
//!
//! Distances come from inner products of centred samples: far from the origin they would cancel in f32.

mod gather;
mod prepare;
mod weigh;

use super::diffusion::{Diffusion, DiffusionAdjoint};
use super::rows::{Rows, strided, strided_mut};
use super::{Samples, StageBuffers};
use crate::kernel::Profile;
use crate::numeric::matmul::product_sequential;
use crate::numeric::simd::{dispatch, padded};
use crate::numeric::tasks::{self, Cutter};
use crate::objective::{Estimator, PairTerm};
use crate::{Progress, Scalar};
use faer::{Accum, MatRef};
use prepare::Numbers;
use std::ops::Range;

/// Rows of a tile: one task.
const TILE_ROWS: usize = 128;
/// Columns of a tile. Five tiles of f32 stay within a second-level cache.
const TILE_COLS: usize = 256;

/// A coefficient that is summed against r = x_i − x_j.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    R,
    W,
    Z,
    M,
}

/// Which sums a kernel and an objective need, and where they lie in a row of sums: S_b, then R_b if the profile
/// is Gaussian (c_z and c_m are then multiples of c_b, so R_b serves for both), then one per direction.
#[derive(Clone, Copy)]
struct Layout {
    directions: &'static [Direction],
    gaussian: bool,
}

impl Layout {
    fn of<T: Scalar, P: Profile<T>, O: PairTerm>() -> Self {
        use Direction::{M, R, W, Z};
        let directions: &'static [Direction] = match (P::GAUSSIAN, O::QUADRATIC) {
            (true, false) => &[],
            (true, true) => &[R, W],
            (false, false) => &[Z, M],
            (false, true) => &[R, W, Z, M],
        };
        Layout { directions, gaussian: P::GAUSSIAN }
    }

    /// The number of blocks in a row of sums.
    fn blocks(&self) -> usize {
        self.first_direction() + self.directions.len()
    }

    /// The block of the first direction.
    fn first_direction(&self) -> usize {
        1 + usize::from(self.gaussian)
    }

    /// The block that holds R_q, and the factor that it lacks.
    fn find<T: Scalar, O: PairTerm>(&self, direction: Direction, eta: T) -> Option<(usize, T)> {
        let ratios = O::gaussian_ratios(eta);
        match (self.directions.iter().position(|&q| q == direction), direction) {
            (Some(position), _) => Some((self.first_direction() + position, T::ONE)),
            (None, Direction::Z) if self.gaussian => Some((1, ratios.0)),
            (None, Direction::M) if self.gaussian => Some((1, ratios.1)),
            _ => None,
        }
    }
}

/// What this stage keeps between evaluations.
pub(super) struct AllPairs<T> {
    /// n × 2·stride: b̃ and the centred sample side by side.
    pair_rows: Vec<T>,
    /// a x of each centred sample (KDS).
    ax: Option<Rows<T>>,
    /// n × blocks·stride.
    sums: Vec<T>,
    numbers: Numbers<T>,
}

/// One pass over the pairs of one environment.
struct Pass<'a, T, P> {
    profile: P,
    estimator: Estimator,
    samples: &'a Samples<T>,
    e: usize,
    diffusion: &'a Diffusion<T>,
    progress: &'a Progress,
}

/// One block of rows and what it fills in.
struct BlockTask<'a, T> {
    rows: Range<usize>,
    sums: &'a mut [T],
    b_bar: &'a mut [T],
    rest_bar: &'a mut [T],
    /// The block's share of ∂/∂α (diagonal diffusion).
    alpha_bar: &'a mut [T],
    totals: &'a mut Totals,
}

/// Sums over all pairs of a block.
#[derive(Clone, Copy, Default)]
struct Totals {
    /// Σ c_r.
    r: f64,
    /// Σ c_z, and for SKDS's linear part Σ c_rest, which enters tr a² in the same way.
    z: f64,
    /// ⟨∂/∂b̃, b̃⟩.
    drift: f64,
    /// ⟨∂/∂rest, rest⟩.
    rest: f64,
}

/// Tiles of one task: Gram products that become coefficients in place.
struct Tiles<T> {
    tiles: [Vec<T>; 5],
    /// Of each row: Σ c_b, Σ c_r, Σ c_w, Σ c_z, Σ c_m.
    row_sums: Vec<[T; 5]>,
}

/// Loss, ∂/∂b̃, ∂/∂rest and ∂/∂a of environment `e`, each divided by E times its number of pairs.
pub(super) fn all_pairs<T: Scalar, P: Profile<T>, O: PairTerm>(
    profile: P,
    estimator: Estimator,
    samples: &Samples<T>,
    e: usize,
    diffusion: &Diffusion<T>,
    work: &mut StageBuffers<T>,
    progress: &Progress,
) -> (f64, DiffusionAdjoint<T>) {
    let mut state = work.all_pairs.take().unwrap_or_else(|| AllPairs::new::<P, O>(samples));
    state.prepare::<P, O>(samples, e, diffusion, work);
    let result = Pass { profile, estimator, samples, e, diffusion, progress }.run::<O>(&mut state, work);
    work.all_pairs = Some(state);
    result
}

impl<T: Scalar, P: Profile<T>> Pass<'_, T, P> {
    fn run<O: PairTerm>(
        &self,
        state: &mut AllPairs<T>,
        work: &mut StageBuffers<T>,
    ) -> (f64, DiffusionAdjoint<T>) {
        let rows = self.samples.rows(self.e);
        let (n, stride) = (rows.len(), self.samples.x.stride());
        let layout = Layout::of::<T, P, O>();
        let width = layout.blocks() * stride;
        let block_count = n.div_ceil(TILE_ROWS);
        let mut totals = vec![Totals::default(); block_count];
        let mut alphas = vec![T::ZERO; block_count * stride];
        let AllPairs { pair_rows, ax, sums, numbers } = state;
        let mut sums_cut = Cutter::new(&mut sums[rows.start * width..rows.end * width]);
        let mut b_bar_cut = Cutter::new(work.b_bar.slice_mut(rows.clone()));
        let mut rest_cut = Cutter::new(&mut work.rest_bar[rows.clone()]);
        let mut alphas_cut = Cutter::new(&mut alphas);
        let mut totals_cut = Cutter::new(&mut totals);
        let tasks: Vec<_> = (0..n)
            .step_by(TILE_ROWS)
            .map(|first| {
                let length = TILE_ROWS.min(n - first);
                BlockTask {
                    rows: first..first + length,
                    sums: sums_cut.take(length * width),
                    b_bar: b_bar_cut.take(length * stride),
                    rest_bar: rest_cut.take(length),
                    alpha_bar: alphas_cut.take(stride),
                    totals: &mut totals_cut.take(1)[0],
                }
            })
            .collect();
        let scratch = || Tiles {
            tiles: std::array::from_fn(|_| vec![T::ZERO; TILE_ROWS * TILE_COLS]),
            row_sums: vec![[T::ZERO; 5]; TILE_ROWS],
        };
        tasks::run_with(tasks, n.saturating_mul(n).saturating_mul(4 * stride), scratch, |tiles, task| {
            self.block::<O>(layout, pair_rows, ax.as_ref(), numbers, tiles, task);
        });
        self.gather::<O>(layout, state, work, &totals, &alphas)
    }

    /// All columns against one block of rows.
    fn block<O: PairTerm>(
        &self,
        layout: Layout,
        pair_rows: &[T],
        ax: Option<&Rows<T>>,
        numbers: &Numbers<T>,
        tiles: &mut Tiles<T>,
        mut task: BlockTask<'_, T>,
    ) {
        let env = self.samples.rows(self.e);
        let (n, d, stride) = (env.len(), self.samples.x.dim(), self.samples.x.stride());
        let width = layout.blocks() * stride;
        let (start, height) = (task.rows.start, task.rows.len());
        task.sums.fill(T::ZERO);
        task.rest_bar.fill(T::ZERO);
        tiles.row_sums.fill([T::ZERO; 5]);
        // Views into [B̃ | X]: which half, from which sample.
        let part = |half: usize, first: usize, count: usize, cols: usize| {
            strided(&pair_rows[(2 * (env.start + first) + half) * stride..], count, cols, 2 * stride)
        };
        for first in (0..n).step_by(TILE_COLS) {
            let count = TILE_COLS.min(n - first);
            let pad = padded(count);
            if count < pad {
                // Stale numbers beyond the last column are multiplied by ω = 0, but they might be infinite.
                for tile in &mut tiles.tiles {
                    tile.chunks_exact_mut(TILE_COLS).for_each(|row| row[count..pad].fill(T::ZERO));
                }
            }
            let [gram, b_x, x_b, x_ax, _] = &mut tiles.tiles;
            let inner = |tile: &mut Vec<T>, left: MatRef<'_, T>, right: MatRef<'_, T>| {
                let tile = strided_mut(tile, height, count, TILE_COLS);
                product_sequential(tile, Accum::Replace, left, right.transpose());
            };
            let (x_rows, x_cols) = (part(1, start, height, d), part(1, first, count, d));
            inner(gram, x_rows, x_cols);
            if O::QUADRATIC {
                let ax = ax.expect("prepared for KDS").view(env.start + start..env.start + start + height);
                inner(b_x, part(0, start, height, d), x_cols);
                inner(x_b, x_rows, part(0, first, count, d));
                inner(x_ax, ax, x_cols);
            }
            dispatch(
                #[inline(always)]
                || self.weigh::<O>(numbers, first..first + pad, tiles, &mut task),
            );
            let mut add = |tile: &Vec<T>, block: usize, right: MatRef<'_, T>| {
                let sums = strided_mut(&mut task.sums[block * stride..], height, right.ncols(), width);
                product_sequential(sums, Accum::Add, strided(tile, height, count, TILE_COLS), right);
            };
            // A Gaussian c_b meets both halves of [B̃ | X] in one product.
            add(&tiles.tiles[0], 0, part(0, first, count, if layout.gaussian { stride + d } else { d }));
            for k in 0..layout.directions.len() {
                add(&tiles.tiles[1 + k], layout.first_direction() + k, x_cols);
            }
            let diagonal =
                if self.estimator == Estimator::U { overlap(&task.rows, first..first + count) } else { 0 };
            if self.progress.add((height * count - diagonal) as u64).is_err() {
                return;
            }
        }
        dispatch(
            #[inline(always)]
            || self.close::<O>(layout, pair_rows, numbers, tiles, &mut task),
        );
    }
}

/// How many numbers two ranges share.
fn overlap(a: &Range<usize>, b: Range<usize>) -> usize {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}
