//! Health: workers, database and disk.

use crate::server::{Server, until};
use crate::small_data;
use rusqlite::Connection;
use serde_json::json;

#[test]
fn an_unwritable_standard_error_stops_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let place = folder.path().join("service");
    let server = Server::start_in("exec \"$@\" 2>/dev/full", "cpu", &place, &[]);
    let client = server.client();
    let data = client.upload("train.npz", &bytes);
    // A file where the folders of jobs go: the worker has something to say on standard error.
    std::fs::rename(place.join("jobs"), place.join("jobs.away")).unwrap();
    std::fs::write(place.join("jobs"), "").unwrap();
    let fit = json!({ "kind": "fit", "dataset": data, "settings": { "bandwidth": 3, "lambda": 0.1 } });
    assert_eq!(client.run(&fit)["state"], "failed");
    std::fs::remove_file(place.join("jobs")).unwrap();
    std::fs::rename(place.join("jobs.away"), place.join("jobs")).unwrap();
    assert_eq!(client.run(&fit)["state"], "done");
    assert_eq!(client.get("/healthz").expect(200), json!({ "status": "ok" }));
}

#[test]
fn a_disk_or_database_that_cannot_be_written_is_no_health() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("service");
    let server = Server::start(&place, &[]);
    let client = server.client();
    let sick = |piece: &str| {
        until(piece, || {
            let answer = client.get("/healthz");
            let found = answer.json();
            assert_eq!(answer.status == 200, found["status"] == "ok", "{found}");
            answer.status == 503 && found["problems"].to_string().contains(piece)
        })
    };
    let well = || until("it is well again", || client.get("/healthz").status == 200);
    well();
    std::fs::rename(place.join("uploads"), place.join("uploads.away")).unwrap();
    sick("files cannot be written");
    std::fs::rename(place.join("uploads.away"), place.join("uploads")).unwrap();
    well();
    // Someone else holds the database.
    let db = Connection::open(place.join("service.sqlite")).unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    sick("the database has not been written within 5 s");
    db.execute_batch("ROLLBACK").unwrap();
    well();
}
