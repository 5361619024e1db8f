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
pub(super) fn document() -> Value {
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
    use crate::serve::http::router;
    use crate::serve::run::service::{Options, Service};
    use axum::Router;
    use axum::body::Body;
    use axum::http::{Request, StatusCode};
    use std::collections::BTreeSet;
    use tower_service::Service as _;

    /// Routes of the page, which is not part of the API.
    const PAGE: [&str; 4] = ["/", "/app.js", "/plots.js", "/style.css"];

    /// The paths and methods to which a router responds.
    fn routes_of(router: &Router) -> BTreeSet<(String, String)> {
        // A router lists its routes nowhere else.
        let text = format!("{router:?}");
        let paths = text.split('"').skip(1).step_by(2).filter(|path| path.starts_with('/'));
        let paths: BTreeSet<&str> = paths.filter(|path| !path.contains("__private__")).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut found = BTreeSet::new();
        for path in paths {
            for method in ["get", "post", "put", "patch", "delete"] {
                let request = Request::builder()
                    .method(method.to_uppercase().as_str())
                    .uri(path.replace("{id}", "0").replace("{name}", "x"))
                    .header("host", "localhost")
                    .body(Body::empty())
                    .unwrap();
                let response = runtime.block_on(router.clone().call(request)).unwrap();
                if response.status() != StatusCode::METHOD_NOT_ALLOWED {
                    found.insert((path.to_owned(), method.to_owned()));
                }
            }
        }
        found
    }

    fn described() -> BTreeSet<(String, String)> {
        let document = document();
        let paths = document["paths"].as_object().unwrap().iter();
        let methods = |path: &Value| path.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        paths
            .flat_map(|(path, item)| methods(item).into_iter().map(|method| (path.clone(), method)))
            .collect()
    }

    #[test]
    fn the_document_describes_the_routes_of_the_router_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::local(folder.path().join("service"), vec!["skds".into()]);
        let router = router(Service::start(options).unwrap().0);
        let mut routes = routes_of(&router);
        for path in PAGE {
            assert!(routes.remove(&(path.to_owned(), "get".to_owned())), "{path} is not served");
        }
        assert_eq!(routes, described());
        // A route that nobody described is noticed.
        let more = routes_of(&router.route("/v1/secret", axum::routing::delete(|| async {})));
        let new = more.into_iter().filter(|(path, _)| !PAGE.contains(&path.as_str()));
        let new: Vec<_> = new.filter(|route| !described().contains(route)).collect();
        assert_eq!(new, [("/v1/secret".to_owned(), "delete".to_owned())]);
    }

    #[test]
    fn requests_and_their_settings_are_described() {
        let document = document();
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
