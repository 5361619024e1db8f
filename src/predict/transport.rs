//! The affine optimal transport map between two laws.

use super::Law;
use crate::data::Standardization;
use crate::numeric::dense::symmetric_eigen;
use crate::numeric::matmul::product;
use crate::{Matrix, Result};
use faer::{Mat, MatRef};

/// A covariance whose least eigenvalue is this far below its largest is taken as singular.
const SINGULAR: f64 = 1e-10;

/// x ↦ x + shift + (A − I)(x − centre); a translation if there is no A.
#[derive(Clone, Debug, PartialEq)]
pub struct TransportMap {
    /// The movement of the centre, d.
    pub shift: Vec<f64>,
    /// The linear map of deviations, if it is not the identity.
    pub deviations: Option<Deviations>,
}

/// The part of a map that is not a translation.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviations {
    /// d.
    pub centre: Vec<f64>,
    /// A, d × d.
    pub matrix: Matrix<f64>,
}

impl TransportMap {
    /// From N(m₁, S₁) to N(m₂, S₂): x ↦ m₂ + A (x − m₁) with A = S₁^-½ (S₁^½ S₂ S₁^½)^½ S₁^-½, in the laws' units.
    ///
    /// Laws with the same covariance differ by a translation, and that is what the map is, to the bit. In directions in
    /// which neither law varies it leaves deviations as they are. Costs O(d³).
    pub fn between(from: &Law, to: &Law) -> Result<Self> {
        let shift = from.mean.iter().zip(&to.mean).map(|(from, to)| to - from).collect();
        if from.covariance == to.covariance {
            return Ok(TransportMap { shift, deviations: None });
        }
        let matrix = optimal(from.covariance.view(), to.covariance.view())?;
        Ok(TransportMap { shift, deviations: Some(Deviations { centre: from.mean.clone(), matrix }) })
    }

    /// The average of maps, with weights that add up to 1: every point goes to the weighted mean of its images.
    pub fn average(maps: &[(f64, TransportMap)]) -> Self {
        let d = maps[0].1.shift.len();
        let mut shift = vec![0.0; d];
        for (weight, map) in maps {
            shift.iter_mut().zip(&map.shift).for_each(|(sum, shift)| *sum += weight * shift);
        }
        let Some(centre) = maps.iter().find_map(|(_, map)| Some(map.deviations.as_ref()?.centre.clone()))
        else {
            return TransportMap { shift, deviations: None };
        };
        let mut matrix = Matrix::from_fn(d, d, |i, j| if i == j { 1.0 } else { 0.0 });
        for (weight, map) in maps {
            let Some(deviations) = &map.deviations else { continue };
            for i in 0..d {
                for j in 0..d {
                    let change = weight * (deviations.matrix[(i, j)] - if i == j { 1.0 } else { 0.0 });
                    matrix[(i, j)] += change;
                    // All maps get one common centre; the difference becomes a shift.
                    shift[i] += change * (centre[j] - deviations.centre[j]);
                }
            }
        }
        TransportMap { shift, deviations: Some(Deviations { centre, matrix }) }
    }

    /// The same map of x = m + s z, given that of z.
    pub fn in_data_units(mut self, Standardization { mean, scale }: &Standardization) -> Self {
        self.shift.iter_mut().zip(scale).for_each(|(shift, s)| *shift *= s);
        if let Some(Deviations { centre, matrix }) = &mut self.deviations {
            centre.iter_mut().zip(mean.iter().zip(scale)).for_each(|(c, (m, s))| *c = m + s * *c);
            for (i, s) in scale.iter().enumerate() {
                matrix.row_mut(i).iter_mut().zip(scale).for_each(|(entry, from)| *entry *= s / from);
            }
        }
        self
    }

    /// The image of each row.
    pub fn apply(&self, rows: &Matrix<f64>) -> Matrix<f64> {
        let (n, d) = (rows.rows(), rows.cols());
        let Some(Deviations { centre, matrix }) = &self.deviations else {
            return Matrix::from_fn(n, d, |i, j| rows[(i, j)] + self.shift[j]);
        };
        let deviations = Matrix::from_fn(n, d, |i, j| rows[(i, j)] - centre[j]);
        let mut moved = Matrix::full(n, d, 0.0);
        product(moved.view_mut(), deviations.view(), matrix.view().transpose());
        for row in moved.as_mut_slice().chunks_exact_mut(d) {
            let to = centre.iter().zip(&self.shift);
            row.iter_mut().zip(to).for_each(|(value, (centre, shift))| *value += centre + shift);
        }
        moved
    }
}

/// S₁^-½ (S₁^½ S₂ S₁^½)^½ S₁^-½.
fn optimal(from: MatRef<'_, f64>, to: MatRef<'_, f64>) -> Result<Matrix<f64>> {
    let d = from.nrows();
    let (mut values, vectors) = symmetric_eigen(from)?;
    let largest = values.last().copied().unwrap_or(0.0);
    let mut to = to.to_owned();
    // The same small noise on both sides makes A the identity where there is no other variation.
    if values.first().is_some_and(|least| *least < SINGULAR * largest) {
        let noise = 2.0 * SINGULAR * largest;
        values.iter_mut().for_each(|value| *value = value.max(0.0) + noise);
        (0..d).for_each(|i| to[(i, i)] += noise);
    }
    let root = spectral(&values, &vectors, f64::sqrt);
    let inverse = spectral(&values, &vectors, |value| 1.0 / value.sqrt());
    let middle = around(root.as_ref(), to.as_ref());
    let (values, vectors) = symmetric_eigen(middle.as_ref())?;
    let middle = spectral(&values, &vectors, |value| value.max(0.0).sqrt());
    let matrix = around(inverse.as_ref(), middle.as_ref());
    Ok(Matrix::from_fn(d, d, |i, j| matrix[(i, j)]))
}

/// V f(λ) Vᵀ.
fn spectral(values: &[f64], vectors: &Mat<f64>, f: impl Fn(f64) -> f64) -> Mat<f64> {
    let d = values.len();
    let scaled = Mat::from_fn(d, d, |i, j| vectors[(i, j)] * f(values[j]));
    let mut result = Mat::zeros(d, d);
    product(result.as_mut(), scaled.as_ref(), vectors.transpose());
    result
}

/// P M P, symmetric to the bit, of symmetric matrices.
fn around(outer: MatRef<'_, f64>, inner: MatRef<'_, f64>) -> Mat<f64> {
    let d = inner.nrows();
    let (mut half, mut whole) = (Mat::zeros(d, d), Mat::zeros(d, d));
    product(half.as_mut(), outer, inner);
    product(whole.as_mut(), half.as_ref(), outer);
    Mat::from_fn(d, d, |i, j| 0.5 * (whole[(i, j)] + whole[(j, i)]))
}
