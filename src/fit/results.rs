//! A fit's files: the model, and beside it what tells how it came about.

use super::{ExactFit, Outcome, Problem, Record, Stability, Tuning};
use crate::model::{Model, PenaltyKind};
use crate::plot::{self, Colour, Line, Panel};
use crate::{Matrix, Result, output};
use std::io::Write;
use std::path::Path;

impl Problem {
    /// Writes what training led to, the model last: beside it the log and a picture of the loss. Returns the model and what
    /// was found of it.
    pub fn write(&self, outcome: &Outcome, path: &Path) -> Result<(Model, Stability)> {
        output::write_atomically(&path.with_extension("log.jsonl"), |writer| {
            for record in &outcome.log {
                serde_json::to_writer(&mut *writer, record)?;
                writer.write_all(b"\n")?;
            }
            Ok(())
        })?;
        let points = |value: fn(&Record) -> f64| {
            outcome.log.iter().map(|record| (f64::from(record.step), value(record))).collect::<Vec<_>>()
        };
        let name = self.recipe.objective.name().to_uppercase();
        let panel = Panel::Lines {
            title: String::new(),
            x_label: "step".into(),
            y_label: format!("{name} on the step's batch"),
            scales: (plot::Scale::Linear, plot::Scale::Linear),
            lines: vec![
                Line { label: "loss".into(), colour: Colour::Blue, points: points(|record| record.loss) },
                Line {
                    label: "penalty".into(),
                    colour: Colour::Orange,
                    points: points(|record| record.penalty),
                },
            ],
            points: vec![],
            verticals: vec![],
            horizontals: vec![],
        };
        plot::write_picture(&path.with_extension("loss.svg"), "Loss while fitting", &[panel])?;
        let (model, stability) = self.model(&outcome.state)?;
        model.write(path)?;
        Ok((model, stability))
    }
}

impl ExactFit {
    /// Writes the model, and before it what tuning found.
    pub fn write(&self, path: &Path) -> Result<()> {
        if let Some(tuning) = &self.tuning {
            write_table(tuning, &path.with_extension("tuning.csv"))?;
            plot::write_picture(
                &path.with_extension("tuning.svg"),
                match tuning.is_average() {
                    true => "Logarithm of the distance to what was held out, above the best setting's",
                    false => "Loss of what was held out, above the best setting's",
                },
                &panels(tuning),
            )?;
        }
        self.model.write(path)
    }
}

/// One row per setting.
fn write_table(tuning: &Tuning, path: &Path) -> Result<()> {
    output::write_atomically(path, |writer| {
        writeln!(writer, "bandwidth,penalty,lambda,score,error,weight")?;
        for cell in &tuning.cells {
            let bandwidth = cell.bandwidth.map_or(String::new(), |h| h.to_string());
            writeln!(
                writer,
                "{bandwidth},{},{},{},{},{}",
                cell.penalty, cell.lambda, cell.score, cell.error, cell.weight
            )?;
        }
        Ok(())
    })
}

/// A matrix of scores for each kind of penalty: bandwidths down, λ across.
fn panels(tuning: &Tuning) -> Vec<Panel> {
    let best = tuning.cells.iter().map(|cell| cell.score).fold(f64::INFINITY, f64::min);
    let mut kinds: Vec<PenaltyKind> = Vec::new();
    for cell in &tuning.cells {
        if !kinds.contains(&cell.penalty) {
            kinds.push(cell.penalty);
        }
    }
    kinds
        .into_iter()
        .map(|kind| {
            let cells: Vec<_> = tuning.cells.iter().filter(|cell| cell.penalty == kind).collect();
            let mut bandwidths: Vec<Option<f64>> = cells.iter().map(|cell| cell.bandwidth).collect();
            bandwidths.dedup();
            let width = cells.len() / bandwidths.len();
            Panel::Heatmap {
                title: format!("{kind} penalty"),
                x_label: "λ".into(),
                y_label: "bandwidth".into(),
                columns: cells[..width].iter().map(|cell| format!("{}", cell.lambda)).collect(),
                rows: bandwidths.iter().map(|h| h.map_or("none".into(), |h| format!("{h:.2}"))).collect(),
                values: Matrix::from_fn(bandwidths.len(), width, |i, j| cells[i * width + j].score - best),
            }
        })
        .collect()
}
