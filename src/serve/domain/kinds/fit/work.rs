//! The work of a fit: the same steps, files and bytes as `skds fit`.

use super::FitRequest;
use crate::engine::{Engine, State};
use crate::fit::{
    AdamRecipe, Checkpoint, ChoiceRuns, Knowledge, PreparedFit, RaisedPenalty, Record, Stability, Support,
    TrainingObserver, TrainingSchedule, Tuning,
};
use crate::graph::Graph;
use crate::model::Model;
use crate::plot::write_picture;
use crate::report;
use crate::serve::domain::id::ContentId;
use crate::serve::domain::info::ModelInfo;
use crate::serve::domain::job::Progress as JobProgress;
use crate::serve::domain::kinds::task::{JobOutput, Task};
use crate::{Error, Matrix, Progress, Result};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The model's file in the job's folder.
const MODEL: &str = "model.safetensors";
/// Steps between checkpoints, as on the command line.
const KEEP_EVERY: u32 = 2000;
/// The most effects in files of the graph, strongest first.
const MOST_EFFECTS: usize = 100_000;
/// The most variables in pictures of the effects: those with the strongest effects.
const MOST_VARIABLES: usize = 100;
/// The most pairs in a result whose effects on each other are not identified; their number is always given.
const MOST_PAIRS: usize = 1000;

pub(super) fn run(task: &Task<'_>, request: &FitRequest) -> Result<JobOutput> {
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
        Some(recipe) => adam(task, problem.clone(), &recipe, &path)?,
    };
    let Findings { stability, support, findings, summary } = found;
    let model = Model::read(&path)?;
    let graph = Graph::of(&model)?;
    let strongest = graph.select(None, Some(MOST_EFFECTS));
    for ending in ["csv", "graphml", "dot"] {
        strongest.write(&path.with_file_name(format!("effects.{ending}")))?;
    }
    let shown = graph.part(MOST_VARIABLES);
    let picture = report::picture::heatmap(&shown, format!("{} model", model.parameters.drift.name()));
    write_picture(&path.with_file_name("effects.svg"), "Effects", &[picture])?;
    let info = ModelInfo::of(ContentId::of_file(&path)?, &model);
    let result = json!({
        "model": info.id,
        "summary": summary,
        "findings": findings,
        "trust": tuning.as_ref().and_then(Tuning::expectation),
        "tuning": tuning,
        "stable": stability.stable,
        "stability": stability,
        "support": support.with_pairs_up_to(MOST_PAIRS),
        "constant": problem.constant_variables(),
        "effects": effects(&shown, graph.names().len(), model.members.len()),
    });
    Ok(JobOutput { model: Some((MODEL.into(), info)), ..JobOutput::new(result) })
}

/// What a fit found out about its model.
struct Findings {
    stability: Stability,
    support: Support,
    /// How far to trust it, a sentence each.
    findings: Vec<String>,
    /// The same with what was fitted and how, as a text.
    summary: String,
}

fn exact(
    task: &Task<'_>,
    request: &FitRequest,
    problem: &PreparedFit,
    path: &Path,
) -> Result<(Findings, Option<Tuning>)> {
    let (progress, all) = (Progress::default(), problem.fit_count());
    // As on the command line: in f64 on the CPU unless a GPU is asked for by name.
    let gpu = task.gpu.filter(|_| request.device.is_some());
    let mut fit = task.supervised(&progress, all, || problem.solve(gpu, &progress))?;
    if let Some(count) = request.bootstrap {
        task.log(format!("fitting {count} resamples for the intervals"));
        let progress = Progress::default();
        let intervals = task.supervised(&progress, count as u64, || {
            problem.bootstrap(fit.tuning.as_ref(), count, &progress)
        })?;
        fit.model.intervals = Some(Box::new(intervals));
    }
    report::write_exact(&fit, path)?;
    let device = gpu.map_or_else(|| "cpu".into(), Engine::<f32>::device);
    let mut lines = vec![fit.title(problem)];
    let support = problem.support(&fit.model);
    let findings = fit.findings(problem, &support);
    lines.extend_from_slice(&findings);
    lines.extend(fit.computation(problem, &device, task.seconds()));
    let (stability, summary) = (fit.stability.clone(), lines.join("\n"));
    Ok((Findings { stability, support, findings, summary }, fit.tuning))
}

fn adam(
    task: &Task<'_>,
    problem: PreparedFit,
    recipe: &AdamRecipe,
    path: &Path,
) -> Result<(Findings, Option<Tuning>)> {
    let runs = ChoiceRuns::path_for(path);
    let (problem, tuning) = chosen(task, problem, &runs)?;
    let problem = &problem;
    let checkpoint = Checkpoint::path_for(path);
    // If the checkpoint cannot be read or belongs to another fit, this one starts from the beginning.
    let from = checkpoint.exists().then(|| Checkpoint::read_for(&checkpoint, problem).ok()).flatten();
    if let Some(from) = &from {
        task.log(format!("resuming from step {}", from.state.steps));
    }
    let steps = recipe.steps;
    let schedule = TrainingSchedule { report_every: (steps / 200).max(1), save_every: KEEP_EVERY };
    let first = from.as_ref().map_or(0, |from| from.state.steps);
    let mut reporter = TrainingReporter { task, problem, steps, checkpoint: checkpoint.clone(), first };
    let outcome = problem.train(task.gpu, from.as_ref(), schedule, &mut reporter)?;
    if !outcome.complete {
        return Err(Error::Stopped);
    }
    let (model, stability) = report::write_trained(problem, tuning.as_ref(), &outcome, path)?;
    let support = problem.support(&model);
    [&checkpoint, &runs].into_iter().for_each(|file| drop(std::fs::remove_file(file)));
    let device = task.gpu.map_or_else(|| "cpu".into(), Engine::<f32>::device);
    let last = outcome.log.last().map_or(f64::NAN, |record| record.loss);
    let findings = problem.findings(tuning.as_ref(), &stability, &support);
    let mut lines = findings.clone();
    let steps = outcome.state.steps;
    lines.push(format!(
        "Took {steps} steps on {device} in {:.1} s; the loss on the last batch is {last:.4e}.",
        task.seconds()
    ));
    Ok((Findings { stability, support, findings, summary: lines.join("\n") }, tuning))
}

/// The fit with the settings that it leaves open, and how they were chosen. Runs that the file holds are not done again.
fn chosen(task: &Task<'_>, problem: PreparedFit, runs: &Path) -> Result<(PreparedFit, Option<Tuning>)> {
    let Some(work) = problem.choice_work()? else { return Ok((problem, None)) };
    task.log("choosing settings by left-out interventions".into());
    // Runs that cannot be read are done again.
    let kept = ChoiceRuns::read_for(runs, &problem).unwrap_or_else(|_| ChoiceRuns::new(&problem));
    let progress = Progress::default();
    let keep = |all: &ChoiceRuns| all.write(runs);
    let chosen = task.supervised(&progress, work, || problem.choose(task.gpu, kept, &progress, &keep))?;
    Ok(chosen.map_or((problem, None), |(chosen, tuning)| (chosen, Some(tuning))))
}

/// Reports the progress of training and keeps checkpoints.
struct TrainingReporter<'a> {
    task: &'a Task<'a>,
    problem: &'a PreparedFit,
    steps: u32,
    checkpoint: PathBuf,
    first: u32,
}

impl TrainingObserver for TrainingReporter<'_> {
    fn report(&mut self, record: &Record) {
        let steps = self.steps;
        let share = f64::from(record.step - self.first) / f64::from(steps.saturating_sub(self.first).max(1));
        let details = JobProgress {
            step: Some(record.step),
            steps: Some(steps),
            loss: Some(record.loss),
            penalty: Some(record.penalty),
            ..JobProgress::default()
        };
        self.task.report(share, details);
    }

    fn save(&mut self, state: &State, log: &[Record]) -> Result<()> {
        Checkpoint::new(self.problem, state, log).write(&self.checkpoint)
    }

    fn should_stop(&self) -> bool {
        self.task.should_stop()
    }

    fn raises(&mut self, raised: &RaisedPenalty) {
        self.steps = raised.until;
        self.task.log(format!(
            "the law is much wider than the data: training on to step {} with lambda {:.3}",
            raised.until, raised.lambda
        ));
    }
}

/// Effects as matrices in the units of the data and in standard units. Row j, column i holds the effect of i on j; the diagonal is
/// null. For an ensemble also the number of members that have the effect. `variables` is the number of variables of the model,
/// which can exceed those of the graph.
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
