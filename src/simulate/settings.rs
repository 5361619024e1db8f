//! What to simulate, and how large it may be.

use super::{GraphKind, Range, SergioSettings, linear};
use crate::bounds::{room, step, within};
use crate::named::{by_name, named};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The most variables of a system.
const MOST_VARIABLES: usize = 10_000;
/// The most rows of an environment.
const MOST_ROWS: usize = 100_000_000;
/// The most steps of a burn-in, and between two samples.
pub(super) const MOST_STEPS: usize = 1_000_000_000;

/// The kind of system to simulate.
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
    /// By Euler–Maruyama, as in the paper.
    Euler,
}

named!(Simulation, "simulation", { Exact => "exact", Euler => "euler" });

/// The settings of a simulation. The defaults are the paper's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The kind of system.
    #[serde(with = "by_name")]
    pub system: System,
    /// The kind of graph.
    #[serde(with = "by_name")]
    pub graph: GraphKind,
    /// Whether the graph has no cycles. Gene regulatory networks never have any.
    pub acyclic: bool,
    /// The number of variables.
    pub dim: usize,
    /// The number of samples in each environment.
    pub rows: usize,
    /// The number of training environments with an intervention, beside the observational one.
    pub train_envs: usize,
    /// The number of test environments.
    pub test_envs: usize,
    /// The expected number of edges per variable.
    pub edges: usize,
    /// The seed of every random choice.
    pub seed: u64,
    /// Block graphs: the number of blocks.
    pub blocks: usize,
    /// Block graphs: the probability of an edge between blocks, divided by that of an edge within one.
    pub between: f64,
    /// Linear systems: absolute values of the weights.
    pub weights: Range,
    /// Linear systems: how far below 0 the spectral abscissa lies.
    pub margin: f64,
    /// Linear systems: the biases.
    pub biases: Range,
    /// Linear systems: logarithms of the noise scales.
    pub log_scales: Range,
    /// Linear systems: absolute values of the shift interventions.
    pub shifts: Range,
    /// How a linear diffusion is sampled.
    #[serde(with = "by_name")]
    pub simulate: Simulation,
    /// Euler–Maruyama: the length of a step.
    pub euler_dt: f64,
    /// Euler–Maruyama: the number of samples to discard at the start.
    pub euler_burn_in: usize,
    /// Euler–Maruyama: the number of steps from one sample to the next.
    pub euler_thin: usize,
    /// Gene regulatory networks: their own settings.
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
    /// Checks every number, and that the simulation fits into memory.
    pub fn check(&self) -> Result<()> {
        self.check_sizes()?;
        self.check_environments()?;
        self.check_system()?;
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

    fn check_sizes(&self) -> Result<()> {
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
        step("euler_dt", self.euler_dt)
    }

    fn check_environments(&self) -> Result<()> {
        if self.train_envs.saturating_add(self.test_envs) > self.dim {
            return Err(Error::invalid(format!(
                "found {} training and {} test environments for {} variables, expected at most one environment per variable: each intervenes on a variable of its own",
                self.train_envs, self.test_envs, self.dim
            )));
        }
        if self.test_envs == 0 {
            return Err(Error::invalid("found 0 test environments, expected at least 1"));
        }
        Ok(())
    }

    fn check_system(&self) -> Result<()> {
        for (name, value) in [("margin", self.margin), ("between", self.between)] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::invalid(format!("{name} is {value}, expected a finite number above 0")));
            }
        }
        if self.graph == GraphKind::Sbm && (self.between > 1.0 || !(1..=self.dim).contains(&self.blocks)) {
            return Err(Error::invalid(format!(
                "found {} blocks and a ratio of {} between and within blocks, expected 1 to {} blocks and a ratio of at most 1",
                self.blocks, self.between, self.dim
            )));
        }
        if self.weights.low < 0.0 || self.shifts.low < 0.0 {
            return Err(Error::invalid(
                "absolute values of weights or shifts are negative, expected at least 0",
            ));
        }
        match self.system {
            System::Sergio => self.sergio.check(self.rows),
            System::Sde | System::Scm => Ok(()),
        }
    }

    /// The number of all environments.
    pub(crate) fn environments(&self) -> usize {
        self.train_envs.saturating_add(self.test_envs).saturating_add(1)
    }

    /// The approximate memory in bytes: three copies of the samples (as drawn, grouped, standardised), the system's matrices, and
    /// the trajectories of the environments that are simulated at once.
    pub(crate) fn bytes(&self) -> f64 {
        let (d, environments) = (self.dim as f64, self.environments() as f64);
        let samples = 24.0 * environments * self.rows as f64 * d;
        let at_once = (rayon::current_num_threads() as f64).min(environments);
        match self.system {
            System::Sergio => samples + 16.0 * d * d + at_once * 4.0 * d * self.sergio.numbers(self.rows),
            System::Sde | System::Scm => samples + at_once * 64.0 * d * d,
        }
    }

    /// The approximate cost in floating-point operations.
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
