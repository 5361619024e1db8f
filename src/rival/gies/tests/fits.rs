//! Fits of datasets.

use super::super::settings::{Intercepts, Phase};
use super::super::{GiesSettings, fit};
use super::*;
use crate::rival::LinearEquations;
use crate::{Error, Result};

fn fitted(data: &Dataset, seed: u64) -> Result<LinearEquations> {
    fit(data, &GiesSettings::default(), seed, &Progress::default())
}

fn singles(dim: usize) -> Vec<Set> {
    std::iter::once(Set::empty(dim)).chain((0..dim).map(|j| Set::of(dim, [j]))).collect()
}

fn is_finite(equations: &LinearEquations) -> bool {
    let [effects, others] = [equations.effects.as_slice(), &equations.intercepts[..]];
    effects.iter().chain(others).all(|v| v.is_finite())
        && equations.variances.iter().all(|v| v.is_finite() && *v > 0.0)
}

#[test]
fn equations_are_least_squares_on_a_dag_of_the_class() {
    let (data, truth) = simulate(6, 0.4, &singles(6), 3000, 1);
    let equations = fitted(&data, 0).unwrap();
    assert_eq!(equations.intercepts, vec![0.0; 6]);
    for j in 0..6 {
        for i in 0..6 {
            let effect = equations.effects[(j, i)];
            assert_eq!(effect != 0.0, truth.parents(j).contains(i), "{i} to {j}");
            assert!(effect == 0.0 || (0.5..1.5).contains(&effect.abs()));
        }
        assert!((equations.variances[j] - 1.0).abs() < 0.1);
        // Residuals are orthogonal to the parents where nothing acts on j.
        for parent in truth.parents(j).iter() {
            let rows =
                (0..data.environments()).filter(|&e| !data.targets()[(e, j)]).flat_map(|e| data.rows(e));
            let residual = |x: &[f64]| x[j] - (0..6).map(|i| equations.effects[(j, i)] * x[i]).sum::<f64>();
            let (product, count) = rows.fold((0.0, 0.0), |(sum, count), i| {
                let x = data.samples().row(i);
                (sum + residual(x) * x[parent], count + 1.0)
            });
            assert!((product / count).abs() < 1e-9);
        }
    }
}

#[test]
fn the_seed_alone_draws_the_dag() {
    let (data, _) = simulate(6, 0.4, &[Set::empty(6)], 500, 2);
    let fits: Vec<_> = (0..8).map(|seed| fitted(&data, seed).unwrap()).collect();
    assert!((0..8).all(|seed| fitted(&data, seed).unwrap() == fits[seed as usize]));
    assert!(fits.iter().any(|other| *other != fits[0]));
    // All DAGs of the class have the same likelihood: without interventions, the same product of variances.
    let logs = |fit: &LinearEquations| fit.variances.iter().map(|v| v.ln()).sum::<f64>();
    assert!(fits.iter().all(|other| (logs(other) - logs(&fits[0])).abs() < 0.1));
}

#[test]
fn odd_data_are_fitted() {
    let column = |values: &[f64], dim: usize, rows: usize| {
        Matrix::from_fn(rows, dim, |i, j| values[j] + if j == 1 { (i as f64).sin() } else { 0.0 })
    };
    let of = |environments: Vec<Matrix<f64>>, acts: &[&[usize]]| {
        let dim = environments[0].cols();
        let flags = Matrix::from_fn(acts.len(), dim, |e, j| acts[e].contains(&j));
        Dataset::from_environments(environments).unwrap().with_targets(flags).unwrap()
    };
    let (one, three) = (column(&[0.3], 1, 4), column(&[0.1, 0.0, -7.0], 3, 9));
    let same = Matrix::from_fn(40, 3, |i, j| if j < 2 { (i as f64).sin() } else { (i as f64 * 1.7).cos() });
    let scaled = Matrix::from_fn(40, 3, |i, j| ((i * (j + 3)) as f64).sin() * [1e-120, 1.0, 1e120][j]);
    let cases = [
        ("one constant variable", of(vec![one], &[&[]])),
        ("constants", of(vec![three.clone()], &[&[]])),
        ("constants that move", of(vec![three.clone(), column(&[2.0, 5.0, -7.0], 3, 2)], &[&[], &[0]])),
        ("two rows of five", of(vec![simulate(5, 0.5, &[Set::empty(5)], 2, 1).0.environment(0)], &[&[]])),
        ("acted on in all", of(vec![three.clone(), same.clone()], &[&[0], &[0, 1]])),
        ("everything acted on", of(vec![same.clone()], &[&[0, 1, 2]])),
        ("equal variables", of(vec![same.clone(), same], &[&[], &[2]])),
        ("zeros", of(vec![Matrix::full(5, 2, 0.0)], &[&[]])),
        ("scales", of(vec![scaled], &[&[]])),
    ];
    for (name, data) in &cases {
        for intercepts in [Intercepts::None, Intercepts::Pooled, Intercepts::Environment] {
            let settings = GiesSettings { intercepts, ..GiesSettings::default() };
            let found = fit(data, &settings, 1, &Progress::default());
            let found = found.unwrap_or_else(|e| panic!("{name}, {intercepts:?}: {e}"));
            assert!(is_finite(&found), "{name}, {intercepts:?}: {found:?}");
        }
    }
    let constant = of(vec![Matrix::full(4, 2, 1e200)], &[&[]]);
    let settings = GiesSettings { intercepts: Intercepts::Environment, ..GiesSettings::default() };
    let found = fit(&constant, &settings, 0, &Progress::default());
    assert!(matches!(found, Err(Error::NonFinite(_))), "{found:?}");
    let huge = of(vec![Matrix::from_fn(4, 2, |i, j| 1e200 * (i + j) as f64)], &[&[]]);
    assert!(matches!(fitted(&huge, 0), Err(Error::NonFinite(_))));
}

#[test]
fn equal_variables_do_not_explain_each_other_away() {
    let x = Matrix::from_fn(200, 3, |i, j| ((i * i + 3) as f64 * [0.37, 0.37, 1.3][j]).sin());
    let data = Dataset::from_environments(vec![x]).unwrap();
    let effects = fitted(&data, 0).unwrap().effects;
    assert!((effects[(0, 1)] + effects[(1, 0)] - 1.0).abs() < 1e-6, "{effects:?}");
}

#[test]
fn progress_ends_at_the_work_and_a_stop_stops() {
    let (data, _) = simulate(6, 0.4, &singles(6), 100, 3);
    let settings = GiesSettings::default();
    let progress = Progress::default();
    fit(&data, &settings, 0, &progress).unwrap();
    assert_eq!(progress.done(), settings.work(&data));
    let stopped = Progress::default();
    stopped.stop();
    assert!(matches!(fit(&data, &settings, 0, &stopped), Err(Error::Stopped)));
}

#[test]
fn settings_are_checked_and_read_by_name() {
    let default = GiesSettings::default();
    default.check().unwrap();
    let text = r#"{"lambda": 2.5, "phases": ["turning", "forward"], "intercepts": "environment"}"#;
    let read: GiesSettings = serde_json::from_str(text).unwrap();
    let phases = vec![Phase::Turning, Phase::Forward];
    let expected =
        GiesSettings { lambda: Some(2.5), phases, intercepts: Intercepts::Environment, ..default.clone() };
    assert_eq!(read, expected);
    assert_eq!(serde_json::from_str::<GiesSettings>("{}").unwrap(), default);
    assert!(serde_json::from_str::<GiesSettings>(r#"{"lamda": 1}"#).is_err());
    let problem = |settings: GiesSettings| settings.check().unwrap_err().to_string();
    assert_eq!(
        problem(GiesSettings { lambda: Some(-1.0), ..default.clone() }),
        "the lambda is -1, expected a number of at least 0"
    );
    assert!(problem(GiesSettings { phases: vec![], ..default }).contains("the list of phases is empty"));
}
