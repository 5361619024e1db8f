//! What the two losses measure, in two small experiments.
//!
//! ```text
//! cargo run --release --example stationarity [PICTURE.svg]
//! ```
//!
//! Both losses ask: are these samples stationary under this diffusion dX = b(X) dt + σ(X) dB? KDS is 0 for every
//! diffusion with that stationary law. SKDS is 0 only for the reversible one, and so tells apart diffusions
//! that samples alone, one by one, cannot: the paper's theorem "SKDS characterizes reversible diffusions".
//! The first experiment shows the difference, the second (the paper's Example 6) what it is good for: a smooth
//! function of the parameters with its minimum at the truth, and a gradient that leads there.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use skds::data::Dataset;
use skds::engine::{Engine, Loss, LossSpec, cpu::CpuEngine};
use skds::kernel::Kernel;
use skds::model::{Drift, Noise, Parameters};
use skds::objective::{Estimator, Objective};
use skds::plot::{Colour, Line, Panel, Point, write_svg};
use skds::{Matrix, Result};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let picture = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("example6.svg"), PathBuf::from);
    match two_processes().and_then(|()| example_6(&picture)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// n independent samples of N(mean, ½ I) in d dimensions.
fn samples(n: usize, d: usize, mean: f64, seed: u64) -> Result<Dataset> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
    let matrix = Matrix::from_fn(n, d, |_, _| mean + 0.5f64.sqrt() * normal());
    Dataset::from_environments(vec![matrix])
}

/// dX = (W X + biases) dt + σ dB.
fn linear(weights: Matrix<f64>, biases: Vec<f64>, noise: Matrix<f64>) -> Parameters<f64> {
    Parameters {
        drift: Drift::Linear { weights },
        biases,
        noise: Noise::Full { noise },
        shift: None,
        log_scale: None,
    }
}

/// A loss over all pairs of different samples (the `u` estimator): unbiased, so a loss whose true value is 0
/// comes out on either side of 0.
fn load(data: &Dataset, objective: Objective, bandwidth: f64) -> Result<Box<dyn Loss<f64>>> {
    let spec = LossSpec { objective, kernel: Kernel::Rbf { bandwidth }, estimator: Estimator::U };
    CpuEngine.load(data, &spec)
}

/// One law, two processes: N(0, ½ I) in the plane is stationary under both
///
/// ```text
/// dX = −X dt + dB                 pulled to the origin: reversible
/// dX = −(X + J X) dt + dB         pulled and carried round it: not reversible        J = (0 −1; 1 0)
/// ```
///
/// because J X is at a right angle to X and so flows along the circles on which the density is constant.
/// A film of the second process, played backwards, turns the other way; a heap of samples does not show it.
///
/// SKDS has E k(X, Y) ⟨J X, J Y⟩ as its limit for the second one, since the reversible part contributes 0; for
/// the RBF kernel with bandwidth 1 this Gaussian integral is 1/8.
fn two_processes() -> Result<()> {
    let identity = Matrix::from_rows(2, 2, vec![1.0, 0.0, 0.0, 1.0]);
    let reversible =
        linear(Matrix::from_rows(2, 2, vec![-1.0, 0.0, 0.0, -1.0]), vec![0.0; 2], identity.clone());
    let rotating = linear(Matrix::from_rows(2, 2, vec![-1.0, 1.0, -1.0, -1.0]), vec![0.0; 2], identity);

    println!("Samples of N(0, I/2) in the plane, and two processes with this stationary law");
    println!("(RBF kernel, bandwidth 1, all pairs):");
    println!();
    println!("           dX = -X dt + dB           dX = -(X + JX) dt + dB");
    println!("           (reversible)              (rotates, not reversible)");
    println!("      n        KDS       SKDS            KDS       SKDS");
    for n in [125, 500, 2000, 8000] {
        let data = samples(n, 2, 0.0, 1)?;
        let mut kds = load(&data, Objective::Kds, 1.0)?;
        let mut skds = load(&data, Objective::Skds, 1.0)?;
        let [a, b] = [kds.evaluate(&reversible, None)?, skds.evaluate(&reversible, None)?];
        let [c, d] = [kds.evaluate(&rotating, None)?, skds.evaluate(&rotating, None)?];
        println!("{n:>7} {a:>10.5} {b:>10.5}     {c:>10.5} {d:>10.5}");
    }
    println!();
    println!(
        "With more samples KDS goes to 0 for both: both keep the law. SKDS goes to 0 for the reversible"
    );
    println!("process only; for the rotating one it goes to 1/8, the exact value for this kernel.");
    Ok(())
}

/// SKDS of the linear model in one dimension as a function of (w, β, a), for b(x) = w x + β and a = σ².
///
/// The operator S g = b g + ½ a g' is linear in the three numbers, so SKDS is a quadratic form in them (the
/// paper's Corollary 9 and Example 10): six evaluations, each over all pairs, determine it everywhere.
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

    /// SKDS of dX = −4(X − α) dt + σ dB.
    fn value(&self, alpha: f64, sigma: f64) -> f64 {
        let theta = theta(alpha, sigma);
        self.product(theta, theta)
    }

    /// Its derivatives with respect to α and σ: ∂(θᵀQθ) = 2 θᵀQ ∂θ.
    fn gradient(&self, alpha: f64, sigma: f64) -> [f64; 2] {
        let theta = theta(alpha, sigma);
        [[0.0, 4.0, 0.0], [0.0, 0.0, 2.0 * sigma]].map(|change| 2.0 * self.product(theta, change))
    }
}

/// (w, β, a) of dX = −4(X − α) dt + σ dB.
fn theta(alpha: f64, sigma: f64) -> [f64; 3] {
    [-4.0, 4.0 * alpha, sigma * sigma]
}

/// dX = (w X + β) dt + √a dB.
fn line_model([w, beta, a]: [f64; 3]) -> Parameters<f64> {
    linear(Matrix::full(1, 1, w), vec![beta], Matrix::full(1, 1, a.sqrt()))
}

/// `count` equal steps from `low` to `high`, both included.
fn steps(low: f64, high: f64, count: usize) -> Vec<f64> {
    (0..=count).map(|i| low + (high - low) * i as f64 / count as f64).collect()
}

/// The paper's Example 6: samples of N(1, ½) and the family dX = −4(X − α) dt + σ dB, whose stationary law is
/// N(α, σ²/8). Only α = 1, σ = 2 fits the samples, and there the gradient of SKDS vanishes.
fn example_6(picture: &Path) -> Result<()> {
    let data = samples(5000, 1, 1.0, 6)?;
    let mut loss = load(&data, Objective::Skds, 0.5)?;
    let form = QuadraticForm::of(loss.as_mut())?;

    // The short cut must agree with the engine's own value and gradient; see for yourself at one place.
    let (alpha, sigma) = (0.25, 1.5);
    let parameters = line_model(theta(alpha, sigma));
    let mut gradient = parameters.zeros_like();
    let direct = loss.evaluate(&parameters, Some(&mut gradient))?;
    let Noise::Full { noise: by_sigma } = &gradient.noise else {
        unreachable!("a gradient has its model's shape")
    };
    let [by_alpha, by_sigma] = [4.0 * gradient.biases[0], by_sigma[(0, 0)]];
    let short_cut = form.gradient(alpha, sigma);
    for (short, engine) in
        [(form.value(alpha, sigma), direct), (short_cut[0], by_alpha), (short_cut[1], by_sigma)]
    {
        assert!((short - engine).abs() <= 1e-9 * engine.abs(), "quadratic form {short}, engine {engine}");
    }

    let (alphas, sigmas) = (steps(0.0, 2.0, 80), steps(0.5, 3.0, 100));
    let values = Matrix::from_fn(sigmas.len(), alphas.len(), |i, j| form.value(alphas[j], sigmas[i]));
    let mut best = (0, 0);
    for i in 0..sigmas.len() {
        for j in 0..alphas.len() {
            if values[(i, j)] < values[best] {
                best = (i, j);
            }
        }
    }
    let at_truth = form.gradient(1.0, 2.0);
    println!();
    println!("Example 6: 5000 samples of N(1, 1/2), the process dX = -4(X - alpha) dt + sigma dB,");
    println!("RBF kernel with bandwidth 1/2. The truth is alpha = 1, sigma = 2.");
    println!();
    let (smallest, alpha, sigma) = (values[best], alphas[best.1], sigmas[best.0]);
    println!("  smallest SKDS on the grid   {smallest:>9.5}  at alpha = {alpha:.3}, sigma = {sigma:.3}");
    println!("  SKDS at the truth           {:>9.5}", form.value(1.0, 2.0));
    println!("  gradient at the truth       {:>9.5}  by alpha, {:.5} by sigma", at_truth[0], at_truth[1]);
    // A step against the gradient leads from either alternative towards the truth.
    let (red, blue) = (form.gradient(0.25, 2.0)[0], form.gradient(1.0, 1.0)[1]);
    println!("  derivative by alpha         {red:>9.5}  at alpha = 1/4, sigma = 2 (red)");
    println!("  derivative by sigma         {blue:>9.5}  at alpha = 1, sigma = 1 (blue)");
    write_svg(
        picture,
        "SKDS and its gradient for dX = −4(X − α) dt + σ dB, samples of N(1, ½)",
        &panels(&form, alphas, sigmas, values),
    )?;
    println!();
    println!("The picture is in {}.", picture.display());
    Ok(())
}

/// Densities, SKDS, and its derivative along the way from each alternative to the truth.
fn panels(form: &QuadraticForm, alphas: Vec<f64>, sigmas: Vec<f64>, values: Matrix<f64>) -> [Panel; 4] {
    let candidates = [
        ("α = 1, σ = 2 (truth)", Colour::Black, 1.0, 2.0),
        ("α = ¼, σ = 2", Colour::Red, 0.25, 2.0),
        ("α = 1, σ = 1", Colour::Blue, 1.0, 1.0),
    ];
    let densities = candidates.map(|(label, colour, alpha, sigma)| {
        let variance = sigma * sigma / 8.0;
        let density = |x: f64| {
            (-(x - alpha) * (x - alpha) / (2.0 * variance)).exp() / (std::f64::consts::TAU * variance).sqrt()
        };
        let points = steps(-2.0, 4.0, 240).into_iter().map(|x| (x, density(x))).collect();
        Line { label: label.into(), colour, points }
    });
    let along_alpha = |alpha| (alpha, form.gradient(alpha, 2.0)[0]);
    let along_sigma = |sigma| (sigma, form.gradient(1.0, sigma)[1]);
    let by_alpha = alphas.iter().map(|&alpha| along_alpha(alpha)).collect();
    let by_sigma = sigmas.iter().map(|&sigma| along_sigma(sigma)).collect();
    let slope = |title: &str, x_label: &str, line: Line, at, truth| Panel::Lines {
        title: title.into(),
        x_label: x_label.into(),
        y_label: title.into(),
        points: vec![Point { label: String::new(), colour: line.colour, at }],
        lines: vec![line],
        verticals: vec![truth],
        horizontals: vec![0.0],
    };
    let red = Line { label: "σ = 2 fixed".into(), colour: Colour::Red, points: by_alpha };
    let blue = Line { label: "α = 1 fixed".into(), colour: Colour::Blue, points: by_sigma };
    [
        Panel::Lines {
            title: "stationary densities".into(),
            x_label: "x".into(),
            y_label: "density".into(),
            lines: densities.into(),
            points: vec![],
            verticals: vec![],
            horizontals: vec![],
        },
        Panel::Contour {
            title: "SKDS".into(),
            x_label: "α".into(),
            y_label: "σ".into(),
            x: alphas,
            y: sigmas,
            values,
            levels: vec![0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0, 5.0],
            points: candidates
                .map(|(label, colour, alpha, sigma)| Point {
                    label: label.into(),
                    colour,
                    at: (alpha, sigma),
                })
                .into(),
        },
        slope("∂SKDS/∂α", "α", red, along_alpha(0.25), 1.0),
        slope("∂SKDS/∂σ", "σ", blue, along_sigma(1.0), 2.0),
    ]
}
