//! Where a sequence of points leads: Anderson's extrapolation.
//!
//! Near a minimum a sweep over all rows is an affine map, and points that it maps onto each other tell of its fixed point: the
//! combination of them whose changes cancel out best.

use super::stack::dot;
use crate::Matrix;
use crate::dense::Cholesky;

/// Changes that are combined.
const CHANGES: usize = 5;
/// What is added to the squares of changes, relative to their mean: they are nearly the same.
const LEAST: f64 = 1e-12;

/// Points that follow each other.
#[derive(Default)]
pub(super) struct Sequence(Vec<Vec<f64>>);

impl Sequence {
    /// One more; where they lead once there are enough.
    pub fn push(&mut self, point: Vec<f64>) -> Option<Vec<f64>> {
        self.0.push(point);
        if self.0.len() <= CHANGES {
            return None;
        }
        let points = std::mem::take(&mut self.0);
        let changes: Vec<Vec<f64>> = points
            .windows(2)
            .map(|pair| pair[1].iter().zip(&pair[0]).map(|(new, old)| new - old).collect())
            .collect();
        let mut squares = Matrix::from_fn(CHANGES, CHANGES, |a, b| dot(&changes[a], &changes[b]));
        let mean = (0..CHANGES).map(|k| squares[(k, k)]).sum::<f64>() / CHANGES as f64;
        (0..CHANGES).for_each(|k| squares[(k, k)] += LEAST * mean);
        let mut shares = faer::Mat::full(CHANGES, 1, 1.0);
        Cholesky::of(squares.view())?.solve_in_place(shares.as_mut());
        let sum: f64 = (0..CHANGES).map(|k| shares[(k, 0)]).sum();
        let mut ahead = vec![0.0; points[0].len()];
        for (k, point) in points[1..].iter().enumerate() {
            let share = shares[(k, 0)] / sum;
            ahead.iter_mut().zip(point).for_each(|(ahead, value)| *ahead += share * value);
        }
        ahead.iter().all(|value| value.is_finite()).then_some(ahead)
    }
}
