//! Gradients against differences of the loss, in f64 with fixed noise and relaxed edges.

use super::super::Interventions;
use super::super::batch::Batch;
use super::super::network::Shape;
use super::super::noise::{Edges, Noise, draw, draw_values};
use super::super::train::Graph;
use super::super::variable::{Scratch, Step, Variable};
use super::rng;
use crate::Matrix;
use crate::data::Dataset;
use rand::RngExt;

/// Central differences of this width are accurate to its square.
const WIDTH: f64 = 1e-5;
const TOLERANCE: f64 = 2e-7;

/// Two observational environments and two that act on variables 0 and 2, and on 2.
fn data() -> Dataset {
    let mut rng = rng(5);
    let sizes = [9, 7, 12, 5];
    let mut samples = |n: usize| Matrix::from_fn(n, 4, |_, _| 4.0 * rng.random::<f64>() - 2.0);
    let environments = sizes.map(&mut samples).to_vec();
    let targets = Matrix::from_fn(4, 4, |e, j| (e == 2 && (j == 0 || j == 2)) || (e == 3 && j == 2));
    Dataset::from_environments(environments).unwrap().with_targets(targets).unwrap()
}

struct Case {
    batch: Batch<f64>,
    graph: Graph,
    shape: Shape,
}

impl Case {
    fn new(layers: usize, hidden: usize, count: usize) -> (Self, Dataset) {
        let data = data();
        let mut batch = Batch::new(&data, 33);
        let rows: Vec<usize> = (0..count).collect();
        batch.fill(&data, &rows);
        let mut graph = Graph::new(4);
        let mut rng = rng(6);
        graph.set(Matrix::from_fn(4, 4, |_, _| 3.0 * rng.random::<f64>() - 1.5));
        (Case { batch, graph, shape: Shape { inputs: 4, hidden, layers } }, data)
    }

    fn step(&self) -> Step<'_, f64> {
        Step {
            batch: &self.batch,
            present: &self.graph.present,
            absent: &self.graph.absent,
            share: 0.1,
            edges: Edges::Relaxed,
        }
    }

    /// The loss and the gradient by logits, at a copy of the variable: its noise is always the same.
    fn loss(&self, variable: &Variable<f64>) -> (f64, Vec<f64>, Variable<f64>) {
        let mut copy = variable.clone();
        let mut by_logit = vec![0.0; 4];
        let mut space = Scratch::new(self.shape, self.batch.groups);
        let loss = copy.gradient(&self.step(), &mut by_logit, &mut space);
        (loss, by_logit, copy)
    }
}

#[track_caller]
fn agree(what: &str, analytic: f64, difference: f64) {
    let error = (analytic - difference).abs();
    assert!(
        error <= TOLERANCE * (1.0 + difference.abs()),
        "{what}: {analytic} here, {difference} by differences"
    );
}

fn check(layers: usize, hidden: usize, count: usize, interventions: Interventions) {
    let (mut case, data) = Case::new(layers, hidden, count);
    for j in 0..4 {
        let mut variable = Variable::new(&data, j, case.shape, interventions, &mut rng(7 + j as u64));
        variable.log_scale = -0.3;
        let biases = case.shape.first_biases();
        for mechanism in &mut variable.mechanisms {
            mechanism.parameters[biases] = 0.2;
        }
        let (_, by_logit, learned) = case.loss(&variable);
        let difference = |change: &dyn Fn(&mut Variable<f64>, f64)| {
            let at = |by: f64| {
                let mut moved = variable.clone();
                change(&mut moved, by);
                case.loss(&moved).0
            };
            (at(WIDTH) - at(-WIDTH)) / (2.0 * WIDTH)
        };
        let mut nonzero = 0;
        for (m, mechanism) in learned.mechanisms.iter().enumerate() {
            for (n, &gradient) in mechanism.gradient.iter().enumerate() {
                let expected = difference(&|v, by| v.mechanisms[m].parameters[n] += by);
                let padding = variable.mechanisms[m].parameters[n] == 0.0 && gradient == 0.0;
                nonzero += usize::from(gradient != 0.0);
                if !padding {
                    agree(&format!("variable {j}, mechanism {m}, parameter {n}"), gradient, expected);
                }
            }
        }
        let least = hidden * 3 + hidden;
        assert!(nonzero >= least, "{nonzero} of at least {least} gradients are not 0");
        agree("scale", learned.log_scale_gradient, difference(&|v, by| v.log_scale += by));
        let mut logits =
            Matrix::from_fn(4, 4, |a, b| (case.graph.present[(a, b)] / case.graph.absent[(a, b)]).ln());
        for i in (0..4).filter(|&i| i != j) {
            let mut at = |by: f64| {
                let kept = logits[(j, i)];
                logits[(j, i)] = kept + by;
                case.graph.set(logits.clone());
                logits[(j, i)] = kept;
                case.loss(&variable).0
            };
            let difference = (at(WIDTH) - at(-WIDTH)) / (2.0 * WIDTH);
            at(0.0);
            assert!(by_logit[i] != 0.0);
            agree(&format!("logit {i} to {j}"), by_logit[i], difference);
        }
    }
}

#[test]
fn one_layer() {
    check(1, 8, 33, Interventions::Imperfect);
}

#[test]
fn padded_units_and_samples() {
    check(1, 5, 29, Interventions::Imperfect);
    check(1, 11, 20, Interventions::Perfect);
}

#[test]
fn several_layers() {
    check(2, 8, 33, Interventions::Perfect);
    check(3, 3, 31, Interventions::Imperfect);
}

#[test]
fn penalties() {
    let mut graph = Graph::new(5);
    let mut rng = rng(8);
    let logits = Matrix::from_fn(5, 5, |_, _| 4.0 * rng.random::<f64>() - 2.0);
    let (sparsity, gamma, mu) = (0.7, 0.4, 30.0);
    let value = |graph: &mut Graph, logits: &Matrix<f64>| {
        graph.set(logits.clone());
        let h = graph.measure();
        (graph.sparsity_penalty(sparsity) + gamma * h + 0.5 * mu * h * h, h)
    };
    let (_, h) = value(&mut graph, &logits);
    let mut gradient = Matrix::full(5, 5, 0.0);
    graph.add_penalties(sparsity, gamma + mu * h, &mut gradient);
    for j in 0..5 {
        for i in 0..5 {
            let mut at = |by: f64| {
                let mut moved = logits.clone();
                moved[(j, i)] += by;
                value(&mut graph, &moved).0
            };
            agree(&format!("edge {i} to {j}"), gradient[(j, i)], (at(WIDTH) - at(-WIDTH)) / (2.0 * WIDTH));
            assert_eq!(gradient[(j, i)] == 0.0, i == j);
        }
    }
}

/// Sampled edges are 0 or 1 with the right frequencies, and have the slopes of relaxed ones.
#[test]
fn sampled_edges() {
    for (logit, groups) in [(0.0, 2000), (2.0, 2000), (-4.0, 8000)] {
        let present = 1.0 / (1.0 + f64::exp(-logit));
        let x = vec![[1.0f64; 16]; groups];
        let mut seen = [x.clone(), x.clone(), x.clone()];
        let mut slopes = [x.clone(), x.clone()];
        let mut u = vec![[0.0; 16]; groups];
        Noise::new(&mut rng(9)).fill(&mut u);
        let pair = (present, 1.0 - present);
        draw(&u, pair, Edges::Sampled, &x, &mut seen[0], &mut slopes[0]);
        draw(&u, pair, Edges::Relaxed, &x, &mut seen[1], &mut slopes[1]);
        draw_values(&u, pair, &x, &mut seen[2]);
        assert_eq!(slopes[0], slopes[1]);
        assert_eq!(seen[0], seen[2]);
        let count = (16 * groups) as f64;
        let mean = seen[0].as_flattened().iter().sum::<f64>() / count;
        let deviation = (present * (1.0 - present) / count).sqrt();
        assert!((mean - present).abs() < 4.0 * deviation, "{mean} of edges with probability {present}");
        let relaxed = seen[1].as_flattened();
        for (hard, soft) in seen[0].as_flattened().iter().zip(relaxed) {
            assert_eq!(*hard, f64::from(u8::from(*soft > 0.5)));
        }
        // The slope's mean is the derivative of E y, by differences with the same noise.
        let mean_at = |logit: f64| {
            let p = 1.0 / (1.0 + f64::exp(-logit));
            let (mut y, mut unused) = (x.clone(), x.clone());
            draw(&u, (p, 1.0 - p), Edges::Relaxed, &x, &mut y, &mut unused);
            y.as_flattened().iter().sum::<f64>()
        };
        let difference = (mean_at(logit + WIDTH) - mean_at(logit - WIDTH)) / (2.0 * WIDTH * count);
        agree("slope", slopes[0].as_flattened().iter().sum::<f64>() / count, difference);
    }
}

/// Lanes of a generator are independent, and its numbers uniform.
#[test]
fn uniform_numbers() {
    let mut noise = Noise::new(&mut rng(10));
    let (mut counts, mut product) = ([0usize; 64], 0.0);
    const ROUNDS: usize = 40_000;
    for _ in 0..ROUNDS {
        let u = noise.uniform();
        for l in 0..16 {
            assert!(u[l] > 0.0 && u[l] < 1.0);
            counts[(u[l] * 64.0) as usize] += 1;
            product += f64::from(u[l] - 0.5) * f64::from(u[(l + 1) % 16] - 0.5);
        }
    }
    let expected = (16 * ROUNDS / 64) as f64;
    let chi: f64 = counts.iter().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
    // 63 degrees of freedom: mean 63, deviation 11.
    assert!((20.0..120.0).contains(&chi), "{chi}");
    let correlation = 12.0 * product / (16 * ROUNDS) as f64;
    assert!(correlation.abs() < 5.0 / ((16 * ROUNDS) as f64).sqrt(), "{correlation}");
}
