//! Every address: what it answers, and what it refuses.

use crate::server::{Client, Server, assert_passed};
use crate::small_data;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::Command;

#[test]
fn from_data_to_a_prediction() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let server = Server::start(&folder.path().join("service"), &[]);
    let client = server.client();
    assert_eq!(client.get("/healthz").expect(200), json!({ "status": "ok" }));
    assert_eq!(client.get("/v1/devices").expect(200)["devices"][0]["name"], "cpu");

    // The same content is kept once, whatever its name.
    let first = client.post("/v1/datasets?name=train.npz", &bytes).expect(201);
    let again = client.post("/v1/datasets?name=other.npz", &bytes).expect(200);
    assert_eq!(first, again);
    assert_eq!((first["rows"].as_u64(), first["variables"].as_array().unwrap().len()), (Some(360), 5));
    assert_eq!(first["environments"].as_array().unwrap().len(), 3);
    let data = first["id"].as_str().unwrap();
    assert_eq!(client.get(&format!("/v1/datasets/{data}")).expect(200), first);
    let listed = &client.get("/v1/datasets").expect(200)["datasets"];
    assert_eq!(listed.as_array().unwrap().len(), 1);
    let short = json!({ "id": data, "name": "train.npz", "rows": 360, "variables": 5, "environments": 3 });
    for (name, value) in short.as_object().unwrap() {
        assert_eq!(&listed[0][name], value);
    }

    // csv with targets by name.
    let csv = "a,b,env\n1,2,0\n2,1,0\n0,0.5,1\n3,0.25,1\n";
    let found = client.post("/v1/datasets?name=small.csv&targets=1%3Db", csv).expect(201);
    assert_eq!(found["environments"][1]["targets"], json!(["b"]));

    // The same fit as on the command line: the same bytes.
    let fit =
        client.run(&json!({ "kind": "fit", "dataset": data, "settings": { "bandwidth": 3, "lambda": 0.1 } }));
    assert_eq!(fit["state"], "done", "{fit}");
    let model = fit["result"]["model"].as_str().unwrap();
    let id = fit["id"].as_str().unwrap();
    let served = client.get(&format!("/v1/jobs/{id}/files/model.safetensors"));
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let local = Command::new(env!("CARGO_BIN_EXE_skds"))
        .args([
            "fit",
            &at("train.npz"),
            "-o",
            &at("local.safetensors"),
            "--bandwidth",
            "3",
            "--lambda",
            "0.1",
        ])
        .args(["--device", "cpu"])
        .output()
        .unwrap();
    assert!(local.status.success());
    assert_eq!(served.body, std::fs::read(at("local.safetensors")).unwrap());
    assert_eq!(client.get(&format!("/v1/models/{model}")).expect(200)["kind"], "linear");
    let uploaded = client.post("/v1/models", &served.body).expect(201);
    assert_eq!(uploaded["id"], model);

    let sample = json!({ "kind": "sample", "model": model, "n": 500, "shift": { "x0": 1.0 }, "seed": 3 });
    let sample = client.run(&sample);
    assert_eq!(sample["result"]["variables"].as_array().unwrap().len(), 5);
    let counts = sample["result"]["variables"][0]["histogram"]["counts"].as_array().unwrap();
    assert_eq!(counts.iter().map(|count| count.as_u64().unwrap()).sum::<u64>(), 500);
    assert_eq!(sample["files"], json!(["samples.npz"]));

    let test = client.upload("test.npz", &std::fs::read(folder.path().join("test.npz")).unwrap());
    let evaluation = client.run(&json!({ "kind": "evaluate", "model": model, "dataset": test }));
    assert_eq!(evaluation["result"]["evaluation"]["environments"], 2, "{evaluation}");

    let loss = json!({ "kind": "loss", "model": model, "dataset": data, "bandwidth": 2, "gradient": true });
    let loss = client.run(&loss);
    assert!(loss["result"]["loss"].is_number() && loss["files"] == json!(["gradient.safetensors"]), "{loss}");

    let settings =
        json!({ "system": "scm", "dim": 4, "rows": 30, "train_envs": 2, "test_envs": 2, "edges": 1 });
    let simulated = client.run(&json!({ "kind": "simulate", "settings": settings }));
    assert_eq!(simulated["files"], json!(["manifest.json", "test.npz", "train.npz", "truth.npz"]));
    let made = simulated["result"]["train"].as_str().unwrap();
    assert_eq!(client.get(&format!("/v1/datasets/{made}")).expect(200)["rows"], 90);

    let jobs = client.get("/v1/jobs?state=done&limit=3").expect(200);
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 3);
    assert_eq!(jobs["jobs"][0]["kind"], "simulate");
    let metrics = String::from_utf8(client.get("/metrics").body).unwrap();
    assert!(metrics.contains("skds_jobs{kind=\"fit\",state=\"done\"} 1"), "{metrics}");
}

#[test]
fn predictions_start_from_a_dataset_that_the_request_names() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let server = Server::start(&folder.path().join("service"), &[]);
    let client = server.client();
    let data = client.upload("train.npz", &bytes);
    let test = client.upload("test.npz", &std::fs::read(folder.path().join("test.npz")).unwrap());
    let settings = json!({ "bandwidth": 3, "lambda": 0.1 });
    let fit = client.run(&json!({ "kind": "fit", "dataset": data, "settings": settings }));
    let model = fit["result"]["model"].as_str().unwrap();

    let sample = json!({ "kind": "sample", "model": model, "from": data, "set": { "x0": 2.5 } });
    let job = client.run(&sample);
    assert_eq!((&job["state"], &job["result"]["environment"]), (&json!("done"), &json!(0)), "{job}");
    let mean = job["result"]["variables"][0]["mean"].as_f64().unwrap();
    assert!((mean - 2.5).abs() < 1e-9, "{job}");
    let counts = job["result"]["variables"][0]["histogram"]["counts"].as_array().unwrap();
    assert_eq!(counts.iter().map(|count| count.as_u64().unwrap()).sum::<u64>(), 120);
    let evaluation = client
        .run(&json!({ "kind": "evaluate", "model": model, "dataset": test, "from": data }))["result"]["evaluation"]
        .clone();
    assert!(evaluation["anchored"]["median"]["w2"].is_number(), "{evaluation}");
    assert!(evaluation["floors"]["none"]["median"]["mse"].is_number(), "{evaluation}");
    assert!(evaluation["floors"]["additive"].is_null(), "{evaluation}");

    // What is not there, too much, or nothing to start from.
    let jobs = |body: Value| client.post("/v1/jobs", body.to_string());
    let nobody = "0".repeat(64);
    let sentence = jobs(json!({ "kind": "sample", "model": model, "from": nobody })).refused(404);
    assert!(sentence.contains("no such dataset"), "{sentence}");
    let evaluate = json!({ "kind": "evaluate", "model": model, "dataset": test, "from": nobody });
    assert!(jobs(evaluate).refused(404).contains("no such dataset"));
    jobs(json!({ "kind": "sample", "model": model, "from": "../../etc" })).refused(400);
    for (request, piece) in [
        (json!({ "kind": "sample", "model": model, "from": test }), "have targets, expected one without"),
        (
            json!({ "kind": "sample", "model": model, "from": data, "n": 121 }),
            "expected at most the environment's number of rows",
        ),
        (
            json!({ "kind": "sample", "model": model, "set": { "x0": 1 }, "shift": { "x0": 1 } }),
            "both a shift",
        ),
        (json!({ "kind": "sample", "model": model, "set": { "y": 1 } }), "unknown variable 'y'"),
    ] {
        let job = client.run(&request);
        assert_eq!(job["state"], "failed", "{job}");
        assert!(job["error"].as_str().unwrap().contains(piece), "{job}");
    }
    let csv = "a,b\n1,2\n2,1\n";
    let other = client.upload("other.csv", csv.as_bytes());
    let job = client.run(&json!({ "kind": "sample", "model": model, "from": other }));
    assert!(job["error"].as_str().unwrap().contains("2 variables, expected 5"), "{job}");
}

#[test]
fn edges_are_part_of_a_fit() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let server = Server::start(&folder.path().join("service"), &[]);
    let client = server.client();
    let data = client.upload("train.npz", &bytes);
    let edge =
        |source: &str, target: &str, kind: &str| json!({ "source": source, "target": target, "kind": kind });
    let request = |edges: Value| json!({ "kind": "fit", "dataset": data, "edges": edges });
    let fit = client.run(&request(json!([edge("x0", "x1", "forbidden"), edge("x1", "x0", "forbidden")])));
    assert_eq!(fit["state"], "done", "{fit}");
    let matrix = &fit["result"]["effects"]["matrix"];
    assert_eq!((matrix[0][1].as_f64(), matrix[1][0].as_f64()), (Some(0.0), Some(0.0)), "{matrix}");
    assert!(matrix.to_string().matches("0.0").count() < 20, "{matrix}");
    // What the page shows, and what programs read.
    let summary = fit["result"]["summary"].as_str().unwrap();
    assert!(
        summary.contains("The effects of 2 of 5 variables are supported by an intervention on them"),
        "{summary}"
    );
    let support = &fit["result"]["support"];
    assert_eq!(support["variables"].as_array().unwrap().len(), 5, "{support}");
    assert_eq!(
        support["unidentified_pairs"].as_array().map(Vec::len),
        support["unidentified_count"].as_u64().map(|count| count as usize)
    );
    let one = edge("x0", "x1", "forbidden");
    let mut weighted = edge("x0", "x1", "candidate");
    weighted["weight"] = json!(-2);
    for (edges, piece) in [
        (
            json!([one, edge("x0", "x1", "required")]),
            "edge 2: 'x0' -> 'x1' is required here and forbidden in edge 1",
        ),
        (json!([edge("x0", "rain", "required")]), "edge 1: unknown variable 'rain'"),
        (json!([edge("x0", "x1", "maybe")]), "unknown kind 'maybe'"),
        (json!([weighted]), "edge 1: the weight is -2"),
        (json!(vec![one; 26]), "found 26 edges, expected at most 25"),
        (json!([{ "source": "x0" }]), "missing field `target`"),
        (json!("edges.csv"), "the body is not a request"),
    ] {
        let body = serde_json::to_vec(&request(edges)).unwrap();
        let sentence = client.post("/v1/jobs", body).refused(400);
        assert!(sentence.contains(piece), "{sentence}");
    }
}

/// Addresses with a host in a text, but for names of XML namespaces, which nobody loads.
fn other_sites(text: &str) -> Vec<&str> {
    let address = |at: usize| {
        let end = text[at..].find(|c: char| c.is_whitespace() || "\"'`)<>".contains(c));
        &text[at..end.map_or(text.len(), |end| at + end)]
    };
    // Comments of JavaScript begin with two slashes, too: after them comes a blank.
    let addresses = text.match_indices("//").map(|(at, _)| address(at));
    addresses.filter(|found| found.len() > 2 && !found.starts_with("//www.w3.org/")).collect()
}

#[test]
fn the_page_loads_nothing_from_elsewhere() {
    assert_eq!(other_sites("<a src='https://evil.example/x.js'> // a comment"), ["//evil.example/x.js"]);
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let response = ureq::get(&server.url).call().unwrap();
    let policy = response.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
    let client = server.client();
    for (path, piece) in
        [("/", "<!doctype html>"), ("/app.js", "fetch"), ("/plots.js", "svg"), ("/style.css", "{")]
    {
        let answer = client.get(path);
        let text = String::from_utf8(answer.body).unwrap();
        assert_eq!(answer.status, 200);
        assert!(text.to_lowercase().contains(piece), "{path}");
        assert_eq!(other_sites(&text), Vec::<&str>::new(), "{path} names other sites");
    }
}

#[test]
fn a_fit_is_followed_let_pass_and_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let server = Server::start(&folder.path().join("service"), &[]);
    let client = server.client();
    let data = client.upload("train.npz", &bytes);
    let quick =
        client.run(&json!({ "kind": "fit", "dataset": data, "settings": { "bandwidth": 3, "lambda": 0.1 } }));
    let model = quick["result"]["model"].clone();
    let long = json!({ "kind": "fit", "dataset": data, "settings": { "solver": "adam", "steps": 4_000_000, "batch": 64 } });
    let id = client.submit(&long);
    let response = ureq::get(format!("{}/v1/jobs/{id}/events", server.url)).call().unwrap();
    let mut lines = BufReader::new(response.into_body().into_reader()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "event: state");
    let progress = lines.find(|line| line == "event: progress").and_then(|_| lines.next()).unwrap();
    let progress: Value = serde_json::from_str(progress.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(progress["steps"], 4_000_000);
    assert!(progress["loss"].is_number() && progress["seconds_left"].is_number(), "{progress}");
    // A short question is answered while the fit goes on, on the same device.
    let loss = client.run(&json!({ "kind": "loss", "model": model, "dataset": data, "bandwidth": 2 }));
    assert_eq!(loss["state"], "done");
    client.post(&format!("/v1/jobs/{id}/cancel"), "").expect(200);
    let job = client.wait_for(&id, &["cancelled", "done"]);
    assert_eq!(job["state"], "cancelled");
    assert_passed(&loss, &job);
    // The stream ends with the last state.
    let last = lines.filter(|line| line.starts_with("data: ")).last().unwrap();
    assert!(last.contains("\"cancelled\""), "{last}");
    // One that waits is cancelled at once; one that has ended stays as it is.
    let blocking = client.submit(&long);
    let waiting = client.submit(&long);
    assert_eq!(client.post(&format!("/v1/jobs/{waiting}/cancel"), "").expect(200)["state"], "cancelled");
    client.post(&format!("/v1/jobs/{blocking}/cancel"), "").expect(200);
    client.wait_for(&blocking, &["cancelled"]);
    let ended = quick["id"].as_str().unwrap();
    assert_eq!(client.post(&format!("/v1/jobs/{ended}/cancel"), "").expect(200)["state"], "done");
}

#[test]
fn wrong_requests_get_one_sentence_and_say_nothing_about_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let server =
        Server::start(&folder.path().join("service"), &["--max-upload", "1", "--max-variables", "9"]);
    let client = server.client();
    let data = client.upload("train.npz", &bytes);
    let nobody = "0".repeat(64);
    let post = |path: &str, body: &str| client.post(path, body);
    let jobs = |body: Value| client.post("/v1/jobs", body.to_string());
    let cases: Vec<(String, &str)> = vec![
        (post("/v1/jobs", "{\"kind\": \"fit\"").refused(400), "the body is not a request"),
        (post("/v1/jobs", "[1]").refused(400), "the body is not a request"),
        (jobs(json!({ "kind": "dance" })).refused(400), "unknown variant `dance`"),
        (jobs(json!({ "kind": "fit", "dataset": "../../etc/passwd" })).refused(400), "expected 64 digits"),
        (jobs(json!({ "kind": "fit", "dataset": nobody })).refused(404), "no such dataset"),
        (jobs(json!({ "kind": "sample", "model": nobody })).refused(404), "no such model"),
        (jobs(json!({ "kind": "fit", "dataset": data, "settings": { "lambda": -1.0 } })).refused(400), "lambda is -1"),
        (jobs(json!({ "kind": "fit", "dataset": data, "settings": { "lamda": 1.0 } })).refused(400), "unknown field `lamda`"),
        (jobs(json!({ "kind": "fit", "dataset": data, "device": "abacus" })).refused(400), "unknown device 'abacus'"),
        (
            jobs(json!({ "kind": "fit", "dataset": data, "settings": { "model": "basis", "features": "/etc/passwd" } }))
                .refused(400),
            "reads no files of its clients",
        ),
        (jobs(json!({ "kind": "simulate", "settings": { "dim": 50, "edges": 2 } })).refused(422), "expected at most 9"),
        (post("/v1/jobs", &"x".repeat(2 << 20)).refused(413), "expected at most"),
        (post("/v1/datasets?name=a.npz", "not a zip").refused(400), "the file"),
        (post("/v1/datasets?name=a.csv", "a,b\n1,2\n3\n").refused(400), "the file"),
        (post("/v1/datasets?name=a.csv", "a,b\n1,NaN\n3,4\n").refused(400), "the file"),
        (post("/v1/datasets?name=a.csv", "").refused(400), "the file"),
        (post("/v1/datasets?name=a.txt", "x").refused(400), "expected .npz or .csv"),
        (post("/v1/datasets", "x").refused(400), "name"),
        (client.post("/v1/datasets?name=a.npz", vec![0; (1 << 20) + 1]).refused(413), "expected at most 1048576"),
        (post("/v1/models", "not a model").refused(400), "the file"),
        (client.get("/v1/jobs/1").refused(404), "no such job"),
        (client.get(&format!("/v1/jobs/{}", "a".repeat(32))).refused(404), "no such job"),
        (client.get("/v1/jobs?state=dancing").refused(400), "dancing"),
        (client.get("/v1/jobs?limit=1001").refused(400), "limit is 1001, expected at most 1000"),
        (post("/v1/jobs?wait=61", "{}").refused(400), "wait is 61, expected 0 to 60"),
        (client.get("/v1/datasets/..%2f..%2fetc").refused(404), "no such dataset"),
        (client.get("/v2").refused(404), "no such address"),
        (post("/healthz", "").refused(405), "does not support this method"),
    ];
    let wide = (0..12).map(|j| format!("x{j}")).collect::<Vec<_>>().join(",")
        + "\n"
        + &"1,".repeat(11)
        + "1\n"
        + &"2,".repeat(11)
        + "1\n";
    let wide = post("/v1/datasets?name=a.csv", &wide).refused(422);
    assert!(wide.contains("is 12, expected at most 9"), "{wide}");
    let host = folder.path().to_str().unwrap();
    for (sentence, piece) in cases {
        assert!(sentence.contains(piece), "{piece}: {sentence}");
        assert!(!sentence.contains(host) && !sentence.contains("/tmp"), "{sentence}");
    }
    let id =
        client.run(&json!({ "kind": "fit", "dataset": data, "settings": { "bandwidth": 3, "lambda": 0.1 } }));
    let id = id["id"].as_str().unwrap();
    for name in ["..%2f..%2fservice.sqlite", "service.sqlite", "model.checkpoint.safetensors"] {
        assert_eq!(client.get(&format!("/v1/jobs/{id}/files/{name}")).refused(404), "there is no such file");
    }
    // A page from elsewhere, in a browser on this machine.
    for (name, value) in [("origin", "http://evil.example"), ("host", "evil.example")] {
        let foreign = ureq::get(format!("{}/v1/jobs", server.url)).header(name, value).call();
        assert!(matches!(foreign, Err(ureq::Error::StatusCode(403))), "{name}: {foreign:?}");
    }
    // Nothing half-received is left.
    assert_eq!(std::fs::read_dir(folder.path().join("service/uploads")).unwrap().count(), 0);
}

#[test]
fn variables_are_told_apart_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("service"), &["--max-variables", "5"]);
    let client = server.client();
    let rows = |text: &str| text.to_owned() + "\n1,2,0\n0,1,0\n3,1,1\n2,2,1\n";
    let upload = |header: &str| {
        client.post("/v1/datasets?name=a.csv&targets=1=a", rows(header)).expect(201)["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    // However its column is written, there are two environments.
    let (data, permuted) = (upload("a,b,Env"), upload("b,a,\"ENV\""));
    let known = client.get(&format!("/v1/datasets/{data}")).expect(200);
    assert_eq!(known["environments"].as_array().unwrap().len(), 2, "{known}");
    for (header, piece) in
        [("1,2,0", "expected the names of the variables"), ("a,b,environment", "expected `env`")]
    {
        for targets in ["", "&targets=1=a"] {
            let said = client.post(&format!("/v1/datasets?name=a.csv{targets}"), rows(header)).refused(400);
            assert!(said.contains(piece), "{said}");
        }
    }
    let wide = (0..100_000).map(|j| format!("x{j}")).collect::<Vec<_>>().join(",");
    let said = client.post("/v1/datasets?name=a.csv", wide + "\nno numbers\n").refused(422);
    assert!(said.contains("expected at most 5"), "{said}");

    let settings = json!({ "bandwidth": 1, "lambda": 0.1 });
    let fit = client.run(&json!({ "kind": "fit", "dataset": data, "settings": settings }));
    let model = fit["result"]["model"].as_str().unwrap_or_else(|| panic!("{fit}"));
    let loss =
        |data: &str| client.run(&json!({ "kind": "loss", "model": model, "dataset": data, "bandwidth": 1 }));
    assert_eq!(loss(&data)["state"], "done");
    let refused = loss(&permuted);
    let said = refused["error"].as_str().unwrap_or_else(|| panic!("{refused}"));
    assert!(said.contains("variable 0 of the dataset is 'b', expected 'a' like the model"), "{said}");

    // The same model, with names that do not tell its variables apart.
    let id = fit["id"].as_str().unwrap();
    let bytes = client.get(&format!("/v1/jobs/{id}/files/model.safetensors")).body;
    let text = String::from_utf8_lossy(&bytes[..]).into_owned();
    assert!(text.contains(r#"[\"a\",\"b\"]"#), "{text:.500}");
    for (names, piece) in [(&br#"[\"a\",\"a\"]"#[..], "appears twice"), (br#"[\"a\", \"\"]"#, "is empty")] {
        let known = br#"[\"a\",\"b\"]"#;
        let at = bytes.windows(known.len()).position(|part| part == known).unwrap();
        let mut wrong = bytes.clone();
        wrong[at..at + known.len()].copy_from_slice(names);
        // As another program would write it: without a checksum.
        let sum = br#""checksum""#;
        let at = wrong.windows(sum.len()).position(|part| part == sum).unwrap();
        wrong[at..at + sum.len()].copy_from_slice(br#""no-check""#);
        let said = client.post("/v1/models", wrong).refused(400);
        assert!(said.contains(piece), "{said}");
    }
}

#[test]
fn a_token_guards_everything_but_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "a-long-enough-token\n").unwrap();
    let server = Server::start(&folder.path().join("service"), &["--token-file", file.to_str().unwrap()]);
    for token in [None, Some("wrong"), Some("a-long-enough-tokeN"), Some("")] {
        let client = Client::new(&server.url, token);
        for path in ["/v1/jobs", "/v1/datasets", "/v1/openapi.json", "/metrics", "/v1/devices"] {
            assert!(client.get(path).refused(401).contains("token is missing or wrong"));
        }
        client.post("/v1/jobs", "{}").refused(401);
        assert_eq!((client.get("/").status, client.get("/healthz").status), (200, 200));
    }
    let client = Client::new(&server.url, Some("a-long-enough-token"));
    client.get("/v1/jobs").expect(200);
    let refused = |args: &[&str], piece: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_skds")).arg("serve").args(args).output().unwrap();
        let sentence = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(sentence.contains(piece), "{sentence}");
        assert_eq!(output.status.code(), Some(2));
    };
    let data = folder.path().join("other").to_str().unwrap().to_owned();
    refused(&["--listen", "0.0.0.0:0", "--data", &data], "expected a token for it");
    std::fs::write(&file, "short").unwrap();
    refused(&["--data", &data, "--token-file", file.to_str().unwrap()], "expected at least 16");
    refused(&["--data", &data, "--max-disk", "0"], "--max-disk is 0");
    refused(&["--data", file.to_str().unwrap()], "cannot create");
}

#[test]
fn a_full_queue_says_when_to_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let server = Server::start(&folder.path().join("service"), &["--max-queued", "2"]);
    let client = server.client();
    let data = client.upload("train.npz", &bytes);
    let long = json!({ "kind": "fit", "dataset": data, "settings": { "solver": "adam", "steps": 4_000_000, "batch": 64 } });
    let first = client.submit(&long);
    client.wait_for(&first, &["running"]);
    let waiting: Vec<String> = (0..2).map(|_| client.submit(&long)).collect();
    let refused = client.post("/v1/jobs", long.to_string());
    assert!(refused.refused(429).contains("2 jobs wait already"));
    assert_eq!(refused.retry_after.as_deref(), Some("2"));
    for id in waiting.iter().chain([&first]) {
        client.post(&format!("/v1/jobs/{id}/cancel"), "").expect(200);
    }
    client.wait_for(&first, &["cancelled"]);
}

/// Checks a value against a schema of the document: types, required properties, references.
fn check(document: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target =
            document.pointer(reference.trim_start_matches('#')).ok_or(format!("{at}: no {reference}"))?;
        return check(document, target, value, at);
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(choices) = schema[key].as_array() {
            return match choices.iter().any(|choice| check(document, choice, value, at).is_ok()) {
                true => Ok(()),
                false => Err(format!("{at}: {value} fits none of {choices:?}")),
            };
        }
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        check(document, part, value, at)?;
    }
    let name = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allowed: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    };
    let fits =
        allowed.is_empty() || allowed.contains(&name) || (name == "integer" && allowed.contains(&"number"));
    if !fits {
        return Err(format!("{at}: {value} is {name}, expected {allowed:?}"));
    }
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.is_object() && value.get(required).is_none() {
            return Err(format!("{at}: no {required} in {value}"));
        }
    }
    if let (Some(properties), Some(fields)) = (schema["properties"].as_object(), value.as_object()) {
        for (name, field) in fields {
            match properties.get(name) {
                Some(schema) => check(document, schema, field, &format!("{at}.{name}"))?,
                None if schema["additionalProperties"] == false => {
                    return Err(format!("{at}: {name} is not described"));
                }
                None => {}
            }
        }
    }
    for (k, item) in value.as_array().into_iter().flatten().enumerate() {
        check(document, &schema["items"], item, &format!("{at}[{k}]"))?;
    }
    Ok(())
}

#[test]
fn answers_are_as_the_document_says() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let server = Server::start(&folder.path().join("service"), &[]);
    let client = server.client();
    let document = client.get("/v1/openapi.json").expect(200);
    let agrees = |path: &str, method: &str, status: &str, value: &Value| {
        let response = &document["paths"][path][method]["responses"][status];
        let schema = &response["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{method} {path} {status} is not described: {response}");
        check(&document, schema, value, path).unwrap();
        schema.clone()
    };
    let dataset = client.post("/v1/datasets?name=train.npz", &bytes).expect(201);
    agrees("/v1/datasets", "post", "201", &dataset);
    agrees("/v1/datasets", "get", "200", &client.get("/v1/datasets").expect(200));
    let fit =
        json!({ "kind": "fit", "dataset": dataset["id"], "settings": { "bandwidth": 3, "lambda": 0.1 } });
    agrees("/v1/jobs", "post", "202", &client.post("/v1/jobs", fit.to_string()).expect(202));
    let job = client.post("/v1/jobs?wait=60", fit.to_string()).expect(200);
    agrees("/v1/jobs", "post", "200", &job);
    agrees("/v1/jobs", "get", "200", &client.get("/v1/jobs").expect(200));
    agrees("/v1/jobs/{id}", "get", "200", &job);
    let request =
        &document["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]["schema"];
    check(&document, request, &job["request"], "request").unwrap();
    let model = job["result"]["model"].as_str().unwrap();
    agrees("/v1/models/{id}", "get", "200", &client.get(&format!("/v1/models/{model}")).expect(200));
    agrees("/v1/devices", "get", "200", &client.get("/v1/devices").expect(200));
    agrees("/healthz", "get", "200", &client.get("/healthz").expect(200));
    agrees("/v1/jobs", "post", "400", &client.post("/v1/jobs", "{}").expect(400));
    // The check itself notices what is wrong.
    let schema = agrees("/v1/jobs", "post", "200", &job);
    let mut wrong = job.clone();
    wrong["created"] = json!("yesterday");
    assert!(check(&document, &schema, &wrong, "job").is_err());
}
