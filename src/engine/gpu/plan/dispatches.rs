//! The dispatches of an evaluation, in order.

use super::{Bounds, Dispatch, DispatchPlan, Span, Splits, Wide, narrow};
use crate::engine::LossSpec;
use crate::engine::gpu::compose::{Choice, pair_rows};
use crate::engine::gpu::form::Form;
use crate::engine::gpu::shared::{Block, GROUP_ROWS, Job, ROW_BLOCK, TILE};
use crate::engine::gpu::stages::{self, Stage};
use crate::objective::Estimator;

/// Everything that dispatches follow from.
pub(super) struct Planner<'a> {
    /// Without its dispatches.
    pub plan: &'a DispatchPlan,
    pub form: &'a Form,
    pub spec: &'a LossSpec,
    pub bounds: &'a Bounds,
    pub job: Job,
    pub splits: Splits,
    pub wide: Wide,
}

impl Planner<'_> {
    /// All dispatches of an evaluation, in order.
    pub(super) fn dispatches(&self, gradient: bool) -> Vec<Dispatch> {
        let mut list = Vec::new();
        let all_pairs = self.spec.estimator != Estimator::Linear;
        // The loss over all pairs is made of derivatives (Euler's theorem); over neighbours it needs none.
        let adjoints = gradient || all_pairs;
        self.diffusion(&mut list);
        for span in 0..self.plan.spans.len() {
            self.drift(&mut list, span);
            if !all_pairs {
                list.push(self.on_rows(&stages::PAIRS, span, ROW_BLOCK / GROUP_ROWS, 30.0));
                if adjoints {
                    self.adjoint(&mut list, span, gradient);
                }
            }
        }
        if all_pairs {
            for span in 0..self.plan.spans.len() {
                self.all_pairs(&mut list, span);
                if self.form.full {
                    list.push(self.product(&stages::TURN, span, self.job.stride, false));
                }
                self.adjoint(&mut list, span, gradient);
            }
        }
        self.totals(&mut list, gradient, adjoints);
        list
    }

    /// What shaders are composed by, with tiles of one size or the other.
    fn choice(&self, wide: bool) -> Choice {
        Choice { wide, split: self.splits.backward > 1, ..self.form.choice(self.spec) }
    }

    fn environments(&self) -> u32 {
        self.job.environments
    }

    /// Tiles of 16 quads across a row of d numbers.
    fn tiles(&self) -> u32 {
        self.job.stride.div_ceil(TILE / 4)
    }

    fn dispatch(&self, stage: &'static Stage, span: usize, job: Job, flops: f64) -> Dispatch {
        let Span { first_block, .. } = self.plan.spans[span];
        let rows = narrow(self.plan.spans[span].rows());
        let job = Job { first_block: narrow(first_block), rows, ..job };
        let choice = self.choice(false);
        Dispatch { stage, choice, job, span, other: span, flops, pairs: 0 }
    }

    /// A dispatch with `per_block` workgroups per block of the span.
    fn on_rows(&self, stage: &'static Stage, span: usize, per_block: u32, flops_per_number: f64) -> Dispatch {
        let blocks = narrow(self.plan.spans[span].blocks);
        let flops = self.plan.spans[span].rows() as f64 * self.form.dim as f64 * flops_per_number;
        self.dispatch(stage, span, Job { groups: blocks * per_block, ..self.job }, flops)
    }

    /// A product of the span's rows with `quads` quads of columns.
    fn product(&self, stage: &'static Stage, span: usize, quads: u32, wide: bool) -> Dispatch {
        let rows = narrow(self.plan.spans[span].rows());
        let tile = self.choice(wide).tile_rows();
        let column_tiles = quads.div_ceil(tile / 4);
        let groups = rows.div_ceil(tile) * column_tiles;
        let flops = 8.0 * f64::from(quads) * f64::from(rows) * self.form.dim as f64;
        let splits = self.splits.pairs;
        let mut dispatch =
            self.dispatch(stage, span, Job { groups, column_tiles, splits, ..self.job }, flops);
        dispatch.choice.wide = wide;
        dispatch
    }

    fn diffusion(&self, list: &mut Vec<Dispatch>) {
        let (e, tiles) = (self.environments(), self.tiles());
        let d = self.form.dim as f64;
        if self.form.full {
            let job = Job { groups: e * tiles * tiles, column_tiles: tiles, ..self.job };
            list.push(self.dispatch(&stages::DIFFUSION_FULL, 0, job, 2.0 * f64::from(e) * d * d * d));
            let job = Job { groups: e, ..self.job };
            list.push(self.dispatch(&stages::TRACES, 0, job, 2.0 * f64::from(e) * d * d));
        } else {
            let job = Job { groups: e, ..self.job };
            list.push(self.dispatch(&stages::DIFFUSION_DIAGONAL, 0, job, 10.0 * f64::from(e) * d));
        }
    }

    fn drift(&self, list: &mut Vec<Dispatch>, span: usize) {
        list.push(self.product(&stages::DRIFT, span, self.job.unit_stride, self.wide.drift));
        if self.form.full {
            list.push(self.product(&stages::SPREAD, span, self.job.stride, false));
        }
        if self.form.hidden.is_some() || self.spec.kernel.kind().traits().tilted {
            let hidden = f64::from(self.job.hidden);
            list.push(self.on_rows(&stages::TILT, span, ROW_BLOCK / GROUP_ROWS, 12.0 + 2.0 * hidden));
        }
    }

    /// All columns for the span's rows, cut so that no dispatch takes long.
    fn all_pairs(&self, list: &mut Vec<Dispatch>, span: usize) {
        let tiles = self.tiles();
        let per_block = ROW_BLOCK / pair_rows(self.spec.objective, self.spec.kernel.kind());
        // Inner products once per slice of 64 coordinates, sums once.
        let pair_flops = f64::from(self.job.stride) * 4.0 * (6.0 * f64::from(tiles) + 10.0) + 40.0;
        let here = self.plan.spans[span];
        let blocks = here.first_block..here.first_block + here.blocks;
        let mut accumulate = 0;
        for (other, there) in self.plan.spans.iter().enumerate() {
            let pairs: Vec<u64> = blocks.clone().map(|block| self.pairs_of(block, *there)).collect();
            if pairs.iter().sum::<u64>() == 0 {
                continue;
            }
            let mut first = 0;
            while first < pairs.len() {
                // At least one block, then as many as a dispatch may compute.
                let (mut last, mut sum) = (first + 1, pairs[first]);
                while last < pairs.len()
                    && (sum + pairs[last]) as f64 * pair_flops <= self.bounds.dispatch_flops
                {
                    sum += pairs[last];
                    last += 1;
                }
                let job = Job {
                    groups: narrow((last - first) as u64) * per_block * tiles * self.splits.pairs,
                    column_tiles: tiles,
                    splits: self.splits.pairs,
                    first_row: narrow(first as u64) * ROW_BLOCK,
                    other_block: narrow(there.first_block),
                    other_rows: narrow(there.rows()),
                    accumulate,
                    ..self.job
                };
                let mut dispatch = self.dispatch(&stages::ALL_PAIRS, span, job, sum as f64 * pair_flops);
                (dispatch.other, dispatch.pairs) = (other, sum);
                list.push(dispatch);
                first = last;
            }
            accumulate = 1;
        }
    }

    /// Pairs of a block's samples with the samples of its environment that lie in a span.
    fn pairs_of(&self, block: u64, there: Span) -> u64 {
        let Block { first_block, rows, environment, .. } = self.plan.blocks[block as usize];
        let (first, own) =
            (u64::from(first_block), u64::from(self.plan.environments[environment as usize].blocks));
        let before = |block: u64| ((block - first) * u64::from(ROW_BLOCK)).min(u64::from(rows));
        let begin = first.max(there.first_block);
        let end = (first + own).min(there.first_block + there.blocks).max(begin);
        (before(block + 1) - before(block)) * (before(end) - before(begin))
    }

    fn adjoint(&self, list: &mut Vec<Dispatch>, span: usize, gradient: bool) {
        let tiles = self.tiles();
        let mut dispatch =
            self.on_rows(&stages::ADJOINT, span, tiles, 30.0 + 6.0 * f64::from(self.job.hidden));
        dispatch.job.column_tiles = tiles;
        dispatch.job.splits = self.splits.pairs;
        list.push(dispatch);
        let accumulate = u32::from(span > 0);
        let rows = self.plan.spans[span].rows() as f64;
        let d = self.form.dim as f64;
        if self.form.full {
            let groups = self.environments() * tiles * tiles;
            let job = Job { groups, column_tiles: tiles, splits: self.splits.pairs, accumulate, ..self.job };
            list.push(self.dispatch(&stages::OUTER, span, job, 2.0 * rows * d * d));
        }
        if gradient {
            let splits = self.splits.backward;
            let choice = self.choice(self.wide.backward);
            let across = |quads: u32| quads.div_ceil(choice.tile_rows() / 4);
            let column_tiles = across(self.job.stride);
            let groups = across(self.job.unit_stride) * column_tiles * splits;
            let job = Job { groups, column_tiles, splits, accumulate, ..self.job };
            let flops = 2.0 * rows * f64::from(self.job.units) * d;
            list.push(Dispatch { choice, ..self.dispatch(&stages::BACKWARD, span, job, flops) });
        }
    }

    /// Sums over blocks and environments.
    fn totals(&self, list: &mut Vec<Dispatch>, gradient: bool, adjoints: bool) {
        let (e, tiles) = (self.environments(), self.tiles());
        let d = self.form.dim as f64;
        let weights = u64::from(self.job.units) * u64::from(self.job.stride);
        let splits = self.splits.backward;
        let weight_groups = if gradient && splits > 1 { narrow(weights.div_ceil(256)) } else { 0 };
        // Column 0 holds the loss: alone it is in the first tile.
        let column_tiles = if adjoints { self.job.columns_stride.div_ceil(16) } else { 1 };
        let groups = weight_groups + e * column_tiles;
        let job = Job { groups, column_tiles, weight_groups, splits, ..self.job };
        let flops = weights as f64 * 4.0 * f64::from(splits);
        list.push(self.dispatch(&stages::REDUCE, 0, job, flops));
        if self.form.full && adjoints {
            let job = Job { groups: e * self.job.dim, ..self.job };
            list.push(self.dispatch(&stages::SYMMETRIC, 0, job, 6.0 * f64::from(e) * d * d));
            if gradient {
                let job = Job { groups: tiles * tiles, column_tiles: tiles, ..self.job };
                list.push(self.dispatch(&stages::NOISE, 0, job, 2.0 * f64::from(e) * d * d * d));
            }
        }
        if adjoints {
            let column_tiles = if gradient { tiles } else { 0 };
            let unit_tiles = if gradient && self.form.hidden.is_some() {
                (2 * self.job.unit_stride).div_ceil(16)
            } else {
                0
            };
            let losses = if self.spec.estimator == Estimator::Linear { 0 } else { e };
            let groups = column_tiles + unit_tiles + losses;
            let job = Job { groups, column_tiles, unit_tiles, ..self.job };
            list.push(self.dispatch(&stages::FINISH, 0, job, 20.0 * f64::from(e) * d));
        }
    }
}
