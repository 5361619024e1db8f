//! Whose a folder is, and what happens to what is in it.

use crate::server::{Server, refused_to_start, until};
use crate::small_data;
use rusqlite::Connection;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Everything below a folder: content and time of change.
fn everything(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            found.insert(entry.path(), (Vec::new(), entry.metadata().unwrap().modified().unwrap()));
            found.extend(everything(&entry.path()));
        } else {
            let data = (std::fs::read(entry.path()).unwrap(), entry.metadata().unwrap().modified().unwrap());
            found.insert(entry.path(), data);
        }
    }
    found
}

#[test]
fn a_folder_of_someone_else_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["datasets", "models", "uploads", "jobs"] {
        let place = folder.path().join(name);
        std::fs::create_dir(&place).unwrap();
        std::fs::write(place.join("years-of-work.npz"), "precious").unwrap();
    }
    let before = everything(folder.path());
    let sentence = refused_to_start(folder.path(), &[]);
    assert!(sentence.contains("is not empty and does not belong to a service"), "{sentence}");
    assert_eq!(sentence.lines().count(), 1, "{sentence}");
    let sentence = refused_to_start(folder.path(), &["--recover"]);
    assert!(sentence.contains("is not empty and does not belong to a service"), "{sentence}");
    assert_eq!(everything(folder.path()), before);

    // Nor is a database of another program a service's.
    let other = tempfile::tempdir().unwrap();
    let db = Connection::open(other.path().join("service.sqlite")).unwrap();
    db.execute_batch("CREATE TABLE recipes (id); INSERT INTO recipes VALUES ('soup')").unwrap();
    drop(db);
    let before = everything(other.path());
    let sentence = refused_to_start(other.path(), &[]);
    assert!(sentence.contains("is not a database of a service"), "{sentence}");
    assert_eq!(everything(other.path()), before);
}

#[test]
fn a_folder_without_its_database_is_refused_until_it_is_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let place = folder.path().join("service");
    let server = Server::start(&place, &[]);
    let client = server.client();
    let data = client.upload("train.npz", &bytes);
    let fit = json!({ "kind": "fit", "dataset": data, "settings": { "bandwidth": 3, "lambda": 0.1 } });
    let job = client.run(&fit);
    let (id, model) = (job["id"].as_str().unwrap(), job["result"]["model"].as_str().unwrap());
    server.kill();
    std::fs::remove_file(place.join("service.sqlite")).unwrap();
    let before = everything(&place);
    let sentence = refused_to_start(&place, &[]);
    assert!(sentence.contains("service.sqlite is missing") && sentence.contains("--recover"), "{sentence}");
    assert_eq!(everything(&place), before);

    let server = Server::start(&place, &["--recover"]);
    let client = server.client();
    assert_eq!(client.get(&format!("/v1/datasets/{data}")).expect(200)["rows"], 360);
    client.get(&format!("/v1/models/{model}")).expect(200);
    // The job's files are on no record any more: moved aside, and whole.
    let aside = place.join("set-aside/jobs").join(id).join("model.safetensors");
    until("the job's files are set aside", || aside.exists());
    assert_eq!(client.run(&fit)["result"]["model"], model);
    drop(server);
    // Once is enough: with a database there is nothing to recover.
    let sentence = refused_to_start(&place, &["--recover"]);
    assert!(sentence.contains("--recover is given but service.sqlite exists"), "{sentence}");
    Server::start(&place, &[]).client().get(&format!("/v1/models/{model}")).expect(200);
}

#[test]
fn what_is_on_no_record_is_moved_aside_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("service");
    drop(Server::start(&place, &[]));
    let hours_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    let strays = ["datasets/notes.txt", "models/mine.safetensors", "jobs/thesis.tex", "uploads/photo.png"];
    for name in strays {
        let path = place.join(name);
        std::fs::write(&path, name).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(hours_ago).unwrap();
    }
    let log = folder.path().join("log");
    let script = format!("exec \"$@\" 2>{}", log.display());
    let _server = Server::start_in(&script, "cpu", &place, &[]);
    for name in strays {
        let aside = place.join("set-aside").join(name);
        until(name, || aside.exists());
        assert_eq!(std::fs::read_to_string(aside).unwrap(), name);
        assert!(!place.join(name).exists());
        until("the log names it", || {
            let text = std::fs::read_to_string(&log).unwrap();
            text.contains(&format!("moved {name} to set-aside/{name}: the database has no record of it"))
        });
    }
}

#[cfg(unix)]
#[test]
fn nobody_else_can_read_the_folder() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let place = folder.path().join("service");
    // As an earlier version left it.
    old_service(&place);
    let set = |mode: u32| std::fs::set_permissions(&place, PermissionsExt::from_mode(mode)).unwrap();
    set(0o755);
    std::fs::write(place.join("jobs").join("0".repeat(32)), "a result").unwrap();
    let server = Server::start(&place, &[]);
    let client = server.client();
    let data = client.upload("train.npz", &bytes);
    client.run(&json!({ "kind": "fit", "dataset": data, "settings": { "bandwidth": 3, "lambda": 0.1 } }));
    let open: Vec<PathBuf> = std::iter::once(place.clone())
        .chain(everything(&place).into_keys())
        .filter(|path| std::fs::metadata(path).is_ok_and(|data| data.permissions().mode() & 0o077 != 0))
        .collect();
    assert_eq!(open, [] as [PathBuf; 0]);
}

/// A folder as the version before the marker left it, with a job that waits and one that has ended.
pub fn old_service(place: &Path) {
    for name in ["uploads", "datasets", "models", "jobs"] {
        std::fs::create_dir_all(place.join(name)).unwrap();
    }
    let db = Connection::open(place.join("service.sqlite")).unwrap();
    db.pragma_update(None, "journal_mode", "WAL").unwrap();
    db.execute_batch(
        "CREATE TABLE datasets (id TEXT PRIMARY KEY, info TEXT NOT NULL, created REAL NOT NULL);
         CREATE TABLE models (id TEXT PRIMARY KEY, info TEXT NOT NULL, created REAL NOT NULL);
         CREATE TABLE jobs (
             number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, kind TEXT NOT NULL, client TEXT NOT NULL,
             state TEXT NOT NULL, request TEXT NOT NULL, device TEXT, created REAL NOT NULL, started REAL, finished REAL,
             error TEXT, result TEXT, files TEXT NOT NULL DEFAULT '[]');
         CREATE INDEX jobs_by_state ON jobs (state, number);",
    )
    .unwrap();
    let insert = "INSERT INTO jobs (id, kind, client, state, request, created, finished, result)
                  VALUES (?1, 'simulate', 'me', ?2, ?3, 1.0, 2.0, ?4)";
    let simulate = r#"{"kind": "simulate", "settings": {"dim": 4, "rows": 30, "train_envs": 2, "test_envs": 2, "edges": 1}}"#;
    db.execute(insert, ["1".repeat(32).as_str(), "queued", simulate, "null"]).unwrap();
    db.execute(insert, ["2".repeat(32).as_str(), "done", simulate, r#"{"train": "x"}"#]).unwrap();
}

#[test]
fn a_folder_of_the_version_before_the_marker_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("service");
    old_service(&place);
    let server = Server::start(&place, &[]);
    let client = server.client();
    assert!(place.join("skds-service.json").exists());
    assert_eq!(client.wait_for(&"1".repeat(32), &["done"])["kind"], "simulate");
    let old = client.get(&format!("/v1/jobs/{}", "2".repeat(32))).expect(200);
    assert_eq!((&old["state"], &old["result"]), (&json!("done"), &json!({ "train": "x" })));
    let list = client.get("/v1/jobs").expect(200);
    assert_eq!(list["jobs"][1]["about"], "sde, 4 variables", "{list}");
}

#[test]
fn a_removal_that_was_cut_short_is_undone_if_its_record_stayed() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("service");
    let server = Server::start(&place, &[]);
    let id = server.client().upload("small.csv", b"a,b\n1,2\n2,1\n0,0.5\n");
    server.kill();
    let file = place.join(format!("datasets/{id}.npz"));
    let removed = place.join("removed/datasets");
    std::fs::create_dir_all(&removed).unwrap();
    std::fs::rename(&file, removed.join(format!("{id}.npz"))).unwrap();
    let other = removed.join(format!("{}.npz", "0".repeat(64)));
    std::fs::write(&other, "its record went first").unwrap();
    let _server = Server::start(&place, &[]);
    assert!(file.exists());
    assert!(!other.exists());
}
