//! Two hundred clients at once, and five hundred who only listen.

use crate::server::{Client, Server};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::sync::Mutex;
use std::time::Instant;

const CLIENTS: usize = 200;
const EACH: usize = 10;
const LISTENERS: usize = 500;
/// Datasets that are asked about: 512 rows of 20 variables each.
const DATASETS: usize = 8;

struct Problem {
    requests: Vec<Value>,
}

/// Datasets, and a model, on the service.
fn prepare(client: &Client, folder: &std::path::Path) -> Problem {
    let parameters = crate::common::random_parameters(1, 20, 1, None, false);
    let path = folder.join("model.safetensors");
    let mut parameters = parameters;
    (parameters.shift, parameters.log_scale) = (None, None);
    parameters.write(&path).unwrap();
    let model = client.post("/v1/models", std::fs::read(&path).unwrap()).expect(201)["id"].clone();
    let requests = (0..DATASETS as u64)
        .map(|seed| {
            let path = folder.join("data.npz");
            crate::common::random_data(seed, &[512], 20).write(&path).unwrap();
            let data = client.upload("data.npz", &std::fs::read(&path).unwrap());
            json!({ "kind": "loss", "model": model, "dataset": data, "bandwidth": 4.5 })
        })
        .collect();
    Problem { requests }
}

fn ask(client: &Client, request: &Value) -> (f64, f64) {
    let start = Instant::now();
    let job = client.post("/v1/jobs?wait=60", request.to_string()).expect(200);
    assert_eq!(job["state"], "done", "{job}");
    (start.elapsed().as_secs_f64(), job["result"]["loss"].as_f64().unwrap())
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[(share * (sorted.len() - 1) as f64).round() as usize]
}

#[test]
fn two_hundred_clients_are_served_while_five_hundred_listen() {
    let folder = tempfile::tempdir().unwrap();
    // One after the other, nothing evaluated together.
    let alone = Server::start(&folder.path().join("alone"), &["--no-batching"]);
    let client = alone.client();
    let problem = prepare(&client, folder.path());
    let expected: Vec<f64> = problem.requests.iter().map(|request| ask(&client, request).1).collect();
    let start = Instant::now();
    let count = 300;
    for k in 0..count {
        ask(&client, &problem.requests[k % DATASETS]);
    }
    let one_by_one = count as f64 / start.elapsed().as_secs_f64();
    drop(alone);

    let server = Server::start(&folder.path().join("together"), &["--max-queued", "5000"]);
    let client = server.client();
    let problem = prepare(&client, folder.path());
    // A fit that takes longer than the test, on the same device, with listeners.
    let data = &problem.requests[0]["dataset"];
    let fit = json!({ "kind": "fit", "dataset": data, "settings": { "solver": "adam", "steps": 100_000_000, "batch": 32 } });
    let fit = client.submit(&fit);
    client.wait_for(&fit, &["running"]);
    let listeners: Vec<_> = (0..LISTENERS)
        .map(|_| {
            let response = ureq::get(format!("{}/v1/jobs/{fit}/events", server.url)).call().unwrap();
            assert_eq!(response.status(), 200);
            response
        })
        .collect();
    let times = Mutex::new(Vec::new());
    let start = Instant::now();
    std::thread::scope(|scope| {
        for c in 0..CLIENTS {
            let (problem, expected, times, url) = (&problem, &expected, &times, &server.url);
            scope.spawn(move || {
                let client = Client::new(url, None);
                for k in 0..EACH {
                    let place = (c + k) % DATASETS;
                    let (seconds, loss) = ask(&client, &problem.requests[place]);
                    // Beside others the sums are the same.
                    assert!((loss - expected[place]).abs() <= 1e-6 * expected[place].abs(), "{loss}");
                    times.lock().unwrap().push(seconds);
                }
            });
        }
    });
    let rate = (CLIENTS * EACH) as f64 / start.elapsed().as_secs_f64();
    let mut times = times.into_inner().unwrap();
    times.sort_by(f64::total_cmp);
    assert_eq!(times.len(), CLIENTS * EACH);
    let metrics = String::from_utf8(client.get("/metrics").body).unwrap();
    let number = |name: &str| -> f64 {
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    let together = number("skds_evaluated_losses_total ") / number("skds_evaluations_total ");
    println!(
        "{CLIENTS} clients, {LISTENERS} listeners: {rate:.0} losses per second, p50 {:.1} ms, p99 {:.1} ms, {together:.1} together; \
         one by one {one_by_one:.0} per second: {:.1} times as many",
        1e3 * quantile(&times, 0.5),
        1e3 * quantile(&times, 0.99),
        rate / one_by_one
    );
    assert!(together > 1.5, "losses that wait at the same time are not evaluated together: {together}");
    // Whoever listened has listened all the time: all of them hear the end.
    client.post(&format!("/v1/jobs/{fit}/cancel"), "").expect(200);
    for listener in listeners {
        let last = BufReader::new(listener.into_body().into_reader()).lines().map(Result::unwrap);
        let last = last.filter(|line| line.starts_with("data: ")).last().unwrap();
        assert!(last.contains("\"cancelled\""), "{last}");
    }
}
