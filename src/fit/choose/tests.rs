use super::*;
use crate::data::{Dataset, Standardization};
use crate::dense::Lu;
use crate::solve::moments::{Moments, no_effects};
use crate::{Matrix, Progress};
use std::path::Path;

fn targets(environments: &[&[usize]], d: usize) -> Matrix<bool> {
    Matrix::from_fn(environments.len(), d, |e, j| environments[e].contains(&j))
}

#[test]
fn every_intervention_is_left_out_once() {
    let few = Folds::of(&targets(&[&[], &[0], &[1], &[]], 2));
    assert_eq!(
        (few.left_out.as_slice(), few.parts.as_slice()),
        ([vec![1], vec![2]].as_slice(), [0, 1, 2, 0].as_slice())
    );
    assert_eq!((few.part(0), few.part(1)), (1, 2));
    // Beyond ten, groups; neighbours are apart.
    let many = Folds::of(&Matrix::from_fn(26, 30, |e, j| e > 0 && e == j));
    assert_eq!(many.left_out.len(), 10);
    assert_eq!(many.left_out[0], [1, 11, 21]);
    let mut all = many.left_out.concat();
    all.sort_unstable();
    assert_eq!(all, (1..26).collect::<Vec<_>>());
    // Parts have no gap where nobody is always there.
    assert_eq!(Folds::of(&targets(&[&[0], &[1]], 2)).parts, [0, 1]);
    assert!(Folds::of(&targets(&[&[], &[]], 2)).left_out.is_empty());
}

/// Two variables, of which the first drives the second twice as strongly as it changes itself: 3 environments.
fn small() -> (Dataset, Matrix<bool>) {
    let rows = |shift: f64, other: f64| {
        Matrix::from_fn(40, 2, |i, j| {
            let (a, b) = ((i as f64 * 0.7).sin(), (i as f64 * 1.9).cos());
            if j == 0 { a + shift } else { 2.0 * (a + shift) + b + other }
        })
    };
    let targets = targets(&[&[], &[0], &[1]], 2);
    let data = Dataset::from_environments(vec![rows(0.0, 0.0), rows(1.5, 0.0), rows(0.0, 2.0)]).unwrap();
    (data.with_targets(targets.clone()).unwrap(), targets)
}

#[test]
fn errors_are_those_of_the_others_means() {
    let (data, targets) = small();
    let progress = Progress::default();
    let folds = Folds::of(&targets);
    let moments = Moments::of(&data, &folds.parts, &progress).unwrap();
    let scores = Scores::of(&moments, &targets, &folds, None, &progress).unwrap();
    assert_eq!(scores.environments, [1, 2]);
    assert_eq!(progress.done() as usize, folds.left_out.len() * scores.candidates.len());
    let none = scores.candidates.len() - 1;
    for (k, (other, change)) in [(1, 3.0f64), (0, 0.0)].into_iter().enumerate() {
        let e = scores.environments[k];
        let noise: f64 =
            (0..2).map(|j| moments.error_of_mean(e, j) + moments.error_of_mean(0, j)).sum::<f64>() / 2.0;
        assert!((moments.mean(e)[other] - moments.mean(0)[other] - change).abs() < 1e-9);
        assert!((scores.errors[none][k] - (change * change + noise).ln()).abs() < 1e-9);
    }
    let weights = scores.weights(&[0, 1]);
    assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    // Only those are fitted to all that have a weight, with what is above them on the path.
    let whole = Paths::fit(&moments, &targets, &weights, None, &progress).unwrap();
    for (weight, fitted) in weights.iter().zip(&whole.weights) {
        assert_eq!(*weight > 0.0, fitted.is_some());
    }
}

#[test]
fn effects_are_those_of_the_shifts_that_move_the_targets() {
    // x₁ = 2 x₀ + …: W = −I with w₁₀ = 2, and −W⁻¹ has the column (1, 2).
    let mut weights = no_effects(2);
    weights[(1, 0)] = 2.0;
    let lu = Lu::of(weights.view());
    assert_eq!(score::effects(&lu, &[0], &[1.5, 9.0]), [1.5, 3.0]);
    assert_eq!(score::effects(&lu, &[1], &[9.0, 1.5]), [0.0, 1.5]);
    assert_eq!(score::effects(&lu, &[0, 1], &[1.0, 5.0]), [1.0, 5.0]);
}

/// Errors of averaged effects, median over environments.
fn errors(rest: &[f64], test: &Dataset, members: &[(f64, &Lu)]) -> f64 {
    let all: Vec<f64> = (0..test.environments())
        .map(|e| {
            let told: Vec<usize> = (0..test.dim()).filter(|&j| test.targets()[(e, j)]).collect();
            let change: Vec<f64> = test.means(e).iter().zip(rest).map(|(a, b)| a - b).collect();
            let mut predicted = vec![0.0; test.dim()];
            for (weight, lu) in members {
                let effects = score::effects(lu, &told, &change);
                predicted.iter_mut().zip(effects).for_each(|(sum, effect)| *sum += weight * effect);
            }
            predicted.iter().zip(&change).map(|(p, c)| (p - c).powi(2)).sum::<f64>() / test.dim() as f64
        })
        .collect();
    crate::evaluate::median(&all)
}

/// Folders of SKDS_STUDY with train.npz and test.npz: medians of errors of means without effects, by the choice, and by the best
/// candidate in hindsight. With SKDS_ERRORS the scores of all candidates, with SKDS_ALL fits of all of them.
#[test]
#[ignore = "a study of folders, by hand"]
fn study() {
    let folders = std::env::var("SKDS_STUDY").unwrap();
    let mut table: Vec<[f64; 3]> = Vec::new();
    for folder in folders.split_whitespace() {
        let read = |name: &str| Dataset::read(&Path::new(folder).join(name), None).unwrap();
        let (train, test) = (read("train.npz"), read("test.npz"));
        let units = Standardization::of(&train);
        let (train, test) = (units.apply(&train), units.apply(&test));
        let targets = train.targets().clone();
        let progress = Progress::default();
        let start = std::time::Instant::now();
        let folds = Folds::of(&targets);
        let moments = Moments::of(&train, &folds.parts, &progress).unwrap();
        let gathered = start.elapsed().as_secs_f64();
        let scores = Scores::of(&moments, &targets, &folds, None, &progress).unwrap();
        let scored = start.elapsed().as_secs_f64();
        let all: Vec<usize> = (0..scores.environments.len()).collect();
        let mut weights = scores.weights(&all);
        if std::env::var("SKDS_ALL").is_ok() {
            weights.iter_mut().for_each(|weight| *weight = weight.max(f64::MIN_POSITIVE));
        }
        let whole = Paths::fit(&moments, &targets, &weights, None, &progress).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        let outlook = scores.outlook();
        let rest = train.means(0);
        let lus: Vec<Option<Lu>> =
            whole.weights.iter().map(|w| w.as_ref().map(|w| Lu::of(w.view()))).collect();
        let alone = |lu: &Lu| errors(&rest, &test, &[(1.0, lu)]);
        let by: Vec<Option<f64>> = lus.iter().map(|lu| lu.as_ref().map(alone)).collect();
        if std::env::var("SKDS_ERRORS").is_ok() {
            for (c, candidate) in scores.candidates.iter().enumerate() {
                let score = scores.score(c, &all).unwrap_or(f64::NAN);
                let entries = whole.weights[c]
                    .as_ref()
                    .map_or(0, |w| w.as_slice().iter().filter(|w| **w != 0.0).count());
                let error = by[c].unwrap_or(f64::NAN);
                println!(
                    "{} {} score {score:.2} error {error:.3} entries {entries}",
                    candidate.method, candidate.lambda
                );
            }
        }
        let none = errors(&rest, &test, &[(1.0, &Lu::of(no_effects(train.dim()).view()))]);
        let members: Vec<(f64, &Lu)> =
            weights.iter().zip(&lus).filter_map(|(&weight, lu)| lu.as_ref().map(|lu| (weight, lu))).collect();
        let chosen = errors(&rest, &test, &members);
        let best = by.iter().flatten().copied().fold(none, f64::min);
        let names: Vec<String> = scores
            .candidates
            .iter()
            .zip(&weights)
            .filter(|(_, w)| **w > f64::MIN_POSITIVE)
            .map(|(c, w)| format!("{} {} {w:.2}", c.method, c.lambda))
            .collect();
        println!(
            "{folder}: none {none:.3} effects {chosen:.3} best {best:.3} expected {:.2} [{:.2} {:.2}]; {gathered:.2} {scored:.2} {seconds:.2} s; {}",
            outlook.ratio,
            outlook.interval.0,
            outlook.interval.1,
            names.join(", ")
        );
        table.push([none, chosen, best]);
    }
    let column = |k: usize| crate::evaluate::median(&table.iter().map(|row| row[k]).collect::<Vec<_>>());
    println!("median: none {:.3} effects {:.3} best {:.3}", column(0), column(1), column(2));
}

/// Files of SKDS_REAL: each intervention is left out, everything is chosen without it, and its means are predicted; squared errors
/// over those of no effect, geometric mean.
#[test]
#[ignore = "a study of real data, by hand"]
fn real() {
    for file in std::env::var("SKDS_REAL").unwrap().split_whitespace() {
        let data = Dataset::read(Path::new(file), None).unwrap();
        let mut logs = Vec::new();
        for e in (0..data.environments()).filter(|&e| data.targets().row(e).contains(&true)) {
            let keep: Vec<usize> = (0..data.environments()).filter(|&k| k != e).collect();
            let targets = Matrix::from_fn(keep.len(), data.dim(), |k, j| data.targets()[(keep[k], j)]);
            let environments = keep.iter().map(|&k| data.environment(k)).collect();
            let train =
                Dataset::from_environments(environments).unwrap().with_targets(targets.clone()).unwrap();
            let units = Standardization::of(&train);
            let (train, all) = (units.apply(&train), units.apply(&data));
            let progress = Progress::default();
            let folds = Folds::of(&targets);
            let moments = Moments::of(&train, &folds.parts, &progress).unwrap();
            let scores = Scores::of(&moments, &targets, &folds, None, &progress).unwrap();
            let weights = scores.weights(&(0..scores.environments.len()).collect::<Vec<_>>());
            let whole = Paths::fit(&moments, &targets, &weights, None, &progress).unwrap();
            let told: Vec<usize> = (0..all.dim()).filter(|&j| all.targets()[(e, j)]).collect();
            let change: Vec<f64> =
                all.means(e).iter().zip(train.means(0)).map(|(now, before)| now - before).collect();
            let mut predicted = vec![0.0; all.dim()];
            for (weight, w) in weights.iter().zip(&whole.weights) {
                let Some(w) = w else { continue };
                let effects = score::effects(&Lu::of(w.view()), &told, &change);
                predicted.iter_mut().zip(effects).for_each(|(sum, effect)| *sum += weight * effect);
            }
            let others = || (0..all.dim()).filter(|j| !told.contains(j));
            let error: f64 = others().map(|j| (predicted[j] - change[j]).powi(2)).sum();
            let none: f64 = others().map(|j| change[j].powi(2)).sum();
            logs.push((error / none).ln());
            println!("{file} without {e}: {:.3}", error / none);
        }
        println!("{file}: {:.3}", (logs.iter().sum::<f64>() / logs.len() as f64).exp());
    }
}
