//! Uploads of datasets and models, and their descriptions.

use super::error::{ApiError, Refusal};
use super::uploads::receive;
use super::{Answer, FromClient, Shared, list_length, query};
use crate::serve::domain::error::ServiceError;
use crate::serve::domain::id::ContentId;
use crate::serve::domain::info::{DatasetInfo, ModelInfo};
use crate::serve::run::intake::{Description, Format, TakenIn};
use crate::serve::run::service::Service;
use crate::serve::store::database::Reader;
use crate::serve::store::lists::{DatasetSummary, Page};
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The most characters of a dataset's name.
const LONGEST_NAME: usize = 200;

/// How to read an upload.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UploadQuery {
    /// A name for people. Its ending, .npz or .csv, determines the format.
    #[param(min_length = 5, max_length = 200, pattern = r"\.([nN][pP][zZ]|[cC][sS][vV])$")]
    name: String,
    /// For csv: which environments intervene on which variables, like 1=x3;2=x5,x6.
    targets: Option<String>,
}

/// Which datasets to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// The most datasets of a page; the default is 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of another page, to get the page after it.
    after: Option<String>,
}

/// A page of the list of datasets.
#[derive(Serialize, ToSchema)]
pub(super) struct Datasets {
    /// The datasets, newest first.
    datasets: Vec<DatasetSummary>,
    /// The value of `after` for the next page, if there is one.
    next: Option<String>,
}

/// Upload a dataset as the bytes of an .npz or .csv file. A file that was uploaded before is not stored twice.
#[utoipa::path(post, path = "/v1/datasets", params(UploadQuery),
    request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 201, body = DatasetInfo), (status = 200, body = DatasetInfo), (status = 400, body = Refusal),
              (status = 408, body = Refusal), (status = 413, body = Refusal), (status = 422, body = Refusal),
              (status = 507, body = Refusal)))]
pub(super) async fn upload(
    State(service): Shared,
    Extension(client): FromClient,
    upload: Result<Query<UploadQuery>, QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Answer<(StatusCode, Json<DatasetInfo>)> {
    let UploadQuery { name, targets } = query(upload)?;
    if name.is_empty() || name.chars().count() > LONGEST_NAME {
        let found = name.chars().count();
        return Err(ApiError::invalid(format!(
            "the name has {found} characters, expected 1 to {LONGEST_NAME}"
        )));
    }
    let format = Format::of(&name)
        .ok_or_else(|| ApiError::invalid("the name has an unknown ending, expected .npz or .csv"))?;
    if targets.is_some() && format == Format::Npz {
        return Err(ApiError::invalid(
            "targets are given for an .npz file, expected them in the file itself",
        ));
    }
    let upload = receive(&service, &headers, format.ending(), body).await?;
    let description = Description { name, format, targets };
    let TakenIn { info, is_new } = service.take_in_dataset(&client, upload, description).await?;
    Ok((if is_new { StatusCode::CREATED } else { StatusCode::OK }, Json(info)))
}

/// List datasets, newest first.
#[utoipa::path(get, path = "/v1/datasets", params(ListQuery),
    responses((status = 200, body = Datasets), (status = 400, body = Refusal)))]
pub(super) async fn list(
    State(service): Shared,
    Extension(client): FromClient,
    which: Result<Query<ListQuery>, QueryRejection>,
) -> Answer<Json<Datasets>> {
    let ListQuery { limit, after } = query(which)?;
    let limit = list_length(limit)?;
    let look =
        move |_: &Service, reader: &Reader<'_>| reader.datasets(client.sees_only(), after.as_deref(), limit);
    let Page { items, next } = service.read_long(look).await?;
    Ok(Json(Datasets { datasets: items, next }))
}

fn content_id(text: String, what: &'static str) -> Answer<ContentId> {
    Ok(ContentId::try_from(text).map_err(|_| ServiceError::NotFound(what))?)
}

/// Describe a dataset.
#[utoipa::path(get, path = "/v1/datasets/{id}", params(("id" = String, Path)),
    responses((status = 200, body = DatasetInfo), (status = 404, body = Refusal)))]
pub(super) async fn show(
    State(service): Shared,
    Extension(client): FromClient,
    Path(id): Path<String>,
) -> Answer<Json<DatasetInfo>> {
    Ok(Json(service.store.dataset_for(&content_id(id, "dataset")?, client.sees_only())?))
}

/// Upload a model as the bytes of a .safetensors file that `skds fit` wrote.
#[utoipa::path(post, path = "/v1/models",
    request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 201, body = ModelInfo), (status = 400, body = Refusal), (status = 408, body = Refusal),
              (status = 413, body = Refusal), (status = 422, body = Refusal), (status = 507, body = Refusal)))]
pub(super) async fn upload_model(
    State(service): Shared,
    Extension(client): FromClient,
    headers: HeaderMap,
    body: Body,
) -> Answer<(StatusCode, Json<ModelInfo>)> {
    let upload = receive(&service, &headers, ".safetensors", body).await?;
    Ok((StatusCode::CREATED, Json(service.take_in_model(&client, upload).await?)))
}

/// Describe a model.
#[utoipa::path(get, path = "/v1/models/{id}", params(("id" = String, Path)),
    responses((status = 200, body = ModelInfo), (status = 404, body = Refusal)))]
pub(super) async fn show_model(
    State(service): Shared,
    Extension(client): FromClient,
    Path(id): Path<String>,
) -> Answer<Json<ModelInfo>> {
    Ok(Json(service.store.model_for(&content_id(id, "model")?, client.sees_only())?))
}
