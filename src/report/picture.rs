//! Pictures of fits and of their effects.

use crate::fit::{Method, Record, ScoredSetting, Tuning};
use crate::graph::Graph;
use crate::model::PenaltyKind;
use crate::objective::Objective;
use crate::plot::{self, Colour, Line, Panel};
use crate::{Matrix, Result};
use std::path::Path;

/// Draws the loss and the penalty over the steps.
pub(crate) fn loss_curve(objective: Objective, log: &[Record], path: &Path) -> Result<()> {
    let points = |value: fn(&Record) -> f64| {
        log.iter().map(|record| (f64::from(record.step), value(record))).collect::<Vec<_>>()
    };
    let name = objective.name().to_uppercase();
    let panel = Panel::Lines {
        title: String::new(),
        x_label: "step".into(),
        y_label: format!("{name} on the step's batch"),
        scales: (plot::Scale::Linear, plot::Scale::Linear),
        lines: vec![
            Line { label: "loss".into(), colour: Colour::Blue, points: points(|record| record.loss) },
            Line { label: "penalty".into(), colour: Colour::Orange, points: points(|record| record.penalty) },
        ],
        points: vec![],
        verticals: vec![],
        horizontals: vec![],
    };
    plot::write_picture(path, "Loss while fitting", &[panel])
}

/// Draws how every setting of a choice did.
pub(crate) fn tuning(tuning: &Tuning, path: &Path) -> Result<()> {
    let (title, panels) = tuning_panels(tuning);
    plot::write_picture(path, title, &panels)
}

/// The same as SVG.
pub(crate) fn tuning_svg(tuning: &Tuning) -> Result<String> {
    let (title, panels) = tuning_panels(tuning);
    plot::to_svg(title, &panels)
}

/// The matrix of effects: row j, column i is the effect of i on j.
pub(crate) fn heatmap(graph: &Graph, title: String) -> Panel {
    let matrix = graph.standard_matrix();
    // A variable's effect on itself is none of these: no value, not 0.
    let entry = |i, j| if i == j { f64::NAN } else { matrix[(i, j)] };
    Panel::Heatmap {
        title,
        x_label: "source".into(),
        y_label: "target".into(),
        rows: graph.names().to_vec(),
        columns: graph.names().to_vec(),
        values: Matrix::from_fn(matrix.rows(), matrix.cols(), entry),
    }
}

fn tuning_panels(tuning: &Tuning) -> (&'static str, Vec<Panel>) {
    match (tuning.is_by_loss(), tuning.held_out) {
        (true, _) => ("Loss of what was held out, above the best setting's", panels(tuning)),
        (false, "rows") => ("Distance to what was held out, over that of no effect", vec![paths(tuning)]),
        (false, _) => {
            ("Squared error of left-out interventions, over that of no effect", vec![paths(tuning)])
        }
    }
}

/// A line for each method and bandwidth: penalties across, and what they predict over what no effect does.
fn paths(tuning: &Tuning) -> Panel {
    let mut lines: Vec<Line> = Vec::new();
    for setting in tuning.settings.iter().filter(|setting| setting.method != Method::Nothing) {
        let Some(over) = tuning.over_no_effect(setting).filter(|over| over.is_finite()) else { continue };
        let bandwidth = setting.bandwidth.map_or(String::new(), |h| format!(", bandwidth {h:.2}"));
        let label = format!("{}{bandwidth}", setting.method.label());
        if lines.last().is_none_or(|line| line.label != label) {
            let colours =
                [Colour::Blue, Colour::Orange, Colour::Green, Colour::Red, Colour::Purple, Colour::Black];
            let colour = colours[lines.len() % colours.len()];
            lines.push(Line { label, colour, points: Vec::new() });
        }
        if let Some(line) = lines.last_mut() {
            line.points.push((setting.lambda, over));
        }
    }
    Panel::Lines {
        title: String::new(),
        x_label: "λ".into(),
        y_label: "over no effect".into(),
        scales: (plot::Scale::Log, plot::Scale::Log),
        lines,
        points: vec![],
        verticals: vec![],
        horizontals: vec![1.0],
    }
}

/// A matrix of scores for each kind of penalty: bandwidths down, λ across.
fn panels(tuning: &Tuning) -> Vec<Panel> {
    let score = |setting: &ScoredSetting| setting.score.unwrap_or(f64::NAN);
    let best = tuning.settings.iter().map(score).fold(f64::INFINITY, f64::min);
    let mut kinds: Vec<PenaltyKind> = Vec::new();
    for setting in &tuning.settings {
        if !kinds.contains(&setting.penalty) {
            kinds.push(setting.penalty);
        }
    }
    kinds
        .into_iter()
        .map(|kind| {
            let settings: Vec<_> = tuning.settings.iter().filter(|setting| setting.penalty == kind).collect();
            let mut bandwidths: Vec<Option<f64>> = settings.iter().map(|setting| setting.bandwidth).collect();
            bandwidths.dedup();
            let width = settings.len() / bandwidths.len();
            Panel::Heatmap {
                title: format!("{kind} penalty"),
                x_label: "λ".into(),
                y_label: "bandwidth".into(),
                columns: settings[..width].iter().map(|setting| format!("{}", setting.lambda)).collect(),
                rows: bandwidths.iter().map(|h| h.map_or("none".into(), |h| format!("{h:.2}"))).collect(),
                values: Matrix::from_fn(bandwidths.len(), width, |i, j| {
                    score(settings[i * width + j]) - best
                }),
            }
        })
        .collect()
}
