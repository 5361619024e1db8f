//! The loss and its gradient in someone's own optimiser: here L-BFGS by hand, on all pairs, in f64.
//!
//! ```text
//! cargo run --release --example own_optimiser
//! ```
//!
//! An engine takes the data once; after that `evaluate` is a function from parameters to a number and a gradient of
//! the same shape. [`Parameters::tensors`] and [`Parameters::tensors_mut`] are all tensors as flat slices: what
//! an optimiser wants.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use skds::prelude::*;
use skds::sample::Gaussian;
use std::process::ExitCode;

/// Steps that L-BFGS remembers.
const MEMORY: usize = 8;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<()> {
    // Samples of dX = W X dt + ½ dB with mutual effects.
    let weights = Matrix::from_rows(3, 3, vec![-1.0, 0.5, 0.0, 0.5, -1.0, -0.4, 0.0, -0.4, -1.0]);
    let a = Matrix::from_fn(3, 3, |i, j| if i == j { 0.25 } else { 0.0 });
    let samples =
        Gaussian::stationary(&weights, &[0.0; 3], &a)?.draw(2000, &mut ChaCha8Rng::seed_from_u64(1))?;
    let data = Dataset::from_environments(vec![samples])?;

    let spec = LossSpec {
        objective: Objective::Skds,
        kernel: Kernel::Rbf { bandwidth: 1.0 },
        estimator: Estimator::V,
    };
    let mut loss = CpuEngine.load(&data, &spec)?;
    let mut parameters = Parameters::<f64> {
        drift: Drift::linear(Matrix::from_fn(3, 3, |i, j| if i == j { -1.0 } else { 0.0 })),
        biases: vec![0.0; 3],
        noise: Noise::Diagonal { log_noise: vec![0.0; 3] },
        shift: None,
        log_scale: None,
    };
    // Speed is not identified by a stationary law: the diagonal stays at −1.
    let targets = Matrix::full(1, 3, false);
    let evaluations = minimise(loss.as_mut(), &mut parameters, &targets)?;

    let found = parameters.drift.linear_weights().unwrap();
    println!("after {evaluations} evaluations the weights are (true ones in brackets)");
    for i in 0..3 {
        let row: Vec<String> =
            (0..3).map(|j| format!("{:>7.3} ({:>4.1})", found[(i, j)], weights[(i, j)])).collect();
        println!("  {}", row.join("  "));
    }
    Ok(())
}

fn flat(parameters: &Parameters<f64>) -> Vec<f64> {
    parameters.tensors().iter().flat_map(|tensor| tensor.values.iter().copied()).collect()
}

fn set(parameters: &mut Parameters<f64>, values: &[f64]) {
    let mut values = values.iter();
    for (_, tensor) in parameters.tensors_mut() {
        tensor.iter_mut().zip(&mut values).for_each(|(entry, value)| *entry = *value);
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// L-BFGS with a line search that halves; returns the number of evaluations.
fn minimise(
    loss: &mut dyn Loss<f64>,
    parameters: &mut Parameters<f64>,
    targets: &Matrix<bool>,
) -> Result<usize> {
    let mut evaluations = 0;
    let mut evaluate = |at: &Parameters<f64>| -> Result<(f64, Vec<f64>)> {
        evaluations += 1;
        let mut gradient = at.zeros_like();
        let value = loss.evaluate(at, Some(&mut gradient))?;
        // The same rule as training's: what is fixed has no slope.
        gradient.mask_fixed(targets);
        Ok((value, flat(&gradient)))
    };
    let mut at = flat(parameters);
    let (mut value, mut slope) = evaluate(parameters)?;
    let mut memory: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
    for step in 0..100 {
        // Two loops turn the slope into a direction.
        let mut direction: Vec<f64> = slope.iter().map(|g| -g).collect();
        let mut factors = Vec::new();
        for (s, y) in memory.iter().rev() {
            let factor = dot(s, &direction) / dot(s, y);
            direction.iter_mut().zip(y).for_each(|(d, y)| *d -= factor * y);
            factors.push(factor);
        }
        if let Some((s, y)) = memory.last() {
            let scale = dot(s, y) / dot(y, y);
            direction.iter_mut().for_each(|d| *d *= scale);
        }
        for ((s, y), factor) in memory.iter().zip(factors.into_iter().rev()) {
            let back = factor - dot(y, &direction) / dot(s, y);
            direction.iter_mut().zip(s).for_each(|(d, s)| *d += back * s);
        }
        let descent = dot(&direction, &slope);
        if descent > -1e-16 {
            break;
        }
        let mut length = 1.0;
        let (next, next_value, next_slope) = loop {
            let next: Vec<f64> = at.iter().zip(&direction).map(|(x, d)| x + length * d).collect();
            set(parameters, &next);
            let (next_value, next_slope) = evaluate(parameters)?;
            if next_value <= value + 1e-4 * length * descent || length < 1e-10 {
                break (next, next_value, next_slope);
            }
            length *= 0.5;
        };
        let s: Vec<f64> = next.iter().zip(&at).map(|(a, b)| a - b).collect();
        let y: Vec<f64> = next_slope.iter().zip(&slope).map(|(a, b)| a - b).collect();
        if dot(&s, &y) > 0.0 {
            memory.push((s, y));
            if memory.len() > MEMORY {
                memory.remove(0);
            }
        }
        (at, value, slope) = (next, next_value, next_slope);
        if step % 5 == 0 {
            println!("step {step:>3}: SKDS {value:.3e}, slope {:.1e}", dot(&slope, &slope).sqrt());
        }
    }
    Ok(evaluations)
}
