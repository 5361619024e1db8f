//! Measures how convex the loss is on a sample: the paper's Example 10 and Proposition 11.
//!
//! For the linear model SKDS is θᵀ R̂ θ with one block per variable, θ_j = (row j of the weights, bias j, α_j):
//!
//! ```text
//! R̂_j = ( C    D_j )          C, D, E of [`Statistics`], over the pairs of the estimate
//!       ( D_jᵀ E_j )
//! ```
//!
//! The `v` estimate is a Gram matrix and always convex. `linear` and `u` are unbiased and need not be convex; adding ε |θ|² with
//! ε = −(smallest eigenvalue) makes them so. The paper bounds ε for the `linear` estimate. Its statement has the norm where its
//! proof, by Weyl's inequality, has the square.

use super::Design;
use super::statistics::Statistics;
use crate::data::Dataset;
use crate::kernel::{Kernel, Profile, tilt, with_profile};
use crate::numeric::dense::symmetric_eigenvalues;
use crate::objective::Estimator;
use crate::{Matrix, Progress, Result};
use rayon::prelude::*;
use serde::Serialize;

/// The most rows whose pairs estimate the kernel's bounds.
const BOUND_ROWS: usize = 500;

/// The eigenvalues of R̂ for an estimate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Spectrum {
    /// Which pairs.
    pub estimator: &'static str,
    /// Rows of the sample.
    pub rows: usize,
    /// The smallest eigenvalue over all variables' blocks.
    pub smallest: f64,
    /// The largest.
    pub largest: f64,
    /// ε such that the estimate plus ε|θ|² is convex.
    pub epsilon: f64,
}

/// Proposition 11 for the `linear` estimate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct ConvexityBound {
    /// The largest feature, or 1: what bounds them on this sample.
    pub features: f64,
    /// The largest kernel value or derivative between samples.
    pub kernel: f64,
    /// The probability that ε is at most `epsilon`.
    pub confidence: f64,
    /// The ε that the proposition gives.
    pub epsilon: f64,
}

/// The spectra of the three estimates on the first `rows` samples of an environment.
pub(crate) fn spectra(
    samples: &Matrix<f64>,
    rows: usize,
    design: &Design,
    kernel: Kernel,
) -> Result<Vec<Spectrum>> {
    let d = samples.cols();
    let part = Matrix::from_rows(rows, d, samples.rows_slice(0..rows).to_vec());
    let all = Dataset::from_environments(vec![part.clone()])?;
    Estimator::ALL
        .iter()
        .map(|&estimator| {
            let statistics = match estimator {
                Estimator::Linear => with_profile!(kernel, f64, |profile| neighbours(profile, &part, design)),
                estimator => Statistics::of(&all, design, kernel, estimator, &Progress::default())?.remove(0),
            };
            let (smallest, largest) = extremes(&statistics)?;
            Ok(Spectrum {
                estimator: estimator.name(),
                rows,
                smallest,
                largest,
                epsilon: (-smallest).max(0.0),
            })
        })
        .collect()
}

/// The smallest and the largest eigenvalue over all blocks.
fn extremes(statistics: &Statistics) -> Result<(f64, f64)> {
    let d = statistics.noise.rows();
    let size = statistics.drift.rows() + statistics.cross.cols() / d;
    let ends: Vec<(f64, f64)> = (0..d)
        .into_par_iter()
        .map(|j| {
            let block = Matrix::from_fn(size, size, |a, b| statistics.entry(j, a, b));
            let values = symmetric_eigenvalues(block.view())?;
            Ok((values[0], values[values.len() - 1]))
        })
        .collect::<Result<_>>()?;
    Ok(ends
        .into_iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (a, b)| (low.min(a), high.max(b))))
}

/// A kernel's value and derivatives at a pair: k, ∇ₓk, ∇ᵧk and the diagonal of ∇ₓ∇ᵧk.
struct Pair {
    value: f64,
    by_x: Vec<f64>,
    by_y: Vec<f64>,
    mixed: Vec<f64>,
}

fn pair<P: Profile<f64>>(profile: P, x: &[f64], y: &[f64]) -> Pair {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let rho = 0.5 * x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)).sum::<f64>();
    let phi = profile.derivatives(rho);
    let c = if P::LINEAR { 1.0 } else { 0.0 };
    let kappa = phi[0] + c * (1.0 + dot(x, y));
    let (s, t) = (dot(x, x), dot(y, y));
    let weight = if P::TILTED { tilt(s) * tilt(t) } else { 1.0 };
    let (tau_x, tau_y) = if P::TILTED { (1.0 / (1.0 + s), 1.0 / (1.0 + t)) } else { (0.0, 0.0) };
    let mut found = Pair { value: weight * kappa, by_x: vec![], by_y: vec![], mixed: vec![] };
    for (x, y) in x.iter().zip(y) {
        let r = x - y;
        let (kappa_x, kappa_y) = (phi[1] * r + c * y, -phi[1] * r + c * x);
        let kappa_xy = -phi[1] - phi[2] * r * r + c;
        found.by_x.push(weight * (kappa_x - tau_x * x * kappa));
        found.by_y.push(weight * (kappa_y - tau_y * y * kappa));
        let tilts = tau_x * tau_y * x * y * kappa - tau_x * x * kappa_y - tau_y * y * kappa_x;
        found.mixed.push(weight * (tilts + kappa_xy));
    }
    found
}

/// The statistics over neighbouring rows.
fn neighbours<P: Profile<f64>>(profile: P, x: &Matrix<f64>, design: &Design) -> Statistics {
    let count = x.rows() / 2;
    sum_of_pairs(profile, x, design, (0..count).map(|n| (2 * n, 2 * n + 1)), count)
}

/// The mean over some pairs of rows, both orders of each, one pair at a time.
pub(super) fn sum_of_pairs<P: Profile<f64>>(
    profile: P,
    x: &Matrix<f64>,
    design: &Design,
    pairs: impl Iterator<Item = (usize, usize)>,
    count: usize,
) -> Statistics {
    let (d, m, last) = (x.cols(), design.amounts(), design.features(x.cols()) - 1);
    let mut sum = Statistics::zeros(last + 1, d, m);
    let functions = design.functions(x);
    let functions = functions.as_ref().unwrap_or(x);
    let graded = design.diffusion(x);
    let z = |i: usize, a: usize| if a < last { functions[(i, a)] } else { 1.0 };
    let g = |i: usize, at: usize| graded.as_ref().map_or(1.0, |g| g[(i, at)]);
    for (i, j) in pairs {
        let Pair { value, by_x, by_y, mixed } = pair(profile, x.row(i), x.row(j));
        // Both orders of a pair, so that the form is symmetric.
        let half = 0.5 / count as f64;
        for a in 0..=last {
            for b in 0..=last {
                sum.drift[(a, b)] += half * value * (z(i, a) * z(j, b) + z(j, a) * z(i, b));
            }
            for b in 0..d * m {
                let parts = z(i, a) * g(j, b) * by_y[b / m] + z(j, a) * g(i, b) * by_x[b / m];
                sum.cross[(a, b)] += 0.5 * half * parts;
            }
        }
        for v in 0..d {
            for (k, l) in (0..m).flat_map(|k| (0..m).map(move |l| (k, l))) {
                let (a, b) = (v * m + k, v * m + l);
                let both = g(i, a) * g(j, b) + g(j, a) * g(i, b);
                sum.noise[(v, k * m + l)] += 0.25 * half * both * mixed[v];
            }
        }
    }
    sum
}

/// The bound of Proposition 11 for `rows` samples, with constants estimated from the samples.
pub(crate) fn convexity_bound(
    samples: &Matrix<f64>,
    rows: usize,
    design: &Design,
    kernel: Kernel,
    confidence: f64,
) -> ConvexityBound {
    let d = samples.cols();
    let part = Matrix::from_rows(rows, d, samples.rows_slice(0..rows).to_vec());
    let functions = design.functions(&part).unwrap_or_else(|| part.clone());
    let graded = design.diffusion(&part);
    let largest = |matrix: &Matrix<f64>| matrix.as_slice().iter().fold(1.0f64, |m, v| m.max(v.abs()));
    // The noise's functions are squares of those in the proposition.
    let features = largest(&functions).max(graded.as_ref().map_or(1.0, |g| largest(g).sqrt()));
    let kernel = with_profile!(kernel, f64, |profile| kernel_bound(profile, samples, rows));
    // d·l + m parameters, with l features and m noises.
    let parameters = (d * (design.features(d) + design.amounts())) as f64;
    let entry = (d * d) as f64 * features * features * kernel;
    let (l1, l2) = (parameters.powi(2) * entry, parameters.powi(3) * entry * entry);
    // 2 p exp(−½ n ε² / (L₂ + ⅔ L₁ ε)) = 1 − confidence, solved for ε.
    let n = (rows / 2) as f64;
    let log = (2.0 * parameters / (1.0 - confidence)).ln();
    let along = 2.0 / 3.0 * l1 * log;
    let epsilon = (along + (along * along + 2.0 * n * l2 * log).sqrt()) / n;
    ConvexityBound { features, kernel, confidence, epsilon }
}

fn kernel_bound<P: Profile<f64>>(profile: P, samples: &Matrix<f64>, rows: usize) -> f64 {
    let count = rows.min(BOUND_ROWS);
    (0..count)
        .into_par_iter()
        .map(|i| {
            let of = |j: usize| {
                let Pair { value, by_x, by_y, mixed } = pair(profile, samples.row(i), samples.row(j));
                by_x.iter().chain(&by_y).chain(&mixed).fold(value.abs(), |m, v| m.max(v.abs()))
            };
            (0..count).map(of).fold(0.0, f64::max)
        })
        .reduce(|| 0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::cpu::CpuEngine;
    use crate::engine::{Engine, LossSpec};
    use crate::kernel::KernelKind;
    use crate::model::{Drift, Noise, Parameters};
    use crate::objective::Objective;

    fn samples(n: usize, d: usize) -> Matrix<f64> {
        Matrix::from_fn(n, d, |i, j| ((i * 13 + j * 7 + i * j) as f64 * 0.61).sin() * 1.5 + 0.2 * j as f64)
    }

    #[test]
    fn neighbouring_pairs_give_the_engines_linear_estimate() {
        let (n, d) = (21, 3);
        let x = samples(n, d);
        let weights = Matrix::from_fn(d, d, |i, j| 0.3 * i as f64 - 0.5 * j as f64);
        let (biases, log_noise) = (vec![0.2, -0.4, 0.1], vec![-0.3, 0.1, 0.2]);
        for &kind in KernelKind::ALL {
            let kernel = kind.with_bandwidth(1.3).unwrap();
            let Statistics { drift, cross, noise } =
                with_profile!(kernel, f64, |profile| neighbours(profile, &x, &Design::Linear));
            let mut found = 0.0;
            for j in 0..d {
                let v: Vec<f64> = weights.row(j).iter().copied().chain([biases[j]]).collect();
                let alpha = (2.0f64 * log_noise[j]).exp();
                for a in 0..=d {
                    found += 2.0 * alpha * v[a] * cross[(a, j)];
                    found += v[a] * (0..=d).map(|b| drift[(a, b)] * v[b]).sum::<f64>();
                }
                found += alpha * alpha * noise[(j, 0)];
            }
            let parameters = Parameters {
                drift: Drift::linear(weights.clone()),
                biases: biases.clone(),
                noise: Noise::Diagonal { log_noise: log_noise.clone() },
                shift: None,
                log_scale: None,
            };
            let spec = LossSpec { objective: Objective::Skds, kernel, estimator: Estimator::Linear };
            let data = Dataset::from_environments(vec![x.clone()]).unwrap();
            let expected = CpuEngine.load(&data, &spec).unwrap().evaluate(&parameters, None).unwrap();
            assert!((found - expected).abs() < 1e-12 * (1.0 + expected.abs()), "{kind}: {found} {expected}");
        }
    }

    #[test]
    fn the_v_estimate_is_convex_and_epsilon_makes_the_others_so() {
        let x = samples(60, 4);
        for &kind in KernelKind::ALL {
            let kernel = kind.with_bandwidth(2.0).unwrap();
            let found = spectra(&x, 60, &Design::Linear, kernel).unwrap();
            let of = |name: &str| found.iter().find(|s| s.estimator == name).unwrap();
            assert!(of("v").smallest > -1e-12 * of("v").largest, "{:?}", of("v"));
            // Few pairs: the unbiased estimates are not.
            assert!(of("linear").epsilon > 0.0 && of("linear").epsilon > of("u").epsilon, "{found:?}");
            assert_eq!(of("linear").epsilon, -of("linear").smallest);
            let bound = convexity_bound(&x, 60, &Design::Linear, kernel, 0.95);
            assert!(bound.epsilon > of("linear").epsilon, "{bound:?} {found:?}");
        }
    }

    #[test]
    fn the_bound_falls_with_the_root_of_n() {
        let x = samples(4000, 2);
        let kernel = Kernel::Rbf { bandwidth: 1.0 };
        let (few, many) = (
            convexity_bound(&x, 1000, &Design::Linear, kernel, 0.9),
            convexity_bound(&x, 4000, &Design::Linear, kernel, 0.9),
        );
        assert!(few.epsilon / many.epsilon > 1.8 && few.epsilon / many.epsilon < 4.2);
    }
}
