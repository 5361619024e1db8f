//! What is kept, for how long, and what happens where there is no room.

use crate::server::{Server, refused_to_start, until};
use crate::small_data;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

#[test]
fn old_data_goes_by_the_owners_rule_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let place = folder.path().join("service");
    let server = Server::start(&place, &[]);
    let client = server.client();
    let used = client.upload("train.npz", &bytes);
    let unused = client.upload("small.csv", b"a,b\n1,2\n2,1\n0,0.5\n");
    let fit = json!({ "kind": "fit", "dataset": used, "settings": { "bandwidth": 3, "lambda": 0.1 } });
    let job = client.run(&fit);
    let (id, model) = (job["id"].as_str().unwrap(), job["result"]["model"].as_str().unwrap());
    let addresses = [format!("/v1/jobs/{id}"), format!("/v1/models/{model}"), format!("/v1/datasets/{used}")];
    let waiting =
        json!({ "kind": "fit", "dataset": used, "settings": { "solver": "adam", "steps": 40_000_000 } });
    let waiting = client.submit(&waiting);
    // One that waits behind it, and names data only as what its predictions start from.
    let other = json!({ "kind": "fit", "dataset": used, "settings": { "bandwidth": 3, "lambda": 0.2 } });
    let other = client.run(&other)["result"]["model"].clone();
    let origin = client.upload("test.npz", &std::fs::read(folder.path().join("test.npz")).unwrap());
    let evaluate =
        json!({ "kind": "evaluate", "model": other, "dataset": used, "from": origin, "method": "euler" });
    client.submit(&evaluate);
    server.kill();
    std::thread::sleep(Duration::from_millis(1500));

    // Without a rule everything stays; files that nobody was told of are moved aside.
    let stray = place.join("jobs").join("0".repeat(32));
    std::fs::create_dir(&stray).unwrap();
    let server = Server::start(&place, &["--keep-days", "1"]);
    until("the stray folder is moved", || place.join("set-aside/jobs").join("0".repeat(32)).exists());
    assert!(!stray.exists());
    for address in &addresses {
        server.client().get(address).expect(200);
    }
    server.client().get(&format!("/v1/datasets/{unused}")).expect(200);
    server.kill();

    // One second: what has ended goes, with its files; what waits stays, with its data.
    let server = Server::start(&place, &["--keep-days", &(1.0 / 86_400.0).to_string()]);
    let client = server.client();
    for address in [&addresses[0], &addresses[1], &format!("/v1/datasets/{unused}")] {
        until(address, || client.get(address).status == 404);
    }
    assert!(!place.join("jobs").join(id).exists());
    client.get(&addresses[2]).expect(200);
    client.get(&format!("/v1/datasets/{origin}")).expect(200);
    client.get(&format!("/v1/jobs/{waiting}")).expect(200);
}

/// No file of the service may pass two megabytes: as if the disk was full, for those who are not root.
#[test]
fn a_full_disk_is_an_error_to_the_client_and_nothing_half_written_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let place = folder.path().join("service");
    let server = Server::start_in("trap '' XFSZ; ulimit -f 2048; exec \"$@\"", "cpu", &place, &[]);
    let client = server.client();
    let big = format!("a,b\n{}", "1,2\n2,1\n".repeat(300_000));
    assert!(client.post("/v1/datasets?name=big.csv", big).refused(507).contains("disk is full"));
    let data = client.upload("train.npz", &bytes);
    let fit = json!({ "kind": "fit", "dataset": data, "settings": { "bandwidth": 3, "lambda": 0.1 } });
    let model = client.run(&fit)["result"]["model"].clone();
    let job = client.run(&json!({ "kind": "sample", "model": model, "n": 200_000 }));
    assert_eq!(
        (&job["state"], &job["error"]),
        (&json!("failed"), &json!("the service's disk is full")),
        "{job}"
    );
    assert_eq!(job["files"], json!([]));
    let id = job["id"].as_str().unwrap();
    client.get(&format!("/v1/jobs/{id}/files/samples.npz")).refused(404);
    // Smaller things go on.
    assert_eq!(client.run(&json!({ "kind": "sample", "model": model, "n": 20 }))["state"], "done");
    assert_eq!(std::fs::read_dir(place.join("uploads")).unwrap().count(), 0);
}

#[test]
fn an_owner_can_bound_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("service"), &["--max-disk", "0.00001"]);
    let client = server.client();
    let big = format!("a,b\n{}", "1,2\n2,1\n".repeat(2_000));
    assert!(client.post("/v1/datasets?name=big.csv", big).refused(507).contains("disk is full"));
}

#[test]
fn what_a_job_would_need_is_looked_at_before_it_starts() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let server = Server::start(&folder.path().join("service"), &["--max-memory", "8"]);
    let client = server.client();
    let data = client.upload("train.npz", &bytes);
    let fit = json!({ "kind": "fit", "dataset": data, "settings": { "bandwidth": 3, "lambda": 0.1 } });
    let model = client.run(&fit)["result"]["model"].clone();
    let refused = |request: Value| client.post("/v1/jobs", request.to_string()).refused(422);
    for request in [
        json!({ "kind": "sample", "model": model, "n": 900_000 }),
        json!({ "kind": "simulate", "settings": { "dim": 100, "rows": 100_000 } }),
        json!({ "kind": "fit", "dataset": data, "settings": { "model": "basis", "features": "polynomial:9" } }),
        json!({ "kind": "fit", "dataset": data, "bootstrap": 100_000, "settings": { "bandwidth": 3, "lambda": 0.1 } }),
        json!({ "kind": "fit", "dataset": data, "settings": { "solver": "adam", "batch": 1_000_000 } }),
        json!({ "kind": "fit", "dataset": data, "settings": { "model": "mlp", "hidden": 4096, "batch": 1000 } }),
        json!({ "kind": "sample", "model": model, "n": 30_000, "method": "euler", "chains": 30_000 }),
        json!({ "kind": "simulate", "settings": { "system": "sergio", "sergio": { "steps_per_cell": 10_000 } } }),
    ] {
        let sentence = refused(request.clone());
        assert!(sentence.contains("the memory that it needs is"), "{request}: {sentence}");
        assert!(sentence.ends_with("expected at most 8 MiB on this service"), "{sentence}");
    }
    let hidden =
        json!({ "kind": "fit", "dataset": data, "settings": { "model": "mlp", "hidden": 1_000_000 } });
    let sentence = client.post("/v1/jobs", hidden.to_string()).refused(400);
    assert!(sentence.contains("hidden is 1000000, expected at most 4096"), "{sentence}");
    let many = refused(json!({ "kind": "sample", "model": model, "n": 2_000_000 }));
    assert!(many.contains("the number of samples is 2000000"), "{many}");

    // A small file that unpacks to a large one: 64 MB of zeros.
    let path = folder.path().join("zeros.npz");
    write_zeros(&path, 1_000_000, 8);
    let packed = std::fs::read(&path).unwrap();
    assert!(packed.len() < 1 << 20, "{}", packed.len());
    let sentence = client.post("/v1/datasets?name=zeros.npz", &packed).refused(422);
    assert!(sentence.contains("the memory that it needs is 122 MiB"), "{sentence}");
}

#[test]
fn every_number_of_a_request_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let server = Server::start(&folder.path().join("service"), &[]);
    let client = server.client();
    let data = client.upload("train.npz", &bytes);
    let exact = json!({ "bandwidth": 3, "lambda": 0.1 });
    let model =
        client.run(&json!({ "kind": "fit", "dataset": data, "settings": exact }))["result"]["model"].clone();
    let fit = |settings: Value| json!({ "kind": "fit", "dataset": data, "settings": settings });
    let sample = |name: &str, value: Value| {
        let mut request = json!({ "kind": "sample", "model": model, "method": "euler", "n": 100 });
        request[name] = value;
        request
    };
    let simulate = |settings: Value| json!({ "kind": "simulate", "settings": settings });
    let sergio = |settings: Value| simulate(json!({ "system": "sergio", "sergio": settings }));
    for request in [
        json!({ "kind": "fit", "dataset": data, "settings": exact, "bootstrap": 100_000_000_000u64 }),
        fit(json!({ "solver": "adam", "batch": 1_000_000_000_000u64 })),
        fit(json!({ "model": "mlp", "hidden": u64::MAX })),
        fit(json!({ "model": "basis", "diffusion": format!("{}1", "1,".repeat(399_999)) })),
        sergio(json!({ "steps_per_cell": 30_000_000 })),
        sergio(json!({ "steps_per_cell": u64::MAX })),
        sergio(json!({ "cell_types": u64::MAX })),
        sergio(json!({ "dt": 5e-324 })),
        sergio(json!({ "decay": 5e-324 })),
        simulate(json!({ "dim": u64::MAX })),
        simulate(json!({ "rows": u64::MAX })),
        simulate(json!({ "edges": u64::MAX })),
        simulate(json!({ "blocks": u64::MAX })),
        simulate(json!({ "train_envs": u64::MAX })),
        simulate(json!({ "test_envs": u64::MAX })),
        simulate(json!({ "euler_dt": 5e-324 })),
        simulate(json!({ "euler_burn_in": u64::MAX })),
        simulate(json!({ "euler_thin": u64::MAX })),
        sample("n", json!(u64::MAX)),
        sample("dt", json!(5e-324)),
        sample("burn_in", json!(u64::MAX)),
        sample("thin", json!(u64::MAX)),
        sample("chains", json!(u64::MAX)),
    ] {
        let answer = client.post("/v1/jobs", request.to_string());
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let start: String = request.to_string().chars().take(200).collect();
        assert!(matches!(answer.status, 400 | 422), "{start}: {} {text}", answer.status);
        assert!(text.contains("expected"), "{start}: {text}");
    }
}

/// An .npz file of zeros, packed.
fn write_zeros(path: &Path, rows: usize, dim: usize) {
    use std::io::Write;
    let mut archive = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    archive.start_file("x.npy", zip::write::SimpleFileOptions::default()).unwrap();
    let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, {dim}), }}");
    header.push_str(&" ".repeat(64 - (10 + header.len() + 1) % 64));
    header.push('\n');
    archive.write_all(b"\x93NUMPY\x01\x00").unwrap();
    archive.write_all(&(header.len() as u16).to_le_bytes()).unwrap();
    archive.write_all(header.as_bytes()).unwrap();
    for _ in 0..rows {
        archive.write_all(&vec![0; 8 * dim]).unwrap();
    }
    archive.finish().unwrap();
}

#[test]
fn a_folder_belongs_to_one_service() {
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::start(folder.path(), &[]);
    let sentence = refused_to_start(folder.path(), &[]);
    assert!(sentence.contains("is in use by another service"), "{sentence}");
}

#[test]
fn a_damaged_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("service");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(
        place.join("service.sqlite"),
        "this is no database of anyone, however long it is looked at",
    )
    .unwrap();
    let sentence = refused_to_start(&place, &[]);
    assert!(sentence.contains("is not a database of a service"), "{sentence}");
}
