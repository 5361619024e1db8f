//! The training loop.

use super::DcdiSettings;
use super::acyclic::{Acyclicity, break_cycles, is_acyclic, likely_edges};
use super::batch::{Batch, Rows};
use super::lagrangian::{Lagrangian, WINDOW};
use super::network::{SLOPE, Shape};
use super::noise::Edges;
use super::optimizer::descend;
use super::variable::{Scratch, Step, Variable};
use crate::data::Dataset;
use crate::numeric::simd::dispatch;
use crate::numeric::tasks;
use crate::rival::NetworkEquations;
use crate::{Error, Matrix, Progress, Result, Scalar};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Logits at the beginning: edges are almost surely present.
const FIRST_LOGIT: f64 = 5.0;
/// Cycles count as gone when the measure is at most this.
const MOST_VIOLATION: f64 = 1e-8;
/// Steps between two checks whether validation still improves.
const CHECK: u64 = 1000;

/// Equations and how they came about.
#[cfg_attr(not(test), allow(dead_code))] // Tests look at all of it.
pub(super) struct Outcome {
    pub equations: NetworkEquations,
    /// Row j: whether each variable acts on j.
    pub edges: Matrix<bool>,
    /// Steps in all.
    pub steps: u64,
    /// The step at which the graph was fixed.
    pub fixed_at: u64,
    /// Whether the edges with p > ½ had no cycle then.
    pub was_acyclic: bool,
    /// The loss of the validation rows at the end.
    pub validation: f64,
}

/// The probabilities of the edges and what moves them.
pub(super) struct Graph {
    logits: Matrix<f64>,
    gradient: Matrix<f64>,
    squares: Matrix<f64>,
    pub present: Matrix<f64>,
    pub absent: Matrix<f64>,
    acyclicity: Acyclicity,
}

impl Graph {
    pub(super) fn new(dim: usize) -> Self {
        let zeros = Matrix::full(dim, dim, 0.0);
        let mut graph = Graph {
            logits: Matrix::full(dim, dim, FIRST_LOGIT),
            gradient: zeros.clone(),
            squares: zeros.clone(),
            present: zeros.clone(),
            absent: zeros,
            acyclicity: Acyclicity::new(dim),
        };
        graph.refresh();
        graph
    }

    /// Recomputes the probabilities.
    fn refresh(&mut self) {
        let d = self.logits.rows();
        for (n, &logit) in self.logits.as_slice().iter().enumerate() {
            let diagonal = n % (d + 1) == 0;
            self.present.as_mut_slice()[n] = if diagonal { 0.0 } else { 1.0 / (1.0 + Scalar::exp(-logit)) };
            self.absent.as_mut_slice()[n] = if diagonal { 1.0 } else { 1.0 / (1.0 + Scalar::exp(logit)) };
        }
    }

    /// Sets logits, for tests.
    #[cfg(test)]
    pub(super) fn set(&mut self, logits: Matrix<f64>) {
        self.logits = logits;
        self.refresh();
    }

    /// Adds the gradient of (λ/d²) Σ p + `slope` · h to `gradient`, at the probabilities h was last measured at.
    pub(super) fn add_penalties(&self, sparsity: f64, slope: f64, gradient: &mut Matrix<f64>) {
        let d = self.logits.rows();
        for j in 0..d {
            for i in (0..d).filter(|&i| i != j) {
                let by_probability = sparsity / (d * d) as f64 + slope * self.acyclicity.slope(j, i);
                gradient[(j, i)] += by_probability * self.present[(j, i)] * self.absent[(j, i)];
            }
        }
    }

    /// The measure of cycles.
    pub(super) fn measure(&mut self) -> f64 {
        self.acyclicity.measure(&self.present)
    }

    /// (λ/d²) Σ p.
    pub(super) fn sparsity_penalty(&self, sparsity: f64) -> f64 {
        let d = self.logits.rows();
        sparsity * self.present.as_slice().iter().sum::<f64>() / (d * d) as f64
    }
}

/// Everything that learns.
struct Training<'a, T> {
    settings: &'a DcdiSettings,
    rows: Rows<'a>,
    size: usize,
    batch: Batch<T>,
    variables: Vec<Variable<T>>,
    graph: Graph,
    rng: ChaCha8Rng,
}

/// Learns the graph and the networks.
pub(super) fn train<T: Scalar>(
    data: &Dataset,
    settings: &DcdiSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Outcome> {
    let mut training = Training::<T>::new(data, settings, seed);
    let evaluation = 6 * data.dim() * data.dim() * settings.hidden * training.size * 100;
    tasks::enter(evaluation, || training.run(progress))
}

impl<'a, T: Scalar> Training<'a, T> {
    fn new(data: &'a Dataset, settings: &'a DcdiSettings, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let rows = Rows::split(data, &mut rng);
        let size = settings.batch.min(rows.training_count());
        let shape = Shape { inputs: data.dim(), hidden: settings.hidden, layers: settings.layers };
        let variable = |j| Variable::new(data, j, shape, settings.interventions, &mut rng);
        let variables = (0..data.dim()).map(variable).collect();
        let batch = Batch::new(data, size);
        Training { settings, rows, size, batch, variables, graph: Graph::new(data.dim()), rng }
    }

    fn run(&mut self, progress: &Progress) -> Result<Outcome> {
        let DcdiSettings { sparsity, steps, .. } = *self.settings;
        let search = steps - steps / 10;
        let mut lagrangian = Lagrangian::new();
        let mut searching = Patience::new(self.settings.patience);
        let mut refining = Patience::new(self.settings.patience);
        let mut acyclic = false;
        let mut fixed: Option<(u64, bool)> = None;
        let mut taken = 0;
        for step in 0..steps {
            progress.set(step)?;
            taken = step + 1;
            if fixed.is_some() {
                self.step(None, progress)?;
                if step % CHECK == 0 && refining.is_over(self.validate(progress)?) {
                    break;
                }
                continue;
            }
            let h = self.graph.measure();
            let penalty = self.graph.sparsity_penalty(sparsity) + lagrangian.penalty(h);
            self.step(Some(lagrangian.slope(h)), progress)?;
            if step % WINDOW == 0 {
                lagrangian.record(self.validate(progress)? + penalty);
                acyclic = is_acyclic(&likely_edges(&self.graph.present));
            }
            let mut over = step + 1 >= search;
            if h > MOST_VIOLATION || !acyclic {
                if step % (2 * WINDOW) == 0 && lagrangian.is_settled() {
                    lagrangian.tighten(h);
                    self.variables.iter_mut().for_each(Variable::restart);
                    self.graph.squares.as_mut_slice().fill(0.0);
                }
            } else if step % CHECK == 0 {
                over |= searching.is_over(lagrangian.last());
            }
            if over {
                fixed = Some((step, self.fix()));
            }
        }
        let (fixed_at, was_acyclic) = fixed.unwrap_or_else(|| (taken, self.fix()));
        let validation = self.validate(progress)?;
        Ok(self.outcome(taken, fixed_at, was_acyclic, validation))
    }

    /// One step: of everything if `slope` gives the derivative of the penalty by h, else of networks and scales alone.
    fn step(&mut self, slope: Option<f64>, progress: &Progress) -> Result<()> {
        let d = self.variables.len();
        self.batch.fill(self.rows.data(), self.rows.draw(self.size, &mut self.rng));
        let mut losses = vec![0.0; d];
        let step = Step {
            batch: &self.batch,
            present: &self.graph.present,
            absent: &self.graph.absent,
            share: 1.0 / (self.size * d) as f64,
            edges: Edges::Sampled,
        };
        let rate = self.settings.rate;
        let rows = self.graph.gradient.as_mut_slice().chunks_mut(d);
        each(
            &mut self.variables,
            losses.iter_mut().zip(rows),
            &self.batch,
            progress,
            #[inline(always)]
            |variable, (loss, row), space| {
                *loss = variable.gradient(&step, row, space);
                variable.descend(rate);
            },
        )?;
        let loss: f64 = losses.iter().sum();
        if !loss.is_finite() {
            return Err(Error::NonFinite(format!(
                "the loss of DCDI is {loss}: the learning rate {rate} is too high for these data, or a value is too large"
            )));
        }
        if let Some(slope) = slope {
            let mut gradient = std::mem::replace(&mut self.graph.gradient, Matrix::full(0, 0, 0.0));
            self.graph.add_penalties(self.settings.sparsity, slope, &mut gradient);
            let graph = &mut self.graph;
            let squares = graph.squares.as_mut_slice();
            descend(rate, graph.logits.as_mut_slice(), gradient.as_mut_slice(), squares);
            graph.gradient = gradient;
            graph.refresh();
        }
        Ok(())
    }

    /// The loss of the validation rows, without penalties.
    fn validate(&mut self, progress: &Progress) -> Result<f64> {
        let d = self.variables.len();
        let share = 1.0 / (self.rows.validation_count() * d) as f64;
        let mut batch = Batch::new(self.rows.data(), self.size);
        let mut losses = vec![0.0; d];
        for part in self.rows.validation_parts(self.size) {
            batch.fill(self.rows.data(), part);
            let step = Step {
                batch: &batch,
                present: &self.graph.present,
                absent: &self.graph.absent,
                share,
                edges: Edges::Sampled,
            };
            each(
                &mut self.variables,
                losses.iter_mut(),
                &batch,
                progress,
                #[inline(always)]
                |variable, loss, space| *loss += variable.value(&step, space),
            )?;
        }
        Ok(losses.iter().sum())
    }

    /// Keeps the edges with p > ½, and says whether they had no cycle.
    fn fix(&mut self) -> bool {
        let mut edges = likely_edges(&self.graph.present);
        let acyclic = is_acyclic(&edges);
        break_cycles(&mut edges, &self.graph.present);
        for (j, variable) in self.variables.iter_mut().enumerate() {
            variable.fix((0..edges.cols()).filter(|&i| edges[(j, i)]).collect());
        }
        acyclic
    }

    fn outcome(&self, steps: u64, fixed_at: u64, was_acyclic: bool, validation: f64) -> Outcome {
        let d = self.variables.len();
        let mut edges = Matrix::full(d, d, false);
        for (j, variable) in self.variables.iter().enumerate() {
            variable.parents().iter().for_each(|&i| edges[(j, i)] = true);
        }
        let equations = self.equations(&edges);
        Outcome { equations, edges, steps, fixed_at, was_acyclic, validation }
    }

    fn equations(&self, edges: &Matrix<bool>) -> NetworkEquations {
        let (d, shape) = (self.variables.len(), self.variables[0].shape);
        let (h, units) = (shape.hidden, shape.units());
        let at = |j: usize, n: usize| self.variables[j].mechanisms[0].parameters[n].to_f64();
        let first_weights = |row: usize, i: usize| {
            let (j, k) = (row / h, row % h);
            if edges[(j, i)] { at(j, i * units + k) } else { 0.0 }
        };
        let inner = |layer: usize| {
            let (weights, biases) = (shape.inner_weights(layer), shape.inner_biases(layer));
            (
                Matrix::from_fn(d * h, h, |row, i| at(row / h, weights + i * units + row % h)),
                Matrix::from_fn(d, h, |j, k| at(j, biases + k)),
            )
        };
        NetworkEquations {
            slope: SLOPE,
            first_weights: Matrix::from_fn(d * h, d, first_weights),
            first_biases: Matrix::from_fn(d, h, |j, k| at(j, shape.first_biases() + k)),
            inner: (1..shape.layers).map(inner).collect(),
            mean_weights: Matrix::from_fn(d, h, |j, k| at(j, shape.output_weights() + k)),
            mean_biases: (0..d).map(|j| at(j, shape.output_bias())).collect(),
            scale_weights: Matrix::full(d, h, 0.0),
            scale_biases: self.variables.iter().map(|variable| variable.log_scale).collect(),
        }
    }
}

/// Runs `f` for every variable, with one item each and scratch space, on several threads if it pays. To become vector code, `f` must
/// be inlined.
fn each<T: Scalar, I: Send>(
    variables: &mut [Variable<T>],
    items: impl Iterator<Item = I>,
    batch: &Batch<T>,
    progress: &Progress,
    f: impl Fn(&mut Variable<T>, I, &mut Scratch<T>) + Sync + Send,
) -> Result<()> {
    let shape = variables[0].shape;
    let work = 6 * shape.inputs * shape.inputs * shape.hidden * batch.count;
    let tasks: Vec<_> = variables.iter_mut().zip(items).collect();
    let scratch = || Scratch::new(shape, batch.groups);
    tasks::run_with(tasks, work, scratch, |space, (variable, item)| {
        if progress.check().is_ok() {
            dispatch(
                #[inline(always)]
                || f(variable, item, space),
            );
        }
    });
    // A stop may have left some variables out.
    progress.check()
}

/// Counts checks without a new least value.
struct Patience {
    least: f64,
    left: u64,
    most: u64,
}

impl Patience {
    fn new(most: u64) -> Self {
        Patience { least: f64::INFINITY, left: most, most }
    }

    /// Whether so many checks in a row, with this one, brought no new least value.
    fn is_over(&mut self, value: f64) -> bool {
        if value < self.least {
            self.least = value;
            self.left = self.most;
        } else {
            self.left -= 1;
        }
        self.left == 0
    }
}
