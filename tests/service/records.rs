//! The database: its version, and rows that are not as they should be.

use crate::folder::old_service;
use crate::server::{Server, refused_to_start};
use rusqlite::Connection;
use serde_json::json;

fn open(place: &std::path::Path) -> Connection {
    Connection::open(place.join("service.sqlite")).unwrap()
}

#[test]
fn a_row_that_cannot_be_read_is_one_bad_row() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("service");
    old_service(&place);
    let insert = "INSERT INTO jobs (id, kind, client, state, request, created, result, files)
                  VALUES (?1, 'fit', 'me', ?2, ?3, 3.0, ?4, ?5)";
    let unknown =
        format!(r#"{{"kind": "fit", "dataset": "{}", "settings": {{"of_tomorrow": 1}}}}"#, "a".repeat(64));
    let good = r#"{"kind": "simulate", "settings": {}}"#;
    let db = open(&place);
    for (digit, state, request, result, files) in [
        ("3", "queued", unknown.as_str(), "null", "[]"),
        ("4", "running", "no request at all", "null", "[]"),
        ("5", "done", unknown.as_str(), r#"{"model": "m"}"#, "[]"),
        ("6", "done", good, "{ half a res", "no files"),
        ("7", "asleep", good, "null", "[]"),
    ] {
        db.execute(insert, [digit.repeat(32).as_str(), state, request, result, files]).unwrap();
    }
    db.execute(insert, ["../../etc", "queued", good, "null", "[]"]).unwrap();
    db.execute("INSERT INTO datasets VALUES (?1, 'no info', 1.0)", ["b".repeat(64)]).unwrap();
    drop(db);

    let server = Server::start(&place, &[]);
    let client = server.client();
    let list = client.get("/v1/jobs").expect(200);
    let jobs = list["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 8, "{list}");
    let state = |id: &str| {
        let job = jobs.iter().find(|job| job["id"] == id).unwrap();
        (job["state"].as_str().unwrap().to_owned(), job["error"].as_str().unwrap_or("").to_owned())
    };
    // What waited has failed, and says why; what had ended has ended.
    let (found, error) = state(&"3".repeat(32));
    assert!(found == "failed" && error.contains("unknown field `of_tomorrow`"), "{found}: {error}");
    let (found, error) = state(&"4".repeat(32));
    assert!(found == "failed" && error.contains("cannot read the request on record"), "{found}: {error}");
    assert_eq!(state("../../etc").0, "failed");
    assert_eq!(state(&"5".repeat(32)).0, "done");
    let (found, error) = state(&"7".repeat(32));
    assert!(found == "unreadable" && error.contains("'asleep'"), "{found}: {error}");
    assert_eq!(client.get("/v1/jobs?state=unreadable").expect(200)["jobs"].as_array().unwrap().len(), 1);
    let show = |digit: &str| client.get(&format!("/v1/jobs/{}", digit.repeat(32))).expect(200);
    let job = show("5");
    assert_eq!((&job["request"], &job["result"]), (&json!(null), &json!({ "model": "m" })), "{job}");
    assert!(job["error"].as_str().unwrap().contains("unknown field `of_tomorrow`"), "{job}");
    let job = show("6");
    assert_eq!((&job["result"], &job["files"]), (&json!(null), &json!([])), "{job}");
    // The good one among them is done.
    client.wait_for(&"1".repeat(32), &["done"]);
    // A dataset whose record is damaged: listed, refused where it is used, and there again once it is uploaded again.
    let names = client.get("/v1/datasets").expect(200);
    assert!(names["datasets"].as_array().unwrap().iter().any(|data| data["id"] == "b".repeat(64)), "{names}");
    let sentence = client.get(&format!("/v1/datasets/{}", "b".repeat(64))).refused(500);
    assert!(sentence.contains("upload it again"), "{sentence}");
    let csv = "a,b\n1,2\n2,1\n0,0.5\n";
    let id = client.upload("small.csv", csv.as_bytes());
    open(&place).execute("UPDATE datasets SET info = '{}' WHERE id = ?1", [&id]).unwrap();
    client.get(&format!("/v1/datasets/{id}")).refused(500);
    assert_eq!(client.upload("small.csv", csv.as_bytes()), id);
    assert_eq!(client.get(&format!("/v1/datasets/{id}")).expect(200)["rows"], 3);
    client.get("/metrics");
}

#[test]
fn a_database_of_a_newer_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("service");
    drop(Server::start(&place, &[]));
    let version =
        |db: &Connection| -> i64 { db.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap() };
    let db = open(&place);
    let own = version(&db);
    assert!(own > 0);
    db.pragma_update(None, "user_version", own + 1).unwrap();
    drop(db);
    let sentence = refused_to_start(&place, &[]);
    let expected = format!("has version {}, expected at most {own}", own + 1);
    assert!(sentence.contains(&expected), "{sentence}");
    assert_eq!(sentence.lines().count(), 1, "{sentence}");
    assert_eq!(version(&open(&place)), own + 1);
}
