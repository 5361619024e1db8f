//! Every dispatch of an evaluation, planned before anything is allocated: which rows go together, how large each
//! dispatch is, and what everything costs in bytes. All dispatch arithmetic is here.

use super::compose::pair_rows;
use super::form::Form;
use super::shared::{Block, Environment, FOLD, Job, LOSS_LANES, ROW_BLOCK, TILE};
use super::stages::{self, Stage};
use crate::bounds::bytes;
use crate::engine::LossSpec;
use crate::objective::Estimator;
use crate::{Error, Result};

/// What a plan must respect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Bytes that one binding may span.
    pub binding_bytes: u64,
    /// Bytes that all buffers together may take.
    pub budget_bytes: u64,
    /// Floating-point operations after which a dispatch ends, so that none trips a watchdog: at 100 GFLOP/s, which
    /// the slowest integrated GPUs reach, 0.2 s.
    pub dispatch_flops: f64,
    /// Workgroups that keep a large device busy: sums over rows are cut until there are as many.
    pub busy_groups: u64,
}

impl Bounds {
    /// 128 MiB per binding, which every device allows.
    pub const PORTABLE_BINDING: u64 = 128 << 20;

    /// For a device whose bindings may span `binding_bytes`, with `budget_bytes` of memory.
    pub fn new(binding_bytes: u64, budget_bytes: u64) -> Self {
        Bounds { binding_bytes, budget_bytes, dispatch_flops: 2e10, busy_groups: 512 }
    }
}

/// Rows that share one pair of buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first block.
    pub first_block: u64,
    /// How many blocks.
    pub blocks: u64,
}

impl Span {
    /// Its rows, padding included.
    pub fn rows(&self) -> u64 {
        self.blocks * u64::from(ROW_BLOCK)
    }
}

/// One dispatch.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// The stage.
    pub stage: &'static Stage,
    /// What it is told.
    pub job: Job,
    /// The span it works on; 0 for stages that work on none.
    pub span: usize,
    /// The span that columns come from.
    pub other: usize,
    /// Floating-point operations, roughly.
    pub flops: f64,
    /// Pairs that are done when it is done (`all_pairs`).
    pub pairs: u64,
}

impl Dispatch {
    /// Workgroups in x and y: past 65 535 they are folded.
    pub fn workgroups(&self) -> [u32; 2] {
        fold(self.job.groups)
    }
}

/// Workgroups in x and y for `groups` of them.
pub fn fold(groups: u32) -> [u32; 2] {
    [groups.min(FOLD), groups.div_ceil(FOLD)]
}

/// Bytes of each buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// `parameters`, `gradient`.
    pub parameters: u64,
    /// `diffusion`.
    pub diffusion: u64,
    /// `centres`.
    pub centres: u64,
    /// `blocks`.
    pub blocks: u64,
    /// `environments`.
    pub environments: u64,
    /// `columns`.
    pub columns: u64,
    /// `totals`.
    pub totals: u64,
    /// `sums`.
    pub sums: u64,
    /// `partials`.
    pub partials: u64,
    /// `a_bar`, `symmetric`.
    pub a_bar: u64,
    /// `losses`.
    pub losses: u64,
    /// `x` for one block of rows.
    pub x_block: u64,
    /// `work` for one block of rows.
    pub work_block: u64,
}

/// How an evaluation runs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What each block belongs to.
    pub blocks: Vec<Block>,
    /// Where each environment's blocks are.
    pub environments: Vec<Environment>,
    /// The spans of rows.
    pub spans: Vec<Span>,
    /// Bytes of buffers.
    pub sizes: Sizes,
    /// All dispatches for the loss alone.
    pub value: Vec<Dispatch>,
    /// All dispatches for the loss and its gradient.
    pub gradient: Vec<Dispatch>,
}

const QUAD: u64 = 16;

impl Plan {
    /// Plans the evaluation of `spec` on environments of `rows` samples each; a batch may have fewer environments than
    /// the model. `more_bytes` are taken by others. Refuses what does not fit.
    pub fn new(
        rows: &[usize],
        form: &Form,
        spec: &LossSpec,
        bounds: &Bounds,
        more_bytes: u64,
    ) -> Result<Self> {
        let (blocks, mut environments) = tables(rows, spec);
        // Where a batch draws each of them from, it also says where they lie.
        let weight = environments.first().map_or(0.0, |environment| environment.weight);
        environments.resize(form.environments, Environment { weight, ..Environment::default() });
        let job = checked_job(form, spec, blocks.len())?;
        let stride = u64::from(job.stride);
        let all_pairs = spec.estimator != Estimator::Linear;
        let e = form.environments as u64;
        let mut sizes = Sizes {
            parameters: form.places().1 * QUAD,
            diffusion: e * form.diffusion_stride() * QUAD,
            centres: e * stride * QUAD,
            blocks: blocks.len() as u64 * size_of::<Block>() as u64,
            environments: e * size_of::<Environment>() as u64,
            columns: blocks.len() as u64 * u64::from(job.columns_stride) * QUAD,
            totals: e * u64::from(job.columns_stride) * QUAD,
            a_bar: if form.full { e * form.dim as u64 * stride * QUAD } else { 0 },
            losses: e * u64::from(LOSS_LANES) * 4,
            x_block: u64::from(ROW_BLOCK) * stride * QUAD,
            work_block: u64::from(ROW_BLOCK) * u64::from(job.work_stride) * QUAD,
            ..Sizes::default()
        };
        let sums_block = if all_pairs { u64::from(ROW_BLOCK) * form.sums_stride(spec) * QUAD } else { 0 };

        // Spans: as many blocks as a binding holds, and as a product may multiply in one dispatch.
        let row_flops = 2.0 * form.units() as f64 * form.dim as f64;
        let by_bytes = bounds.binding_bytes / sizes.x_block.max(sizes.work_block).max(sums_block);
        let by_flops = (bounds.dispatch_flops / (row_flops * f64::from(ROW_BLOCK))).max(1.0) as u64;
        let most = by_bytes.min(by_flops).max(1);
        let spans: Vec<Span> = (0..blocks.len() as u64)
            .step_by(most as usize)
            .map(|first_block| Span { first_block, blocks: most.min(blocks.len() as u64 - first_block) })
            .collect();
        let longest = spans.iter().map(|span| span.blocks).max().unwrap_or(1);

        // Splits: enough workgroups for a large device, within the bytes of a binding.
        let column_tiles = stride.div_ceil(u64::from(TILE) / 4);
        let weight_tiles = form.unit_stride().div_ceil(u64::from(TILE) / 4) * column_tiles;
        let partial = form.units() * stride * QUAD;
        let backward_splits = split(bounds, weight_tiles, longest, partial);
        sizes.partials = backward_splits * partial;
        let pair_tiles =
            longest * u64::from(ROW_BLOCK / pair_rows(spec.objective, spec.kernel.kind())) * column_tiles;
        let most_columns = rows.iter().map(|n| *n as u64).max().unwrap_or(1).div_ceil(256);
        let pair_splits =
            if all_pairs { split(bounds, pair_tiles, most_columns, longest * sums_block) } else { 1 };
        sizes.sums = pair_splits * longest * sums_block;

        let plan = Plan { blocks, environments, spans, sizes, value: Vec::new(), gradient: Vec::new() };
        plan.check_bytes(bounds, more_bytes)?;
        let maker = Maker {
            plan: &plan,
            form,
            spec,
            bounds,
            job,
            backward_splits: narrow(backward_splits),
            pair_splits: narrow(pair_splits),
        };
        let (value, gradient) = (maker.dispatches(false), maker.dispatches(true));
        Ok(Plan { value, gradient, ..plan })
    }

    /// The environment and the number within it of the sample in a row of a span; none for padding.
    pub fn sample_at(&self, span: Span, row: usize) -> Option<(usize, usize)> {
        let block = span.first_block as usize + row / ROW_BLOCK as usize;
        let Block { environment, first_block, rows, .. } = self.blocks[block];
        let sample = (block - first_block as usize) * ROW_BLOCK as usize + row % ROW_BLOCK as usize;
        (sample < rows as usize).then_some((environment as usize, sample))
    }

    /// Bytes of all buffers, those included that carry results to the host.
    pub fn bytes(&self) -> u64 {
        let s = &self.sizes;
        let rows = self.blocks.len() as u64 * (s.x_block + s.work_block);
        3 * s.parameters
            + s.diffusion
            + s.centres
            + s.blocks
            + s.environments
            + s.columns
            + s.totals
            + s.sums
            + s.partials
            + 2 * s.a_bar
            + 2 * s.losses
            + rows
    }

    fn check_bytes(&self, bounds: &Bounds, more_bytes: u64) -> Result<()> {
        let needed = self.bytes() + more_bytes;
        if needed > bounds.budget_bytes {
            return Err(Error::invalid(format!(
                "the GPU engine needs {} for this problem, expected at most its budget of {}: use fewer rows or variables, or use the CPU engine",
                bytes(needed),
                bytes(bounds.budget_bytes)
            )));
        }
        let s = &self.sizes;
        for (what, size) in [
            ("the model's parameters", s.parameters),
            ("the environments' diffusions", s.diffusion.max(s.a_bar)),
            ("a block of rows", s.x_block.max(s.work_block)),
            ("sums over blocks of rows", s.columns),
            ("sums over environments", s.totals.max(s.losses)),
            ("sums over pairs", s.sums),
        ] {
            if size > bounds.binding_bytes {
                return Err(Error::invalid(format!(
                    "{what} need {} in one binding, expected at most the device's {}: use the CPU engine",
                    bytes(size),
                    bytes(bounds.binding_bytes)
                )));
            }
        }
        Ok(())
    }
}

/// How many parts to cut a sum into: until `tiles` workgroups become busy ones, at most `most`, within a binding.
fn split(bounds: &Bounds, tiles: u64, most: u64, part_bytes: u64) -> u64 {
    let fit = bounds.binding_bytes / 4 / part_bytes.max(1);
    bounds.busy_groups.div_ceil(tiles).min(most).min(fit).clamp(1, 64)
}

fn narrow(value: u64) -> u32 {
    u32::try_from(value).expect("checked_job refuses what 32 bits cannot count")
}

/// The job that all dispatches start from, once every index is known to fit into 32 bits.
fn checked_job(form: &Form, spec: &LossSpec, blocks: usize) -> Result<Job> {
    let quads = form.places().1.saturating_mul(2);
    let per_row = form.stride() * 8 + form.unit_stride();
    let rows = blocks as u64 * u64::from(ROW_BLOCK);
    let diffusion = form.environments as u64 * form.diffusion_stride();
    // Tiles times rows bounds every count of workgroups.
    let largest = quads.max(diffusion).max(blocks as u64 * per_row).max(rows.saturating_mul(form.stride()));
    if largest > u64::from(u32::MAX) {
        return Err(Error::invalid(format!(
            "the problem has up to {largest} quads of numbers in one buffer, expected at most {} on a GPU: use the CPU engine",
            u32::MAX
        )));
    }
    Ok(form.job(spec))
}

fn tables(rows: &[usize], spec: &LossSpec) -> (Vec<Block>, Vec<Environment>) {
    let (mut blocks, mut environments) = (Vec::new(), Vec::new());
    for (e, &n) in rows.iter().enumerate() {
        let first_block = blocks.len() as u32;
        let pairs = spec.estimator.pairs(n) as f64;
        let weight = (1.0 / (rows.len() as f64 * pairs)) as f32;
        let count = n.div_ceil(ROW_BLOCK as usize) as u32;
        let environment = Environment { first_block, blocks: count, rows: n as u32, weight };
        environments.push(environment);
        let block = Block { environment: e as u32, first_block, rows: n as u32, weight };
        blocks.extend(std::iter::repeat_n(block, count as usize));
    }
    (blocks, environments)
}

/// Lays out the dispatches.
struct Maker<'a> {
    plan: &'a Plan,
    form: &'a Form,
    spec: &'a LossSpec,
    bounds: &'a Bounds,
    job: Job,
    backward_splits: u32,
    pair_splits: u32,
}

impl Maker<'_> {
    /// All dispatches of an evaluation, in order.
    fn dispatches(&self, gradient: bool) -> Vec<Dispatch> {
        let mut list = Vec::new();
        let all_pairs = self.spec.estimator != Estimator::Linear;
        // The loss over all pairs is made of derivatives (Euler's theorem); over neighbours it needs none.
        let adjoints = gradient || all_pairs;
        self.diffusion(&mut list);
        for span in 0..self.plan.spans.len() {
            self.drift(&mut list, span);
            if !all_pairs {
                list.push(self.on_rows(&stages::PAIRS, span, 1, 30.0));
                if adjoints {
                    self.adjoint(&mut list, span, gradient);
                }
            }
        }
        if all_pairs {
            for span in 0..self.plan.spans.len() {
                self.all_pairs(&mut list, span);
                if self.form.full {
                    list.push(self.product(&stages::TURN, span, self.job.stride));
                }
                self.adjoint(&mut list, span, gradient);
            }
        }
        self.totals(&mut list, gradient, adjoints);
        list
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
        Dispatch { stage, job, span, other: span, flops, pairs: 0 }
    }

    /// A dispatch with `per_block` workgroups per block of the span.
    fn on_rows(&self, stage: &'static Stage, span: usize, per_block: u32, flops_per_number: f64) -> Dispatch {
        let blocks = narrow(self.plan.spans[span].blocks);
        let flops = self.plan.spans[span].rows() as f64 * self.form.dim as f64 * flops_per_number;
        self.dispatch(stage, span, Job { groups: blocks * per_block, ..self.job }, flops)
    }

    /// A product of the span's rows with `quads` quads of columns.
    fn product(&self, stage: &'static Stage, span: usize, quads: u32) -> Dispatch {
        let column_tiles = quads.div_ceil(TILE / 4);
        let groups = narrow(self.plan.spans[span].blocks) * column_tiles;
        let flops = 8.0 * f64::from(quads) * self.plan.spans[span].rows() as f64 * self.form.dim as f64;
        let splits = self.pair_splits;
        self.dispatch(stage, span, Job { groups, column_tiles, splits, ..self.job }, flops)
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
        list.push(self.product(&stages::DRIFT, span, self.job.unit_stride));
        if self.form.full {
            list.push(self.product(&stages::SPREAD, span, self.job.stride));
        }
        if self.form.hidden.is_some() || self.spec.kernel.kind().traits().tilted {
            let hidden = f64::from(self.job.hidden);
            list.push(self.on_rows(&stages::TILT, span, ROW_BLOCK / 32, 12.0 + 2.0 * hidden));
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
                    groups: narrow((last - first) as u64) * per_block * tiles * self.pair_splits,
                    column_tiles: tiles,
                    splits: self.pair_splits,
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
        dispatch.job.splits = self.pair_splits;
        list.push(dispatch);
        let accumulate = u32::from(span > 0);
        let rows = self.plan.spans[span].rows() as f64;
        let d = self.form.dim as f64;
        if self.form.full {
            let groups = self.environments() * tiles * tiles;
            let job = Job { groups, column_tiles: tiles, splits: self.pair_splits, accumulate, ..self.job };
            list.push(self.dispatch(&stages::OUTER, span, job, 2.0 * rows * d * d));
        }
        if gradient {
            let splits = self.backward_splits;
            let groups = self.job.unit_stride.div_ceil(TILE / 4) * tiles * splits;
            let job = Job { groups, column_tiles: tiles, splits, accumulate, ..self.job };
            list.push(self.dispatch(
                &stages::BACKWARD,
                span,
                job,
                2.0 * rows * f64::from(self.job.units) * d,
            ));
        }
    }

    /// Sums over blocks and environments.
    fn totals(&self, list: &mut Vec<Dispatch>, gradient: bool, adjoints: bool) {
        let (e, tiles) = (self.environments(), self.tiles());
        let d = self.form.dim as f64;
        let weights = u64::from(self.job.units) * u64::from(self.job.stride);
        let weight_groups = if gradient { narrow(weights.div_ceil(256)) } else { 0 };
        // Column 0 holds the loss: alone it is in the first tile.
        let column_tiles = if adjoints { self.job.columns_stride.div_ceil(16) } else { 1 };
        let splits = self.backward_splits;
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
