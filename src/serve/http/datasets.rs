//! Datasets and models: uploads and what is known of them.

use super::uploads::{Received, receive};
use super::{Answer, Asks, Shared, list_length};
use crate::data::{Dataset, outline_of_csv};
use crate::model::Model;
use crate::serve::domain::describe::describe;
use crate::serve::domain::id::ContentId;
use crate::serve::domain::limits::Limits;
use crate::serve::domain::problem::{Problem, Refusal};
use crate::serve::domain::who::Who;
use crate::serve::run::reading::Reading;
use crate::serve::run::service::Service;
use crate::serve::store::audit::line;
use crate::serve::store::database::{DatasetInfo, ModelInfo, Store};
use crate::serve::store::lists::{self, DatasetSummary, Page};
use crate::serve::store::shares::Holder;
use crate::{Error, Matrix};
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// The longest name of a dataset.
const LONGEST_NAME: usize = 200;

/// How an upload is to be read.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Upload {
    /// A name for people; its ending, .npz or .csv, tells the format.
    #[param(min_length = 5, max_length = 200, pattern = r"\.([nN][pP][zZ]|[cC][sS][vV])$")]
    name: String,
    /// For csv: which environments intervene on what, like 1=x3;2=x5,x6.
    targets: Option<String>,
}

/// Which datasets.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Which {
    /// The most, 50 if nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The part of the list that comes after another: what that gave as `next`.
    after: Option<String>,
}

/// A part of the list of datasets.
#[derive(Serialize, ToSchema)]
pub struct Datasets {
    /// Newest first, in short.
    datasets: Vec<DatasetSummary>,
    /// Where the next part begins, if there is one: for `after`.
    next: Option<String>,
}

/// Upload a dataset: the bytes of an .npz or .csv file. What was uploaded before is not kept twice.
#[utoipa::path(post, path = "/v1/datasets", params(Upload),
    request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 201, body = DatasetInfo), (status = 200, body = DatasetInfo), (status = 400, body = Refusal),
              (status = 408, body = Refusal), (status = 413, body = Refusal), (status = 422, body = Refusal),
              (status = 507, body = Refusal)))]
pub async fn upload(
    State(service): Shared,
    Extension(who): Asks,
    upload: std::result::Result<Query<Upload>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Answer<(StatusCode, Json<DatasetInfo>)> {
    let Query(Upload { name, targets }) = upload.map_err(|error| Problem::bad(error.body_text()))?;
    if name.is_empty() || name.chars().count() > LONGEST_NAME {
        return Err(Problem::bad(format!("the name is empty or long, expected 1 to {LONGEST_NAME} letters")));
    }
    let ending = match name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).as_deref() {
        Some("npz") => ".npz",
        Some("csv") => ".csv",
        _ => return Err(Problem::bad("the name has another ending than expected: .npz or .csv")),
    };
    if targets.is_some() && ending == ".npz" {
        return Err(Problem::bad("targets are given for an .npz file, expected them in the file itself"));
    }
    let received = receive(&service, &headers, ending, body).await?;
    // On its own, so that a client who goes away leaves no file without a record.
    let taken = tokio::spawn(async move {
        let id = received.id(targets.as_deref());
        match known(&service, &who, &id, &name).await? {
            Some(answer) => Ok(answer),
            None => {
                // What it takes is known before it is read, and all that are being read share what there is.
                let looking = service.clone();
                let look = move || look(&looking.limits, &received.path).map(|bytes| (received, bytes));
                let (received, bytes) = blocking(look).await?;
                let _memory = service.arriving.memory(bytes).await?;
                let reading = service.clone();
                let keep = move || keep(&reading, received, id, &name, ending, targets.as_deref());
                let info = blocking(keep).await?;
                let logged = line(Some(&who), "create", "dataset", info.id.as_str());
                let holder = Holder::Owner(who.owner().to_owned());
                service.store.write_logged(logged, Store::keep_dataset(&info, &holder)).await?;
                Ok((StatusCode::CREATED, Json(info)))
            }
        }
    });
    taken.await.unwrap_or_else(|_| Err(Problem::internal()))
}

/// The answer if a dataset is here already, whoever's: it becomes the client's too. One whose record cannot be read is taken anew.
async fn known(
    service: &Service,
    who: &Who,
    id: &ContentId,
    name: &str,
) -> Answer<Option<(StatusCode, Json<DatasetInfo>)>> {
    let Ok(Some(_)) = service.store.dataset(id) else { return Ok(None) };
    let had = service.store.shared("datasets", id, who.owner())?.is_some();
    let holder = Holder::Owner(who.owner().to_owned());
    let logged = line(Some(who), "create", "dataset", id.as_str());
    // As good as new: it is not removed before anyone has used it.
    match service.store.write_logged(logged, Store::touch_dataset(id, &holder, name)).await {
        // It was removed in the meantime.
        Err(problem) if problem.status == StatusCode::NOT_FOUND => return Ok(None),
        written => written?,
    }
    let status = if had { StatusCode::OK } else { StatusCode::CREATED };
    Ok(Some((status, Json(service.known_dataset(id, who.sees_only())?))))
}

/// On a thread that may wait for the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Answer<T> + Send + 'static) -> Answer<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal())?
}

/// Looks at a file's size and shape; the memory that reading it takes.
pub(in crate::serve) fn look(limits: &Limits, path: &std::path::Path) -> Answer<f64> {
    let found = match path.extension() {
        // A small file can unpack to a large one.
        Some(ending) if ending == "npz" => Reading::of_npz(path)?,
        _ => Reading::of_csv(path)?,
    };
    limits.check_variables(found.variables)?;
    limits.check_bytes(found.bytes)?;
    Ok(found.bytes)
}

/// Reads the file, which checks it, and gives it its place: an .npz as it came, a .csv as .npz.
fn keep(
    service: &Service,
    received: Received,
    id: ContentId,
    name: &str,
    ending: &str,
    targets: Option<&str>,
) -> Answer<DatasetInfo> {
    // Targets come in the address; the reader of csv takes them from a second file.
    let targets = targets.map(|targets| write_targets(service, &received.path, targets)).transpose()?;
    let data = Dataset::read_within(&received.path, targets.as_deref(), &service.limits.most())?;
    service.limits.check_variables(data.dim())?;
    service.limits.check_environments(data.environments())?;
    service.limits.check_names(data.names().iter().map(String::as_str))?;
    let place = service.files.dataset(&id);
    let mut bytes = received.bytes;
    if ending == ".npz" {
        service.files.take(&received.path, &place)?;
    } else {
        let folder = tempfile::tempdir_in(service.files.uploads())?;
        let path = folder.path().join("data.npz");
        data.write(&path)?;
        bytes = std::fs::metadata(&path)?.len();
        service.files.take(&path, &place)?;
    }
    Ok(describe(id, name, &data, bytes))
}

/// 1=x3;2=x5,x6 as the file that goes with a csv file: a row of 0 and 1 for each of its environments.
fn write_targets(service: &Service, path: &std::path::Path, text: &str) -> Answer<tempfile::TempPath> {
    let bad = |error: csv::Error| Problem::bad(format!("the file: {error}"));
    let limits = &service.limits;
    let (names, environments) = outline_of_csv(path, &limits.most())?;
    limits.check_environments(environments)?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let targets = parse_targets(text, &names, environments)?;
    let file = tempfile::Builder::new().suffix(".csv").tempfile_in(service.files.uploads())?;
    let mut writer = csv::Writer::from_writer(file);
    writer.write_record(&names).map_err(bad)?;
    for e in 0..targets.rows() {
        let row = targets.row(e).iter().map(|target| if *target { "1" } else { "0" });
        writer.write_record(row).map_err(bad)?;
    }
    Ok(writer.into_inner().map_err(|error| error.into_error())?.into_temp_path())
}

fn parse_targets(text: &str, names: &[&str], environments: usize) -> crate::Result<Matrix<bool>> {
    let mut targets = Matrix::full(environments, names.len(), false);
    for part in text.split(';').filter(|part| !part.trim().is_empty()) {
        let wrong = || {
            Error::invalid(format!(
                "found '{part}' in the targets, expected ENVIRONMENT=VARIABLE,… with an environment below {environments} and names \
                 of variables"
            ))
        };
        let (e, variables) = part.split_once('=').ok_or_else(wrong)?;
        let e = e.trim().parse::<usize>().ok().filter(|e| *e < environments).ok_or_else(wrong)?;
        for name in variables.split(',') {
            let j = names.iter().position(|known| *known == name.trim()).ok_or_else(wrong)?;
            targets[(e, j)] = true;
        }
    }
    Ok(targets)
}

/// The newest datasets.
#[utoipa::path(get, path = "/v1/datasets", params(Which),
    responses((status = 200, body = Datasets), (status = 400, body = Refusal)))]
pub async fn list(
    State(service): Shared,
    Extension(who): Asks,
    which: std::result::Result<Query<Which>, axum::extract::rejection::QueryRejection>,
) -> Answer<Json<Datasets>> {
    let Query(Which { limit, after }) = which.map_err(|error| Problem::bad(error.body_text()))?;
    let limit = list_length(limit)?;
    let look = move |_: &Service, db: &rusqlite::Connection| {
        lists::datasets(db, who.sees_only(), after.as_deref(), limit)
    };
    let Page { items, next } = service.aside(look).await?;
    Ok(Json(Datasets { datasets: items, next }))
}

/// A name in an address.
pub(super) fn content_id(text: String, what: &str) -> Answer<ContentId> {
    ContentId::try_from(text).map_err(|_| Problem::unknown(what))
}

/// One dataset.
#[utoipa::path(get, path = "/v1/datasets/{id}", params(("id" = String, Path)),
    responses((status = 200, body = DatasetInfo), (status = 404, body = Refusal)))]
pub async fn show(
    State(service): Shared,
    Extension(who): Asks,
    Path(id): Path<String>,
) -> Answer<Json<DatasetInfo>> {
    Ok(Json(service.known_dataset(&content_id(id, "dataset")?, who.sees_only())?))
}

/// Upload a model: the bytes of a .safetensors file, as `skds fit` writes it.
#[utoipa::path(post, path = "/v1/models",
    request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 201, body = ModelInfo), (status = 400, body = Refusal), (status = 408, body = Refusal),
              (status = 413, body = Refusal), (status = 422, body = Refusal), (status = 507, body = Refusal)))]
pub async fn upload_model(
    State(service): Shared,
    Extension(who): Asks,
    headers: HeaderMap,
    body: Body,
) -> Answer<(StatusCode, Json<ModelInfo>)> {
    let received = receive(&service, &headers, ".safetensors", body).await?;
    let bytes = Reading::bytes_of_model(received.bytes);
    service.limits.check_bytes(bytes)?;
    // On its own, as a dataset is.
    let taken = tokio::spawn(async move {
        let _memory = service.arriving.memory(bytes).await?;
        let reading: Arc<Service> = service.clone();
        let info = blocking(move || {
            let model = Model::read(&received.path)?;
            reading.limits.check_variables(model.dim())?;
            reading.limits.check_names(model.names.iter().map(String::as_str))?;
            Ok(reading.files.keep_model(&received.path, model)?)
        })
        .await?;
        let logged = line(Some(&who), "create", "model", info.id.as_str());
        let holder = Holder::Owner(who.owner().to_owned());
        service.store.write_logged(logged, Store::keep_model(&info, &holder)).await?;
        Ok((StatusCode::CREATED, Json(info)))
    });
    taken.await.unwrap_or_else(|_| Err(Problem::internal()))
}

/// One model.
#[utoipa::path(get, path = "/v1/models/{id}", params(("id" = String, Path)),
    responses((status = 200, body = ModelInfo), (status = 404, body = Refusal)))]
pub async fn show_model(
    State(service): Shared,
    Extension(who): Asks,
    Path(id): Path<String>,
) -> Answer<Json<ModelInfo>> {
    Ok(Json(service.known_model(&content_id(id, "model")?, who.sees_only())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_by_name() {
        let names = ["x0", "x1"];
        let found = parse_targets("1=x0, x1", &names, 2).unwrap();
        assert_eq!(found.as_slice(), [false, false, true, true]);
        assert!(parse_targets("", &names, 2).unwrap().as_slice().iter().all(|t| !t));
        for wrong in ["1", "2=x0", "1=y", "a=x0"] {
            assert!(parse_targets(wrong, &names, 2).is_err(), "{wrong}");
        }
    }
}
