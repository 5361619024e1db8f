//! The exact 2-Wasserstein distance of two samples of the same size: the cheapest way to match them.

use super::assignment::assign;
use super::costs::Costs;
use super::sinkhorn::anneal;
use super::{centred, check, finite, mean_square, means, squared_distance};
use crate::{Matrix, Result};

/// The most samples of each set that [`wasserstein2`] looks at: time grows with the cube, memory with the square.
pub const MAX_ASSIGNED: usize = 2000;

/// The ε of the blurred transport whose potentials are the prices that the assignment starts from, for sets of mean
/// square 1. They cost a few passes over the costs and spare most shortest paths where the sets have different shapes.
const BLUR: f64 = 1e-2;

/// The **squared** 2-Wasserstein distance between two empirical distributions of n samples each: the smallest mean of
/// |x − y|² over all ways to match the samples of one set with those of the other, one to one.
///
/// The distance is exact for what it looks at: the first n rows of each set, n the smaller of the two sizes and at most
/// [`MAX_ASSIGNED`]. Rows after that do not count, so sets longer than that, or of unequal sizes, should be in random
/// order. Note that two samples of one law in high dimension are far from each other: compare distances of equal n.
///
/// # Errors
/// If a set has no rows or no columns, if the numbers of columns differ, if a number is NaN or infinite, or if the
/// result exceeds the largest number.
pub fn wasserstein2(a: &Matrix<f64>, b: &Matrix<f64>) -> Result<f64> {
    check(a, b)?;
    let n = a.rows().min(b.rows()).min(MAX_ASSIGNED);
    let (x, y) = (standard(a, n)?, standard(b, n)?);
    let (costs, back) = (Costs::between(&x, &y), Costs::between(&y, &x));
    let (_, prices) = anneal(&costs, &back, BLUR);
    let matching = assign(&costs, &prices).matching;
    let total: f64 = (0..n).map(|i| squared_distance(a.row(i), b.row(matching[i]))).sum();
    finite(total / n as f64)
}

/// The first `n` rows, with mean 0 and mean square 1.
///
/// What a matching costs is the sum of −2⟨x, y⟩ and of terms that are the same for every matching, so that the best
/// one stays the best if a set is moved or scaled as a whole. Sets of equal size in the same place are matched
/// much faster, because most samples find their partner nearby.
fn standard(samples: &Matrix<f64>, n: usize) -> Result<Matrix<f64>> {
    let centred = centred(samples, n, &means(samples, n));
    let size = finite(mean_square(&centred))?.sqrt();
    Ok(if size > 0.0 { centred.map(|x| x / size) } else { centred })
}
