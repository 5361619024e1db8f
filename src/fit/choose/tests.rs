use super::*;
use crate::data::{Dataset, Standardization};
use crate::dense::Lu;
use crate::solve::moments::{Moments, no_effects};
use crate::{Matrix, Progress};
use std::path::Path;

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
        let members: Vec<(f64, &Lu)> = weights
            .iter()
            .zip(&lus)
            .filter_map(|(&weight, lu)| lu.as_ref().map(|lu| (weight, lu)))
            .collect();
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
