//! Generalised inverses of small moment matrices.

use crate::Matrix;

/// A variable of which no larger share is left after those before it is a combination of them.
pub(super) const DEPENDENT: f64 = 1e-10;

/// A matrix K with M K M = M for a symmetric M without negative eigenvalues: M⁻¹ if M is regular. Rows and columns of
/// variables that are linear combinations of those before them are 0.
pub(super) fn generalised_inverse(matrix: &Matrix<f64>) -> Matrix<f64> {
    let p = matrix.rows();
    // M = L D Lᵀ; `back` is L⁻¹.
    let mut lower = Matrix::full(p, p, 0.0);
    let mut pivots = vec![0.0; p];
    let mut back = Matrix::full(p, p, 0.0);
    for k in 0..p {
        for l in 0..k {
            let known: f64 = (0..l).map(|m| lower[(k, m)] * pivots[m] * lower[(l, m)]).sum();
            lower[(k, l)] = if pivots[l] > 0.0 { (matrix[(k, l)] - known) / pivots[l] } else { 0.0 };
        }
        let known: f64 = (0..k).map(|m| lower[(k, m)] * lower[(k, m)] * pivots[m]).sum();
        let left = matrix[(k, k)] - known;
        pivots[k] = if left > DEPENDENT * matrix[(k, k)] { left } else { 0.0 };
        for l in 0..k {
            back[(k, l)] = -(l..k).map(|m| lower[(k, m)] * back[(m, l)]).sum::<f64>();
        }
        back[(k, k)] = 1.0;
    }
    Matrix::from_fn(p, p, |a, b| {
        (a.max(b)..p).filter(|&m| pivots[m] > 0.0).map(|m| back[(m, a)] * back[(m, b)] / pivots[m]).sum()
    })
}
