//! The description of the API, made from the handlers and types themselves.

use super::{datasets, jobs, various};
use crate::model::LawKind;
use crate::{fit, simulate};
use serde_json::{Value, json};
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "skds",
        description = "Learn stationary diffusions: datasets in, models and predictions out."
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
        various::devices,
        various::openapi,
        various::health,
        various::metrics
    ),
    components(schemas(
        crate::serve::store::database::Progress,
        crate::serve::run::events::LogLine,
        crate::serve::domain::problem::Refusal
    ))
)]
struct Api;

/// Every setting of a fit, with the value that it has if nothing is said of it: no fit has all of them.
fn all_of_a_fit() -> fit::Settings {
    let settled =
        |given: fit::Settings| given.settle().map(|recipe| recipe.to_settings()).expect("defaults settle");
    let of_form = |model| settled(fit::Settings { model: Some(model), ..fit::Settings::default() });
    let adam = fit::Settings { solver: Some(fit::SolverChoice::Adam), ..fit::Settings::default() };
    let rest = fit::Settings {
        solver: Some(fit::SolverChoice::Auto),
        estimator: Some(fit::EstimatorChoice::Auto),
        law: Some(LawKind::Diffusion),
        ..settled(fit::Settings::default())
    };
    of_form(fit::ModelKind::Mlp)
        .overlaid(of_form(fit::ModelKind::Basis))
        .overlaid(settled(adam))
        .overlaid(rest)
}

/// The OpenAPI document. Settings of fits and simulations are described by their defaults.
pub fn document() -> Value {
    let mut document = serde_json::to_value(Api::openapi()).expect("the document serialises");
    let schemas = &mut document["components"]["schemas"];
    schemas["FitRequest"]["properties"]["settings"] = of_defaults(&all_of_a_fit());
    schemas["SimulateRequest"]["properties"]["settings"] = of_defaults(&simulate::Settings::default());
    let kinds = schemas["Request"]["oneOf"].take();
    let kinds = kinds.as_array().into_iter().flatten().map(|kind| merged(schemas, kind)).collect();
    schemas["Request"]["oneOf"] = Value::Array(kinds);
    document
}

/// One object instead of several that must all hold: each of them allows no fields but its own, so nothing would satisfy all.
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

/// An object whose properties are those of `value`, which are the defaults.
fn of_defaults(value: &impl serde::Serialize) -> Value {
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
    schema(&serde_json::to_value(value).expect("settings serialise"))
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
