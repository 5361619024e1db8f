//! The unknowns as one vector t: row by row the penalised effects, the unpenalised coefficients, amounts of noise, shifts, and
//! noises of targets. The coefficients of drift and noise are linear in it.

use crate::model::Parameters;
use crate::solve::Design;
use crate::solve::layout::CoordinateLayout;
use crate::{Error, Matrix, Result};
use std::ops::Range;

/// Coefficients of a model in all environments; also the slopes with respect to them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Coefficients {
    /// Of the drift's functions, d × p; the constant is the last.
    pub drift: Matrix<f64>,
    /// Of the noise's, d × m.
    pub amounts: Matrix<f64>,
    /// E × d.
    pub shifts: Matrix<f64>,
    /// Squared noises of targets, E × d; no meaning where there is none.
    pub noises: Matrix<f64>,
}

impl Coefficients {
    pub(super) fn zeros(d: usize, features: usize, amounts: usize, environments: usize) -> Self {
        Coefficients {
            drift: Matrix::full(d, features, 0.0),
            amounts: Matrix::full(d, amounts, 0.0),
            shifts: Matrix::full(environments, d, 0.0),
            noises: Matrix::full(environments, d, 0.0),
        }
    }
}

/// The places of all unknowns.
pub(super) struct Unknowns {
    design: Design,
    /// Row by row.
    pub layouts: Vec<CoordinateLayout>,
    starts: Vec<usize>,
    pub features: usize,
    pub environments: usize,
}

/// Where a row's unknowns are.
struct Places {
    free: Range<usize>,
    amounts: Range<usize>,
    shifts: Range<usize>,
    noises: Range<usize>,
}

impl Unknowns {
    pub(super) fn new(design: Design, layouts: Vec<CoordinateLayout>, environments: usize) -> Self {
        let features = design.features(layouts.len());
        let mut starts = vec![0];
        for own in &layouts {
            let row = own.penalised.len() + own.free.len() + own.amounts;
            starts.push(starts[starts.len() - 1] + row + own.shifted.len() + own.scaled.len());
        }
        Unknowns { design, layouts, starts, features, environments }
    }

    pub(super) fn len(&self) -> usize {
        self.starts[self.layouts.len()]
    }

    /// The unknowns of a row.
    pub(super) fn row(&self, j: usize) -> Range<usize> {
        self.starts[j]..self.starts[j + 1]
    }

    /// The penalised ones of a row.
    pub(super) fn penalised(&self, j: usize) -> Range<usize> {
        self.starts[j]..self.starts[j] + self.layouts[j].penalised.len()
    }

    fn places(&self, j: usize) -> Places {
        let own = &self.layouts[j];
        let free = self.penalised(j).end..self.penalised(j).end + own.free.len();
        let amounts = free.end..free.end + own.amounts;
        let shifts = amounts.end..amounts.end + own.shifted.len();
        let noises = shifts.end..shifts.end + own.scaled.len();
        Places { free, amounts, shifts, noises }
    }

    /// Zeros of the right shape.
    pub(super) fn coefficients(&self) -> Coefficients {
        let amounts = self.layouts.first().map_or(1, |own| own.amounts);
        Coefficients::zeros(self.layouts.len(), self.features, amounts, self.environments)
    }

    /// Whether noises of targets are sought.
    pub(super) fn has_noises(&self) -> bool {
        self.layouts.iter().any(|own| !own.scaled.is_empty())
    }

    /// Fills in the coefficients that t stands for; with `fixed`, those that fix the speed too.
    pub(super) fn spread(&self, t: &[f64], fixed: bool, out: &mut Coefficients) {
        out.drift.as_mut_slice().fill(0.0);
        for (j, own) in self.layouts.iter().enumerate() {
            let places = self.places(j);
            let row = out.drift.row_mut(j);
            own.effects().zip(&t[self.penalised(j)]).for_each(|((at, unit), w)| row[at] = unit * w);
            own.free.iter().zip(&t[places.free]).for_each(|(&at, value)| row[at] = *value);
            if !own.slopes.is_empty() {
                let lowered: f64 = row.iter().zip(&own.slopes).map(|(c, slope)| c * slope).sum();
                row[own.fixed.0] -= lowered;
            }
            if fixed {
                row[own.fixed.0] += own.fixed.1;
            }
            out.amounts.row_mut(j).copy_from_slice(&t[places.amounts]);
            own.shifted.iter().zip(&t[places.shifts]).for_each(|(&e, value)| out.shifts[(e, j)] = *value);
            own.scaled.iter().zip(&t[places.noises]).for_each(|(&e, value)| out.noises[(e, j)] = *value);
        }
    }

    /// The slopes with respect to t, from those with respect to coefficients.
    pub(super) fn gather(&self, slopes: &Coefficients, out: &mut [f64]) {
        for (j, own) in self.layouts.iter().enumerate() {
            let places = self.places(j);
            let row = slopes.drift.row(j);
            let of = |at: usize| row[at] - own.slopes.get(at).map_or(0.0, |slope| slope * row[own.fixed.0]);
            let effects = out[self.penalised(j)].iter_mut();
            own.effects().zip(effects).for_each(|((at, unit), out)| *out = unit * of(at));
            own.free.iter().zip(&mut out[places.free]).for_each(|(&at, out)| *out = of(at));
            out[places.amounts].copy_from_slice(slopes.amounts.row(j));
            own.shifted
                .iter()
                .zip(&mut out[places.shifts])
                .for_each(|(&e, out)| *out = slopes.shifts[(e, j)]);
            own.scaled.iter().zip(&mut out[places.noises]).for_each(|(&e, out)| *out = slopes.noises[(e, j)]);
        }
    }

    /// What a penalised entry's slope is multiplied with to be that of a coefficient; 1 for others.
    pub(super) fn multipliers(&self) -> Vec<f64> {
        let mut by = vec![1.0; self.len()];
        for (j, own) in self.layouts.iter().enumerate() {
            by[self.penalised(j)].copy_from_slice(&own.multipliers);
        }
        by
    }

    /// The group of each unknown: the function that it is a penalised coefficient of.
    pub(super) fn groups(&self) -> Vec<Option<usize>> {
        let mut groups = vec![None; self.len()];
        for (j, own) in self.layouts.iter().enumerate() {
            let places = groups[self.penalised(j)].iter_mut();
            places.zip(&own.penalised).for_each(|(group, &p)| *group = Some(p));
        }
        groups
    }

    /// Coefficients as parameters of a model, with squared noises of at least `least`.
    pub(super) fn parameters(&self, of: &Coefficients, least: f64) -> Parameters<f64> {
        let (d, last) = (self.layouts.len(), self.features - 1);
        // Of these squared noises logarithms are taken.
        let is_linear = matches!(self.design, Design::Linear);
        let (drift, noise) = self.design.drift_and_noise(
            d,
            |j, p| of.drift[(j, p)],
            |j, k| if is_linear { of.amounts[(j, k)].max(least) } else { of.amounts[(j, k)] },
        );
        let log_scale = self.has_noises().then(|| {
            let mut scales = Matrix::full(self.environments, d, 0.0);
            for (j, own) in self.layouts.iter().enumerate() {
                let shared = of.amounts[(j, 0)].max(least);
                for &e in &own.scaled {
                    scales[(e, j)] = 0.5 * (of.noises[(e, j)].max(least) / shared).ln();
                }
            }
            scales
        });
        let biases = (0..d).map(|j| of.drift[(j, last)]).collect();
        Parameters { drift, biases, noise, shift: Some(of.shifts.clone()), log_scale }
    }

    /// The vector of a model; effects that are held at 0 and shifts that are not sought are left out.
    pub(super) fn of_parameters(&self, parameters: &Parameters<f64>) -> Result<Vec<f64>> {
        let (d, last) = (self.layouts.len(), self.features - 1);
        let (drift, amounts) = self.design.coefficients(parameters)?;
        if parameters.dim() != d {
            return Err(Error::invalid(format!(
                "the model to start from has {} variables, expected {d}",
                parameters.dim()
            )));
        }
        if let Some(found) = parameters.environments().filter(|found| *found != self.environments) {
            return Err(Error::invalid(format!(
                "the model to start from has interventions of {found} environments, expected {}",
                self.environments
            )));
        }
        let entry =
            |table: &Option<Matrix<f64>>, e: usize, j: usize| table.as_ref().map_or(0.0, |t| t[(e, j)]);
        let by_environment = |of: &dyn Fn(usize, usize) -> f64| Matrix::from_fn(self.environments, d, of);
        Ok(self.gather_values(&Coefficients {
            drift: Matrix::from_fn(
                d,
                last + 1,
                |j, p| if p == last { parameters.biases[j] } else { drift[(j, p)] },
            ),
            shifts: by_environment(&|e, j| entry(&parameters.shift, e, j)),
            noises: by_environment(&|e, j| {
                amounts[(j, 0)] * (2.0 * entry(&parameters.log_scale, e, j)).exp()
            }),
            amounts,
        }))
    }

    /// The vector that stands for coefficients.
    pub(super) fn gather_values(&self, of: &Coefficients) -> Vec<f64> {
        let mut t = vec![0.0; self.len()];
        for (j, own) in self.layouts.iter().enumerate() {
            let places = self.places(j);
            let row = of.drift.row(j);
            let effects = t[self.penalised(j)].iter_mut();
            own.effects().zip(effects).for_each(|((at, unit), t)| *t = row[at] / unit);
            own.free.iter().zip(&mut t[places.free]).for_each(|(&at, t)| *t = row[at]);
            t[places.amounts].copy_from_slice(of.amounts.row(j));
            own.shifted.iter().zip(&mut t[places.shifts]).for_each(|(&e, t)| *t = of.shifts[(e, j)]);
            own.scaled.iter().zip(&mut t[places.noises]).for_each(|(&e, t)| *t = of.noises[(e, j)]);
        }
        t
    }
}
