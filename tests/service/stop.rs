//! Long jobs end when they are asked to, or took too long, and let short ones be done in the meantime.

use crate::server::{Client, Server, assert_passed};
use crate::small_data;
use serde_json::{Value, json};

/// A system whose fits and evaluations take longer than anyone waits here: its data, and a model of it.
fn large_system(client: &Client) -> (Value, Value, Value) {
    let settings = json!({ "system": "sde", "dim": 60, "rows": 1500, "train_envs": 30, "test_envs": 30 });
    let simulated = client.run(&json!({ "kind": "simulate", "settings": settings }));
    let (train, test) = (simulated["result"]["train"].clone(), simulated["result"]["test"].clone());
    let quick = json!({ "kind": "fit", "dataset": train, "settings": { "solver": "adam", "steps": 1 } });
    let model = client.run(&quick)["result"]["model"].clone();
    (train, test, model)
}

#[test]
fn every_kind_of_job_can_be_cancelled_and_lets_short_ones_pass() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("service"), &[]);
    let client = server.client();
    let (train, test, model) = large_system(&client);
    let pairs = crate::common::random_data(1, &[60_000], 5);
    let path = folder.path().join("pairs.npz");
    pairs.write(&path).unwrap();
    let pairs = client.upload("pairs.npz", &std::fs::read(&path).unwrap());
    let mut parameters = crate::common::random_parameters(1, 5, 1, None, false);
    (parameters.shift, parameters.log_scale) = (None, None);
    let path = folder.path().join("model.safetensors");
    parameters.write(&path).unwrap();
    let small = client.post("/v1/models", std::fs::read(&path).unwrap()).expect(201)["id"].clone();
    let genes = json!({ "system": "sergio", "rows": 5000 });
    for long in [
        json!({ "kind": "fit", "dataset": train }),
        json!({ "kind": "fit", "dataset": train, "bootstrap": 20_000,
                "settings": { "bandwidth": 5, "lambda": 0.1, "penalty": "ingoing" } }),
        json!({ "kind": "fit", "dataset": train, "settings": { "solver": "adam", "steps": 4_000_000 } }),
        json!({ "kind": "evaluate", "model": model, "dataset": test, "method": "euler" }),
        json!({ "kind": "sample", "model": model, "n": 200_000, "method": "euler" }),
        json!({ "kind": "loss", "model": small, "dataset": pairs, "estimator": "u", "bandwidth": 1 }),
        json!({ "kind": "simulate", "settings": genes }),
    ] {
        let id = client.submit(&long);
        client.wait_for(&id, &["running"]);
        let short = client.run(&json!({ "kind": "sample", "model": model, "n": 100 }));
        assert_eq!(short["state"], "done", "{long}");
        client.post(&format!("/v1/jobs/{id}/cancel"), "").expect(200);
        let job = client.wait_for(&id, &["cancelled", "done", "failed"]);
        assert_eq!(job["state"], "cancelled", "{job}");
        assert_eq!(job["files"], json!([]));
        assert_passed(&short, &job);
    }
}

#[test]
fn a_job_that_takes_too_long_fails_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let server = Server::start(&folder.path().join("service"), &["--max-seconds", "0.5"]);
    let client = server.client();
    let data = client.upload("train.npz", &bytes);
    for settings in [
        json!({ "solver": "adam", "steps": 40_000_000 }),
        json!({ "bandwidth": 3, "lambda": 0.1, "penalty": "ingoing" }),
    ] {
        let bootstrap = settings["solver"].is_null().then_some(100_000);
        let request = json!({ "kind": "fit", "dataset": data, "settings": settings, "bootstrap": bootstrap });
        let job = client.run(&request);
        assert_eq!(job["state"], "failed", "{job}");
        assert!(job["error"].as_str().unwrap().contains("expected at most"), "{job}");
    }
}

#[test]
fn a_polite_kill_keeps_a_checkpoint_and_the_fit_goes_on_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let place = folder.path().join("service");
    let mut server = Server::start(&place, &[]);
    let data = server.client().upload("train.npz", &bytes);
    let steps = 40_000;
    let request = json!({ "kind": "fit", "dataset": data, "settings": { "solver": "adam", "steps": steps, "batch": 64 } });
    let id = server.client().submit(&request);
    let reached = |server: &Server| {
        server.client().get(&format!("/v1/jobs/{id}")).expect(200)["progress"]["step"].as_u64().unwrap_or(0)
    };
    while reached(&server) < 500 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    server.signal("TERM");
    assert!(server.child.wait().unwrap().success(), "a polite end is no failure");
    let kept = place.join("jobs").join(&id).join("model.checkpoint.safetensors");
    assert!(
        kept.exists(),
        "{:?}",
        std::fs::read_dir(place.join("jobs").join(&id)).unwrap().collect::<Vec<_>>()
    );
    drop(server);
    let server = Server::start(&place, &[]);
    let job = server.client().wait_for(&id, &["done", "failed"]);
    assert_eq!(job["state"], "done", "{job}");
    // To the same bytes as without an interruption.
    assert_eq!(server.client().run(&request)["result"]["model"], job["result"]["model"]);
}
