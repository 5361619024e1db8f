//! Predict interventions that a model has not seen: how far does something have to be pushed, and what else moves?
//!
//! ```text
//! cargo run --release --example unseen_intervention [MODEL.safetensors TEST.npz]
//! ```
//!
//! With a fitted model and test data, this is `skds evaluate` from Rust: how well is each environment predicted?
//! Without arguments it asks a question of a small model: which push brings `insulin` to 2, and where does that leave the
//! others?

use skds::data::Dataset;
use skds::evaluate::{Wanted, match_means, predict};
use skds::model::{Activation, Drift, Model, Noise, Parameters};
use skds::sample::{Draw, Intervention, SampleSettings, Sampler};
use skds::{Error, Matrix, Progress, Result};
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
    let predictions =
        predict(&Sampler::cpu(), &model, &test, &SampleSettings::default(), 0, &Progress::default())?;
    let mut distances = Vec::new();
    for prediction in &predictions {
        match (&prediction.scores, &prediction.unstable) {
            (Some(scores), _) => {
                println!("{:<20} w2 {:>9.3}", prediction.targets.join(", "), scores.w2);
                distances.push(scores.w2);
            }
            (None, reason) => {
                println!(
                    "{:<20} unstable: {}",
                    prediction.targets.join(", "),
                    reason.as_deref().unwrap_or("")
                );
            }
        }
    }
    distances.sort_by(f64::total_cmp);
    if let Some(middle) = distances.get(distances.len() / 2) {
        println!("{:<20} w2 {middle:>9.3}", "median");
    }
    Ok(())
}

/// glucose ↔ insulin → fat, with saturation: a network per variable.
fn model() -> Model {
    let drift = Drift::Mlp {
        activation: Activation::Tanh,
        // One hidden unit per variable; its own input weight is 0, since −x is part of every drift.
        hidden_weights: Matrix::from_rows(3, 3, vec![0.0, 1.2, 0.0, 1.5, 0.0, 0.0, 0.0, 1.0, 0.0]),
        hidden_biases: Matrix::full(3, 1, 0.0),
        output_weights: Matrix::from_rows(3, 1, vec![-1.0, 1.0, 0.8]),
    };
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
    let (settings, sampler) = (SampleSettings::default(), Sampler::cpu());
    let insulin = model.variable("insulin")?;
    let wanted = Wanted { targets: vec![insulin], means: vec![2.0] };
    let pushed = match_means(&sampler, &model, &[wanted], &settings, 1, &Progress::default())?.remove(0)?;
    println!("a shift of {:+.2} brings insulin to 2\n", pushed.shift[insulin]);

    // Both laws at once.
    let at_rest = Intervention::none(model.dim());
    let draws = [&at_rest, &pushed].map(|intervention| Draw { intervention, samples: 2000, seed: 2 });
    let mut means = Vec::new();
    for samples in sampler.draw(&model, &draws, &settings, &Progress::default())? {
        let samples = samples?;
        let mean =
            |j: usize| (0..samples.rows()).map(|i| samples[(i, j)]).sum::<f64>() / samples.rows() as f64;
        means.push((0..model.dim()).map(mean).collect::<Vec<_>>());
    }
    println!("{:<10}{:>10}{:>10}", "mean of", "at rest", "pushed");
    for (j, name) in model.names.iter().enumerate() {
        println!("{name:<10}{:>10.2}{:>10.2}", means[0][j], means[1][j]);
    }
    Ok(())
}
