//! Essential graphs, extensions and moves against all DAGs of up to five variables.

use super::super::essential::{consistent_extension, essential_graph, separated};
use super::super::moves::all_moves;
use super::super::score::Score;
use super::super::settings::{Intercepts, Phase};
use super::super::statistics::Statistics;
use super::*;

/// Families of targets with the number of variables to try them with.
fn families() -> Vec<(usize, Vec<Set>)> {
    vec![
        (2, sets(2, &[&[], &[1]])),
        (3, sets(3, &[&[]])),
        (4, sets(4, &[&[]])),
        (4, sets(4, &[&[], &[2]])),
        (4, sets(4, &[&[], &[0, 3]])),
        (4, sets(4, &[&[0], &[1, 2]])),
        (4, sets(4, &[&[], &[0], &[1], &[2], &[3]])),
    ]
}

/// The families and one more: without actions, five variables are the fewest with all kinds of turns.
fn larger_families() -> Vec<(usize, Vec<Set>)> {
    families().into_iter().chain([(5, sets(5, &[&[]]))]).collect()
}

#[test]
fn essential_graphs_are_those_of_all_dags() {
    let mut lines = 0;
    for (dim, targets) in larger_families() {
        let (catalogue, separated) = (Catalogue::new(dim, &targets), separated(dim, &targets));
        assert_eq!(catalogue.len(), [1, 1, 3, 25, 543, 29281][dim]);
        if targets.len() == 1 {
            // Andersson, Madigan and Perlman (1997) count so many classes.
            assert_eq!(catalogue.classes.len(), [1, 1, 2, 11, 185, 8782][dim]);
        }
        for (class, codes) in catalogue.classes.iter().enumerate() {
            let expected = catalogue.essential_graph(class);
            lines += expected.lines().len();
            for &code in codes {
                assert_eq!(
                    essential_graph(&graph_of(dim, code), &separated),
                    expected,
                    "{targets:?} {code:b}"
                );
            }
        }
    }
    assert!(lines > 1000);
}

#[test]
fn extensions_belong_to_the_class_and_reach_all_of_it() {
    for (dim, targets) in families() {
        let catalogue = Catalogue::new(dim, &targets);
        let orders = orders(dim);
        for (class, codes) in catalogue.classes.iter().enumerate() {
            let graph = catalogue.essential_graph(class);
            let seen: BTreeSet<u64> = orders.iter().map(|order| extension(&graph, order)).collect();
            assert_eq!(seen, codes.iter().copied().collect(), "{targets:?} class {class}");
        }
    }
}

#[test]
fn a_graph_without_an_extension_has_none() {
    let mut cycle = Graph::empty(4);
    [(0, 1), (1, 2), (2, 3), (3, 0)].into_iter().for_each(|(a, b)| cycle.set_line(a, b));
    assert_eq!(consistent_extension(&cycle, &[0, 1, 2, 3]), None);
}

/// The classes that one arrow more, less or turned leads to from any DAG of a class.
fn reachable(catalogue: &Catalogue, class: usize, phase: Phase) -> BTreeSet<usize> {
    let dim = catalogue.dim;
    let mut reached = BTreeSet::new();
    for &code in &catalogue.classes[class] {
        for (a, b) in (0..dim).flat_map(|a| (0..dim).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            let (there, back) = (arrow(dim, a, b), arrow(dim, b, a));
            let changed = match phase {
                Phase::Forward if code & (there | back) == 0 => code | there,
                Phase::Backward if code & there != 0 => code & !there,
                Phase::Turning if code & back != 0 => code & !back | there,
                _ => continue,
            };
            reached.extend(catalogue.class_of.get(&changed).filter(|&&c| c != class));
        }
    }
    reached
}

#[test]
fn moves_reach_all_classes_next_to_a_class_and_gain_what_the_score_does() {
    let progress = Progress::default();
    let (mut most, mut turned_lines) = (0.0f64, 0);
    for (dim, targets) in larger_families() {
        let catalogue = Catalogue::new(dim, &targets);
        let (data, _) = simulate(dim, 0.5, &targets, 30, 7);
        let statistics = Statistics::new(&environments(&data), Intercepts::None, &progress).unwrap();
        let mut score = Score::new(&statistics, None);
        for (class, codes) in catalogue.classes.iter().enumerate() {
            let graph = catalogue.essential_graph(class);
            let before = score.total(&graph_of(dim, codes[0])).unwrap();
            for phase in [Phase::Forward, Phase::Backward, Phase::Turning] {
                let mut found = BTreeSet::new();
                for step in all_moves(&graph, phase, &mut score).unwrap() {
                    let dag = step.apply(&graph);
                    let code = code_of(&dag);
                    let to = *catalogue.class_of.get(&code).expect("a move leads to a DAG");
                    found.insert(to);
                    let gain = score.total(&dag).unwrap() - before;
                    most = most.max((gain - step.gain).abs());
                    turned_lines += usize::from(
                        phase == Phase::Turning && graph.neighbors(step.source).contains(step.target),
                    );
                }
                assert_eq!(found, reachable(&catalogue, class, phase), "{targets:?} {graph:?} {phase:?}");
            }
        }
    }
    assert!(most < 1e-9, "a gain differs from the difference of scores by {most:e}");
    assert!(turned_lines > 1000);
}

/// u = 0 and v = 1 with the common neighbors 2 and 3; v and 4 with the common neighbors 2 and 5.
///
/// Turning u — v with C = {2, 4} leads to the collider of u and 4 in v, and so does turning 4 — v with C = {0, 2}. Each leaves a
/// common neighbor out of C that is joined with 2. That does no harm, because 2 is a common neighbor itself; the PyPI package
/// `gies` 0.0.3 does neither.
#[test]
fn a_line_turns_beside_its_common_neighbors() {
    let (dim, mut graph) = (6, Graph::empty(6));
    let lines = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (4, 1), (4, 2), (5, 1), (5, 2), (5, 4)];
    lines.into_iter().for_each(|(a, b)| graph.set_line(a, b));
    let separated = separated(dim, &[]);
    let mut expected = BTreeSet::new();
    for code in orders(dim).iter().map(|order| extension(&graph, order)).collect::<BTreeSet<_>>() {
        assert_eq!(essential_graph(&graph_of(dim, code), &separated), graph);
        for (a, b) in arrows(dim, code) {
            let turned = code & !arrow(dim, a, b) | arrow(dim, b, a);
            if is_acyclic(dim, turned) {
                expected.insert(essential_graph(&graph_of(dim, turned), &separated));
            }
        }
    }
    expected.remove(&graph);
    let (data, _) = simulate(dim, 0.5, &[Set::empty(dim)], 30, 7);
    let statistics = Statistics::new(&environments(&data), Intercepts::None, &Progress::default()).unwrap();
    let moves = all_moves(&graph, Phase::Turning, &mut Score::new(&statistics, None)).unwrap();
    let found = moves.iter().map(|step| essential_graph(&step.apply(&graph), &separated)).collect();
    assert_eq!(expected, found);
    let is_there = |u, c| moves.iter().any(|m| (m.source, m.target) == (u, 1) && m.clique == Set::of(dim, c));
    assert!(is_there(0, [2, 4]) && is_there(4, [0, 2]));
}

#[test]
fn all_dags_of_a_class_have_the_same_score() {
    for intercepts in [Intercepts::None, Intercepts::Pooled, Intercepts::Environment] {
        for (dim, targets) in families() {
            let (data, _) = simulate(dim, 0.5, &targets, 40, 3);
            let statistics = Statistics::new(&environments(&data), intercepts, &Progress::default()).unwrap();
            let mut score = Score::new(&statistics, None);
            let catalogue = Catalogue::new(dim, &targets);
            let mut scores = Vec::new();
            for codes in &catalogue.classes {
                let all: Vec<f64> =
                    codes.iter().map(|&code| score.total(&graph_of(dim, code)).unwrap()).collect();
                assert!(all.iter().all(|s| (s - all[0]).abs() < 1e-9), "{targets:?} {all:?}");
                scores.push(all[0]);
            }
            // The comparison can tell classes apart.
            scores.sort_by(f64::total_cmp);
            assert!(scores.windows(2).all(|pair| pair[1] - pair[0] > 1e-9));
        }
    }
}
