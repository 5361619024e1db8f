//! ½ wᵀQw − cᵀw + λ ‖w‖₁ for a whole path of λ: the minimiser is piecewise linear in λ. The solver follows it from one corner to
//! the next (the homotopy of Osborne, Presnell and Turlach), and every point is exact.
//!
//! On the active set A with signs s the minimiser is w_A = Q_AA⁻¹ (c_A − λ s_A); going down in λ, the next corner is where
//! a slope outside A reaches ±λ, or an entry of A reaches 0.

use crate::numeric::dense::Cholesky;
use crate::{Error, Matrix, Result};
use faer::Mat;

/// Corners with a smaller relative distance are the same.
const SAME: f64 = 1e-12;

/// Minimisers at `lambdas`, which must descend.
pub(super) fn path(q: &Matrix<f64>, c: &[f64], lambdas: &[f64]) -> Result<Vec<Vec<f64>>> {
    let d = c.len();
    let mut found: Vec<Vec<f64>> = Vec::with_capacity(lambdas.len());
    let mut corner = Corner { q, c, active: Vec::new(), signs: Vec::new(), lambda: f64::INFINITY };
    let mut dropped = None;
    // Every corner changes the active set by one. In practice there are a few times as many corners as variables.
    for _ in 0..50 * (d + 1) {
        let line = corner.line()?;
        let (next, event) = corner.next(&line, dropped);
        while found.len() < lambdas.len() && lambdas[found.len()] >= next {
            found.push(corner.at(&line, lambdas[found.len()]));
        }
        if found.len() == lambdas.len() {
            return Ok(found);
        }
        corner.lambda = next;
        dropped = None;
        match event {
            Event::Join(i, sign) => {
                corner.active.push(i);
                corner.signs.push(sign);
            }
            Event::Drop(at) => {
                dropped = Some(corner.active.remove(at));
                corner.signs.remove(at);
            }
            Event::End => unreachable!("the path ends below every λ"),
        }
    }
    Err(Error::NonFinite(format!("the penalty path of {d} effects does not reach its end")))
}

/// The amount by which `w` misses the optimality conditions, relative to the largest entry of c: the slope must be within ±λ, and
/// equal λ times the sign at every nonzero entry. Slopes are weighted by `multipliers`.
pub(super) fn violation(q: &Matrix<f64>, c: &[f64], multipliers: &[f64], lambda: f64, w: &[f64]) -> f64 {
    let scale = c.iter().zip(multipliers).fold(f64::MIN_POSITIVE, |m, (c, by)| m.max(by * c.abs()));
    let miss = |i: usize| {
        let rest = c[i] - q.row(i).iter().zip(w).map(|(q, w)| q * w).sum::<f64>();
        multipliers[i]
            * if w[i] == 0.0 { (rest.abs() - lambda).max(0.0) } else { (rest - lambda * w[i].signum()).abs() }
    };
    (0..c.len()).map(miss).fold(0.0, f64::max) / scale
}

struct Corner<'a> {
    q: &'a Matrix<f64>,
    c: &'a [f64],
    active: Vec<usize>,
    signs: Vec<f64>,
    lambda: f64,
}

/// w_A = p − λ q on the active set, and the slope a + λ g everywhere.
struct Segment {
    p: Vec<f64>,
    q: Vec<f64>,
    a: Vec<f64>,
    g: Vec<f64>,
}

enum Event {
    /// A variable enters with a sign.
    Join(usize, f64),
    /// The entry at this place of the active set leaves.
    Drop(usize),
    /// Nothing happens above λ = 0.
    End,
}

impl Corner<'_> {
    fn line(&self) -> Result<Segment> {
        let k = self.active.len();
        let mut right =
            Mat::from_fn(k, 2, |a, col| if col == 0 { self.c[self.active[a]] } else { self.signs[a] });
        if k > 0 {
            let block = Mat::from_fn(k, k, |a, b| self.q[(self.active[a], self.active[b])]);
            let factor = Cholesky::of(block.as_ref()).ok_or_else(|| {
                Error::NonFinite(
                    "the data does not determine the effects: check whether two variables are equal".into(),
                )
            })?;
            factor.solve_in_place(right.as_mut());
        }
        let p: Vec<f64> = (0..k).map(|a| right[(a, 0)]).collect();
        let q: Vec<f64> = (0..k).map(|a| right[(a, 1)]).collect();
        let along =
            |i: usize, v: &[f64]| self.active.iter().zip(v).map(|(&a, v)| self.q[(i, a)] * v).sum::<f64>();
        let a = (0..self.c.len()).map(|i| self.c[i] - along(i, &p)).collect();
        let g = (0..self.c.len()).map(|i| along(i, &q)).collect();
        Ok(Segment { p, q, a, g })
    }

    /// The next corner below the present one.
    fn next(&self, line: &Segment, dropped: Option<usize>) -> (f64, Event) {
        let mut best = (0.0, Event::End);
        let mut consider = |lambda: f64, event: Event| {
            let lambda = lambda.min(self.lambda);
            if lambda > best.0 {
                best = (lambda, event);
            }
        };
        let mut outside = vec![true; self.c.len()];
        self.active.iter().for_each(|&i| outside[i] = false);
        for i in (0..self.c.len()).filter(|&i| outside[i]) {
            for sign in [1.0, -1.0] {
                let steepness = 1.0 - sign * line.g[i];
                let lambda = sign * line.a[i] / steepness;
                // The variable that has just left is still at ±λ, and moves inwards.
                let stays = dropped == Some(i) && lambda >= self.lambda * (1.0 - SAME);
                if steepness > 0.0 && lambda > 0.0 && !stays {
                    consider(lambda, Event::Join(i, sign));
                }
            }
        }
        for at in 0..self.active.len() {
            let lambda = line.p[at] / line.q[at];
            // Towards 0 as λ falls.
            if self.signs[at] * line.q[at] < 0.0 && lambda > 0.0 {
                consider(lambda, Event::Drop(at));
            }
        }
        best
    }

    fn at(&self, line: &Segment, lambda: f64) -> Vec<f64> {
        let mut w = vec![0.0; self.c.len()];
        for (at, &i) in self.active.iter().enumerate() {
            w[i] = line.p[at] - lambda * line.q[at];
        }
        w
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn random(d: usize, rank: usize, seed: u64) -> (Matrix<f64>, Vec<f64>) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let root = Matrix::from_fn(d, rank, |_, _| rng.random_range(-1.0..1.0f64));
        let q = Matrix::from_fn(d, d, |i, j| {
            (0..rank).map(|k| root[(i, k)] * root[(j, k)]).sum::<f64>() + if i == j { 1e-3 } else { 0.0 }
        });
        // Within the range of Q, as a minimum exists.
        let c = (0..d)
            .map(|i| q.row(i).iter().enumerate().map(|(j, q)| q * ((j % 3) as f64 - 0.7)).sum())
            .collect();
        (q, c)
    }

    #[test]
    fn every_point_of_the_path_is_a_minimum() {
        for seed in 0..20 {
            for d in [1, 2, 7, 30] {
                let (q, c) = random(d, d.div_ceil(2), seed);
                let largest = c.iter().fold(0.0f64, |m, c| m.max(c.abs()));
                let lambdas: Vec<f64> =
                    (0..30).map(|k| 1.2 * largest * 0.6f64.powi(k)).chain([0.0]).collect();
                let found = path(&q, &c, &lambdas).unwrap();
                for (lambda, w) in lambdas.iter().zip(&found) {
                    let violation = violation(&q, &c, &vec![1.0; d], *lambda, w);
                    assert!(violation < 1e-9, "seed {seed}, {d} variables, λ {lambda}: {violation}");
                }
                assert!(found[0].iter().all(|w| *w == 0.0));
                assert!(found.last().unwrap().iter().all(|w| *w != 0.0));
            }
        }
    }

    #[test]
    fn one_variable_is_soft_thresholded() {
        let (q, c) = (Matrix::full(1, 1, 2.0), vec![-3.0]);
        let found = path(&q, &c, &[4.0, 1.0, 0.0]).unwrap();
        for (w, expected) in found.iter().zip([0.0, -1.0, -1.5]) {
            assert!((w[0] - expected).abs() < 1e-14, "{w:?}");
        }
    }

    #[test]
    fn violations_see_what_is_no_minimum() {
        let (q, c) = random(6, 6, 1);
        let best = path(&q, &c, &[0.1]).unwrap().remove(0);
        assert!(violation(&q, &c, &[1.0; 6], 0.1, &best) < 1e-12);
        let mut off = best.clone();
        off[0] += 1e-4;
        assert!(violation(&q, &c, &[1.0; 6], 0.1, &off) > 1e-7);
        assert!(violation(&q, &c, &[1.0; 6], 0.2, &best) > 1e-3);
        // Two variables that are the same: one of them serves.
        let same = Matrix::full(2, 2, 1.0);
        let served = path(&same, &[1.0, 1.0], &[0.25]).unwrap().remove(0);
        assert!(violation(&same, &[1.0, 1.0], &[1.0; 2], 0.25, &served) < 1e-12);
    }
}
