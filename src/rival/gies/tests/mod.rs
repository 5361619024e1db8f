//! Tests of the search, its moves and its classes.

mod classes;
mod fits;
mod golden;
mod optimum;

use super::essential::consistent_extension;
use super::graph::Graph;
use super::set::Set;
use super::statistics::Environment;
use crate::data::Dataset;
use crate::{Matrix, Progress};
use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// All DAGs of a few variables, in classes by definition: the same adjacencies, the same colliders a → c ← b with a, b apart,
/// and, for every target, the same adjacencies without the arrows into the target.
///
/// A DAG is a number: bit a·d + b is the arrow a → b.
struct Catalogue {
    dim: usize,
    class_of: HashMap<u64, usize>,
    classes: Vec<Vec<u64>>,
}

impl Catalogue {
    fn new(dim: usize, targets: &[Set]) -> Self {
        let pairs: Vec<(usize, usize)> = (0..dim).flat_map(|a| (0..a).map(move |b| (a, b))).collect();
        let mut classes = BTreeMap::new();
        for choice in 0..3u32.pow(pairs.len() as u32) {
            let code = pairs.iter().enumerate().fold(0, |code, (at, &(a, b))| {
                code | match choice / 3u32.pow(at as u32) % 3 {
                    0 => 0,
                    1 => arrow(dim, a, b),
                    _ => arrow(dim, b, a),
                }
            });
            if is_acyclic(dim, code) {
                classes.entry(properties(dim, code, targets)).or_insert_with(Vec::new).push(code);
            }
        }
        let classes: Vec<Vec<u64>> = classes.into_values().collect();
        let of = |(class, codes): (usize, &Vec<u64>)| {
            codes.iter().map(move |&code| (code, class)).collect::<Vec<_>>()
        };
        let class_of = classes.iter().enumerate().flat_map(of).collect();
        Catalogue { dim, class_of, classes }
    }

    /// The number of DAGs.
    fn len(&self) -> usize {
        self.class_of.len()
    }

    /// The graph with an arrow where all DAGs of a class have it, and a line where they differ.
    fn essential_graph(&self, class: usize) -> Graph {
        let all = self.classes[class].iter().fold(0, |all, code| all | code);
        let mut graph = Graph::empty(self.dim);
        for (a, b) in arrows(self.dim, all) {
            if all & arrow(self.dim, b, a) != 0 { graph.set_line(a, b) } else { graph.set_arrow(a, b) }
        }
        graph
    }
}

fn arrow(dim: usize, a: usize, b: usize) -> u64 {
    1 << (a * dim + b)
}

fn arrows(dim: usize, code: u64) -> Vec<(usize, usize)> {
    let all = (0..dim * dim).filter(|at| code >> at & 1 == 1);
    all.map(|at| (at / dim, at % dim)).collect()
}

fn is_acyclic(dim: usize, code: u64) -> bool {
    let mut left: Vec<usize> = (0..dim).collect();
    loop {
        let root = |&&b: &&usize| left.iter().all(|&a| code & arrow(dim, a, b) == 0);
        match left.iter().find(root) {
            Some(&b) => left.retain(|&a| a != b),
            None => return left.is_empty(),
        }
    }
}

/// Adjacencies, colliders, and adjacencies without the arrows into each target.
type Properties = (u64, u64, Vec<u64>);

fn properties(dim: usize, code: u64, targets: &[Set]) -> Properties {
    let has = |a: usize, b: usize| code & arrow(dim, a, b) != 0;
    let joined = |skip: &dyn Fn(usize) -> bool| {
        let kept = arrows(dim, code).into_iter().filter(|&(_, b)| !skip(b));
        kept.fold(0, |all, (a, b)| all | arrow(dim, a.min(b), a.max(b)))
    };
    let mut colliders = 0;
    for (b, c) in arrows(dim, code) {
        let others = (0..b).filter(|&a| has(a, c) && !has(a, b) && !has(b, a));
        colliders =
            others.fold(colliders, |all, a| all | 1 << (c * dim * (dim - 1) / 2 + b * (b - 1) / 2 + a));
    }
    let cut = targets.iter().map(|t| joined(&|b| t.contains(b))).collect();
    (joined(&|_| false), colliders, cut)
}

fn graph_of(dim: usize, code: u64) -> Graph {
    let mut graph = Graph::empty(dim);
    arrows(dim, code).into_iter().for_each(|(a, b)| graph.set_arrow(a, b));
    graph
}

fn code_of(dag: &Graph) -> u64 {
    assert!(dag.lines().is_empty());
    dag.arrows().into_iter().fold(0, |code, (a, b)| code | arrow(dag.dim(), a, b))
}

/// All orders of some variables.
fn orders(dim: usize) -> Vec<Vec<usize>> {
    let mut orders: Vec<Vec<usize>> = vec![vec![]];
    for i in 0..dim {
        let place =
            |order: Vec<usize>| (0..=order.len()).map(move |at| [&order[..at], &[i], &order[at..]].concat());
        orders = orders.into_iter().flat_map(place).collect();
    }
    orders
}

/// The DAG that [`consistent_extension`] makes of an essential graph with an order.
fn extension(graph: &Graph, order: &[usize]) -> u64 {
    let parents = consistent_extension(graph, order).unwrap();
    let into = |b: usize| parents[b].iter().fold(0, |code, &a| code | arrow(graph.dim(), a, b));
    (0..graph.dim()).fold(0, |code, b| code | into(b))
}

fn sets(dim: usize, targets: &[&[usize]]) -> Vec<Set> {
    targets.iter().map(|t| Set::of(dim, t.iter().copied())).collect()
}

/// Samples of a random linear DAG whose arrows go from lower to higher places in a random order.
///
/// In an environment, the variables that it acts on lose their causes and move by 2.
fn simulate(dim: usize, density: f64, targets: &[Set], rows: usize, seed: u64) -> (Dataset, Graph) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut order: Vec<usize> = (0..dim).collect();
    order.shuffle(&mut rng);
    let mut dag = Graph::empty(dim);
    let mut effects = Matrix::full(dim, dim, 0.0);
    for at in 0..dim {
        for before in 0..at {
            if rng.random_bool(density) {
                let sign = if rng.random_bool(0.5) { 1.0 } else { -1.0 };
                dag.set_arrow(order[before], order[at]);
                effects[(order[at], order[before])] = sign * rng.random_range(0.6..1.4);
            }
        }
    }
    let mut environment = |target: &Set| {
        let mut x = Matrix::full(rows, dim, 0.0);
        for i in 0..rows {
            for &j in &order {
                let noise = normal(&mut rng);
                let causes: f64 = (0..dim).map(|k| effects[(j, k)] * x[(i, k)]).sum();
                x[(i, j)] = if target.contains(j) { 2.0 + noise } else { causes + noise };
            }
        }
        x
    };
    let data = Dataset::from_environments(targets.iter().map(&mut environment).collect()).unwrap();
    let flags = Matrix::from_fn(targets.len(), dim, |e, j| targets[e].contains(j));
    (data.with_targets(flags).unwrap(), dag)
}

fn normal(rng: &mut impl Rng) -> f64 {
    let (u, v): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

fn environments(data: &Dataset) -> Vec<Environment> {
    Environment::all(data, &Progress::default()).unwrap()
}
