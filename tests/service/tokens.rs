//! Named tokens: who they are, what they see, how they are taken back.

use crate::server::{Client, Server, until};
use crate::small_data;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output};

fn manage(place: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds"))
        .args(["serve", "--data", place.to_str().unwrap()])
        .args(args)
        .env_remove("SKDS_TOKEN")
        .output()
        .unwrap()
}

fn add(place: &Path, name: &str) -> String {
    let output = manage(place, &["--add-token", name]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn list(place: &Path) -> String {
    String::from_utf8(manage(place, &["--list-tokens"]).stdout).unwrap()
}

/// The lines of the audit log.
fn audit(place: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(place.join("audit.log")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn everyone_sees_their_own_and_every_change_has_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let place = folder.path().join("service");
    let (anna, ben) = (add(&place, "anna"), add(&place, "ben"));
    assert_eq!(list(&place), "anna\nben\n");
    let server = Server::start(&place, &[]);
    let [anna, ben] = [&anna, &ben].map(|token| Client::new(&server.url, Some(token)));
    server.client().get("/v1/jobs").refused(401);

    let data = anna.upload("secret-plan.npz", &bytes);
    let fit = json!({ "kind": "fit", "dataset": data, "settings": { "bandwidth": 3, "lambda": 0.1 } });
    let job = anna.run(&fit);
    let (id, model) = (job["id"].as_str().unwrap(), job["result"]["model"].as_str().unwrap());
    // What is hers is nobody else's, by whatever name.
    for path in [
        format!("/v1/jobs/{id}"),
        format!("/v1/jobs/{id}/events"),
        format!("/v1/jobs/{id}/files/model.safetensors"),
        format!("/v1/datasets/{data}"),
        format!("/v1/models/{model}"),
    ] {
        assert_eq!(anna.get(&path).status, 200, "{path}");
        assert!(ben.get(&path).refused(404).contains("there is no such"), "{path}");
    }
    ben.post(&format!("/v1/jobs/{id}/cancel"), "").refused(404);
    ben.post("/v1/jobs", fit.to_string()).refused(404);
    ben.post("/v1/jobs", json!({ "kind": "sample", "model": model }).to_string()).refused(404);
    for name in ["jobs", "datasets"] {
        let path = format!("/v1/{name}");
        assert_eq!(anna.get(&path).expect(200)[name].as_array().unwrap().len(), 1);
        assert_eq!(ben.get(&path).expect(200)[name], json!([]));
    }
    // The same file is his too once he has it, under his own name of it; nothing tells him that it was there.
    let own = ben.post("/v1/datasets?name=own.npz", &bytes).expect(201);
    assert_eq!((&own["id"], &own["name"]), (&json!(data), &json!("own.npz")));
    assert_eq!(ben.get("/v1/datasets").expect(200)["datasets"][0]["name"], "own.npz");
    assert_eq!(anna.get("/v1/datasets").expect(200)["datasets"][0]["name"], "secret-plan.npz");
    assert_eq!(ben.run(&fit)["result"]["model"], model);
    ben.get(&format!("/v1/models/{model}")).expect(200);
    // Nor do predictions of his own model start from data that is hers.
    let hers = anna.upload("test.npz", &std::fs::read(folder.path().join("test.npz")).unwrap());
    for request in [
        json!({ "kind": "sample", "model": model, "from": hers }),
        json!({ "kind": "evaluate", "model": model, "dataset": data, "from": hers }),
    ] {
        assert!(ben.post("/v1/jobs", request.to_string()).refused(404).contains("no such dataset"));
    }
    let long = json!({ "solver": "adam", "steps": 4_000_000, "batch": 64 });
    let long = ben.submit(&json!({ "kind": "fit", "dataset": data, "settings": long }));
    ben.post(&format!("/v1/jobs/{long}/cancel"), "").expect(200);

    let lines: Vec<(String, String, String)> = audit(&place)
        .iter()
        .map(|line| ["who", "what", "about"].map(|key| line[key].as_str().unwrap().to_owned()).into())
        .collect();
    let expected = [
        ("command line", "create", "token"),
        ("command line", "create", "token"),
        ("anna", "create", "dataset"),
        ("anna", "create", "job"),
        ("ben", "create", "dataset"),
        ("ben", "create", "job"),
        ("anna", "create", "dataset"),
        ("ben", "create", "job"),
        ("ben", "cancel", "job"),
    ];
    let lines: Vec<(&str, &str, &str)> = lines.iter().map(|(a, b, c)| (&a[..], &b[..], &c[..])).collect();
    assert_eq!(lines, expected);
    let line = &audit(&place)[3];
    assert_eq!((&line["id"], &line["address"]), (&json!(id), &json!("127.0.0.1")));
    assert!(line["when"].is_number(), "{line}");
}

#[test]
fn a_token_that_is_taken_back_is_refused_at_once_and_hears_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let place = folder.path().join("service");
    let (anna, ben) = (add(&place, "anna"), add(&place, "ben"));
    let server = Server::start(&place, &[]);
    let client = Client::new(&server.url, Some(&anna));
    let data = client.upload("train.npz", &bytes);
    let long = json!({ "solver": "adam", "steps": 40_000_000, "batch": 64 });
    let id = client.submit(&json!({ "kind": "fit", "dataset": data, "settings": long }));
    client.wait_for(&id, &["running"]);
    let events = ureq::get(format!("{}/v1/jobs/{id}/events", server.url))
        .header("authorization", format!("Bearer {anna}"))
        .call()
        .unwrap();
    assert!(manage(&place, &["--revoke-token", "anna"]).status.success());
    assert_eq!(list(&place), "ben\n");
    client.get("/v1/jobs").refused(401);
    // The stream ends although the fit goes on.
    let lines = BufReader::new(events.into_body().into_reader()).lines().map_while(Result::ok);
    assert!(lines.count() > 0);
    Client::new(&server.url, Some(&ben)).get("/v1/jobs").expect(200);
    // The name can be given again; it is another token then, which sees what the first one left.
    let again = add(&place, "anna");
    assert_ne!(again, anna);
    client.get("/v1/jobs").refused(401);
    let again = Client::new(&server.url, Some(&again));
    again.post(&format!("/v1/jobs/{id}/cancel"), "").expect(200);
    again.wait_for(&id, &["cancelled"]);
    for (args, piece) in [
        (["--add-token", "ben"], "a token named 'ben' exists already"),
        (["--revoke-token", "carl"], "there is no token named 'carl'"),
        (["--add-token", "a b"], "the name of a token is malformed"),
    ] {
        let output = manage(&place, &args);
        let sentence = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && sentence.contains(piece), "{sentence}");
    }
}

#[test]
fn guessing_tokens_becomes_slow_and_then_pointless() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("service");
    let (anna, ben) = (add(&place, "anna"), add(&place, "ben"));
    let server = Server::start(&place, &[]);
    let anna = Client::new(&server.url, Some(&anna));
    anna.get("/v1/jobs").expect(200);
    let guess = |k: usize| Client::new(&server.url, Some(&format!("a-guess-of-a-token-{k}"))).get("/v1/jobs");
    let mut guesses = 0;
    until("guesses are not looked at any more", || {
        guesses += 1;
        let answer = guess(guesses);
        assert!(matches!(answer.status, 401 | 429), "{}", answer.status);
        answer.status == 429
    });
    assert!(guesses > 10, "{guesses} guesses are too few: people mistype");
    let answer = guess(0);
    assert!(answer.refused(429).contains("too many wrong tokens"));
    assert!(answer.retry_after.unwrap().parse::<u32>().unwrap() <= 61);
    // Even a right guess is not told from a wrong one; whoever was in before stays in.
    Client::new(&server.url, Some(&ben)).get("/v1/jobs").refused(429);
    anna.get("/v1/jobs").expect(200);
}

#[test]
fn one_client_cannot_fill_the_queue_whatever_it_calls_itself() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let place = folder.path().join("service");
    let (anna, ben) = (add(&place, "anna"), add(&place, "ben"));
    let server = Server::start(&place, &["--max-queued", "10", "--max-queued-each", "3"]);
    let [anna_client, ben] = [&anna, &ben].map(|token| Client::new(&server.url, Some(token)));
    let data = anna_client.upload("train.npz", &bytes);
    let settings = json!({ "solver": "adam", "steps": 4_000_000, "batch": 64 });
    let long = json!({ "kind": "fit", "dataset": data, "settings": settings });
    let first = anna_client.submit(&long);
    anna_client.wait_for(&first, &["running"]);
    (0..3).for_each(|_| drop(anna_client.submit(&long)));
    let refused = anna_client.post("/v1/jobs", long.to_string());
    assert!(refused.refused(429).contains("3 jobs of yours wait already"));
    assert_eq!(refused.retry_after.as_deref(), Some("2"));
    for name in ["someone", "else"] {
        let answer = ureq::post(format!("{}/v1/jobs", server.url))
            .header("authorization", format!("Bearer {anna}"))
            .header("x-skds-client", name)
            .send(long.to_string());
        assert!(matches!(answer, Err(ureq::Error::StatusCode(429))), "{answer:?}");
    }
    ben.upload("train.npz", &bytes);
    ben.submit(&long);
}
