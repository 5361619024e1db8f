//! Sums over all pairs for the exact solver, by the stage that evaluates losses.
//!
//! Stage `all_pairs` adds up weights times b̃ and times x − y for every row. The host writes the columns to be summed where b̃
//! would be, as many at a time as there are variables: there is no shader of their own.

use super::GpuEngine;
use super::compose::SumLayout;
use super::form::Form;
use super::session::Session;
use super::stages::{self, Slot};
use crate::data::Dataset;
use crate::engine::LossSpec;
use crate::engine::pair_sums::{PairColumns, PairSums};
use crate::kernel::Kernel;
use crate::objective::{Estimator, Objective};
use crate::{Matrix, Progress, Result};
use wgpu::{Buffer, BufferUsages};

impl GpuEngine {
    /// The sums of every environment over all pairs of the estimator; `progress` can stop it.
    pub(crate) fn pair_sums(
        &self,
        data: &Dataset,
        kernel: Kernel,
        estimator: Estimator,
        columns: &[PairColumns<'_>],
        progress: &Progress,
    ) -> Result<Vec<PairSums>> {
        let spec = LossSpec { objective: Objective::Skds, kernel, estimator };
        let form = Form { dim: data.dim(), environments: data.environments(), hidden: None, full: false };
        let rows: Vec<usize> = (0..data.environments()).map(|e| data.rows(e).len()).collect();
        let session = Session::new(self.context()?, &rows, &spec, form, &self.bounds, 0, &self.edits)?;
        session.write_samples(data, &spec)?;
        let layout = SumLayout::of(Objective::Skds, kernel.kind());
        let staging = session.context.buffer(
            "sums",
            session.plan.sizes.sums,
            BufferUsages::COPY_DST | BufferUsages::MAP_READ,
        )?;
        let pass = Pass { session, staging, spec, rows, layout, columns, progress };
        let (values, found) = pass.sums(0, &columns.iter().map(|of| &of.value).collect::<Vec<_>>())?;
        let radial: Option<Vec<&Matrix<f64>>> = columns.iter().map(|of| of.radial).collect();
        let mut radial = match radial {
            Some(radial) => Some(pass.sums(1, &radial)?.0.into_iter().zip(pass.sums(2, &radial)?.0)),
            None => None,
        };
        Ok(values
            .into_iter()
            .zip(found)
            .map(|(value, Summed { directions, z_total, .. })| PairSums {
                value,
                directions,
                z_total,
                radial: radial.as_mut().and_then(Iterator::next),
            })
            .collect())
    }
}

/// A session whose b̃ the host writes.
struct Pass<'a> {
    session: Session,
    staging: Buffer,
    spec: LossSpec,
    rows: Vec<usize>,
    layout: SumLayout,
    columns: &'a [PairColumns<'a>],
    progress: &'a Progress,
}

impl Pass<'_> {
    /// Sums of weights times columns; `weigh` as in [`Job::weigh`](super::shared::Job::weigh). Beside them what else was
    /// summed, which is the same whatever the columns.
    fn sums(&self, weigh: u32, columns: &[&Matrix<f64>]) -> Result<(Vec<Matrix<f64>>, Vec<Summed>)> {
        let d = self.session.form.dim;
        let mut all: Vec<Matrix<f64>> =
            columns.iter().map(|columns| Matrix::full(columns.rows(), columns.cols(), 0.0)).collect();
        let width = columns.first().map_or(0, |columns| columns.cols());
        let mut last = Vec::new();
        self.session.weigh_by(weigh)?;
        for first in (0..width).step_by(d) {
            let count = d.min(width - first);
            self.session.write_rows(&self.spec, |e, i| {
                let mut row = vec![0.0; d];
                let values = &columns[e].row(i)[first..first + count];
                row.iter_mut().zip(values).for_each(|(row, value)| *row = *value as f32);
                (self.columns[e].omega[i], row)
            })?;
            last = sum_pairs(&self.session, &self.staging, &self.rows, self.layout, self.progress)?;
            for (all, Summed { drift, .. }) in all.iter_mut().zip(&last) {
                for i in 0..all.rows() {
                    all.row_mut(i)[first..first + count].copy_from_slice(&drift.row(i)[..count]);
                }
            }
        }
        Ok((all, last))
    }
}

/// What `all_pairs` sums for the rows of an environment.
struct Summed {
    drift: Matrix<f64>,
    /// R_b, or R_z and R_m.
    directions: Vec<Matrix<f64>>,
    z_total: f64,
}

/// The sums with b̃ as it is on the device.
fn sum_pairs(
    session: &Session,
    staging: &Buffer,
    rows: &[usize],
    layout: SumLayout,
    progress: &Progress,
) -> Result<Vec<Summed>> {
    let (context, plan, form) = (&session.context, &session.plan, session.form);
    let d = form.dim;
    let mut all: Vec<Summed> = rows
        .iter()
        .map(|&n| Summed {
            drift: Matrix::full(n, d, 0.0),
            directions: vec![Matrix::full(n, d, 0.0); layout.count as usize - 1],
            z_total: 0.0,
        })
        .collect();
    let stride = form.stride() as usize * 4;
    for (at, span) in plan.spans.iter().enumerate() {
        let dispatches = session.dispatches_of(at, &[stages::ALL_PAIRS.name]);
        progress.check()?;
        session.submit(&dispatches.iter().collect::<Vec<_>>(), &progress.part())?;
        let record = (layout.count as usize) * stride + 4;
        let planned = plan.value.iter().find(|dispatch| dispatch.stage.name == stages::ALL_PAIRS.name);
        let splits = planned.map_or(1, |dispatch| dispatch.job.splits as usize);
        let size = (splits * span.rows() as usize * record * 4) as u64;
        let bytes = context.read_back(&[(session.buffer_of(Slot::Sums, at), size)], staging)?;
        let numbers: Vec<f32> = bytemuck::pod_collect_to_vec(&bytes);
        for split in 0..splits {
            for row in 0..span.rows() as usize {
                let Some((e, i)) = plan.sample_at(*span, row) else { continue };
                let summed = &mut all[e];
                let numbers = &numbers[(split * span.rows() as usize + row) * record..][..record];
                let add = |into: &mut [f64], part: &[f32]| {
                    into.iter_mut().zip(part).for_each(|(into, part)| *into += f64::from(*part));
                };
                add(summed.drift.row_mut(i), &numbers[..d]);
                for (k, direction) in summed.directions.iter_mut().enumerate() {
                    add(direction.row_mut(i), &numbers[(k + 1) * stride..][..d]);
                }
                // (Σ c_rest, Σ c_r, Σ c_z, 0).
                summed.z_total += f64::from(numbers[layout.count as usize * stride + 2]);
            }
        }
    }
    Ok(all)
}
