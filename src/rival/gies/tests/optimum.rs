//! The search against all DAGs of four variables.

use super::super::essential::{essential_graph, separated};
use super::super::moves::best_move;
use super::super::score::Score;
use super::super::search::search;
use super::super::settings::{GiesSettings, Phase};
use super::super::statistics::Statistics;
use super::super::upper::UpperBounds;
use super::*;

fn families() -> [Vec<Set>; 4] {
    [
        sets(4, &[&[]]),
        sets(4, &[&[], &[1]]),
        sets(4, &[&[], &[0, 2], &[3]]),
        sets(4, &[&[], &[0], &[1], &[2], &[3]]),
    ]
}

#[test]
fn it_finds_the_best_of_all_dags_and_the_class_of_the_true_one() {
    let settings = GiesSettings::default();
    let (mut optimal, mut true_class, mut total) = (0, 0, 0);
    for targets in families() {
        let catalogue = Catalogue::new(4, &targets);
        for seed in 0..10 {
            let (data, truth) = simulate(4, 0.5, &targets, 2000, seed);
            let environments = environments(&data);
            let statistics =
                Statistics::new(&environments, settings.intercepts, &Progress::default()).unwrap();
            let mut score = Score::new(&statistics, None);
            let all = catalogue.class_of.keys().map(|&code| score.total(&graph_of(4, code)).unwrap());
            let best = all.fold(f64::NEG_INFINITY, f64::max);
            let found = search(&environments, &settings, &Progress::default(), 1).unwrap();
            assert!(found.score <= best + 1e-9);
            total += 1;
            optimal += usize::from(found.score >= best - 1e-9);
            true_class += usize::from(found.graph == essential_graph(&truth, &separated(4, &targets)));
        }
    }
    assert_eq!(optimal, total);
    // BIC itself prefers another class now and then.
    assert!(true_class >= total * 9 / 10, "{true_class} of {total}");
}

#[test]
fn each_phase_does_its_part() {
    let targets = sets(8, &[&[]]);
    let phases = [Phase::Forward, Phase::Backward, Phase::Turning];
    let (mut with_backward, mut with_turning, mut with_repeats) = (0, 0, 0);
    for seed in 0..40 {
        let (data, _) = simulate(8, 0.5, &targets, 200, seed);
        let environments = environments(&data);
        let score = |count: usize, repeat: bool| {
            let phases = phases[..count].to_vec();
            let settings = GiesSettings { phases, repeat, ..GiesSettings::default() };
            search(&environments, &settings, &Progress::default(), 1).unwrap().score
        };
        let scores = [score(1, false), score(2, false), score(3, false), score(3, true)];
        assert!(scores.windows(2).all(|pair| pair[1] >= pair[0] - 1e-9), "{scores:?}");
        with_backward += usize::from(scores[1] > scores[0] + 1e-6);
        with_turning += usize::from(scores[2] > scores[1] + 1e-6);
        with_repeats += usize::from(scores[3] > scores[2] + 1e-6);
    }
    assert!(
        with_backward > 0 && with_turning > 0 && with_repeats > 0,
        "{with_backward} {with_turning} {with_repeats}"
    );
}

#[test]
fn bounds_of_earlier_graphs_leave_out_no_move() {
    let progress = Progress::default();
    let mut steps = 0;
    for targets in [sets(9, &[&[]]), sets(9, &[&[], &[3], &[1, 7]])] {
        let (data, _) = simulate(9, 0.5, &targets, 150, 11);
        let environments = environments(&data);
        let statistics =
            Statistics::new(&environments, GiesSettings::default().intercepts, &progress).unwrap();
        let (mut score, separated) = (Score::new(&statistics, None), separated(9, &targets));
        let (mut graph, mut kept) = (Graph::empty(9), UpperBounds::new(9));
        for phase in [Phase::Forward, Phase::Backward, Phase::Turning, Phase::Forward] {
            loop {
                let fresh = &mut UpperBounds::new(9);
                let expected = best_move(&graph, phase, &mut score, 1e-3, fresh, &progress).unwrap();
                let found = best_move(&graph, phase, &mut score, 1e-3, &mut kept, &progress).unwrap();
                assert_eq!(found, expected);
                let Some(found) = found else { break };
                let next = essential_graph(&found.apply(&graph), &separated);
                kept.graph_changed(&graph, &next);
                graph = next;
                steps += 1;
            }
        }
    }
    assert!(steps > 20);
}

#[test]
fn a_larger_penalty_leaves_fewer_arrows() {
    let (data, _) = simulate(6, 0.6, &sets(6, &[&[], &[2]]), 200, 5);
    let count = |lambda: f64| {
        let settings = GiesSettings { lambda: Some(lambda), ..GiesSettings::default() };
        let found = search(&environments(&data), &settings, &Progress::default(), 1).unwrap();
        found.graph.arrows().len() + found.graph.lines().len()
    };
    // Without a penalty everything is joined.
    assert_eq!([count(0.0), count(1e6)], [15, 0]);
    assert!((1..15).contains(&count(5.0)));
}
