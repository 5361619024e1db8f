//! How the time of a loss grows with the numbers of variables and samples, for both losses and both kinds of estimators.

use super::timing::{Effort, race};
use super::{Case, Measurement, evaluation};
use crate::Result;
use crate::engine::Place;
use crate::kernel::KernelKind;
use crate::objective::{Estimator, Objective};
use crate::plot::{Colour, Line, Panel, Scale};
use serde::Serialize;

/// What a sweep varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// The number of variables, d.
    Variables,
    /// The number of samples, n.
    Samples,
}

/// Measurements at several sizes along one axis, with everything else fixed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// The size that varies.
    pub axis: Axis,
    /// The estimator.
    pub estimator: &'static str,
    /// The size that is fixed: n, or d.
    pub fixed: usize,
    /// Both losses at every size, SKDS first.
    pub records: Vec<[Measurement; 2]>,
    /// Exponents of SKDS and KDS in time ~ size^exponent, from the larger sizes; none if there are too few.
    pub exponents: Option<[f64; 2]>,
}

/// The sizes from which exponents are computed.
const FROM_VARIABLES: usize = 100;
const UP_TO_VARIABLES: usize = 2000;
const FROM_SAMPLES: usize = 1000;

/// Which sizes to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepRange {
    /// All sizes.
    Full,
    /// Small sizes, for a quick look or a software GPU.
    Short,
}

struct SweepPlan {
    axis: Axis,
    estimator: Estimator,
    fixed: usize,
    sizes: &'static [usize],
}

fn plans(range: SweepRange) -> [SweepPlan; 4] {
    let full = range == SweepRange::Full;
    let pick = |all: &'static [usize], few: usize| if full { all } else { &all[..few] };
    let variables: &[usize] = &[10, 20, 50, 100, 200, 500, 1000, 2000, 4000];
    let plan = |axis, estimator, fixed, sizes| SweepPlan { axis, estimator, fixed, sizes };
    [
        plan(Axis::Variables, Estimator::Linear, 512, pick(variables, 5)),
        plan(Axis::Variables, Estimator::U, 512, pick(variables, 4)),
        plan(Axis::Samples, Estimator::Linear, 20, pick(&[100, 300, 1000, 3000, 10_000, 30_000, 100_000], 4)),
        plan(Axis::Samples, Estimator::U, 20, pick(&[100, 300, 1000, 3000, 10_000], 3)),
    ]
}

/// The number of sizes, for progress.
pub fn sizes(range: SweepRange) -> u64 {
    plans(range).iter().map(|plan| plan.sizes.len() as u64).sum()
}

/// Measures all sweeps and calls `watch` after every size.
pub fn sweeps(
    place: &Place,
    range: SweepRange,
    effort: Effort,
    watch: &mut dyn FnMut(),
) -> Result<Vec<Sweep>> {
    let mut all = Vec::new();
    for SweepPlan { axis, estimator, fixed, sizes } in plans(range) {
        let mut records = Vec::new();
        for &size in sizes {
            let (n, d) = match axis {
                Axis::Variables => (fixed, size),
                Axis::Samples => (size, fixed),
            };
            let cases = [Objective::Skds, Objective::Kds].map(|objective| Case {
                objective,
                kernel: KernelKind::Rbf,
                estimator,
                n,
                d,
            });
            let mut contenders = [evaluation(place, cases[0])?, evaluation(place, cases[1])?];
            let timings = race(&mut contenders, effort)?;
            records.push([0, 1].map(|k| Measurement::of("scaling", place, &cases[k], &timings[k])));
            watch();
        }
        let exponents = exponents(axis, &records);
        all.push(Sweep { axis, estimator: estimator.name(), fixed, records, exponents });
    }
    Ok(all)
}

fn exponents(axis: Axis, records: &[[Measurement; 2]]) -> Option<[f64; 2]> {
    let counts = |record: &Measurement| match axis {
        Axis::Variables => (FROM_VARIABLES..=UP_TO_VARIABLES).contains(&record.d),
        Axis::Samples => record.n >= FROM_SAMPLES,
    };
    let of = |k: usize| {
        let points: Vec<(f64, f64)> = records
            .iter()
            .map(|both| &both[k])
            .filter(|record| counts(record))
            .map(|record| (axis.size(record) as f64, record.median_ms))
            .collect();
        exponent(&points)
    };
    Some([of(0)?, of(1)?])
}

/// The slope of the regression line through the logarithms; none for fewer than three points.
pub fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    if points.len() < 3 {
        return None;
    }
    let count = points.len() as f64;
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let (x, y) = logs.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x / count, b + y / count));
    let products: f64 = logs.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    Some(products / logs.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>())
}

impl Axis {
    fn size(self, record: &Measurement) -> usize {
        match self {
            Axis::Variables => record.d,
            Axis::Samples => record.n,
        }
    }

    fn symbol(self) -> &'static str {
        match self {
            Axis::Variables => "d",
            Axis::Samples => "n",
        }
    }
}

impl Sweep {
    /// The title, such as "linear, n = 512".
    pub fn title(&self) -> String {
        let other = if self.axis == Axis::Variables { "n" } else { "d" };
        format!("{}, {other} = {}", self.estimator, self.fixed)
    }

    /// The table as text.
    pub fn to_text(&self) -> String {
        let symbol = self.axis.symbol();
        let mut lines = vec![
            format!("{}: value and gradient in ms, rbf, f32", self.title()),
            format!("{symbol:>8}{:>12}{:>12}{:>10}{:>12}", "SKDS", "KDS", "ratio", "GFLOP/s"),
        ];
        for [skds, kds] in &self.records {
            lines.push(format!(
                "{:>8}{:>12.4}{:>12.4}{:>10.2}{:>12.1}",
                self.axis.size(skds),
                skds.median_ms,
                kds.median_ms,
                kds.median_ms / skds.median_ms,
                skds.gflops
            ));
        }
        if let Some([skds, kds]) = self.exponents {
            let range = match self.axis {
                Axis::Variables => format!("{FROM_VARIABLES} to {UP_TO_VARIABLES}"),
                Axis::Samples => format!("{FROM_SAMPLES} up"),
            };
            lines.push(format!(
                "growth from {symbol} = {range}: SKDS {symbol}^{skds:.2}, KDS {symbol}^{kds:.2}"
            ));
        }
        lines.join("\n")
    }

    /// A panel with both curves.
    pub fn panel(&self) -> Panel {
        let line = |k: usize, label: &str, colour| Line {
            label: match self.exponents {
                Some(exponents) => format!("{label} ~ {}^{:.2}", self.axis.symbol(), exponents[k]),
                None => label.into(),
            },
            colour,
            points: self
                .records
                .iter()
                .map(|both| (self.axis.size(&both[k]) as f64, both[k].median_ms))
                .collect(),
        };
        Panel::Lines {
            title: self.title(),
            x_label: self.axis.symbol().into(),
            y_label: "ms".into(),
            scales: (Scale::Log, Scale::Log),
            lines: vec![line(0, "SKDS", Colour::Blue), line(1, "KDS", Colour::Red)],
            points: vec![],
            verticals: vec![],
            horizontals: vec![],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_are_slopes_of_logarithms() {
        let points: Vec<(f64, f64)> = [1.0, 2.0, 5.0, 30.0].map(|x: f64| (x, 3.0 * x.powf(1.7))).to_vec();
        assert!((exponent(&points).unwrap() - 1.7).abs() < 1e-12);
        assert_eq!(exponent(&points[..2]), None);
    }
}
