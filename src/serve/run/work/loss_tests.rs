//! Losses that are evaluated together: what one of them is wrong about, the others do not hear of.

use super::*;
use crate::model::{Drift, Noise};
use crate::serve::Options;
use crate::serve::domain::id::JobId;
use crate::serve::store::files::hash_of;
use std::path::Path;

/// A service without workers.
fn service(folder: &Path) -> Arc<Service> {
    let options = Options::local(folder.join("service"), "skds".into());
    Service::start(options).unwrap().0
}

/// Samples of so many variables, of a size.
fn dataset(service: &Service, seed: usize, dim: usize, size: f64) -> ContentId {
    let path = service.files.uploads().join("data.npz");
    let value = |i: usize, j: usize| size * ((i * 7 + j * 13 + seed * 5) as f64).sin();
    Dataset::from_environments(vec![Matrix::from_fn(40, dim, value)]).unwrap().write(&path).unwrap();
    let id = hash_of(&path).unwrap();
    std::fs::rename(&path, service.files.dataset(&id)).unwrap();
    id
}

fn model(service: &Service, dim: usize) -> ContentId {
    let path = service.files.uploads().join("model.safetensors");
    let parameters = Parameters {
        drift: Drift::linear(Matrix::from_fn(dim, dim, |i, j| if i == j { -1.0 } else { 0.1 })),
        biases: vec![0.1; dim],
        noise: Noise::Diagonal { log_noise: vec![0.0; dim] },
        shift: None,
        log_scale: None,
    };
    parameters.write(&path).unwrap();
    let id = hash_of(&path).unwrap();
    std::fs::rename(&path, service.files.model(&id)).unwrap();
    id
}

/// A job on record, and its ticket.
fn ticket(service: &Service, number: usize, model: &ContentId, data: &ContentId) -> Ticket {
    let id = JobId::try_from(format!("{number:032x}")).unwrap();
    let text = json!({ "kind": "loss", "model": model, "dataset": data, "bandwidth": 2 }).to_string();
    let (name, row) = (id.as_str().to_owned(), text.clone());
    let insert = "INSERT INTO jobs (id, kind, client, state, request, created) VALUES (?1, 'loss', 'me', 'queued', ?2, 0)";
    service.store.write_now(move |db| db.execute(insert, [name, row]).map(|_| ())).unwrap();
    let request = Arc::new(serde_json::from_str(&text).unwrap());
    Ticket { live: service.lives.begin(&id), id, request, created: now(), short: true, bytes: 0.0 }
}

fn evaluations(service: &Service) -> u64 {
    service.metrics.evaluations()
}

#[test]
fn every_loss_has_its_own_answer_whatever_its_neighbours_are() {
    let folder = tempfile::tempdir().unwrap();
    let service = service(folder.path());
    let model = model(&service, 3);
    let good: Vec<ContentId> = (0..4).map(|seed| dataset(&service, seed, 3, 1.0)).collect();
    let alone: Vec<f64> = (good.iter().enumerate())
        .map(|(k, data)| {
            let one = ticket(&service, k, &model, data);
            let id = one.id.clone();
            evaluate(&service, None, "cpu", vec![one]);
            service.job(&id).unwrap().result.unwrap()["loss"].as_f64().unwrap()
        })
        .collect();
    assert_eq!(evaluations(&service), 4);

    // All is well: one evaluation for all of them.
    let tickets: Vec<Ticket> = (0..4).map(|k| ticket(&service, 10 + k, &model, &good[k])).collect();
    evaluate(&service, None, "cpu", tickets);
    assert_eq!(evaluations(&service), 5);

    // Samples too large for f32, of another width, and gone, between the others.
    let large = dataset(&service, 9, 3, 1e30);
    let wide = dataset(&service, 9, 5, 1.0);
    let gone = ContentId::try_from("0".repeat(64)).unwrap();
    let all = [&good[0], &large, &good[1], &wide, &good[2], &gone, &good[3]];
    let tickets = all.iter().enumerate().map(|(k, data)| ticket(&service, 20 + k, &model, data)).collect();
    evaluate(&service, None, "cpu", tickets);
    // One for all that fit together, and one for that which was not finite.
    assert_eq!(evaluations(&service), 7);
    let job = |k: usize| service.job(&JobId::try_from(format!("{:032x}", 20 + k)).unwrap()).unwrap();
    for (k, piece) in [(1, "expected a finite number"), (3, "variables"), (5, "")] {
        let job = job(k);
        assert_eq!(job.state, JobState::Failed, "{job:?}");
        assert!(job.error.as_ref().unwrap().contains(piece), "{job:?}");
    }
    for (k, expected) in [0, 2, 4, 6].into_iter().zip(alone) {
        let job = job(k);
        assert_eq!(job.state, JobState::Done, "{job:?}");
        let result = job.result.unwrap();
        let loss = result["loss"].as_f64().unwrap();
        assert!((loss - expected).abs() <= 1e-6 * expected.abs(), "{loss} is not {expected}");
        assert_eq!(result["together"], 5);
    }
}
