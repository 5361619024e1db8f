//! Lists: in parts, in short, and never in anyone's way.

use crate::server::Server;
use rusqlite::Connection;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Ids of a whole list, in parts.
fn whole(client: &crate::server::Client, name: &str, limit: usize) -> Vec<String> {
    let (mut ids, mut after) = (Vec::new(), String::new());
    loop {
        let list = client.get(&format!("/v1/{name}?limit={limit}{after}")).expect(200);
        let part = list[name].as_array().unwrap();
        assert!(part.len() <= limit && !part.is_empty(), "{list}");
        ids.extend(part.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        match list["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return ids,
        }
    }
}

#[test]
fn a_list_comes_in_parts_that_make_up_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("service"), &[]);
    let client = server.client();
    let data: Vec<String> =
        (0..7).map(|k| client.upload("a.csv", format!("a,b\n1,{k}\n2,1\n0,0.5\n").as_bytes())).collect();
    let sizes = json!({ "dim": 3, "rows": 10, "train_envs": 1, "test_envs": 1, "edges": 1 });
    let jobs: Vec<String> =
        (0..7).map(|_| client.submit(&json!({ "kind": "simulate", "settings": sizes }))).collect();
    jobs.iter().for_each(|id| drop(client.wait_for(id, &["done"])));
    let newest_first = |ids: &[String]| ids.iter().rev().cloned().collect::<Vec<_>>();
    for limit in [1, 3, 7, 100] {
        assert_eq!(whole(&client, "jobs", limit), newest_first(&jobs));
        let own: BTreeSet<String> = data.iter().cloned().collect();
        let listed: Vec<String> =
            whole(&client, "datasets", limit).into_iter().filter(|id| own.contains(id)).collect();
        assert_eq!(listed, newest_first(&data));
    }
    for path in ["jobs?after=x", "jobs?limit=0", "jobs?limit=1001", "datasets?after=1", "datasets?limit=1001"]
    {
        client.get(&format!("/v1/{path}")).refused(400);
    }
    assert_eq!(client.get("/v1/jobs").expect(200)["next"], Value::Null);
}

/// Rows as large as they may get, some of them damaged, and many at once asking for lists of them.
#[test]
fn long_lists_are_bounded_and_hold_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("service");
    drop(Server::start(&place, &[]));
    let mut db = Connection::open(place.join("service.sqlite")).unwrap();
    let transaction = db.transaction().unwrap();
    let (big, long) = ("x".repeat(200_000), "why ".repeat(20_000));
    let result = json!({ "text": big }).to_string();
    for k in 0..1000 {
        transaction
            .execute(
                "INSERT INTO jobs (id, kind, client, state, request, created, error, result)
                 VALUES (?1, 'fit', 'me', 'failed', ?2, 1.0, ?3, ?4)",
                [format!("{k:032x}").as_str(), &big, &long, &result],
            )
            .unwrap();
    }
    transaction.commit().unwrap();
    drop(db);
    let server = Server::start(&place, &[]);
    let client = server.client();
    let list = client.get("/v1/jobs?limit=1000");
    assert_eq!(list.expect(200)["jobs"].as_array().unwrap().len(), 1000);
    assert!(list.body.len() < 1 << 20, "the list has {} bytes", list.body.len());
    assert_eq!(client.get("/v1/jobs").expect(200)["jobs"].as_array().unwrap().len(), 50);
    // Eight lists at a time, all the time.
    let over = AtomicBool::new(false);
    let mut slowest = Duration::ZERO;
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let client = server.client();
                while !over.load(Ordering::Relaxed) {
                    client.get("/v1/jobs?limit=1000").expect(200);
                }
            });
        }
        for _ in 0..20 {
            let start = Instant::now();
            client.get("/healthz").expect(200);
            slowest = slowest.max(start.elapsed());
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(slowest < Duration::from_secs(2), "/healthz took {slowest:?} beside lists");
}
