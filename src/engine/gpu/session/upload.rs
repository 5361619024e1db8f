//! What the host writes to a session's buffers.

use super::{Session, uniform_bytes};
use crate::data::Dataset;
use crate::engine::LossSpec;
use crate::engine::gpu::pack;
use crate::engine::gpu::shared::Job;
use crate::engine::gpu::stages::Slot;
use crate::model::Parameters;
use crate::{Result, Scalar};
use glam::Vec4;

impl Session {
    /// Sets what every dispatch of a value weighs b̃ by: see [`Job::weigh`].
    pub(crate) fn weigh_by(&self, weigh: u32) -> Result<()> {
        let Some(jobs) = &self.jobs else { return Ok(()) };
        for (dispatch, bound) in self.plan.value.iter().zip(&self.value) {
            let uniform = uniform_bytes(&Job { weigh, ..dispatch.job });
            self.context.write(jobs, u64::from(bound.offset), &uniform)?;
        }
        Ok(())
    }

    /// Uploads what rows have instead of b̃: `rows(e, i)` is the ω and the numbers, one per variable, of sample i of
    /// environment e.
    pub(crate) fn write_rows(
        &self,
        spec: &LossSpec,
        rows: impl Fn(usize, usize) -> (f64, Vec<f32>),
    ) -> Result<()> {
        let job = self.form.job(spec);
        for (span, buffers) in self.plan.spans.iter().zip(&self.rows) {
            let mut packed = vec![Vec4::ZERO; span.rows() as usize * job.work_stride as usize];
            for row in 0..span.rows() as usize {
                let Some((e, i)) = self.plan.sample_at(*span, row) else { continue };
                let (omega, values) = rows(e, i);
                let record = &mut packed[row * job.work_stride as usize..];
                record[0].x = omega as f32;
                let quads = pack::rows(values.into_iter(), self.form.dim);
                record[job.at_b as usize..][..quads.len()].copy_from_slice(&quads);
            }
            self.context.write(&buffers.work, 0, bytemuck::cast_slice(&packed))?;
        }
        Ok(())
    }

    /// Uploads samples: those of `data`, which must have the rows that the session was made for.
    pub(crate) fn write_samples(&self, data: &Dataset, spec: &LossSpec) -> Result<()> {
        for (span, rows) in self.plan.spans.iter().zip(&self.rows) {
            let packed = pack::samples(data, &self.plan, *span);
            self.context.write(&rows.x, 0, bytemuck::cast_slice(&packed))?;
        }
        self.write_centres(data, spec)
    }

    /// Uploads a point within each environment's samples.
    pub(crate) fn write_centres(&self, data: &Dataset, spec: &LossSpec) -> Result<()> {
        let packed = pack::centres(data, &self.form, spec);
        self.context.write(&self.shared[&Slot::Centres], 0, bytemuck::cast_slice(&packed))
    }

    /// Uploads parameters unless the device has them already.
    pub(crate) fn write_parameters<T: Scalar>(&mut self, parameters: &Parameters<T>) -> Result<()> {
        let packed = pack::parameters(parameters, &self.form);
        if packed != self.uploaded {
            self.uploaded.clear();
            self.context.write(&self.shared[&Slot::Parameters], 0, bytemuck::cast_slice(&packed))?;
            self.uploaded = packed;
        }
        Ok(())
    }

    /// Forgets what the device holds: something else has changed its parameters.
    pub(crate) fn forget_parameters(&mut self) {
        self.uploaded.clear();
    }
}
