//! Comparison with the package.
//!
//! `golden/problems.json` holds 26 random linear problems of 4 to 12 variables (actions that set or shift variables, on random
//! targets, or none, in up to five environments), as means and scatter matrices, and what the PyPI package `gies` 0.0.3 finds
//! with numpy 2.4.6. Its local score was given the three kinds of intercepts; its own is `environment`.
//!
//! The package asks for more than the paper where it turns a line (C, not only C \ N, apart from N \ C), and so misses moves.
//! In these problems it finds the same with either condition.

use super::super::search::search;
use super::super::settings::{GiesSettings, Intercepts};
use super::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Problem {
    seed: u64,
    dim: usize,
    intercepts: Intercepts,
    lambda: Option<f64>,
    targets: Vec<Vec<usize>>,
    environments: Vec<Moments>,
    graph: Vec<Vec<u8>>,
    score: f64,
}

#[derive(Deserialize)]
struct Moments {
    rows: usize,
    means: Vec<f64>,
    /// The lower half.
    scatter: Vec<Vec<f64>>,
}

impl Problem {
    fn environments(&self) -> Vec<Environment> {
        let with = |(moments, targets): (&Moments, &Vec<usize>)| Environment {
            rows: moments.rows,
            means: moments.means.clone(),
            scatter: Matrix::from_fn(self.dim, self.dim, |i, j| moments.scatter[i.max(j)][i.min(j)]),
            targets: Set::of(self.dim, targets.iter().copied()),
        };
        self.environments.iter().zip(&self.targets).map(with).collect()
    }

    fn settings(&self) -> GiesSettings {
        GiesSettings { lambda: self.lambda, intercepts: self.intercepts, ..GiesSettings::default() }
    }
}

fn matrix_of(graph: &Graph) -> Vec<Vec<u8>> {
    let entry =
        |i: usize, j: usize| u8::from(graph.children(i).contains(j) || graph.neighbors(i).contains(j));
    (0..graph.dim()).map(|i| (0..graph.dim()).map(|j| entry(i, j)).collect()).collect()
}

#[test]
fn graphs_and_scores_are_those_of_the_package() {
    let problems: Vec<Problem> = serde_json::from_str(include_str!("../golden/problems.json")).unwrap();
    assert_eq!(problems.len(), 26);
    for problem in &problems {
        let found = search(&problem.environments(), &problem.settings(), &Progress::default(), 1).unwrap();
        let seed = problem.seed;
        let error = (found.score - problem.score).abs() / problem.score.abs();
        assert!(error <= 1e-9, "problem {seed}: {} and {}", found.score, problem.score);
        assert_eq!(matrix_of(&found.graph), problem.graph, "problem {seed}");
    }
}
