//! Sums over all pairs for the exact solver, by the stages that evaluate losses.
//!
//! Stage `all_pairs` adds up weights times b̃ and times x − y for every row. With a drift that makes b̃ what one wants to
//! be summed (1; −τ x by the tilt of no drift and a = 2; x itself), it gives all that
//! [`Statistics`](crate::solve::Statistics) of the linear model need. For given functions of the state the host writes b̃
//! itself, as many columns at a time as there are variables. There is no shader of their own.

use super::GpuEngine;
use super::compose::SumLayout;
use super::form::Form;
use super::session::Session;
use super::stages::{self, Slot};
use crate::data::Dataset;
use crate::engine::LossSpec;
use crate::kernel::{Kernel, tilt};
use crate::model::{Drift, Noise, Parameters};
use crate::objective::{Estimator, Objective};
use crate::{Matrix, Result};
use std::sync::atomic::AtomicU64;
use wgpu::{Buffer, BufferUsages};

/// log σ for a = 0: its square vanishes in f32.
const NO_NOISE: f64 = -60.0;

/// Sums of one environment, row by row; each weighted by ω(x) ω(y).
pub(crate) struct PairSums {
    /// Σ κ.
    pub ones: Vec<f64>,
    /// Σ κ τ(y) y; nothing without a tilt.
    pub tilted: Option<Matrix<f64>>,
    /// Σ κ y for kernels that are not Gaussian; Σ κ (x − y) for those that are.
    pub linear: Matrix<f64>,
    /// Σ −½φ' (x − y) and Σ −½φ'' (x − y), of kernels that are not Gaussian.
    pub radial: Option<(Matrix<f64>, Matrix<f64>)>,
    /// Σ −½φ' over all rows.
    pub z_total: f64,
    /// Σ κ times [`Further::value`].
    pub further: Matrix<f64>,
    /// Σ −½φ' and Σ −½φ'' times [`Further::radial`].
    pub further_radial: Option<(Matrix<f64>, Matrix<f64>)>,
}

/// Further columns of an environment that sums are asked of, n × columns.
pub(crate) struct Further<'a> {
    /// To be weighted by the kernel.
    pub value: Matrix<f64>,
    /// To be weighted by derivatives of its profile, if it is not Gaussian.
    pub radial: Option<&'a Matrix<f64>>,
}

/// What b̃ is to be.
#[derive(Clone, Copy, PartialEq)]
enum Right {
    Ones,
    Tilted,
    Samples,
}

impl GpuEngine {
    /// The sums of every environment over all pairs of the estimator.
    pub(crate) fn pair_sums(
        &self,
        data: &Dataset,
        kernel: Kernel,
        estimator: Estimator,
        further: &[Further<'_>],
    ) -> Result<Vec<PairSums>> {
        let traits = kernel.kind().traits();
        let spec = LossSpec { objective: Objective::Skds, kernel, estimator };
        let form = Form { dim: data.dim(), environments: data.environments(), hidden: None, full: false };
        let rows: Vec<usize> = (0..data.environments()).map(|e| data.rows(e).len()).collect();
        let mut session = Session::new(self.context()?, &rows, &spec, form, &self.bounds, 0, &self.edits)?;
        session.write_samples(data, &spec)?;
        let layout = SumLayout::of(Objective::Skds, kernel.kind());
        let staging = session.context.buffer(
            "sums",
            session.plan.sizes.sums,
            BufferUsages::COPY_DST | BufferUsages::MAP_READ,
        )?;
        let mut pass = |right: Right| -> Result<Vec<Summed>> {
            session.write_parameters(&right.parameters(data.dim()))?;
            read_sums(&session, &staging, &rows, layout)
        };
        let ones = pass(Right::Ones)?;
        let tilted = if traits.tilted { Some(pass(Right::Tilted)?) } else { None };
        let samples = if traits.gaussian { None } else { Some(pass(Right::Samples)?) };
        let omega: Vec<f64> = (0..data.samples().rows())
            .map(|i| match traits.tilted {
                true => tilt(data.samples().row(i).iter().map(|v| v * v).sum()),
                false => 1.0,
            })
            .collect();
        let written =
            Written { session: &session, staging: &staging, spec, rows: &rows, layout, data, omega };
        let mut values = written.sums(0, &further.iter().map(|f| &f.value).collect::<Vec<_>>())?.into_iter();
        let radial: Option<Vec<&Matrix<f64>>> = further.iter().map(|f| f.radial).collect();
        let mut derivatives = match radial {
            Some(radial) => Some(written.sums(1, &radial)?.into_iter().zip(written.sums(2, &radial)?)),
            None => None,
        };
        let mut tilted = tilted.map(Vec::into_iter);
        let mut samples = samples.map(Vec::into_iter);
        Ok(ones
            .into_iter()
            .map(|summed| {
                let first = |matrix: &Matrix<f64>| (0..matrix.rows()).map(|i| matrix[(i, 0)]).collect();
                let next = |passes: &mut Option<std::vec::IntoIter<Summed>>| {
                    passes.as_mut().map(|pass| pass.next().expect("one per environment").drift)
                };
                let minus = next(&mut tilted).map(|matrix| matrix.map(|v| -v));
                let own = next(&mut samples);
                let Summed { drift, mut directions, z_total } = summed;
                let (linear, radial) = match own {
                    // Σ κ y in a pass of its own, and both radial sums in each.
                    Some(own) => {
                        let m = directions.pop().expect("two directions");
                        (own, Some((directions.pop().expect("two directions"), m)))
                    }
                    None => (directions.pop().expect("one direction"), None),
                };
                PairSums {
                    ones: first(&drift),
                    tilted: minus,
                    linear,
                    radial,
                    z_total,
                    further: values.next().expect("one per environment"),
                    further_radial: derivatives.as_mut().and_then(Iterator::next),
                }
            })
            .collect())
    }
}

/// A session whose b̃ the host writes.
struct Written<'a> {
    session: &'a Session,
    staging: &'a Buffer,
    spec: LossSpec,
    rows: &'a [usize],
    layout: SumLayout,
    data: &'a Dataset,
    omega: Vec<f64>,
}

impl Written<'_> {
    /// Sums of weights times columns; `weigh` as in [`Job::weigh`](super::shared::Job::weigh).
    fn sums(&self, weigh: u32, columns: &[&Matrix<f64>]) -> Result<Vec<Matrix<f64>>> {
        let d = self.session.form.dim;
        let mut all: Vec<Matrix<f64>> =
            columns.iter().map(|columns| Matrix::full(columns.rows(), columns.cols(), 0.0)).collect();
        let width = columns.first().map_or(0, |columns| columns.cols());
        self.session.weigh_by(weigh)?;
        for first in (0..width).step_by(d) {
            let count = d.min(width - first);
            self.session.write_rows(&self.spec, |e, i| {
                let mut row = vec![0.0; d];
                let values = &columns[e].row(i)[first..first + count];
                row.iter_mut().zip(values).for_each(|(row, value)| *row = *value as f32);
                (self.omega[self.data.rows(e).start + i], row)
            })?;
            let summed = sum_pairs(self.session, self.staging, self.rows, self.layout)?;
            for (all, Summed { drift, .. }) in all.iter_mut().zip(summed) {
                for i in 0..all.rows() {
                    all.row_mut(i)[first..first + count].copy_from_slice(&drift.row(i)[..count]);
                }
            }
        }
        self.session.weigh_by(0)?;
        Ok(all)
    }
}

impl Right {
    /// The model whose b̃ this is.
    fn parameters(self, d: usize) -> Parameters<f64> {
        let diagonal = if self == Right::Samples { 1.0 } else { 0.0 };
        let weights = Matrix::from_fn(d, d, |i, j| if i == j { diagonal } else { 0.0 });
        // b̃ = b − ½ τ a x: with a = 2 and no drift, −τ x.
        let log_noise = if self == Right::Tilted { 0.5 * 2f64.ln() } else { NO_NOISE };
        Parameters {
            drift: Drift::Linear { weights },
            biases: vec![if self == Right::Ones { 1.0 } else { 0.0 }; d],
            noise: Noise::Diagonal { log_noise: vec![log_noise; d] },
            shift: None,
            log_scale: None,
        }
    }
}

/// What `all_pairs` sums for the rows of an environment.
struct Summed {
    drift: Matrix<f64>,
    /// R_b, or R_z and R_m.
    directions: Vec<Matrix<f64>>,
    z_total: f64,
}

/// The sums with b̃ of the parameters that were written.
fn read_sums(session: &Session, staging: &Buffer, rows: &[usize], layout: SumLayout) -> Result<Vec<Summed>> {
    let done = AtomicU64::new(0);
    let before = [stages::DIFFUSION_DIAGONAL.name, stages::DRIFT.name, stages::TILT.name];
    for span in 0..session.plan.spans.len() {
        let dispatches = session.dispatches_of(span, &before);
        session.submit(&dispatches.iter().collect::<Vec<_>>(), &done)?;
    }
    sum_pairs(session, staging, rows, layout)
}

/// The sums with b̃ as it is on the device.
fn sum_pairs(session: &Session, staging: &Buffer, rows: &[usize], layout: SumLayout) -> Result<Vec<Summed>> {
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
    let done = AtomicU64::new(0);
    let stride = form.stride() as usize * 4;
    for (at, span) in plan.spans.iter().enumerate() {
        let dispatches = session.dispatches_of(at, &[stages::ALL_PAIRS.name]);
        session.submit(&dispatches.iter().collect::<Vec<_>>(), &done)?;
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
