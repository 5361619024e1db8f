//! Jobs: submit, list, show, follow and cancel them, and download their files.

use super::error::{ApiError, Refusal};
use super::{Answer, FromClient, Shared, list_length, query, uploads};
use crate::serve::domain::client::Client;
use crate::serve::domain::error::ServiceError;
use crate::serve::domain::id::JobId;
use crate::serve::domain::job::{Job, JobState};
use crate::serve::domain::kinds::Request;
use crate::serve::run::live::Event;
use crate::serve::run::service::Service;
use crate::serve::store::database::Reader;
use crate::serve::store::lists::{JobFilter, JobSummary, Page};
use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use futures_util::{Stream, StreamExt, stream};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::sync::broadcast::error::RecvError;
use utoipa::{IntoParams, ToSchema};

/// The most seconds to wait for a result.
const LONGEST_WAIT: f64 = 60.0;

/// How to submit a job.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SubmitQuery {
    /// Wait for the result, at most so many seconds.
    #[param(minimum = 0, maximum = 60)]
    wait: Option<f64>,
}

/// Which jobs to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only jobs in this state.
    state: Option<JobState>,
    /// Only jobs of this kind.
    kind: Option<String>,
    /// The most jobs of a page; the default is 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of another page, to get the page after it.
    after: Option<String>,
}

/// A page of the list of jobs.
#[derive(Serialize, ToSchema)]
pub(super) struct Jobs {
    /// The jobs, newest first.
    jobs: Vec<JobSummary>,
    /// The value of `after` for the next page, if there is one.
    next: Option<String>,
}

fn job_id(text: String) -> Answer<JobId> {
    Ok(JobId::try_from(text).map_err(|_| ServiceError::NotFound("job"))?)
}

/// Submit a job. The response holds the job; with `wait`, it holds the result if the job ends in time.
#[utoipa::path(post, path = "/v1/jobs", params(SubmitQuery), request_body = Request,
    responses((status = 202, body = Job), (status = 200, body = Job), (status = 400, body = Refusal),
              (status = 404, body = Refusal), (status = 422, body = Refusal),
              (status = 429, body = Refusal, headers(("retry-after" = u32)))))]
pub(super) async fn submit(
    State(service): Shared,
    submit: Result<Query<SubmitQuery>, QueryRejection>,
    Extension(client): FromClient,
    body: Body,
) -> Answer<(StatusCode, Json<Job>)> {
    let SubmitQuery { wait } = query(submit)?;
    if let Some(wait) = wait.filter(|wait| !(0.0..=LONGEST_WAIT).contains(wait)) {
        return Err(ApiError::invalid(format!("wait is {wait}, expected 0 to {LONGEST_WAIT} seconds")));
    }
    let request = Request::parse(&uploads::collect(body, service.limits).await?)?;
    let job = service.submit(&client, request).await?;
    let Some(wait) = wait.filter(|wait| *wait > 0.0) else {
        return Ok((StatusCode::ACCEPTED, Json(job)));
    };
    let ended = wait_for(&service, &job.id);
    let job = match tokio::time::timeout(Duration::from_secs_f64(wait), ended).await {
        Ok(Some(job)) => job,
        _ => service.job(&job.id)?,
    };
    let status = if job.state.is_final() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(job)))
}

/// Waits until a job has ended. Returns none if the service ends first, or if the job had ended before.
async fn wait_for(service: &Service, id: &JobId) -> Option<Job> {
    let mut events = service.live_jobs.get(id)?.listen();
    loop {
        match events.recv().await {
            Ok(Event::State(job)) if job.state.is_final() => return Some(*job),
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return None,
        }
    }
}

/// List jobs, newest first.
#[utoipa::path(get, path = "/v1/jobs", params(ListQuery), responses((status = 200, body = Jobs), (status = 400, body = Refusal)))]
pub(super) async fn list(
    State(service): Shared,
    Extension(client): FromClient,
    which: Result<Query<ListQuery>, QueryRejection>,
) -> Answer<Json<Jobs>> {
    let ListQuery { state, kind, limit, after } = query(which)?;
    let limit = list_length(limit)?;
    let which = JobFilter { state, kind, owner: client.sees_only().map(str::to_owned) };
    let look = move |service: &Service, reader: &Reader<'_>| {
        let mut page = reader.jobs(&which, after.as_deref(), limit)?;
        for job in page.items.iter_mut().filter(|job| !job.state.is_final()) {
            let id = JobId::try_from(job.id.clone()).ok();
            job.progress = id.and_then(|id| service.live_jobs.get(&id)?.progress());
        }
        Ok(page)
    };
    let Page { items, next } = service.read_long(look).await?;
    Ok(Json(Jobs { jobs: items, next }))
}

/// Show a job with its request and result.
#[utoipa::path(get, path = "/v1/jobs/{id}", params(("id" = String, Path)),
    responses((status = 200, body = Job), (status = 404, body = Refusal)))]
pub(super) async fn show(
    State(service): Shared,
    Extension(client): FromClient,
    Path(id): Path<String>,
) -> Answer<Json<Job>> {
    Ok(Json(service.job_for(&client, &job_id(id)?)?))
}

/// Cancel a job. A running job stops as soon as its work can, a fit after its present step. A job that has ended stays as it is.
#[utoipa::path(post, path = "/v1/jobs/{id}/cancel", params(("id" = String, Path)),
    responses((status = 200, body = Job), (status = 404, body = Refusal)))]
pub(super) async fn cancel(
    State(service): Shared,
    Extension(client): FromClient,
    Path(id): Path<String>,
) -> Answer<Json<Job>> {
    Ok(Json(service.cancel(&client, &job_id(id)?).await?))
}

/// Follow a job by server-sent events: `progress`, `log` and `state`. The last event is the final `state`.
#[utoipa::path(get, path = "/v1/jobs/{id}/events", params(("id" = String, Path)),
    responses((status = 200, content_type = "text/event-stream", body = String), (status = 404, body = Refusal)))]
pub(super) async fn events(
    State(service): Shared,
    Extension(client): FromClient,
    Path(id): Path<String>,
) -> Answer<Response> {
    let id = job_id(id)?;
    // Listening begins before the job is read, so that no event is missed between the two.
    let listening = service.live_jobs.get(&id).map(|live| live.listen());
    let job = service.job_for(&client, &id)?;
    let over = job.state.is_final();
    let first = stream::iter([sse("state", &job)]);
    let rest = match listening.filter(|_| !over) {
        Some(events) => follow(service, client, id, events).left_stream(),
        None => stream::empty().right_stream(),
    };
    let all = first.chain(rest).map(Ok::<_, Infallible>);
    Ok(Sse::new(all).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response())
}

fn sse(name: &str, data: &impl Serialize) -> axum::response::sse::Event {
    let data = serde_json::to_string(data).expect("events serialise");
    axum::response::sse::Event::default().event(name).data(data)
}

fn follow(
    service: Arc<Service>,
    client: Client,
    id: JobId,
    events: tokio::sync::broadcast::Receiver<Event>,
) -> impl Stream<Item = axum::response::sse::Event> {
    stream::unfold(Some(events), move |events| {
        let (service, id, hash) = (service.clone(), id.clone(), client.token_hash);
        async move {
            let mut events = events?;
            loop {
                let event = events.recv().await;
                // After a token is revoked, its client receives no more events.
                if hash.is_some_and(|hash| !service.tokens.still_holds(&hash)) {
                    return None;
                }
                match event {
                    Ok(Event::Progress(progress)) => return Some((sse("progress", &progress), Some(events))),
                    Ok(Event::Log(line)) => return Some((sse("log", &line), Some(events))),
                    Ok(Event::State(job)) => {
                        let rest = (!job.state.is_final()).then_some(events);
                        return Some((sse("state", &job), rest));
                    }
                    Err(RecvError::Lagged(_)) => {}
                    // The job ended before anyone listened, or the service ends.
                    Err(RecvError::Closed) => {
                        let job = service.job(&id).ok().filter(|job| job.state.is_final())?;
                        return Some((sse("state", &job), None));
                    }
                }
            }
        }
    })
}

/// Download a file of a job.
#[utoipa::path(get, path = "/v1/jobs/{id}/files/{name}", params(("id" = String, Path), ("name" = String, Path)),
    responses((status = 200, content_type = "application/octet-stream", body = String), (status = 404, body = Refusal)))]
pub(super) async fn file(
    State(service): Shared,
    Extension(client): FromClient,
    Path((id, name)): Path<(String, String)>,
) -> Answer<Response> {
    let job = service.job_for(&client, &job_id(id)?)?;
    // The name is one of those on record, never a path.
    let known = job.files.iter().find(|known| **known == name).ok_or(ServiceError::NotFound("file"))?;
    let path = service.files.job(&job.id).join(known);
    let file = tokio::fs::File::open(&path).await.map_err(|_| ServiceError::NotFound("file"))?;
    let length = file.metadata().await?.len();
    let kind = match known.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "json" => "application/json",
        "csv" => "text/csv; charset=utf-8",
        "jsonl" => "application/x-ndjson",
        _ => "application/octet-stream",
    };
    let parts = stream::try_unfold(file, |mut file| async move {
        let mut block = vec![0; 1 << 16];
        let read = file.read(&mut block).await?;
        block.truncate(read);
        Ok::<_, std::io::Error>((read > 0).then_some((Bytes::from(block), file)))
    });
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_LENGTH, length.to_string()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{known}\"")),
    ];
    Ok((headers, Body::from_stream(parts)).into_response())
}
