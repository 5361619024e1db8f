//! `skds suggest`: which perturbation to make next.

use super::command::Command;
use super::data::CellArgs;
use super::sample::assignments;
use super::{print_report, progress::ProgressDisplay};
use crate::data::Dataset;
use crate::fit::Knowledge;
use crate::model::Model;
use crate::predict::TargetMeans;
use crate::suggest::{Aim, Question, Suggestions, suggest, work};
use crate::{Progress, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rank perturbations that nobody has made, by how much they would tell or by where they lead
///
/// Without --towards, the command repeats the fit on parts of the data: two thirds of the interventions and half of the rows. It
/// ranks perturbations by how much the predictions of these refits differ. Where they differ most, an experiment tells most.
///
/// With --towards, it ranks perturbations by how close the model brings the given means to the wanted ones.
///
/// A perturbed variable is taken to reach the mean that it has under perturbations in the data. A variable that was never
/// perturbed is taken to change as the others did under theirs: by the median size, in the direction of most.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  # The five variables whose perturbation would tell most
  skds suggest model.safetensors --from train.npz --top 5

  # The same with pairs, for cells
  skds suggest model.safetensors --from screen.h5ad --pairs

  # What brings GATA1 to 2 and SPI1 to 0.1?
  skds suggest model.safetensors --from screen.h5ad --towards GATA1=2 --towards SPI1=0.1 --pairs")]
pub(super) struct Args {
    /// The model file
    model: PathBuf,
    /// The training data of the model
    #[arg(long, value_name = "DATA")]
    from: PathBuf,
    /// The intervention targets of --from, for .csv data
    #[arg(long, value_name = "FILE")]
    from_targets: Option<PathBuf>,
    /// How many to list
    #[arg(long, value_name = "K", default_value_t = 10)]
    top: usize,
    /// Consider pairs of variables, too: of the 40 that rank first alone
    #[arg(long)]
    pairs: bool,
    /// A mean to reach, in data units; can be repeated
    #[arg(long, value_name = "NAME=V")]
    towards: Vec<String>,
    /// How often to repeat the fit
    #[arg(long, value_name = "N", default_value_t = 10)]
    refits: usize,
    /// What is known of effects, as for the fit
    #[arg(long, value_name = "FILE")]
    edges: Option<PathBuf>,
    /// Seed of all random choices
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cells: CellArgs,
}

impl Command for Args {
    fn run(&self) -> Result<()> {
        let model = Model::read(&self.model)?;
        let question =
            Question { aim: self.aim(&model)?, count: self.top, pairs: self.pairs, seed: self.seed };
        self.cells.check(&[Some(&self.from)])?;
        let data = self.cells.read_start(&self.from, self.from_targets.as_deref(), &model)?;
        let known = known(self.edges.as_deref(), &data)?;
        let progress = Arc::new(Progress::default());
        let shown = ProgressDisplay::new("fits", progress.clone(), work(&model, &data, &question)?);
        let found = suggest(&model, &data, known.as_ref(), &question, &progress)?;
        drop(shown);
        print_report(self.json, &found, || to_text(&found))
    }
}

impl Args {
    fn aim(&self, model: &Model) -> Result<Aim> {
        if self.towards.is_empty() {
            return Ok(Aim::Information { refits: self.refits });
        }
        let mut wanted = TargetMeans { targets: Vec::new(), means: Vec::new() };
        for (name, mean) in assignments("--towards", &self.towards)? {
            wanted.targets.push(model.variable(&name)?);
            wanted.means.push(mean);
        }
        Ok(Aim::State(wanted))
    }
}

fn known(edges: Option<&Path>, data: &Dataset) -> Result<Option<Knowledge>> {
    edges.map(|path| Knowledge::read(path, data.names())).transpose()
}

fn to_text(found: &Suggestions) -> String {
    let label = |targets: &[String]| targets.join("+");
    let rows = &found.suggestions;
    let width = rows.iter().map(|row| label(&row.targets).chars().count()).max().unwrap_or(0).max(12);
    let mut lines = vec![
        format!("The best {} of {} perturbations that the data does not have:", rows.len(), found.candidates),
        String::new(),
        format!("{:<width$}  {:>12}  reaches", "perturbation", "score"),
    ];
    for row in rows {
        let levels: Vec<String> = row
            .levels
            .iter()
            .map(|level| format!("{:.3}{}", level.mean, if level.observed { "" } else { " (assumed)" }))
            .collect();
        lines.push(format!("{:<width$}  {:>12.6}  {}", label(&row.targets), row.score, levels.join(", ")));
    }
    lines.push(format!("\n{}", found.meaning));
    lines.join("\n")
}
