//! Constants of a shader, from the choices that its stage depends on.

use super::Choice;
use crate::engine::gpu::shared::declarations;
use crate::engine::gpu::stages::{Axis, Stage};
use crate::kernel::KernelKind;
use crate::objective::{Estimator, Kds, Objective, PairTerm, Skds};

/// Where the sums of `all_pairs` lie in a row's record: S_b first. For a Gaussian profile c_z and c_m are multiples
/// of c_b, so one sum serves for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumLayout {
    /// How many sums there are.
    pub count: u32,
    /// Place of R_r.
    pub r: u32,
    /// Place of R_w.
    pub w: u32,
    /// Place of R_z.
    pub z: u32,
    /// Place of R_m.
    pub m: u32,
}

impl SumLayout {
    /// The layout that an objective and a kernel call for. Places that do not exist are 0 and never read.
    pub fn of(objective: Objective, kernel: KernelKind) -> Self {
        match (objective, kernel.traits().gaussian) {
            (Objective::Skds, true) => SumLayout { count: 2, r: 0, w: 0, z: 1, m: 1 },
            (Objective::Skds, false) => SumLayout { count: 3, r: 0, w: 0, z: 1, m: 2 },
            (Objective::Kds, true) => SumLayout { count: 4, r: 2, w: 3, z: 1, m: 1 },
            (Objective::Kds, false) => SumLayout { count: 5, r: 3, w: 4, z: 1, m: 2 },
        }
    }
}

/// Columns that pass by a workgroup of stage `all_pairs` at a time.
pub const PAIR_COLUMNS: u32 = 16;

/// Tiles of columns whose sums `all_pairs` keeps in registers before it adds them to those in memory.
const RUN: u32 = 32;

/// Rows that a workgroup of stage `all_pairs` keeps: two per thread where there are two sums only.
pub fn pair_rows(objective: Objective, kernel: KernelKind) -> u32 {
    if SumLayout::of(objective, kernel).count == 2 { 32 } else { 16 }
}

/// (whether quadratic, tilt share) of an objective.
fn traits_of_objective(objective: Objective) -> (bool, f64) {
    match objective {
        Objective::Skds => (Skds::QUADRATIC, Skds::TILT_SHARE),
        Objective::Kds => (Kds::QUADRATIC, Kds::TILT_SHARE),
    }
}

fn flag(name: &str, value: bool) -> String {
    format!("const {name}: bool = {value};\n")
}

impl Choice {
    /// Constants along a stage's axes: a shader that uses one of another axis does not compile.
    pub(super) fn constants(&self, stage: &Stage) -> String {
        let mut text = String::new();
        let kernel = self.kernel.traits();
        let (quadratic, share) = traits_of_objective(self.objective);
        let has = |axis| stage.axes.contains(&axis);
        if has(Axis::Kernel) {
            text += &flag("TILTED", kernel.tilted);
            text += &flag("LINEAR", kernel.linear);
            text += &flag("GAUSSIAN", kernel.gaussian);
        }
        if has(Axis::Objective) {
            text += &flag("QUADRATIC", quadratic);
        }
        if has(Axis::Estimator) {
            text += &flag("ALL_PAIRS", self.estimator != Estimator::Linear);
            text += &flag("DISTINCT", self.estimator == Estimator::U);
        }
        if has(Axis::Model) {
            text += &flag("MLP", self.activation.is_some());
        }
        if has(Axis::Diffusion) {
            text += &flag("FULL", self.full);
        }
        if has(Axis::Objective) {
            text += &format!("const TILT_SHARE: f32 = {share:?};\n");
        }
        if has(Axis::Objective) && has(Axis::Kernel) {
            text += &self.sizes();
        }
        text
    }

    /// The tile of a product: see shaders/product.wgsl.
    pub(super) fn tile(&self) -> String {
        let tile = self.tile_rows();
        let numbers = [("TILE", tile), ("TILE_QUADS", tile / 4), ("TILE_THREADS", 2 * tile)];
        flag("WIDE", self.wide) + &declarations(&numbers)
    }

    /// Sizes of records and of shared arrays. An array that a variant does without shrinks to one row.
    fn sizes(&self) -> String {
        let gaussian = self.kernel.traits().gaussian;
        let linear = self.kernel.traits().linear;
        let (quadratic, _) = traits_of_objective(self.objective);
        let sums = SumLayout::of(self.objective, self.kernel);
        // KDS keeps three arrays of rows in shared memory: half as deep, it stays within 16 KiB.
        let chunk = if quadratic { 2 } else { 4 };
        let rows = pair_rows(self.objective, self.kernel);
        let needed = |condition: bool, size: u32| if condition { size } else { 1 };
        let outer_parts = match (self.estimator, quadratic) {
            (Estimator::Linear, _) => 1,
            (_, false) => 3,
            (_, true) => 4,
        };
        let numbers = [
            ("RUN", RUN),
            ("SUMS", sums.count),
            ("SUM_R", sums.r),
            ("SUM_W", sums.w),
            ("SUM_Z", sums.z),
            ("SUM_M", sums.m),
            ("CHUNK", chunk),
            ("PAIR_ROWS", rows),
            ("ROWS_QUADS", rows * chunk),
            ("COLUMNS_QUADS", PAIR_COLUMNS * chunk),
            ("B_CHUNK", needed(quadratic, chunk)),
            ("A_CHUNK", needed(quadratic && self.full, chunk)),
            ("RW_ROWS", needed(quadratic, rows)),
            ("ZM_ROWS", needed(!gaussian, rows)),
            ("SECOND_DOTS", needed(quadratic || linear, 256)),
            ("THIRD_DOTS", needed(quadratic && linear, 256)),
            ("OUTER_PARTS", outer_parts),
        ];
        flag("TWO", rows == 32) + &declarations(&numbers)
    }
}
