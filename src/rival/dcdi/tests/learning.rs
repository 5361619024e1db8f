//! Whole fits.

use super::super::batch::Rows;
use super::super::train::{Outcome, train};
use super::super::{DcdiSettings, Interventions, fit};
use super::{Truth, rng, standardized};
use crate::data::Dataset;
use crate::rival::NetworkEquations;
use crate::{Error, Matrix, Progress, Scalar};
use serde::Deserialize;

fn perfect() -> DcdiSettings {
    DcdiSettings { interventions: Interventions::Perfect, sparsity: 0.1, ..DcdiSettings::default() }
}

fn learn(data: &Dataset, settings: &DcdiSettings, seed: u64) -> Outcome {
    train::<f32>(data, settings, seed, &Progress::default()).unwrap()
}

/// log p_j(x_j | x), written out without any of the module's code.
pub(super) fn log_density(equations: &NetworkEquations, j: usize, x: &[f64]) -> f64 {
    let h = equations.first_biases.cols();
    let leaky = |z: f64| if z > 0.0 { z } else { equations.slope * z };
    let dot = |weights: &[f64], values: &[f64]| weights.iter().zip(values).map(|(w, v)| w * v).sum::<f64>();
    let layer = |weights: &Matrix<f64>, biases: &Matrix<f64>, values: &[f64]| {
        let unit = |k| leaky(dot(weights.row(j * h + k), values) + biases[(j, k)]);
        (0..h).map(unit).collect::<Vec<f64>>()
    };
    let mut units = layer(&equations.first_weights, &equations.first_biases, x);
    for (weights, biases) in &equations.inner {
        units = layer(weights, biases, &units);
    }
    let mean = dot(equations.mean_weights.row(j), &units) + equations.mean_biases[j];
    let log_scale = dot(equations.scale_weights.row(j), &units) + equations.scale_biases[j];
    let residual = (x[j] - mean) / log_scale.exp();
    -0.5 * residual * residual - log_scale - 0.5 * std::f64::consts::TAU.ln()
}

/// The loss of rows: −log density of every variable that the row's environment does not act on, per row and variable.
fn loss(equations: &NetworkEquations, data: &Dataset, rows: &[usize]) -> f64 {
    let d = data.dim();
    let environment = |row: usize| data.offsets().partition_point(|&at| at <= row) - 1;
    let of = |row: usize| {
        let free = (0..d).filter(|&j| !data.targets()[(environment(row), j)]);
        free.map(|j| -log_density(equations, j, data.samples().row(row))).sum::<f64>()
    };
    rows.iter().map(|&row| of(row)).sum::<f64>() / (rows.len() * d) as f64
}

#[derive(Deserialize)]
struct Golden {
    networks: Vec<GoldenNetworks>,
}

#[derive(Deserialize)]
struct GoldenNetworks {
    d: usize,
    hidden: usize,
    first_weights: Vec<f64>,
    first_biases: Vec<f64>,
    inner: Vec<(Vec<f64>, Vec<f64>)>,
    mean_weights: Vec<f64>,
    mean_biases: Vec<f64>,
    scale_weights: Vec<f64>,
    scale_biases: Vec<f64>,
    x: Vec<f64>,
    /// Rows × d.
    log_densities: Vec<f64>,
}

#[test]
fn densities_are_those_of_an_independent_program() {
    let golden: Golden = serde_json::from_str(include_str!("../golden/networks.json")).unwrap();
    for g in golden.networks {
        let (d, h) = (g.d, g.hidden);
        let matrix = |rows, cols, values: &[f64]| Matrix::from_rows(rows, cols, values.to_vec());
        let equations = NetworkEquations {
            slope: 0.01,
            first_weights: matrix(d * h, d, &g.first_weights),
            first_biases: matrix(d, h, &g.first_biases),
            inner: g.inner.iter().map(|(w, b)| (matrix(d * h, h, w), matrix(d, h, b))).collect(),
            mean_weights: matrix(d, h, &g.mean_weights),
            mean_biases: g.mean_biases,
            scale_weights: matrix(d, h, &g.scale_weights),
            scale_biases: g.scale_biases,
        };
        for (x, expected) in g.x.chunks(d).zip(g.log_densities.chunks(d)) {
            for (j, expected) in expected.iter().enumerate() {
                let found = log_density(&equations, j, x);
                assert!((found - expected).abs() < 1e-10 * (1.0 + expected.abs()), "{found}, not {expected}");
            }
        }
    }
}

/// The equations returned are the networks that were trained: their loss of the validation rows is the same.
fn returned_equations<T: Scalar>(layers: usize, hidden: usize, tolerance: f64) {
    let mut rng_of_data = rng(3);
    let data = Truth::random(5, 0.5, true, &mut rng_of_data).data(60, &mut rng_of_data);
    let settings = DcdiSettings { layers, hidden, steps: 600, ..perfect() };
    let outcome = train::<T>(&data, &settings, 4, &Progress::default()).unwrap();
    let rows: Vec<usize> =
        Rows::split(&data, &mut rng(4)).validation_parts(1000).flatten().copied().collect();
    assert_eq!(rows.len(), 72);
    let found = loss(&outcome.equations, &data, &rows);
    let expected = outcome.validation;
    assert!((found - expected).abs() < tolerance * expected.abs(), "{found}, not {expected}");
    let first = &outcome.equations.first_weights;
    for j in 0..5 {
        for i in 0..5 {
            let acts = (0..hidden).any(|k| first[(j * hidden + k, i)] != 0.0);
            assert_eq!(acts, outcome.edges[(j, i)]);
        }
    }
}

#[test]
fn equations_are_those_trained() {
    returned_equations::<f64>(1, 8, 1e-12);
    returned_equations::<f64>(3, 5, 1e-12);
    returned_equations::<f32>(2, 9, 1e-5);
}

#[test]
fn finds_graphs_of_data_it_assumes() {
    let (mut all, mut wrong) = (0, [0; 3]);
    for (seed, curved) in [(1, false), (2, true), (3, false), (4, true)] {
        let mut rng = rng(seed);
        let truth = Truth::random(5, 0.5, curved, &mut rng);
        let data = truth.data(1000, &mut rng);
        let outcome = learn(&data, &DcdiSettings { steps: 40_000, ..perfect() }, seed);
        all += truth.weights.as_slice().iter().filter(|&&w| w != 0.0).count();
        let errors = truth.errors(&outcome.edges);
        (0..3).for_each(|n| wrong[n] += errors[n]);
    }
    assert!(all >= 15, "{all} edges");
    assert!(wrong.iter().sum::<usize>() <= 2, "of {all} edges, missed, extra and reversed are {wrong:?}");
}

/// With a strong penalty nothing remains, and the scales are those of the data.
#[test]
fn penalty_removes_edges() {
    let mut rng = rng(5);
    let data = Truth::random(4, 0.7, false, &mut rng).data(500, &mut rng);
    let settings = DcdiSettings { sparsity: 1000.0, steps: 60_000, ..perfect() };
    let outcome = learn(&data, &settings, 1);
    assert!(!outcome.edges.as_slice().contains(&true));
    assert!(outcome.was_acyclic && outcome.fixed_at < outcome.steps && outcome.steps < 60_000);
    for j in 0..4 {
        let free = (0..5).filter(|&e| !data.targets()[(e, j)]);
        let values: Vec<f64> = free.flat_map(|e| data.rows(e)).map(|s| data.samples()[(s, j)]).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
        let found = outcome.equations.scale_biases[j];
        assert!((found - 0.5 * variance.ln()).abs() < 0.05, "{found}, not {}", 0.5 * variance.ln());
    }
}

#[test]
fn same_bytes_with_any_number_of_threads() {
    let mut rng = rng(6);
    let data = Truth::random(12, 0.3, true, &mut rng).data(40, &mut rng);
    let settings = DcdiSettings { steps: 300, ..DcdiSettings::default() };
    let with = |threads: usize, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| fit(&data, &settings, seed, &Progress::default()).unwrap())
    };
    let one = with(1, 1);
    assert_eq!(one, with(2, 1));
    assert_eq!(one, with(3, 1));
    assert_ne!(one, with(1, 2));
}

#[test]
fn odd_data() {
    let settings = DcdiSettings { steps: 400, ..DcdiSettings::default() };
    let run = |environments: Vec<Matrix<f64>>, targets: &[&[usize]], interventions| {
        let (count, d) = (environments.len(), environments[0].cols());
        let targets = Matrix::from_fn(count, d, |e, j| targets[e].contains(&j));
        let data = Dataset::from_environments(environments).unwrap().with_targets(targets).unwrap();
        let settings = DcdiSettings { interventions, ..settings.clone() };
        fit(&data, &settings, 1, &Progress::default()).unwrap()
    };
    let wave = |rows, cols| Matrix::from_fn(rows, cols, |s, j| ((3 * s + 5 * j) as f64).sin());
    for kind in [Interventions::Perfect, Interventions::Imperfect] {
        run(vec![wave(2, 1)], &[&[]], kind);
        run(vec![wave(2, 2)], &[&[]], kind);
        run(vec![wave(30, 3), wave(2, 3)], &[&[], &[0, 1, 2]], kind);
        // Every environment acts on variable 0.
        run(vec![wave(30, 3), wave(20, 3)], &[&[0], &[0, 1]], kind);
        let constant = run(vec![Matrix::full(40, 3, 0.0), Matrix::full(40, 3, 1.5)], &[&[], &[1]], kind);
        assert!(constant.scale_biases.iter().all(|v| v.is_finite()));
    }
    let wide = Dataset::from_environments(vec![Matrix::full(2, 301, 0.0)]).unwrap();
    let error = fit(&wide, &settings, 1, &Progress::default()).unwrap_err().to_string();
    assert_eq!(error, "the number of variables is 301, expected at most 300");
    let huge = Dataset::from_environments(vec![Matrix::full(9, 2, 1e200)]).unwrap();
    let error = fit(&huge, &settings, 1, &Progress::default()).unwrap_err();
    assert!(matches!(error, Error::NonFinite(_)), "{error}");
}

#[test]
fn stops_and_counts() {
    let data = standardized(&Truth::random(6, 0.4, false, &mut rng(7)).data(50, &mut rng(8)));
    let settings = DcdiSettings { steps: 200, ..DcdiSettings::default() };
    let progress = Progress::default();
    fit(&data, &settings, 1, &progress).unwrap();
    assert_eq!(progress.done(), settings.work(&data));
    progress.stop();
    assert!(matches!(fit(&data, &settings, 1, &progress), Err(Error::Stopped)));
}

#[test]
fn settings_are_checked_and_written() {
    type Spoil = fn(&mut DcdiSettings);
    let wrong: [(Spoil, &str); 7] = [
        (|s| s.layers = 0, "layers is 0, expected at least 1"),
        (|s| s.hidden = 0, "hidden is 0, expected at least 1"),
        (|s| s.batch = 0, "batch is 0, expected at least 1"),
        (|s| s.sparsity = -1.0, "sparsity is -1, expected 0 to 1e6"),
        (|s| s.rate = f64::NAN, "rate is NaN, expected a number above 0, at most 1"),
        (|s| s.steps = 3, "steps is 3, expected 10 to 100000000"),
        (|s| s.patience = 0, "patience is 0, expected 1 to 100000"),
    ];
    for (spoil, sentence) in wrong {
        let mut settings = DcdiSettings::default();
        spoil(&mut settings);
        assert_eq!(settings.check().unwrap_err().to_string(), sentence);
    }
    assert!(DcdiSettings::default().check().is_ok());
    let text = serde_json::to_string(&perfect()).unwrap();
    assert!(text.contains("\"interventions\":\"perfect\""), "{text}");
    assert_eq!(serde_json::from_str::<DcdiSettings>(&text).unwrap(), perfect());
    assert_eq!(serde_json::from_str::<DcdiSettings>("{}").unwrap(), DcdiSettings::default());
    assert!(serde_json::from_str::<DcdiSettings>("{\"lambda\":1}").is_err());
}
