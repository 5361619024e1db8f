//! Every dispatch of an evaluation, planned before anything is allocated: which rows go together, how large each
//! dispatch is, and how many bytes the buffers take. All dispatch arithmetic is here.

mod dispatches;
mod ending;

use super::compose::{Choice, pair_rows};
use super::form::Form;
use super::shared::{Block, Environment, FOLD, GROUP_ROWS, Job, LOSS_LANES, ROW_BLOCK, TILE, WIDE_TILE};
use super::stages::{Slot, Stage};
use crate::bounds::bytes;
use crate::engine::LossSpec;
use crate::objective::Estimator;
use crate::{Error, Result};
use dispatches::Planner;
pub use ending::{Ending, Ends};

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
    /// From how many on a product takes tiles of 128 × 128: fewer leave units of a large device without one.
    pub wide_tiles: u64,
}

impl Bounds {
    /// 128 MiB per binding, which every device allows.
    pub const PORTABLE_BINDING: u64 = 128 << 20;

    /// For a device whose bindings may span `binding_bytes`, with `budget_bytes` of memory.
    pub fn new(binding_bytes: u64, budget_bytes: u64) -> Self {
        Bounds { binding_bytes, budget_bytes, dispatch_flops: 2e10, busy_groups: 512, wide_tiles: 128 }
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
    /// What its shader is composed by.
    pub choice: Choice,
    /// The numbers in its uniform.
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
    /// `partials`; nothing if ∂/∂W is one sum.
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
pub struct DispatchPlan {
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

impl DispatchPlan {
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
        // A batch has the weight of its environments from the host; which they are is drawn on the device.
        let weight = environments.first().map_or(0.0, |environment| environment.weight);
        environments.resize(form.environments, Environment { weight, ..Environment::default() });
        let job = checked_job(form, spec, blocks.len())?;
        let mut sizes = Sizes::of(form, &job, blocks.len() as u64);
        let sums_block = match spec.estimator {
            Estimator::Linear => 0,
            _ => u64::from(ROW_BLOCK) * form.sums_stride(spec) * QUAD,
        };
        let spans =
            spans(blocks.len() as u64, form, bounds, sizes.x_block.max(sizes.work_block).max(sums_block));
        let longest = spans.iter().map(|span| span.blocks).max().unwrap_or(1);
        let partial = form.units() * form.stride() * QUAD;
        let most_rows = rows.iter().map(|n| *n as u64).max().unwrap_or(1);
        let splits = Splits::of(form, spec, bounds, longest, most_rows, [partial, longest * sums_block]);
        sizes.partials = if splits.backward > 1 { u64::from(splits.backward) * partial } else { 0 };
        sizes.sums = u64::from(splits.pairs) * longest * sums_block;

        let plan =
            DispatchPlan { blocks, environments, spans, sizes, value: Vec::new(), gradient: Vec::new() };
        plan.check_bytes(bounds, more_bytes)?;
        let planner =
            Planner { plan: &plan, form, spec, bounds, job, splits, wide: Wide::of(form, bounds, longest) };
        let (value, gradient) = (planner.dispatches(false), planner.dispatches(true));
        Ok(DispatchPlan { value, gradient, ..plan })
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

impl Sizes {
    /// Bytes of each buffer that all spans share.
    pub fn shared(&self) -> [(Slot, u64); 14] {
        [
            (Slot::Parameters, self.parameters),
            (Slot::Gradient, self.parameters),
            (Slot::Diffusion, self.diffusion),
            (Slot::Centres, self.centres),
            (Slot::Blocks, self.blocks),
            (Slot::Environments, self.environments),
            (Slot::Columns, self.columns),
            (Slot::Totals, self.totals),
            (Slot::Sums, self.sums),
            (Slot::Partials, self.partials),
            (Slot::ABar, self.a_bar),
            (Slot::Symmetric, self.a_bar),
            (Slot::Losses, self.losses),
            (Slot::State, 16),
        ]
    }

    /// Of everything but the sums that are cut into parts.
    fn of(form: &Form, job: &Job, blocks: u64) -> Self {
        let (e, stride) = (form.environments as u64, u64::from(job.stride));
        let columns_stride = u64::from(job.columns_stride);
        Sizes {
            parameters: form.places().1 * QUAD,
            diffusion: e * form.diffusion_stride() * QUAD,
            centres: e * stride * QUAD,
            blocks: blocks * size_of::<Block>() as u64,
            environments: e * size_of::<Environment>() as u64,
            columns: blocks * (columns_stride + u64::from(ROW_BLOCK / GROUP_ROWS)) * QUAD,
            totals: e * columns_stride * QUAD,
            a_bar: if form.full { e * form.dim as u64 * stride * QUAD } else { 0 },
            losses: e * u64::from(LOSS_LANES) * 4,
            x_block: u64::from(ROW_BLOCK) * stride * QUAD,
            work_block: u64::from(ROW_BLOCK) * u64::from(job.work_stride) * QUAD,
            ..Sizes::default()
        }
    }
}

/// As many blocks in a span as a binding holds, at `block_bytes` each, and as a product may multiply in one dispatch.
fn spans(blocks: u64, form: &Form, bounds: &Bounds, block_bytes: u64) -> Vec<Span> {
    let row_flops = 2.0 * form.units() as f64 * form.dim as f64;
    let by_bytes = bounds.binding_bytes / block_bytes;
    let by_flops = (bounds.dispatch_flops / (row_flops * f64::from(ROW_BLOCK))).max(1.0) as u64;
    let most = by_bytes.min(by_flops).max(1);
    (0..blocks)
        .step_by(most as usize)
        .map(|first_block| Span { first_block, blocks: most.min(blocks - first_block) })
        .collect()
}

/// Which products take tiles of 128 × 128.
#[derive(Clone, Copy)]
struct Wide {
    drift: bool,
    backward: bool,
}

impl Wide {
    /// For spans of at most `longest` blocks.
    fn of(form: &Form, bounds: &Bounds, longest: u64) -> Self {
        let across = |quads: u64| quads.div_ceil(u64::from(WIDE_TILE) / 4);
        let rows = (longest * u64::from(ROW_BLOCK)).div_ceil(u64::from(WIDE_TILE));
        let units = across(form.unit_stride());
        Wide {
            drift: rows * units >= bounds.wide_tiles,
            backward: units * across(form.stride()) >= bounds.wide_tiles,
        }
    }
}

/// Into how many parts sums over rows are cut: enough workgroups for a large device, within the bytes of a binding.
#[derive(Clone, Copy)]
struct Splits {
    /// Of `backward`.
    backward: u32,
    /// Of `all_pairs`.
    pairs: u32,
}

impl Splits {
    /// For spans of at most `longest` blocks. A part of each takes `part_bytes`.
    fn of(
        form: &Form,
        spec: &LossSpec,
        bounds: &Bounds,
        longest: u64,
        most_rows: u64,
        part_bytes: [u64; 2],
    ) -> Self {
        let column_tiles = form.stride().div_ceil(u64::from(TILE) / 4);
        let weight_tiles = form.unit_stride().div_ceil(u64::from(TILE) / 4) * column_tiles;
        let backward = if Wide::of(form, bounds, longest).backward {
            1
        } else {
            split(bounds, weight_tiles, longest, part_bytes[0])
        };
        let row_tiles = longest * u64::from(ROW_BLOCK / pair_rows(spec.objective, spec.kernel.kind()));
        let pairs = match spec.estimator {
            Estimator::Linear => 1,
            _ => split(bounds, row_tiles * column_tiles, most_rows.div_ceil(256), part_bytes[1]),
        };
        Splits { backward: narrow(backward), pairs: narrow(pairs) }
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
    let per_row = form.stride() * 8 + 3 * form.unit_stride();
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
    let job = form.job(spec);
    Ok(Job { at_terms: narrow(blocks as u64 * u64::from(job.columns_stride)), ..job })
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
