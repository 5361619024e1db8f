//! Predict interventions that a model has not seen: one variable is pushed, what else moves?
//!
//! ```text
//! cargo run --release --example unseen_intervention [MODEL.safetensors TEST.npz]
//! ```
//!
//! With a fitted model and test data, this is `skds evaluate` from Rust: how well is each environment predicted?
//! Without arguments it asks a question of a small model: if `insulin` is pushed to 2, what happens to the others?

use skds::prelude::*;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let result = match arguments.as_slice() {
        [] => ask(),
        [model, test] => score(model, test),
        _ => Err(Error::Invalid("expected no arguments, or MODEL.safetensors TEST.npz".into())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Scores the predictions of every test environment.
fn score(model: &Path, test: &Path) -> Result<()> {
    let (model, test) = (Model::read(model)?, Dataset::read(test)?);
    let evaluation = model.evaluate(&test)?;
    for prediction in &evaluation.predictions {
        let targets = prediction.targets.join(", ");
        match (&prediction.scores, &prediction.unstable) {
            (Some(scores), _) => println!("{targets:<20} w2 {:>9.3}", scores.w2),
            (None, reason) => println!("{targets:<20} unstable: {}", reason.as_deref().unwrap_or("")),
        }
    }
    println!("{:<20} w2 {:>9.3}", "median", evaluation.median.w2);
    Ok(())
}

/// glucose ↔ insulin → fat, with saturation: a network per variable.
fn model() -> Model {
    let drift = Drift::Mlp(MlpDrift {
        activation: Activation::Tanh,
        // One hidden unit per variable; its own input weight is 0, since −x is part of every drift.
        hidden_weights: Matrix::from_rows(3, 3, vec![0.0, 1.2, 0.0, 1.5, 0.0, 0.0, 0.0, 1.0, 0.0]),
        hidden_biases: Matrix::full(3, 1, 0.0),
        output_weights: Matrix::from_rows(3, 1, vec![-1.0, 1.0, 0.8]),
    });
    Model {
        names: ["glucose", "insulin", "fat"].map(String::from).to_vec(),
        ..Model::new(Parameters {
            drift,
            biases: vec![0.5, 0.0, 0.0],
            noise: Noise::Diagonal { log_noise: vec![-1.0; 3] },
            shift: None,
            log_scale: None,
        })
    }
}

fn ask() -> Result<()> {
    let model = model();
    let options = Options::new().seed(2);
    let at_rest = model.sample_with(2000, &Do::nothing(), &options)?;
    let pushed = model.sample_with(2000, &Do::set("insulin", 2.0), &options)?;
    println!("insulin is pushed until its mean is 2\n");
    println!("{:<10}{:>10}{:>10}", "mean of", "at rest", "pushed");
    for name in &model.names {
        println!("{name:<10}{:>10.2}{:>10.2}", at_rest.mean(name)?, pushed.mean(name)?);
    }
    Ok(())
}
