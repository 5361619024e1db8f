//! The shape of a problem: what buffers hold and where, in quads of four numbers.

use super::compose::{Choice, SumLayout};
use super::shared::{DEPTH, Job, RECORD_NUMBERS};
use crate::engine::LossSpec;
use crate::kernel::{Profile, with_profile};
use crate::model::{Activation, Drift, Noise, Parameters};
use crate::objective::{Estimator, Kds, Objective, PairTerm, Skds};
use crate::{Result, Scalar};

/// The form of a model's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// d.
    pub dim: usize,
    /// E.
    pub environments: usize,
    /// None: the linear model; otherwise γ and h.
    pub hidden: Option<(Activation, usize)>,
    /// Whether the noise is a full matrix.
    pub full: bool,
}

impl Form {
    /// The form of `parameters` for `environments` environments.
    pub fn of<T: Scalar>(parameters: &Parameters<T>, environments: usize) -> Result<Self> {
        let hidden = match &parameters.drift {
            Drift::Linear(_) => None,
            Drift::Mlp(drift) => Some((drift.activation, drift.hidden_biases.cols())),
            other => return Err(other.without("loss or simulation on a GPU")),
        };
        let full = match &parameters.noise {
            Noise::Diagonal { .. } => false,
            Noise::Full { .. } => true,
            other @ Noise::Basis { .. } => return Err(other.depends_on_state()),
        };
        Ok(Form { dim: parameters.dim(), environments, hidden, full })
    }

    /// What shaders are composed by; the plan decides on tiles.
    pub fn choice(&self, spec: &LossSpec) -> Choice {
        Choice {
            objective: spec.objective,
            kernel: spec.kernel.kind(),
            estimator: spec.estimator,
            activation: self.hidden.map(|(activation, _)| activation),
            full: self.full,
            wide: false,
            split: false,
        }
    }

    /// Quads of a row of d numbers.
    pub fn stride(&self) -> u64 {
        self.dim.div_ceil(4) as u64
    }

    /// Units per variable: 1, or h.
    pub fn units_per_variable(&self) -> usize {
        self.hidden.map_or(1, |(_, h)| h)
    }

    /// Rows of the weights. The first units of all variables come first, padded to whole quads, then the second ones: so
    /// neighbouring threads read neighbouring networks.
    pub fn units(&self) -> u64 {
        4 * self.unit_stride()
    }

    /// Quads of a row of units.
    pub fn unit_stride(&self) -> u64 {
        self.stride() * self.units_per_variable() as u64
    }

    /// Where each tensor lies, in quads, by the names of [`Parameters::tensors`]; and the quads of all of them.
    pub fn places(&self) -> (Places, u64) {
        let (stride, e) = (self.stride(), self.environments as u64);
        let mut next = 0;
        let mut take = |quads: u64| {
            let at = next;
            next += quads;
            at
        };
        let outer = if self.hidden.is_some() { self.unit_stride() } else { 0 };
        let places = Places {
            weights: take(self.units() * stride),
            hidden_biases: take(outer),
            output: take(outer),
            biases: take(stride),
            noise: take(if self.full { self.dim as u64 * stride } else { stride }),
            shift: take(e * stride),
            scale: take(e * stride),
        };
        (places, next)
    }

    /// Where the tensor of this name lies.
    pub fn place(&self, tensor: &str) -> Option<Place> {
        let (places, _) = self.places();
        let (stride, d) = (4 * self.stride() as usize, self.dim);
        let plain =
            |first| Place { first: 4 * first as usize, width: d, stride, hidden: 1, variables: stride };
        let hidden = self.units_per_variable();
        Some(match tensor {
            "weights" | "hidden_weights" => Place { hidden, ..plain(places.weights) },
            "hidden_biases" => Place { width: 1, stride: 1, hidden, ..plain(places.hidden_biases) },
            "output_weights" => Place { width: 1, stride: 1, hidden, ..plain(places.output) },
            "biases" => plain(places.biases),
            "log_noise" | "noise" => plain(places.noise),
            "shift" => plain(places.shift),
            "log_scale" => plain(places.scale),
            _ => return None,
        })
    }

    /// Quads of an environment's record in `diffusion`.
    pub fn diffusion_stride(&self) -> u64 {
        1 + if self.full { self.dim as u64 * self.stride() } else { self.stride() }
    }

    /// Quads of a row's record in `sums`.
    pub fn sums_stride(&self, spec: &LossSpec) -> u64 {
        u64::from(SumLayout::of(spec.objective, spec.kernel.kind()).count) * self.stride() + 1
    }

    /// The numbers that all dispatches of an evaluation share.
    pub fn job(&self, spec: &LossSpec) -> Job {
        let (stride, unit_stride) = (self.stride(), self.unit_stride());
        let (places, _) = self.places();
        let all_pairs = spec.estimator != Estimator::Linear;
        let numbers = u64::from(RECORD_NUMBERS);
        let hidden = if self.hidden.is_some() { unit_stride } else { 0 };
        let at_hidden = numbers + 2 * stride;
        let at_spread = at_hidden + hidden;
        let at_left = at_spread + if self.full { stride } else { 0 };
        let work_stride = at_left + if self.full { stride } else { 0 };
        let at_euler = 1 + 2 * stride;
        let at_output = at_euler + if all_pairs { stride } else { 0 };
        let (decay, z_factor, m_factor) = factors(spec);
        let narrow = |value: u64| u32::try_from(value).expect("the plan refuses what 32 bits cannot count");
        Job {
            dim: narrow(self.dim as u64),
            stride: narrow(stride),
            units: narrow(self.units()),
            unit_stride: narrow(unit_stride),
            hidden: self.hidden.map_or(0, |(_, h)| narrow(h as u64)),
            environments: narrow(self.environments as u64),
            padded_dim: narrow((self.dim as u64).next_multiple_of(u64::from(DEPTH))),
            work_stride: narrow(work_stride),
            at_b: narrow(numbers),
            at_bar: narrow(numbers + stride),
            at_hidden: narrow(at_hidden),
            at_spread: narrow(at_spread),
            at_left: narrow(at_left),
            diffusion_stride: narrow(self.diffusion_stride()),
            at_traces: narrow(self.diffusion_stride() - 1),
            columns_stride: narrow(at_output + 2 * hidden),
            at_bar_sum: 1,
            at_alpha_sum: narrow(1 + stride),
            at_euler_sum: narrow(at_euler),
            at_output_sum: narrow(at_output),
            at_hidden_sum: narrow(at_output + hidden),
            sums_stride: narrow(self.sums_stride(spec)),
            at_weights: narrow(places.weights),
            at_hidden_biases: narrow(places.hidden_biases),
            at_output: narrow(places.output),
            at_biases: narrow(places.biases),
            at_noise: narrow(places.noise),
            at_shift: narrow(places.shift),
            at_scale: narrow(places.scale),
            decay,
            z_factor,
            m_factor,
            ..Job::default()
        }
    }
}

/// Where the rows of a tensor lie among the numbers of `parameters`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The first number.
    first: usize,
    /// Numbers of a row.
    pub width: usize,
    /// Numbers from a row to the next one on the device.
    stride: usize,
    /// How many rows of each variable follow each other in the tensor: units of its network.
    hidden: usize,
    /// Rows of a unit on the device.
    variables: usize,
}

impl Place {
    /// Where row `row` of the tensor begins.
    pub fn row(&self, row: usize) -> usize {
        self.first + (row % self.hidden * self.variables + row / self.hidden) * self.stride
    }
}

/// Where tensors begin in `parameters` and `gradient`, in quads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    pub weights: u64,
    pub hidden_biases: u64,
    pub output: u64,
    pub biases: u64,
    pub noise: u64,
    pub shift: u64,
    pub scale: u64,
}

/// η of a Gaussian profile, and what R_z and R_m lack where R_b serves for them.
fn factors(spec: &LossSpec) -> (f32, f32, f32) {
    let decay = with_profile!(spec.kernel, f32, |profile| profile.decay());
    if !spec.kernel.kind().traits().gaussian {
        return (decay, 1.0, 1.0);
    }
    let (z, m) = match spec.objective {
        Objective::Skds => Skds::gaussian_ratios(decay),
        Objective::Kds => Kds::gaussian_ratios(decay),
    };
    (decay, z, m)
}
