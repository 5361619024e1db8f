//! The paper's synthetic systems: random graphs, linear diffusions and structural equations, gene regulatory networks.
//!
//! [`simulate`] draws a system, samples an observational environment and interventions on single variables, and standardises
//! everything by the observational environment. Training and test interventions have different targets.

mod graph;
mod linear;
mod range;
mod sergio;
mod settings;
mod write;

pub use graph::{GraphKind, causal_order, descendants};
pub use linear::LinearTruth;
pub use range::Range;
pub use sergio::{NoiseKind, SergioSettings, SergioTruth};
pub use settings::{Settings, Simulation, System};

use crate::data::{Dataset, Standardization};
use crate::{Matrix, Progress, Result};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// The parameters of a simulated system.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameters {
    /// A linear diffusion or linear structural equations.
    Linear(LinearTruth),
    /// A gene regulatory network.
    Sergio(SergioTruth),
}

/// The truth about a simulated system.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// d × d: whether variable i acts on variable j, at (j, i).
    pub graph: Matrix<bool>,
    /// The system's parameters.
    pub parameters: Parameters,
    /// The training interventions, E × d: shifts, or factors of production rates.
    pub train_interventions: Matrix<f64>,
    /// The test interventions, likewise.
    pub test_interventions: Matrix<f64>,
    /// The map from the system's units to those of the data.
    pub units: Standardization,
}

/// A simulated system.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// The training data. Environment 0 is observational.
    pub train: Dataset,
    /// The test data, with interventions on other variables.
    pub test: Dataset,
    /// The system that the data comes from.
    pub truth: Truth,
}

/// The random streams of a seed.
const GRAPH: u64 = 0;
const PARAMETERS: u64 = 1;
const INTERVENTIONS: u64 = 2;

/// Simulates a system and interventions on it. `progress` counts environments.
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
    let acyclic = settings.acyclic || settings.system == System::Sergio;
    let graph = graph::draw(settings, acyclic, &mut stream(settings, GRAPH))?;
    let interventions = Interventions::draw(settings);
    let (parameters, mut samples) = draw_samples(settings, &graph, &interventions, progress)?;
    let train_envs = settings.train_envs + 1;
    let test = interventions.dataset(samples.split_off(train_envs), train_envs)?;
    let train = interventions.dataset(samples, 0)?;
    let units = Standardization::of(&train);
    Ok(Simulated {
        train: units.apply(&train),
        test: units.apply(&test),
        truth: Truth {
            graph,
            parameters,
            train_interventions: interventions.part(0, train_envs),
            test_interventions: interventions.part(train_envs, settings.test_envs),
            units,
        },
    })
}

/// A generator of its own for each purpose, so that what one draws does not depend on how much another has drawn.
fn stream(settings: &Settings, number: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(settings.seed);
    rng.set_stream(number);
    rng
}

/// The seed of an environment's samples.
fn seed_of(settings: &Settings, e: usize) -> u64 {
    // Multiples of the golden ratio are spread, which keeps them far from the seeds of other systems.
    settings.seed.wrapping_add((e as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// What is done to each variable in each environment: training environments first, of which the first is observational.
struct Interventions {
    /// Environments × variables: shifts, or factors of production rates.
    sizes: Matrix<f64>,
    /// The size that changes nothing.
    neutral: f64,
}

impl Interventions {
    /// Each environment but the first intervenes on a variable of its own.
    fn draw(settings: &Settings) -> Self {
        let mut rng = stream(settings, INTERVENTIONS);
        let mut targets: Vec<usize> = (0..settings.dim).collect();
        targets.shuffle(&mut rng);
        let neutral = if settings.system == System::Sergio { 1.0 } else { 0.0 };
        let count = settings.train_envs + settings.test_envs;
        let mut sizes = Matrix::full(count + 1, settings.dim, neutral);
        for (e, &j) in targets[..count].iter().enumerate() {
            sizes[(e + 1, j)] = match (settings.system, settings.sergio.knockdown) {
                (System::Sde | System::Scm, _) => settings.shifts.draw_signed(&mut rng),
                (System::Sergio, false) => settings.sergio.factors.draw(&mut rng),
                (System::Sergio, true) => 1.0 / settings.sergio.factors.draw(&mut rng),
            };
        }
        Interventions { sizes, neutral }
    }

    /// The interventions of `count` environments from `first` on.
    fn part(&self, first: usize, count: usize) -> Matrix<f64> {
        Matrix::from_fn(count, self.sizes.cols(), |e, j| self.sizes[(first + e, j)])
    }

    /// The samples of the environments from `first` on, with their targets.
    fn dataset(&self, samples: Vec<Matrix<f64>>, first: usize) -> Result<Dataset> {
        let targets = self.part(first, samples.len()).map(|size| size != self.neutral);
        Dataset::from_environments(samples)?.with_targets(targets)
    }
}

/// Draws the system's parameters, and samples of every environment in the system's units.
fn draw_samples(
    settings: &Settings,
    graph: &Matrix<bool>,
    interventions: &Interventions,
    progress: &Progress,
) -> Result<(Parameters, Vec<Matrix<f64>>)> {
    let mut rng = stream(settings, PARAMETERS);
    let sizes = &interventions.sizes;
    let seed = |e: usize| seed_of(settings, e);
    match settings.system {
        System::Sde | System::Scm => {
            let truth = LinearTruth::draw(graph, settings, &mut rng)?;
            let samples = draw_environments(0..sizes.rows(), progress, |e| match settings.system {
                System::Scm => truth.structural(sizes.row(e), settings.rows, seed(e)),
                _ => truth.diffusion(sizes.row(e), settings, seed(e)),
            })?;
            Ok((Parameters::Linear(truth), samples))
        }
        System::Sergio => {
            let mut truth = SergioTruth::draw(graph, settings, &mut rng)?;
            // The observational environment comes first: it sets the half responses of the others.
            let mut samples = vec![truth.observe(settings.rows, &settings.sergio, seed(0))];
            progress.add(1)?;
            samples.extend(draw_environments(1..sizes.rows(), progress, |e| {
                Ok(truth.intervene(sizes.row(e), settings.rows, &settings.sergio, seed(e)))
            })?);
            Ok((Parameters::Sergio(truth), samples))
        }
    }
}

/// Draws the samples of environments in parallel.
fn draw_environments(
    environments: std::ops::Range<usize>,
    progress: &Progress,
    draw: impl Fn(usize) -> Result<Matrix<f64>> + Sync,
) -> Result<Vec<Matrix<f64>>> {
    environments
        .into_par_iter()
        .with_max_len(1)
        .map(|e| {
            let samples = draw(e)?;
            progress.add(1)?;
            Ok(samples)
        })
        .collect()
}
