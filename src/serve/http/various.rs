//! What does not belong to a dataset or a job.

use super::{Answer, Shared};
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use utoipa::ToSchema;

/// Whether the service works.
#[derive(Serialize, ToSchema)]
pub struct Health {
    /// ok or failing.
    status: &'static str,
    /// What does not work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
}

/// Devices with a worker each.
#[derive(Serialize, ToSchema)]
pub struct Devices {
    devices: Vec<DeviceInfo>,
}

/// A device.
#[derive(Serialize, ToSchema)]
pub struct DeviceInfo {
    name: String,
    /// Whether it is a GPU in software, for tests.
    software: bool,
}

/// Whether the service works: its workers, its database and its disk.
#[utoipa::path(get, path = "/healthz", responses((status = 200, body = Health), (status = 503, body = Health)))]
pub async fn health(State(service): Shared) -> (StatusCode, Json<Health>) {
    let problems = service.problems().await;
    match problems.is_empty() {
        true => (StatusCode::OK, Json(Health { status: "ok", problems })),
        false => (StatusCode::SERVICE_UNAVAILABLE, Json(Health { status: "failing", problems })),
    }
}

/// The devices that jobs run on.
#[utoipa::path(get, path = "/v1/devices", responses((status = 200, body = Devices)))]
pub async fn devices(State(service): Shared) -> Json<Devices> {
    let devices = service.devices.iter();
    let devices = devices.map(|(name, software)| DeviceInfo { name: name.clone(), software: *software });
    Json(Devices { devices: devices.collect() })
}

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", responses((status = 200, body = Object)))]
pub async fn openapi() -> Json<serde_json::Value> {
    Json(super::document())
}

/// Numbers for Prometheus.
#[utoipa::path(get, path = "/metrics", responses((status = 200, content_type = "text/plain", body = String)))]
pub async fn metrics(State(service): Shared) -> Answer<impl IntoResponse> {
    let text = service.aside(|service, db| service.metrics_text(db)).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text))
}
