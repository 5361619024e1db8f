//! The part of `skds sample` that moves rows by perturbations as strong as those in the data.

use super::{Args, Variable, summary};
use crate::cli::print_report;
use crate::cli::progress::ProgressDisplay;
use crate::data::Dataset;
use crate::model::Model;
use crate::predict::{Level, Levels, MATCHING_PROGRESS, Origin, anchored_each, targets_of_label};
use crate::sample::Method;
use crate::{Matrix, Progress, Result};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is printed.
#[derive(Serialize)]
struct Report {
    from: PathBuf,
    environment: usize,
    rows: usize,
    predictions: Vec<Perturbed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<PathBuf>,
}

/// One prediction.
#[derive(Serialize)]
struct Perturbed {
    perturbation: String,
    levels: Vec<Named>,
    variables: Vec<Variable>,
}

/// A level with the name of its variable.
#[derive(Serialize)]
struct Named {
    name: String,
    #[serde(flatten)]
    level: Level,
}

/// Moves the rows of --from by every --perturb.
pub(super) fn run(args: &Args, model: &Model, path: &Path) -> Result<()> {
    let separator = args.cells.separator_for(model);
    let labels = &args.intervention.perturb;
    let targets =
        labels.iter().map(|label| targets_of_label(model, label, separator)).collect::<Result<Vec<_>>>()?;
    let settings = args.simulation.settings();
    let method = settings.method_for(model)?;
    let data = args.cells.read_start(path, args.data.from_targets.as_deref(), model)?;
    let origin = Origin::of(model, &data)?.draw(args.n, args.seed)?;
    let levels = Levels::of(&data)?;
    let (treatments, reached): (Vec<_>, Vec<Vec<Level>>) = targets
        .iter()
        .map(|targets| levels.treatment(model, targets))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .unzip();
    let sampler = args.device.sampler(method)?;
    let progress = Arc::new(Progress::default());
    let shown =
        (method == Method::Euler).then(|| ProgressDisplay::new("parts", progress.clone(), MATCHING_PROGRESS));
    let each = (&labels[..], &treatments[..]);
    let moved = anchored_each(&sampler, model, &origin, each, &settings, args.seed, &progress)?;
    drop(shown);
    let mut predictions = Vec::new();
    for ((label, rows), reached) in labels.iter().zip(&moved).zip(reached) {
        let named = |level: Level| Named { name: model.names[level.variable].clone(), level };
        predictions.push(Perturbed {
            perturbation: label.clone(),
            levels: reached.into_iter().map(named).collect(),
            variables: summary(rows, &model.names),
        });
    }
    if let Some(output) = &args.output {
        let flags = Matrix::from_fn(targets.len(), model.dim(), |e, j| targets[e].contains(&j));
        Dataset::from_environments(moved)?
            .with_targets(flags)?
            .with_names(model.names.clone())?
            .write(output)?;
    }
    let report = Report {
        from: path.into(),
        environment: origin.environment,
        rows: origin.rows.rows(),
        predictions,
        output: args.output.clone(),
    };
    print_report(args.json, &report, || report.to_text())
}

impl Report {
    fn to_text(&self) -> String {
        let Report { from, environment, rows, predictions, output } = self;
        let mut lines = vec![format!("{rows} rows of {}, environment {environment}, moved", from.display())];
        for Perturbed { perturbation, levels, variables } in predictions {
            let reached: Vec<String> = levels
                .iter()
                .map(|Named { name, level }| {
                    let how = if level.observed { "as in the data" } else { "assumed" };
                    format!("{name} reaches {:.3} ({how})", level.mean)
                })
                .collect();
            lines.push(format!("\n{perturbation}: {}", reached.join(", ")));
            if output.is_none() {
                lines.extend(super::table(variables));
            }
        }
        lines.extend(output.as_ref().map(|path| format!("\nWritten to {}.", path.display())));
        lines.join("\n")
    }
}
