//! The drift that is a sum of given functions, with a noise of given functions too.

use super::{ChainDrift, ChainSpace, Checked, Container, Drift, DriftArrays, DriftDynamics, Family, cast};
use crate::data::Standardization;
use crate::model::{Basis, Noise, Tensor};
use crate::numeric::matmul::product_sequential;
use crate::{Error, Matrix, Result, Scalar};
use faer::{Accum, MatMut, MatRef};
use std::sync::Arc;

pub(super) const FAMILY: Family = Family { name: "basis", tensors: &["coefficients", "amounts"], read };

/// The rate at which a chain outside of the box returns to it.
const PULL: f64 = 10.0;

/// b_j(x) = biases_j + Σ_p coefficients_jp f_p(x), for given functions.
#[derive(Clone, Debug, PartialEq)]
pub struct BasisDrift<T> {
    /// The functions.
    pub basis: Arc<Basis>,
    /// d × p.
    pub coefficients: Matrix<T>,
}

fn read(file: &Container<'_>, d: usize) -> Checked<(Drift<f64>, Noise<f64>)> {
    let text = file.meta("basis").ok_or("has no metadata basis, expected the functions of its drift")?;
    let fail = |problem: String| format!("has the metadata basis with {problem}");
    let written = serde_json::from_str(text).map_err(|e| fail(format!("text that is no basis: {e}")))?;
    // Functions are written with the variables' names.
    let basis = Basis::from_written(written, &file.names(d)?).map_err(|e| fail(e.to_string()))?;
    let coefficients = file.matrix("coefficients", d, basis.features())?;
    let amounts = file.matrix("amounts", d, basis.amounts())?;
    if let Some(at) = amounts.as_slice().iter().position(|amount| *amount < 0.0) {
        let (j, k) = (at / basis.amounts(), at % basis.amounts());
        return Err(format!("amounts[{j},{k}] is {}, expected at least 0", amounts[(j, k)]));
    }
    Ok((BasisDrift { basis: Arc::new(basis), coefficients }.into(), Noise::Basis { amounts }))
}

/// Drift and noise belong together.
pub(super) fn alone() -> Error {
    Error::invalid("only one of drift and noise is made of given functions, expected both of them or neither")
}

impl<T: Scalar> BasisDrift<T> {
    pub(super) fn cast<U: Scalar>(&self) -> BasisDrift<U> {
        BasisDrift { basis: self.basis.clone(), coefficients: cast(&self.coefficients) }
    }
}

impl<T: Scalar> DriftArrays<T> for BasisDrift<T> {
    fn family(&self) -> &'static Family {
        &FAMILY
    }

    fn tensors(&self, d: usize) -> Vec<Tensor<'_, T>> {
        vec![Tensor::new("coefficients", &[d, self.basis.features()], self.coefficients.as_slice())]
    }

    fn tensors_mut(&mut self) -> Vec<(&'static str, &mut [T])> {
        vec![("coefficients", self.coefficients.as_mut_slice())]
    }

    fn metadata(&self) -> Vec<(&'static str, String)> {
        let text = serde_json::to_string(&self.basis.to_written()).expect("plain values serialise");
        vec![("basis", text)]
    }

    fn check(&self, dim: usize, noise: &Noise<T>) -> Result<()> {
        let Noise::Basis { amounts } = noise else { return Err(alone()) };
        let basis = &self.basis;
        if basis.dim() != dim || basis.amounts() != amounts.cols() {
            return Err(Error::invalid(format!(
                "the basis has {} variables and {} functions of the noise, expected {dim} and {}",
                basis.dim(),
                basis.amounts(),
                amounts.cols()
            )));
        }
        Ok(())
    }
}

impl DriftDynamics for BasisDrift<f64> {
    fn at_chains<'a>(&'a self, noise: &Noise<f64>, dt: f64) -> Result<Box<dyn ChainDrift + 'a>> {
        let Noise::Basis { amounts } = noise else { return Err(alone()) };
        Ok(Box::new(Functions::new(&self.basis, &self.coefficients, amounts, dt)))
    }

    fn in_units_of(
        &self,
        units: &Standardization,
        _biases: &mut [f64],
        functions: Option<&Arc<Basis>>,
    ) -> Result<Drift<f64>> {
        let Some(basis) = functions else {
            return Err(Error::invalid(
                "the model is made of functions of variables in other units, expected functions in these units too",
            ));
        };
        let scaled = |j: usize, p: usize| units.scale[j] * self.coefficients[(j, p)];
        let coefficients = Matrix::from_fn(self.coefficients.rows(), self.coefficients.cols(), scaled);
        Ok(BasisDrift { basis: basis.clone(), coefficients }.into())
    }

    fn effect(&self, source: usize, target: usize) -> Result<f64> {
        let (basis, row) = (&self.basis, self.coefficients.row(target));
        let acting: Vec<usize> = (0..basis.features())
            .filter(|&p| row[p] != 0.0 && basis.variables(p).contains(&source))
            .collect();
        let size = |p: usize| row[p] * basis.scales[p] / basis.spread[target];
        let norm = acting.iter().fold(0.0, |norm: f64, &p| norm.hypot(size(p)));
        let drift = |by: f64| {
            let mut x = basis.centre.clone();
            x[source] += by * basis.spread[source];
            acting.iter().map(|&p| row[p] * basis.feature_at(p, &x)).sum::<f64>()
        };
        Ok(if drift(1.0) < drift(-1.0) { -norm } else { norm })
    }

    fn effects_in_deviations(&self) -> bool {
        true
    }

    fn bounds(&self) -> Option<(&[f64], &[f64])> {
        Some((&self.basis.low, &self.basis.high))
    }

    fn variances(&self, amounts: &Matrix<f64>) -> Result<Vec<f64>> {
        let basis = &self.basis;
        let at = |j: usize, k: usize| amounts[(j, k)] * basis.diffusion_at(k, j, &basis.centre);
        Ok((0..amounts.rows()).map(|j| (0..amounts.cols()).map(|k| at(j, k)).sum()).collect())
    }
}

/// Drift and noise that are made of given functions, for simulations.
///
/// Functions see a chain only within the basis's box; outside of it the drift leads back at the rate [`PULL`]. A step of
/// the drift is at most half of the box, so that a steep function cannot throw a chain from one wall to the other.
struct Functions {
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

impl Functions {
    /// `amounts` are those of the intervention's noise.
    fn new(basis: &Arc<Basis>, coefficients: &Matrix<f64>, amounts: &Matrix<f64>, dt: f64) -> Self {
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
}

impl ChainDrift for Functions {
    /// Given functions are in the data's units and know the data's width, so this counts deviations of the data from its mean.
    fn far(&self, j: usize, deviations: f64) -> f64 {
        self.basis.centre[j].abs() + deviations * self.basis.spread[j].max(1e-300)
    }

    fn width(&self) -> usize {
        2 * self.used.len()
    }

    /// Near the middle of the data.
    fn start(&self, j: usize, z: f64) -> f64 {
        self.basis.centre[j] + z * self.basis.spread[j]
    }

    fn evaluate(&self, x: &[f64], chains: usize, b: &mut [f64], sigma: &mut [f64], space: &mut ChainSpace) {
        let (d, used) = (self.amounts.rows(), self.used.len());
        let ChainSpace { seen, values, pool, .. } = space;
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
