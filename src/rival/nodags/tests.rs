//! Tests of fits as a whole. Gradients and series have theirs in `gradient_tests`.

use super::likelihood::{log_likelihoods, means};
use super::settings::{Edges, LogDet};
use super::shape::spectral_norm;
use super::systems::System;
use super::train::Trainer;
use super::{NodagsSettings, fit};
use crate::data::Dataset;
use crate::rival::NetworkEquations;
use crate::{Error, Matrix, Progress};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// The probability that an edge gets a higher score than a pair without an edge, and the number of wrong edges at ½.
fn recovery(system: &System, score: impl Fn(usize, usize) -> f64) -> (f64, usize) {
    let d = system.scales.len();
    let pairs: Vec<(bool, f64)> = (0..d * d)
        .filter(|at| at / d != at % d)
        .map(|at| (system.effects[(at / d, at % d)] != 0.0, score(at / d, at % d)))
        .collect();
    let (mut wins, mut count) = (0.0, 0.0);
    for (_, edge) in pairs.iter().filter(|pair| pair.0) {
        for (_, none) in pairs.iter().filter(|pair| !pair.0) {
            wins += if edge > none {
                1.0
            } else if edge == none {
                0.5
            } else {
                0.0
            };
            count += 1.0;
        }
    }
    (wins / count, pairs.iter().filter(|(edge, score)| *edge != (*score > 0.5)).count())
}

fn trained(system: &System, settings: &NodagsSettings, data: &Dataset, seed: u64) -> (f64, usize, f64) {
    let mut trainer = Trainer::new(system.scales.len(), settings, seed);
    let loss = trainer.run(data, &Progress::default()).unwrap();
    let (area, wrong) = recovery(system, |j, i| trainer.shape.probability(&trainer.parameters, j, i));
    (area, wrong, loss)
}

fn settings(epochs: usize) -> NodagsSettings {
    NodagsSettings {
        epochs,
        learning_rate: 1e-2,
        penalty: 1e-3,
        hidden_layers: 0,
        ..NodagsSettings::default()
    }
}

/// Graphs of systems that NODAGS assumes: contractions with feedback, and one surgical intervention on each variable.
#[test]
fn it_finds_the_graph_of_contractions() {
    for relu in [false, true] {
        let (mut areas, mut wrong, mut pairs) = (0.0, 0, 0);
        for seed in 0..3 {
            let system = System::draw(6, relu, seed);
            let data = system.data(500, seed);
            let settings = NodagsSettings { relu_output: relu, ..settings(100) };
            let found = trained(&system, &settings, &data, seed);
            // Half of all pairs are wrong by chance, and their area is ½.
            assert!(found.0 > 0.9, "system {seed}, ReLU {relu}: the area is {}", found.0);
            (areas, wrong, pairs) = (areas + found.0, wrong + found.1, pairs + 30);
        }
        assert!(
            areas / 3.0 > 0.97 && wrong * 10 < pairs,
            "ReLU {relu}: area {}, {wrong} wrong edges",
            areas / 3.0
        );
    }
}

/// Training lowers the exact loss about as far as the true system's, and each estimate of the log-determinant does so.
#[test]
fn estimates_agree_on_the_likelihood() {
    let system = System::draw(5, false, 1);
    let data = system.data(400, 1);
    let fitted = |log_det: LogDet| {
        let settings = NodagsSettings { log_det, relu_output: false, ..settings(60) };
        let equations = fit(&data, &settings, 3, &Progress::default()).unwrap();
        log_likelihoods(&equations, &data).iter().sum::<f64>() / data.environments() as f64
    };
    let (exact, unbiased, bounded) =
        (fitted(LogDet::Exact), fitted(LogDet::Unbiased), fitted(LogDet::Bounded));
    // Without any effects: every variable is independent, with its own scale.
    let alone = NodagsSettings { penalty: 1e3, ..settings(60) };
    let none = fit(&data, &alone, 3, &Progress::default()).unwrap();
    assert!(none.first_weights.as_slice().iter().all(|w| *w == 0.0), "a large penalty leaves edges");
    let none = log_likelihoods(&none, &data).iter().sum::<f64>() / data.environments() as f64;
    assert!(exact > none + 0.3, "{exact} is not above {none}");
    for estimate in [unbiased, bounded] {
        assert!((estimate - exact).abs() < 0.15 * (exact - none), "{estimate} is far from {exact}");
    }
}

/// The layers keep their norms, by singular values, and the masked network contracts on the data.
#[test]
fn the_fit_is_a_contraction() {
    let system = System::draw(6, false, 4);
    let data = system.data(300, 4);
    let settings = NodagsSettings { hidden_layers: 1, relu_output: false, ..settings(40) };
    let mut trainer = Trainer::new(6, &settings, 2);
    trainer.run(&data, &Progress::default()).unwrap();
    trainer.finish().unwrap();
    for (at, limit) in [(0, 1.0), (1, 0.9)] {
        // Independent of the power iterations and of the eigenvalues that `finish` uses.
        let layer = Matrix::from_rows(6, 6, trainer.parameters[trainer.shape.layer(at)].to_vec());
        let values = layer.view().singular_values().unwrap();
        assert!(values[0] <= limit + 1e-12, "layer {at} has the norm {}", values[0]);
        assert!(values[0] > 0.9 * limit, "layer {at} has the norm {}: no limit is in force", values[0]);
    }
    let equations = trainer.shape.equations(&trainer.parameters, &settings);
    for x in (0..data.samples().rows()).step_by(50).map(|r| data.samples().row(r)) {
        let norm = spectral_norm(means(&equations, x).1.as_slice(), 6).unwrap();
        assert!(norm < 1.0, "the norm of the Jacobian is {norm}");
    }
}

/// Each variable's copy computes what the shared network does with its mask.
#[test]
fn equations_are_those_of_the_shared_network() {
    let d = 4;
    for (hidden_layers, relu_output) in [(0, true), (0, false), (1, true), (1, false), (2, true), (3, false)]
    {
        for edges in [Edges::Expected, Edges::Threshold] {
            let settings = NodagsSettings { hidden_layers, relu_output, edges, ..NodagsSettings::default() };
            let mut trainer = Trainer::new(d, &settings, 5);
            let logits = trainer.shape.logits();
            let mut rng = ChaCha8Rng::seed_from_u64(7);
            trainer.parameters[logits].iter_mut().for_each(|p| *p = StandardNormal.sample(&mut rng));
            let (shape, parameters) = (trainer.shape, &trainer.parameters);
            let equations = shape.equations(parameters, &settings);
            let x: Vec<f64> = (0..d).map(|_| StandardNormal.sample(&mut rng)).collect();
            for (j, found) in means(&equations, &x).0.into_iter().enumerate() {
                let mut values: Vec<f64> = (0..d)
                    .map(|i| match (shape.probability(parameters, j, i), edges) {
                        (p, Edges::Expected) => p * x[i],
                        (p, Edges::Threshold) => {
                            if p > 0.5 {
                                x[i]
                            } else {
                                0.0
                            }
                        }
                    })
                    .collect();
                for at in 0..=hidden_layers {
                    let weights = &parameters[shape.layer(at)];
                    values = (0..d)
                        .map(|k| {
                            let sum: f64 = (0..d).map(|i| weights[k * d + i] * values[i]).sum();
                            if at < hidden_layers || relu_output { sum.max(0.0) } else { sum }
                        })
                        .collect();
                }
                assert!((values[j] - found).abs() < 1e-12, "{settings:?}: {} and {found}", values[j]);
            }
        }
    }
}

/// Log-likelihoods of a fitted model, and the parameters after twelve steps of training with certain edges and the exact
/// log-determinant: golden/check.json, by numpy 2 in f64 with numerical derivatives (no formula of this module).
#[test]
fn it_agrees_with_numpy() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("golden/check.json")).unwrap();
    let numbers = |value: &serde_json::Value| -> Vec<f64> {
        value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    };
    let case = &golden["training"];
    let (d, rows) = (3, 14);
    let environments = case["x"].as_array().unwrap().iter();
    let environments = environments.map(|x| Matrix::from_rows(rows, d, numbers(x))).collect();
    let data = Dataset::from_environments(environments)
        .unwrap()
        .with_targets(Matrix::from_fn(2, d, |e, j| e == 1 && j == 2))
        .unwrap();
    let settings = NodagsSettings {
        learning_rate: 1e-2,
        epochs: 2,
        batch: 5,
        power_iterations: 300,
        log_det: LogDet::Exact,
        ..NodagsSettings::default()
    };
    let mut trainer = Trainer::new(d, &settings, 1);
    trainer.parameters = numbers(&case["start"]);
    let start = trainer.parameters.clone();
    trainer.run(&data, &Progress::default()).unwrap();
    let mut moved: f64 = 0.0;
    for (at, expected) in numbers(&case["end"]).into_iter().enumerate() {
        let found = trainer.parameters[at];
        // The gradients are of f32; Adam's step does not depend on their size.
        assert!((found - expected).abs() < 1e-5, "parameter {at} is {found}, numpy has {expected}");
        moved = moved.max((found - start[at]).abs());
    }
    assert!(moved > 0.05, "the parameters hardly moved");

    let case = &golden["likelihood"];
    let matrix = |name: &str, rows: usize, cols: usize| Matrix::from_rows(rows, cols, numbers(&case[name]));
    let (d, h) = (4, 4);
    let none = Matrix::full(d, h, 0.0);
    let equations = NetworkEquations {
        slope: 0.0,
        first_weights: matrix("first_weights", d * h, d),
        first_biases: none.clone(),
        inner: vec![(matrix("inner", d * h, h), none.clone())],
        mean_weights: matrix("mean_weights", d, h),
        mean_biases: vec![0.0; d],
        scale_weights: none,
        scale_biases: numbers(&case["scale_biases"]),
    };
    let environments = case["x"].as_array().unwrap().iter();
    let environments = environments.map(|x| matrix_of(numbers(x), d)).collect();
    let targets = Matrix::from_fn(3, d, |e, j| (e == 1 && j == 0) || (e == 2 && j > 1));
    let data = Dataset::from_environments(environments).unwrap().with_targets(targets).unwrap();
    for (found, expected) in log_likelihoods(&equations, &data).into_iter().zip(numbers(&case["expected"])) {
        // numpy's Jacobian is a difference quotient with a step of 1e-6.
        assert!((found - expected).abs() < 1e-7, "{found}, numpy has {expected}");
    }
}

fn matrix_of(numbers: Vec<f64>, cols: usize) -> Matrix<f64> {
    Matrix::from_rows(numbers.len() / cols, cols, numbers)
}

fn fit_with_threads(
    threads: usize,
    data: &Dataset,
    settings: &NodagsSettings,
    seed: u64,
) -> NetworkEquations {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| fit(data, settings, seed, &Progress::default())).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_bytes_with_any_number_of_threads() {
    let data = System::draw(6, false, 2).data(300, 2);
    let settings = NodagsSettings { epochs: 3, ..NodagsSettings::default() };
    let one = fit_with_threads(1, &data, &settings, 4);
    assert_eq!(one, fit_with_threads(3, &data, &settings, 4));
    assert_ne!(one, fit_with_threads(1, &data, &settings, 5));
}

#[test]
fn unusual_data_are_fitted() {
    let settings = NodagsSettings { epochs: 4, learning_rate: 0.1, batch: 7, ..NodagsSettings::default() };
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut normal =
        |rows: usize, cols: usize| Matrix::from_fn(rows, cols, |_, _| StandardNormal.sample(&mut rng));
    let alone = Dataset::from_environments(vec![normal(2, 1)]).unwrap();
    let two = Dataset::from_environments(vec![normal(2, 2)]).unwrap();
    let constant = Dataset::from_environments(vec![Matrix::full(30, 3, 0.0), normal(9, 3)]).unwrap();
    let everything = Dataset::from_environments(vec![normal(2, 3), normal(40, 3)])
        .unwrap()
        .with_targets(Matrix::from_fn(2, 3, |e, j| e == 1 || j == 0))
        .unwrap();
    for data in [alone, two, constant, everything] {
        for (hidden_layers, log_det) in [(0, LogDet::Exact), (1, LogDet::Unbiased), (2, LogDet::Bounded)] {
            let settings = NodagsSettings { hidden_layers, log_det, ..settings.clone() };
            let progress = Progress::default();
            let equations = fit(&data, &settings, 1, &progress).unwrap();
            let all = equations.first_weights.as_slice().iter().chain(&equations.scale_biases);
            assert!(all.chain(equations.mean_weights.as_slice()).all(|w| w.is_finite()));
            assert_eq!(progress.done(), settings.work(&data));
        }
    }
}

/// Numbers that overflow are an error, not a result.
#[test]
fn numbers_that_are_too_large_are_reported() {
    let data = Dataset::from_environments(vec![Matrix::full(3, 2, 1e300)]).unwrap();
    let found = fit(&data, &NodagsSettings::default(), 1, &Progress::default());
    assert!(
        matches!(found, Err(Error::NonFinite(problem)) if problem.contains("NODAGS diverged in epoch 1"))
    );
}

#[test]
fn it_stops() {
    let data = System::draw(4, false, 2).data(50, 2);
    let progress = Progress::default();
    progress.stop();
    assert!(matches!(fit(&data, &NodagsSettings::default(), 1, &progress), Err(Error::Stopped)));
    // In the middle of the first epoch, from another thread.
    let progress = Progress::default();
    let long = NodagsSettings { epochs: 1_000_000, ..NodagsSettings::default() };
    std::thread::scope(|scope| {
        let fitting = scope.spawn(|| fit(&data, &long, 1, &progress));
        while progress.done() == 0 && !fitting.is_finished() {
            std::thread::yield_now();
        }
        progress.stop();
        assert!(matches!(fitting.join().unwrap(), Err(Error::Stopped)));
    });
    assert!(progress.done() < long.work(&data));
}

#[test]
fn settings_are_checked_one_by_one() {
    let fine = NodagsSettings::default();
    assert!(fine.check().is_ok());
    let wrong = [
        (NodagsSettings { penalty: -1.0, ..fine.clone() }, "the penalty is -1, expected at least 0"),
        (NodagsSettings { learning_rate: f64::NAN, ..fine.clone() }, "the learning_rate is NaN"),
        (NodagsSettings { hidden_layers: 17, ..fine.clone() }, "the hidden_layers is 17"),
        (NodagsSettings { epochs: 0, ..fine.clone() }, "the epochs is 0"),
        (NodagsSettings { batch: 0, ..fine.clone() }, "the batch is 0"),
        (NodagsSettings { lipschitz: 1.0, ..fine.clone() }, "the lipschitz is 1"),
        (NodagsSettings { power_iterations: 0, ..fine.clone() }, "the power_iterations is 0"),
        (NodagsSettings { exact_terms: 1001, ..fine.clone() }, "the exact_terms is 1001"),
        (NodagsSettings { stop_probability: 1.0, ..fine.clone() }, "the stop_probability is 1"),
        (NodagsSettings { terms: 0, ..fine.clone() }, "the terms is 0"),
        (NodagsSettings { log_scale: 11.0, ..fine.clone() }, "the log_scale is 11"),
        (NodagsSettings { threshold: 1.0, ..fine.clone() }, "the threshold is 1"),
    ];
    for (settings, problem) in wrong {
        let found = settings.check().unwrap_err().to_string();
        assert!(found.starts_with(problem), "{found}");
    }
    assert!(fine.check_size(20).is_ok() && fine.check_size(100_000).is_err());
    let text = serde_json::to_string(&fine).unwrap();
    assert_eq!(serde_json::from_str::<NodagsSettings>(&text).unwrap(), fine);
    assert!(serde_json::from_str::<NodagsSettings>("{\"lambda\": 1}").is_err());
}
