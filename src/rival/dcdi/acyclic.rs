//! Acyclicity of edge probabilities: a differentiable measure, a test and a repair.
//!
//! h(A) = tr exp(A) − d is Σ_n tr(Aⁿ) / n!: it is 0 for A ≥ 0 only if no cycle has edges above 0. Its gradient is exp(A)ᵀ.
//! The measure is divided by its value where every edge has probability 1, and is from 0 to 1.

use crate::Matrix;
use crate::numeric::simd::{self, LANES, dispatch};

/// The series is taken of a matrix with sums of rows up to this: its first term left out is below 1e-11 of the first.
const SERIES_NORM: f64 = 0.25;
/// Rows of a product that are computed together.
const ROWS: usize = 4;

/// The measure and its gradient, with space to compute them.
pub(super) struct Acyclicity {
    dim: usize,
    /// Entries of a row, padded.
    stride: usize,
    /// The value at which every edge has probability 1.
    most: f64,
    /// d × stride each, with rows padded: exp(A) − I, and intermediate results.
    exponential: Vec<f64>,
    spare: [Vec<f64>; 4],
}

impl Acyclicity {
    /// For `dim` variables.
    pub(super) fn new(dim: usize) -> Self {
        let stride = simd::padded(dim);
        let space = || vec![0.0; dim.next_multiple_of(ROWS) * stride];
        // The matrix of ones without its diagonal has the eigenvalues d − 1, once, and −1.
        let rest = (dim - 1) as f64;
        let most = rest.exp_m1() + rest * (-1.0f64).exp_m1();
        Acyclicity { dim, stride, most, exponential: space(), spare: [space(), space(), space(), space()] }
    }

    /// h at the probabilities (row j holds those of the edges to j), from 0 to 1.
    pub(super) fn measure(&mut self, probabilities: &Matrix<f64>) -> f64 {
        if self.dim < 2 {
            return 0.0;
        }
        dispatch(
            #[inline(always)]
            || self.exponentiate(probabilities),
        );
        (0..self.dim).map(|i| self.exponential[i * self.stride + i]).sum::<f64>() / self.most
    }

    /// The derivative of the last measure by the probability of the edge from `parent` to `child`.
    pub(super) fn slope(&self, child: usize, parent: usize) -> f64 {
        // The gradient is the transpose.
        self.exponential[parent * self.stride + child] / self.most
    }

    /// exp(A) − I by a series for A / 2ˢ and s steps of (I + E)² − I = 2 E + E². No entry is ever below 0, so nothing cancels.
    #[inline(always)]
    fn exponentiate(&mut self, a: &Matrix<f64>) {
        let (d, stride) = (self.dim, self.stride);
        let norm = (0..d).map(|j| a.row(j).iter().sum::<f64>()).fold(0.0, f64::max);
        let mut halvings = 0;
        while norm / f64::from(2u32).powi(halvings) > SERIES_NORM {
            halvings += 1;
        }
        let scale = f64::from(2u32).powi(-halvings);
        let [a1, a2, a3, a4] = &mut self.spare;
        for j in 0..d {
            a1[j * stride..][..d].iter_mut().zip(a.row(j)).for_each(|(to, from)| *to = scale * from);
        }
        multiply(d, stride, a1, a1, a2);
        multiply(d, stride, a2, a1, a3);
        multiply(d, stride, a2, a2, a4);
        // A + A²/2 + A³/6 + A⁴ (I/24 + A/120 + A²/720 + A³/5040 + A⁴/40320).
        let upper = &mut self.exponential;
        for n in 0..a1.len() {
            upper[n] = a1[n] / 120.0 + a2[n] / 720.0 + a3[n] / 5040.0 + a4[n] / 40_320.0;
            a1[n] += a2[n] / 2.0 + a3[n] / 6.0;
        }
        (0..d).for_each(|i| upper[i * stride + i] += 1.0 / 24.0);
        multiply(d, stride, a4, upper, a2);
        for n in 0..a1.len() {
            upper[n] = a1[n] + a2[n];
        }
        for _ in 0..halvings {
            multiply(d, stride, upper, upper, a2);
            for n in 0..a2.len() {
                upper[n] = 2.0 * upper[n] + a2[n];
            }
        }
    }
}

/// `product = a b` for d × d matrices with padded rows.
#[inline(always)]
fn multiply(d: usize, stride: usize, a: &[f64], b: &[f64], product: &mut [f64]) {
    for i in (0..d).step_by(ROWS) {
        for at in (0..stride).step_by(LANES) {
            let mut sums = [[0.0; LANES]; ROWS];
            for k in 0..d {
                let b: &[f64] = &b[k * stride + at..][..LANES];
                for (r, sum) in sums.iter_mut().enumerate() {
                    let factor = a[(i + r) * stride + k];
                    for l in 0..LANES {
                        sum[l] += factor * b[l];
                    }
                }
            }
            for (r, sum) in sums.iter().enumerate() {
                product[(i + r) * stride + at..][..LANES].copy_from_slice(sum);
            }
        }
    }
}

/// The edges with probability above ½: row j holds those to j.
pub(super) fn likely_edges(probabilities: &Matrix<f64>) -> Matrix<bool> {
    probabilities.map(|p| p > 0.5)
}

/// Whether no variable is its own ancestor.
pub(super) fn is_acyclic(edges: &Matrix<bool>) -> bool {
    !on_cycles(edges).contains(&true)
}

/// Removes the least probable edge that lies on a cycle until there is no cycle. Of equal ones, the first by child goes.
pub(super) fn break_cycles(edges: &mut Matrix<bool>, probabilities: &Matrix<f64>) {
    let d = edges.rows();
    loop {
        let cyclic = on_cycles(edges);
        let on = (0..d * d).filter(|&n| edges.as_slice()[n] && cyclic[n]);
        let least = on.min_by(|&m, &n| probabilities.as_slice()[m].total_cmp(&probabilities.as_slice()[n]));
        match least {
            Some(edge) => edges.as_mut_slice()[edge] = false,
            None => return,
        }
    }
}

/// For each entry: whether it is an edge i → j and j is an ancestor of i.
fn on_cycles(edges: &Matrix<bool>) -> Vec<bool> {
    let d = edges.rows();
    // reach[j][i]: there is a path from i to j.
    let mut reach = edges.clone();
    for middle in 0..d {
        let from = reach.row(middle).to_vec();
        for j in 0..d {
            if reach[(j, middle)] {
                reach.row_mut(j).iter_mut().zip(&from).for_each(|(to, &from)| *to |= from);
            }
        }
    }
    (0..d * d).map(|n| edges.as_slice()[n] && reach[(n % d, n / d)]).collect()
}
