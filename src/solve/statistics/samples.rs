//! The samples of an environment, and how sums over their pairs become its statistics.

use super::Statistics;
use crate::Matrix;
use crate::data::Dataset;
use crate::engine::pair_sums::PairSums;
use crate::kernel::{Kernel, Profile, tilt};
use crate::numeric::matmul::product_sequential;
use crate::objective::Estimator;
use crate::solve::Design;
use faer::Accum;
use rayon::prelude::*;

/// The samples of an environment, and what a tilted kernel makes of them.
pub(super) struct Samples {
    /// n × d.
    pub(super) x: Matrix<f64>,
    /// x − mean, which differences are taken of: far from the origin x itself would cancel.
    pub(super) centred: Matrix<f64>,
    pub(super) mean: Vec<f64>,
    pub(super) omega: Vec<f64>,
    /// 1 / (1 + |x|²); 0 without a tilt.
    tau: Vec<f64>,
    /// The drift's functions but the constant, if they are others than x: n × (p − 1).
    pub(super) functions: Option<Matrix<f64>>,
    /// The noise's functions g, if they are others than 1: n × d·m.
    pub(super) graded: Option<Matrix<f64>>,
}

/// Over all columns y of a row x, each weighted by ω(x) ω(y).
pub(super) struct RowSums {
    /// Σ κ, κ = φ + c (1 + ⟨x, y⟩).
    pub ones: Vec<f64>,
    /// Σ κ (y − mean), n × d.
    pub centred: Matrix<f64>,
    /// Σ κ τ(y) y, n × d; nothing without a tilt.
    pub tilted: Option<Matrix<f64>>,
    /// Σ −½ φ' (x − y).
    pub z: Matrix<f64>,
    /// Σ −½ φ'' (x − y).
    pub m: Matrix<f64>,
    /// Σ −½ φ' over all rows.
    pub z_total: f64,
    /// Σ κ f(y), if there are other functions than x.
    pub functions: Option<Matrix<f64>>,
    /// If the noise depends on the state.
    pub graded: Option<GradedSums>,
}

/// Sums with the noise's functions g, each n × d·m.
pub(super) struct GradedSums {
    /// Σ κ τ(y) g(y) y; nothing without a tilt.
    pub tilted: Option<Matrix<f64>>,
    /// Σ −½ φ' times g, g (y − mean) and g (y − mean)².
    pub z: [Matrix<f64>; 3],
    /// Σ −½ φ'' times the same.
    pub m: [Matrix<f64>; 3],
}

impl Samples {
    /// Of every environment.
    pub(super) fn all(data: &Dataset, design: &Design, kernel: Kernel) -> Vec<Self> {
        (0..data.environments()).into_par_iter().map(|e| Samples::of(data, e, design, kernel)).collect()
    }

    pub(super) fn of(data: &Dataset, e: usize, design: &Design, kernel: Kernel) -> Self {
        let tilted = kernel.kind().traits().tilted;
        let (x, d) = (data.environment(e), data.dim());
        let mean = data.means(e);
        let centred = Matrix::from_fn(x.rows(), d, |i, j| x[(i, j)] - mean[j]);
        let square = |i: usize| x.row(i).iter().map(|v| v * v).sum::<f64>();
        let omega = (0..x.rows()).map(|i| if tilted { tilt(square(i)) } else { 1.0 }).collect();
        let tau = (0..x.rows()).map(|i| if tilted { 1.0 / (1.0 + square(i)) } else { 0.0 }).collect();
        let (functions, graded) = (design.functions(&x), design.diffusion(&x));
        Samples { x, centred, mean, omega, tau, functions, graded }
    }

    /// What a further sum over columns takes: n × columns each.
    pub(super) fn graded_columns(&self, g: &Matrix<f64>) -> [Matrix<f64>; 4] {
        let m = g.cols() / self.x.cols();
        let of = |value: &dyn Fn(usize, usize) -> f64| {
            Matrix::from_fn(g.rows(), g.cols(), |i, at| g[(i, at)] * value(i, at / m))
        };
        [
            g.clone(),
            of(&|i, j| self.centred[(i, j)]),
            of(&|i, j| self.centred[(i, j)].powi(2)),
            of(&|i, j| self.tau[i] * self.x[(i, j)]),
        ]
    }

    /// Takes the sums of further columns apart: those weighted by κ, and those by −½φ' and −½φ'' (none for a Gaussian
    /// kernel, whose derivatives are multiples of itself).
    pub(super) fn further_sums(
        &self,
        value: Matrix<f64>,
        radial: Option<(Matrix<f64>, Matrix<f64>)>,
        decay: f64,
    ) -> (Option<Matrix<f64>>, Option<GradedSums>) {
        // Functions, then g τ y if there is a tilt, then g and its products unless these are radial.
        let first = self.functions.as_ref().map_or(0, Matrix::cols);
        let functions = self.functions.as_ref().map(|_| columns_of(&value, 0, first));
        let graded = self.graded.as_ref().map(|g| {
            let width = g.cols();
            let tilted = self.is_tilted().then(|| columns_of(&value, first, width));
            let from = first + if tilted.is_some() { width } else { 0 };
            let three = |all: &Matrix<f64>, first: usize, factor: f64| {
                [0, 1, 2].map(|k| columns_of(all, first + k * width, width).map(|v| factor * v))
            };
            let (z, m) = match &radial {
                Some((z, m)) => (three(z, 0, 1.0), three(m, 0, 1.0)),
                None => (three(&value, from, 0.5 * decay), three(&value, from, -0.5 * decay * decay)),
            };
            GradedSums { tilted, z, m }
        });
        (functions, graded)
    }

    pub(super) fn is_tilted(&self) -> bool {
        self.tau.first().is_some_and(|tau| *tau > 0.0)
    }

    /// τ x.
    pub(super) fn tilted(&self) -> Matrix<f64> {
        Matrix::from_fn(self.x.rows(), self.x.cols(), |i, j| self.tau[i] * self.x[(i, j)])
    }

    /// What a GPU has summed, in the form that [`finish`](Self::finish) takes.
    pub(super) fn row_sums<P: Profile<f64>>(&self, profile: P, sums: PairSums) -> RowSums {
        let (n, d, eta) = (self.x.rows(), self.x.cols(), profile.decay());
        let PairSums { value, directions, z_total, radial } = sums;
        let ones: Vec<f64> = (0..n).map(|i| value[(i, 0)]).collect();
        let (centred, z, m) = match &directions[..] {
            // Every derivative of a Gaussian is a multiple of itself.
            [direction] => (
                Matrix::from_fn(n, d, |i, j| ones[i] * self.centred[(i, j)] - direction[(i, j)]),
                direction.map(|r| 0.5 * eta * r),
                direction.map(|r| -0.5 * eta * eta * r),
            ),
            [z, m] => (columns_of(&value, 1, d), z.clone(), m.clone()),
            other => unreachable!("a kernel has one or two directions, not {}", other.len()),
        };
        let at = 1 + if P::GAUSSIAN { 0 } else { d };
        let tilted = P::TILTED.then(|| columns_of(&value, at, d));
        let known = at + if P::TILTED { d } else { 0 };
        let further = columns_of(&value, known, value.cols() - known);
        let (functions, graded) = self.further_sums(further, radial, eta);
        RowSums { ones, centred, tilted, z, m, z_total, functions, graded }
    }

    /// From sums over columns to the statistics.
    ///
    /// With ∇ᵧk = ωω' (−τ' y κ − φ' (x − y) + c x) the parts of D are products of the sums with the samples; E likewise,
    /// where for noise that is the same everywhere a sum over pairs of w (x_i − y_i)² is twice that of x_i times
    /// w (x_i − y_i).
    pub(super) fn finish(&self, sums: &RowSums, linear: bool, estimator: Estimator) -> Statistics {
        let n = self.x.rows();
        let pairs = estimator.pairs(n) as f64;
        let functions = self.functions.as_ref().unwrap_or(&self.x);
        let last = functions.cols();
        let z = Matrix::from_fn(n, last + 1, |i, p| if p < last { functions[(i, p)] } else { 1.0 });
        let kz = Matrix::from_fn(n, last + 1, |i, p| match (p < last, &sums.functions) {
            (true, Some(sums)) => sums[(i, p)],
            (true, None) => sums.centred[(i, p)] + sums.ones[i] * self.mean[p],
            (false, _) => sums.ones[i],
        });
        let drift = transposed_product(&z, &kz);
        let drift = Matrix::from_fn(last + 1, last + 1, |i, j| 0.5 * (drift[(i, j)] + drift[(j, i)]) / pairs);
        let (mut cross, mut noise) = match (&self.graded, &sums.graded) {
            (Some(g), Some(graded)) => {
                self.finish_graded(g, graded, self.reach(linear, estimator, Some(g)), &z, &kz)
            }
            _ => self.finish_constant(sums, self.reach(linear, estimator, None), &z, &kz),
        };
        cross.as_mut_slice().iter_mut().for_each(|entry| *entry *= 0.5 / pairs);
        noise.as_mut_slice().iter_mut().for_each(|entry| *entry *= 0.25 / pairs);
        Statistics { drift, cross, noise }
    }

    /// Weights of the linear part: ω(x) Σ_y ω(y) g(y), n × columns of g; g is 1 if there is none.
    fn reach(&self, linear: bool, estimator: Estimator, g: Option<&Matrix<f64>>) -> Matrix<f64> {
        let (n, width) = (self.x.rows(), g.map_or(1, Matrix::cols));
        let value = |i: usize, at: usize| g.map_or(1.0, |g| g[(i, at)]) * self.omega[i];
        let all: Vec<f64> = (0..width).map(|at| (0..n).map(|i| value(i, at)).sum()).collect();
        let distinct = estimator == Estimator::U;
        Matrix::from_fn(n, width, |i, at| match linear {
            true => self.omega[i] * (all[at] - if distinct { value(i, at) } else { 0.0 }),
            false => 0.0,
        })
    }

    /// D and E of noise that is the same everywhere, but for factors.
    fn finish_constant(
        &self,
        sums: &RowSums,
        reach: Matrix<f64>,
        z: &Matrix<f64>,
        kz: &Matrix<f64>,
    ) -> (Matrix<f64>, Matrix<f64>) {
        let (n, d) = (self.x.rows(), self.x.cols());
        let right = Matrix::from_fn(n, d, |i, j| 2.0 * sums.z[(i, j)] + reach[(i, 0)] * self.x[(i, j)]);
        let mut cross = transposed_product(z, &right);
        let tilted = self.tilted();
        if self.is_tilted() {
            subtract(&mut cross, &transposed_product(kz, &tilted));
        }
        let alike = 2.0 * sums.z_total + reach.as_slice().iter().sum::<f64>();
        let mut noise = Matrix::full(d, 1, alike);
        for i in 0..n {
            for j in 0..d {
                noise[(j, 0)] += 4.0 * self.centred[(i, j)] * sums.m[(i, j)];
                if let Some(kt) = &sums.tilted {
                    let (t, x) = (tilted[(i, j)], self.x[(i, j)]);
                    noise[(j, 0)] += t * (kt[(i, j)] - 4.0 * sums.z[(i, j)] - 2.0 * reach[(i, 0)] * x);
                }
            }
        }
        (cross, noise)
    }

    /// D and E of noise that depends on the state, but for factors.
    fn finish_graded(
        &self,
        g: &Matrix<f64>,
        sums: &GradedSums,
        reach: Matrix<f64>,
        z: &Matrix<f64>,
        kz: &Matrix<f64>,
    ) -> (Matrix<f64>, Matrix<f64>) {
        let (n, d) = (self.x.rows(), self.x.cols());
        let m = g.cols() / d;
        // Σ g(y) (−φ' (x − y) + c x).
        let right = Matrix::from_fn(n, d * m, |i, at| {
            let (x, centred) = (self.x[(i, at / m)], self.centred[(i, at / m)]);
            2.0 * (centred * sums.z[0][(i, at)] - sums.z[1][(i, at)]) + x * reach[(i, at)]
        });
        let mut cross = transposed_product(z, &right);
        let tilt = Matrix::from_fn(n, d * m, |i, at| g[(i, at)] * self.tau[i] * self.x[(i, at / m)]);
        if self.is_tilted() {
            subtract(&mut cross, &transposed_product(kz, &tilt));
        }
        let mut noise = Matrix::full(d, m * m, 0.0);
        for i in 0..n {
            for j in 0..d {
                let x = self.centred[(i, j)];
                for (k, l) in (0..m).flat_map(|k| (0..m).map(move |l| (k, l))) {
                    let (at, other) = (j * m + k, j * m + l);
                    let square = x * x * sums.m[0][(i, other)] - 2.0 * x * sums.m[1][(i, other)]
                        + sums.m[2][(i, other)];
                    let plain = 2.0 * square + 2.0 * sums.z[0][(i, other)] + reach[(i, other)];
                    let mut value = g[(i, at)] * plain;
                    if let Some(kt) = &sums.tilted {
                        value += tilt[(i, at)] * kt[(i, other)];
                        // One of these is for x and one for y.
                        value -= tilt[(i, at)] * right[(i, other)] + tilt[(i, other)] * right[(i, at)];
                    }
                    noise[(j, k * m + l)] += value;
                }
            }
        }
        let noise =
            Matrix::from_fn(d, m * m, |j, at| 0.5 * (noise[(j, at)] + noise[(j, at % m * m + at / m)]));
        (cross, noise)
    }
}

/// aᵀ b.
fn transposed_product(a: &Matrix<f64>, b: &Matrix<f64>) -> Matrix<f64> {
    let mut product = Matrix::full(a.cols(), b.cols(), 0.0);
    product_sequential(product.view_mut(), Accum::Replace, a.view().transpose(), b.view());
    product
}

fn subtract(from: &mut Matrix<f64>, what: &Matrix<f64>) {
    from.as_mut_slice().iter_mut().zip(what.as_slice()).for_each(|(from, what)| *from -= what);
}

pub(super) fn columns_of(all: &Matrix<f64>, first: usize, width: usize) -> Matrix<f64> {
    Matrix::from_fn(all.rows(), width, |i, j| all[(i, first + j)])
}

/// Matrices side by side.
pub(super) fn beside(n: usize, parts: &[&Matrix<f64>]) -> Matrix<f64> {
    let width = parts.iter().map(|part| part.cols()).sum();
    let mut rows = Vec::with_capacity(n * width);
    for i in 0..n {
        parts.iter().for_each(|part| rows.extend_from_slice(part.row(i)));
    }
    Matrix::from_rows(n, width, rows)
}
