//! A hundred times kill -9, in the midst of uploads, queueing, fitting and finishing: nothing acknowledged is lost, nothing
//! half-written is served.

use crate::server::Server;
use crate::small_data;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

const KILLS: u64 = 100;

/// What the service has acknowledged.
#[derive(Default)]
struct Acknowledged {
    datasets: BTreeSet<String>,
    /// Jobs, and the model of those that were seen done.
    jobs: BTreeMap<String, Option<String>>,
}

/// A dataset that no other round uploads.
fn csv(round: u64) -> String {
    let rows = (0..40).map(|i| format!("{},{}\n", ((i * 7 + round) % 11) as f64 + 0.5, (i * i + round) % 13));
    format!("a,b\n{}", rows.collect::<String>())
}

fn hash(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Asks for all kinds of things until the service is gone.
fn bother(server: &Server, round: u64, data: &str, known: &Mutex<Acknowledged>) -> Result<(), ureq::Error> {
    let client = server.client();
    let answer = client.try_post(&format!("/v1/datasets?name={round}.csv"), csv(round).as_bytes())?;
    assert!(matches!(answer.status, 200 | 201));
    known.lock().unwrap().datasets.insert(answer.json()["id"].as_str().unwrap().to_owned());
    let adam = json!({ "solver": "adam", "steps": 2500, "batch": 64, "seed": round });
    let exact = json!({ "bandwidth": 2.0 + round as f64, "lambda": 0.1 });
    for settings in [exact, adam] {
        let request = json!({ "kind": "fit", "dataset": data, "settings": settings });
        let answer = client.try_post("/v1/jobs", request.to_string().as_bytes())?;
        assert_eq!(answer.status, 202);
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        known.lock().unwrap().jobs.insert(id, None);
    }
    loop {
        client.try_get("/healthz")?.expect(200);
        let open = |(id, model): (&String, &Option<String>)| model.is_none().then(|| id.clone());
        let jobs: Vec<String> = known.lock().unwrap().jobs.iter().filter_map(open).collect();
        for id in jobs {
            let job = client.try_get(&format!("/v1/jobs/{id}"))?.expect(200);
            if job["state"] == "done" {
                let model = job["result"]["model"].as_str().unwrap().to_owned();
                known.lock().unwrap().jobs.insert(id, Some(model));
            }
        }
    }
}

/// What was acknowledged is there, and whole: every `nth` of it.
fn check(server: &Server, folder: &Path, known: &Acknowledged, nth: usize) {
    let client = server.client();
    for id in known.datasets.iter().step_by(nth) {
        client.get(&format!("/v1/datasets/{id}")).expect(200);
        skds::data::Dataset::read(folder.join(format!("datasets/{id}.npz"))).unwrap();
    }
    for (id, model) in known.jobs.iter().step_by(nth) {
        let job: Value = client.get(&format!("/v1/jobs/{id}")).expect(200);
        assert_ne!(job["state"], "failed", "{job}");
        if let Some(model) = model {
            assert_eq!((&job["state"], &job["result"]["model"]), (&json!("done"), &json!(model)));
            let bytes = client.get(&format!("/v1/jobs/{id}/files/model.safetensors")).body;
            assert_eq!(hash(&bytes), *model);
        }
    }
}

#[test]
fn a_hundred_kills_lose_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let place = folder.path().join("service");
    let known = Mutex::new(Acknowledged::default());
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut data = None;
    for round in 0..KILLS {
        let server = Server::start(&place, &["--max-queued", "100000"]);
        assert_eq!(std::fs::read_dir(place.join("uploads")).unwrap().count(), 0, "half an upload is left");
        let data = data.get_or_insert_with(|| server.client().upload("train.npz", &bytes)).clone();
        check(&server, &place, &known.lock().unwrap(), 10);
        let after = Duration::from_millis(rng.random_range(1..120));
        std::thread::scope(|scope| {
            scope.spawn(|| bother(&server, round, &data, &known));
            scope.spawn(|| {
                // An upload that is cut off in the middle.
                let big = vec![b'1'; 40 << 20];
                let _ = server.client().try_post("/v1/datasets?name=big.csv", &big);
            });
            std::thread::sleep(after);
            server.signal("KILL");
        });
        server.kill();
    }
    // What was interrupted is finished, and to the same bytes as without interruption.
    let server = Server::start(&place, &["--max-queued", "100000"]);
    let known = known.into_inner().unwrap();
    assert!(known.jobs.len() > 50 && known.jobs.values().flatten().count() > 10, "too little was going on");
    check(&server, &place, &known, 1);
    let client = server.client();
    for id in known.jobs.keys() {
        let job = client.wait_for(id, &["done", "failed"]);
        assert_eq!(job["state"], "done", "{job}");
    }
    let id = known.jobs.keys().next().unwrap();
    let job = client.get(&format!("/v1/jobs/{id}")).expect(200);
    let again = client.run(&job["request"]);
    assert_eq!(again["result"]["model"], job["result"]["model"]);
}
