//! One measurement, as it is written to files.

use super::Case;
use super::problem::CaseNames;
use super::timing::{Steadiness, Timing};
use crate::engine::Place;
use serde::Serialize;

/// One measurement. Times are in milliseconds, rates in 10⁹ operations or bytes per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measurement {
    /// The section of the report.
    pub section: &'static str,
    /// The device.
    pub device: String,
    /// What was measured.
    pub what: String,
    #[serde(flatten)]
    pub(super) names: Option<CaseNames>,
    /// The number of samples.
    pub n: usize,
    /// The number of variables.
    pub d: usize,
    /// The median of all repetitions.
    pub median_ms: f64,
    /// The mean.
    pub mean_ms: f64,
    /// The standard deviation.
    pub sd_ms: f64,
    /// The fastest repetition.
    pub min_ms: f64,
    /// The number of repetitions.
    pub repetitions: usize,
    /// Whether the repetitions agree.
    pub noise: Steadiness,
    /// Floating-point operations of matrix products.
    pub flops: f64,
    /// The fewest bytes that must be moved.
    pub bytes: f64,
    /// 10⁹ operations per second, by the median.
    pub gflops: f64,
}

impl Measurement {
    /// The head of a csv file.
    pub(super) const COLUMNS: [&'static str; 16] = [
        "section",
        "device",
        "what",
        "objective",
        "kernel",
        "estimator",
        "n",
        "d",
        "median_ms",
        "mean_ms",
        "sd_ms",
        "min_ms",
        "repetitions",
        "noise",
        "flops",
        "bytes",
    ];

    /// A row of a csv file.
    pub(super) fn fields(&self) -> [String; 16] {
        let [objective, kernel, estimator] =
            self.names.as_ref().map_or([""; 3], |names| [names.objective, names.kernel, names.estimator]);
        let noise = if self.noise == Steadiness::Noisy { "noisy" } else { "quiet" };
        [
            self.section.into(),
            self.device.clone(),
            self.what.clone(),
            objective.into(),
            kernel.into(),
            estimator.into(),
            self.n.to_string(),
            self.d.to_string(),
            self.median_ms.to_string(),
            self.mean_ms.to_string(),
            self.sd_ms.to_string(),
            self.min_ms.to_string(),
            self.repetitions.to_string(),
            noise.into(),
            self.flops.to_string(),
            self.bytes.to_string(),
        ]
    }

    /// The measurement of an evaluation.
    pub fn of(section: &'static str, place: &Place, case: &Case, timing: &Timing) -> Self {
        let names = Some(case.names());
        let work = (case.flops(), case.bytes());
        Measurement { names, ..Measurement::new(section, place.name(), (case.n, case.d), work, timing) }
    }

    /// The measurement of anything else. `work` is the number of floating-point operations and bytes.
    pub fn new(
        section: &'static str,
        device: String,
        (n, d): (usize, usize),
        (flops, bytes): (f64, f64),
        timing: &Timing,
    ) -> Self {
        Measurement {
            section,
            device,
            what: timing.name.clone(),
            names: None,
            n,
            d,
            median_ms: 1e3 * timing.median(),
            mean_ms: 1e3 * timing.mean(),
            sd_ms: 1e3 * timing.deviation(),
            min_ms: 1e3 * timing.min(),
            repetitions: timing.count(),
            noise: timing.noise(),
            flops,
            bytes,
            gflops: 1e-9 * flops / timing.median(),
        }
    }
}
