//! The paper's synthetic systems: graphs, linear diffusions and structural equations, gene regulatory networks, and
//! experiments on them.
//!
//! [`simulate`] draws a system, one observational environment and interventions on single variables, the targets of training
//! and test being different ones, and standardises everything by the observational environment.

mod graph;
mod linear;
mod range;
mod sergio;
mod write;

pub use graph::{GraphKind, causal_order, descendants};
pub use linear::LinearTruth;
pub use range::Range;
pub use sergio::{NoiseKind, SergioSettings, SergioTruth};

use crate::bounds::{room, step, within};
use crate::data::{Dataset, Standardization};
use crate::named::by_name;
use crate::named::named;
use crate::{Error, Matrix, Progress, Result};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Variables of a system.
const MOST_VARIABLES: usize = 10_000;
/// Rows of an environment.
const MOST_ROWS: usize = 100_000_000;
/// Steps of a simulation, for whatever they are.
const MOST_STEPS: usize = 1_000_000_000;

/// What is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// A linear diffusion.
    Sde,
    /// Linear structural equations.
    Scm,
    /// A gene regulatory network.
    Sergio,
}

named!(System, "system", { Sde => "sde", Scm => "scm", Sergio => "sergio" });

/// How a linear diffusion is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulation {
    /// From its Gaussian law.
    Exact,
    /// By Euler–Maruyama, as the paper has it.
    Euler,
}

named!(Simulation, "simulation", { Exact => "exact", Euler => "euler" });

/// Everything a simulation can be told, with the paper's defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What.
    #[serde(with = "by_name")]
    pub system: System,
    /// On which graph.
    #[serde(with = "by_name")]
    pub graph: GraphKind,
    /// Whether it has no cycles; gene regulatory networks never have.
    pub acyclic: bool,
    /// Variables.
    pub dim: usize,
    /// Samples of each environment.
    pub rows: usize,
    /// Training environments beside the observational one.
    pub train_envs: usize,
    /// Test environments.
    pub test_envs: usize,
    /// Edges expected per variable.
    pub edges: usize,
    /// The seed of every random choice.
    pub seed: u64,
    /// Of a block graph: how many blocks.
    pub blocks: usize,
    /// Of a block graph: the probability of an edge between blocks, over that within one.
    pub between: f64,
    /// Sizes of the weights of linear systems.
    pub weights: Range,
    /// How far below 0 the largest real part of their eigenvalues is put.
    pub margin: f64,
    /// Their biases.
    pub biases: Range,
    /// Logarithms of their noises.
    pub log_scales: Range,
    /// Sizes of their interventions.
    pub shifts: Range,
    /// How the diffusion is sampled.
    #[serde(with = "by_name")]
    pub simulate: Simulation,
    /// Euler–Maruyama: the length of a step.
    pub euler_dt: f64,
    /// Euler–Maruyama: samples that are thrown away.
    pub euler_burn_in: usize,
    /// Euler–Maruyama: steps from one sample to the next.
    pub euler_thin: usize,
    /// Gene regulatory networks.
    pub sergio: SergioSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            system: System::Sde,
            graph: GraphKind::Er,
            acyclic: false,
            dim: 20,
            rows: 1000,
            train_envs: 10,
            test_envs: 10,
            edges: 3,
            seed: 0,
            blocks: 5,
            between: 0.1,
            weights: Range { low: 1.0, high: 3.0 },
            margin: 0.5,
            biases: Range { low: -3.0, high: 3.0 },
            log_scales: Range { low: -1.0, high: 1.0 },
            shifts: Range { low: 5.0, high: 15.0 },
            simulate: Simulation::Exact,
            euler_dt: 0.01,
            euler_burn_in: 100,
            euler_thin: 500,
            sergio: SergioSettings::default(),
        }
    }
}

impl Settings {
    /// Checks every number.
    pub fn check(&self) -> Result<()> {
        let whole = [
            ("variables", self.dim, 2, MOST_VARIABLES),
            ("rows", self.rows, 2, MOST_ROWS),
            ("edges", self.edges, 1, MOST_VARIABLES),
            ("blocks", self.blocks, 0, MOST_VARIABLES),
        ];
        for (name, found, least, most) in whole {
            if found < least {
                return Err(Error::invalid(format!("found {found} {name}, expected at least {least}")));
            }
            if found > most {
                return Err(Error::invalid(format!("found {found} {name}, expected at most {most}")));
            }
        }
        within("euler_burn_in", self.euler_burn_in, 0, MOST_STEPS)?;
        if self.euler_thin == 0 {
            return Err(Error::invalid("found 0 steps from one sample to the next, expected at least 1"));
        }
        within("euler_thin", self.euler_thin, 1, MOST_STEPS)?;
        step("euler_dt", self.euler_dt)?;
        if self.train_envs.saturating_add(self.test_envs) > self.dim {
            return Err(Error::invalid(format!(
                "found {} training and {} test environments for {} variables, expected a variable of its own to intervene on in each",
                self.train_envs, self.test_envs, self.dim
            )));
        }
        if self.test_envs == 0 {
            return Err(Error::invalid("found 0 test environments, expected at least 1"));
        }
        let positive = [("margin", self.margin), ("between", self.between)];
        for (name, value) in positive {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::invalid(format!("{name} is {value}, expected a finite number above 0")));
            }
        }
        if self.graph == GraphKind::Sbm && (self.between > 1.0 || !(1..=self.dim).contains(&self.blocks)) {
            return Err(Error::invalid(format!(
                "found {} blocks with edges between them {} times as likely as within, expected 1 to {} and at most 1",
                self.blocks, self.between, self.dim
            )));
        }
        if self.weights.low < 0.0 || self.shifts.low < 0.0 {
            return Err(Error::invalid("sizes of weights or shifts are negative, expected at least 0"));
        }
        if self.system == System::Sergio {
            self.sergio.check(self.rows)?;
        }
        room(self.bytes(), || {
            let Settings { rows, dim, .. } = self;
            let environments = self.environments();
            match self.system {
                System::Sergio => format!(
                    "{} steps per cell of {} cell types and {rows} rows of {dim} genes",
                    self.sergio.steps_per_cell, self.sergio.cell_types
                ),
                _ => format!("{rows} rows of {dim} variables in {environments} environments"),
            }
        })
    }

    /// All of them.
    pub(crate) fn environments(&self) -> usize {
        self.train_envs.saturating_add(self.test_envs).saturating_add(1)
    }

    /// Bytes that it takes, roughly: samples as they are drawn, as they are grouped and in their units; matrices of the system;
    /// trajectories of as many environments as are simulated at once.
    pub(crate) fn bytes(&self) -> f64 {
        let (d, environments) = (self.dim as f64, self.environments() as f64);
        let samples = 24.0 * environments * self.rows as f64 * d;
        let at_once = (rayon::current_num_threads() as f64).min(environments);
        match self.system {
            System::Sergio => samples + 16.0 * d * d + at_once * 4.0 * d * self.sergio.numbers(self.rows),
            System::Sde | System::Scm => samples + at_once * 64.0 * d * d,
        }
    }

    /// Floating-point operations that it takes, or what takes as long.
    pub(crate) fn operations(&self) -> f64 {
        let (d, environments) = (self.dim as f64, self.environments() as f64);
        let rows = environments * self.rows as f64;
        match (self.system, self.simulate) {
            // A step of a gene takes a dozen nanoseconds.
            (System::Sergio, _) => environments * d * self.sergio.numbers(self.rows) * 500.0,
            (System::Sde, Simulation::Euler) => {
                let samples = rows + environments * linear::CHAINS as f64 * self.euler_burn_in as f64;
                samples * self.euler_thin as f64 * (2.0 * d * d + 50.0 * d)
            }
            _ => environments * 60.0 * d.powi(3) + rows * 2.0 * d * d,
        }
    }
}

/// The parameters that data came from.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameters {
    /// Of a linear system.
    Linear(LinearTruth),
    /// Of a gene regulatory network.
    Sergio(SergioTruth),
}

/// What is known of a simulated system.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// d × d, true at (j, i) if i acts on j.
    pub graph: Matrix<bool>,
    /// The parameters.
    pub parameters: Parameters,
    /// What the interventions of training were, E × d: shifts, or factors of production.
    pub train_interventions: Matrix<f64>,
    /// Those of the test.
    pub test_interventions: Matrix<f64>,
    /// From the system's units to the data's.
    pub units: Standardization,
}

/// A simulated system.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// Environment 0 is observational.
    pub train: Dataset,
    /// Interventions on other variables.
    pub test: Dataset,
    /// Where they came from.
    pub truth: Truth,
}

/// Random streams of one seed.
const GRAPH: u64 = 0;
const PARAMETERS: u64 = 1;
const INTERVENTIONS: u64 = 2;

/// Simulates a system and experiments on it. `progress` counts environments.
///
/// ```
/// use skds::simulate::{Settings, simulate};
///
/// let settings = Settings { dim: 6, rows: 50, train_envs: 3, test_envs: 3, edges: 2, ..Settings::default() };
/// let simulated = simulate(&settings, &Default::default())?;
/// assert_eq!((simulated.train.environments(), simulated.test.environments()), (4, 3));
/// # Ok::<(), skds::Error>(())
/// ```
pub fn simulate(settings: &Settings, progress: &Progress) -> Result<Simulated> {
    settings.check()?;
    let stream = |number: u64| {
        let mut rng = ChaCha8Rng::seed_from_u64(settings.seed);
        rng.set_stream(number);
        rng
    };
    let acyclic = settings.acyclic || settings.system == System::Sergio;
    let graph = graph::draw(settings, acyclic, &mut stream(GRAPH))?;
    let mut rng = stream(INTERVENTIONS);
    let mut targets: Vec<usize> = (0..settings.dim).collect();
    targets.shuffle(&mut rng);
    let count = settings.train_envs + settings.test_envs;
    let sergio = settings.system == System::Sergio;
    // A row per environment, the observational one first.
    let neutral = if sergio { 1.0 } else { 0.0 };
    let mut interventions = Matrix::full(count + 1, settings.dim, neutral);
    for (e, &j) in targets[..count].iter().enumerate() {
        interventions[(e + 1, j)] = match (sergio, settings.sergio.knockdown) {
            (false, _) => settings.shifts.draw_signed(&mut rng),
            (true, false) => settings.sergio.factors.draw(&mut rng),
            (true, true) => 1.0 / settings.sergio.factors.draw(&mut rng),
        };
    }
    let seed_of = |e: usize| {
        // Far from the seeds of other systems: the golden ratio's multiples are spread.
        settings.seed.wrapping_add((e as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    };
    let each = |draw: &(dyn Fn(usize) -> Result<Matrix<f64>> + Sync), first: usize| {
        (first..count + 1)
            .into_par_iter()
            .with_max_len(1)
            .map(|e| {
                let samples = draw(e)?;
                progress.add(1)?;
                Ok(samples)
            })
            .collect::<Result<Vec<_>>>()
    };
    let mut rng = stream(PARAMETERS);
    let (parameters, samples) = match settings.system {
        System::Sde | System::Scm => {
            let truth = LinearTruth::draw(&graph, settings, &mut rng)?;
            let draw = |e: usize| match settings.system {
                System::Scm => truth.structural(interventions.row(e), settings.rows, seed_of(e)),
                _ => truth.diffusion(interventions.row(e), settings, seed_of(e)),
            };
            let samples = each(&draw, 0)?;
            (Parameters::Linear(truth), samples)
        }
        System::Sergio => {
            let mut truth = SergioTruth::draw(&graph, settings, &mut rng)?;
            let observed = truth.observe(settings.rows, &settings.sergio, seed_of(0));
            progress.add(1)?;
            let draw = |e: usize| {
                Ok(truth.intervene(interventions.row(e), settings.rows, &settings.sergio, seed_of(e)))
            };
            let mut samples = vec![observed];
            samples.extend(each(&draw, 1)?);
            (Parameters::Sergio(truth), samples)
        }
    };
    let mut samples = samples.into_iter();
    let train: Vec<Matrix<f64>> = samples.by_ref().take(settings.train_envs + 1).collect();
    let dataset = |samples: Vec<Matrix<f64>>, first: usize| {
        let targets =
            Matrix::from_fn(samples.len(), settings.dim, |e, j| interventions[(first + e, j)] != neutral);
        Dataset::from_environments(samples)?.with_targets(targets)
    };
    let train = dataset(train, 0)?;
    let test = dataset(samples.collect(), settings.train_envs + 1)?;
    let units = Standardization::of(&train);
    let part =
        |first: usize, rows: usize| Matrix::from_fn(rows, settings.dim, |e, j| interventions[(first + e, j)]);
    Ok(Simulated {
        train: units.apply(&train),
        test: units.apply(&test),
        truth: Truth {
            graph,
            parameters,
            train_interventions: part(0, settings.train_envs + 1),
            test_interventions: part(settings.train_envs + 1, settings.test_envs),
            units,
        },
    })
}
