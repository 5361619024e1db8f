//! Fits by moments, which depend on the data only through means and covariances.
//!
//! The law of a linear diffusion is Gaussian, so two moments determine it. One pass over the rows computes them; after that, no
//! cost grows with the number of rows.
//!
//! ```text
//! Dataset ──Moments::of──▶ means, scatter ──Pool::new──▶ [S | means] ──Kds or Structural──▶ MomentFit
//! ```

mod kds;
mod likelihood;
mod proximal;
mod rows;
mod rowwise;
mod stack;
mod structural;
mod subspace;
#[cfg(test)]
mod tests;

pub(crate) use kds::Kds;
pub(crate) use proximal::Lasso;
pub use proximal::Tolerance;
pub(crate) use structural::Structural;

use crate::data::Dataset;
use crate::model::{Drift, Noise, Parameters};
use crate::numeric::matmul::product;
use crate::{Error, Matrix, Progress, Result};
use stack::Stack;

/// Rows that are centred at a time.
const BLOCK: usize = 1024;
/// The least variance of a noise, in squared deviations of the data.
const LEAST_NOISE: f64 = super::coordinate::LEAST_NOISE;

/// Means of every environment, and covariances summed over parts of the environments.
pub(crate) struct Moments {
    /// E × d.
    means: Matrix<f64>,
    /// E × d, divided by the rows.
    variances: Matrix<f64>,
    rows: Vec<f64>,
    /// Of each part, d × d: products of deviations from each environment's own mean, added up.
    scatters: Vec<Matrix<f64>>,
    /// The part of each environment.
    parts: Vec<usize>,
}

impl Moments {
    /// One pass over the data. `parts` says which part each environment belongs to, from 0 without gaps.
    pub(crate) fn of(data: &Dataset, parts: &[usize], progress: &Progress) -> Result<Moments> {
        let (d, environments) = (data.dim(), data.environments());
        let count = parts.iter().max().map_or(0, |last| last + 1);
        crate::bounds::room(8.0 * (count + 2) as f64 * (d * d) as f64, || {
            format!("covariances of {count} parts of {environments} environments with {d} variables")
        })?;
        let mut moments = Moments {
            means: Matrix::full(environments, d, 0.0),
            variances: Matrix::full(environments, d, 0.0),
            rows: Vec::new(),
            scatters: vec![Matrix::full(d, d, 0.0); count],
            parts: parts.to_vec(),
        };
        let mut sum = Matrix::full(d, d, 0.0);
        for e in 0..environments {
            let (mean, rows) = (data.means(e), data.rows(e));
            let scatter = &mut moments.scatters[parts[e]];
            for first in rows.clone().step_by(BLOCK) {
                progress.check()?;
                let block = first..(first + BLOCK).min(rows.end);
                let mut centred =
                    Matrix::from_rows(block.len(), d, data.samples().rows_slice(block).to_vec());
                for row in centred.as_mut_slice().chunks_exact_mut(d) {
                    row.iter_mut().zip(&mean).for_each(|(x, mean)| *x -= mean);
                    let variances = moments.variances.row_mut(e).iter_mut();
                    variances.zip(row).for_each(|(sum, x)| *sum += *x * *x);
                }
                product(sum.view_mut(), centred.view().transpose(), centred.view());
                scatter.as_mut_slice().iter_mut().zip(sum.as_slice()).for_each(|(all, part)| *all += part);
            }
            moments.variances.row_mut(e).iter_mut().for_each(|sum| *sum /= rows.len() as f64);
            moments.means.row_mut(e).copy_from_slice(&mean);
            moments.rows.push(rows.len() as f64);
        }
        Ok(moments)
    }

    /// The number of variables.
    pub(crate) fn dim(&self) -> usize {
        self.means.cols()
    }

    /// The number of environments.
    pub(crate) fn environments(&self) -> usize {
        self.rows.len()
    }

    /// Means of an environment.
    pub(crate) fn mean(&self, e: usize) -> &[f64] {
        self.means.row(e)
    }

    /// The sampling variance of a variable's mean in an environment.
    pub(crate) fn error_of_mean(&self, e: usize, j: usize) -> f64 {
        self.variances[(e, j)] / self.rows[e]
    }
}

/// The moments of the environments that a fit uses.
pub(crate) struct Pool<'a> {
    moments: &'a Moments,
    targets: &'a Matrix<bool>,
    /// The environments of the fit.
    environments: Vec<usize>,
    /// Covariances, their shares of the rows, and the variables whose noise is their own.
    groups: Vec<Group>,
    /// The pooled variances: units in which nothing depends on the data's.
    units: Vec<f64>,
    /// Covariances and means side by side.
    stack: Stack,
    /// n_e/N for each environment that does not act on a variable, and 0 for the others: E × d.
    free: Matrix<f64>,
    /// Their sums, d.
    totals: Vec<f64>,
}

struct Group {
    share: f64,
    /// Variables that interventions of this group rescale.
    scaled: Vec<bool>,
    /// The environments whose covariances these are.
    environments: Vec<usize>,
}

impl<'a> Pool<'a> {
    /// All environments except those of the parts `left_out`. With `own_noise`, interventions may change the noise of their
    /// targets, and every environment must be its own part.
    pub(crate) fn new(
        moments: &'a Moments,
        targets: &'a Matrix<bool>,
        left_out: &[usize],
        own_noise: bool,
    ) -> Result<Pool<'a>> {
        let d = moments.dim();
        let environments: Vec<usize> =
            (0..moments.environments()).filter(|&e| !left_out.contains(&moments.parts[e])).collect();
        if environments.is_empty() {
            return Err(Error::invalid("found no environments to fit to, expected at least one"));
        }
        let all: f64 = environments.iter().map(|&e| moments.rows[e]).sum();
        // Environments with unchanged noise share a covariance: a shift moves only the mean.
        let rescales = |e: usize| own_noise && targets.row(e).contains(&true);
        let mut groups: Vec<Group> = Vec::new();
        let (own, shared): (Vec<usize>, Vec<usize>) = environments.iter().partition(|&&e| rescales(e));
        for members in std::iter::once(shared).chain(own.into_iter().map(|e| vec![e])) {
            let Some(&first) = members.first() else { continue };
            let scaled = match rescales(first) {
                true => targets.row(first).to_vec(),
                false => vec![false; d],
            };
            let share = members.iter().map(|&e| moments.rows[e]).sum::<f64>() / all;
            groups.push(Group { share, scaled, environments: members });
        }
        let mut used: Vec<Vec<usize>> = groups
            .iter()
            .map(|group| group.environments.iter().map(|&e| moments.parts[e]).collect())
            .collect();
        used.iter_mut().for_each(|parts| {
            parts.sort_unstable();
            parts.dedup();
        });
        let covariance = |g: usize| {
            let rows: f64 = groups[g].environments.iter().map(|&e| moments.rows[e]).sum();
            let mut sum = Matrix::full(d, d, 0.0);
            for &part in &used[g] {
                let scatter = moments.scatters[part].as_slice();
                sum.as_mut_slice().iter_mut().zip(scatter).for_each(|(sum, value)| *sum += value / rows);
            }
            sum
        };
        let covariances: Vec<Matrix<f64>> = (0..groups.len()).map(covariance).collect();
        let variance = |j: usize| {
            let all: f64 = groups.iter().zip(&covariances).map(|(group, s)| group.share * s[(j, j)]).sum();
            // A constant variable has no unit of its own.
            if all > f64::MIN_POSITIVE { all } else { 1.0 }
        };
        let units = (0..d).map(variance).collect();
        let free = Matrix::from_fn(environments.len(), d, |k, j| {
            let e = environments[k];
            if targets[(e, j)] { 0.0 } else { moments.rows[e] / all }
        });
        let totals = (0..d).map(|j| (0..environments.len()).map(|k| free[(k, j)]).sum()).collect();
        // Centred, because only differences of means matter.
        let middle: Vec<f64> = (0..d)
            .map(|j| environments.iter().map(|&e| moments.rows[e] / all * moments.means[(e, j)]).sum())
            .collect();
        let means =
            Matrix::from_fn(d, environments.len(), |j, k| moments.means[(environments[k], j)] - middle[j]);
        let stack = Stack::new(&covariances, &means);
        Ok(Pool { moments, targets, environments, groups, units, stack, free, totals })
    }

    /// The number of variables.
    pub(crate) fn dim(&self) -> usize {
        self.moments.dim()
    }

    /// Replaces the products W m_e of variable j, one per environment, by what biases and shifts leave of them, times
    /// n_e/N: 0 where an intervention acts, and elsewhere the distance from the mean.
    fn residuals(&self, j: usize, products: &mut [f64]) -> f64 {
        let mean = match self.totals[j] > 0.0 {
            true => {
                products.iter().enumerate().map(|(k, value)| self.free[(k, j)] * value).sum::<f64>()
                    / self.totals[j]
            }
            false => 0.0,
        };
        let mut squares = 0.0;
        for (k, value) in products.iter_mut().enumerate() {
            let rest = *value - mean;
            *value = self.free[(k, j)] * rest;
            squares += *value * rest;
        }
        squares
    }

    /// W with its optimal biases and shifts, and noises given as variances; one for each group if interventions rescale the
    /// variable.
    fn parameters(
        &self,
        weights: Matrix<f64>,
        noises: &[f64],
        own_noises: Option<Matrix<f64>>,
    ) -> Parameters<f64> {
        let (d, all) = (self.dim(), self.moments.environments());
        let drift = |j: usize, e: usize| -> f64 {
            weights.row(j).iter().zip(self.moments.mean(e)).map(|(w, m)| w * m).sum()
        };
        let mut biases = vec![0.0; d];
        let mut shift = Matrix::full(all, d, 0.0);
        for j in 0..d {
            let products: Vec<f64> = self.environments.iter().map(|&e| drift(j, e)).collect();
            // If all environments are intervened on, the first is the reference.
            let first = self.totals[j] == 0.0;
            biases[j] = match first {
                true => -products[0],
                false => {
                    let sum: f64 = products.iter().enumerate().map(|(k, p)| self.free[(k, j)] * p).sum();
                    -sum / self.totals[j]
                }
            };
            for (k, &e) in self.environments.iter().enumerate() {
                if self.targets[(e, j)] && !(first && k == 0) {
                    shift[(e, j)] = -products[k] - biases[j];
                }
            }
        }
        let least = |j: usize| LEAST_NOISE * self.units[j];
        let log_noise: Vec<f64> = (0..d).map(|j| 0.5 * noises[j].max(least(j)).ln()).collect();
        let log_scale = own_noises.map(|own| {
            let mut scales = Matrix::full(all, d, 0.0);
            for (g, group) in self.groups.iter().enumerate() {
                for &e in &group.environments {
                    for j in (0..d).filter(|&j| group.scaled[j]) {
                        scales[(e, j)] = 0.5 * own[(g, j)].max(least(j)).ln() - log_noise[j];
                    }
                }
            }
            scales
        });
        Parameters {
            drift: Drift::linear(weights),
            biases,
            noise: Noise::Diagonal { log_noise },
            shift: Some(shift),
            log_scale,
        }
    }
}

/// The minimum of a fit by moments.
#[derive(Clone, Debug)]
pub(crate) struct MomentFit {
    /// W, with the diagonal −1.
    pub weights: Matrix<f64>,
    /// The loss without the penalty, divided by d².
    pub loss: f64,
    /// The penalty, divided by d² like λ itself.
    pub penalty: f64,
    /// The amount by which the optimality conditions are missed, relative to the largest slope without effects.
    pub violation: f64,
}

/// The largest entry off the diagonal, by size.
fn largest_effect(matrix: &Matrix<f64>) -> f64 {
    let d = matrix.rows();
    let off = (0..d * d).filter(|at| at / d != at % d);
    off.map(|at| matrix.as_slice()[at].abs()).fold(0.0, f64::max)
}

/// W = −I: no effects.
pub(crate) fn no_effects(d: usize) -> Matrix<f64> {
    Matrix::from_fn(d, d, |i, j| if i == j { -1.0 } else { 0.0 })
}
