//! Gene expression by the chemical Langevin equation on an acyclic graph, as in SERGIO (Dibaeinia and Sinha).
//!
//! Gene j of a cell type has the production P_j and decays at the rate λ: dx = (P_j − λx) dt + noise, held at or above 0. A
//! gene without regulators has a basal production per cell type; each regulator i of another one adds |K| H(x_i), where
//! H = xⁿ/(hⁿ + xⁿ) for an activator and 1 − that for a repressor. The half response h of a regulator is its mean in the
//! observational run. Genes are simulated in causal order, one whole trajectory after the other, all cell types side by side.

use super::graph::causal_order;
use super::settings::MOST_STEPS;
use super::{Range, Settings};
use crate::bounds::{step, within};
use crate::named::named;
use crate::{Error, Matrix, Result};
use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// The time after which a trajectory counts as steady, in lifetimes 1/λ.
const LIFETIMES: f64 = 10.0;

/// The noise of a gene's expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoiseKind {
    /// Independent noises of production and decay: q √P dW₁ + q √(λx) dW₂.
    Dpd,
    /// Noise of production alone: q √P dW.
    Sp,
    /// One noise for both: q (√P + √(λx)) dW.
    Spd,
}

named!(NoiseKind, "noise", { Dpd => "dpd", Sp => "sp", Spd => "spd" });

/// The settings of a gene regulatory network beside its graph.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SergioSettings {
    /// The number of cell types.
    pub cell_types: usize,
    /// The decay rate λ.
    pub decay: f64,
    /// The noise amplitude q.
    pub noise: f64,
    /// The kind of noise.
    #[serde(with = "crate::named::by_name")]
    pub noise_kind: NoiseKind,
    /// The Hill coefficient n.
    pub hill: f64,
    /// Absolute values of the interaction strengths K.
    pub strengths: Range,
    /// Basal production rates of genes without regulators.
    pub basal: Range,
    /// The length of a simulation step.
    pub dt: f64,
    /// Steps of the steady state to simulate per cell. Each cell is drawn at a random one of them.
    pub steps_per_cell: usize,
    /// Whether regulators act together: the product of their H instead of the sum, times the sum of their |K|.
    pub cooperative: bool,
    /// Whether interventions divide production instead of multiplying it.
    pub knockdown: bool,
    /// The factors by which interventions multiply or divide production rates.
    pub factors: Range,
}

impl Default for SergioSettings {
    fn default() -> Self {
        SergioSettings {
            cell_types: 10,
            decay: 0.5,
            noise: 0.5,
            noise_kind: NoiseKind::Dpd,
            hill: 2.0,
            strengths: Range { low: 1.0, high: 5.0 },
            basal: Range { low: 1.0, high: 4.0 },
            dt: 0.003,
            steps_per_cell: 100,
            cooperative: false,
            knockdown: false,
            factors: Range { low: 2.0, high: 10.0 },
        }
    }
}

impl SergioSettings {
    pub(super) fn check(&self, rows: usize) -> Result<()> {
        step("dt", self.dt)?;
        if self.steps_per_cell == 0 {
            return Err(Error::invalid("found 0 steps per cell, expected at least 1"));
        }
        within("steps_per_cell", self.steps_per_cell, 1, MOST_STEPS)?;
        let positive = [("decay", self.decay), ("noise", self.noise), ("hill", self.hill)];
        for (name, value) in positive {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::invalid(format!("{name} is {value}, expected a finite number above 0")));
            }
        }
        if self.decay * self.dt >= 1.0 {
            return Err(Error::invalid(format!(
                "decay times dt is {}, expected less than 1",
                self.decay * self.dt
            )));
        }
        for (name, range) in [("strengths", self.strengths), ("basal", self.basal), ("factors", self.factors)]
        {
            if range.low <= 0.0 {
                return Err(Error::invalid(format!("{name} are {range}, expected numbers above 0")));
            }
        }
        if self.cell_types == 0 || self.cell_types > rows {
            return Err(Error::invalid(format!(
                "found {} cell types for {rows} cells, expected at least 1 cell type and a cell of each",
                self.cell_types
            )));
        }
        Ok(())
    }

    /// The length of a gene's trajectory, over all cell types, before and in the steady state.
    pub(super) fn numbers(&self, rows: usize) -> f64 {
        let steady = self.steps_per_cell as f64 * rows.div_ceil(self.cell_types.max(1)) as f64;
        let before = (LIFETIMES / (self.decay * self.dt)).ceil();
        (before + steady) * self.cell_types as f64
    }
}

/// The parameters of a gene regulatory network.
#[derive(Clone, Debug, PartialEq)]
pub struct SergioTruth {
    /// K, d × d: positive for activators of row j, negative for repressors.
    pub strengths: Matrix<f64>,
    /// d × cell types; 0 for genes with regulators.
    pub basal: Matrix<f64>,
    /// The half response h of each gene as a regulator: its mean in the observational run.
    pub half: Vec<f64>,
    /// The genes in causal order.
    order: Vec<usize>,
}

impl SergioTruth {
    pub(super) fn draw(graph: &Matrix<bool>, settings: &Settings, rng: &mut impl Rng) -> Result<Self> {
        let order = causal_order(graph).ok_or_else(|| {
            Error::invalid(
                "the graph has a cycle, expected one without cycles for sergio: ask for an acyclic graph",
            )
        })?;
        let (d, sergio) = (graph.rows(), &settings.sergio);
        let strengths = Matrix::from_fn(d, d, |j, i| {
            let strength = sergio.strengths.draw_signed(rng);
            if graph[(j, i)] { strength } else { 0.0 }
        });
        let regulated = |j: usize| (0..d).any(|i| graph[(j, i)]);
        let basal = Matrix::from_fn(d, sergio.cell_types, |j, _| {
            let rate = sergio.basal.draw(rng);
            if regulated(j) { 0.0 } else { rate }
        });
        Ok(SergioTruth { strengths, basal, half: vec![f64::NAN; d], order })
    }

    /// Cells of the observational run, which also determines the half responses.
    pub(super) fn observe(&mut self, rows: usize, settings: &SergioSettings, seed: u64) -> Matrix<f64> {
        let d = self.half.len();
        let mut half = std::mem::take(&mut self.half);
        let cells = self.simulate(&mut half, true, &vec![1.0; d], rows, settings, seed);
        self.half = half;
        cells
    }

    /// Cells of a run in which the production of each gene is multiplied by its factor.
    pub(super) fn intervene(
        &self,
        factors: &[f64],
        rows: usize,
        settings: &SergioSettings,
        seed: u64,
    ) -> Matrix<f64> {
        self.simulate(&mut self.half.clone(), false, factors, rows, settings, seed)
    }

    fn simulate(
        &self,
        half: &mut [f64],
        find_half: bool,
        factors: &[f64],
        rows: usize,
        settings: &SergioSettings,
        seed: u64,
    ) -> Matrix<f64> {
        let (d, types) = (half.len(), settings.cell_types);
        let cells_per_type = rows.div_ceil(types);
        let steady = settings.steps_per_cell * cells_per_type;
        let before = (LIFETIMES / (settings.decay * settings.dt)).ceil() as usize;
        // The steady part of each gene's trajectory, and all of it while regulated genes still need it.
        let mut trajectories: Vec<Vec<f32>> = vec![Vec::new(); d];
        for &j in &self.order {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream(j as u64);
            let regulators: Vec<Regulator<'_>> = (0..d)
                .filter(|&i| self.strengths[(j, i)] != 0.0)
                .map(|i| Regulator::new(self.strengths[(j, i)], half[i], &trajectories[i]))
                .collect();
            let gene = Gene { basal: self.basal.row(j), regulators: &regulators, factor: factors[j] };
            let trajectory = gene.walk(settings, before + steady, &mut rng);
            if find_half {
                let part = &trajectory[before * types..];
                half[j] = part.iter().map(|x| f64::from(*x)).sum::<f64>() / part.len() as f64;
            }
            trajectories[j] = trajectory;
        }
        // Every cell has a type and a time; rows are in no order.
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(u64::MAX);
        let mut places: Vec<usize> =
            (0..rows).map(|cell| (before + rng.random_range(0..steady)) * types + cell % types).collect();
        places.shuffle(&mut rng);
        Matrix::from_fn(rows, d, |i, j| f64::from(trajectories[j][places[i]]))
    }
}

/// What a regulator does to a gene.
struct Regulator<'a> {
    size: f64,
    activates: bool,
    /// hⁿ is taken of it.
    half: f64,
    trajectory: &'a [f32],
}

impl<'a> Regulator<'a> {
    fn new(strength: f64, half: f64, trajectory: &'a [f32]) -> Self {
        Regulator { size: strength.abs(), activates: strength > 0.0, half, trajectory }
    }

    fn response(&self, at: usize, hill: f64) -> f64 {
        let x = f64::from(self.trajectory[at]);
        // (x/h)ⁿ / (1 + (x/h)ⁿ); the usual n is 2.
        let ratio = if self.half > 0.0 { x / self.half } else { 0.0 };
        let power = if hill == 2.0 { ratio * ratio } else { ratio.powf(hill) };
        let share = power / (1.0 + power);
        if self.activates { share } else { 1.0 - share }
    }
}

struct Gene<'a> {
    basal: &'a [f64],
    regulators: &'a [Regulator<'a>],
    factor: f64,
}

impl Gene<'_> {
    fn production(&self, at: usize, cell_type: usize, settings: &SergioSettings) -> f64 {
        let responses = self.regulators.iter().map(|r| (r.size, r.response(at, settings.hill)));
        let regulated: f64 = match settings.cooperative && !self.regulators.is_empty() {
            true => {
                let (sizes, product) =
                    responses.fold((0.0, 1.0), |(sum, product), (k, h)| (sum + k, product * h));
                sizes * product
            }
            false => responses.map(|(k, h)| k * h).sum(),
        };
        self.factor * (self.basal[cell_type] + regulated)
    }

    /// All cell types, step after step; each starts where its production at the regulators' start would hold it.
    fn walk(&self, settings: &SergioSettings, steps: usize, rng: &mut ChaCha8Rng) -> Vec<f32> {
        let SergioSettings { cell_types: types, decay, noise, noise_kind, dt, .. } = *settings;
        let scale = noise * dt.sqrt();
        let mut x: Vec<f64> = (0..types).map(|c| self.production(c, c, settings) / decay).collect();
        let mut trajectory = Vec::with_capacity(steps * types);
        trajectory.extend(x.iter().map(|x| *x as f32));
        for step in 1..steps {
            for (c, x) in x.iter_mut().enumerate() {
                let production = self.production((step - 1) * types + c, c, settings);
                let loss = decay * *x;
                let first: f64 = StandardNormal.sample(rng);
                let random = match noise_kind {
                    NoiseKind::Dpd => {
                        let second: f64 = StandardNormal.sample(rng);
                        production.sqrt() * first + loss.sqrt() * second
                    }
                    NoiseKind::Sp => production.sqrt() * first,
                    NoiseKind::Spd => (production.sqrt() + loss.sqrt()) * first,
                };
                *x = (*x + (production - loss) * dt + scale * random).max(0.0);
                trajectory.push(*x as f32);
            }
        }
        trajectory
    }
}
