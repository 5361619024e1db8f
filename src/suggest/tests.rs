use super::*;
use crate::fit::Settings;
use crate::simulate::{Settings as Simulated, simulate};

/// A system with interventions on some of its variables, and a model of it.
fn system() -> (Model, Dataset) {
    let settings = Simulated {
        dim: 8,
        rows: 120,
        train_envs: 4,
        test_envs: 4,
        edges: 2,
        seed: 905,
        ..Simulated::default()
    };
    let data = simulate(&settings, &Progress::default()).unwrap().train;
    let settings = Settings { objective: Some(crate::objective::Objective::Kds), ..Settings::default() };
    let model = crate::fit::fit(&data, &settings).unwrap().0;
    (model, data)
}

fn informative(count: usize, pairs: bool) -> Question {
    Question { aim: Aim::Information { refits: 4 }, count, pairs, seed: 1 }
}

fn ask(model: &Model, data: &Dataset, question: &Question) -> Suggestions {
    let progress = Progress::default();
    let found = suggest(model, data, None, question, &progress).unwrap();
    assert_eq!(progress.done(), work(model, data, question).unwrap());
    found
}

#[test]
fn what_was_made_is_not_suggested_and_scores_fall() {
    let (model, data) = system();
    let found = ask(&model, &data, &informative(100, false));
    let perturbed: Vec<&String> =
        (0..8).filter(|&j| (0..5).any(|e| data.targets()[(e, j)])).map(|j| &data.names()[j]).collect();
    assert_eq!((found.candidates, found.suggestions.len()), (8 - perturbed.len(), 8 - perturbed.len()));
    for suggestion in &found.suggestions {
        assert!(!perturbed.contains(&&suggestion.targets[0]), "{suggestion:?}");
        assert!(suggestion.score > 0.0 && !suggestion.levels[0].observed);
    }
    assert!(found.suggestions.windows(2).all(|pair| pair[0].score >= pair[1].score));
    assert_eq!(ask(&model, &data, &informative(100, false)), found);
    assert_eq!(ask(&model, &data, &informative(2, false)).suggestions, found.suggestions[..2]);
    let pairs = ask(&model, &data, &informative(100, true));
    assert_eq!(pairs.candidates, found.candidates + 28);
}

#[test]
fn the_score_is_the_variance_between_refits() {
    let (model, data) = system();
    let best = ask(&model, &data, &informative(1, false)).suggestions.remove(0);
    let j = model.variable(&best.targets[0]).unwrap();
    let models = refits(&model, &data, None, 4, 1, &Progress::default()).unwrap();
    let (rest, deviations) = moments(&data.environment(data.observational().unwrap()));
    // By hand, from the front door's predictions.
    let changes: Vec<Vec<f64>> = models
        .iter()
        .map(|model| {
            let action = crate::Do::set(best.targets[0].clone(), best.levels[0].mean);
            let means = model.predict(&data, &action).unwrap().means();
            (0..8).map(|i| (means[i] - rest[i]) / deviations[i]).collect()
        })
        .collect();
    let variance = |i: usize| {
        let mean = changes.iter().map(|change| change[i]).sum::<f64>() / 4.0;
        changes.iter().map(|change| (change[i] - mean).powi(2)).sum::<f64>() / 3.0
    };
    let expected = (0..8).filter(|i| *i != j).map(variance).sum::<f64>() / 7.0;
    assert!((best.score / expected - 1.0).abs() < 1e-9, "{} {expected}", best.score);
}

#[test]
fn a_state_is_reached_by_the_perturbation_that_makes_it() {
    let (model, data) = system();
    let levels = Levels::of(&data).unwrap();
    let free = ask(&model, &data, &informative(100, false)).suggestions;
    // The state that the model predicts under a perturbation nobody made: all means but its own.
    let target = model.variable(&free[1].targets[0]).unwrap();
    let action = crate::Do::set(free[1].targets[0].clone(), levels.level(target).unwrap().mean);
    let means = model.predict(&data, &action).unwrap().means();
    let others: Vec<usize> = (0..8).filter(|&j| j != target).collect();
    let wanted = TargetMeans { means: others.iter().map(|&j| means[j]).collect(), targets: others };
    let question = Question { aim: Aim::State(wanted), count: 3, pairs: true, seed: 0 };
    let found = ask(&model, &data, &question).suggestions;
    assert_eq!(found[0].targets, free[1].targets);
    assert!(found[0].score < 1e-12 && found[1].score > found[0].score, "{found:?}");
}

#[test]
fn questions_without_an_answer_are_refused() {
    let (model, data) = system();
    let refused = |model: &Model, question: &Question| {
        suggest(model, &data, None, question, &Progress::default()).unwrap_err().to_string()
    };
    assert!(refused(&model, &informative(0, false)).contains("0 suggestions are asked for"));
    let one = Question { aim: Aim::Information { refits: 1 }, ..informative(1, false) };
    assert!(refused(&model, &one).contains("1 refits are asked for, expected 2 to"));
    let state = |targets: Vec<usize>, means: Vec<f64>| Question {
        aim: Aim::State(TargetMeans { targets, means }),
        ..informative(1, false)
    };
    assert!(refused(&model, &state(vec![], vec![])).contains("names no variable"));
    let rest = data.means(data.observational().unwrap());
    assert!(refused(&model, &state(vec![2], vec![rest[2]])).contains("has the wanted means already"));
    let unfitted = Model { named: true, names: model.names.clone(), ..Model::new(model.parameters.clone()) };
    assert!(refused(&unfitted, &informative(1, false)).contains("was not fitted by skds"));
    let mut trained = model.clone();
    trained.settings = [("solver".into(), "adam".into()), ("lambda".into(), 0.1.into())].into();
    assert!(refused(&trained, &informative(1, false)).contains("was trained by adam"));
}

#[test]
fn pairs_are_made_of_the_best_whether_they_were_perturbed_or_not() {
    // Every variable was perturbed alone, and only the last one leads to the wanted state.
    let d = 45;
    let rows = |target: Option<usize>| {
        crate::Matrix::from_fn(6, d, |i, j| {
            ((i * 7 + j * 3) as f64).sin() - if target == Some(j) { 2.0 } else { 0.0 }
        })
    };
    let environments = (0..=d).map(|e| rows(e.checked_sub(1))).collect();
    let data = Dataset::from_environments(environments)
        .unwrap()
        .with_targets(crate::Matrix::from_fn(d + 1, d, |e, j| e == j + 1))
        .unwrap();
    let weights = crate::Matrix::from_fn(d, d, |i, j| if i == j { -1.0 } else { 0.0 });
    let model = Model::new(crate::model::Parameters {
        drift: crate::model::Drift::linear(weights),
        biases: vec![0.0; d],
        noise: crate::model::Noise::Diagonal { log_noise: vec![0.0; d] },
        shift: None,
        log_scale: None,
    });
    let wanted = TargetMeans { targets: vec![d - 1], means: vec![-2.0] };
    let mut question = Question { aim: Aim::State(wanted), count: 5, pairs: true, seed: 0 };
    let found = ask(&model, &data, &question);
    assert_eq!(found.candidates, 40 * 39 / 2);
    assert!(found.suggestions.iter().all(|found| found.targets.contains(&"x44".to_owned())), "{found:?}");
    question.pairs = false;
    let sentence = suggest(&model, &data, None, &question, &Progress::default()).unwrap_err().to_string();
    assert!(sentence.contains("the data has every perturbation that could be suggested"), "{sentence}");
}
