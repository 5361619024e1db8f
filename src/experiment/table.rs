//! Tables of medians with their uncertainty, and tests of which method is better.

use super::plan::{ExperimentPlan, Published};
use super::run::{MethodRun, names};
use super::wilcoxon::{Wilcoxon, wilcoxon_below};
use crate::evaluate::Scores;
use crate::numeric::statistics::median;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use std::collections::BTreeMap;

/// The number of bootstrap resamples of the datasets.
const RESAMPLES: usize = 2000;
/// The level of the intervals.
const LEVEL: f64 = 0.95;
/// As in the paper, a method is better if its distance is below this share of the other's.
const SHARE: f64 = 0.95;

/// A distance to compare by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Mean squared error of means.
    Mse,
    /// Squared 2-Wasserstein distance.
    W2,
    /// The Sinkhorn divergence.
    Sinkhorn,
}

impl Measure {
    /// The distances of pictures and tests.
    pub(crate) const ALL: [Measure; 2] = [Measure::Mse, Measure::W2];

    /// The name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Measure::Mse => "MSE",
            Measure::W2 => "W2",
            Measure::Sinkhorn => "Sinkhorn",
        }
    }

    /// The published medians of a method, by system.
    pub(super) fn published(self, of: &Published) -> &BTreeMap<String, f64> {
        match self {
            Measure::Mse => &of.mse,
            // The published W2 is a Sinkhorn divergence.
            Measure::W2 | Measure::Sinkhorn => &of.w2,
        }
    }

    /// The distance of a prediction; infinite if there is none.
    pub(super) fn of(self, scores: &Option<Scores>) -> f64 {
        scores.as_ref().map_or(f64::INFINITY, |scores| match self {
            Measure::Mse => scores.mse,
            Measure::W2 => scores.w2,
            Measure::Sinkhorn => scores.sinkhorn,
        })
    }
}

/// The median distance of a method on a system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    /// The system's name.
    pub system: String,
    /// The method's name.
    pub method: String,
    /// The median over all test interventions of all datasets.
    pub median: f64,
    /// The 95 % bootstrap interval of the median, resampling datasets.
    pub interval: (f64, f64),
    /// The number of test interventions without a prediction.
    pub unstable: usize,
    /// The number of all test interventions.
    pub predictions: usize,
}

/// The distances of a method on a system, dataset by dataset.
fn by_dataset<'a>(cells: &'a [MethodRun], system: &str, method: &str, measure: Measure) -> Vec<Vec<f64>> {
    let own = |cell: &&'a MethodRun| cell.system == system && cell.method == method;
    cells
        .iter()
        .filter(own)
        .map(|cell| cell.rows.iter().map(|row| measure.of(&row.scores)).collect())
        .collect()
}

/// The summary of every method on every system, in the plan's order.
pub(crate) fn summaries(cells: &[MethodRun], measure: Measure) -> Vec<Summary> {
    let mut all = Vec::new();
    for system in names(cells, |cell| &cell.system) {
        for method in names(cells, |cell| &cell.method) {
            let values = by_dataset(cells, system, method, measure);
            if values.is_empty() {
                continue;
            }
            // The interventions of a dataset share its system, so whole datasets are resampled.
            let mut rng = ChaCha8Rng::seed_from_u64(0);
            let mut medians: Vec<f64> = (0..RESAMPLES)
                .map(|_| {
                    let drawn = (0..values.len()).map(|_| &values[rng.random_range(0..values.len())]);
                    median(&drawn.flatten().copied().collect::<Vec<_>>())
                })
                .collect();
            medians.sort_by(f64::total_cmp);
            let cut = (0.5 * (1.0 - LEVEL) * RESAMPLES as f64) as usize;
            let flat: Vec<f64> = values.concat();
            all.push(Summary {
                system: system.into(),
                method: method.into(),
                median: median(&flat),
                interval: (medians[cut], medians[RESAMPLES - 1 - cut]),
                unstable: flat.iter().filter(|value| value.is_infinite()).count(),
                predictions: flat.len(),
            });
        }
    }
    all
}

/// Tests whether `better` beats `other` on a system by at least 5 %, paired over all test interventions of the datasets that both
/// methods have; none if they share no dataset.
pub(super) fn comparison(
    cells: &[MethodRun],
    system: &str,
    better: &str,
    other: &str,
    measure: Measure,
) -> Option<Wilcoxon> {
    let of = |method: &str| -> BTreeMap<u64, &MethodRun> {
        let own = cells.iter().filter(|cell| cell.system == system && cell.method == method);
        own.map(|cell| (cell.seed, cell)).collect()
    };
    let others = of(other);
    let values = |cell: &MethodRun| cell.rows.iter().map(|row| measure.of(&row.scores)).collect::<Vec<_>>();
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for (seed, cell) in of(better) {
        if let Some(other) = others.get(&seed) {
            a.extend(values(cell));
            b.extend(values(other));
        }
    }
    if a.is_empty() {
        return None;
    }
    let difference = |(a, b): (&f64, &f64)| match (a.is_finite(), b.is_finite()) {
        (true, true) => a.ln() - b.ln() - SHARE.ln(),
        (false, false) => 0.0,
        // Any prediction beats none.
        (true, false) => -f64::MAX,
        (false, true) => f64::MAX,
    };
    Some(wilcoxon_below(&a.iter().zip(&b).map(difference).collect::<Vec<_>>()))
}

/// The medians as text, methods down and systems across.
pub(crate) fn medians_text(cells: &[MethodRun], measure: Measure) -> String {
    let all = summaries(cells, measure);
    let (systems, methods) = (names(cells, |cell| &cell.system), names(cells, |cell| &cell.method));
    let width = methods.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(8);
    let mut lines = vec![format!("{} (median, 95 % interval)", measure.name())];
    let head: String = systems.iter().map(|name| format!("{name:>28}")).collect();
    lines.push(format!("{:<width$}{head}", ""));
    for method in methods {
        let of = |system: &&str| match all.iter().find(|s| s.system == **system && s.method == method) {
            Some(Summary { median, interval: (low, high), unstable, .. }) => {
                let mark = if *unstable > 0 { format!(" {unstable}!") } else { String::new() };
                format!("{:>28}", format!("{median:.3} ({low:.3} … {high:.3}){mark}"))
            }
            None => format!("{:>28}", "–"),
        };
        lines.push(format!("{method:<width$}{}", systems.iter().map(of).collect::<String>()));
    }
    if all.iter().any(|summary| summary.unstable > 0) {
        lines.push("A number with ! counts test interventions without a prediction: the model has no such law, or the method failed. Their distance is infinite.".into());
    }
    lines.join("\n")
}

/// The published medians as text, methods down and the plan's systems across; empty if there are none.
pub(crate) fn published_text(plan: &ExperimentPlan, measure: Measure) -> String {
    let shown: Vec<&Published> = plan.published.iter().filter(|p| !measure.published(p).is_empty()).collect();
    let Some(width) = shown.iter().map(|p| p.method.chars().count().max(8)).max() else {
        return String::new();
    };
    let mut lines = vec![format!("{} as published (median)", measure.name())];
    let head: String = plan.systems.iter().map(|system| format!("{:>12}", system.name)).collect();
    lines.push(format!("{:<width$}{head}", ""));
    for published in shown {
        let of = |name: &String| match measure.published(published).get(name) {
            Some(value) => format!("{value:>12}"),
            None => format!("{:>12}", "–"),
        };
        let row: String = plan.systems.iter().map(|system| of(&system.name)).collect();
        lines.push(format!("{:<width$}{row}", published.method));
    }
    lines.join("\n")
}

/// Medians of the exact W2 and of the Sinkhorn divergence beside the published W2, which is a Sinkhorn divergence.
pub(crate) fn beside_published_text(plan: &ExperimentPlan, cells: &[MethodRun]) -> String {
    let (exact, blurred) = (summaries(cells, Measure::W2), summaries(cells, Measure::Sinkhorn));
    let (systems, methods) = (names(cells, |cell| &cell.system), names(cells, |cell| &cell.method));
    let width = methods.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(8);
    let mut lines = vec!["W2 exact / Sinkhorn divergence / as published (medians)".to_string()];
    let head: String = systems.iter().map(|name| format!("{name:>24}")).collect();
    lines.push(format!("{:<width$}{head}", ""));
    for method in methods {
        let of = |system: &&str| {
            let median = |all: &[Summary]| {
                let own = all.iter().find(|s| s.system == **system && s.method == method);
                own.map_or("–".into(), |own| format!("{:.1}", own.median))
            };
            let published = plan.published.iter().find(|published| published.method == method);
            let published = published.and_then(|published| published.w2.get(*system));
            let published = published.map_or("–".into(), |value| value.to_string());
            format!("{:>24}", format!("{} / {} / {published}", median(&exact), median(&blurred)))
        };
        lines.push(format!("{method:<width$}{}", systems.iter().map(of).collect::<String>()));
    }
    lines.join("\n")
}

/// Median seconds that methods take to fit, and to predict all test interventions of a dataset, by system.
pub(crate) fn seconds_text(cells: &[MethodRun]) -> String {
    let (systems, methods) = (names(cells, |cell| &cell.system), names(cells, |cell| &cell.method));
    let width = methods.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(8);
    let mut lines =
        vec!["seconds to fit + to predict (median over datasets; cells run in parallel)".to_string()];
    let head: String = systems.iter().map(|name| format!("{name:>18}")).collect();
    lines.push(format!("{:<width$}{head}", ""));
    for method in methods {
        let of = |system: &&str| {
            let own = || cells.iter().filter(|cell| cell.system == **system && cell.method == method);
            let fit = median(&own().map(|cell| cell.fit_seconds).collect::<Vec<_>>());
            let predict = median(&own().map(|cell| cell.predict_seconds).collect::<Vec<_>>());
            let text = if fit.is_nan() { "–".into() } else { format!("{fit:.2} + {predict:.2}") };
            format!("{text:>18}")
        };
        lines.push(format!("{method:<width$}{}", systems.iter().map(of).collect::<String>()));
    }
    lines.join("\n")
}

/// A table of p-values for a system: whether the row's method is better than the column's.
pub(crate) fn significance_text(cells: &[MethodRun], system: &str, measure: Measure) -> String {
    let methods: Vec<&str> = names(cells, |cell| &cell.method)
        .into_iter()
        .filter(|method| cells.iter().any(|cell| cell.system == system && cell.method == *method))
        .collect();
    let width = methods.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(8);
    let mut lines = vec![format!(
        "{system}, {}: p-values for \"the row's method beats the column's by at least 5 %\" (Wilcoxon signed-rank, one-sided)",
        measure.name()
    )];
    let head: String = (1..=methods.len()).map(|k| format!("{:>10}", format!("[{k}]"))).collect();
    lines.push(format!("{:<width$}     {head}", ""));
    for (k, better) in methods.iter().enumerate() {
        let of = |other: &&str| match comparison(cells, system, better, other, measure) {
            Some(_) if other == better => format!("{:>10}", "·"),
            Some(Wilcoxon { p, .. }) if p < 1e-3 => format!("{p:>10.0e}"),
            Some(Wilcoxon { p, .. }) => format!("{p:>10.3}"),
            None => format!("{:>10}", "–"),
        };
        let row: String = methods.iter().map(of).collect();
        lines.push(format!("{better:<width$} {:<4}{row}", format!("[{}]", k + 1)));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::run::InterventionResult;
    use super::*;

    fn cells() -> Vec<MethodRun> {
        let cell = |seed: u64, method: &str, factor: f64| MethodRun {
            system: "S".into(),
            seed,
            method: method.into(),
            made_of: String::new(),
            fit_seconds: 0.0,
            predict_seconds: 0.0,
            rows: (0..10)
                .map(|e| {
                    let w2 = factor * (1.0 + e as f64 + seed as f64);
                    let none = method == "bad" && e == 0;
                    InterventionResult {
                        environment: e,
                        target: "x".into(),
                        scores: (!none).then_some(Scores { mse: 0.1 * w2, w2, sinkhorn: w2 }),
                        unstable: none.then(|| "no law".into()),
                        failed: None,
                    }
                })
                .collect(),
        };
        (0..4).flat_map(|seed| [cell(seed, "good", 1.0), cell(seed, "bad", 1.2)]).collect()
    }

    #[test]
    fn medians_and_intervals_are_those_of_the_rows() {
        let all = summaries(&cells(), Measure::W2);
        assert_eq!((all[0].median, all[0].predictions, all[0].unstable), (7.0, 40, 0));
        assert!(
            all[0].interval.0 >= 5.5 && all[0].interval.1 <= 8.5 && all[0].interval.0 < all[0].interval.1
        );
        assert_eq!((all[1].method.as_str(), all[1].unstable), ("bad", 4));
        let text = medians_text(&cells(), Measure::Mse);
        assert!(text.contains("good") && text.contains("0.700 (") && text.contains("4!"), "{text}");
    }

    #[test]
    fn both_distances_are_beside_the_published_one() {
        let plan: ExperimentPlan = toml::from_str(
            "datasets = 4\n[[system]]\nname = \"S\"\nsettings = { system = \"sde\" }\n[[method]]\nname = \"good\"\n\
             kind = \"diagonal\"\n[[published]]\nmethod = \"good\"\nw2 = { S = 3.5 }",
        )
        .unwrap();
        let mut cells = cells();
        cells.iter_mut().flat_map(|cell| &mut cell.rows).for_each(|row| {
            row.scores.iter_mut().for_each(|scores| scores.sinkhorn = 0.5 * scores.w2);
        });
        let text = beside_published_text(&plan, &cells);
        assert!(
            text.contains("7.0 / 3.5 / 3.5")
                && text.lines().any(|l| l.starts_with("bad") && l.ends_with("/ –")),
            "{text}"
        );
    }

    #[test]
    fn a_method_that_is_always_better_by_more_than_a_twentieth_is_found_so() {
        let cells = cells();
        let better = comparison(&cells, "S", "good", "bad", Measure::W2).unwrap();
        assert!(better.p < 1e-6, "{better:?}");
        assert!(comparison(&cells, "S", "bad", "good", Measure::W2).unwrap().p > 0.999);
        assert!(comparison(&cells, "S", "good", "none", Measure::W2).is_none());
        assert!(significance_text(&cells, "S", Measure::W2).contains("good     [1]"));
    }
}
