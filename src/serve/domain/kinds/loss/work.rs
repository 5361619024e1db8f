//! The work of losses: jobs with the same model and settings become environments of one evaluation.

use super::LossRequest;
use crate::data::Dataset;
use crate::engine::cpu::CpuEngine;
use crate::engine::{Engine, Loss, LossSpec};
use crate::fit::ModelLoss;
use crate::kernel::Kernel;
use crate::model::{Model, Parameters};
use crate::serve::domain::id::ContentId;
use crate::serve::domain::kinds::Request;
use crate::serve::domain::kinds::task::{JobOutput, JointJob, JointTask, Outcome, supervised};
use crate::{Error, Matrix, Result};
use serde_json::json;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// The jobs (by their places) that ask for each dataset. The seed is part of what they ask.
type Group = BTreeMap<(ContentId, u64), Vec<usize>>;

fn request_of<'a>(job: &JointJob<'a>) -> &'a LossRequest {
    match job.request {
        Request::Loss(request) => request,
        _ => unreachable!("only losses join a loss"),
    }
}

/// Evaluates losses of one model with the same settings.
pub(super) fn evaluate(jobs: &[JointJob<'_>], task: &dyn JointTask) -> Vec<Outcome> {
    let mut outcomes = vec![Outcome::Stopped; jobs.len()];
    // A dataset is evaluated once, however many jobs ask for it. Bandwidths chosen from the data can differ; then so do the groups.
    let mut groups: BTreeMap<(u64, usize), (Kernel, Group)> = BTreeMap::new();
    for (place, job) in jobs.iter().enumerate() {
        let request = request_of(job);
        match guarded(|| prepare(task, request)) {
            Ok((data, spec)) => {
                let key = (spec.kernel.bandwidth().unwrap_or(1.0).to_bits(), data.dim());
                let (_, group) = groups.entry(key).or_insert_with(|| (spec.kernel, Group::new()));
                group.entry((request.dataset.clone(), request.seed)).or_default().push(place);
            }
            Err(error) => outcomes[place] = Outcome::of(Err(error)),
        }
    }
    for ((bandwidth, _), (kernel, group)) in groups {
        let together = group.values().map(Vec::len).sum::<usize>();
        let first = &jobs[*group.values().flatten().next().expect("a group has a member")];
        let ids: Vec<&ContentId> = group.keys().map(|(id, _)| id).collect();
        let found = answers(task, first, &ids, kernel, together);
        for (places, found) in group.values().zip(found) {
            let outcome = Outcome::of(found.and_then(|losses| {
                let loss = losses.iter().sum::<f64>() / losses.len() as f64;
                let model = task.model(&request_of(first).model)?;
                let used = model_loss(&model, request_of(first))?;
                Ok(JobOutput::new(json!({
                    "loss": loss, "environment_losses": losses, "bandwidth": f64::from_bits(bandwidth),
                    "objective": used.objective.name(), "kernel": used.kernel.name(),
                    "estimator": used.estimator.name(), "from_model": used.from_model,
                    "device": task.device(), "together": together,
                })))
            }));
            places.iter().for_each(|place| outcomes[*place] = outcome.clone());
        }
    }
    outcomes
}

/// The loss that a request asks for, with the settings of the model's fit where the request gives none.
fn model_loss(model: &Model, request: &LossRequest) -> Result<ModelLoss> {
    ModelLoss::new(model, &request.settings())
}

/// The data in the units of the evaluation, and what is evaluated on it.
fn prepare(task: &dyn JointTask, request: &LossRequest) -> Result<(Arc<Dataset>, LossSpec)> {
    let (data, model) = (task.dataset(&request.dataset)?, task.model(&request.model)?);
    model.check_variables(&data, "the dataset")?;
    let loss = model_loss(&model, request)?;
    let data = in_units(&loss, &model, &data);
    loss.parameters.check_fits(data.dim(), data.environments())?;
    let spec = loss.spec(&data, request.seed)?;
    Ok((data, spec))
}

fn in_units(loss: &ModelLoss, model: &Model, data: &Arc<Dataset>) -> Arc<Dataset> {
    match loss.is_standardized() && model.dim() == data.dim() {
        true => Arc::new(loss.data(data).into_owned()),
        false => data.clone(),
    }
}

/// A panic is a bug that concerns one job; the others still get their answers.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Error::panicked(panic.as_ref())))
}

/// The losses of each dataset's environments, or why there are none. All datasets are evaluated at once. Those without a finite
/// loss are evaluated again, each alone, so that one dataset cannot spoil the others.
fn answers(
    task: &dyn JointTask,
    first: &JointJob<'_>,
    ids: &[&ContentId],
    kernel: Kernel,
    together: usize,
) -> Vec<Result<Vec<f64>>> {
    let one = |id: &ContentId, counted: usize| {
        task.count_evaluation(counted);
        let found = guarded(|| run(task, first, &[id], kernel))?.remove(0);
        found.ok_or_else(|| Error::NonFinite("the loss is not finite, expected a number".into()))
    };
    if let [id] = ids {
        return vec![one(id, together)];
    }
    task.count_evaluation(together);
    let found = guarded(|| run(task, first, ids, kernel)).unwrap_or_else(|_| vec![None; ids.len()]);
    ids.iter().zip(found).map(|(id, found)| found.map_or_else(|| one(id, 0), Ok)).collect()
}

/// The losses of each dataset's environments, in one evaluation. Among several datasets, those with a loss that is not finite
/// have none.
fn run(
    task: &dyn JointTask,
    first: &JointJob<'_>,
    ids: &[&ContentId],
    kernel: Kernel,
) -> Result<Vec<Option<Vec<f64>>>> {
    let request = request_of(first);
    let model = task.model(&request.model)?;
    let used = model_loss(&model, request)?;
    let data: Vec<Arc<Dataset>> =
        ids.iter().map(|id| Ok(in_units(&used, &model, &task.dataset(id)?))).collect::<Result<_>>()?;
    let all = match &data[..] {
        [only] => only.clone(),
        several => {
            let environments =
                several.iter().flat_map(|data| (0..data.environments()).map(|e| data.environment(e)));
            Arc::new(Dataset::from_environments(environments.collect())?)
        }
    };
    let spec = LossSpec { objective: used.objective, kernel, estimator: used.estimator };
    let parameters: Parameters<f32> = repeated(&used.parameters, data.len()).cast();
    let mut loss: Box<dyn Loss<f32>> = match task.gpu() {
        Some(engine) => Engine::<f32>::load(engine, &all, &spec)?,
        None => CpuEngine.load(&all, &spec)?,
    };
    let mut gradient = request.gradient.then(|| parameters.zeros_like());
    let (progress, pairs) = (loss.progress(), loss.pairs());
    let mut evaluate = || loss.evaluate(&parameters, gradient.as_mut());
    // Short jobs end before anyone could look at their progress.
    let evaluated = match first.short {
        true => evaluate(),
        false => supervised(first.supervisor, task.start(), &progress, pairs, evaluate),
    };
    match evaluated {
        // One dataset is the cause; the others have their losses.
        Err(Error::NonFinite(_)) if data.len() > 1 => {}
        found => drop(found?),
    }
    if let Some(gradient) = gradient {
        crate::files::output::create_folder(&first.folder)?;
        used.gradient(gradient)?.write(&first.folder.join("gradient.safetensors"))?;
    }
    let mut losses = loss.environment_losses().iter().copied();
    let own = |data: &Arc<Dataset>| -> Option<Vec<f64>> {
        let own: Vec<f64> = losses.by_ref().take(data.environments()).collect();
        (own.len() == data.environments() && own.iter().all(|loss| loss.is_finite())).then_some(own)
    };
    Ok(data.iter().map(own).collect())
}

/// Interventions of a model, once for each of so many datasets with its environments.
fn repeated(parameters: &Parameters<f64>, times: usize) -> Parameters<f64> {
    let stacked = |matrix: &Option<Matrix<f64>>| {
        matrix.as_ref().map(|m| Matrix::from_fn(times * m.rows(), m.cols(), |e, j| m[(e % m.rows(), j)]))
    };
    Parameters {
        shift: stacked(&parameters.shift),
        log_scale: stacked(&parameters.log_scale),
        ..parameters.clone()
    }
}
