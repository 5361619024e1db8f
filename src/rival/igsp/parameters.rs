//! The coefficients and noise variances of a linear Gaussian DAG by maximum likelihood (Hauser and Bühlmann 2015, Lemma 5).
//!
//! A variable has no equation in an environment that intervenes on it, so its least squares take the rows of all other
//! environments. With S_j = Σ x xᵀ / n over those rows (uncentred: the data are standardised and the equations have no
//! intercepts), the effects of the parents P are S_jP S_PP⁻¹ and the noise variance is S_jj − S_jP S_PP⁻¹ S_Pj.

use crate::Matrix;
use crate::data::Dataset;
use crate::rival::LinearEquations;

/// A parent whose own variance given the parents before it is below this share of its second moment adds nothing.
const DEPENDENT: f64 = 1e-10;
/// The least noise variance, relative to the variable's second moment.
const LEAST_SHARE: f64 = 1e-10;
/// The least noise variance of a variable that is 0 in every row.
const LEAST_VARIANCE: f64 = 1e-10;

/// The maximum-likelihood equations of a DAG whose variable j has the parents `parents[j]`. Intercepts are 0.
///
/// Parents that are linear combinations of parents before them get the effect 0. A variable that every environment
/// intervenes on has no equation in the data: its effects are 0 and its noise has its second moment.
pub(crate) fn dag_equations(data: &Dataset, parents: &[Vec<usize>]) -> LinearEquations {
    let d = data.dim();
    let moments: Vec<Matrix<f64>> = (0..data.environments()).map(|e| scatter(data, e)).collect();
    let mut effects = Matrix::full(d, d, 0.0);
    let mut variances = vec![0.0; d];
    for j in 0..d {
        let informative: Vec<usize> = (0..data.environments()).filter(|&e| !data.targets()[(e, j)]).collect();
        if informative.is_empty() {
            let rows = data.samples().rows() as f64;
            variances[j] = floored(moments.iter().map(|m| m[(j, j)]).sum::<f64>() / rows, 0.0);
            continue;
        }
        let rows: usize = informative.iter().map(|&e| data.rows(e).len()).sum();
        let moment =
            |a: usize, b: usize| informative.iter().map(|&e| moments[e][(a, b)]).sum::<f64>() / rows as f64;
        let (weights, variance) = regress(&moment, j, &parents[j]);
        parents[j].iter().zip(weights).for_each(|(&i, weight)| effects[(j, i)] = weight);
        variances[j] = floored(variance, moment(j, j));
    }
    LinearEquations { effects, intercepts: vec![0.0; d], variances }
}

/// Σ x xᵀ over the rows of an environment.
fn scatter(data: &Dataset, e: usize) -> Matrix<f64> {
    let d = data.dim();
    let mut sums = Matrix::full(d, d, 0.0);
    for row in data.rows(e) {
        let x = data.samples().row(row);
        for a in 0..d {
            let (sums, value) = (&mut sums.row_mut(a)[..=a], x[a]);
            sums.iter_mut().zip(x).for_each(|(sum, other)| *sum += value * other);
        }
    }
    for a in 0..d {
        (a + 1..d).for_each(|b| sums[(a, b)] = sums[(b, a)]);
    }
    sums
}

/// The weights of `parents` on j and the variance that they leave, by Gaussian elimination of one parent at a time.
fn regress(moment: &impl Fn(usize, usize) -> f64, j: usize, parents: &[usize]) -> (Vec<f64>, f64) {
    let p = parents.len();
    let at = |k: usize| if k < p { parents[k] } else { j };
    // L D Lᵀ of the moments of the parents, and last of j: row k of L holds the weights of eliminated parents on k.
    let mut lower = Matrix::full(p + 1, p + 1, 0.0);
    let mut pivots = vec![0.0; p + 1];
    for k in 0..=p {
        for l in 0..k {
            let known: f64 = (0..l).map(|m| lower[(k, m)] * pivots[m] * lower[(l, m)]).sum();
            lower[(k, l)] = if pivots[l] > 0.0 { (moment(at(k), at(l)) - known) / pivots[l] } else { 0.0 };
        }
        let full = moment(at(k), at(k));
        let left = full - (0..k).map(|m| lower[(k, m)].powi(2) * pivots[m]).sum::<f64>();
        // The last pivot is the residual variance, which may be small; a small pivot before it is a dependent parent.
        pivots[k] = if k == p || left > DEPENDENT * full { left } else { 0.0 };
    }
    let mut weights = vec![0.0; p];
    for k in (0..p).rev() {
        weights[k] = lower[(p, k)] - (k + 1..p).map(|m| lower[(m, k)] * weights[m]).sum::<f64>();
        if pivots[k] == 0.0 {
            weights[k] = 0.0;
        }
    }
    (weights, pivots[p])
}

fn floored(variance: f64, moment: f64) -> f64 {
    variance.max(LEAST_SHARE * moment).max(LEAST_VARIANCE)
}
