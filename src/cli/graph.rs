//! `skds graph`: which variable drives which, by a fitted model.

use super::command::Command;
use super::print_report;
use crate::graph::{Format, Graph};
use crate::model::Model;
use crate::plot::{check_picture_path, write_picture};
use crate::report::picture::heatmap;
use crate::{Error, Result};
use serde::Serialize;
use std::path::PathBuf;

/// As many effects as are listed if nothing is said.
const LISTED: usize = 20;

/// List, plot and export the effects between variables in a model
///
/// In a linear model, the strength of the effect of i on j is the weight w_ji. In a neural model, its size is the norm of the
/// weights with which network j sees variable i (what the penalty penalises), and its sign is that of the average slope. In a
/// basis model, its size is the norm of the coefficients of the functions that depend on i, in standard deviations of
/// function and target, and its sign is that of the difference that i makes around its mean.
///
/// Strengths are in the units of the data. Fitted models also know the standard deviations of the data, so the table adds
/// strengths in standard units and orders and selects effects by these. An effect of exactly 0 is no effect.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  # The 20 strongest effects
  skds graph model.safetensors

  # All effects of at least 0.1, also as a file for Cytoscape, Gephi or networkx
  skds graph model.safetensors --threshold 0.1 -o effects.graphml

  # The 50 strongest, drawn by Graphviz
  skds graph model.safetensors --top 50 -o effects.dot
  dot -Tsvg effects.dot > graph.svg

  # A heatmap of all effects: rows are targets, columns are sources
  skds graph model.safetensors --heatmap effects.svg")]
pub(super) struct Args {
    /// The model file
    model: PathBuf,
    /// Select effects of at least T in absolute strength, in standard units if the model knows them
    #[arg(long, value_name = "T", value_parser = threshold, allow_hyphen_values = true)]
    threshold: Option<f64>,
    /// Select the K strongest effects [default: the table shows 20, files have all]
    #[arg(long, value_name = "K", value_parser = top, allow_hyphen_values = true)]
    top: Option<usize>,
    /// Write the effects to this file: .csv, .graphml or .dot
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Plot the effects as a matrix to this .svg or .png file: rows are targets, columns are sources
    #[arg(long, value_name = "FILE")]
    heatmap: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn threshold(text: &str) -> Result<f64> {
    match text.parse::<f64>() {
        Ok(least) if least >= 0.0 && least.is_finite() => Ok(least),
        _ => Err(Error::invalid(format!("found '{text}', expected a finite number of at least 0"))),
    }
}

fn top(text: &str) -> Result<usize> {
    match text.parse::<usize>() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(Error::invalid(format!("found '{text}', expected a whole number of at least 1"))),
    }
}

/// What is printed.
#[derive(Serialize)]
struct Report<'a> {
    model: &'static str,
    /// What the noise does; members of an ensemble may differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    law: Option<&'static str>,
    /// Models that are averaged; 0 if there is only one.
    members: usize,
    standardized: bool,
    variables: &'a [String],
    total: usize,
    threshold: Option<f64>,
    top: Option<usize>,
    effects: Vec<Named<'a>>,
}

/// An effect with the names of its variables.
#[derive(Serialize)]
struct Named<'a> {
    source: &'a str,
    target: &'a str,
    strength: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    standard: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<(f64, f64)>,
    /// In how many members of an ensemble, and of how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<(usize, usize)>,
}

impl Command for Args {
    fn run(&self) -> Result<()> {
        run(self)
    }
}

fn run(args: &Args) -> Result<()> {
    // Names of files that nothing can be written to are refused before anything is.
    args.output.as_deref().map(Format::of).transpose()?;
    args.heatmap.as_deref().map(check_picture_path).transpose()?;
    let model = Model::read(&args.model)?;
    let graph = Graph::of(&model)?;
    let strong = graph.select(args.threshold, None);
    let selected = strong.select(None, args.top);
    let report = Report::new(args, &model, &graph, &selected);
    if let Some(path) = &args.output {
        selected.write(path)?;
    }
    if let Some(path) = &args.heatmap {
        write_picture(
            path,
            "Effects",
            &[heatmap(&selected, format!("{} model, {} units", report.model, units_drawn(&model)))],
        )?;
    }
    print_report(args.json, &report, || report.to_text(args, strong.effects().len()))
}

impl<'a> Report<'a> {
    fn new(args: &Args, model: &'a Model, graph: &Graph, selected: &Graph) -> Self {
        let named = |e: &crate::graph::Effect| Named {
            source: &model.names[e.source],
            target: &model.names[e.target],
            strength: e.strength,
            standard: e.standard,
            interval: e.interval,
            members: e.members,
        };
        Report {
            model: model.parameters.drift.name(),
            law: model.members.is_empty().then(|| model.law.name()),
            members: model.members.len(),
            standardized: model.standardization.is_some() || model.parameters.drift.effects_in_deviations(),
            variables: &model.names,
            total: graph.effects().len(),
            threshold: args.threshold,
            top: args.top,
            effects: selected.effects().iter().map(named).collect(),
        }
    }

    fn units(&self) -> &'static str {
        if self.standardized { "standard" } else { "original" }
    }

    /// `strong` effects reach the threshold.
    fn to_text(&self, args: &Args, strong: usize) -> String {
        let kind = match (self.members, self.law) {
            (0, Some("structural")) => format!("{} model of structural equations", self.model),
            (0, _) => format!("{} model", self.model),
            (count, _) => format!("average of {count} {} models", self.model),
        };
        let mut lines = vec![format!(
            "{kind}, {} variables, {} effects, {} units",
            self.variables.len(),
            self.total,
            self.units()
        )];
        let shown = &self.effects[..self.effects.len().min(args.top.unwrap_or(LISTED))];
        if !shown.is_empty() {
            lines.push(String::new());
            lines.extend(table(shown));
        }
        lines.push(String::new());
        let reach = self.threshold.map_or(String::new(), |least| format!(" of at least {least} in size"));
        lines.push(match (shown.len(), strong) {
            (0, _) => format!("no effects{reach}"),
            (shown, strong) if shown == strong => format!("all {strong} effects{reach}"),
            (shown, strong) => format!("the strongest {shown} of {strong} effects{reach}; see --top"),
        });
        if let Some(path) = &args.output {
            lines.push(format!("{} effects written to {}", self.effects.len(), path.display()));
        }
        if let Some(path) = &args.heatmap {
            lines.push(format!("matrix drawn to {}", path.display()));
        }
        lines.join("\n")
    }
}

/// Where standard units are known, pictures are in them.
fn units_drawn(model: &Model) -> &'static str {
    if model.units().is_some() { "standard" } else { "original" }
}

fn table(effects: &[Named<'_>]) -> Vec<String> {
    // A name with a line break in it must not break the table.
    let plain = |name: &str| name.replace(char::is_control, " ");
    let intervals = effects.iter().any(|e| e.interval.is_some());
    let standard = effects.iter().any(|e| e.standard.is_some());
    let members = effects.iter().any(|e| e.members.is_some());
    let header = [
        "source",
        "target",
        "strength",
        if standard { "standard" } else { "" },
        if members { "members" } else { "" },
        if intervals { "interval" } else { "" },
    ];
    let mut rows = vec![header.map(String::from)];
    rows.extend(effects.iter().map(|e| {
        let interval =
            e.interval.map_or(String::new(), |(low, high)| format!("{} … {}", number(low), number(high)));
        let standard = e.standard.map_or(String::new(), number);
        let members = e.members.map_or(String::new(), |(with, all)| format!("{with} of {all}"));
        [plain(e.source), plain(e.target), number(e.strength), standard, members, interval]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second, third, fourth, fifth) = (width(0), width(1), width(2), width(3), width(4));
    let gap = |is_there: bool| if is_there { "  " } else { "" };
    let (before_standard, before_members) = (gap(standard), gap(members));
    let line = |[source, target, strength, standard, members, interval]: &[String; 6]| {
        let line = format!(
            "{source:<first$}  {target:<second$}  {strength:>third$}{before_standard}{standard:>fourth$}\
             {before_members}{members:>fifth$}  {interval}"
        );
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn number(strength: f64) -> String {
    match strength.abs() {
        size if size == 0.0 || (1e-3..1e6).contains(&size) => format!("{strength:+.4}"),
        _ => format!("{strength:+.3e}"),
    }
}
