//! The minimum of ‖T b − t‖² + λ Σ |b_k|, to rounding.
//!
//! Coordinate descent finds out which effects are not 0. On the face where their signs stay as they are the function is
//! quadratic, and a linear solve finds its minimum. If some effect would change its sign on the way there, it stops at 0.
//! Either step lowers the function, so the two together end at the minimum, also where coordinate descent alone is slow.

use super::equations::dot;
use crate::{Matrix, Progress, Result};

/// Violation of the conditions of a minimum that counts as rounding, relative to the largest slope at b = 0.
const ROUNDING: f64 = 1e-13;
/// A column that is a combination of others but for this share of its square counts as one.
const SINGULAR: f64 = 1e-12;
/// Sweeps of coordinate descent between two solves.
const SWEEPS: usize = 10;
/// The most solves. Systems whose columns depend on each other have no unique minimum and may go on to the end.
const ROUNDS: usize = 2000;

/// The minimum, from b = 0.
pub(super) fn minimum(
    coefficients: &Matrix<f64>,
    values: &[f64],
    lambda: f64,
    progress: &Progress,
) -> Result<Vec<f64>> {
    let mut problem = Lasso::new(coefficients, values, lambda);
    let least = ROUNDING * problem.right.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
    for _ in 0..ROUNDS {
        progress.check()?;
        (0..SWEEPS).for_each(|_| problem.sweep());
        problem.solve_face();
        if problem.violation() <= least {
            break;
        }
    }
    Ok(problem.effects)
}

/// The quadratic part of the function on the effects that are not 0.
enum Face {
    /// L with G_FF = L Lᵀ, in the lower triangle.
    Curved(Matrix<f64>),
    /// A way along which it is constant.
    Flat(Vec<f64>),
}

impl Face {
    fn of(gram: &Matrix<f64>, free: &[usize]) -> Face {
        let p = free.len();
        let mut factor = Matrix::full(p, p, 0.0);
        for a in 0..p {
            for b in 0..=a {
                let known = dot(&factor.row(a)[..b], &factor.row(b)[..b]);
                let left = gram[(free[a], free[b])] - known;
                if b < a {
                    factor[(a, b)] = left / factor[(b, b)];
                } else if left > SINGULAR * gram[(free[a], free[a])] {
                    factor[(a, a)] = left.sqrt();
                } else {
                    // Column a is a combination of those before it.
                    let before = Matrix::from_fn(a, a, |i, j| factor[(i, j)]);
                    let column = (0..a).map(|i| gram[(free[i], free[a])]).collect();
                    let mut way = solve(&before, column);
                    way.push(-1.0);
                    way.resize(p, 0.0);
                    return Face::Flat(way);
                }
            }
        }
        Face::Curved(factor)
    }
}

/// (L Lᵀ)⁻¹ times a vector.
fn solve(factor: &Matrix<f64>, mut vector: Vec<f64>) -> Vec<f64> {
    let p = vector.len();
    for a in 0..p {
        vector[a] = (vector[a] - dot(&factor.row(a)[..a], &vector[..a])) / factor[(a, a)];
    }
    for a in (0..p).rev() {
        let later: f64 = (a + 1..p).map(|b| factor[(b, a)] * vector[b]).sum();
        vector[a] = (vector[a] - later) / factor[(a, a)];
    }
    vector
}

/// bᵀ G b − 2 cᵀ b + λ Σ |b_k| with G = TᵀT and c = Tᵀt.
struct Lasso {
    gram: Matrix<f64>,
    right: Vec<f64>,
    /// λ/2.
    half: f64,
    effects: Vec<f64>,
}

impl Lasso {
    fn new(coefficients: &Matrix<f64>, values: &[f64], lambda: f64) -> Self {
        let p = coefficients.cols();
        let column = |k: usize| (0..coefficients.rows()).map(move |i| coefficients[(i, k)]);
        let product = |k: usize, l: usize| column(k).zip(column(l)).map(|(a, b)| a * b).sum::<f64>();
        let mut gram = Matrix::full(p, p, 0.0);
        for k in 0..p {
            for l in 0..=k {
                gram[(k, l)] = product(k, l);
                gram[(l, k)] = gram[(k, l)];
            }
        }
        let right = (0..p).map(|k| column(k).zip(values).map(|(a, b)| a * b).sum()).collect();
        Lasso { gram, right, half: 0.5 * lambda, effects: vec![0.0; p] }
    }

    /// c_k − Σ_l G_kl b_l: minus half the slope of the squares.
    fn pull(&self, k: usize) -> f64 {
        self.right[k] - dot(self.gram.row(k), &self.effects)
    }

    /// Minimises over each effect in turn.
    fn sweep(&mut self) {
        for k in 0..self.effects.len() {
            let curvature = self.gram[(k, k)];
            if curvature > 0.0 {
                let pull = self.pull(k) + curvature * self.effects[k];
                self.effects[k] = pull.signum() * (pull.abs() - self.half).max(0.0) / curvature;
            }
        }
    }

    /// Minimises over the effects that are not 0, up to where one of them becomes 0, until none does.
    fn solve_face(&mut self) {
        loop {
            let free: Vec<usize> = (0..self.effects.len()).filter(|&k| self.effects[k] != 0.0).collect();
            let before: Vec<f64> = free.iter().map(|&k| self.effects[k]).collect();
            let (way, longest) = match Face::of(&self.gram, &free) {
                Face::Curved(factor) => (self.way_to_minimum(&factor, &free), 1.0),
                Face::Flat(mut way) => {
                    // The squares are constant along this way, and the penalty falls in one of its directions.
                    let growth: f64 = way.iter().zip(&before).map(|(step, from)| step * from.signum()).sum();
                    if growth > 0.0 {
                        way.iter_mut().for_each(|step| *step = -*step);
                    }
                    (way, f64::INFINITY)
                }
            };
            // The share of the way after which a sign would change.
            let crossing =
                |at: usize| if before[at] * way[at] < 0.0 { -before[at] / way[at] } else { longest };
            let share = (0..free.len()).map(crossing).fold(longest, f64::min);
            if !share.is_finite() || !way.iter().all(|step| step.is_finite()) {
                return;
            }
            let value = self.value();
            for (at, &k) in free.iter().enumerate() {
                let stops = share < longest && crossing(at) <= share;
                self.effects[k] = if stops { 0.0 } else { before[at] + share * way[at] };
            }
            // Where the way is wrong because the system is nearly singular, coordinate descent goes on alone.
            if self.value() > value + ROUNDING * (value.abs() + self.half) {
                free.iter().zip(before).for_each(|(&k, effect)| self.effects[k] = effect);
                return;
            }
            if share == longest {
                return;
            }
        }
    }

    /// The way from b_F to the solution of G_FF b_F = c_F − (λ/2) signs.
    fn way_to_minimum(&self, factor: &Matrix<f64>, free: &[usize]) -> Vec<f64> {
        let signed = |&k: &usize| self.pull(k) - self.half * self.effects[k].signum();
        solve(factor, free.iter().map(signed).collect())
    }

    fn value(&self) -> f64 {
        (0..self.effects.len())
            .map(|k| {
                let b = self.effects[k];
                2.0 * self.half * b.abs() - b * (self.right[k] + self.pull(k))
            })
            .sum()
    }

    /// How far half the slopes are from those at a minimum.
    fn violation(&self) -> f64 {
        let missed = |k: usize| match self.effects[k] {
            0.0 => (self.pull(k).abs() - self.half).max(0.0),
            effect => (self.pull(k) - self.half * effect.signum()).abs(),
        };
        (0..self.effects.len()).map(missed).fold(0.0, f64::max)
    }
}
