//! How fast the exact solver finds the truth as samples grow.
//!
//! ```text
//! cargo run --release --example recovery [PICTURE.svg]
//! ```
//!
//! Five variables that act on each other with equal strength in both directions and have equal noise: a reversible
//! Ornstein–Uhlenbeck process, which SKDS identifies up to its speed (the diagonal of W is −1). The error of the fitted
//! weights must fall as n^−½, as that of every estimate from independent samples.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use skds::plot::{Colour, Line, Panel, Scale, write_picture};
use skds::prelude::*;
use skds::sample::Gaussian;
use skds::solve::{ExactSolver, ExactSpec};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const DIM: usize = 5;
const SEEDS: u64 = 8;

fn main() -> ExitCode {
    let picture = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("recovery.svg"), PathBuf::from);
    match run(&picture) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(picture: &Path) -> Result<()> {
    println!("{:>8}{:>16}{:>18}", "n", "error of W", "error × √n");
    let mut points = Vec::new();
    for n in (7..14).map(|k| 1usize << k) {
        let error = error(n)?;
        println!("{n:>8}{error:>16.4}{:>18.3}", error * (n as f64).sqrt());
        points.push(((n as f64).log10(), error.log10()));
    }
    // The slope of the line that fits best.
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x / count, b + y / count));
    let slope = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>()
        / points.iter().map(|p| (p.0 - x) * (p.0 - x)).sum::<f64>();
    println!("\nthe error falls as n^{slope:.2}");
    let (first, last) = (points[0].0, points[points.len() - 1].0);
    let ideal = [first, last].map(|at| (at, y - 0.5 * (at - x))).to_vec();
    let plain =
        |logs: Vec<(f64, f64)>| logs.into_iter().map(|(x, y)| (10f64.powf(x), 10f64.powf(y))).collect();
    let panel = Panel::Lines {
        title: "reversible process of five variables".into(),
        x_label: "n".into(),
        y_label: "error of the weights".into(),
        scales: (Scale::Log, Scale::Log),
        lines: vec![
            Line { label: "slope −½".into(), colour: Colour::Orange, points: plain(ideal) },
            Line { label: "exact solver".into(), colour: Colour::Blue, points: plain(points) },
        ],
        points: vec![],
        verticals: vec![],
        horizontals: vec![],
    };
    write_picture(picture, "Recovery of the truth", &[panel])?;
    println!("The picture is in {}.", picture.display());
    Ok(())
}

/// The root mean square of ‖Ŵ − W‖ over seeds.
fn error(n: usize) -> Result<f64> {
    let weights = Matrix::from_fn(DIM, DIM, |i, j| match i.abs_diff(j) {
        0 => -1.0,
        1 => 0.35 * if (i + j) % 4 == 1 { 1.0 } else { -1.0 },
        _ => 0.0,
    });
    let identity = Matrix::from_fn(DIM, DIM, |i, j| if i == j { 1.0 } else { 0.0 });
    let law = Gaussian::stationary(&weights, &[0.0; DIM], &identity)?;
    let mut sum = 0.0;
    for seed in 0..SEEDS {
        let samples = law.draw(n, &mut ChaCha8Rng::seed_from_u64(seed))?;
        let data = Dataset::from_environments(vec![samples])?;
        let kernel = Kernel::Rbf { bandwidth: 1.5 };
        let spec = ExactSpec { kernel, estimator: Estimator::V, penalty: None, learn_scale: false };
        let found = ExactSolver::new(&data, data.targets(), spec)?.solve()?.parameters;
        let fitted = found.drift.linear_weights().unwrap();
        sum += fitted.as_slice().iter().zip(weights.as_slice()).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
    }
    Ok((sum / SEEDS as f64).sqrt())
}
