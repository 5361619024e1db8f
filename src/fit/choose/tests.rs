use super::*;
use crate::data::{Dataset, Standardization};
use crate::solve::moments::Moments;
use crate::{Matrix, Progress};
use std::path::Path;

fn errors(train: &Dataset, test: &Dataset, response: &faer::Mat<f64>) -> f64 {
    let rest = train.means(0);
    let all: Vec<f64> = (0..test.environments())
        .map(|e| {
            let told: Vec<usize> = (0..test.dim()).filter(|&j| test.targets()[(e, j)]).collect();
            let change: Vec<f64> = test.means(e).iter().zip(&rest).map(|(a, b)| a - b).collect();
            let predicted = score::effects(response, &told, &change);
            predicted.iter().zip(&change).map(|(p, c)| (p - c).powi(2)).sum::<f64>() / test.dim() as f64
        })
        .collect();
    crate::evaluate::median(&all)
}

#[test]
#[ignore = "a study of folders, by hand"]
fn study() {
    let folders = std::env::var("SKDS_STUDY").unwrap();
    let mut table: Vec<[f64; 4]> = Vec::new();
    for folder in folders.split_whitespace() {
        let read = |name: &str| Dataset::read(&Path::new(folder).join(name), None).unwrap();
        let (train, test) = (read("train.npz"), read("test.npz"));
        let units = Standardization::of(&train);
        let (train, test) = (units.apply(&train), units.apply(&test));
        let start = std::time::Instant::now();
        let targets = train.targets().clone();
        let folds = Folds::of(&targets);
        let progress = Progress::default();
        let moments = Moments::of(&train, &folds.parts, &progress).unwrap();
        let whole = Paths::fit(&moments, &targets, &[], None, None, &progress).unwrap();
        let first = start.elapsed().as_secs_f64();
        let scores = Scores::of(&moments, &targets, &folds, &whole, None, &progress).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        let all: Vec<usize> = (0..scores.environments.len()).collect();
        if std::env::var("SKDS_ERRORS").is_ok() {
            for (candidate, errors) in scores.candidates.iter().zip(&scores.errors) {
                let row: Vec<String> = errors.iter().map(|e| format!("{e:.1}")).collect();
                println!(
                    "{} {} {:.2} [{}]",
                    candidate.method,
                    candidate.lambda,
                    errors.iter().sum::<f64>() / errors.len() as f64,
                    row.join(" ")
                );
            }
        }
        let weights = scores.weights(&all);
        let responses: Vec<faer::Mat<f64>> =
            whole.weights.iter().map(|w| crate::dense::Lu::of(w.view()).inverse()).collect();
        let by: Vec<f64> = responses.iter().map(|r| errors(&train, &test, r)).collect();
        let d = train.dim();
        // Averaged responses to one shift, and averaged effects.
        let mut mean = faer::Mat::<f64>::zeros(d, d);
        for (response, weight) in responses.iter().zip(&weights) {
            for i in 0..d {
                for j in 0..d {
                    mean[(i, j)] += weight * response[(i, j)];
                }
            }
        }
        let chosen = errors(&train, &test, &mean);
        let effects = faer::Mat::from_fn(d, d, |i, j| {
            responses.iter().zip(&weights).map(|(r, w)| w * r[(i, j)] / r[(j, j)]).sum::<f64>()
        });
        let averaged = errors(&train, &test, &effects);
        let best = by.iter().copied().fold(f64::INFINITY, f64::min);
        let outlook = scores.outlook();
        let members: Vec<String> = scores
            .candidates
            .iter()
            .zip(&weights)
            .filter(|(_, w)| **w > 0.0)
            .map(|(c, w)| format!("{} {} {w:.2}", c.method, c.lambda))
            .collect();
        println!(
            "{folder}: none {:.3} response {chosen:.3} effects {averaged:.3} best {best:.3} expected {:.2} [{:.2} {:.2}]; {first:.2} {seconds:.2} s; {}",
            by[by.len() - 1],
            outlook.ratio,
            outlook.interval.0,
            outlook.interval.1,
            members.join(", ")
        );
        table.push([by[by.len() - 1], chosen, averaged, best]);
    }
    let column = |k: usize| crate::evaluate::median(&table.iter().map(|row| row[k]).collect::<Vec<_>>());
    println!(
        "median: none {:.3} response {:.3} effects {:.3} best {:.3}",
        column(0),
        column(1),
        column(2),
        column(3)
    );
    let _ = Matrix::full(1, 1, 0.0);
}

#[test]
#[ignore = "debug"]
fn debug() {
    let train = Dataset::read(Path::new("/tmp/study/sde-sf-406/train.npz"), None).unwrap();
    let units = Standardization::of(&train);
    let train = units.apply(&train);
    let targets = train.targets().clone();
    let folds = Folds::of(&targets);
    println!("{:?} {:?}", folds.parts, folds.left_out);
    let progress = Progress::default();
    let moments = Moments::of(&train, &folds.parts, &progress).unwrap();
    let whole = Paths::fit(&moments, &targets, &[], None, None, &progress).unwrap();
    for (fold, e) in [(0usize, 1usize), (6, 7)] {
        let paths =
            Paths::fit(&moments, &targets, &[folds.part(fold)], Some(&whole), None, &progress).unwrap();
        let keep: Vec<usize> = (0..train.environments()).filter(|&k| k != e).collect();
        let less = Dataset::from_environments(keep.iter().map(|&k| train.environment(k)).collect()).unwrap();
        let fewer = Matrix::from_fn(keep.len(), train.dim(), |k, j| targets[(keep[k], j)]);
        let parts: Vec<usize> = (0..keep.len()).collect();
        let alone = Moments::of(&less, &parts, &progress).unwrap();
        let other = Paths::fit(&alone, &fewer, &[], None, None, &progress).unwrap();
        for k in 0..paths.weights.len() {
            let gap = paths.weights[k]
                .as_slice()
                .iter()
                .zip(other.weights[k].as_slice())
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f64::max);
            let far = whole.weights[k]
                .as_slice()
                .iter()
                .zip(other.weights[k].as_slice())
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f64::max);
            println!("{e} {k} gap {gap:.2e} from whole {far:.2e}");
        }
    }
    let out: Vec<String> = whole.weights[3].as_slice().iter().map(|w| format!("{w}")).collect();
    std::fs::write("/tmp/study/whole.txt", out.join(" ")).unwrap();
}
