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
use skds::experiment::Figure1;
use skds::plot::write_picture;
use skds::prelude::*;
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

/// n independent samples of N(0, ½ I) in the plane.
fn samples(n: usize) -> Result<Dataset> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
    let matrix = Matrix::from_fn(n, 2, |_, _| 0.5f64.sqrt() * normal());
    Dataset::from_environments(vec![matrix])
}

/// dX = (W X + biases) dt + σ dB.
fn linear(weights: Matrix<f64>, biases: Vec<f64>, noise: Matrix<f64>) -> Parameters<f64> {
    Parameters {
        drift: Drift::linear(weights),
        biases,
        noise: Noise::Full { noise },
        shift: None,
        log_scale: None,
    }
}

/// A loss over all pairs of different samples (the `u` estimator): unbiased, so a loss whose true value is 0
/// comes out on either side of 0.
fn load(data: &Dataset, objective: Objective) -> Result<Box<dyn Loss<f64>>> {
    let spec = LossSpec { objective, kernel: Kernel::Rbf { bandwidth: 1.0 }, estimator: Estimator::U };
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
        let data = samples(n)?;
        let mut kds = load(&data, Objective::Kds)?;
        let mut skds = load(&data, Objective::Skds)?;
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

/// The paper's Example 6 in numbers and as its Figure 1.
fn example_6(picture: &Path) -> Result<()> {
    let figure = Figure1::new(6)?;
    let numbers = figure.numbers();
    println!();
    println!("Example 6: 5000 samples of N(1, 1/2), the process dX = -4(X - alpha) dt + sigma dB,");
    println!("RBF kernel with bandwidth 1/2. The truth is alpha = 1, sigma = 2.");
    println!();
    let (alpha, sigma) = numbers.best;
    println!(
        "  smallest SKDS on the grid   {:>9.5}  at alpha = {alpha:.3}, sigma = {sigma:.3}",
        numbers.smallest
    );
    println!("  SKDS at the truth           {:>9.5}", numbers.at_truth);
    let [by_alpha, by_sigma] = numbers.gradient_at_truth;
    println!("  gradient at the truth       {by_alpha:>9.5}  by alpha, {by_sigma:.5} by sigma");
    // A step against the gradient leads from either alternative towards the truth.
    let (red, blue) = (numbers.by_alpha_at_red, numbers.by_sigma_at_blue);
    println!("  derivative by alpha         {red:>9.5}  at alpha = 1/4, sigma = 2 (red)");
    println!("  derivative by sigma         {blue:>9.5}  at alpha = 1, sigma = 1 (blue)");
    let title = "SKDS and its gradient for dX = −4(X − α) dt + σ dB, samples of N(1, ½)";
    write_picture(picture, title, &figure.panels())?;
    println!();
    println!("The picture is in {}.", picture.display());
    Ok(())
}
