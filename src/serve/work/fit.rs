//! Fits: the same steps, files and bytes as `skds fit`.

use crate::engine::{Engine, State};
use crate::fit::{AdamRecipe, Checkpoint, Problem, Record, Rhythm, Stability, Tuning, Watcher};
use crate::graph::Graph;
use crate::model::Model;
use crate::plot::write_picture;
use crate::serve::request::FitRequest;
use crate::serve::service::Finished;
use crate::serve::shares::Holder;
use crate::serve::store::{self, Store};
use crate::serve::worker::Work;
use crate::{Error, Matrix, Progress, Result};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Steps between checkpoints, as on the command line.
const KEEP_EVERY: u32 = 2000;
/// Effects in files of the graph, strongest first.
const MOST_EFFECTS: usize = 100_000;
/// Variables in pictures of the effects, those with the strongest.
const MOST_VARIABLES: usize = 100;

pub(in crate::serve) fn run(work: &Work<'_>, request: &FitRequest) -> Result<Finished> {
    let data = work.service.dataset(&request.dataset)?;
    let problem = Problem::new(&data, &request.settings)?;
    let path = work.folder()?.join("model.safetensors");
    let (stability, summary) = match problem.recipe.solver.adam().copied() {
        None => exact(work, request, &problem, &path)?,
        Some(recipe) => adam(work, &problem, &recipe, &path)?,
    };
    let model = Model::read(&path)?;
    let graph = Graph::of(&model)?;
    let strongest = graph.select(None, Some(MOST_EFFECTS));
    for ending in ["csv", "graphml", "dot"] {
        strongest.write(&path.with_file_name(format!("effects.{ending}")))?;
    }
    let shown = graph.part(MOST_VARIABLES);
    let picture = shown.heatmap(format!("{} model", model.parameters.drift.name()));
    write_picture(&path.with_file_name("effects.svg"), "Effects", &[picture])?;
    let info = work.service.files.keep_model(&path, model)?;
    work.service
        .store
        .write_now(Store::keep_model(&info, &Holder::Job(work.ticket.id.clone())))
        .map_err(|problem| Error::invalid(problem.sentence))?;
    work.finished(json!({
        "model": info.id,
        "summary": summary,
        "stable": stability.stable,
        "stability": stability,
        "constant": problem.constant(),
        "effects": effects(&shown, graph.names().len()),
    }))
}

fn exact(
    work: &Work<'_>,
    request: &FitRequest,
    problem: &Problem,
    path: &Path,
) -> Result<(Stability, String)> {
    let (progress, all) = (Progress::default(), problem.solves());
    // As on the command line: in f64 on the CPU unless a GPU is asked for by name.
    let gpu = work.gpu.filter(|_| request.device.is_some());
    let mut fit = work.watched(&progress, all, || problem.solve(gpu, &progress))?;
    if let Some(count) = request.bootstrap {
        work.ticket.live.say(format!("{count} resamples for intervals"));
        let progress = Progress::default();
        let intervals = work
            .watched(&progress, count as u64, || problem.bootstrap(fit.tuning.as_ref(), count, &progress))?;
        fit.model.intervals = Some(Box::new(intervals));
    }
    fit.write(path)?;
    let averaged = fit.tuning.as_ref().is_some_and(Tuning::is_average);
    let mut lines = vec![format!(
        "{} over all pairs ({}) in {:.2} s, loss {:.4e}",
        if averaged { "exact minima, averaged," } else { "exact minimum" },
        fit.estimator,
        work.seconds(),
        fit.loss
    )];
    lines.extend(fit.tuning.as_ref().map(|tuning| tuning.explained()));
    lines.push(fit.stability.sentence());
    lines.extend(problem.remark());
    Ok((fit.stability.clone(), lines.join("\n")))
}

fn adam(work: &Work<'_>, problem: &Problem, recipe: &AdamRecipe, path: &Path) -> Result<(Stability, String)> {
    let checkpoint = Checkpoint::path_for(path);
    // One that cannot be read, or is of something else, is no harm: the fit begins anew.
    let from = checkpoint.exists().then(|| Checkpoint::of(&checkpoint, problem).ok()).flatten();
    if let Some(from) = &from {
        work.ticket.live.say(format!("goes on from step {}", from.state.steps));
    }
    let steps = recipe.steps;
    let rhythm = Rhythm { report_every: (steps / 200).max(1), keep_every: KEEP_EVERY };
    let first = from.as_ref().map_or(0, |from| from.state.steps);
    let mut watch = Watch { work, problem, steps, checkpoint: checkpoint.clone(), first };
    let outcome = problem.run(work.gpu, from.as_ref(), rhythm, &mut watch)?;
    if !outcome.complete {
        return Err(work.stopped());
    }
    let stability = problem.write(&outcome, path)?;
    let _ = std::fs::remove_file(&checkpoint);
    let device = work.gpu.map_or_else(|| "cpu".into(), Engine::<f32>::device);
    let last = outcome.log.last().map_or(f64::NAN, |record| record.loss);
    let mut lines = vec![
        format!("{steps} steps on {device} in {:.1} s, loss {last:.4e} on the last batch", work.seconds()),
        stability.sentence(),
    ];
    lines.extend(problem.remark());
    Ok((stability, lines.join("\n")))
}

struct Watch<'a> {
    work: &'a Work<'a>,
    problem: &'a Problem,
    steps: u32,
    checkpoint: PathBuf,
    first: u32,
}

impl Watcher for Watch<'_> {
    fn report(&mut self, record: &Record) {
        let steps = self.steps;
        let share = f64::from(record.step - self.first) / f64::from((steps - self.first).max(1));
        let details = store::Progress {
            step: Some(record.step),
            steps: Some(steps),
            loss: Some(record.loss),
            penalty: Some(record.penalty),
            ..store::Progress::default()
        };
        self.work.report(share, details);
    }

    fn keep(&mut self, state: &State, log: &[Record]) -> Result<()> {
        Checkpoint::new(self.problem, state, log).write(&self.checkpoint)
    }

    /// Asked before every step, which is when others may pass.
    fn stopped(&self) -> bool {
        self.work.let_one_pass();
        self.work.shall_stop()
    }
}

/// Effects as a matrix: row j, column i is the effect of i on j; nothing on the diagonal. In the data's units, and in standard
/// ones. Of more variables than these.
fn effects(graph: &Graph, variables: usize) -> Value {
    let rows = |matrix: Matrix<f64>| -> Vec<Vec<Value>> {
        let entry = |j: usize, i: usize| if i == j { Value::Null } else { json!(matrix[(j, i)]) };
        (0..matrix.rows()).map(|j| (0..matrix.cols()).map(|i| entry(j, i)).collect()).collect()
    };
    let (matrix, standard) = (rows(graph.matrix()), rows(graph.standard_matrix()));
    json!({ "names": graph.names(), "matrix": matrix, "standard": standard, "variables": variables })
}
