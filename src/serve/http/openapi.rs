//! The OpenAPI document, made from the handlers and types themselves.

use super::{datasets, jobs, system};
use crate::serve::domain::kinds::Request;
use serde_json::{Value, json};
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "skds",
        description = "Learn stationary diffusions: upload datasets, fit models, download models and predictions."
    ),
    paths(
        datasets::upload,
        datasets::list,
        datasets::show,
        datasets::upload_model,
        datasets::show_model,
        jobs::submit,
        jobs::list,
        jobs::show,
        jobs::cancel,
        jobs::events,
        jobs::file,
        system::devices,
        system::openapi,
        system::health,
        system::metrics
    ),
    components(schemas(
        crate::serve::domain::job::Progress,
        crate::serve::run::live::LogLine,
        super::error::Refusal
    ))
)]
struct Api;

/// The OpenAPI document. Settings of a kind of job are described by their defaults.
pub fn document() -> Value {
    let mut document = serde_json::to_value(Api::openapi()).expect("the document serialises");
    let schemas = &mut document["components"]["schemas"];
    for (request, defaults) in Request::default_settings() {
        let field = &mut schemas[request.as_ref()]["properties"]["settings"];
        let description = field["description"].take();
        *field = of_defaults(&defaults);
        field["description"] = description;
    }
    let kinds = schemas["Request"]["oneOf"].take();
    let kinds = kinds.as_array().into_iter().flatten().map(|kind| merged(schemas, kind)).collect();
    schemas["Request"]["oneOf"] = Value::Array(kinds);
    document
}

/// Merges several objects that must all hold into one. Each of them allows no fields but its own, so no value could satisfy all.
fn merged(schemas: &Value, kind: &Value) -> Value {
    let mut all =
        json!({ "type": "object", "additionalProperties": false, "properties": {}, "required": [] });
    for part in kind["allOf"].as_array().into_iter().flatten() {
        let name = part["$ref"].as_str().and_then(|path| path.rsplit('/').next());
        let part = name.map_or(part, |name| &schemas[name]);
        for (name, property) in part["properties"].as_object().into_iter().flatten() {
            all["properties"][name] = property.clone();
        }
        let required = part["required"].as_array().cloned().unwrap_or_default();
        all["required"].as_array_mut().expect("made above").extend(required);
    }
    all
}

/// An object with these properties and defaults.
fn of_defaults(defaults: &Value) -> Value {
    fn schema(value: &Value) -> Value {
        match value {
            Value::Null => json!({}),
            Value::Bool(_) => json!({ "type": "boolean", "default": value }),
            Value::Number(number) if number.is_f64() => json!({ "type": "number", "default": value }),
            Value::Number(_) => json!({ "type": "integer", "default": value }),
            // Some of them are numbers or words, like a bandwidth.
            Value::String(_) => json!({ "type": ["string", "number"], "default": value }),
            Value::Array(_) => json!({ "type": "array", "default": value }),
            Value::Object(fields) => {
                let properties: serde_json::Map<String, Value> =
                    fields.iter().map(|(name, value)| (name.clone(), schema(value))).collect();
                json!({ "type": "object", "additionalProperties": false, "properties": properties })
            }
        }
    }
    schema(defaults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_and_the_settings_are_described() {
        let document = document();
        for path in [
            "/v1/datasets",
            "/v1/datasets/{id}",
            "/v1/models",
            "/v1/models/{id}",
            "/v1/jobs",
            "/v1/jobs/{id}",
            "/v1/jobs/{id}/cancel",
            "/v1/jobs/{id}/events",
            "/v1/jobs/{id}/files/{name}",
            "/v1/devices",
            "/v1/openapi.json",
            "/healthz",
            "/metrics",
        ] {
            assert!(document["paths"][path].is_object(), "{path}");
        }
        let settings =
            &document["components"]["schemas"]["FitRequest"]["properties"]["settings"]["properties"];
        assert_eq!(settings["lambda"]["type"], "number");
        assert_eq!(settings["steps"]["default"], 20000);
        assert!(settings["law"].is_object() && settings["kernel"].is_object());
        let fit = &document["components"]["schemas"]["Request"]["oneOf"][0];
        assert_eq!(fit["required"], json!(["dataset", "kind"]));
        assert!(fit["properties"]["settings"]["properties"]["lambda"].is_object(), "{fit}");
    }
}
