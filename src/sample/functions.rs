//! Drift and noise that are made of given functions, for groups of chains.
//!
//! Functions see a chain only within the basis's box; outside of it the drift leads back at the rate [`PULL`]. A step of
//! the drift is at most half of the box, so that a steep function cannot throw a chain from one wall to the other.

use crate::Matrix;
use crate::model::Basis;
use crate::numeric::matmul::product_sequential;
use faer::{Accum, MatMut, MatRef};
use std::sync::Arc;

/// The rate at which a chain outside of the box returns to it.
const PULL: f64 = 10.0;

/// A process made of given functions.
pub(super) struct Functions {
    basis: Arc<Basis>,
    /// The features that have a coefficient.
    used: Vec<usize>,
    /// d × used.
    coefficients: Matrix<f64>,
    /// dt times the amounts, d × m.
    amounts: Matrix<f64>,
    /// The largest drift of each variable.
    steepest: Vec<f64>,
}

/// Space that evaluations use again.
#[derive(Default)]
pub(super) struct FunctionSpace {
    /// The chains within the box.
    seen: Vec<f64>,
    /// Functions of them.
    values: Vec<f64>,
    pool: Vec<Vec<f64>>,
}

impl Functions {
    /// `amounts` are those of the intervention's noise.
    pub(super) fn new(
        basis: &Arc<Basis>,
        coefficients: &Matrix<f64>,
        amounts: &Matrix<f64>,
        dt: f64,
    ) -> Self {
        let d = coefficients.rows();
        let used: Vec<usize> =
            (0..basis.features()).filter(|&p| (0..d).any(|j| coefficients[(j, p)] != 0.0)).collect();
        Functions {
            coefficients: Matrix::from_fn(d, used.len(), |j, k| coefficients[(j, used[k])]),
            used,
            amounts: amounts.map(|amount| dt * amount),
            steepest: (0..d).map(|j| 0.5 * (basis.high[j] - basis.low[j]) / dt).collect(),
            basis: basis.clone(),
        }
    }

    /// So many deviations of the data from 0, and as many again as its middle is away from there.
    pub(super) fn far(&self, j: usize, deviations: f64) -> f64 {
        self.basis.centre[j].abs() + deviations * self.basis.spread[j].max(1e-300)
    }

    /// Functions that are computed.
    pub(super) fn count(&self) -> usize {
        self.used.len()
    }

    /// Where chains start: near the middle of the data.
    pub(super) fn start(&self, j: usize, z: f64) -> f64 {
        self.basis.centre[j] + z * self.basis.spread[j]
    }

    /// The drift without its biases, and √dt σ, of every chain; the entries of a variable are contiguous.
    pub(super) fn evaluate(
        &self,
        x: &[f64],
        chains: usize,
        b: &mut [f64],
        sigma: &mut [f64],
        space: &mut FunctionSpace,
    ) {
        let (d, used) = (self.amounts.rows(), self.used.len());
        let FunctionSpace { seen, values, pool } = space;
        seen.resize(d * chains, 0.0);
        values.resize(used.max(1) * chains, 0.0);
        let columns = seen.chunks_exact_mut(chains).zip(x.chunks_exact(chains));
        for ((seen, x), (low, high)) in columns.zip(self.basis.low.iter().zip(&self.basis.high)) {
            // A NaN stays one.
            seen.iter_mut().zip(x).for_each(|(seen, x)| *seen = x.clamp(*low, *high));
        }
        for (&p, values) in self.used.iter().zip(values.chunks_exact_mut(chains)) {
            self.basis.fill_feature(p, seen, values, pool);
        }
        product_sequential(
            MatMut::from_column_major_slice_mut(b, chains, d),
            Accum::Replace,
            MatRef::from_column_major_slice(&values[..used * chains], chains, used),
            self.coefficients.view().transpose(),
        );
        let constant = self.basis.has_constant_diffusion();
        for j in 0..d {
            let column = j * chains..(j + 1) * chains;
            let steepest = self.steepest[j];
            for ((b, x), seen) in
                b[column.clone()].iter_mut().zip(&x[column.clone()]).zip(&seen[column.clone()])
            {
                *b = b.clamp(-steepest, steepest) - PULL * (x - seen);
            }
            let sigma = &mut sigma[column];
            if constant {
                sigma.fill(self.amounts[(j, 0)].sqrt());
                continue;
            }
            sigma.fill(0.0);
            for k in 0..self.amounts.cols() {
                let values = &mut values[..chains];
                self.basis.fill_diffusion(k, j, seen, values, pool);
                let amount = self.amounts[(j, k)];
                sigma.iter_mut().zip(values).for_each(|(sigma, value)| *sigma += amount * *value);
            }
            sigma.iter_mut().for_each(|sigma| *sigma = sigma.sqrt());
        }
    }
}
