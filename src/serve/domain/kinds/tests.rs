//! What all kinds have in common, and their estimates.

use super::*;
use crate::fit;
use crate::kernel::Bandwidth;
use crate::serve::domain::info::{DatasetInfo, EnvironmentInfo, ModelInfo};
use serde_json::json;

#[test]
fn the_name_of_every_kind_is_the_tag_of_its_request() {
    let id = "a".repeat(64);
    for name in Request::kinds() {
        let mut request = json!({ "kind": name });
        // Fields that some kinds need and others do not know.
        let mut parsed = serde_json::from_value::<Request>(request.clone());
        for field in ["dataset", "model"] {
            if parsed
                .as_ref()
                .is_err_and(|error| error.to_string().contains(&format!("missing field `{field}`")))
            {
                request[field] = json!(id);
                parsed = serde_json::from_value(request.clone());
            }
            // `model` can be reported before `dataset`.
            if field == "model" && parsed.is_err() {
                request["dataset"] = json!(id);
                parsed = serde_json::from_value(request.clone());
            }
        }
        let parsed = parsed.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(parsed.kind(), name);
        assert_eq!(serde_json::to_value(&parsed).unwrap()["kind"], name);
    }
}

#[test]
fn requests_have_the_command_lines_names_and_defaults() {
    let id = "a".repeat(64);
    let text =
        format!(r#"{{"kind": "fit", "dataset": "{id}", "settings": {{"lambda": 0.2, "solver": "adam"}}}}"#);
    let Request::Fit(fit) = serde_json::from_str(&text).unwrap() else { panic!() };
    let expected = fit::Settings {
        lambda: Some(0.2),
        solver: Some(fit::SolverChoice::Adam),
        ..fit::Settings::default()
    };
    assert_eq!(*fit.settings, expected);
    let text = format!(r#"{{"kind": "loss", "model": "{id}", "dataset": "{id}", "bandwidth": 3}}"#);
    let Request::Loss(loss) = serde_json::from_str(&text).unwrap() else { panic!() };
    assert_eq!((loss.bandwidth, loss.estimator), (Some(Bandwidth::Value(3.0)), None));
    for (wrong, piece) in [
        (r#"{"kind": "dance"}"#.to_string(), "unknown variant `dance`"),
        (r#"{"kind": "fit", "dataset": "../x"}"#.into(), "expected 64 digits"),
        (format!(r#"{{"kind": "fit", "dataset": "{id}", "colour": 1}}"#), "unknown field `colour`"),
        (
            format!(r#"{{"kind": "fit", "dataset": "{id}", "settings": {{"lamda": 1}}}}"#),
            "unknown field `lamda`",
        ),
    ] {
        let error = serde_json::from_str::<Request>(&wrong).unwrap_err().to_string();
        assert!(error.contains(piece), "{wrong}: {error}");
    }
}

fn estimate(kind: &str, rows: usize, d: usize, settings: Value) -> Estimate {
    let id = ContentId::try_from("a".repeat(64)).unwrap();
    let names: Vec<String> = (0..d).map(|j| format!("x{j}")).collect();
    let environments = (0..11).map(|_| EnvironmentInfo { rows, targets: vec![], target_count: 0 }).collect();
    let data = DatasetInfo {
        id: id.clone(),
        name: "data".into(),
        bytes: 0,
        rows: 11 * rows,
        variables: names.clone(),
        environments,
        created: 0.0,
    };
    let model = ModelInfo {
        id,
        kind: "linear".into(),
        variables: names,
        environments: 11,
        parameters: d * d,
        created: 0.0,
    };
    let mut request = json!({ "kind": kind, "dataset": "a".repeat(64) });
    if kind != "fit" {
        request["model"] = "a".repeat(64).into();
    }
    if kind == "sample" || kind == "simulate" {
        request.as_object_mut().unwrap().remove("dataset");
    }
    if kind == "simulate" {
        request.as_object_mut().unwrap().remove("model");
    }
    for (key, value) in settings.as_object().unwrap() {
        request[key] = value.clone();
    }
    let request: Request = serde_json::from_value(request).unwrap();
    let references = request.references();
    request.estimate(&Records {
        dataset: references.dataset.map(|_| &data),
        origin: references.origin.map(|_| &data),
        model: references.model.map(|_| &model),
    })
}

#[test]
fn what_takes_seconds_is_short_and_what_takes_minutes_is_not() {
    let exact = json!({ "settings": { "bandwidth": 3, "lambda": 0.1 } });
    let adam = |steps: u32| json!({ "settings": { "solver": "adam", "steps": steps } });
    for (kind, rows, d, settings, short) in [
        ("fit", 1000, 20, json!({}), true),
        ("fit", 1000, 20, exact.clone(), true),
        ("fit", 1000, 200, json!({}), false),
        ("fit", 50_000, 20, exact, false),
        ("fit", 1000, 20, json!({ "bootstrap": 1000 }), false),
        ("fit", 1000, 20, adam(1000), true),
        ("fit", 1000, 20, adam(1_000_000), false),
        ("evaluate", 1000, 20, json!({}), true),
        ("evaluate", 1000, 20, json!({ "method": "euler" }), false),
        ("evaluate", 10_000, 20, json!({}), false),
        ("sample", 1000, 20, json!({ "n": 2000 }), true),
        ("sample", 1000, 20, json!({ "n": 1_000_000, "method": "euler" }), false),
        ("sample", 1000, 20, json!({ "from": "a".repeat(64), "set": { "x1": 1.0 } }), true),
        ("sample", 1000, 1000, json!({ "from": "a".repeat(64) }), false),
        ("evaluate", 1000, 20, json!({ "from": "a".repeat(64) }), false),
        ("loss", 512, 20, json!({}), true),
        ("loss", 50_000, 20, json!({ "estimator": "u" }), false),
        ("simulate", 0, 0, json!({ "settings": { "system": "sergio" } }), true),
        ("simulate", 0, 0, json!({ "settings": { "system": "sergio", "rows": 100_000 } }), false),
        ("simulate", 0, 0, json!({ "settings": { "simulate": "euler" } }), true),
        ("simulate", 0, 0, json!({ "settings": { "simulate": "euler", "euler_thin": 50_000 } }), false),
        ("simulate", 0, 0, json!({ "settings": { "simulate": "euler", "euler_burn_in": 1_000_000 } }), false),
    ] {
        let found = estimate(kind, rows, d, settings.clone());
        assert_eq!(found.is_short(), short, "{kind} {rows} {d} {settings}: {found:?}");
    }
}

#[test]
fn every_count_is_in_the_estimate() {
    let fit = |settings: Value| json!({ "settings": settings });
    let sergio = |settings: Value| json!({ "settings": { "system": "sergio", "sergio": settings } });
    for (kind, few, many) in [
        ("fit", json!({ "bootstrap": 100 }), json!({ "bootstrap": 100_000 })),
        (
            "fit",
            fit(json!({ "solver": "adam", "batch": 100 })),
            fit(json!({ "solver": "adam", "batch": 1_000_000 })),
        ),
        ("fit", fit(json!({ "model": "mlp", "hidden": 10 })), fit(json!({ "model": "mlp", "hidden": 4096 }))),
        (
            "fit",
            fit(json!({ "model": "basis", "diffusion": "1,x" })),
            fit(json!({ "model": "basis", "diffusion": "1,".repeat(4000) })),
        ),
        ("sample", json!({ "n": 100 }), json!({ "n": 1_000_000 })),
        (
            "sample",
            json!({ "n": 1_000_000, "method": "euler" }),
            json!({ "n": 1_000_000, "method": "euler", "chains": 1_000_000 }),
        ),
        ("sample", json!({ "n": 1000 }), json!({ "n": 1000, "from": "a".repeat(64) })),
        ("simulate", fit(json!({ "rows": 100 })), fit(json!({ "rows": 1_000_000 }))),
        ("simulate", fit(json!({ "dim": 30 })), fit(json!({ "dim": 3000 }))),
        (
            "simulate",
            sergio(json!({ "steps_per_cell": 100 })),
            sergio(json!({ "steps_per_cell": 1_000_000 })),
        ),
        ("simulate", sergio(json!({ "dt": 0.003 })), sergio(json!({ "dt": 1e-9 }))),
        ("simulate", sergio(json!({ "cell_types": 10 })), sergio(json!({ "cell_types": 1000 }))),
    ] {
        let (less, more) = (estimate(kind, 1000, 20, few), estimate(kind, 1000, 20, many.clone()));
        assert!(more.bytes > 2.0 * less.bytes, "{many}: {less:?} {more:?}");
    }
}
