//! Losses: those that wait at the same time, with the same model and settings, are environments of one evaluation.

use crate::data::Dataset;
use crate::engine::cpu::CpuEngine;
use crate::engine::gpu::GpuEngine;
use crate::engine::{Engine, Loss, LossSpec};
use crate::model::{Model, Parameters};
use crate::serve::domain::id::ContentId;
use crate::serve::domain::problem::sentence_of;
use crate::serve::domain::request::{LossRequest, Request};
use crate::serve::run::queue::Ticket;
use crate::serve::run::service::{Ending, Finished, Service};
use crate::serve::run::worker::Work;
use crate::serve::store::database::{JobState, now};
use crate::{Error, Matrix, Result};
use serde_json::json;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

/// Those who ask about each dataset; a seed is part of what they ask.
type Group = BTreeMap<(ContentId, u64), Vec<Ticket>>;

fn request_of(ticket: &Ticket) -> &LossRequest {
    match &*ticket.request {
        Request::Loss(request) => request,
        _ => unreachable!("only losses are evaluated together"),
    }
}

/// Evaluates losses of one model with the same settings, and ends their jobs in one commit.
pub(in crate::serve) fn evaluate(
    service: &Service,
    gpu: Option<&GpuEngine>,
    device: &str,
    tickets: Vec<Ticket>,
) {
    let start = Instant::now();
    let (cancelled, tickets): (Vec<Ticket>, Vec<Ticket>) =
        tickets.into_iter().partition(|ticket| ticket.live.is_cancelled());
    let mut ended: Vec<Ending> =
        cancelled.into_iter().map(|ticket| (ticket.id, JobState::Cancelled, None, None)).collect();
    // The same data is evaluated once, whoever asks. Bandwidths from the data may differ, and so do the groups.
    let mut groups: BTreeMap<(u64, usize), Group> = BTreeMap::new();
    for ticket in tickets {
        let request = request_of(&ticket);
        match guarded(|| prepare(service, request)) {
            Ok((data, bandwidth)) => {
                let group = groups.entry((bandwidth.to_bits(), data.dim())).or_default();
                group.entry((request.dataset.clone(), request.seed)).or_default().push(ticket);
            }
            Err(error) => ended.push((ticket.id, JobState::Failed, None, Some(sentence_of(&error)))),
        }
    }
    for ((bandwidth, _), group) in groups {
        let bandwidth = f64::from_bits(bandwidth);
        let together = group.values().map(Vec::len).sum::<usize>();
        let first = group.values().next().and_then(|tickets| tickets.first()).expect("a group has a member");
        let ids: Vec<&ContentId> = group.keys().map(|(id, _)| id).collect();
        let work = Work { service, ticket: first, gpu, start };
        let found = answers(&work, request_of(first), &ids, bandwidth, together);
        for (tickets, found) in group.values().zip(&found) {
            for ticket in tickets {
                let end = match found {
                    Ok(losses) => {
                        let loss = losses.iter().sum::<f64>() / losses.len() as f64;
                        let files = if request_of(ticket).gradient {
                            vec!["gradient.safetensors".into()]
                        } else {
                            vec![]
                        };
                        let result = json!({
                            "loss": loss, "environment_losses": losses, "bandwidth": bandwidth, "device": device,
                            "together": together,
                        });
                        service.metrics.finished(&ticket.request, now() - ticket.created);
                        (ticket.id.clone(), JobState::Done, Some(Finished { result, files }), None)
                    }
                    Err(_) if service.is_closing() => continue,
                    Err(_) if ticket.live.is_cancelled() => {
                        (ticket.id.clone(), JobState::Cancelled, None, None)
                    }
                    Err(error) => (ticket.id.clone(), JobState::Failed, None, Some(sentence_of(error))),
                };
                ended.push(end);
            }
        }
    }
    service.end_all(ended);
}

/// The data in the model's units, and the bandwidth.
fn prepare(service: &Service, request: &LossRequest) -> Result<(Arc<Dataset>, f64)> {
    let (data, model) = (service.dataset(&request.dataset)?, service.model(&request.model)?);
    model.check_variables(&data, "the dataset")?;
    model.check_has_loss()?;
    let data = in_units(&model, &data);
    model.parameters.check_fits(data.dim(), data.environments())?;
    let bandwidth = match request.kernel.has_bandwidth() {
        true => request.bandwidth.resolve(&data, request.seed)?,
        false => 1.0,
    };
    request.kernel.with_bandwidth(bandwidth)?;
    Ok((data, bandwidth))
}

fn in_units(model: &Model, data: &Arc<Dataset>) -> Arc<Dataset> {
    match model.standardization.as_ref().filter(|_| model.dim() == data.dim()) {
        Some(units) => Arc::new(units.apply(data)),
        None => data.clone(),
    }
}

/// A panic is a bug, and one ticket's; the others get their answers.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Error::panicked(panic.as_ref())))
}

/// The losses of each dataset's environments, or why there are none. All are evaluated at once; those of which that leaves no
/// finite number are evaluated again, each alone, so that every dataset is judged by its own samples.
fn answers(
    work: &Work<'_>,
    request: &LossRequest,
    ids: &[&ContentId],
    bandwidth: f64,
    together: usize,
) -> Vec<Result<Vec<f64>>> {
    let metrics = &work.service.metrics;
    let one = |id: &ContentId, counted: usize| {
        metrics.evaluated(counted);
        let found = guarded(|| run(work, request, &[id], bandwidth))?.remove(0);
        found.ok_or_else(|| Error::NonFinite("the loss is not finite, expected a number".into()))
    };
    if let [id] = ids {
        return vec![one(id, together)];
    }
    metrics.evaluated(together);
    let found = guarded(|| run(work, request, ids, bandwidth)).unwrap_or_else(|_| vec![None; ids.len()]);
    ids.iter().zip(found).map(|(id, found)| found.map_or_else(|| one(id, 0), Ok)).collect()
}

/// The losses of each dataset's environments, at once; of several datasets, none for those with one that is not finite.
fn run(
    work: &Work<'_>,
    request: &LossRequest,
    ids: &[&ContentId],
    bandwidth: f64,
) -> Result<Vec<Option<Vec<f64>>>> {
    let service = work.service;
    let model = service.model(&request.model)?;
    let data: Vec<Arc<Dataset>> =
        ids.iter().map(|id| Ok(in_units(&model, &service.dataset(id)?))).collect::<Result<_>>()?;
    let all = match &data[..] {
        [only] => only.clone(),
        several => {
            let environments =
                several.iter().flat_map(|data| (0..data.environments()).map(|e| data.environment(e)));
            Arc::new(Dataset::from_environments(environments.collect())?)
        }
    };
    let kernel = request.kernel.with_bandwidth(bandwidth)?;
    let spec = LossSpec { objective: request.objective, kernel, estimator: request.estimator };
    let parameters: Parameters<f32> = repeated(&model.parameters, data.len()).cast();
    let mut loss: Box<dyn Loss<f32>> = match work.gpu {
        Some(engine) => Engine::<f32>::load(engine, &all, &spec)?,
        None => CpuEngine.load(&all, &spec)?,
    };
    let mut gradient = request.gradient.then(|| parameters.zeros_like());
    let (progress, pairs) = (loss.progress(), loss.pairs());
    let mut evaluate = || loss.evaluate(&parameters, gradient.as_mut());
    // Short ones are over before anyone could look, and may be others' as well.
    match if work.ticket.short { evaluate() } else { work.watched(&progress, pairs, evaluate) } {
        // Of one, which the others have no part in.
        Err(Error::NonFinite(_)) if data.len() > 1 => {}
        found => drop(found?),
    }
    if let Some(gradient) = gradient {
        let folder = service.files.job(&work.ticket.id);
        crate::files::output::create_folder(&folder)?;
        gradient.write(&folder.join("gradient.safetensors"))?;
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

#[cfg(test)]
#[path = "loss_tests.rs"]
mod tests;
