//! Fits: the same steps, files and bytes as `skds fit`.

use super::Task;
use crate::engine::{Engine, State};
use crate::fit::{
    AdamRecipe, Checkpoint, Knowledge, PreparedFit, Record, Stability, Support, TrainingObserver,
    TrainingSchedule, Tuning,
};
use crate::graph::Graph;
use crate::model::Model;
use crate::plot::write_picture;
use crate::report;
use crate::serve::domain::describe::describe_model;
use crate::serve::domain::message::Done;
use crate::serve::domain::request::FitRequest;
use crate::serve::store::database;
use crate::serve::store::files::hash_of;
use crate::{Error, Matrix, Progress, Result};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The model's file in the job's folder.
const MODEL: &str = "model.safetensors";
/// Steps between checkpoints, as on the command line.
const KEEP_EVERY: u32 = 2000;
/// Effects in files of the graph, strongest first.
const MOST_EFFECTS: usize = 100_000;
/// Variables in pictures of the effects, those with the strongest.
const MOST_VARIABLES: usize = 100;
/// Pairs of variables in a result whose effects on each other are not identified; they are always counted.
const MOST_PAIRS: usize = 1000;

pub(super) fn run(task: &Task<'_>, request: &FitRequest) -> Result<Done> {
    let data = task.dataset()?;
    let problem = match request.edges.is_empty() {
        true => PreparedFit::new(&data, &request.settings)?,
        false => {
            let knowledge = Knowledge::new(data.names(), request.edges.clone())?;
            PreparedFit::with_knowledge(&data, &request.settings, knowledge)?
        }
    };
    let path = task.folder()?.join(MODEL);
    let (found, tuning) = match problem.recipe.solver.adam().copied() {
        None => exact(task, request, &problem, &path)?,
        Some(recipe) => (adam(task, &problem, &recipe, &path)?, None),
    };
    let (stability, support, summary) = found;
    let model = Model::read(&path)?;
    let graph = Graph::of(&model)?;
    let strongest = graph.select(None, Some(MOST_EFFECTS));
    for ending in ["csv", "graphml", "dot"] {
        strongest.write(&path.with_file_name(format!("effects.{ending}")))?;
    }
    let shown = graph.part(MOST_VARIABLES);
    let picture = report::picture::heatmap(&shown, format!("{} model", model.parameters.drift.name()));
    write_picture(&path.with_file_name("effects.svg"), "Effects", &[picture])?;
    let info = describe_model(hash_of(&path)?, &model);
    let result = json!({
        "model": info.id,
        "summary": summary,
        "trust": tuning.as_ref().and_then(Tuning::expectation),
        "tuning": tuning,
        "stable": stability.stable,
        "stability": stability,
        "support": support.with_pairs_up_to(MOST_PAIRS),
        "constant": problem.constant_variables(),
        "effects": effects(&shown, graph.names().len(), model.members.len()),
    });
    Ok(Done { model: Some((MODEL.into(), info)), ..Done::new(result) })
}

/// What is known of a model, and in sentences.
type Found = (Stability, Support, String);

fn exact(
    task: &Task<'_>,
    request: &FitRequest,
    problem: &PreparedFit,
    path: &Path,
) -> Result<(Found, Option<Tuning>)> {
    let (progress, all) = (Progress::default(), problem.fit_count());
    // As on the command line: in f64 on the CPU unless a GPU is asked for by name.
    let gpu = task.gpu.filter(|_| request.device.is_some());
    let mut fit = task.watched(&progress, all, || problem.solve(gpu, &progress))?;
    if let Some(count) = request.bootstrap {
        task.say(format!("{count} resamples for intervals"));
        let progress = Progress::default();
        let intervals = task
            .watched(&progress, count as u64, || problem.bootstrap(fit.tuning.as_ref(), count, &progress))?;
        fit.model.intervals = Some(Box::new(intervals));
    }
    report::write_exact(&fit, path)?;
    let device = gpu.map_or_else(|| "cpu".into(), Engine::<f32>::device);
    let mut lines = vec![fit.title(problem)];
    let support = problem.support(&fit.model);
    lines.extend(fit.findings(problem, &support));
    lines.extend(fit.computation(problem, &device, task.seconds()));
    Ok(((fit.stability.clone(), support, lines.join("\n")), fit.tuning))
}

fn adam(task: &Task<'_>, problem: &PreparedFit, recipe: &AdamRecipe, path: &Path) -> Result<Found> {
    let checkpoint = Checkpoint::path_for(path);
    // One that cannot be read, or is of something else, is no harm: the fit begins anew.
    let from = checkpoint.exists().then(|| Checkpoint::read_for(&checkpoint, problem).ok()).flatten();
    if let Some(from) = &from {
        task.say(format!("goes on from step {}", from.state.steps));
    }
    let steps = recipe.steps;
    let schedule = TrainingSchedule { report_every: (steps / 200).max(1), save_every: KEEP_EVERY };
    let first = from.as_ref().map_or(0, |from| from.state.steps);
    let mut watch = Watch { task, problem, steps, checkpoint: checkpoint.clone(), first };
    let outcome = problem.train(task.gpu, from.as_ref(), schedule, &mut watch)?;
    if !outcome.complete {
        return Err(Error::Stopped);
    }
    let (model, stability) = report::write_trained(problem, &outcome, path)?;
    let support = problem.support(&model);
    let _ = std::fs::remove_file(&checkpoint);
    let device = task.gpu.map_or_else(|| "cpu".into(), Engine::<f32>::device);
    let last = outcome.log.last().map_or(f64::NAN, |record| record.loss);
    let mut lines = problem.findings(&stability, &support);
    lines.push(format!(
        "Took {steps} steps on {device} in {:.1} s; the loss on the last batch is {last:.4e}.",
        task.seconds()
    ));
    Ok((stability, support, lines.join("\n")))
}

struct Watch<'a> {
    task: &'a Task<'a>,
    problem: &'a PreparedFit,
    steps: u32,
    checkpoint: PathBuf,
    first: u32,
}

impl TrainingObserver for Watch<'_> {
    fn report(&mut self, record: &Record) {
        let steps = self.steps;
        let share = f64::from(record.step - self.first) / f64::from((steps - self.first).max(1));
        let details = database::Progress {
            step: Some(record.step),
            steps: Some(steps),
            loss: Some(record.loss),
            penalty: Some(record.penalty),
            ..database::Progress::default()
        };
        self.task.report(share, details);
    }

    fn save(&mut self, state: &State, log: &[Record]) -> Result<()> {
        Checkpoint::new(self.problem, state, log).write(&self.checkpoint)
    }

    fn should_stop(&self) -> bool {
        self.task.shall_stop()
    }
}

/// Effects as a matrix: row j, column i is the effect of i on j; nothing on the diagonal. In the data's units, and in standard
/// ones; of an ensemble, in how many of its members they are. Of more variables than these.
fn effects(graph: &Graph, variables: usize, members: usize) -> Value {
    let rows = |matrix: Matrix<f64>| -> Vec<Vec<Value>> {
        let entry = |j: usize, i: usize| if i == j { Value::Null } else { json!(matrix[(j, i)]) };
        (0..matrix.rows()).map(|j| (0..matrix.cols()).map(|i| entry(j, i)).collect()).collect()
    };
    let (matrix, standard) = (rows(graph.matrix()), rows(graph.standard_matrix()));
    let mut effects =
        json!({ "names": graph.names(), "matrix": matrix, "standard": standard, "variables": variables });
    if members > 0 {
        let mut with = vec![vec![0; graph.names().len()]; graph.names().len()];
        for effect in graph.effects() {
            with[effect.target][effect.source] = effect.members.map_or(0, |(with, _)| with);
        }
        effects["members"] = members.into();
        effects["in_members"] = json!(with);
    }
    effects
}
