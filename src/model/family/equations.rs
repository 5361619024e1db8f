//! Structural equations by networks: x_j = mean_j(x) + biases_j + exp(log_scale_j(x)) σ_j ε_j.
//!
//! Like other structural equations they are written as a drift, here mean(x) − x + biases, which is at rest where the equations
//! hold. The noise does not fluctuate but stays, so a model of this family has no dynamics and no loss over pairs; its law is
//! sampled by solving the equations ([`crate::sample`]).

use super::{
    ChainDrift, Checked, Container, Drift, DriftArrays, DriftDynamics, Family, InputWeights, InputWeightsMut,
    cast,
};
use crate::data::Standardization;
use crate::model::{Basis, IngoingScale, Noise, Tensor};
use crate::numeric::simd::dispatch;
use crate::{Error, Matrix, Result, Scalar};
use std::sync::Arc;

pub(super) const FAMILY: Family = Family {
    name: "equations",
    tensors: &[
        "first_weights",
        "first_biases",
        "inner_weights",
        "inner_biases",
        "mean_weights",
        "scale_weights",
    ],
    read,
};

/// Means and log scales of structural equations, by a network for each variable.
///
/// Network j has layers of h units: u = γ(F_j x + f_j), then γ(G_j u + g_j) for each further layer, with γ(z) = max(z, slope z).
/// mean_j and log_scale_j are linear in the units of the last layer.
#[derive(Clone, Debug, PartialEq)]
pub struct EquationsDrift<T> {
    /// What γ multiplies numbers below 0 with: 0 for ReLU.
    pub slope: f64,
    /// F, (d·h) × d: row j·h + k is unit k of network j. A variable that does not act on j has weight 0 there.
    pub first_weights: Matrix<T>,
    /// f, d × h.
    pub first_biases: Matrix<T>,
    /// G of each further layer, (layers·d·h) × h.
    pub inner_weights: Matrix<T>,
    /// g of each further layer, (layers·d) × h.
    pub inner_biases: Matrix<T>,
    /// d × h.
    pub mean_weights: Matrix<T>,
    /// d × h.
    pub scale_weights: Matrix<T>,
}

fn read(file: &Container<'_>, d: usize) -> Checked<(Drift<f64>, Noise<f64>)> {
    let slope = match file.meta("slope").map(str::parse::<f64>) {
        Some(Ok(slope)) if (0.0..=1.0).contains(&slope) => slope,
        found => {
            let found = found
                .map_or("no slope".into(), |_| format!("the slope {}", file.meta("slope").unwrap_or("")));
            return Err(format!("has {found:.100} in its metadata, expected a number from 0 to 1"));
        }
    };
    let h = match *file.shape("first_biases")? {
        [rows, h] if rows == d && h > 0 => h,
        ref other => {
            return Err(format!(
                "tensor `first_biases` has shape {other:?}, expected [{d}, units] with at least one unit"
            ));
        }
    };
    let layers = match file.shape("inner_biases") {
        Ok(&[layers, rows, units]) if rows == d && units == h => layers,
        Ok(other) => {
            return Err(format!("tensor `inner_biases` has shape {other:?}, expected [layers, {d}, {h}]"));
        }
        Err(_) => 0,
    };
    let (inner_weights, inner_biases) = match layers {
        0 => (Vec::new(), Vec::new()),
        _ => {
            (file.values("inner_weights", &[layers, d, h, h])?, file.values("inner_biases", &[layers, d, h])?)
        }
    };
    let drift = EquationsDrift {
        slope,
        first_weights: Matrix::from_rows(d * h, d, file.values("first_weights", &[d, h, d])?),
        first_biases: file.matrix("first_biases", d, h)?,
        inner_weights: Matrix::from_rows(layers * d * h, h, inner_weights),
        inner_biases: Matrix::from_rows(layers * d, h, inner_biases),
        mean_weights: file.matrix("mean_weights", d, h)?,
        scale_weights: file.matrix("scale_weights", d, h)?,
    };
    match file.noise(d)? {
        noise @ Noise::Diagonal { .. } => Ok((drift.into(), noise)),
        _ => Err("has the tensor `noise`, expected `log_noise` for structural equations by networks".into()),
    }
}

impl<T: Scalar> EquationsDrift<T> {
    pub(super) fn cast<U: Scalar>(&self) -> EquationsDrift<U> {
        EquationsDrift {
            slope: self.slope,
            first_weights: cast(&self.first_weights),
            first_biases: cast(&self.first_biases),
            inner_weights: cast(&self.inner_weights),
            inner_biases: cast(&self.inner_biases),
            mean_weights: cast(&self.mean_weights),
            scale_weights: cast(&self.scale_weights),
        }
    }

    /// Layers after the first.
    fn layers(&self) -> usize {
        self.inner_biases.rows() / self.first_biases.rows().max(1)
    }
}

impl<T: Scalar> DriftArrays<T> for EquationsDrift<T> {
    fn family(&self) -> &'static Family {
        &FAMILY
    }

    fn tensors(&self, d: usize) -> Vec<Tensor<'_, T>> {
        let (h, layers) = (self.first_biases.cols(), self.layers());
        let mut all = vec![
            Tensor::new("first_weights", &[d, h, d], self.first_weights.as_slice()),
            Tensor::new("first_biases", &[d, h], self.first_biases.as_slice()),
        ];
        if layers > 0 {
            all.push(Tensor::new("inner_weights", &[layers, d, h, h], self.inner_weights.as_slice()));
            all.push(Tensor::new("inner_biases", &[layers, d, h], self.inner_biases.as_slice()));
        }
        all.push(Tensor::new("mean_weights", &[d, h], self.mean_weights.as_slice()));
        all.push(Tensor::new("scale_weights", &[d, h], self.scale_weights.as_slice()));
        all
    }

    fn tensors_mut(&mut self) -> Vec<(&'static str, &mut [T])> {
        let layers = self.layers();
        let mut all = vec![
            ("first_weights", self.first_weights.as_mut_slice()),
            ("first_biases", self.first_biases.as_mut_slice()),
        ];
        if layers > 0 {
            all.push(("inner_weights", self.inner_weights.as_mut_slice()));
            all.push(("inner_biases", self.inner_biases.as_mut_slice()));
        }
        all.push(("mean_weights", self.mean_weights.as_mut_slice()));
        all.push(("scale_weights", self.scale_weights.as_mut_slice()));
        all
    }

    fn metadata(&self) -> Vec<(&'static str, String)> {
        vec![("slope", self.slope.to_string())]
    }

    fn check(&self, _dim: usize, noise: &Noise<T>) -> Result<()> {
        match noise {
            Noise::Diagonal { .. } => Ok(()),
            Noise::Full { .. } | Noise::Basis { .. } => Err(Error::invalid(
                "structural equations by networks have another noise, expected a diagonal one",
            )),
        }
    }

    fn inputs(&self) -> Option<InputWeights<'_, T>> {
        let units = self.first_biases.cols();
        Some(InputWeights { weights: &self.first_weights, units, scale: IngoingScale::Sum })
    }

    fn inputs_mut(&mut self) -> Option<InputWeightsMut<'_, T>> {
        let units = self.first_biases.cols();
        Some(InputWeightsMut { weights: &mut self.first_weights, units, own: T::ZERO })
    }
}

impl DriftDynamics for EquationsDrift<f64> {
    fn at_chains<'a>(&'a self, _noise: &Noise<f64>, _dt: f64) -> Result<Box<dyn ChainDrift + 'a>> {
        Err(super::without(&FAMILY, "dynamics: it is sampled by solving its equations"))
    }

    fn in_units_of(
        &self,
        units: &Standardization,
        biases: &mut [f64],
        _functions: Option<&Arc<Basis>>,
    ) -> Result<Drift<f64>> {
        let Standardization { mean, scale } = units;
        let (d, h) = (biases.len(), self.first_biases.cols());
        let first_weights = Matrix::from_fn(d * h, d, |u, i| self.first_weights[(u, i)] / scale[i]);
        let rest = |u: usize| first_weights.row(u).iter().zip(mean).map(|(w, m)| w * m).sum::<f64>();
        let first_biases = Matrix::from_fn(d, h, |j, k| self.first_biases[(j, k)] - rest(j * h + k));
        // −s z = −x + m.
        biases.iter_mut().zip(mean).for_each(|(bias, m)| *bias += m);
        let mean_weights = Matrix::from_fn(d, h, |j, k| scale[j] * self.mean_weights[(j, k)]);
        Ok(EquationsDrift { first_weights, first_biases, mean_weights, ..self.clone() }.into())
    }

    fn effect(&self, source: usize, target: usize) -> Result<f64> {
        let h = self.first_biases.cols();
        let seen = |k: usize| self.first_weights[(target * h + k, source)];
        let norm = (0..h).fold(0.0, |norm: f64, k| norm.hypot(seen(k)));
        // The slope of the mean if every unit were active.
        let mut slopes: Vec<f64> = (0..h).map(seen).collect();
        for layer in 0..self.layers() {
            let row = |k: usize| self.inner_weights.row((layer * self.first_biases.rows() + target) * h + k);
            slopes = (0..h).map(|k| row(k).iter().zip(&slopes).map(|(w, s)| w * s).sum()).collect();
        }
        let slope: f64 = self.mean_weights.row(target).iter().zip(&slopes).map(|(w, s)| w * s).sum();
        Ok(if slope < 0.0 { -norm } else { norm })
    }

    fn standard_effect(&self, strength: f64, source: f64, _target: f64) -> Option<f64> {
        Some(strength * source)
    }
}

/// The equations of all variables, made ready to be evaluated at many rows.
pub(crate) struct RowEquations<'a> {
    of: &'a EquationsDrift<f64>,
    /// The variables that each network sees.
    parents: Vec<Vec<usize>>,
}

/// Space that evaluations use again.
#[derive(Default)]
pub(crate) struct RowSpace {
    units: Vec<f64>,
    next: Vec<f64>,
}

impl EquationsDrift<f64> {
    pub(crate) fn at_rows(&self) -> RowEquations<'_> {
        let (d, h) = (self.first_biases.rows(), self.first_biases.cols());
        let sees = |j: usize, i: usize| (0..h).any(|k| self.first_weights[(j * h + k, i)] != 0.0);
        let parents = (0..d).map(|j| (0..d).filter(|&i| sees(j, i)).collect()).collect();
        RowEquations { of: self, parents }
    }
}

impl RowEquations<'_> {
    /// An order in which variables without loops come after those that they see.
    pub(crate) fn order(&self) -> Vec<usize> {
        let d = self.parents.len();
        let (mut order, mut placed) = (Vec::new(), vec![false; d]);
        while order.len() < d {
            let ready = |j: &usize| !placed[*j] && self.parents[*j].iter().all(|&i| placed[i] || i == *j);
            let next = (0..d).find(ready).or_else(|| (0..d).find(|&j| !placed[j]));
            let next = next.expect("some variable is not placed yet");
            placed[next] = true;
            order.push(next);
        }
        order
    }

    /// mean_j and log_scale_j at every row; in `x` the entries of a variable are contiguous.
    pub(crate) fn evaluate(
        &self,
        j: usize,
        x: &[f64],
        mean: &mut [f64],
        log_scale: &mut [f64],
        space: &mut RowSpace,
    ) {
        let (of, rows, h) = (self.of, mean.len(), self.of.first_biases.cols());
        let RowSpace { units, next } = space;
        units.resize(h * rows, 0.0);
        next.resize(h * rows, 0.0);
        dispatch(
            #[inline(always)]
            || {
                for (k, unit) in units.chunks_exact_mut(rows).enumerate() {
                    unit.fill(of.first_biases[(j, k)]);
                    let weights = of.first_weights.row(j * h + k);
                    for &i in &self.parents[j] {
                        add(unit, weights[i], &x[i * rows..(i + 1) * rows]);
                    }
                    activate(unit, of.slope);
                }
                for layer in 0..of.layers() {
                    let network = layer * of.first_biases.rows() + j;
                    for (k, unit) in next.chunks_exact_mut(rows).enumerate() {
                        unit.fill(of.inner_biases[(network, k)]);
                        for (weight, before) in
                            of.inner_weights.row(network * h + k).iter().zip(units.chunks_exact(rows))
                        {
                            add(unit, *weight, before);
                        }
                        activate(unit, of.slope);
                    }
                    std::mem::swap(units, next);
                }
                mean.fill(0.0);
                log_scale.fill(0.0);
                for (k, unit) in units.chunks_exact(rows).enumerate() {
                    add(mean, of.mean_weights[(j, k)], unit);
                    if of.scale_weights[(j, k)] != 0.0 {
                        add(log_scale, of.scale_weights[(j, k)], unit);
                    }
                }
            },
        );
    }
}

#[inline(always)]
fn add(sum: &mut [f64], weight: f64, values: &[f64]) {
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
}

#[inline(always)]
fn activate(unit: &mut [f64], slope: f64) {
    unit.iter_mut().for_each(|z| *z = if *z < 0.0 { slope * *z } else { *z });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LawKind, Model, Parameters};

    /// x0 → x1, with two layers.
    fn model() -> Model {
        let drift = EquationsDrift {
            slope: 0.1,
            first_weights: Matrix::from_rows(4, 2, vec![0.0, 0.0, 0.0, 0.0, 1.0, 0.0, -1.0, 0.0]),
            first_biases: Matrix::full(2, 2, 0.5),
            inner_weights: Matrix::from_rows(4, 2, vec![1.0, 2.0, 0.0, 1.0, 1.0, -1.0, 0.5, 0.0]),
            inner_biases: Matrix::full(2, 2, -0.25),
            mean_weights: Matrix::from_rows(2, 2, vec![0.0, 0.0, 1.0, 2.0]),
            scale_weights: Matrix::from_rows(2, 2, vec![0.0, 0.0, 0.0, 0.5]),
        };
        let noise = Noise::Diagonal { log_noise: vec![0.0, -1.0] };
        let parameters =
            Parameters { drift: drift.into(), biases: vec![1.0, 0.25], noise, shift: None, log_scale: None };
        Model { law: LawKind::Structural, named: true, ..Model::new(parameters) }
    }

    fn drift(model: &Model) -> &EquationsDrift<f64> {
        let Drift::Equations(drift) = &model.parameters.drift else { unreachable!() };
        drift
    }

    #[test]
    fn networks_by_hand() {
        let model = model();
        let rows = drift(&model).at_rows();
        assert_eq!((rows.parents.clone(), rows.order()), (vec![vec![], vec![0]], vec![0, 1]));
        let (mut mean, mut log_scale) = ([0.0], [0.0]);
        rows.evaluate(1, &[2.0, 9.0], &mut mean, &mut log_scale, &mut RowSpace::default());
        // Units 2.5 and −0.15; then 2.5 + 0.15 − 0.25 = 2.4 and 1.25 − 0.25 = 1.
        assert!(
            (mean[0] - 4.4).abs() < 1e-15 && (log_scale[0] - 0.5).abs() < 1e-15,
            "{mean:?} {log_scale:?}"
        );
    }

    #[test]
    fn files_units_and_effects() {
        let model = model();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        model.save(&path).unwrap();
        assert_eq!(Model::read(&path).unwrap(), model);
        assert!(!model.is_diffusion() && model.check_has_loss().is_err());
        let effect = |source, target| model.parameters.drift.dynamics().effect(source, target).unwrap();
        // The slope is 1 (1 + 1) + 2 (0.5) > 0.
        assert!((effect(0, 1) - 2f64.sqrt()).abs() < 1e-15 && effect(1, 0) == 0.0);
        // x = m + s z: means and scales say the same in both units.
        let units = Standardization { mean: vec![3.0, -40.0], scale: vec![2.0, 5.0] };
        let other = model.parameters.in_units_of(&units, None).unwrap();
        let Drift::Equations(in_other) = &other.drift else { unreachable!() };
        let at = |drift: &EquationsDrift<f64>, x: [f64; 2]| {
            let (mut mean, mut log_scale) = ([0.0], [0.0]);
            drift.at_rows().evaluate(1, &x, &mut mean, &mut log_scale, &mut RowSpace::default());
            (mean[0], log_scale[0])
        };
        let (z, x) = ([0.3, -0.8], [3.6, -44.0]);
        let (own, same) = (at(drift(&model), z), at(in_other, x));
        assert!((units.mean[1] + 5.0 * (own.0 + 0.25) - (same.0 + other.biases[1])).abs() < 1e-12);
        assert!((own.1 - same.1).abs() < 1e-15);
    }

    #[test]
    fn damaged_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let mut wrong = model();
        let Drift::Equations(drift) = &mut wrong.parameters.drift else { unreachable!() };
        drift.slope = 7.0;
        wrong.save(&path).unwrap();
        let sentence = Model::read(&path).unwrap_err().to_string();
        assert!(
            sentence.contains("the slope 7 in its metadata, expected a number from 0 to 1"),
            "{sentence}"
        );
    }
}
