//! Jobs: start, list, look at, follow, cancel, and fetch what they left.

use super::{Answer, Asks, Shared, list_length, parsed};
use crate::serve::domain::id::JobId;
use crate::serve::domain::problem::{Problem, Refusal};
use crate::serve::domain::request::Request;
use crate::serve::domain::who::Who;
use crate::serve::run::events::Event;
use crate::serve::run::service::Service;
use crate::serve::store::database::{Job, JobState};
use crate::serve::store::lists::{self, JobFilter, JobSummary, Page};
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

/// The longest that an answer is waited for.
const LONGEST_WAIT: f64 = 60.0;

/// How to submit.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Submit {
    /// Wait for the result, but at most so many seconds.
    #[param(minimum = 0, maximum = 60)]
    wait: Option<f64>,
}

/// Which jobs.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Which {
    /// Of this state only.
    state: Option<JobState>,
    /// Of this kind only.
    kind: Option<String>,
    /// The most, 50 if nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The part of the list that comes after another: what that gave as `next`.
    after: Option<String>,
}

/// A part of the list of jobs.
#[derive(Serialize, ToSchema)]
pub struct Jobs {
    /// Newest first, in short.
    jobs: Vec<JobSummary>,
    /// Where the next part begins, if there is one: for `after`.
    next: Option<String>,
}

fn job_id(text: String) -> Answer<JobId> {
    JobId::try_from(text).map_err(|_| Problem::unknown("job"))
}

fn query<T>(query: std::result::Result<Query<T>, QueryRejection>) -> Answer<T> {
    query.map(|Query(found)| found).map_err(|error| Problem::bad(error.body_text()))
}

/// Start a job.
#[utoipa::path(post, path = "/v1/jobs", params(Submit), request_body = Request,
    responses((status = 202, body = Job), (status = 200, body = Job), (status = 400, body = Refusal),
              (status = 404, body = Refusal), (status = 422, body = Refusal),
              (status = 429, body = Refusal, headers(("retry-after" = u32)))))]
pub async fn submit(
    State(service): Shared,
    submit: std::result::Result<Query<Submit>, QueryRejection>,
    Extension(who): Asks,
    body: Body,
) -> Answer<(StatusCode, Json<Job>)> {
    let Submit { wait } = query(submit)?;
    if let Some(wait) = wait.filter(|wait| !(0.0..=LONGEST_WAIT).contains(wait)) {
        return Err(Problem::bad(format!("wait is {wait}, expected 0 to {LONGEST_WAIT} seconds")));
    }
    let request: Request = parsed(&service, body).await?;
    let job = service.submit(&who, request).await?;
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

/// The job once it has ended; none if the service ends first, or if it had ended before anyone listened.
async fn wait_for(service: &Service, id: &JobId) -> Option<Job> {
    let mut events = service.lives.get(id)?.listen();
    loop {
        match events.recv().await {
            Ok(Event::State(job)) if job.state.is_final() => return Some(*job),
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return None,
        }
    }
}

/// The newest jobs.
#[utoipa::path(get, path = "/v1/jobs", params(Which), responses((status = 200, body = Jobs), (status = 400, body = Refusal)))]
pub async fn list(
    State(service): Shared,
    Extension(who): Asks,
    which: std::result::Result<Query<Which>, QueryRejection>,
) -> Answer<Json<Jobs>> {
    let Which { state, kind, limit, after } = query(which)?;
    let limit = list_length(limit)?;
    let which = JobFilter { state, kind, owner: who.sees_only().map(str::to_owned) };
    let look = move |service: &Service, db: &rusqlite::Connection| {
        let mut page = lists::jobs(db, &which, after.as_deref(), limit)?;
        for job in page.items.iter_mut().filter(|job| !job.state.is_final()) {
            let id = JobId::try_from(job.id.clone()).ok();
            job.progress = id.and_then(|id| service.lives.get(&id)?.progress());
        }
        Ok(page)
    };
    let Page { items, next } = service.aside(look).await?;
    Ok(Json(Jobs { jobs: items, next }))
}

/// One job.
#[utoipa::path(get, path = "/v1/jobs/{id}", params(("id" = String, Path)),
    responses((status = 200, body = Job), (status = 404, body = Refusal)))]
pub async fn show(State(service): Shared, Extension(who): Asks, Path(id): Path<String>) -> Answer<Json<Job>> {
    Ok(Json(service.job_for(&who, &job_id(id)?)?))
}

/// Cancel a job. One that runs stops as soon as its work can, a fit within a step; one that has ended stays as it is.
#[utoipa::path(post, path = "/v1/jobs/{id}/cancel", params(("id" = String, Path)),
    responses((status = 200, body = Job), (status = 404, body = Refusal)))]
pub async fn cancel(
    State(service): Shared,
    Extension(who): Asks,
    Path(id): Path<String>,
) -> Answer<Json<Job>> {
    Ok(Json(service.cancel(&who, &job_id(id)?).await?))
}

/// Follow a job: server-sent events `progress`, `log` and `state`, of which the last is final.
#[utoipa::path(get, path = "/v1/jobs/{id}/events", params(("id" = String, Path)),
    responses((status = 200, content_type = "text/event-stream", body = String), (status = 404, body = Refusal)))]
pub async fn events(
    State(service): Shared,
    Extension(who): Asks,
    Path(id): Path<String>,
) -> Answer<Response> {
    let id = job_id(id)?;
    // Listening begins before the job is looked at, so that nothing is missed between the two.
    let listening = service.lives.get(&id).map(|live| live.listen());
    let job = service.job_for(&who, &id)?;
    let over = job.state.is_final();
    let first = stream::iter([sse("state", &job)]);
    let rest = match listening.filter(|_| !over) {
        Some(events) => follow(service, who, id, events).left_stream(),
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
    who: Who,
    id: JobId,
    events: tokio::sync::broadcast::Receiver<Event>,
) -> impl Stream<Item = axum::response::sse::Event> {
    stream::unfold(Some(events), move |events| {
        let (service, id, secret) = (service.clone(), id.clone(), who.secret);
        async move {
            let mut events = events?;
            loop {
                let event = events.recv().await;
                // Whoever's token was revoked hears no more.
                if secret.is_some_and(|secret| !service.tokens.still_holds(&secret)) {
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
                    // It ended before anyone listened, or the service ends.
                    Err(RecvError::Closed) => {
                        let job = service.job(&id).ok().filter(|job| job.state.is_final())?;
                        return Some((sse("state", &job), None));
                    }
                }
            }
        }
    })
}

/// Fetch a file that a job left.
#[utoipa::path(get, path = "/v1/jobs/{id}/files/{name}", params(("id" = String, Path), ("name" = String, Path)),
    responses((status = 200, content_type = "application/octet-stream", body = String), (status = 404, body = Refusal)))]
pub async fn file(
    State(service): Shared,
    Extension(who): Asks,
    Path((id, name)): Path<(String, String)>,
) -> Answer<Response> {
    let job = service.job_for(&who, &job_id(id)?)?;
    // The name is one of those on record, never a path.
    let known = job.files.iter().find(|known| **known == name).ok_or_else(|| Problem::unknown("file"))?;
    let path = service.files.job(&job.id).join(known);
    let file = tokio::fs::File::open(&path).await.map_err(|_| Problem::unknown("file"))?;
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
