//! Jobs from their submission to their end, without processes: a kind that only tests have, and losses that are evaluated together.

use super::queue::{Lane, Ticket};
use super::service::{Options, Service};
use super::worker::Joint;
use crate::Matrix;
use crate::data::Dataset;
use crate::model::{Drift, Noise, Parameters};
use crate::serve::domain::client::Client;
use crate::serve::domain::error::ServiceError;
use crate::serve::domain::id::{ContentId, JobId};
use crate::serve::domain::job::{Job, JobState, Progress};
use crate::serve::domain::kinds::task::{Assignment, LastInputs, Outcome, Supervisor, Task};
use crate::serve::domain::kinds::{Execution, Request};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A service without workers.
fn service(folder: &Path) -> Arc<Service> {
    let options = Options::local(folder.join("service"), vec!["skds".into()]);
    Service::start(options).unwrap().0
}

/// Samples of so many variables, of a size.
fn dataset(service: &Service, seed: usize, dim: usize, size: f64) -> ContentId {
    let path = service.files.uploads().join("data.npz");
    let value = |i: usize, j: usize| size * ((i * 7 + j * 13 + seed * 5) as f64).sin();
    Dataset::from_environments(vec![Matrix::from_fn(40, dim, value)]).unwrap().write(&path).unwrap();
    let id = ContentId::of_file(&path).unwrap();
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
    let id = ContentId::of_file(&path).unwrap();
    std::fs::rename(&path, service.files.model(&id)).unwrap();
    id
}

fn client() -> Client {
    Client { token_name: None, token_hash: None, address: std::net::Ipv4Addr::LOCALHOST.into() }
}

/// Submits a job, which then waits in the queue.
fn submit(service: &Arc<Service>, request: Value) -> Result<Job, ServiceError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let request = Request::parse(request.to_string().as_bytes())?;
    runtime.block_on(service.submit(&client(), request))
}

/// Submits losses of datasets and evaluates those that go together, as a worker does. Their jobs are in the order of the datasets.
fn evaluate(service: &Arc<Service>, model: &ContentId, data: &[&ContentId]) -> Vec<Job> {
    let request =
        |data: &ContentId| json!({ "kind": "loss", "model": model, "dataset": data, "bandwidth": 2 });
    let ids: Vec<JobId> = data.iter().map(|data| submit(service, request(data)).unwrap().id).collect();
    let tickets = service.queue.wait("cpu", Lane::Losses).unwrap();
    assert_eq!(tickets.len(), data.len(), "all losses go together");
    service.run_jobs(&tickets, "cpu", |start| {
        let Execution::Jointly(kind) = tickets[0].request.execution() else { panic!("losses are joint") };
        Joint { service, gpu: None, device: "cpu", start }.run(kind, &tickets)
    });
    ids.iter().map(|id| service.job(id).unwrap()).collect()
}

fn evaluations(service: &Service) -> u64 {
    service.metrics.evaluations.load(Ordering::Relaxed)
}

/// Puts a dataset and a model on record.
fn record(service: &Service, data: &[&ContentId], model: &ContentId) {
    use crate::serve::domain::info::{DatasetInfo, EnvironmentInfo, ModelInfo};
    use crate::serve::store::Holder;
    let holder = Holder::Owner("default".into());
    for id in data {
        let variables = vec!["a".into(), "b".into(), "c".into()];
        let environments = vec![EnvironmentInfo { rows: 40, targets: vec![], target_count: 0 }];
        let (id, name) = ((*id).clone(), "data".into());
        let info = DatasetInfo { id, name, bytes: 0, rows: 40, variables, environments, created: 0.0 };
        service.store.add_dataset_now(&info, &holder).unwrap();
    }
    let info = ModelInfo {
        id: model.clone(),
        kind: "linear".into(),
        variables: vec!["a".into(), "b".into(), "c".into()],
        environments: 0,
        parameters: 15,
        created: 0.0,
    };
    service.store.add_model_now(&info, &holder).unwrap();
}

#[test]
fn every_loss_has_its_own_answer_whatever_its_neighbours_are() {
    let folder = tempfile::tempdir().unwrap();
    let service = service(folder.path());
    let model = model(&service, 3);
    let good: Vec<ContentId> = (0..4).map(|seed| dataset(&service, seed, 3, 1.0)).collect();
    // Samples too large for f32, of another width, and gone.
    let (large, wide) = (dataset(&service, 9, 3, 1e30), dataset(&service, 9, 5, 1.0));
    let gone = ContentId::try_from("0".repeat(64)).unwrap();
    let good: Vec<&ContentId> = good.iter().collect();
    record(&service, &[&good[..], &[&large, &wide, &gone]].concat(), &model);
    let alone: Vec<f64> = (good.iter())
        .map(|data| evaluate(&service, &model, &[data])[0].result.as_ref().unwrap()["loss"].as_f64().unwrap())
        .collect();
    assert_eq!(evaluations(&service), 4);

    // All is well: one evaluation for all of them.
    evaluate(&service, &model, &good);
    assert_eq!(evaluations(&service), 5);

    let jobs = evaluate(&service, &model, &[good[0], &large, good[1], &wide, good[2], &gone, good[3]]);
    // One for all that fit together, and one for that which was not finite.
    assert_eq!(evaluations(&service), 7);
    for (k, piece) in [(1, "expected a finite number"), (3, "variables"), (5, "")] {
        let job = &jobs[k];
        assert_eq!(job.state, JobState::Failed, "{job:?}");
        assert!(job.error.as_ref().unwrap().contains(piece), "{job:?}");
    }
    for (k, expected) in [0, 2, 4, 6].into_iter().zip(alone) {
        let job = &jobs[k];
        assert_eq!(job.state, JobState::Done, "{job:?}");
        let result = job.result.as_ref().unwrap();
        let loss = result["loss"].as_f64().unwrap();
        assert!((loss - expected).abs() <= 1e-6 * expected.abs(), "{loss} is not {expected}");
        assert_eq!(result["together"], 5);
        assert!(job.started.is_some() && job.finished.is_some(), "{job:?}");
    }
}

#[test]
fn a_loss_that_was_cancelled_in_its_turn_is_cancelled_and_the_others_have_answers() {
    let folder = tempfile::tempdir().unwrap();
    let service = service(folder.path());
    let model = model(&service, 3);
    let data = dataset(&service, 1, 3, 1.0);
    record(&service, &[&data], &model);
    let request = json!({ "kind": "loss", "model": model, "dataset": data, "bandwidth": 2 });
    let ids: Vec<JobId> = (0..2).map(|_| submit(&service, request.clone()).unwrap().id).collect();
    let tickets = service.queue.wait("cpu", Lane::Losses).unwrap();
    tickets[0].live.cancel();
    service.run_jobs(&tickets, "cpu", |start| {
        let Execution::Jointly(kind) = tickets[0].request.execution() else { panic!("losses are joint") };
        Joint { service: &service, gpu: None, device: "cpu", start }.run(kind, &tickets)
    });
    let states = ids.iter().map(|id| service.job(id).unwrap().state);
    assert_eq!(states.collect::<Vec<_>>(), [JobState::Cancelled, JobState::Done]);
}

/// Nobody follows or stops the work.
struct Alone;

impl Supervisor for Alone {
    fn should_stop(&self) -> bool {
        false
    }

    fn progress(&self, _progress: Progress) {}

    fn log(&self, _line: String) {}
}

/// Runs a job as its process would.
fn run(service: &Service, ticket: &Ticket, start: Instant) -> Outcome {
    let request = (*ticket.request).clone();
    let dataset = request.references().dataset.map(|id| service.files.dataset(id));
    let folder = service.files.job(&ticket.id);
    let assignment = Assignment { request, folder, dataset, origin: None, model: None };
    let Execution::InProcess(kind) = assignment.request.execution() else { panic!("it has a process") };
    let inputs = LastInputs::default();
    let task = Task { assignment: &assignment, gpu: None, supervisor: &Alone, start, inputs: &inputs };
    Outcome::of(kind.run(&task))
}

#[test]
fn a_kind_that_is_one_module_and_one_line_has_everything_that_others_have() {
    let folder = tempfile::tempdir().unwrap();
    let service = service(folder.path());
    let data = dataset(&service, 1, 3, 1.0);
    let request = |least: usize| json!({ "kind": "count-rows", "dataset": data, "least": least });
    // Its checks, and those of what it refers to.
    assert!(matches!(submit(&service, request(2000)), Err(ServiceError::Invalid(_))));
    assert_eq!(submit(&service, request(10)), Err(ServiceError::NotFound("dataset")));
    record(&service, &[&data], &model(&service, 3));
    // Its life: queued, running, done.
    let job = submit(&service, request(10)).unwrap();
    assert_eq!((job.kind.as_str(), job.state), ("count-rows", JobState::Queued));
    let tickets = service.queue.wait("cpu", Lane::Short).expect("it is short by its estimate");
    service.run_jobs(&tickets, "cpu", |start| {
        // Its start is recorded soon, and before whatever is recorded later.
        service.store.fail_unreadable(-1, String::new()).unwrap();
        assert_eq!(service.job(&job.id).unwrap().state, JobState::Running);
        tickets.iter().map(|ticket| run(&service, ticket, start)).collect()
    });
    let job = service.job(&job.id).unwrap();
    assert_eq!((job.state, job.result), (JobState::Done, Some(json!({ "rows": [40] }))));
    assert_eq!(job.files, ["rows.txt"]);
    // Lists, metrics and the OpenAPI document know it.
    let list = service.store.read_long(|reader| {
        let which = crate::serve::store::lists::JobFilter { state: None, kind: None, owner: None };
        reader.jobs(&which, None, 10)
    });
    assert_eq!(list.unwrap().items[0].about, "at least 10 rows");
    let times = service.metrics.times();
    assert!(times.iter().any(|(kind, times)| *kind == "count-rows" && times.count == 1));
    // A panic fails the job, and the worker goes on.
    let job = submit(&service, request(20)).unwrap();
    let tickets = service.queue.wait("cpu", Lane::Short).unwrap();
    service.run_jobs(&tickets, "cpu", |_| panic!("a bug"));
    let job = service.job(&job.id).unwrap();
    assert_eq!((job.state, job.error.as_deref()), (JobState::Failed, Some("internal error: a bug")));
}

#[test]
fn a_loss_has_the_settings_of_the_models_fit_unless_the_request_gives_others() {
    let folder = tempfile::tempdir().unwrap();
    let service = service(folder.path());
    let data = dataset(&service, 1, 3, 1.0);
    let samples = service.dataset(&data).unwrap();
    let settings = crate::fit::Settings {
        lambda: Some(0.1),
        bandwidth: Some(crate::kernel::Bandwidth::Value(2.5)),
        ..crate::fit::Settings::default()
    };
    let (fitted, _) = crate::fit::fit(&samples, &settings).unwrap();
    let path = service.files.uploads().join("fitted.safetensors");
    fitted.save(&path).unwrap();
    let info = service.files.keep_model(&path, &fitted).unwrap();
    record(&service, &[&data], &info.id);
    let loss = |settings: Value| {
        let mut request = json!({ "kind": "loss", "model": info.id, "dataset": data });
        request.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        let id = submit(&service, request).unwrap().id;
        let tickets = service.queue.wait("cpu", Lane::Losses).unwrap();
        service.run_jobs(&tickets, "cpu", |start| {
            let Execution::Jointly(kind) = tickets[0].request.execution() else { panic!("losses are joint") };
            Joint { service: &service, gpu: None, device: "cpu", start }.run(kind, &tickets)
        });
        service.job(&id).unwrap().result.unwrap_or_else(|| panic!("{:?}", service.job(&id)))
    };
    let stored = loss(json!({}));
    assert_eq!((&stored["kernel"], &stored["bandwidth"]), (&json!("tilted-rbf"), &json!(2.5)), "{stored}");
    let given = loss(json!({ "kernel": "rbf", "bandwidth": 3, "estimator": "u" }));
    assert_eq!((&given["kernel"], &given["bandwidth"]), (&json!("rbf"), &json!(3.0)), "{given}");
    assert!(stored["loss"] != given["loss"] && given["estimator"] == "u", "{stored} {given}");
}
