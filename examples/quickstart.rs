//! The whole way in one program: a system with feedback, samples of it, a fitted model, and the prediction of an
//! intervention that the fit never saw, beside what really happens.
//!
//! ```text
//! cargo run --release --example quickstart [PICTURE.svg]
//! ```
//!
//! Five species on a shore act on each other in loops, so no acyclic causal model describes them:
//!
//! ```text
//!   algae ⊣⊢ kelp        compete for light
//!   kelp → urchin ⊣ kelp     feeds those who graze it
//!   algae → limpet ⊣ algae   likewise
//!   urchin ⊣⊢ limpet     compete for food
//!   limpet ⊣⊢ barnacle   compete for rock
//! ```

use skds::metric::wasserstein2;
use skds::plot::{Colour, Line, Panel, Scale, write_picture};
use skds::prelude::*;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

const NAMES: [&str; 5] = ["algae", "kelp", "urchin", "limpet", "barnacle"];
const ROWS: usize = 1000;
/// The intervention to predict: on `urchin`, which no training environment touches.
const UNSEEN: (&str, f64) = ("urchin", 2.5);

fn main() -> ExitCode {
    let picture = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("quickstart.svg"), PathBuf::from);
    match run(&picture) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// dX = (W X + biases) dt + σ dB; row j of W holds the effects on variable j.
fn system() -> Model {
    #[rustfmt::skip]
    let weights = vec![
        // algae  kelp urchin limpet barnacle
        -1.0,    -0.4,  0.0, -0.3,  0.0,
        -0.4,    -1.0, -0.6,  0.0,  0.0,
         0.0,     0.5, -1.0, -0.3,  0.0,
         0.4,     0.0, -0.4, -1.0, -0.4,
         0.0,     0.0,  0.0, -0.4, -1.0,
    ];
    Model {
        names: NAMES.map(String::from).to_vec(),
        ..Model::new(Parameters {
            drift: Drift::linear(Matrix::from_rows(5, 5, weights)),
            biases: vec![3.4, 3.7, 1.1, 2.6, 2.8],
            noise: Noise::Diagonal { log_noise: vec![-0.4; 5] },
            shift: None,
            log_scale: None,
        })
    }
}

fn run(picture: &Path) -> Result<()> {
    let truth = system();
    let draw = |action: Do, seed: u64| -> Result<Matrix<f64>> {
        Ok(truth.sample_with(ROWS, &action, &Options::new().seed(seed))?.rows().clone())
    };

    // What an experimenter has: the system at rest, and under pushes of four variables.
    let pushes = [("algae", 3.0), ("kelp", -3.0), ("limpet", 3.0), ("barnacle", -3.0)];
    let mut environments = vec![draw(Do::nothing(), 1)?];
    let mut targets = Matrix::full(pushes.len() + 1, 5, false);
    for (e, (name, by)) in pushes.into_iter().enumerate() {
        environments.push(draw(Do::shift(name, by), 2 + e as u64)?);
        targets[(e + 1, truth.variable(name)?)] = true;
    }
    let at_rest = environments[0].clone();
    let data =
        Dataset::from_environments(environments)?.with_targets(targets)?.with_names(truth.names.clone())?;
    println!(
        "{} environments of {ROWS} samples: at rest, and pushes of algae, kelp, limpet, barnacle",
        data.environments()
    );

    // No settings: what is learned is chosen by what it predicts of pushes that were left out.
    let start = Instant::now();
    let model = Fit::new().fit(&data)?;
    println!("fitted in {:.0} ms:", 1e3 * start.elapsed().as_secs_f64());
    model.findings().iter().for_each(|line| println!("  {line}"));

    // The experiment: urchins are pushed. The model is told only which variable, and the mean that it then has; it says where
    // the samples that were observed at rest go.
    let (name, by) = UNSEEN;
    let target = truth.variable(name)?;
    let happened = draw(Do::shift(name, by), 100)?;
    let prediction = model.predict(&data, &Do::set(name, mean(&happened, target)))?;
    let predicted = prediction.rows();
    // What anyone could say without a model: only the urchins move.
    let gap = mean(&happened, target) - mean(&at_rest, target);
    let no_effect = Matrix::from_fn(ROWS, 5, |i, j| at_rest[(i, j)] + if j == target { gap } else { 0.0 });

    println!("\nurchins are pushed, which no training environment did:\n");
    println!("{:<12}{:>10}{:>12}{:>12}", "mean of", "at rest", "predicted", "happened");
    for (j, name) in NAMES.iter().enumerate() {
        let [a, b, c] = [&at_rest, predicted, &happened].map(|samples| mean(samples, j));
        println!("{name:<12}{a:>10.2}{b:>12.2}{c:>12.2}{}", if j == target { "   (given)" } else { "" });
    }
    // Two samples of the same law are not equal either: that is the floor.
    let again = draw(Do::shift(UNSEEN.0, by), 101)?;
    println!("\nsquared 2-Wasserstein distance to what happened");
    for (name, samples) in [("no effect", &no_effect), ("predicted", predicted), ("happened again", &again)] {
        println!("  {name:<16}{:>8.3}", wasserstein2(samples, &happened)?);
    }
    let panels: Vec<Panel> =
        NAMES.iter().enumerate().map(|(j, name)| panel(name, j, [&at_rest, &happened, predicted])).collect();
    write_picture(picture, "Urchins are pushed: predicted and true distributions", &panels)?;
    println!("\nThe picture is in {}.", picture.display());
    Ok(())
}

fn mean(samples: &Matrix<f64>, j: usize) -> f64 {
    (0..samples.rows()).map(|i| samples[(i, j)]).sum::<f64>() / samples.rows() as f64
}

/// The densities of a variable, smoothed.
fn panel(name: &str, j: usize, all: [&Matrix<f64>; 3]) -> Panel {
    let labels = [("at rest", Colour::Blue), ("happened", Colour::Black), ("predicted", Colour::Red)];
    let lines = all.into_iter().zip(labels).map(|(samples, (label, colour))| {
        let values: Vec<f64> = (0..samples.rows()).map(|i| samples[(i, j)]).collect();
        Line { label: label.into(), colour, points: density(&values) }
    });
    Panel::Lines {
        title: name.into(),
        x_label: name.into(),
        y_label: "density".into(),
        scales: (Scale::Linear, Scale::Linear),
        lines: lines.collect(),
        points: vec![],
        verticals: vec![],
        horizontals: vec![],
    }
}

/// A kernel density estimate with Silverman's bandwidth.
fn density(values: &[f64]) -> Vec<(f64, f64)> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let deviation = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
    let h = 1.06 * deviation * n.powf(-0.2);
    (0..=120)
        .map(|i| mean + deviation * 4.0 * (f64::from(i) / 60.0 - 1.0))
        .map(|x| {
            let sum: f64 = values.iter().map(|v| (-0.5 * ((x - v) / h).powi(2)).exp()).sum();
            (x, sum / (n * h * std::f64::consts::TAU.sqrt()))
        })
        .collect()
}
