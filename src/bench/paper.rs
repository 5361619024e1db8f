//! The paper's timing table: value and gradient of both losses with every kernel, for n = 1000 and d = 20.

use super::timing::{Effort, Ratio, race};
use super::{Case, Measurement, evaluation};
use crate::Result;
use crate::engine::Place;
use crate::kernel::KernelKind;
use crate::objective::{Estimator, Objective};
use serde::Serialize;

/// The paper's numbers of samples and variables.
pub const SIZE: (usize, usize) = (1000, 20);

/// The kernels that the paper times, with its milliseconds for SKDS and KDS.
const PUBLISHED: [(KernelKind, (f64, f64)); 3] = [
    (KernelKind::Rbf, (22.0, 117.0)),
    (KernelKind::TiltedRbf, (30.0, 183.0)),
    (KernelKind::ImqPlus, (46.0, 293.0)),
];

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelTimes {
    /// The kernel.
    pub kernel: &'static str,
    /// The time of SKDS.
    pub skds: Measurement,
    /// The time of KDS.
    pub kds: Measurement,
    /// The time of KDS divided by that of SKDS.
    pub ratio: Ratio,
    /// The paper's times of SKDS and KDS in milliseconds, on its authors' machine.
    pub published_ms: (f64, f64),
}

/// Measures the table on one device.
pub fn table(place: &Place, effort: Effort) -> Result<Vec<KernelTimes>> {
    let case = |objective: Objective, kernel: KernelKind| Case {
        objective,
        kernel,
        estimator: Estimator::Linear,
        n: SIZE.0,
        d: SIZE.1,
    };
    let cases: Vec<Case> = PUBLISHED
        .iter()
        .flat_map(|&(kernel, _)| [case(Objective::Skds, kernel), case(Objective::Kds, kernel)])
        .collect();
    let mut contenders = cases.iter().map(|case| evaluation(place, *case)).collect::<Result<Vec<_>>>()?;
    let timings = race(&mut contenders, effort)?;
    let record = |k: usize| Measurement::of("paper", place, &cases[k], &timings[k]);
    Ok(PUBLISHED
        .iter()
        .enumerate()
        .map(|(k, &(kernel, published_ms))| KernelTimes {
            kernel: kernel.name(),
            skds: record(2 * k),
            kds: record(2 * k + 1),
            ratio: timings[2 * k + 1].over(&timings[2 * k]),
            published_ms,
        })
        .collect())
}

/// The table as text.
pub fn text(device: &str, rows: &[KernelTimes]) -> String {
    let repetitions = rows.first().map_or(0, |row| row.skds.repetitions);
    let mut lines = vec![
        format!(
            "{device}: value and gradient in ms, median (mean ± sd of {repetitions}), n = {}, d = {}, linear model, f32",
            SIZE.0, SIZE.1
        ),
        format!(
            "{:<12}{:>26}{:>26}{:>10}     paper: {:>6}{:>6}{:>7}",
            "", "SKDS", "KDS", "KDS/SKDS", "SKDS", "KDS", "ratio"
        ),
    ];
    for KernelTimes { kernel, skds, kds, ratio, published_ms: (theirs, others) } in rows {
        let cell = |r: &Measurement| format!("{:.4} ({:.4} ± {:.4})", r.median_ms, r.mean_ms, r.sd_ms);
        lines.push(format!(
            "{kernel:<12}{:>26}{:>26}{:>10.2}            {theirs:>6}{others:>6}{:>7.1}",
            cell(skds),
            cell(kds),
            ratio.median,
            others / theirs
        ));
    }
    lines.join("\n")
}
