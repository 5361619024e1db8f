//! The paper's Figure 1, its Example 6: SKDS as a function of two parameters in one dimension.
//!
//! Samples of N(1, ½) and the family dX = −4(X − α) dt + σ dB, whose stationary law is N(α, σ²/8). Only α = 1, σ = 2 fits the
//! samples, and there the gradient of SKDS vanishes.

use crate::data::Dataset;
use crate::engine::cpu::CpuEngine;
use crate::engine::{Engine, Loss, LossSpec};
use crate::kernel::Kernel;
use crate::model::{Drift, Noise, Parameters};
use crate::objective::{Estimator, Objective};
use crate::plot::{Colour, Line, Panel, Point, Scale};
use crate::{Error, Matrix, Result};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::Serialize;

/// The paper's sample size and bandwidth.
const SAMPLES: usize = 5000;
const BANDWIDTH: f64 = 0.5;
/// (α, σ) of the truth and of the figure's two alternatives.
const TRUTH: (f64, f64) = (1.0, 2.0);
const RED: (f64, f64) = (0.25, 2.0);
const BLUE: (f64, f64) = (1.0, 1.0);

/// SKDS over a grid of α and σ, and its derivatives.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure1 {
    form: QuadraticForm,
    alphas: Vec<f64>,
    sigmas: Vec<f64>,
    values: Matrix<f64>,
}

/// The figure's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure1Numbers {
    /// α and σ of the smallest SKDS on the grid.
    pub best: (f64, f64),
    /// SKDS there.
    pub smallest: f64,
    /// SKDS at the truth, α = 1 and σ = 2.
    pub at_truth: f64,
    /// Its derivatives by α and σ at the truth.
    pub gradient_at_truth: [f64; 2],
    /// The derivative by α at α = ¼, σ = 2.
    pub by_alpha_at_red: f64,
    /// The derivative by σ at α = 1, σ = 1.
    pub by_sigma_at_blue: f64,
}

/// SKDS of the linear model in one dimension as a function of (w, β, a), for b(x) = w x + β and a = σ².
///
/// The operator S g = b g + ½ a g' is linear in the three numbers, so SKDS is a quadratic form in them (the
/// paper's Corollary 9 and Example 10): six evaluations, each over all pairs, determine it everywhere.
#[derive(Clone, Debug, PartialEq)]
struct QuadraticForm([[f64; 3]; 3]);

impl QuadraticForm {
    /// From the values at the unit vectors and at the sums of two of them.
    fn of(loss: &mut dyn Loss<f64>) -> Result<QuadraticForm> {
        let mut value = |i: usize, j: usize| {
            let mut theta = [0.0; 3];
            theta[i] = 1.0;
            theta[j] = 1.0;
            loss.evaluate(&line_model(theta), None)
        };
        let mut q = [[0.0; 3]; 3];
        for i in 0..3 {
            q[i][i] = value(i, i)?;
        }
        for (i, j) in [(0, 1), (0, 2), (1, 2)] {
            q[i][j] = 0.5 * (value(i, j)? - q[i][i] - q[j][j]);
            q[j][i] = q[i][j];
        }
        Ok(QuadraticForm(q))
    }

    fn product(&self, left: [f64; 3], right: [f64; 3]) -> f64 {
        (0..3).map(|i| (0..3).map(|j| left[i] * self.0[i][j] * right[j]).sum::<f64>()).sum()
    }

    fn value(&self, (alpha, sigma): (f64, f64)) -> f64 {
        let theta = theta((alpha, sigma));
        self.product(theta, theta)
    }

    /// Derivatives with respect to α and σ: ∂(θᵀQθ) = 2 θᵀQ ∂θ.
    fn gradient(&self, (alpha, sigma): (f64, f64)) -> [f64; 2] {
        let theta = theta((alpha, sigma));
        [[0.0, 4.0, 0.0], [0.0, 0.0, 2.0 * sigma]].map(|change| 2.0 * self.product(theta, change))
    }
}

/// (w, β, a) of dX = −4(X − α) dt + σ dB.
fn theta((alpha, sigma): (f64, f64)) -> [f64; 3] {
    [-4.0, 4.0 * alpha, sigma * sigma]
}

/// dX = (w X + β) dt + √a dB.
fn line_model([w, beta, a]: [f64; 3]) -> Parameters<f64> {
    Parameters {
        drift: Drift::linear(Matrix::full(1, 1, w)),
        biases: vec![beta],
        noise: Noise::Full { noise: Matrix::full(1, 1, a.sqrt()) },
        shift: None,
        log_scale: None,
    }
}

/// `count` equal steps from `low` to `high`, both included.
fn steps(low: f64, high: f64, count: usize) -> Vec<f64> {
    (0..=count).map(|i| low + (high - low) * i as f64 / count as f64).collect()
}

impl Figure1 {
    /// Draws the samples and evaluates SKDS over all pairs (the estimator `u`).
    pub fn new(seed: u64) -> Result<Self> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
        let samples = Matrix::from_fn(SAMPLES, 1, |_, _| TRUTH.0 + 0.5f64.sqrt() * normal());
        let spec = LossSpec {
            objective: Objective::Skds,
            kernel: Kernel::Rbf { bandwidth: BANDWIDTH },
            estimator: Estimator::U,
        };
        let mut loss: Box<dyn Loss<f64>> =
            CpuEngine.load(&Dataset::from_environments(vec![samples])?, &spec)?;
        let form = QuadraticForm::of(loss.as_mut())?;
        check_against_engine(&form, loss.as_mut())?;
        let (alphas, sigmas) = (steps(0.0, 2.0, 80), steps(0.5, 3.0, 100));
        let values = Matrix::from_fn(sigmas.len(), alphas.len(), |i, j| form.value((alphas[j], sigmas[i])));
        Ok(Figure1 { form, alphas, sigmas, values })
    }

    /// The numbers that the picture shows.
    pub fn numbers(&self) -> Figure1Numbers {
        let places = (0..self.sigmas.len()).flat_map(|i| (0..self.alphas.len()).map(move |j| (i, j)));
        let (i, j) =
            places.min_by(|a, b| self.values[*a].total_cmp(&self.values[*b])).expect("the grid has places");
        Figure1Numbers {
            best: (self.alphas[j], self.sigmas[i]),
            smallest: self.values[(i, j)],
            at_truth: self.form.value(TRUTH),
            gradient_at_truth: self.form.gradient(TRUTH),
            by_alpha_at_red: self.form.gradient(RED)[0],
            by_sigma_at_blue: self.form.gradient(BLUE)[1],
        }
    }

    /// Densities, SKDS, and its derivative along the way from each alternative to the truth.
    pub fn panels(&self) -> [Panel; 4] {
        let candidates = [
            ("α = 1, σ = 2 (truth)", Colour::Black, TRUTH),
            ("α = ¼, σ = 2", Colour::Red, RED),
            ("α = 1, σ = 1", Colour::Blue, BLUE),
        ];
        let densities = candidates.map(|(label, colour, (alpha, sigma))| {
            let variance = sigma * sigma / 8.0;
            let density = |x: f64| {
                (-(x - alpha) * (x - alpha) / (2.0 * variance)).exp()
                    / (std::f64::consts::TAU * variance).sqrt()
            };
            let points = steps(-2.0, 4.0, 240).into_iter().map(|x| (x, density(x))).collect();
            Line { label: label.into(), colour, points }
        });
        let along_alpha = |alpha: f64| (alpha, self.form.gradient((alpha, TRUTH.1))[0]);
        let along_sigma = |sigma: f64| (sigma, self.form.gradient((TRUTH.0, sigma))[1]);
        let scales = (Scale::Linear, Scale::Linear);
        let slope = |title: &str, x_label: &str, line: Line, at, truth| Panel::Lines {
            title: title.into(),
            x_label: x_label.into(),
            y_label: title.into(),
            scales,
            points: vec![Point { label: String::new(), colour: line.colour, at }],
            lines: vec![line],
            verticals: vec![truth],
            horizontals: vec![0.0],
        };
        let line = |label: &str, colour, points| Line { label: label.into(), colour, points };
        let by_alpha = self.alphas.iter().map(|&alpha| along_alpha(alpha)).collect();
        let by_sigma = self.sigmas.iter().map(|&sigma| along_sigma(sigma)).collect();
        let red = line("σ = 2 fixed", Colour::Red, by_alpha);
        let blue = line("α = 1 fixed", Colour::Blue, by_sigma);
        [
            Panel::Lines {
                title: "stationary densities".into(),
                x_label: "x".into(),
                y_label: "density".into(),
                scales,
                lines: densities.into(),
                points: vec![],
                verticals: vec![],
                horizontals: vec![],
            },
            Panel::Contour {
                title: "SKDS".into(),
                x_label: "α".into(),
                y_label: "σ".into(),
                x: self.alphas.clone(),
                y: self.sigmas.clone(),
                values: self.values.clone(),
                levels: vec![0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0, 5.0],
                points: candidates
                    .map(|(label, colour, at)| Point { label: label.into(), colour, at })
                    .into(),
            },
            slope("∂SKDS/∂α", "α", red, along_alpha(RED.0), TRUTH.0),
            slope("∂SKDS/∂σ", "σ", blue, along_sigma(BLUE.1), TRUTH.1),
        ]
    }
}

/// The short cut must agree with the engine's own value and gradient; seen at one place.
fn check_against_engine(form: &QuadraticForm, loss: &mut dyn Loss<f64>) -> Result<()> {
    let at = (0.25, 1.5);
    let parameters = line_model(theta(at));
    let mut gradient = parameters.zeros_like();
    let direct = loss.evaluate(&parameters, Some(&mut gradient))?;
    let [by_alpha, by_sigma] = [4.0 * gradient.biases[0], gradient.noise.matrix()?[(0, 0)]];
    let short_cut = form.gradient(at);
    for (short, engine) in [(form.value(at), direct), (short_cut[0], by_alpha), (short_cut[1], by_sigma)] {
        if (short - engine).abs() > 1e-9 * engine.abs() {
            return Err(Error::Mismatch(format!(
                "the quadratic form gives {short}, the engine {engine}, expected the same"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper: "the gradient vanishes at the parameter values of the ground-truth model".
    #[test]
    fn the_gradient_leads_to_the_truth_and_vanishes_there() {
        let numbers = Figure1::new(6).unwrap().numbers();
        assert!((numbers.best.0 - 1.0).abs() < 0.06 && (numbers.best.1 - 2.0).abs() < 0.12, "{numbers:?}");
        assert!(numbers.smallest <= numbers.at_truth && numbers.at_truth.abs() < 5e-3, "{numbers:?}");
        assert!(numbers.gradient_at_truth.iter().all(|g| g.abs() < 0.3), "{numbers:?}");
        assert!(numbers.by_alpha_at_red < -1.0 && numbers.by_sigma_at_blue < -0.5, "{numbers:?}");
    }
}
