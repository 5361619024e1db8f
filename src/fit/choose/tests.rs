use super::*;
use crate::data::Dataset;
use crate::fit::CandidateSet;
use crate::kernel::KernelKind;
use crate::model::PenaltyKind;
use crate::numeric::dense::Lu;
use crate::objective::Estimator;
use crate::solve::moments::{Moments, no_effects};
use crate::{Matrix, Progress};

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
    assert_eq!((few.parts_of(0), few.parts_of(1)), (vec![1], vec![2]));
    // Beyond ten, groups; neighbours are apart.
    let many = Folds::of(&Matrix::from_fn(26, 30, |e, j| e > 0 && e == j));
    assert_eq!(many.left_out.len(), 10);
    assert_eq!(many.left_out[0], [1, 11, 21]);
    let mut all = many.left_out.concat();
    all.sort_unstable();
    assert_eq!(all, (1..26).collect::<Vec<_>>());
    // Parts have no gap if every environment is left out once.
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
    let context = FitContext {
        targets: &targets,
        multipliers: None,
        penalty: PenaltyKind::Ingoing,
        learn_scale: false,
        kernel: KernelKind::TiltedRbf,
        pairs: Estimator::V,
        gpu: None,
    };
    let candidates = Candidate::by_moments(CandidateSet::All, true);
    let scores = Scores::by_moments(&context, &moments, &folds, candidates, &progress).unwrap();
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
