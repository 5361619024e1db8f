//! A switch with two states: a drift of given functions, fitted exactly, and an intervention that it never saw.
//!
//! ```text
//! cargo run --release --example double_well [PICTURE.svg]
//! ```
//!
//! dX = (X − X³ + ½ Y) dt + √0.6 dB and dY = (½ X − Y) dt + √0.6 dB: X rests at one of two places, Y follows it and holds it
//! there. The process is reversible with density exp(−U / 0.3), so samples are drawn from that. No linear drift has two
//! states; one that is linear in x, y, x², … y³ has, and is still a convex problem.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use skds::metric::wasserstein2;
use skds::plot::{Colour, Line, Panel, Scale, write_picture};
use skds::prelude::*;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const ROWS: usize = 1000;
const TEMPERATURE: f64 = 0.3;

fn main() -> ExitCode {
    let picture = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("double_well.svg"), PathBuf::from);
    match run(&picture) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Samples under a push of both variables, by rejection from a square.
fn draw(push: [f64; 2], seed: u64) -> Matrix<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let energy = |x: f64, y: f64| {
        x.powi(4) / 4.0 - x * x / 2.0 + y * y / 2.0 - 0.5 * x * y - push[0] * x - push[1] * y
    };
    let grid = || (0..=160).map(|k| -4.0 + 0.05 * f64::from(k));
    let least = grid().flat_map(|x| grid().map(move |y| energy(x, y))).fold(f64::INFINITY, f64::min) - 0.01;
    let mut rows = Vec::with_capacity(2 * ROWS);
    while rows.len() < 2 * ROWS {
        let (x, y) = (rng.random_range(-4.0..4.0), rng.random_range(-4.0..4.0));
        if rng.random_range(0.0..1.0) < (-(energy(x, y) - least) / TEMPERATURE).exp() {
            rows.extend([x, y]);
        }
    }
    Matrix::from_rows(ROWS, 2, rows)
}

fn run(picture: &Path) -> Result<()> {
    let pushes = [[0.0, 0.0], [0.5, 0.0], [-0.4, 0.0], [0.0, 0.6], [0.0, -0.5]];
    let samples = pushes.iter().zip(0..).map(|(&push, seed)| draw(push, seed)).collect();
    let data = Dataset::from_environments(samples)?
        .with_targets(Matrix::from_fn(pushes.len(), 2, |e, j| pushes[e][j] != 0.0))?
        .with_names(vec!["x".into(), "y".into()])?;
    let model = Fit::new().model(ModelKind::Basis).features("polynomial:3".parse()?).fit(&data)?;
    let linear = Fit::new().fit(&data)?;
    println!("drift, at the speed of the truth, where a dot is an effect of exactly 0:\n");
    print_drift(&model);

    // Y is pushed harder than ever before. The models are told its mean.
    let happened = draw([0.0, 1.0], 100);
    let mean = (0..ROWS).map(|i| happened[(i, 1)]).sum::<f64>() / ROWS as f64;
    let predict = |model: &Model| -> Result<Matrix<f64>> {
        Ok(model.sample_with(ROWS, &Do::set("y", mean), &Options::new().seed(7))?.rows().clone())
    };
    let (cubic, straight) = (predict(&model)?, predict(&linear)?);
    println!("\ny is pushed; squared 2-Wasserstein distance to what happened");
    let again = draw([0.0, 1.0], 101);
    let at_rest = draw([0.0, 0.0], 0);
    for (name, samples) in [
        ("at rest", &at_rest),
        ("predicted, linear drift", &straight),
        ("predicted, cubic drift", &cubic),
        ("happened again", &again),
    ] {
        println!("  {name:<26}{:>8.3}", wasserstein2(samples, &happened)?);
    }
    let lines = [
        ("at rest", Colour::Blue, &at_rest),
        ("happened", Colour::Black, &happened),
        ("predicted, cubic", Colour::Red, &cubic),
        ("predicted, linear", Colour::Orange, &straight),
    ];
    let panel = Panel::Lines {
        title: String::new(),
        x_label: "x".into(),
        y_label: "density".into(),
        scales: (Scale::Linear, Scale::Linear),
        lines: lines
            .into_iter()
            .map(|(label, colour, samples)| Line { label: label.into(), colour, points: density(samples) })
            .collect(),
        points: vec![],
        verticals: vec![],
        horizontals: vec![],
    };
    write_picture(picture, "A switch whose partner is pushed", &[panel])?;
    println!("\nThe picture is in {}.", picture.display());
    Ok(())
}

fn print_drift(model: &Model) {
    let (Drift::Basis(BasisDrift { basis, coefficients }), Noise::Basis { amounts }) =
        (&model.parameters.drift, &model.parameters.noise)
    else {
        return;
    };
    println!(
        "{:<8}{}",
        "",
        (0..basis.features()).map(|p| format!("{:>9}", basis.feature(p))).collect::<String>()
    );
    for (j, name) in model.names.iter().enumerate() {
        let speed = amounts[(j, 0)] / (2.0 * TEMPERATURE);
        let number = |p: usize| match coefficients[(j, p)] {
            0.0 => format!("{:>9}", "·"),
            value => format!("{:>9.3}", value / speed),
        };
        println!("d{name}/dt   {}", (0..basis.features()).map(number).collect::<String>());
    }
}

/// A kernel density estimate of x.
fn density(samples: &Matrix<f64>) -> Vec<(f64, f64)> {
    let h = 0.12;
    let (n, at) = (samples.rows() as f64, (0..=120).map(|k| -2.5 + 5.0 * f64::from(k) / 120.0));
    at.map(|x| {
        let sum: f64 = (0..samples.rows()).map(|i| (-0.5 * ((x - samples[(i, 0)]) / h).powi(2)).exp()).sum();
        (x, sum / (n * h * std::f64::consts::TAU.sqrt()))
    })
    .collect()
}
