//! Products with SKDS' form, from the statistics of each environment: rows are independent, and apart from shifts and noises they
//! share C, so that one matrix product serves all rows.
//!
//! ```text
//! loss = mean_e Σ_j  v_ejᵀ C_e v_ej + 2 v_ejᵀ D_ej α_ej + α_ejᵀ E_ej α_ej       v_ej = v_j + δ_ej 1
//! ```

use super::dot;
use super::form::QuadraticForm;
use super::unknowns::{Coefficients, Unknowns};
use crate::numeric::matmul::product;
use crate::solve::Statistics;
use crate::solve::layout::FormEntries;
use crate::{Matrix, Progress, Result};
use rayon::prelude::*;
use std::sync::Arc;

/// The statistics of all environments.
pub(super) struct StatisticsForm {
    unknowns: Arc<Unknowns>,
    all: Vec<Statistics>,
    sum: Statistics,
    /// What is added to the diagonal, so that functions that are nearly alike stay determined.
    ridge: Vec<f64>,
}

/// The slopes of one row.
struct Row {
    drift: Vec<f64>,
    amounts: Vec<f64>,
    /// Of `CoordinateLayout::shifted`.
    shifts: Vec<f64>,
    /// Of `CoordinateLayout::scaled`.
    noises: Vec<f64>,
}

impl StatisticsForm {
    pub(super) fn new(unknowns: Arc<Unknowns>, all: Vec<Statistics>) -> StatisticsForm {
        let sum = Statistics::sum(all.iter()).expect("data has an environment");
        let mut skds = StatisticsForm { unknowns, all, sum, ridge: Vec::new() };
        let of = |j: usize| {
            let entries = skds.entries(j);
            (0..entries.len()).map(|a| entries.ridge_term(a)).collect::<Vec<f64>>()
        };
        skds.ridge = (0..skds.unknowns.layouts.len()).into_par_iter().map(of).collect::<Vec<_>>().concat();
        skds
    }

    /// The block of a row, entry by entry.
    pub(super) fn entries(&self, j: usize) -> FormEntries<'_> {
        FormEntries::new(&self.unknowns.layouts[j], &self.all, self.all.len(), &self.sum)
    }

    /// Twice the form's product with coefficients, over the environments.
    fn slopes(&self, of: &Coefficients) -> Coefficients {
        let (d, p) = (of.drift.rows(), of.drift.cols());
        let mut shared = Matrix::full(d, p, 0.0);
        product(shared.view_mut(), of.drift.view(), self.sum.drift.view());
        let rows: Vec<Row> = (0..d).into_par_iter().map(|j| self.row(j, of, shared.row(j))).collect();
        let factor = 2.0 / self.all.len() as f64;
        let mut out = self.unknowns.coefficients();
        for (j, (row, own)) in rows.iter().zip(&self.unknowns.layouts).enumerate() {
            let set = |out: &mut [f64], from: &[f64]| {
                out.iter_mut().zip(from).for_each(|(out, from)| *out = factor * from);
            };
            set(out.drift.row_mut(j), &row.drift);
            set(out.amounts.row_mut(j), &row.amounts);
            own.shifted.iter().zip(&row.shifts).for_each(|(&e, s)| out.shifts[(e, j)] = factor * s);
            own.scaled.iter().zip(&row.noises).for_each(|(&e, s)| out.noises[(e, j)] = factor * s);
        }
        out
    }

    /// `shared` is what the sum of all C makes of the row's coefficients.
    fn row(&self, j: usize, of: &Coefficients, shared: &[f64]) -> Row {
        let own = &self.unknowns.layouts[j];
        let (v, alpha) = (of.drift.row(j), of.amounts.row(j));
        let (p, m) = (v.len(), alpha.len());
        let last = p - 1;
        let mut row =
            Row { drift: shared.to_vec(), amounts: vec![0.0; m], shifts: Vec::new(), noises: Vec::new() };
        // As if nothing happened anywhere.
        for k in 0..m {
            let noise = (0..m).map(|l| self.sum.noise[(j, k * m + l)] * alpha[l]).sum::<f64>();
            row.amounts[k] = noise + (0..p).map(|a| self.sum.cross[(a, j * m + k)] * v[a]).sum::<f64>();
            (0..p).for_each(|a| row.drift[a] += self.sum.cross[(a, j * m + k)] * alpha[k]);
        }
        for &e in &own.shifted {
            let Statistics { drift, cross, noise } = &self.all[e];
            let shift = of.shifts[(e, j)];
            let scaled = own.scaled.contains(&e);
            row.drift.iter_mut().zip(drift.row(last)).for_each(|(out, c)| *out += shift * c);
            let mut slope = dot(drift.row(last), v) + shift * drift[(last, last)];
            for k in 0..m {
                let here = if scaled { of.noises[(e, j)] } else { alpha[k] };
                slope += cross[(last, j * m + k)] * here;
                if !scaled {
                    row.amounts[k] += cross[(last, j * m + k)] * shift;
                }
            }
            row.shifts.push(slope);
            if scaled {
                // Noises of targets stand in for the shared one; there is one function of noise then.
                let own_noise = of.noises[(e, j)];
                let along = (0..p).map(|a| cross[(a, j)] * v[a]).sum::<f64>();
                row.noises.push(along + cross[(last, j)] * shift + noise[(j, 0)] * own_noise);
                row.amounts[0] -= along + noise[(j, 0)] * alpha[0];
                (0..p).for_each(|a| row.drift[a] += cross[(a, j)] * (own_noise - alpha[0]));
            }
        }
        row
    }

    /// H t.
    pub(super) fn times(&self, t: &[f64]) -> Vec<f64> {
        let mut coefficients = self.unknowns.coefficients();
        self.unknowns.spread(t, false, &mut coefficients);
        let mut out = vec![0.0; t.len()];
        self.unknowns.gather(&self.slopes(&coefficients), &mut out);
        out.iter_mut().zip(&self.ridge).zip(t).for_each(|((out, ridge), t)| *out += ridge * t);
        out
    }
}

impl QuadraticForm for Arc<StatisticsForm> {
    fn product(&mut self, t: &[f64], out: &mut [f64], progress: &Progress) -> Result<()> {
        progress.check()?;
        out.copy_from_slice(&self.times(t));
        Ok(())
    }

    fn value_and_slopes(&mut self, t: &[f64], slopes: &mut [f64], progress: &Progress) -> Result<f64> {
        progress.check()?;
        let mut coefficients = self.unknowns.coefficients();
        self.unknowns.spread(t, true, &mut coefficients);
        let found = self.slopes(&coefficients);
        self.unknowns.gather(&found, slopes);
        let pairs = [
            (&coefficients.drift, &found.drift),
            (&coefficients.amounts, &found.amounts),
            (&coefficients.shifts, &found.shifts),
            (&coefficients.noises, &found.noises),
        ];
        let mut value: f64 = pairs.iter().map(|(a, b)| 0.5 * dot(a.as_slice(), b.as_slice())).sum();
        for ((slope, ridge), t) in slopes.iter_mut().zip(&self.ridge).zip(t) {
            value += 0.5 * ridge * t * t;
            *slope += ridge * t;
        }
        Ok(value)
    }
}
