//! The service itself: health, devices, the OpenAPI document, numbers for Prometheus.

use super::metrics::text as metrics_text;
use super::{Answer, Shared};
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use utoipa::ToSchema;

/// The health of the service.
#[derive(Serialize, ToSchema)]
pub(super) struct Health {
    /// ok or failing.
    status: &'static str,
    /// What does not work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
}

/// The devices of the service.
#[derive(Serialize, ToSchema)]
pub(super) struct Devices {
    devices: Vec<DeviceInfo>,
}

/// A device.
#[derive(Serialize, ToSchema)]
pub(super) struct DeviceInfo {
    /// The name of the device.
    name: String,
    /// Whether it is a GPU in software, as used in tests.
    software: bool,
}

/// Checks whether the workers, the database and the disk of the service work.
#[utoipa::path(get, path = "/healthz", responses((status = 200, body = Health), (status = 503, body = Health)))]
pub(super) async fn health(State(service): Shared) -> (StatusCode, Json<Health>) {
    let problems = service.find_problems().await;
    match problems.is_empty() {
        true => (StatusCode::OK, Json(Health { status: "ok", problems })),
        false => (StatusCode::SERVICE_UNAVAILABLE, Json(Health { status: "failing", problems })),
    }
}

/// Lists the devices that run jobs.
#[utoipa::path(get, path = "/v1/devices", responses((status = 200, body = Devices)))]
pub(super) async fn devices(State(service): Shared) -> Json<Devices> {
    let devices = service.devices.iter();
    let devices = devices.map(|(name, software)| DeviceInfo { name: name.clone(), software: *software });
    Json(Devices { devices: devices.collect() })
}

/// Returns this document.
#[utoipa::path(get, path = "/v1/openapi.json", responses((status = 200, body = Object)))]
pub(super) async fn openapi() -> Json<serde_json::Value> {
    Json(super::openapi::document())
}

/// Returns the numbers for Prometheus.
#[utoipa::path(get, path = "/metrics", responses((status = 200, content_type = "text/plain", body = String)))]
pub(super) async fn metrics(State(service): Shared) -> Answer<impl IntoResponse> {
    let text = service.read_long(metrics_text).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text))
}
