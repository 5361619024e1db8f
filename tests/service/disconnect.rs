//! Clients who go away before they are answered.

use crate::server::{Server, until};
use serde_json::json;
use std::io::Write;
use std::net::TcpStream;

const CLIENTS: usize = 300;

#[test]
fn what_was_committed_for_clients_who_went_away_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("service"), &[]);
    let client = server.client();
    let sizes = json!({ "dim": 3, "rows": 10, "train_envs": 1, "test_envs": 1, "edges": 1 });
    let body = json!({ "kind": "simulate", "settings": sizes }).to_string();
    let address = server.url.strip_prefix("http://").unwrap();
    let request =
        format!("POST /v1/jobs HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    for k in 0..CLIENTS {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        // Gone at once, or a moment later: in the midst of the commit.
        std::thread::sleep(std::time::Duration::from_micros(200 * (k as u64 % 20)));
    }
    let count = |state: &str| {
        let list = client.get(&format!("/v1/jobs?limit=1000&state={state}")).expect(200);
        list["jobs"].as_array().unwrap().len()
    };
    until("a job has ended", || count("done") > 0);
    // Nothing is forgotten: what waits is done sooner or later, without a restart.
    until("no job waits", || count("queued") + count("running") == 0);
    assert!(count("done") > CLIENTS / 10, "too few came through: {}", count("done"));
    assert_eq!(count("failed"), 0);
}
